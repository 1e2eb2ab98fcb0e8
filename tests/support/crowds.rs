//! Many payments at once, of whom and due when, and how late each was asked for at the gateway.

use super::installation::Client;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// One payment of a crowd.
#[derive(Debug, Clone)]
pub struct One {
    /// Its id.
    pub id: String,
    /// The instant before which nothing may be charged.
    pub due_at: DateTime<Utc>,
}

/// Creates a payment for each of these instants, twenty-four requests at a time; `name` is part of their
/// keys.
///
/// # Panics
/// Unless each is created.
pub async fn create(client: &Client, name: &str, due: Vec<DateTime<Utc>>) -> Vec<One> {
    let posts = due
        .into_iter()
        .enumerate()
        .map(|(number, due_at)| async move { create_one(client, &format!("{name}-{number}"), due_at).await });
    futures_util::stream::iter(posts).buffered(24).collect().await
}

/// How far ahead so many have to be due, so that they are created in time: longer than it takes, measured
/// with some that are due much later.
pub async fn time_to_create(client: &Client, count: i32) -> TimeDelta {
    const TRIED: i32 = 120;
    let (began, now) = (Instant::now(), Utc::now());
    // Keys of its own each time.
    let name = format!("rehearsed-{}", now.timestamp_micros());
    create(client, &name, spread(now + TimeDelta::hours(2), TRIED, TimeDelta::zero())).await;
    let took = TimeDelta::from_std(began.elapsed()).expect("short");
    took * count / TRIED * 3 / 2 + TimeDelta::seconds(5)
}

/// How long to wait for what is due then, and may take this long from there on.
pub fn until(due: DateTime<Utc>, and_then: Duration) -> Duration {
    (due - Utc::now()).to_std().unwrap_or_default() + and_then
}

/// Creates one, due then.
///
/// # Panics
/// Unless it is created.
pub async fn create_one(client: &Client, key: &str, due_at: DateTime<Utc>) -> One {
    let due_at = chrono::SubsecRound::trunc_subsecs(due_at, 3);
    let text = due_at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let body = json!({"payee": "sim_ok", "amount": 700, "currency": "EUR", "dueAt": text});
    let (status, created) = client.post(0, key, &body).await.expect("the API answers");
    assert_eq!(status, 201, "{created}");
    One { id: created["paymentId"].as_str().expect("an id").to_owned(), due_at }
}

/// The instants from `start` on, each a step after the one before.
pub fn spread(start: DateTime<Utc>, count: i32, step: TimeDelta) -> Vec<DateTime<Utc>> {
    (0..count).map(|n| start + step * n).collect()
}

/// The first request of each payment in a sandbox's ledger.
pub fn first_requests(ledger: &[Value]) -> BTreeMap<String, DateTime<Utc>> {
    let mut first = BTreeMap::new();
    for line in ledger {
        let id = line["paymentId"].as_str().unwrap_or_default().to_owned();
        let at = line["at"].as_str().and_then(|at| at.parse().ok()).expect("an instant");
        first.entry(id).or_insert(at);
    }
    first
}

/// How late each of them was first asked for, in ms, least first; `None` while one was not.
pub fn lateness(first: &BTreeMap<String, DateTime<Utc>>, of: &[One]) -> Option<Vec<i64>> {
    let late = of.iter().map(|one| Some((*first.get(&one.id)? - one.due_at).num_milliseconds()));
    let mut late = late.collect::<Option<Vec<_>>>()?;
    late.sort_unstable();
    Some(late)
}

/// The value that so many of a hundred do not exceed, of what is sorted.
pub fn percentile(sorted: &[i64], of_hundred: usize) -> i64 {
    let rank = (sorted.len() * of_hundred).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or(i64::MAX)
}
