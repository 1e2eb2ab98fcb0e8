//! Every statement that claims, or ends what may have been charged, asks whether the database is the released one; and
//! a process notices by itself that the server came back from its past.

use super::asked_of;
use crate::schedule::world::{ACTOR, World, completed, fresh, terms};
use punctual::domain::notice::Notice;
use punctual::domain::state::Status;
use punctual::schedule::statements::Statement;
use punctual::schedule::{ClaimAnswer, Early, Loss, LossKind, Schedule, ScheduleError};
use std::time::Duration;

/// Statements that claim, or that answer "nothing will be charged".
const STATEMENTS: [&str; 8] =
    ["claim", "explain", "open_days", "recover", "claim_refunds", "cancel", "wish", "fail_by_deadline"];
/// Functions that let something be sent, or end it.
const FUNCTIONS: [&str; 5] =
    ["redrive_locked", "resolve_parked", "ask_refund", "approve_refund", "resolve_refund"];

#[tokio::test]
async fn everything_that_claims_or_ends_a_payment_asks_for_the_released_lineage() {
    let world = World::new().await;
    for name in STATEMENTS {
        let text = Statement::named(name).unwrap_or_else(|| panic!("{name}")).text;
        assert!(text.contains("lineage_is_released()"), "{name}");
    }
    for name in FUNCTIONS {
        let asks = format!(
            "SELECT coalesce(bool_and(prosrc LIKE '%lineage_is_released()%'), false) FROM pg_proc WHERE proname = '{name}'"
        );
        assert!(world.one::<bool>(&asks).await, "{name}");
    }
}

fn loss() -> Loss {
    Loss { kind: LossKind::Notice, why: "ahead of its row".to_owned(), payment: None, seen_at: None }
}

async fn is_held(world: &World, due: &Notice) -> bool {
    let answers = world.worker.claim(&terms(), std::slice::from_ref(due), &fresh(1)).await.expect("answers");
    matches!(answers[0], ClaimAnswer::Early { why: Early::Quarantined, .. })
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_nobody_s_in_a_database_that_is_not_released() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let claimed = world.claim_one(&due).await;
    let open = [(due.payment, claimed.claim_id())];
    assert!(world.worker.commits_lost(&loss()).await.expect("entered"), "the first proof");
    assert!(!world.worker.commits_lost(&loss()).await.expect("entered"), "one quarantine is enough");
    assert!(world.worker.recover(&terms(), &open).await.expect("an answer").is_empty());
    // What was answered is written in any case.
    world
        .worker
        .settle(vec![completed(claimed, "r-1")])
        .await
        .map_err(|failed| failed.error)
        .expect("settled");
    assert_eq!(world.row(due.payment).await.status, Status::Completed);
}

#[tokio::test]
async fn an_expired_claim_becomes_unknown_under_quarantine_and_no_deadline_fails() {
    let world = World::new().await;
    let (held, waiting) = (world.due("k1").await, world.due("k2").await);
    let _claimed = world.claim_one(&held).await;
    let passed = format!("UPDATE payments SET execute_before = now() WHERE id = '{}'", waiting.payment);
    world.run(&passed).await;
    world.worker.commits_lost(&loss()).await.expect("entered");
    world.reap(held.payment).await;
    assert_eq!(world.row(held.payment).await.status, Status::Unknown);
    assert_eq!(world.row(waiting.payment).await.status, Status::Pending);
    let refused = world.api.cancel(ACTOR, waiting.payment).await;
    assert!(matches!(refused, Err(ScheduleError::Unavailable(_))), "{refused:?}");
}

/// The server after a release is another one than the process remembers; going back behind it stands for a copy of
/// the server's past, whose log and releases are both the older ones.
async fn goes_back(world: &World) {
    world.run("UPDATE installation SET releases = releases - 1").await;
}

#[tokio::test]
async fn a_process_that_worked_with_the_server_before_claims_nothing_of_a_copy_of_its_past() {
    for by_scan in [false, true] {
        let world = World::new().await;
        world.run("SELECT release_lineage()").await;
        let (one, two) = (world.due("k1").await, world.due("k2").await);
        world.claim_one(&one).await;
        goes_back(&world).await;
        if by_scan {
            let late = world.worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(5)).await;
            assert!(late.expect("an answer").is_empty());
        } else {
            assert!(is_held(&world, &two).await);
        }
        let kind: String = world.one("SELECT kind FROM quarantines WHERE released_at IS NULL").await;
        assert_eq!(kind, "log");
        assert_eq!(world.row(two.payment).await.status, Status::Pending);
        // Whoever was not there before is held by what the other one found.
        world.run("SELECT release_lineage()").await;
        world.claim_one(&two).await;
    }
}

