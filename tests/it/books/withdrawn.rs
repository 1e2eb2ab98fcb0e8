//! Reports that people take out, or read otherwise: what comes back, what is asked about again, and who may say so.

use super::desk::{
    charge, charged_at_noon, compare, days_ago, items, load, put, reconcile, report, told, with_past,
    withdraw,
};
use super::twice::{back, refund};
use crate::schedule::world::{World, gateway};
use crate::support::eventually;
use chrono::TimeDelta;
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::Operator;
use punctual::domain::matching::{Class, ItemStatus};
use punctual::domain::state::Status;
use punctual::schedule::{
    ActTerms, ApprovalVerdict, CarriedOut, CompareOrder, Decided, Finished, NewReport, Purpose,
    ReconciliationItemFilter, ReportBegun, ReportStatus, Shorter, WithdrawAnswer, Withdrawn,
};
use sqlx::Executor;
use std::time::Duration;

async fn begin(world: &World, new: &NewReport) -> ReportBegun {
    world.worker.begin_report(new, Shorter::Refuse).await.expect("an answer")
}

async fn standing(world: &World, new: &NewReport) -> ReportStatus {
    world.worker.reconciliation_run(new.id).await.expect("found").expect("kept").status
}

#[tokio::test]
async fn a_report_that_was_taken_out_stays_out_until_a_person_says_otherwise() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let lines = [charge(1, payment(world.now().await, 9, Status::Failed).id, "ch_1", day)];
    let wrong = report(day, &lines);
    load(&world, &wrong, &lines).await;
    assert_eq!(compare(&world, day).await.open, 1);
    let WithdrawAnswer::Done(run) = withdraw(&world, wrong.id).await else { panic!("one person is enough") };
    assert!(run.withdrawn_at.is_some());
    let open = ReconciliationItemFilter { status: Some(ItemStatus::Open), ..Default::default() };
    assert_eq!(items(&world, open).await, [], "what only it raised is closed with it");

    // The keeper fetches the same bytes again, under whatever name and however it reads them.
    for again in [
        report(day, &lines),
        NewReport { source: "a copy".into(), ..report(day, &lines) },
        NewReport { options: "charges=credit".into(), ..report(day, &lines) },
    ] {
        let ReportBegun::Withdrawn(found) = begin(&world, &again).await else { panic!("it came back") };
        assert_eq!((found.id, found.note.as_deref()), (wrong.id, Some("key:alice: of another account")));
    }
    // To look at it harms nobody; and another report of the day is not kept out.
    let tried = NewReport { purpose: Purpose::Trial, ..report(day, &lines) };
    assert_eq!(begin(&world, &tried).await, ReportBegun::Begun);
    world.worker.forget_trial(&tried).await.expect("forgotten");
    load(&world, &NewReport { sha256: [1; 32], source: "b".into(), ..report(day, &[]) }, &[]).await;

    let after_all = NewReport { if_withdrawn: Withdrawn::Accept, ..report(day, &lines) };
    load(&world, &after_all, &lines).await;
    assert_eq!(compare(&world, day).await.open, 1);
    assert!(matches!(begin(&world, &report(day, &lines)).await, ReportBegun::Same(_)), "it counts again");
}

#[tokio::test]
async fn what_was_being_loaded_while_people_took_the_same_bytes_out_does_not_count() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let lines = [charge(1, payment(world.now().await, 9, Status::Failed).id, "ch_1", day)];
    let (wrong, second) = (report(day, &lines), report(day, &lines));
    assert_eq!(begin(&world, &second).await, ReportBegun::Begun);
    world.worker.load_lines(&second, lines.to_vec()).await.expect("loaded");
    load(&world, &wrong, &lines).await;
    compare(&world, day).await;
    assert!(matches!(withdraw(&world, wrong.id).await, WithdrawAnswer::Done(_)));
    assert_eq!(world.worker.finish_report(&second).await.expect("an answer"), Finished::NotWhole);
}

