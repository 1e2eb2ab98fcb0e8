//! Promises broken by force: what the running system sees of it is counted under the promise's number.

use super::world::{ACTOR, World, charged, completed, decision, notice};
use metrics::{Recorder, set_default_local_recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use punctual::domain::ids::PaymentId;
use punctual::domain::state::Status;
use punctual::domain::verdict::NotSent;
use punctual::platform::metrics::{Exposition, recorder, register};
use punctual::schedule::{Answered, Schedule};

/// A recorder of this thread's own; a test's runtime has no other.
pub fn counted() -> PrometheusRecorder {
    let recorder = recorder().expect("a recorder");
    register(&recorder as &dyn Recorder, &["sandbox"]);
    recorder
}

/// The numbers of all promises that were seen broken, each with how often.
pub fn seen(recorder: &PrometheusRecorder) -> Vec<(String, u64)> {
    let text = Exposition::of(recorder).render();
    let series = text.lines().filter_map(|line| line.strip_prefix("punctual_invariant_violations_total{"));
    let counts = series.filter_map(|rest| {
        let (labels, count) = rest.split_once("} ")?;
        let number = labels.strip_prefix("invariant=\"")?.strip_suffix('"')?;
        Some((number.to_owned(), count.parse::<u64>().ok()?))
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

pub fn once(number: &str) -> Vec<(String, u64)> {
    vec![(number.to_owned(), 1)]
}

async fn settle(world: &World, outcome: (Answered, punctual::domain::decision::Decision)) {
    world.worker.settle(vec![outcome]).await.map_err(|failed| failed.error).expect("settled");
}

async fn read_history(world: &World, id: PaymentId) {
    world.api.history(ACTOR, id).await.expect("an answer").expect("a history");
}

#[tokio::test]
async fn a_sound_life_breaks_no_promise_and_every_series_exists_as_zero() {
    let recorder = counted();
    let _guard = set_default_local_recorder(&recorder);
    let world = World::new().await;
    let due = world.due("k1").await;
    let zombie = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let again = world.claim_one(&notice(&world.row(due.payment).await)).await;
    settle(&world, completed(zombie, "ch_1")).await;
    settle(&world, completed(again, "ch_1")).await;
    read_history(&world, due.payment).await;
    assert_eq!(seen(&recorder), []);
    let zero = "punctual_invariant_violations_total{invariant=\"M1\"} 0";
    assert!(Exposition::of(&recorder).render().lines().any(|line| line == zero));
}

#[tokio::test]
async fn a_second_charge_is_seen_also_where_the_late_one_is_heard_of_first() {
    let recorder = counted();
    let _guard = set_default_local_recorder(&recorder);
    let world = World::new().await;
    let due = world.due("k1").await;
    let zombie = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let again = world.claim_one(&notice(&world.row(due.payment).await)).await;
    settle(&world, completed(zombie, "ch_1")).await;
    assert_eq!(seen(&recorder), []);
    settle(&world, completed(again, "ch_2")).await;
    assert_eq!(seen(&recorder), once("M1"));
}

#[tokio::test]
async fn a_history_row_that_was_changed_or_removed_is_seen_by_whoever_reads_it() {
    for (change, number) in [
        ("UPDATE payment_history SET detail = '{ }' WHERE seq = 2", "H2"),
        ("DELETE FROM payment_history WHERE seq = 2", "H1"),
    ] {
        let recorder = counted();
        let _guard = set_default_local_recorder(&recorder);
        let world = World::new().await;
        let due = world.due("k1").await;
        let claimed = world.claim_one(&due).await;
        settle(&world, completed(claimed, "ch_1")).await;
        let mut sql = world.sql().await;
        // Behind the triggers that refuse it.
        let unguarded = "SET session_replication_role = replica";
        sqlx::query(unguarded).execute(&mut sql).await.expect("a superuser");
        let changed = sqlx::query(change).execute(&mut sql).await.expect("changed");
        assert_eq!(changed.rows_affected(), 1);
        read_history(&world, due.payment).await;
        assert_eq!(seen(&recorder), once(number), "{change}");
    }
}

#[tokio::test]
async fn a_late_charge_of_what_was_called_clean_is_seen() {
    for (status, number) in [("PENDING", "M7"), ("CANCELLED", "M8"), ("FAILED", "M8")] {
        let recorder = counted();
        let _guard = set_default_local_recorder(&recorder);
        let world = World::new().await;
        let due = world.due("k1").await;
        let zombie = world.claim_one(&due).await;
        world.reap(due.payment).await;
        world.run(&format!("UPDATE payments SET status = '{status}', unanswered = 0")).await;
        settle(&world, completed(zombie, "ch_1")).await;
        assert_eq!(seen(&recorder), once(number), "{status}");
    }
}

#[tokio::test]
async fn a_late_charge_under_another_reference_than_the_known_one_is_a_second_charge() {
    let recorder = counted();
    let _guard = set_default_local_recorder(&recorder);
    let world = World::new().await;
    let due = world.due("k1").await;
    let zombie = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let again = world.claim_one(&notice(&world.row(due.payment).await)).await;
    settle(&world, completed(again, "ch_1")).await;
    settle(&world, completed(zombie, "ch_2")).await;
    assert_eq!(seen(&recorder), once("M1"));
}

#[tokio::test]
async fn a_request_under_a_claim_that_the_database_lost_is_seen() {
    let recorder = counted();
    let _guard = set_default_local_recorder(&recorder);
    let world = World::new().await;
    let claimed = world.claim(&[world.due("k1").await, world.due("k2").await]).await;
    // As after the loss of an acknowledged commit.
    world.run("DELETE FROM attempts").await;
    let back = "UPDATE payments SET status = 'PENDING', attempt = 0, fence = 0, unanswered = 0, sends = 0,
        claim_id = NULL, lease_until = NULL, epoch_first_sent_at = NULL";
    world.run(back).await;
    for (sent, claimed) in [false, true].into_iter().zip(claimed) {
        let id = claimed.payment().id;
        let outcome = if sent {
            completed(claimed, "ch_1")
        } else {
            (claimed.not_started(NotSent::Paced), decision(Status::Pending))
        };
        settle(&world, outcome).await;
        assert_eq!(world.row(id).await.status, Status::Pending);
        assert_eq!(seen(&recorder), if sent { once("M2") } else { vec![] });
    }
}

#[tokio::test]
async fn one_charge_for_two_payments_is_seen() {
    let recorder = counted();
    let _guard = set_default_local_recorder(&recorder);
    let world = World::new().await;
    for key in ["k1", "k2"] {
        let due = world.due(key).await;
        let claimed = world.claim_one(&due).await;
        settle(&world, completed(claimed, "ch_1")).await;
    }
    assert_eq!(seen(&recorder), once("M9"));
}

#[tokio::test]
async fn a_move_that_the_database_refuses_is_seen() {
    let recorder = counted();
    let _guard = set_default_local_recorder(&recorder);
    let world = World::new().await;
    let due = world.due("k1").await;
    let claimed = world.claim_one(&due).await;
    // No claim ends in REFUNDED.
    let outcome = (claimed.answered(super::world::answer(charged("ch_1"))), decision(Status::Refunded));
    settle(&world, outcome).await;
    assert_eq!(world.row(due.payment).await.status, Status::Parked);
    assert_eq!(seen(&recorder), once("H1"));
}
