//! The forecast on real Postgres: what is counted where, and what a count that stops says.

use super::world::{ACTOR, World, answer, completed, decision, declined, gateway, notice, parks};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::bucket::minute_start;
use punctual::domain::decision::{Decision, EpochChange, SendsAnswered};
use punctual::domain::forecast::{Due, Precision};
use punctual::domain::ids::{GatewayName, Operator, PaymentId};
use punctual::domain::parked::KeyWanted;
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use punctual::domain::verdict::DeclineClass;
use punctual::domain::window::Window;
use punctual::schedule::{CancelAnswer, Forecast, GatewayForecast, NewPayment, Redrive, Schedule};

fn at(spans: &[Due], instant: DateTime<Utc>) -> (i64, Precision) {
    let span = spans.iter().find(|due| (due.from..due.until).contains(&instant));
    span.map_or((-1, Precision::Exact), |due| (due.count, due.precision))
}

fn one(forecast: &Forecast) -> &GatewayForecast {
    assert_eq!(forecast.gateways.len(), 1, "{forecast:?}");
    &forecast.gateways[0]
}

/// Counts every day anew, whatever was counted before.
async fn counted_by_the_keeper(world: &World, piece: i64) -> usize {
    world.run("UPDATE forecast_days SET counted_at = counted_at - interval '1 hour'").await;
    let mut days = 0;
    while world.worker.recount_forecast(&[gateway()], piece).await.expect("counted").is_some() {
        days += 1;
    }
    days
}

/// Holds every span against what SQL counts in it now, and answers the sums: overdue, of the hour, of the days.
async fn as_sql_counts(world: &World) -> [i64; 3] {
    assert_eq!(counted_by_the_keeper(world, 1_000).await, 31);
    let forecast = world.api.forecast(&[gateway()]).await.unwrap();
    let of = one(&forecast);
    let mut sums = [0; 3];
    let spans = [std::slice::from_ref(&of.overdue), &of.minutes, &of.days];
    for (sum, spans) in sums.iter_mut().zip(spans) {
        for due in spans {
            let counted: i64 = world
                .one(&format!(
                    "SELECT count(*) FROM payments WHERE gateway = 'sandbox' AND status IN ('PENDING', 'UNKNOWN')
                         AND next_attempt_at >= '{}' AND next_attempt_at < '{}'",
                    due.from, due.until
                ))
                .await;
            assert_eq!((due.count, due.precision), (counted, Precision::Exact), "{due:?}");
            *sum += counted;
        }
    }
    sums
}

async fn redriven(world: &World, id: PaymentId) {
    let order = Redrive {
        payment: id,
        key: KeyWanted::Same,
        by: Operator("key:alice".into()),
        reason: "seen at the gateway".into(),
        version: None,
        approval: None,
    };
    assert_eq!(world.api.redrive(&order, &[]).await.expect("an answer"), Ok(Status::Unknown));
}

#[tokio::test]
async fn the_forecast_is_what_sql_counts_after_each_act_that_moves_a_payment_in_time() {
    let world = World::new().await;
    assert_eq!(as_sql_counts(&world).await, [0, 0, 0]);
    let soon = minute_start(world.now().await) + TimeDelta::minutes(30);
    let mut ids = Vec::new();
    for number in 0..6 {
        let new = world.payment(&format!("soon-{number}"), soon + TimeDelta::seconds(number * 20));
        world.create(&new).await;
        ids.push(new.id);
        world.create(&world.payment(&format!("later-{number}"), soon + TimeDelta::days(number + 1))).await;
    }
    // Half an hour from now may be tomorrow: then it is counted there.
    assert_eq!(as_sql_counts(&world).await, [0, 6, 12]);
    assert!(matches!(world.api.cancel(ACTOR, ids[0]).await.unwrap(), CancelAnswer::Cancelled(_)));
    assert_eq!(as_sql_counts(&world).await, [0, 5, 11], "cancelled");

    let (paid, retried, held) =
        (world.due("paid").await, world.due("retried").await, world.due("held").await);
    assert_eq!(as_sql_counts(&world).await, [3, 5, 11], "due already");
    let claimed = world.claim_one(&paid).await;
    assert_eq!(as_sql_counts(&world).await, [2, 5, 11], "what is being charged is not due");
    world.worker.settle(vec![completed(claimed, "ch_1")]).await.expect("settled");
    let next = soon + TimeDelta::days(3);
    let retry = Decision {
        reason: Some(Reason::DeclinedSoft),
        answered: SendsAnswered::Own,
        next_attempt_at: Some(next),
        epoch: EpochChange::Next,
        ..decision(Status::Pending)
    };
    let claimed = world.claim_one(&retried).await;
    let declined = claimed.answered(answer(declined(DeclineClass::Soft)));
    world.worker.settle(vec![(declined, retry)]).await.expect("settled");
    assert_eq!(world.row(retried.payment).await.next_attempt_at, next);
    assert_eq!(as_sql_counts(&world).await, [1, 5, 12], "a retry counts where it will be tried");
    let claimed = world.claim_one(&held).await;
    world.worker.settle(vec![parks(claimed, Reason::OutcomeUnknown)]).await.expect("settled");
    assert_eq!(as_sql_counts(&world).await, [0, 5, 12], "parked");
    redriven(&world, held.payment).await;
    assert_eq!(as_sql_counts(&world).await, [1, 5, 12], "released, it is due");
    let claimed = world.claim_one(&notice(&world.row(held.payment).await)).await;
    world.worker.settle(vec![completed(claimed, "ch_2")]).await.expect("settled");
    assert_eq!(as_sql_counts(&world).await, [0, 5, 12], "asked for, it was charged");
}