#[tokio::test]
async fn a_restored_or_promoted_server_has_a_quarantine_that_begins_at_its_last_sign_of_life() {
    let world = World::new().await;
    assert!(world.worker.observe_lineage().await.expect("seen"), "released");
    world.run("UPDATE database_runs SET lineage = 'another/00000001', last_seen_at = now() - interval '3 hours'").await;
    world.run("UPDATE installation SET released_lineage = 'another/00000001'").await;
    assert!(!world.worker.observe_lineage().await.expect("seen"));
    assert!(!world.worker.observe_lineage().await.expect("seen"), "and again");
    let view = world.api.quarantines(5, &asked_of(&[])).await.expect("seen");
    let open = view.open().expect("it is quarantined");
    assert_eq!((view.quarantines.len(), open.kind), (1, LossKind::Lineage));
    assert!(open.reason.contains("another/00000001"), "{}", open.reason);
    let back = open.since - open.lost_from;
    assert_eq!(back.num_minutes(), 181, "three hours and a minute");
}

#[tokio::test]
async fn proofs_are_counted_and_the_first_hundred_are_kept() {
    let world = World::new().await;
    let long_ago = world.now().await - chrono::TimeDelta::days(2);
    for number in 0..103 {
        let seen_at = (number == 7).then_some(long_ago);
        let loss = Loss { why: format!("proof {number}"), seen_at, ..loss() };
        world.worker.commits_lost(&loss).await.expect("entered");
    }
    let view = world.api.quarantines(5, &asked_of(&[])).await.expect("seen");
    let open = view.open().expect("it is quarantined");
    assert_eq!((open.evidence_count, view.evidence.len()), (103, 100));
    assert_eq!((open.reason.as_str(), view.evidence[99].what.as_str()), ("proof 0", "proof 99"));
    assert_eq!(open.lost_from, long_ago - chrono::TimeDelta::minutes(1), "as far back as the oldest proof");
}

#[tokio::test]
async fn a_history_row_that_is_not_there_is_named() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let now = world.now().await;
    let asked = [(now, due.payment, 1), (now, due.payment, 2)];
    let missing = world.worker.missing_history(&asked).await.expect("seen");
    assert_eq!(missing.into_iter().collect::<Vec<_>>(), [(due.payment, 2)]);
}

#[tokio::test]
async fn what_kafka_keeps_of_commits_that_people_judged_lost_proves_nothing_new() {
    let world = World::new().await;
    let (due, now) = (world.due("k1").await, world.now().await);
    let hours = |hours| now - chrono::TimeDelta::hours(hours);
    let proof = |kind, seen_at| Loss { kind, seen_at, ..loss() };
    assert!(world.worker.commits_lost(&proof(LossKind::Event, Some(hours(2)))).await.expect("entered"));
    // While it is quarantined everything is a proof.
    let asked = [(hours(1), due.payment, 2), (hours(7_200), due.payment, 3)];
    assert_eq!(world.worker.missing_history(&asked).await.expect("seen").len(), 2);
    world.run("SELECT release_lineage()").await;
    for kind in [LossKind::Event, LossKind::Notice] {
        assert!(!world.worker.commits_lost(&proof(kind, Some(hours(1)))).await.expect("answered"));
    }
    let missing = world.worker.missing_history(&asked).await.expect("seen");
    assert_eq!(missing.into_iter().collect::<Vec<_>>(), [(due.payment, 3)], "older than what was judged");
    assert!(!is_held(&world, &due).await, "claims go on");
    let quarantines: i64 = world.one("SELECT count(*) FROM quarantines").await;
    assert_eq!(quarantines, 1);
    let later = Some(world.now().await);
    assert!(world.worker.commits_lost(&proof(LossKind::Notice, later)).await.expect("entered"), "lost since");
    world.run("SELECT release_lineage()").await;
    assert!(
        world.worker.commits_lost(&proof(LossKind::Notice, None)).await.expect("entered"),
        "at no known instant"
    );
    world.run("SELECT release_lineage()").await;
    assert!(
        world.worker.commits_lost(&proof(LossKind::Log, Some(hours(1)))).await.expect("entered"),
        "another kind"
    );
}

