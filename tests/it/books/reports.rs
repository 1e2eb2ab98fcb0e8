//! Reports that come twice, too early, too short or wrong, and what a later one settles.

use super::desk::{
    charge, charged_at_noon, compare, days_ago, items, load, paid, put, reconcile, report, told, with_past,
    withdraw,
};
use crate::schedule::world::{World, gateway};
use crate::support::eventually;
use chrono::TimeDelta;
use punctual::domain::guard_cases::payment;
use punctual::domain::ids::{Operator, PaymentId};
use punctual::domain::matching::Class;
use punctual::domain::state::Status;
use punctual::schedule::{
    CompareOrder, Finished, NewReport, Purpose, ReportBegun, ReportStatus, Shorter, WithdrawAnswer,
};
use sqlx::{AssertSqlSafe, Executor};
use std::time::Duration;

async fn begin(world: &World, new: &NewReport, if_shorter: Shorter) -> ReportBegun {
    world.worker.begin_report(new, if_shorter).await.expect("an answer")
}

#[tokio::test]
async fn the_same_file_twice_changes_nothing_and_a_shorter_one_has_to_be_wanted() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let row = payment(world.now().await, 1, Status::Completed);
    put(&mut sql, &row).await;
    let day = row.id.due_day();
    let lines = [
        charge(1, row.id, "ch_1", day),
        charge(2, payment(world.now().await, 9, Status::Failed).id, "ch_2", day),
    ];
    let first = load(&world, &report(day, &lines), &lines).await;
    assert_eq!(compare(&world, day).await.open, 1);
    let same = NewReport { source: "another name".into(), ..report(day, &lines) };
    let ReportBegun::Same(run) = begin(&world, &same, Shorter::Refuse).await else {
        panic!("the same bytes")
    };
    assert_eq!((run.id, run.status), (first.id, ReportStatus::Compared));

    let shorter = report(day, &lines[..1]);
    let ReportBegun::Shorter(before) = begin(&world, &shorter, Shorter::Refuse).await else {
        panic!("shorter")
    };
    assert_eq!(before.id, first.id);
    assert_eq!(begin(&world, &shorter, Shorter::Accept).await, ReportBegun::Begun);
    world.worker.load_lines(&shorter, lines[..1].to_vec()).await.expect("loaded");
    assert!(matches!(world.worker.finish_report(&shorter).await.expect("finished"), Finished::Counts(_)));
    assert_eq!(
        world.one::<i64>("SELECT count(*) FROM settlement_lines").await,
        1,
        "the old one's lines are gone"
    );
    let compared = compare(&world, day).await;
    assert_eq!((compared.open, compared.gone, compared.matched), (0, 1, 1));
    let old = world.worker.reconciliation_run(first.id).await.expect("found").expect("kept");
    assert_eq!((old.status, old.superseded_by), (ReportStatus::Superseded, Some(shorter.id)));
    assert_eq!(items(&world, Default::default()).await[0].what.status.as_str(), "superseded");
}

#[tokio::test]
async fn the_planner_knows_the_lines_of_a_report_before_they_are_compared() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let knows = |table: &str, report: &NewReport| {
        format!(
            "SELECT count(*) FROM pg_class c JOIN pg_stats s ON s.tablename = c.relname AND s.attname = 'run_id'
             WHERE c.relname = '{table}' AND c.reltuples = 3 AND s.most_common_vals::text LIKE '%{}%'",
            report.id
        )
    };
    let table = format!("settlement_lines_{}", day.format("%Y%m%d"));
    let id = payment(world.now().await, 1, Status::Completed).id;
    let lines = [charge(1, id, "ch_1", day), charge(2, id, "ch_2", day), charge(3, id, "ch_3", day)];
    let counts = report(day, &lines);
    load(&world, &counts, &lines).await;
    assert_eq!(world.one::<i64>(&knows(&table, &counts)).await, 1);

    let before = days_ago(&world, 2).await;
    let trial = NewReport { purpose: Purpose::Trial, ..report(before, &lines) };
    let table = format!("settlement_lines_{}", before.format("%Y%m%d"));
    assert_eq!(begin(&world, &trial, Shorter::Refuse).await, ReportBegun::Begun);
    world.worker.load_lines(&trial, lines.to_vec()).await.expect("loaded");
    assert_eq!(world.one::<i64>(&knows(&table, &trial)).await, 0, "not yet");
    world.worker.ready_lines(&trial).await.expect("ready");
    assert_eq!(world.one::<i64>(&knows(&table, &trial)).await, 1);
}

