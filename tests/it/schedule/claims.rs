//! Claims: one winner, honest reasons, and bad rows that stop nobody.

use super::world::{ACTOR, World, fresh, notice, settings, terms};
use crate::support::eventually;
use chrono::TimeDelta;
use punctual::domain::state::Status;
use punctual::schedule::{
    Access, CancelAnswer, ClaimAnswer, Early, Loss, LossKind, RefusedBecause, Schedule, connect,
};
use sqlx::Executor;
use std::time::Duration;

fn refused(answer: &ClaimAnswer) -> Option<RefusedBecause> {
    match answer {
        ClaimAnswer::Refused(proof) => Some(proof.why()),
        ClaimAnswer::Claimed(_) | ClaimAnswer::Early { .. } => None,
    }
}

#[tokio::test]
async fn a_claim_grants_the_payee_a_lease_and_an_open_attempt() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let claimed = world.claim_one(&due).await;
    let payment = claimed.payment();
    assert_eq!((payment.status, claimed.was()), (Status::Processing, Status::Pending));
    assert_eq!((payment.fence.0, payment.attempt, payment.unanswered, payment.sends), (1, 1, 1, 1));
    assert_eq!(payment.gateway_account.as_deref(), Some("sandbox-1"));
    assert_eq!(payment.epoch_first_sent_at, Some(claimed.claimed_at()));
    assert_eq!(claimed.key_age(), None);
    use secrecy::ExposeSecret;
    assert_eq!(claimed.payee().expose_secret(), "payee-token");
    let view = world.api.find(ACTOR, due.payment).await.expect("found").expect("exists");
    assert_eq!(view.attempts.len(), 1);
    assert_eq!((view.attempts[0].claim_id, view.attempts[0].settled_at), (claimed.claim_id(), None));
}

#[tokio::test]
async fn of_many_claimers_of_one_row_one_wins() {
    let world = World::new().await;
    for round in 0..10 {
        let due = world.due(&format!("k{round}")).await;
        let tries = (0..6).map(|_| {
            let (worker, due) = (world.worker.clone(), due.clone());
            tokio::spawn(async move { worker.claim(&terms(), &[due], &fresh(1)).await.expect("an answer") })
        });
        let mut won = 0;
        for answers in futures_util::future::join_all(tries).await {
            match &answers.expect("no panic")[0] {
                ClaimAnswer::Claimed(_) => won += 1,
                other => assert_eq!(refused(other), Some(RefusedBecause::HeldByAnother)),
            }
        }
        assert_eq!(won, 1);
    }
}