#[tokio::test]
async fn a_loss_is_dated_before_every_start_of_the_copy_and_not_before_its_last() {
    let world = World::new().await;
    let now = world.now().await;
    let minutes = |minutes| now - chrono::TimeDelta::minutes(minutes);
    world.run("DELETE FROM database_runs").await;
    // The server that was backed up told last two hours ago; the copy was started twice since, and told for a while.
    for (name, told) in [("weeks before", 9_000), ("backed up", 120), ("the copy, at first", 20)] {
        let run = format!(
            "INSERT INTO database_runs VALUES ('{}', '{name}', '{}')",
            minutes(told + 5),
            minutes(told)
        );
        world.run(&run).await;
    }
    world.run("SELECT give_sign_of_life()").await;
    let loss = Loss { kind: LossKind::Event, seen_at: Some(minutes(90)), ..loss() };
    world.worker.commits_lost(&loss).await.expect("entered");
    let view = world.api.quarantines(1, &asked_of(&[])).await.expect("seen");
    let open = view.open().expect("open").clone();
    assert_eq!(open.lost_from, minutes(121), "a minute before the last sign of who was backed up");
    assert_eq!(open.proven_from, Some(minutes(90)));
    // Older proof: of the time before that backup.
    let older = Loss { seen_at: Some(minutes(130)), ..loss };
    world.worker.commits_lost(&older).await.expect("entered");
    let view = world.api.quarantines(1, &asked_of(&[])).await.expect("seen");
    assert_eq!(view.open().expect("open").lost_from, minutes(9_001));
}

#[tokio::test]
async fn a_shorter_log_is_dated_by_what_the_process_was_told_last() {
    let world = World::new().await;
    let due = world.due("k1").await;
    world.claim_one(&due).await;
    let told = world.now().await;
    world.run("SELECT give_sign_of_life()").await;
    goes_back(&world).await;
    assert!(is_held(&world, &world.due("k2").await).await);
    let view = world.api.quarantines(1, &asked_of(&[])).await.expect("seen");
    let proven = view.open().expect("open").proven_from.expect("an instant");
    assert!(proven <= told && told - proven < chrono::TimeDelta::seconds(30), "{proven} beside {told}");
}

#[tokio::test]
async fn a_release_by_the_owner_judges_also_what_nobody_had_noticed_and_nothing_that_comes_after() {
    let world = World::new().await;
    let due = world.due("k1").await;
    world.run("UPDATE installation SET released_lineage = 'another/00000001'").await;
    world
        .run(
            "UPDATE database_runs SET lineage = 'another/00000001', last_seen_at = now() - interval '1 hour'",
        )
        .await;
    let lost_at = world.now().await - chrono::TimeDelta::minutes(10);
    let trace = Loss { kind: LossKind::Notice, seen_at: Some(lost_at), ..loss() };
    world.run("SELECT release_lineage()").await;
    assert!(!world.worker.commits_lost(&trace).await.expect("answered"), "Kafka tells of what was judged");
    world.claim_one(&due).await;
    let fresh = Loss { seen_at: Some(world.now().await), ..trace };
    assert!(world.worker.commits_lost(&fresh).await.expect("answered"), "a loss of its own");
}

#[tokio::test]
async fn a_release_is_newer_than_every_release_that_a_restore_forgot() {
    let world = World::new().await;
    world.run("UPDATE installation SET releases = 5").await;
    let (one, two) = (world.due("k1").await, world.due("k2").await);
    world.claim_one(&one).await;
    // A backup of before all five.
    world.run("UPDATE installation SET releases = 0").await;
    assert!(is_held(&world, &two).await);
    world.run("SELECT release_lineage()").await;
    world.claim_one(&two).await;
}

#[tokio::test]
async fn who_finds_a_loss_holds_no_payment_while_it_waits_for_the_installation() {
    let world = World::new().await;
    let (one, two) = (world.due("k1").await, world.due("k2").await);
    world.claim_one(&one).await;
    goes_back(&world).await;
    let mut sql = world.sql().await;
    let mut first = sqlx::Connection::begin(&mut sql).await.expect("begun");
    // As a redrive of an old day, and everything about quarantines: the installation first, payments then.
    sqlx::query("SELECT 1 FROM installation FOR NO KEY UPDATE").execute(&mut *first).await.expect("locked");
    let worker = world.worker.clone();
    let asked = two.clone();
    let claiming =
        tokio::spawn(async move { worker.claim(&terms(), std::slice::from_ref(&asked), &fresh(1)).await });
    crate::support::eventually("the claim waits for the installation", Duration::from_secs(20), || async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                     AND wait_event_type = 'Lock' AND query LIKE '%enter_quarantine%'";
        (world.one::<i64>(waits).await == 1).then_some(())
    })
    .await;
    let row = format!("SELECT 1 FROM payments WHERE id = '{}' FOR UPDATE NOWAIT", two.payment);
    sqlx::query(sqlx::AssertSqlSafe(row)).execute(&mut *first).await.expect("nobody holds the payment");
    first.rollback().await.expect("let go");
    let answers = claiming.await.expect("joined").expect("answers");
    assert!(matches!(answers[0], ClaimAnswer::Early { why: Early::Quarantined, .. }), "{answers:?}");
}