#[tokio::test]
async fn a_report_counts_with_all_its_lines_or_not_at_all() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let id = payment(world.now().await, 1, Status::Completed).id;
    let lines = [charge(1, id, "ch_1", day), charge(2, id, "ch_2", day)];
    let new = report(day, &lines);
    assert_eq!(begin(&world, &new, Shorter::Refuse).await, ReportBegun::Begun);
    world.worker.load_lines(&new, lines[..1].to_vec()).await.expect("loaded");
    assert_eq!(world.worker.finish_report(&new).await.expect("an answer"), Finished::NotWhole);
    world.worker.fail_report(&new, "line 2: cut short").await.expect("given up");
    assert_eq!(world.one::<i64>("SELECT count(*) FROM settlement_lines").await, 0);
    let failed = world.worker.reconciliation_run(new.id).await.expect("found").expect("kept");
    assert_eq!((failed.status, failed.note.as_deref()), (ReportStatus::Failed, Some("line 2: cut short")));
    // It does not stand in the way of the right one.
    load(&world, &report(day, &lines), &lines).await;
}

#[tokio::test]
async fn a_report_from_before_its_day_is_none_and_one_from_during_it_is_not_whole() {
    let world = World::new().await;
    let today = days_ago(&world, 0).await;
    let tomorrow = today + TimeDelta::days(1);
    assert_eq!(begin(&world, &report(tomorrow, &[]), Shorter::Refuse).await, ReportBegun::DayOutOfRange);
    let before = NewReport { seen_at: world.now().await - TimeDelta::days(2), ..report(today, &[]) };
    assert_eq!(begin(&world, &before, Shorter::Refuse).await, ReportBegun::DayOutOfRange);
    let during = NewReport { seen_at: world.now().await, ..report(today, &[]) };
    let run = load(&world, &during, &[]).await;
    assert!(!run.is_complete, "whatever it says of itself");
    // The same bytes, seen after the day, are the whole day.
    assert_eq!(begin(&world, &report(today, &[]), Shorter::Refuse).await, ReportBegun::Begun);
}

#[tokio::test]
async fn a_charge_is_late_then_missing_or_explained_by_the_next_day_s_report() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, next, after) =
        (days_ago(&world, 5).await, days_ago(&world, 4).await, days_ago(&world, 3).await);
    let (on_time, shifted, dropped) =
        (paid(&mut sql, 1, day).await, paid(&mut sql, 2, day).await, paid(&mut sql, 3, day).await);
    let compared = reconcile(&world, day, &[charge(1, on_time.id, "ch_1", day)]).await;
    assert_eq!((compared.matched, compared.open, compared.waiting), (1, 0, 2));
    let late = (Class::Late, "waiting".to_owned());
    assert_eq!(told(&world, shifted.id).await, std::slice::from_ref(&late));
    // Not whole yet: nobody is called missing by it.
    let lines = [charge(1, shifted.id, "ch_2", next)];
    load(&world, &NewReport { is_complete: false, ..report(next, &lines) }, &lines).await;
    let compared = compare(&world, next).await;
    assert_eq!((compared.explained, compared.ended.len()), (1, 0));
    assert_eq!(told(&world, shifted.id).await, [(Class::Late, "explained".to_owned())]);
    assert_eq!(told(&world, dropped.id).await, [late]);
    // Whole: its time is over.
    load(&world, &NewReport { sha256: [1; 32], ..report(next, &lines) }, &lines).await;
    let compared = compare(&world, next).await;
    assert_eq!(compared.ended.get(&Class::MissingThere), Some(&1));
    assert_eq!(told(&world, dropped.id).await, [(Class::MissingThere, "open".to_owned())]);
    // Compared again, the day says the same; and a report that comes very late explains even this.
    assert_eq!(
        compare(&world, day).await.counts,
        std::collections::BTreeMap::from([(Class::MissingThere, 1)])
    );
    reconcile(&world, after, &[charge(1, dropped.id, "ch_3", after)]).await;
    assert_eq!(told(&world, dropped.id).await, [(Class::MissingThere, "explained".to_owned())]);
    assert_eq!(told(&world, on_time.id).await, []);
}

#[tokio::test]
async fn a_charge_that_was_learned_of_days_later_is_explained_by_the_report_of_its_due_day_that_comes_last() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (due, learned) = (days_ago(&world, 6).await, days_ago(&world, 3).await);
    let noon = due.and_hms_opt(12, 0, 0).expect("noon").and_utc();
    let row = payment(noon + TimeDelta::hours(1), 1, Status::Completed);
    put(&mut sql, &row).await;
    charged_at_noon(&mut sql, &row, learned).await;
    reconcile(&world, learned, &[]).await;
    assert_eq!(told(&world, row.id).await, [(Class::Late, "waiting".to_owned())]);
    let compared = reconcile(&world, due, &[charge(1, row.id, "ch_1", due)]).await;
    assert_eq!((compared.matched, compared.explained), (1, 1));
    assert_eq!(told(&world, row.id).await, [(Class::Late, "explained".to_owned())]);
}