#[tokio::test]
async fn a_cancel_and_a_claim_never_both_win() {
    let world = World::new().await;
    let (mut cancels, mut claims) = (0, 0);
    for round in 0..40 {
        let due = world.due(&format!("k{round}")).await;
        let (api, worker, id) = (world.api.clone(), world.worker.clone(), due.payment);
        let cancel = tokio::spawn(async move { api.cancel(ACTOR, id).await.expect("an answer") });
        let claim =
            tokio::spawn(async move { worker.claim(&terms(), &[due], &fresh(1)).await.expect("an answer") });
        let (cancel, claim) = (cancel.await.expect("no panic"), claim.await.expect("no panic"));
        match (&cancel, &claim[0]) {
            (CancelAnswer::Cancelled(_), other) => {
                assert_eq!(refused(other), Some(RefusedBecause::Cancelled));
                cancels += 1;
            }
            (CancelAnswer::Refused(view), ClaimAnswer::Claimed(_)) => {
                assert_eq!(view.payment.status, Status::Processing);
                claims += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(cancels + claims, 40);
}

#[tokio::test]
async fn a_batch_answers_each_notice_in_its_place_over_several_days() {
    let world = World::new().await;
    let today = world.due("k1").await;
    let yesterday = world.create(&world.payment("k2", world.now().await - TimeDelta::days(1))).await;
    let ahead = world.create(&world.payment("k3", world.now().await + TimeDelta::minutes(1))).await;
    let mut unknown = today.clone();
    unknown.payment = world.payment("k4", today.due_at).id;
    let mut stale = yesterday.clone();
    stale.attempt = -1;
    let batch = [ahead.clone(), today.clone(), unknown, yesterday.clone(), stale, today.clone()];
    let answers = world.worker.claim(&terms(), &batch, &fresh(6)).await.expect("answers");
    assert_eq!(answers.len(), 6);
    match &answers[0] {
        ClaimAnswer::Early { until, why: Early::NotDue } => assert_eq!(*until, ahead.due_at),
        other => panic!("{other:?}"),
    }
    assert_eq!(refused(&answers[2]), Some(RefusedBecause::NoSuchPayment));
    let won = |place: usize| matches!(answers[place], ClaimAnswer::Claimed(_));
    assert!(won(3), "{answers:?}");
    // The same notice twice in one batch is one claim.
    assert!(won(1) != won(5), "{answers:?}");
    assert_eq!(refused(&answers[4]), Some(RefusedBecause::HeldByAnother));
}

fn lost(why: &str) -> Loss {
    Loss { kind: LossKind::Notice, why: why.to_owned(), payment: None, seen_at: None }
}

#[tokio::test]
async fn quarantine_holds_every_claim_and_cancel_until_it_is_released() {
    let world = World::new().await;
    let due = world.due("k1").await;
    world.worker.commits_lost(&lost("an authentic notice ahead of its row")).await.expect("set");
    let answers = world.worker.claim(&terms(), std::slice::from_ref(&due), &fresh(1)).await.expect("answers");
    assert!(matches!(answers[0], ClaimAnswer::Early { why: Early::Quarantined, .. }), "{answers:?}");
    let late = world.worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(5)).await.expect("an answer");
    assert!(late.is_empty());
    world.api.cancel(ACTOR, due.payment).await.expect_err("503");
    world.run("SELECT release_lineage()").await;
    world.claim_one(&due).await;
}

#[tokio::test]
async fn another_timeline_is_quarantine_too() {
    let world = World::new().await;
    let due = world.due("k1").await;
    world.run("UPDATE installation SET released_lineage = 'another'").await;
    let answers = world.worker.claim(&terms(), std::slice::from_ref(&due), &fresh(1)).await.expect("answers");
    assert!(matches!(answers[0], ClaimAnswer::Early { why: Early::Quarantined, .. }), "{answers:?}");
}

/// Breaks a row so that its claim violates a CHECK.
async fn spoil(world: &World, due: &punctual::domain::notice::Notice) {
    let id = due.payment;
    world.run(&format!("UPDATE payments SET max_sends = 1, sends = 1, attempt = 1 WHERE id = '{id}'")).await;
}

#[tokio::test]
async fn one_bad_row_is_parked_and_the_rest_of_its_batch_is_claimed() {
    let world = World::new().await;
    let (one, mut bad, two) = (world.due("k1").await, world.due("k2").await, world.due("k3").await);
    spoil(&world, &bad).await;
    bad.attempt = 1;
    let batch = [one, bad.clone(), two];
    let answers = world.worker.claim(&terms(), &batch, &fresh(3)).await.expect("answers");
    assert!(matches!(answers[0], ClaimAnswer::Claimed(_)), "{answers:?}");
    assert_eq!(refused(&answers[1]), Some(RefusedBecause::Parked));
    assert!(matches!(answers[2], ClaimAnswer::Claimed(_)), "{answers:?}");
    assert_eq!(world.row(bad.payment).await.status, Status::Parked);
    let evidence = world.one::<String>("SELECT evidence FROM parked").await;
    assert!(evidence.contains("budget_is_kept"), "{evidence}");
}

#[tokio::test]
async fn a_row_that_can_not_be_read_is_parked_and_stops_neither_its_batch_nor_the_late_scan() {
    let world = World::new().await;
    let (one, bad, two) = (world.due("k1").await, world.due("k2").await, world.due("k3").await);
    let spoil = |id| format!("UPDATE payment_details SET payee_sealed = '\\xff' WHERE id = '{id}'");
    world.run(&spoil(bad.payment)).await;
    let batch = [one, bad.clone(), two];
    let answers = world.worker.claim(&terms(), &batch, &fresh(3)).await.expect("answers");
    assert!(matches!(answers[0], ClaimAnswer::Claimed(_)), "{answers:?}");
    assert_eq!(refused(&answers[1]), Some(RefusedBecause::Parked));
    assert!(matches!(answers[2], ClaimAnswer::Claimed(_)), "{answers:?}");
    let status = |id| format!("SELECT status || ' ' || unanswered FROM payments WHERE id = '{id}'");
    assert_eq!(world.one::<String>(&status(bad.payment)).await, "PARKED 0");

    let (bad, good) = (world.due("k4").await, world.due("k5").await);
    world.run(&spoil(bad.payment)).await;
    let scan = || {
        let worker = world.worker.clone();
        async move { worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(5)).await }
    };
    assert!(scan().await.expect("answer").is_empty(), "the pass that finds the bad row claims none");
    assert_eq!(world.one::<String>(&status(bad.payment)).await, "PARKED 0");
    let claimed = scan().await.expect("answer");
    assert_eq!(claimed.iter().map(|claimed| claimed.payment().id).collect::<Vec<_>>(), [good.payment]);
}

#[tokio::test]
async fn a_reason_of_a_later_build_does_not_keep_its_row_from_being_claimed() {
    let world = World::new().await;
    let due = world.due("k1").await;
    world
        .run(&format!("UPDATE payments SET status_reason = 'of_tomorrow' WHERE id = '{}'", due.payment))
        .await;
    assert_eq!(world.claim_one(&due).await.payment().reason, None);
}

#[tokio::test]
async fn a_batch_of_bad_rows_only_is_a_defect_and_parks_none() {
    let world = World::new().await;
    let mut batch = Vec::new();
    for n in 0..3 {
        let mut bad = world.due(&format!("k{n}")).await;
        spoil(&world, &bad).await;
        bad.attempt = 1;
        batch.push(bad);
    }
    world.worker.claim(&terms(), &batch, &fresh(3)).await.expect_err("a defect");
    assert_eq!(world.one::<i64>("SELECT count(*) FROM parked").await, 0);
}

#[tokio::test]
async fn the_late_scan_takes_the_oldest_first_and_sheds_a_bad_row() {
    let world = World::new().await;
    let now = world.now().await;
    let mut ids = Vec::new();
    for n in [30_i64, 50, 20, 40] {
        let new = world.payment(&format!("k{n}"), now - TimeDelta::seconds(n));
        ids.push((n, world.create(&new).await));
    }
    spoil(&world, &ids[1].1).await;
    let none = world.worker.claim_late(&terms(), Duration::from_secs(15), &[], &[]).await;
    assert!(none.expect("an answer").is_empty());
    let scan = |count| {
        let worker = world.worker.clone();
        async move {
            worker.claim_late(&terms(), Duration::from_secs(15), &[], &fresh(count)).await.expect("answer")
        }
    };
    assert!(scan(3).await.is_empty(), "the pass that finds the bad row claims none");
    assert_eq!(world.row(ids[1].1.payment).await.status, Status::Parked);
    let claimed = scan(2).await;
    let order: Vec<_> = claimed.iter().map(|claimed| claimed.payment().id).collect();
    assert_eq!(order, [ids[3].1.payment, ids[0].1.payment]);
    assert_eq!(scan(5).await.len(), 1);
    assert!(scan(5).await.is_empty());
}

#[tokio::test]
async fn recovery_finds_the_claims_that_are_ours_and_no_other() {
    let world = World::new().await;
    let (one, two) = (world.due("k1").await, world.due("k2").await);
    let claimed = world.claim(&[one.clone(), two.clone()]).await;
    let ids = fresh(1);
    let asked = [(one.payment, claimed[0].claim_id()), (two.payment, ids[0])];
    let ours = world.worker.recover(&terms(), &asked).await.expect("an answer");
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0].payment(), claimed[0].payment());
    assert_eq!((ours[0].claim_id(), ours[0].was()), (claimed[0].claim_id(), Status::Pending));
    assert_eq!(ours[0].key_age(), claimed[0].key_age());
    assert_eq!(ours[0].claimed_at(), claimed[0].claimed_at());
    world.reap(one.payment).await;
    assert!(world.worker.recover(&terms(), &asked).await.expect("an answer").is_empty());
}

