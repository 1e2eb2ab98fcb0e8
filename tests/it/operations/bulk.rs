//! Many at once: previewed, started, stopped, worked off by whoever comes, each payment by its own guard.

use super::{alice, bob, parked, parks, retryable, settle};
use crate::schedule::world::{World, answer, decision, declined};
use crate::support::eventually;
use punctual::domain::decision::Decision;
use punctual::domain::ids::{GatewayName, PaymentId};
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use punctual::domain::verdict::DeclineClass;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{BulkStatus, BulkStep, BulkSwitched, BulkTerms, NewBulk, ParkedFilter};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// Above this a second person is needed; the payments of these tests are of 12,345.
const LIMIT: i64 = 20_000;

fn terms() -> BulkTerms {
    BulkTerms { retryable_codes: retryable(), approve_above_minor: LIMIT }
}

fn new(filter: ParkedFilter, rate_per_s: i32) -> NewBulk {
    NewBulk { id: Os.claim_id().0, by: alice(), reason: "the gateway is back".into(), filter, rate_per_s }
}

/// Five that can be released, one that is too large, one that was declined for good, and one of another reason.
async fn crowd(world: &World) -> Vec<PaymentId> {
    let mut released = Vec::new();
    for n in 0..5 {
        released.push(parked(world, &format!("k{n}")).await.payment);
    }
    let mut large = world.payment("large", world.now().await);
    let minor = Minor::new(LIMIT + 1).expect("positive");
    large.amount = Money { minor, currency: Currency::from_code("USD").expect("in the table") };
    let due = world.create(&large).await;
    let claimed = world.claim_one(&due).await;
    settle(world, parks(claimed, Reason::OutcomeUnknown)).await;
    let due = world.due("hard").await;
    let claimed = world.claim_one(&due).await;
    let unproven = Decision { reason: Some(Reason::OutcomeUnknown), ..decision(Status::Parked) };
    settle(world, (claimed.answered(answer(declined(DeclineClass::Hard))), unproven)).await;
    world
        .run(&format!("UPDATE attempts SET code = 'stolen_card' WHERE payment_id = '{}'", due.payment))
        .await;
    let due = world.due("other").await;
    let claimed = world.claim_one(&due).await;
    settle(world, parks(claimed, Reason::ContractViolation)).await;
    released
}

fn unknown() -> ParkedFilter {
    ParkedFilter {
        reason: Some(Reason::OutcomeUnknown),
        gateway: Some(GatewayName("sandbox".into())),
        ..Default::default()
    }
}

async fn started(world: &World, filter: ParkedFilter, rate: i32) -> Uuid {
    let made = world.api.create_bulk(&new(filter, rate), LIMIT).await.expect("made");
    let switched = world.api.switch_bulk(made.id, BulkStatus::Running, &bob(), "go").await.expect("started");
    assert!(matches!(switched, BulkSwitched::Now(_)), "{switched:?}");
    made.id
}

/// Steps, whenever the rate allows, until it is done.
async fn worked_off(world: &World, id: Uuid) -> punctual::schedule::Bulk {
    loop {
        world.worker.step_bulk(&terms()).await.expect("a step");
        let bulk = world.api.bulk(id).await.expect("read").expect("exists");
        if bulk.status == BulkStatus::Done {
            return bulk;
        }
        // Time passes.
        world.run("UPDATE bulk_redrives SET next_at = now()").await;
    }
}