#[tokio::test]
async fn a_day_that_was_counted_is_read_with_its_age_until_it_may_be_counted_again() {
    let world = World::new().await;
    let day = (world.now().await + TimeDelta::days(2)).date_naive();
    let noon = day.and_hms_opt(12, 0, 0).unwrap().and_utc();
    world.create(&world.payment("k1", noon)).await;
    assert_eq!(counted_by_the_keeper(&world, 1_000).await, 31);
    world.create(&world.payment("k2", noon)).await;
    let read = async || {
        let forecast = world.api.forecast(&[gateway()]).await.unwrap();
        let due = one(&forecast).days.iter().find(|due| due.from.date_naive() == day).copied().unwrap();
        (due.count, due.counted_at < forecast.taken_at, due.first_at)
    };
    assert_eq!(read().await, (1, true, Some(noon)), "as it was counted, whatever came since");
    // A minute has passed; but counting took a second, and a month of such days is a twentieth of ten minutes.
    let age = |seconds: u32, took: &str| {
        format!(
            "UPDATE forecast_days SET took = '{took}', counted_at = now()
                 - CASE WHEN day = '{day}' THEN interval '{seconds} s' ELSE interval '1 s' END"
        )
    };
    let recount = || async { world.worker.recount_forecast(&[gateway()], 1_000).await.expect("counted") };
    world.run(&age(600, "1 s")).await;
    assert_eq!(recount().await, None);
    world.run(&age(630, "1 s")).await;
    assert_eq!(recount().await, Some((gateway(), day)));
    assert_eq!(read().await, (2, true, Some(noon)));
    // A day that has passed is forgotten with the next count.
    world.run("UPDATE forecast_days SET day = day - 40, from_at = from_at - interval '40 days' WHERE day > now()")
        .await;
    assert_eq!(counted_by_the_keeper(&world, 1_000).await, 31);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM forecast_days").await, 31);
}

#[tokio::test]
async fn a_crowded_day_is_counted_whole_piece_by_piece() {
    let world = World::new().await;
    let day = (world.now().await + TimeDelta::days(2)).date_naive();
    let midnight = day.and_time(chrono::NaiveTime::MIN).and_utc();
    // Seven in each of three hours, and in one minute as many as a piece.
    for (hour, minutes, count) in [(0, 5, 7), (9, 5, 7), (23, 5, 7), (15, 0, 20)] {
        let at = midnight + TimeDelta::hours(hour);
        for number in 0..count {
            let at = at + TimeDelta::minutes(minutes * number);
            world.create(&world.payment(&format!("{hour}-{number}"), at)).await;
        }
    }
    let of = async |piece| {
        assert_eq!(counted_by_the_keeper(&world, piece).await, 31);
        let forecast = world.api.forecast(&[gateway()]).await.unwrap();
        let due = one(&forecast).days.iter().find(|due| due.from == midnight).copied().unwrap();
        (due.count, due.precision, due.first_at)
    };
    assert_eq!(of(1_000).await, (41, Precision::Exact, Some(midnight)), "in one statement");
    assert_eq!(of(21).await, (41, Precision::Exact, Some(midnight)), "by hours");
    assert_eq!(
        of(8).await,
        (29, Precision::AtLeast, Some(midnight)),
        "a minute that holds more than a piece says so"
    );
    assert_eq!(of(7).await.0, 28);
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
    world.run("UPDATE gateways SET rate_limit = 7").await;
    let limited = world.api.forecast(&[gateway()]).await.unwrap();
    let limits: Vec<Option<u32>> = limited.gateways.iter().map(|of| of.rate_limit).collect();
    assert_eq!(limits, [Some(7), None], "what a person holds it to");
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
