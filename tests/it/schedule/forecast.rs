//! The forecast on real Postgres: what is counted where, and what a count that stops says.

use super::world::{ACTOR, World, completed, gateway};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::bucket::minute_start;
use punctual::domain::forecast::{Due, Precision};
use punctual::domain::ids::GatewayName;
use punctual::domain::window::Window;
use punctual::schedule::{CancelAnswer, Forecast, GatewayForecast, NewPayment, Schedule};

fn at(spans: &[Due], instant: DateTime<Utc>) -> (i64, Precision) {
    let span = spans.iter().find(|due| (due.from..due.until).contains(&instant));
    span.map_or((-1, Precision::Exact), |due| (due.count, due.precision))
}

fn one(forecast: &Forecast) -> &GatewayForecast {
    assert_eq!(forecast.gateways.len(), 1, "{forecast:?}");
    &forecast.gateways[0]
}

#[tokio::test]
async fn every_payment_that_may_still_be_claimed_is_counted_in_its_minute_and_day_and_no_other() {
    let world = World::new().await;
    let now = world.now().await;
    // Whole minutes away, so that a minute that ends during the test moves nothing.
    let soon = minute_start(now) + TimeDelta::minutes(20);
    let due = |key: &str, at| world.payment(key, at);
    for number in 0..5 {
        world.create(&due(&format!("soon-{number}"), soon + TimeDelta::seconds(number * 15))).await;
    }
    world.create(&due("next-hour", soon + TimeDelta::minutes(60))).await;
    world.create(&due("in-three-days", soon + TimeDelta::days(3))).await;
    let cancelled = due("cancelled", soon);
    world.create(&cancelled).await;
    assert!(matches!(world.api.cancel(ACTOR, cancelled.id).await.unwrap(), CancelAnswer::Cancelled(_)));
    let elsewhere = NewPayment { gateway: GatewayName("other".into()), ..due("elsewhere", soon) };
    world.create(&elsewhere).await;
    // Smeared out of its due minute.
    let smeared = (0..)
        .map(|n| NewPayment { execute_within: Window::of_seconds(1_800), ..due(&format!("w-{n}"), soon) })
        .find(|new| new.first_attempt_at() > soon + TimeDelta::minutes(5))
        .unwrap();
    world.create(&smeared).await;
    // One that waits now, and one that is done.
    world.due("overdue").await;
    let done = world.due("done").await;
    let claimed = world.claim_one(&done).await;
    world.worker.settle(vec![completed(claimed, "ch_1")]).await.expect("settled");

    let forecast = world.api.forecast(&[gateway()]).await.unwrap();
    let of = one(&forecast);
    assert_eq!((of.gateway.clone(), of.overdue.count), (gateway(), 1));
    assert_eq!(at(&of.minutes, soon), (4, Precision::Exact), "the fifth is due a minute later");
    assert_eq!(at(&of.minutes, soon + TimeDelta::minutes(1)).0, 1);
    assert_eq!(at(&of.minutes, smeared.first_attempt_at()).0, 1, "in the minute of its first try");
    assert_eq!(of.minutes.iter().map(|due| due.count).sum::<i64>(), 6);
    assert_eq!(at(&of.days, soon + TimeDelta::days(3)), (1, Precision::Exact));
    assert_eq!(of.days.iter().map(|due| due.count).sum::<i64>(), 8);

    // A gateway that workers have put on record is there unasked.
    world.run("INSERT INTO gateways (name, account) VALUES ('other', 'a')").await;
    let forecast = world.api.forecast(&[gateway()]).await.unwrap();
    let names: Vec<&str> = forecast.gateways.iter().map(|of| of.gateway.0.as_str()).collect();
    assert_eq!(names, ["other", "sandbox"]);
    assert_eq!(at(&forecast.gateways[0].minutes, soon).0, 1);
}

#[tokio::test]
async fn a_day_of_more_than_is_counted_is_estimated_and_costs_no_more_than_the_bound() {
    let world = World::new().await;
    let day = (world.now().await + TimeDelta::days(2)).date_naive();
    // Behind the rules' back: a payment takes a millisecond through the front door.
    let many = 120_000;
    let filled = format!(
        "INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency,
            max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
         SELECT '{day}', gen_random_uuid(), gen_random_uuid(), 'PENDING', at, at, 'sandbox', 1, 'EUR', 6, 'retry',
                'park', 1, now(), now(), 1, '', '1'
         FROM generate_series(1, {many}) AS n
         CROSS JOIN LATERAL (SELECT ('{day}'::timestamp AT TIME ZONE 'UTC') + n * interval '0.5 s' AS at) AS t"
    );
    assert_eq!(world.run(&filled).await, many);
    // What is written is told to the statistics after the statement, by its own connection.
    let noon = day.and_hms_opt(12, 0, 0).unwrap().and_utc();
    let estimated = crate::support::eventually("an estimate", std::time::Duration::from_secs(20), || async {
        let forecast = world.api.forecast(&[gateway()]).await.unwrap();
        let found = at(&one(&forecast).days, noon);
        assert_ne!(found.1, Precision::Exact);
        (found.1 == Precision::About).then_some(found.0)
    })
    .await;
    assert_eq!(estimated, i64::try_from(many).unwrap());
}