#[tokio::test]
async fn a_charge_of_an_id_that_has_no_row_is_lost_until_its_report_is_withdrawn() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let ghost: PaymentId = payment(world.now().await, 77, Status::Pending).id;
    let lines = [charge(1, ghost, "ch_1", day)];
    let run = load(&world, &report(day, &lines), &lines).await;
    assert_eq!(compare(&world, day).await.lost, 1);
    let intent: Vec<u8> = world.one("SELECT intent FROM lost_charges").await;
    assert_eq!(intent, ghost.as_uuid().as_bytes()[6..], "the id without its time");
    assert_eq!(compare(&world, day).await.lost, 1, "still the same one");
    let by = Operator("key:alice".into());
    let item = super::desk::items(&world, Default::default()).await.remove(0);
    world.api.dismiss_item(item.number, &by, "not ours").await.expect("asked").expect("dismissed");
    compare(&world, day).await;
    assert_eq!(
        world.one::<i64>("SELECT count(*) FROM lost_charges").await,
        1,
        "a dismissal charges nobody twice"
    );
    assert!(matches!(withdraw(&world, run.id).await, WithdrawAnswer::Done(_)));
    assert_eq!(withdraw(&world, run.id).await, WithdrawAnswer::DoesNotCount);
    compare(&world, day).await;
    assert_eq!(world.one::<i64>("SELECT count(*) FROM lost_charges").await, 0);
    // The right report of the day is not kept out.
    reconcile(&world, day, &[]).await;
}

