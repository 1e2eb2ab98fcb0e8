//! Payments to look at: posted through the API like anybody's, due over the next two minutes, and
//! a line that shows them move.

use super::Output;
use crate::client::Client;
use chrono::{SecondsFormat, TimeDelta, Utc};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How many are posted.
const PAYMENTS: i64 = 24;
/// The time between one due instant and the next.
const SPACING: TimeDelta = TimeDelta::seconds(5);
/// Destinations at the sandbox, one after the other: mostly good, some of every kind of trouble.
const PAYEES: [&str; 8] = [
    "sim_ok",
    "sim_ok",
    "sim_slow_400",
    "sim_ok",
    "sim_decline_stolen_card",
    "sim_ok",
    "sim_500_charged",
    "sim_timeout_charged",
];

/// Posts them, then shows their states until all are final; errors are told and end it.
pub(super) async fn watch(url: String, key: String, output: Output) {
    let client = match Client::new(&url, &key) {
        Ok(client) => client,
        Err(error) => return eprintln!("punctual dev: no payments posted: {error}"),
    };
    let mut open = Vec::new();
    // The run's own start makes the keys of two runs on one --data-dir differ.
    let run = Utc::now().timestamp_millis();
    for number in 0..PAYMENTS {
        match client.create(&format!("seed-{run}-{number}"), &payment(number)).await {
            Ok(created) => open.extend(created["paymentId"].as_str().map(str::to_owned)),
            Err(error) => return eprintln!("punctual dev: no further payments posted: {error}"),
        }
    }
    // Hidden by itself where standard error is not a terminal.
    let bar = ProgressBar::new(open.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} payments final  {msg}") {
        bar.set_style(style);
    }
    let quiet = output != Output::Table || bar.is_hidden();
    follow(&client, open, &bar, quiet).await;
}

fn payment(number: i64) -> Value {
    let due_at = Utc::now() + TimeDelta::seconds(3) + SPACING * i32::try_from(number).unwrap_or(0);
    let place = usize::try_from(number).unwrap_or(0) % PAYEES.len();
    json!({
        "payee": PAYEES[place],
        "amount": 1_000 + 25 * number,
        "currency": "EUR",
        "dueAt": due_at.to_rfc3339_opts(SecondsFormat::Millis, true),
        "description": "made by punctual dev",
    })
}

async fn follow(client: &Client, mut open: Vec<String>, bar: &ProgressBar, quiet: bool) {
    let mut finals: BTreeMap<String, u64> = BTreeMap::new();
    let mut said = String::new();
    while !open.is_empty() {
        let mut states = finals.clone();
        let mut still_open = Vec::with_capacity(open.len());
        for id in open {
            // A payment that cannot be read just now is looked at again.
            let state =
                client.get(&id).await.ok().and_then(|payment| payment["status"].as_str().map(str::to_owned));
            let state = state.unwrap_or_else(|| "unread".to_owned());
            *states.entry(state.clone()).or_default() += 1;
            if matches!(state.as_str(), "COMPLETED" | "FAILED" | "CANCELLED" | "PARKED") {
                *finals.entry(state).or_default() += 1;
            } else {
                still_open.push(id);
            }
        }
        open = still_open;
        let words: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let words = words.join(", ");
        bar.set_position(finals.values().sum());
        bar.set_message(words.clone());
        if quiet && words != said {
            eprintln!("seeded payments: {words}");
        }
        said = words;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    bar.finish();
}
