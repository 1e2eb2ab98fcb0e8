//! A decline that may pass, at a gateway that replays what it declined: which key each try goes under.
//!
//! Under the first key such a gateway answers the old decline for a day, so a retry there is no try at
//! all; under a key per attempt a time-out is charged twice. The ledger's own keys say what was done.

use crate::figures::{Figures, Holds};
use crate::support::cells::{KeyLife, Personality, create, rest, site};
use chrono::{TimeDelta, Utc};
use std::collections::BTreeMap;
use std::time::Duration;

/// Payments of each chain.
const OF_EACH: usize = 25;

/// What the gateway does in turn; then, for a gateway that replays declines and for one that forgets them,
/// the epochs of all requests in order, `!` at what was charged, and the end.
const CHAINS: [(&str, [(&str, &str); 2]); 3] = [
    ("sim_decline_insufficient_funds|sim_ok", [("0 1!", "completed"), ("0 1!", "completed")]),
    (
        "sim_timeout_not_charged|sim_decline_insufficient_funds|sim_ok",
        // Only where the decline is replayed does it answer for the send before it (R4).
        [("0 0 1!", "completed"), ("0 0", "parked unproven_decline")],
    ),
    (
        "sim_decline_insufficient_funds|sim_timeout_not_charged|sim_ok",
        [("0 1 1!", "completed"), ("0 1 1!", "completed")],
    ),
];

/// Each chain at both kinds of gateway.
pub async fn a_decline_is_retried_under_the_next_key(figures: &mut Figures) {
    figures
        .part("Insufficient funds, then money: the epoch in the key of each request, ! where it was charged");
    let kinds = [Personality::ReplaysAndTells, Personality::ForgetsAndTells];
    let runs = kinds.map(seen);
    let seen = futures_util::future::join_all(runs).await;
    for (column, (of, seen)) in kinds.into_iter().zip(seen).enumerate() {
        for (payee, wanted) in CHAINS {
            let (keys, end) = wanted[column];
            let wanted = format!("{OF_EACH} × {keys}, {end}");
            let ends = seen.get(payee).cloned().unwrap_or_default();
            let shown: Vec<String> = ends.iter().map(|(way, count)| format!("{count} × {way}")).collect();
            let shown = shown.join("; ");
            let name = format!("{}: {}", of.name(), payee.replace("sim_", ""));
            let holds = shown == wanted;
            figures.holds(&name, shown, &wanted, Holds(holds));
        }
    }
}

/// By chain: how often each way was gone.
async fn seen(of: Personality) -> BTreeMap<&'static str, BTreeMap<String, usize>> {
    let site = site(of, KeyLife::Day, &[]).await;
    let due_at = Utc::now() + TimeDelta::seconds(5);
    let mut ids = Vec::new();
    for number in 0..OF_EACH {
        for (chain, (payee, _)) in CHAINS.into_iter().enumerate() {
            ids.push((payee, create(&site, &format!("funds-{chain}-{number}"), payee, due_at).await));
        }
    }
    let only: Vec<String> = ids.iter().map(|(_, id)| id.clone()).collect();
    let ends = rest(&site, &only, |_, seen| seen.is_at_rest(), Duration::from_secs(60)).await;
    let ledger = site.ledger().await;
    let mut ways: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    for ((payee, id), end) in ids.iter().zip(ends) {
        let epochs = ledger.iter().filter(|line| line["paymentId"] == id.as_str()).map(|line| {
            // By the key itself, not by what anybody says of it.
            let key = line["key"].as_str().unwrap_or("?");
            let epoch =
                key.strip_prefix(id.as_str()).map_or("?", |rest| rest.strip_prefix(':').unwrap_or("0"));
            let charged = if line["charged"] == true { "!" } else { "" };
            format!("{epoch}{charged}")
        });
        let way = format!("{}, {}", epochs.collect::<Vec<_>>().join(" "), end.end);
        *ways.entry(payee).or_default().entry(way).or_default() += 1;
    }
    ways
}