#[tokio::test]
async fn what_a_withdrawn_report_explained_is_asked_about_again_by_two_people_s_word() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, next) = (days_ago(&world, 5).await, days_ago(&world, 4).await);
    let noon = day.and_hms_opt(12, 0, 0).expect("noon").and_utc();
    let row = payment(noon + TimeDelta::hours(1), 1, Status::Completed);
    put(&mut sql, &row).await;
    charged_at_noon(&mut sql, &row, day).await;
    let first = report(day, &[]);
    load(&world, &first, &[]).await;
    assert_eq!(compare(&world, day).await.waiting, 1);
    let lines = [charge(1, row.id, "ch_1", next)];
    let later = report(next, &lines);
    load(&world, &later, &lines).await;
    assert_eq!(compare(&world, next).await.explained, 1);

    let WithdrawAnswer::Asked(approval) = withdraw(&world, later.id).await else {
        panic!("money hangs on it")
    };
    assert!(matches!(withdraw(&world, later.id).await, WithdrawAnswer::Waiting(it) if it.id == approval.id));
    assert_eq!(standing(&world, &later).await, ReportStatus::Compared);
    let terms = ActTerms::default();
    let decide = |by: &'static str| {
        let (world, terms, id) = (&world, &terms, approval.id);
        let by = Operator(by.into());
        async move {
            world
                .api
                .decide_approval(id, &by, ApprovalVerdict::Approve, "seen", terms)
                .await
                .expect("decided")
        }
    };
    assert!(matches!(decide("key:alice").await, Decided::SamePerson(_)));
    let decided = decide("key:bob").await;
    assert!(
        matches!(&decided, Decided::Approved(_, CarriedOut::Withdrawn(run)) if *run == later.id),
        "{decided:?}"
    );
    assert_eq!(told(&world, row.id).await, [(Class::Late, "waiting".to_owned())]);
    assert_eq!(standing(&world, &first).await, ReportStatus::Loaded, "its day is to be compared again");
    let acts: String =
        world.one("SELECT detail ->> 'approvedBy' FROM operator_acts WHERE act = 'withdraw_report'").await;
    assert_eq!(acts, "key:bob");
    // The right one of the day does not have it: its grace is over, and somebody has to look.
    load(&world, &NewReport { sha256: [1; 32], ..report(next, &[]) }, &[]).await;
    compare(&world, next).await;
    assert_eq!(told(&world, row.id).await, [(Class::MissingThere, "open".to_owned())]);
    assert!(matches!(decide("key:bob").await, Decided::Already(_)));
}

#[tokio::test]
async fn what_was_read_while_a_report_was_taken_out_is_to_be_compared_again() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let now = world.now().await;
    let lines = [9, 10].map(|n| [charge(1, payment(now, n, Status::Failed).id, &format!("ch_{n}"), day)]);
    let (wrong, right) = (report(day, &lines[0]), NewReport { source: "b".into(), ..report(day, &lines[1]) });
    load(&world, &wrong, &lines[0]).await;
    load(&world, &right, &lines[1]).await;
    // The comparison has read both, and waits behind this before it ends.
    let mut holding = world.sql().await;
    holding.execute("BEGIN; LOCK TABLE lost_charges IN ACCESS EXCLUSIVE MODE").await.expect("held");
    let comparing = {
        let order = CompareOrder { gateway: gateway(), day, trial: None, grace_days: 0 };
        let worker = world.worker.clone();
        tokio::spawn(async move { worker.compare_day(&order).await })
    };
    eventually("it waits", Duration::from_secs(20), || async {
        let waits = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                     WHERE d.datname = current_database() AND l.relation = 'lost_charges'::regclass AND NOT l.granted";
        (world.one::<i64>(waits).await == 1).then_some(())
    })
    .await;
    assert!(matches!(withdraw(&world, wrong.id).await, WithdrawAnswer::Done(_)));
    holding.execute("ROLLBACK").await.expect("let go");
    comparing.await.expect("ran").expect("compared");
    assert_eq!(standing(&world, &right).await, ReportStatus::Loaded);
    compare(&world, day).await;
    assert_eq!(standing(&world, &right).await, ReportStatus::Compared);
}