#[tokio::test]
async fn a_trial_tells_what_would_be_found_and_leaves_nothing() {
    let world = World::new().await;
    let day = days_ago(&world, 1).await;
    let lines = [charge(1, payment(world.now().await, 5, Status::Pending).id, "ch_1", day)];
    let new = NewReport { purpose: Purpose::Trial, ..report(day, &lines) };
    assert_eq!(begin(&world, &new, Shorter::Refuse).await, ReportBegun::Begun);
    world.worker.load_lines(&new, lines.to_vec()).await.expect("loaded");
    let order = CompareOrder { gateway: gateway(), day, trial: Some(new.id), grace_days: 1 };
    let compared = world.worker.compare_day(&order).await.expect("compared");
    assert_eq!(compared.sample.len(), 1);
    assert_eq!(compared.sample[0].class, Class::MissingHere);
    world.worker.forget_trial(&new).await.expect("forgotten");
    // Nor when the very same bytes count already: it is looked at again, once, and what counts is left alone.
    let counts = load(&world, &report(day, &lines), &lines).await;
    let again = NewReport { source: "a copy".into(), purpose: Purpose::Trial, ..report(day, &lines) };
    assert_eq!(begin(&world, &again, Shorter::Refuse).await, ReportBegun::Begun);
    world.worker.load_lines(&again, lines.to_vec()).await.expect("loaded");
    let order = CompareOrder { trial: Some(again.id), ..order };
    let compared = world.worker.compare_day(&order).await.expect("compared");
    assert_eq!((compared.sample.len(), compared.counts.get(&Class::MissingHere)), (1, Some(&1)));
    world.worker.forget_trial(&again).await.expect("forgotten");
    let stands = world.worker.reconciliation_run(counts.id).await.expect("found").expect("kept");
    assert_eq!(stands.status, ReportStatus::Loaded, "nothing was compared with it");
    world.run("TRUNCATE settlement_lines, reconciliation_runs").await;
    for table in ["settlement_lines", "reconciliation_runs", "reconciliation_items", "lost_charges"] {
        assert_eq!(world.one::<i64>(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
}

#[tokio::test]
async fn lines_are_forgotten_by_the_day_and_the_differences_stay() {
    let world = World::new().await;
    let (old, new) = (days_ago(&world, 6).await, days_ago(&world, 1).await);
    let id = payment(world.now().await, 5, Status::Pending).id;
    reconcile(&world, old, &[charge(1, id, "ch_1", old)]).await;
    reconcile(&world, new, &[charge(1, id, "ch_2", new)]).await;
    assert_eq!(world.worker.drop_old_settlements(5).await.expect("dropped"), 1);
    assert_eq!(world.worker.drop_old_settlements(5).await.expect("dropped"), 0);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM settlement_lines").await, 1);
    assert_eq!(items(&world, Default::default()).await.len(), 2);
    for drop in ["drop_old_settlements", "drop_drained_webhook_days"] {
        for keep in ["-1", "0", "NULL"] {
            let mut sql = world.sql().await;
            sql.execute("SET ROLE punctual_worker").await.expect("a member");
            let act = format!("SELECT {drop}({keep})");
            let refused =
                sql.execute(AssertSqlSafe(act)).await.expect_err("days to come are none that are old");
            let code = refused.as_database_error().and_then(|db| db.code().map(|code| code.into_owned()));
            assert_eq!(code.as_deref(), Some("22023"), "{drop}({keep}): {refused}");
        }
    }
    assert_eq!(world.one::<i64>("SELECT count(*) FROM settlement_lines").await, 1, "nothing was dropped");
}

#[tokio::test]
async fn of_two_that_load_the_same_bytes_at_once_the_second_finds_them_counted() {
    let world = World::new().await;
    let row = payment(world.now().await, 1, Status::Completed);
    put(&mut world.sql().await, &row).await;
    let day = row.id.due_day();
    let lines = [charge(1, row.id, "ch_1", day)];
    let both = [report(day, &lines), report(day, &lines)];
    for new in &both {
        assert_eq!(begin(&world, new, Shorter::Refuse).await, ReportBegun::Begun);
        world.worker.load_lines(new, lines.to_vec()).await.expect("loaded");
    }
    let finish = async |new| world.worker.finish_report(new).await.expect("finished");
    assert!(matches!(finish(&both[0]).await, Finished::Counts(run) if run.id == both[0].id));
    assert!(matches!(finish(&both[1]).await, Finished::Same(run) if run.id == both[0].id));
    let kept = format!("SELECT count(*) FROM settlement_lines WHERE run_id = '{}'", both[0].id);
    assert_eq!(world.one::<i64>(&kept).await, 1, "nothing was taken from under a comparison");
}

#[tokio::test]
async fn no_report_takes_the_place_of_another_while_a_comparison_of_its_gateway_reads() {
    let world = World::new().await;
    let day = days_ago(&world, 3).await;
    let lines = [charge(1, payment(world.now().await, 9, Status::Failed).id, "ch_1", day)];
    let new = report(day, &lines);
    assert_eq!(begin(&world, &new, Shorter::Refuse).await, ReportBegun::Begun);
    world.worker.load_lines(&new, lines.to_vec()).await.expect("loaded");
    let mut reading = world.sql().await;
    let gateway = gateway().0;
    let act =
        |what: &str| AssertSqlSafe(format!("SELECT {what}(hashtextextended('reconcile {gateway}', 1810))"));
    reading.execute(act("pg_advisory_lock")).await.expect("held");
    let finishing = {
        let (worker, new) = (world.worker.clone(), new.clone());
        tokio::spawn(async move { worker.finish_report(&new).await })
    };
    eventually("it waits", Duration::from_secs(20), || async {
        let waits = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                     WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted";
        (world.one::<i64>(waits).await == 1).then_some(())
    })
    .await;
    let stands = world.worker.reconciliation_run(new.id).await.expect("found").expect("kept");
    assert_eq!(stands.status, ReportStatus::Loading);
    reading.execute(act("pg_advisory_unlock")).await.expect("let go");
    assert!(matches!(finishing.await.expect("ran").expect("finished"), Finished::Counts(_)));
}

#[tokio::test]
async fn the_same_bytes_seen_later_are_compared_again_and_count_as_seen_then() {
    let world = World::new().await;
    let day = days_ago(&world, 3).await;
    let lines = [charge(1, payment(world.now().await, 9, Status::Failed).id, "ch_1", day)];
    let first = report(day, &lines);
    load(&world, &first, &lines).await;
    compare(&world, day).await;
    let later = NewReport { seen_at: first.seen_at + TimeDelta::hours(1), ..report(day, &lines) };
    for (again, seen_at, status) in [
        (NewReport { seen_at: first.seen_at, ..later.clone() }, first.seen_at, ReportStatus::Compared),
        (later.clone(), later.seen_at, ReportStatus::Loaded),
        (NewReport { seen_at: first.seen_at, ..later.clone() }, later.seen_at, ReportStatus::Loaded),
    ] {
        let ReportBegun::Same(run) = begin(&world, &again, Shorter::Refuse).await else {
            panic!("the same bytes")
        };
        let stands = world.worker.reconciliation_run(first.id).await.expect("found").expect("kept");
        assert_eq!((run.id, stands.seen_at, stands.status), (first.id, seen_at, status));
    }
    compare(&world, day).await;
    let stands = world.worker.reconciliation_run(first.id).await.expect("found").expect("kept");
    assert_eq!((stands.seen_at, stands.status), (later.seen_at, ReportStatus::Compared));
}