fn counts(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[tokio::test]
async fn it_is_previewed_exactly_and_releases_what_one_person_may_release() {
    let world = World::new().await;
    let released = crowd(&world).await;
    let made = world.api.create_bulk(&new(unknown(), 3), LIMIT).await.expect("made");
    assert_eq!((made.status, made.preview.count, made.preview.needs_approval), (BulkStatus::Stopped, 7, 1));
    assert_eq!(made.preview.by_reason, counts(&[("outcome_unknown", 7)]));
    assert_eq!(made.preview.amounts, counts(&[("EUR", 6 * 12_345), ("USD", LIMIT + 1)]));
    assert_eq!(world.worker.step_bulk(&terms()).await.expect("a step"), BulkStep::Nothing, "made stopped");
    let started = world.api.switch_bulk(made.id, BulkStatus::Running, &alice(), "go").await.expect("started");
    assert!(matches!(started, BulkSwitched::Now(_)));
    let again = world.api.switch_bulk(made.id, BulkStatus::Running, &alice(), "go").await.expect("an answer");
    assert!(matches!(again, BulkSwitched::Already(_)));
    // Parked after it was made: not its business.
    let after = parked(&world, "after").await.payment;
    assert_eq!(
        world.worker.step_bulk(&terms()).await.expect("a step"),
        BulkStep::Batch { redriven: 3, left: 0 }
    );
    assert_eq!(world.worker.step_bulk(&terms()).await.expect("a step"), BulkStep::Nothing, "three a second");
    let done = worked_off(&world, made.id).await;
    let wanted = [("declined_for_good", 1), ("needs_approval", 1), ("redriven", 5)];
    assert_eq!(done.outcomes, counts(&wanted));
    for id in released {
        assert_eq!(world.row(id).await.status, Status::Unknown);
    }
    assert_eq!(world.row(after).await.status, Status::Parked);
    let redriven: i64 = world
        .one("SELECT count(*) FROM payment_history WHERE cause = 'redriven' AND done_by = 'key:alice'")
        .await;
    assert_eq!(redriven, 5);
    let over =
        world.api.switch_bulk(made.id, BulkStatus::Stopped, &alice(), "stop").await.expect("an answer");
    assert!(matches!(over, BulkSwitched::Done(_)));
}

#[tokio::test]
async fn two_who_work_on_it_at_once_release_each_payment_once() {
    let world = World::new().await;
    crowd(&world).await;
    let id = started(&world, unknown(), 2).await;
    while world.api.bulk(id).await.expect("read").expect("exists").status != BulkStatus::Done {
        let (terms_one, terms_two) = (terms(), terms());
        let (one, two) = tokio::join!(world.worker.step_bulk(&terms_one), world.worker.step_bulk(&terms_two));
        let worked = [one.expect("a step"), two.expect("a step")];
        let batches = worked.iter().filter(|step| **step != BulkStep::Nothing).count();
        assert!(batches <= 1, "the rate is of all together: {worked:?}");
        world.run("UPDATE bulk_redrives SET next_at = now()").await;
    }
    let twice: i64 = world
        .one(
            "SELECT count(*) FROM (SELECT payment_id FROM payment_history WHERE cause = 'redriven'
              GROUP BY payment_id HAVING count(*) > 1) AS t",
        )
        .await;
    assert_eq!(twice, 0);
    let outcomes = world.api.bulk(id).await.expect("read").expect("exists").outcomes;
    assert_eq!(outcomes.values().sum::<i64>(), 7, "{outcomes:?}");
}

#[tokio::test]
async fn a_stop_stops_and_a_start_goes_on_where_it_was() {
    let world = World::new().await;
    crowd(&world).await;
    let id = started(&world, unknown(), 2).await;
    world.worker.step_bulk(&terms()).await.expect("a step");
    let stopped = world.api.switch_bulk(id, BulkStatus::Stopped, &bob(), "wait").await.expect("stopped");
    assert!(matches!(stopped, BulkSwitched::Now(_)));
    world.run("UPDATE bulk_redrives SET next_at = now()").await;
    assert_eq!(world.worker.step_bulk(&terms()).await.expect("a step"), BulkStep::Nothing);
    let left: i64 = world.one("SELECT count(*) FROM parked WHERE reason = 'outcome_unknown'").await;
    assert_eq!(left, 5);
    let go_on = world.api.switch_bulk(id, BulkStatus::Running, &bob(), "go on").await.expect("started");
    assert!(matches!(go_on, BulkSwitched::Now(_)));
    assert_eq!(worked_off(&world, id).await.outcomes.values().sum::<i64>(), 7);
}