#[tokio::test]
async fn a_bank_s_report_of_refunds_only_is_taken_out_by_two_and_what_it_had_is_missed() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, next) = (days_ago(&world, 5).await, days_ago(&world, 4).await);
    let row = payment(day.and_hms_opt(13, 0, 0).expect("one").and_utc(), 1, Status::Completed);
    put(&mut sql, &row).await;
    let id = payment(world.now().await, 7, Status::Refunded).id;
    refund(&world, &row, id, "re_1", 500, day).await;
    let of_bank = |source: &str, day, lines: &[_]| {
        let (format, source) = ("camt.054".into(), source.into());
        NewReport { format, source, ..report(day, lines) }
    };
    let first = of_bank("N-1", day, &[]);
    load(&world, &first, &[]).await;
    let lines = [back(1, id, Some("B-1"), 500, next)];
    let later = of_bank("N-2", next, &lines);
    load(&world, &later, &lines).await;
    for day in [day, next] {
        let compared = compare(&world, day).await;
        assert_eq!(
            (compared.open, compared.waiting),
            (0, 0),
            "it is in the other day's report: {compared:?}"
        );
    }

    let WithdrawAnswer::Asked(approval) = withdraw(&world, later.id).await else {
        panic!("money hangs on it")
    };
    let (by, terms) = (Operator("key:bob".into()), ActTerms::default());
    let decided = world.api.decide_approval(approval.id, &by, ApprovalVerdict::Approve, "seen", &terms).await;
    let decided = decided.expect("decided");
    assert!(matches!(decided, Decided::Approved(_, CarriedOut::Withdrawn(_))), "{decided:?}");
    assert_eq!(standing(&world, &first).await, ReportStatus::Loaded, "its day is to be compared again");
    compare(&world, day).await;
    assert_eq!(told(&world, row.id).await, [(Class::RefundMismatch, "waiting".to_owned())]);

    // On one that nobody here gave back nothing hangs.
    let lines = [back(1, payment(world.now().await, 9, Status::Refunded).id, Some("B-9"), 500, next)];
    let other = of_bank("N-3", next, &lines);
    load(&world, &other, &lines).await;
    assert_eq!(compare(&world, next).await.counts.get(&Class::RefundMismatch), Some(&1));
    assert!(matches!(withdraw(&world, other.id).await, WithdrawAnswer::Done(_)));
}

#[tokio::test]
async fn a_withdrawal_that_was_allowed_too_late_is_void() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let row = payment(world.now().await, 1, Status::Completed);
    put(&mut sql, &row).await;
    let day = row.id.due_day();
    let lines = [charge(1, row.id, "ch_1", day)];
    let wrong = report(day, &lines);
    load(&world, &wrong, &lines).await;
    compare(&world, day).await;
    let WithdrawAnswer::Asked(approval) = withdraw(&world, wrong.id).await else {
        panic!("money hangs on it")
    };
    load(&world, &NewReport { sha256: [1; 32], ..report(day, &lines) }, &lines).await;
    let by = Operator("key:bob".into());
    let terms = ActTerms::default();
    let decided = world
        .api
        .decide_approval(approval.id, &by, ApprovalVerdict::Approve, "seen", &terms)
        .await
        .expect("decided");
    assert!(matches!(decided, Decided::Impossible(..)), "{decided:?}");
    assert_eq!(withdraw(&world, wrong.id).await, WithdrawAnswer::DoesNotCount);
}

#[tokio::test]
async fn the_same_bytes_read_otherwise_take_the_place_of_what_was_read_before() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let lines = [charge(1, payment(world.now().await, 9, Status::Failed).id, "ch_1", day)];
    let before = report(day, &lines);
    load(&world, &before, &lines).await;
    let otherwise = NewReport {
        options: "charges=credit".into(),
        source: "a copy".into(),
        sha256: before.sha256,
        ..report(day, &lines)
    };
    load(&world, &otherwise, &lines).await;
    assert_eq!(standing(&world, &before).await, ReportStatus::Superseded, "it would count twice");
    assert_eq!(world.one::<i64>("SELECT count(*) FROM settlement_lines").await, 1);
    let ReportBegun::Same(run) =
        begin(&world, &NewReport { options: "charges=credit".into(), ..report(day, &lines) }).await
    else {
        panic!("read the same way")
    };
    assert_eq!((run.id, run.options.as_str()), (otherwise.id, "charges=credit"));
}

#[tokio::test]
async fn people_are_told_of_a_difference_when_it_is_opened_again_and_each_day_that_it_stays_open() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let id = payment(world.now().await, 9, Status::Failed).id;
    let lines = [charge(1, id, "ch_1", day)];
    let tell = async || {
        let told = world.worker.tell_open_items(&gateway()).await.expect("told");
        (told.opened.values().sum::<u64>(), told.still_open.values().sum::<u64>())
    };
    reconcile(&world, day, &lines).await;
    assert_eq!(tell().await, (1, 0));
    compare(&world, day).await;
    assert_eq!(tell().await, (0, 0), "found again, and told before");
    world.run("UPDATE reconciliation_items SET told_at = now() - interval '25 hours'").await;
    assert_eq!(tell().await, (0, 1), "another day");
    assert_eq!(tell().await, (0, 0));
    // It goes, and comes back.
    let other = payment(world.now().await, 10, Status::Failed).id;
    reconcile(&world, day, &[charge(1, other, "ch_2", day)]).await;
    assert_eq!(tell().await, (1, 0), "the other one");
    reconcile(&world, day, &lines).await;
    assert_eq!(told(&world, id).await, [(Class::MissingHere, "open".to_owned())]);
    assert_eq!(tell().await, (1, 0), "open again is told again");
}
