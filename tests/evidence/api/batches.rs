//! What a batch saves: as many payments one by one and together, in turn, in one run.

use crate::figures::{Figures, Holds};
use crate::support::api::{Api, send};
use crate::support::imports::count;
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const BATCH: &str = "/v1/scheduled-payments/batch";
/// Payments of each way in each round.
const OF_EACH: usize = 250;
/// Rounds; one more is not counted, in which connections and plans are made.
const ROUNDS: usize = 8;
/// Least of what one by one takes longer.
const LEAST_RATIO: u128 = 5;

fn payment(key: &str) -> Value {
    let due_at = (Utc::now() + TimeDelta::hours(2)).to_rfc3339_opts(SecondsFormat::Millis, true);
    json!({"payee": "sim_ok", "amount": 1_250, "currency": "EUR", "dueAt": due_at, "externalId": key})
}

async fn one_by_one(api: &Api, round: usize) -> Duration {
    let began = Instant::now();
    for number in 0..OF_EACH {
        let key = format!("one-{round}-{number}");
        let made = api.post(&key, &payment(&key)).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    began.elapsed()
}

async fn together(api: &Api, round: usize) -> Duration {
    let began = Instant::now();
    let items = (0..OF_EACH).map(|number| {
        let key = format!("many-{round}-{number}");
        let mut item = payment(&key);
        item["idempotencyKey"] = key.into();
        item
    });
    let body = json!({"payments": items.collect::<Vec<_>>()});
    let made = send(api.request("POST", BATCH), Some(&body)).await;
    assert_eq!((made.status, &made.json()["created"]), (200, &json!(OF_EACH)), "{}", made.text);
    began.elapsed()
}

/// Both ways, the first of a round by turns.
pub async fn a_batch_is_several_times_quicker(figures: &mut Figures) {
    figures.part(&format!(
        "Batches of {OF_EACH} beside {OF_EACH} single creates of one client, {ROUNDS} rounds, by turns"
    ));
    let api = Api::start(|_| {}).await;
    let mut ratios = Vec::new();
    let (mut single, mut batch) = (Duration::ZERO, Duration::ZERO);
    for round in 0..=ROUNDS {
        let (one, many) = if round % 2 == 0 {
            let one = one_by_one(&api, round).await;
            (one, together(&api, round).await)
        } else {
            let many = together(&api, round).await;
            (one_by_one(&api, round).await, many)
        };
        if round > 0 {
            // In hundredths.
            ratios.push(one.as_micros() * 100 / many.as_micros().max(1));
            single += one;
            batch += many;
        }
    }
    let made = count(&api).await;
    let wanted = 2 * OF_EACH * (ROUNDS + 1);
    let holds = usize::try_from(made) == Ok(wanted);
    figures.holds("payments made", made, &wanted.to_string(), Holds(holds));
    let rate = |took: Duration| (OF_EACH * ROUNDS) as u128 * 1_000 / took.as_millis().max(1);
    println!("  one by one: {} a second; together: {} a second", rate(single), rate(batch));
    ratios.sort_unstable();
    let shown = |hundredths: u128| format!("{}.{:02}", hundredths / 100, hundredths % 100);
    let (least, middle) = (ratios[0], ratios[ROUNDS / 2]);
    println!("  times as quick in the worst round: {}", shown(least));
    let all = single.as_micros() * 100 / batch.as_micros().max(1);
    let bound = format!("at least {LEAST_RATIO}");
    for (name, ratio) in [("in the middle round", middle), ("in all rounds together", all)] {
        let holds = ratio >= LEAST_RATIO * 100;
        figures.holds(&format!("times as quick, {name}"), shown(ratio), &bound, Holds(holds));
    }
}
