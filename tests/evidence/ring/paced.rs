//! What the parts about pacing share: many payments due at chosen instants, the gateway's ledger in time, and
//! how many requests any span of it holds.

use crate::figures::{Figures, Holds};
use crate::support::installation::Installation;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;

/// Requests in flight while creating.
const CLIENTS: usize = 64;
/// What one API certainly creates a second.
pub const PACE: i64 = if cfg!(debug_assertions) { 60 } else { 400 };

/// One request to charge, as the gateway wrote it down.
#[derive(Debug, Clone)]
pub struct Request {
    /// When it had arrived.
    pub at: DateTime<Utc>,
    /// When its payment was due.
    pub due_at: DateTime<Utc>,
    /// For which payment.
    pub payment: String,
    /// Whether the gateway refused it for the rate.
    pub is_refused: bool,
}

/// Creates `count` payments at `api-1`.
///
/// # Panics
/// If the first one is due before all of them are there.
pub async fn create(site: &Installation, count: i64, due_at: impl Fn(i64) -> DateTime<Utc>) {
    let mut open = FuturesUnordered::new();
    for number in 0..count {
        if open.len() >= CLIENTS {
            open.next().await;
        }
        let due_at = due_at(number);
        open.push(async move { site.create(&format!("paced-{number}"), "sim_ok", due_at).await });
    }
    while open.next().await.is_some() {}
    let left = due_at(0) - Utc::now();
    println!("  {count} payments created, the first due {} s from now", left.num_seconds());
    assert!(left > TimeDelta::zero(), "creating took longer than planned");
}

/// The first instant by which so many can be created, and somewhat more.
pub fn created_by(count: i64, more_s: i64) -> DateTime<Utc> {
    Utc::now() + TimeDelta::seconds(count / PACE + more_s)
}

/// All requests so far, in the order of their arrival.
pub async fn requests(site: &Installation) -> Vec<Request> {
    let instant = |text: &serde_json::Value| text.as_str().and_then(|at| at.parse().ok());
    let mut requests: Vec<Request> = site
        .ledger()
        .await
        .iter()
        .filter(|line| line["request"] != "void")
        .map(|line| Request {
            at: instant(&line["at"]).expect("an instant"),
            due_at: instant(&line["dueAt"]).expect("an instant"),
            payment: line["paymentId"].as_str().expect("an id").to_owned(),
            is_refused: line["verdict"] == "over_rate",
        })
        .collect();
    requests.sort_by_key(|request| request.at);
    requests
}

/// The fewest and the most requests in any span of so long between two instants.
pub fn fewest_and_most(
    requests: &[Request],
    length: TimeDelta,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> (usize, usize) {
    let within: Vec<_> = requests.iter().map(|it| it.at).filter(|at| *at >= from && *at <= to).collect();
    let count = |start: DateTime<Utc>| {
        let first = within.partition_point(|at| *at < start);
        within.partition_point(|at| *at < start + length) - first
    };
    // Only there does the count change: where a request enters the span, or has just left it.
    let starts = within.iter().flat_map(|at| [*at, *at + TimeDelta::microseconds(1)]);
    let counts = starts.filter(|start| *start + length <= to).map(count);
    counts.fold((usize::MAX, 0), |(fewest, most), count| (fewest.min(count), most.max(count)))
}

/// The rate over any ten seconds of a time in which there was always more to do.
pub fn rate_held(
    figures: &mut Figures,
    name: &str,
    requests: &[Request],
    rate: i64,
    (from, to): (DateTime<Utc>, DateTime<Utc>),
) {
    let (fewest, most) = fewest_and_most(requests, TimeDelta::seconds(10), from, to);
    let (least, greatest) = (rate * 10 * 95 / 100, rate * 10 * 105 / 100);
    let inside = |count: usize| (least..=greatest).contains(&i64::try_from(count).unwrap_or(i64::MAX));
    let seconds = (to - from).num_seconds();
    let shown = format!("{fewest} to {most}, over {seconds} s");
    figures.holds(name, shown, &format!("{least} to {greatest}"), Holds(inside(fewest) && inside(most)));
}

/// For each first request in turn, how many older payments had not been asked for: 99 of 100 and the most.
pub fn older_waiting(requests: &[Request]) -> (usize, usize) {
    let mut firsts: HashMap<&str, &Request> = HashMap::new();
    for request in requests {
        firsts.entry(&request.payment).or_insert(request);
    }
    let mut turns: Vec<&Request> = firsts.into_values().collect();
    turns.sort_by_key(|request| (request.due_at, request.payment.as_str()));
    let rank: HashMap<&str, usize> =
        turns.iter().enumerate().map(|(rank, request)| (request.payment.as_str(), rank)).collect();
    turns.sort_by_key(|request| request.at);
    // A tree of counts: how many of the ranks below have gone.
    let mut gone = vec![0_usize; turns.len() + 1];
    let mut waiting: Vec<usize> = Vec::new();
    for request in turns {
        let own = rank[request.payment.as_str()];
        let mut below = 0;
        let mut place = own;
        while place > 0 {
            below += gone[place];
            place &= place - 1;
        }
        waiting.push(own - below);
        let mut place = own + 1;
        while place < gone.len() {
            gone[place] += 1;
            place += place & place.wrapping_neg();
        }
    }
    waiting.sort_unstable();
    let at = |per_cent: usize| {
        waiting.get((waiting.len() * per_cent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
    };
    (at(99), at(100))
}
