//! What the keeper's gauges are read from.

use super::world::World;
use chrono::TimeDelta;
use punctual::domain::facts::VoidSupport;
use punctual::domain::ids::GatewayName;
use punctual::schedule::OpenStates;
use std::time::Duration;

#[tokio::test]
async fn the_backlog_is_what_is_due_and_unpublished_and_how_far_the_days_reach() {
    let world = World::new().await;
    let sandbox = GatewayName("sandbox".into());
    world.worker.register_gateway(&sandbox, "sandbox-1", VoidSupport::None).await.expect("registered");
    let empty = world.worker.backlog(10_000).await.expect("an answer");
    assert_eq!(empty.oldest_due, [(sandbox, Duration::ZERO)]);
    assert_eq!((empty.unpublished_due, empty.days_ahead), (0, 10));

    let now = world.now().await;
    for (key, seconds) in [("k1", -90), ("k2", -30), ("k3", 600)] {
        world.create(&world.payment(key, now + TimeDelta::seconds(seconds))).await;
    }
    let backlog = world.worker.backlog(10_000).await.expect("an answer");
    let (_, oldest) = backlog.oldest_due[0];
    assert!(oldest >= Duration::from_secs(90) && oldest < Duration::from_secs(150), "{oldest:?}");
    assert_eq!(backlog.unpublished_due, 2, "the third is not due");
    let bound = world.worker.advance_oldest_open_day().await.expect("moved");
    let age = world.worker.backlog(10_000).await.expect("an answer").oldest_open_day_age;
    // Midnight may lie between the question and the next line.
    let since = (world.now().await.date_naive() - bound).num_days();
    assert!(since == age || since == age + 1, "{age} days, and {since}");
    let few = world.worker.backlog(0).await.expect("an answer");
    assert!(few.unpublished_due <= 48, "one a shard at most");
}

#[tokio::test]
async fn where_payments_stand_is_counted_and_how_long_the_oldest_unknown_is_open() {
    let world = World::new().await;
    let sandbox = GatewayName("sandbox".into());
    world.worker.register_gateway(&sandbox, "sandbox-1", VoidSupport::None).await.expect("registered");
    assert_eq!(world.worker.backlog(10).await.expect("an answer").open, OpenStates::default());
    let now = world.now().await;
    let mut created = Vec::new();
    for (key, seconds) in [("u1", -90), ("u2", -80), ("u3", -70), ("u4", 600)] {
        created.push(world.create(&world.payment(key, now + TimeDelta::seconds(seconds))).await);
    }
    let made = |number: usize, columns: &str| {
        let id = created[number].payment.as_uuid();
        format!(
            "UPDATE payments SET attempt = 1, sends = 1, unanswered = 1, fence = 1, {columns} WHERE id = '{id}'"
        )
    };
    let unknown = "status = 'UNKNOWN', next_attempt_at = clock_timestamp() + interval '1 min',
        epoch_first_sent_at = clock_timestamp() - interval '1000 s'";
    assert_eq!(world.run(&made(0, unknown)).await, 1);
    let held = "status = 'PROCESSING', claim_id = gen_random_uuid(), epoch_first_sent_at = clock_timestamp(),
        lease_until = clock_timestamp() - interval '100 s'";
    assert_eq!(world.run(&made(1, held)).await, 1);
    let open = world.worker.backlog(10).await.expect("an answer").open;
    assert_eq!((open.due, open.processing, open.unknown, open.parked), (1, 1, 1, 0));
    let about = |length: Duration, seconds| (seconds..seconds + 60).contains(&length.as_secs());
    assert!(about(open.oldest_unknown, 1000) && about(open.lease_overdue, 100), "{open:?}");
}