#[tokio::test]
async fn a_batch_that_dies_has_not_happened_and_another_goes_on() {
    use sqlx::{Connection, Executor};
    let world = World::new().await;
    crowd(&world).await;
    let id = started(&world, unknown(), 500).await;
    // Whoever holds its row works on it; nobody else does, until the session ends.
    let mut dying = world.sql().await;
    dying.execute("BEGIN").await.expect("begun");
    dying.execute("SELECT 1 FROM bulk_redrives FOR UPDATE").await.expect("taken");
    dying
        .execute("UPDATE bulk_redrives SET passed = 'ffffffff-ffff-8fff-bfff-ffffffffffff'")
        .await
        .expect("at work");
    assert_eq!(world.worker.step_bulk(&terms()).await.expect("a step"), BulkStep::Nothing);
    dying.close_hard().await.expect("dead");
    let done = worked_off(&world, id).await;
    assert_eq!(done.outcomes.values().sum::<i64>(), 7);
}

/// A batch that waits for a payment which somebody else holds; answers the session that holds it.
async fn held_up(world: &World, payment: PaymentId) -> (sqlx::PgConnection, tokio::task::JoinHandle<bool>) {
    use sqlx::{AssertSqlSafe, Executor};
    let mut holder = world.sql().await;
    holder.execute("BEGIN").await.expect("begun");
    let hold = format!("SELECT 1 FROM payments WHERE id = '{payment}' FOR UPDATE");
    holder.execute(AssertSqlSafe(hold)).await.expect("held");
    let worker = world.worker.clone();
    let batch = tokio::spawn(async move { worker.step_bulk(&terms()).await.is_ok() });
    eventually("the batch waits for the payment", Duration::from_secs(20), || async {
        (world.one::<i64>(WAITING).await == 1).then_some(())
    })
    .await;
    (holder, batch)
}

/// Keepers that wait for a lock in this database.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%redrive_parked%'";