#[tokio::test]
async fn while_a_worker_is_away_the_late_scan_of_the_others_does_not_wait() {
    let world = World::new().await;
    let due = world.create(&world.payment("k1", world.now().await - TimeDelta::seconds(6))).await;
    let scan = || async {
        world.worker.claim_late(&terms(), Duration::from_secs(60), &[], &fresh(1)).await.expect("an answer")
    };
    assert!(scan().await.is_empty(), "six seconds are not late");
    world.worker.worker_leaves("slot-1", Duration::from_secs(60)).await.expect("told");
    world.run("UPDATE workers SET away_until = now() - interval '1 s'").await;
    assert!(scan().await.is_empty(), "it was away long ago");
    world.worker.worker_leaves("slot-1", Duration::from_secs(60)).await.expect("told again");
    let claimed = scan().await;
    assert_eq!(claimed.iter().map(|it| it.payment().id).collect::<Vec<_>>(), [due.payment]);
}

#[tokio::test]
async fn a_held_notice_is_deferred_only_where_the_late_scan_owns_its_row() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let ahead = world.create(&world.payment("k2", world.now().await + TimeDelta::minutes(1))).await;
    let mut stale = due.clone();
    stale.attempt = 3;
    let answers = world.worker.defer(&[ahead, due.clone(), stale]).await.expect("answers");
    assert_eq!(answers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let claimed = world.claim_one(&due).await;
    let held = world.worker.defer(&[notice(claimed.payment()), due]).await.expect("answers");
    assert!(held.iter().all(Option::is_none));
}

#[tokio::test]
async fn a_database_or_a_role_that_answers_commits_too_early_is_not_followed() {
    let world = World::new().await;
    let name: String = world.one("SELECT current_database()::text").await;
    let of_the_server: String =
        world.one("SELECT setting FROM pg_settings WHERE name = 'synchronous_commit'").await;
    for (said, kept) in
        [("SET synchronous_commit = off", "on"), ("SET synchronous_commit = remote_apply", "remote_apply")]
    {
        world.run(&format!("ALTER DATABASE {name} {said}")).await;
        let worker = connect(&settings(&world.database.url), Access::Worker).await.expect("connects");
        assert_eq!(worker.durability().await.expect("an answer").synchronous_commit, kept, "{said}");
        worker.close().await;
    }
    // What the whole server says is heard, so that the doctor can tell it.
    world.run(&format!("ALTER DATABASE {name} RESET synchronous_commit")).await;
    let worker = connect(&settings(&world.database.url), Access::Worker).await.expect("connects");
    assert_eq!(worker.durability().await.expect("an answer").synchronous_commit, of_the_server);
    worker.close().await;
}

#[tokio::test]
async fn a_claim_that_waited_for_a_lock_judges_the_row_as_it_became_whatever_the_databases_isolation() {
    let world = World::new().await;
    let notice = world.due("k1").await;
    let name: String = world.one("SELECT current_database()::text").await;
    for strict in ["repeatable read", "serializable"] {
        world.run(&format!("ALTER DATABASE {name} SET default_transaction_isolation = '{strict}'")).await;
        let worker = connect(&settings(&world.database.url), Access::Worker).await.expect("connects");
        let mut other = world.sql().await;
        other.execute("BEGIN").await.expect("a transaction");
        let later = "UPDATE payments SET next_attempt_at = next_attempt_at + interval '1 hour'";
        other.execute(later).await.expect("a lock");
        let (terms, notices, ids) = (terms(), [notice.clone()], fresh(1));
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let (claimed, ()) = tokio::join!(worker.claim(&terms, &notices, &ids), async {
            eventually("the claim waits for the lock", Duration::from_secs(10), || async {
                (world.one::<i64>(waiting).await > 0).then_some(())
            })
            .await;
            other.execute("COMMIT").await.expect("committed");
        });
        let answers = claimed.expect("an answer and no error");
        assert!(matches!(answers[..], [ClaimAnswer::Early { .. }]), "{strict}: {answers:?}");
        worker.close().await;
    }
}