#[tokio::test]
async fn a_keeper_that_is_killed_in_the_middle_of_a_batch_released_nobody_of_it() {
    let world = World::new().await;
    let released = crowd(&world).await;
    let id = started(&world, unknown(), 500).await;
    let (holder, batch) = held_up(&world, released[2]).await;
    let killed = WAITING.replace("count(*)", "count(pg_terminate_backend(pid))");
    assert_eq!(world.one::<i64>(&killed).await, 1);
    assert!(!batch.await.expect("it ended"), "its batch is said to have failed");
    drop(holder);
    for payment in &released {
        assert_eq!(world.row(*payment).await.status, Status::Parked, "{payment}");
    }
    let stands = world.api.bulk(id).await.expect("read").expect("exists");
    assert_eq!((stands.status, stands.outcomes.len()), (BulkStatus::Running, 0));
    let wanted = [("declined_for_good", 1), ("needs_approval", 1), ("redriven", 5)];
    assert_eq!(worked_off(&world, id).await.outcomes, counts(&wanted));
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_batch_waits_for_its_end_and_nothing_follows() {
    let world = World::new().await;
    let released = crowd(&world).await;
    let id = started(&world, unknown(), 3).await;
    let (mut holder, batch) = held_up(&world, released[1]).await;
    let api = world.api.clone();
    let stop = tokio::spawn(async move { api.switch_bulk(id, BulkStatus::Stopped, &bob(), "wait").await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                 AND wait_event_type = 'Lock' AND query LIKE '%UPDATE bulk_redrives%'";
    eventually("the stop waits for the batch", Duration::from_secs(20), || async {
        (world.one::<i64>(waits).await == 1).then_some(())
    })
    .await;
    sqlx::Executor::execute(&mut holder, "COMMIT").await.expect("let go");
    assert!(batch.await.expect("it ended"), "the batch is whole");
    let stopped = stop.await.expect("it ended").expect("stopped");
    let BulkSwitched::Now(stands) = stopped else { panic!("{stopped:?}") };
    assert_eq!((stands.status, stands.outcomes), (BulkStatus::Stopped, counts(&[("redriven", 3)])));
    world.run("UPDATE bulk_redrives SET next_at = now()").await;
    assert_eq!(world.worker.step_bulk(&terms()).await.expect("a step"), BulkStep::Nothing);
    let left: i64 = world.one("SELECT count(*) FROM parked WHERE reason = 'outcome_unknown'").await;
    assert_eq!(left, 4);
}

#[tokio::test]
async fn a_selection_is_previewed_and_released_exactly_and_nobody_else() {
    let world = World::new().await;
    let released = crowd(&world).await;
    let chosen = [released[0], released[3]];
    let q = format!("id:{},{} amount:..20000", chosen[0], chosen[1]).parse().expect("a filter");
    let filter = ParkedFilter { q: Some(q), ..Default::default() };
    let made = world.api.create_bulk(&new(filter.clone(), 500), LIMIT).await.expect("made");
    assert_eq!((made.preview.count, made.preview.needs_approval), (2, 0));
    assert_eq!(made.preview.amounts, counts(&[("EUR", 2 * 12_345)]));
    assert_eq!(made.filter, filter, "it is kept as it was asked for");
    let id = started(&world, filter, 1).await;
    assert_eq!(worked_off(&world, id).await.outcomes, counts(&[("redriven", 2)]));
    for payment in released {
        let wanted = if chosen.contains(&payment) { Status::Unknown } else { Status::Parked };
        assert_eq!(world.row(payment).await.status, wanted, "{payment}");
    }
    let all = world.api.bulks(None, 10).await.expect("read");
    assert_eq!(all.iter().map(|bulk| bulk.id).collect::<Vec<_>>(), [id, made.id], "the newest first");
    let behind = world.api.bulks(Some(&all[0]), 10).await.expect("read");
    assert_eq!(behind.iter().map(|bulk| bulk.id).collect::<Vec<_>>(), [made.id]);
    assert_eq!(behind[0].status, BulkStatus::Stopped);
}

#[tokio::test]
async fn a_payment_that_the_database_refuses_is_counted_and_holds_up_nobody() {
    let world = World::new().await;
    let ids = crowd(&world).await;
    // No such row can be written; it stands for whatever a later constraint refuses.
    world
        .run(&format!(
            "ALTER TABLE payments ADD CONSTRAINT nobody_releases_it CHECK (id <> '{}' OR status = 'PARKED')",
            ids[1]
        ))
        .await;
    let id = started(&world, unknown(), 500).await;
    let done = worked_off(&world, id).await;
    let wanted = [("declined_for_good", 1), ("failed", 1), ("needs_approval", 1), ("redriven", 4)];
    assert_eq!(done.outcomes, counts(&wanted));
    assert_eq!(world.row(ids[1]).await.status, Status::Parked);
}

#[tokio::test]
async fn a_quarantine_passes_nobody_over() {
    let world = World::new().await;
    crowd(&world).await;
    let id = started(&world, unknown(), 500).await;
    world.run("UPDATE installation SET quarantined_at = now(), quarantine_reason = 'a test'").await;
    assert_eq!(
        world.worker.step_bulk(&terms()).await.expect("a step"),
        BulkStep::Batch { redriven: 0, left: 0 }
    );
    world.run("UPDATE installation SET quarantined_at = NULL, quarantine_reason = NULL").await;
    world.run("UPDATE bulk_redrives SET next_at = now()").await;
    assert_eq!(worked_off(&world, id).await.outcomes.get("redriven"), Some(&5));
}
