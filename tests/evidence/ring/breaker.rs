//! A gateway that takes no connections for half a minute, under steady work of three workers: all of them stop
//! within a second, one call at a time finds out whether it is back, no payment is charged its budget, and
//! what waited goes oldest first.

use super::crowd::charged_once;
use super::paced::{create, created_by, older_waiting, requests};
use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Due a second.
const DUE: i64 = 25;
/// Calls a second of the account, so that recovery takes its time and has an order.
const RATE: i64 = 75;
/// From the first due instant to the last.
const LASTS_S: i64 = 55;
/// Work before the outage.
const BEFORE_S: i64 = 8;
/// How long the gateway is away.
const AWAY: Duration = Duration::from_secs(30);
/// A probe after 1, 3, 7, 15 and 31 seconds, and one more whose claim was refused.
const PROBES: usize = 7;
/// Workers.
const WORKERS: usize = 3;

/// One look at all workers.
struct Look {
    at: DateTime<Utc>,
    open: [bool; WORKERS],
}

/// See the module's head.
pub async fn calls_stop_while_the_gateway_is_away(figures: &mut Figures) {
    figures.part("The breaker: a gateway that refuses connections for 30 s, three workers");
    let rate = RATE.to_string();
    let settings = [("sandbox.latency", "20ms"), ("gateway.rate", rate.as_str())];
    let mut site = Installation::new(&settings).await;
    for (role, name) in [("keeper", "keeper-1"), ("api", "api-1"), ("relay", "relay-1")] {
        site.start(role, name, &[]).await;
    }
    for number in 1..=WORKERS {
        site.start("worker", &format!("worker-{number}"), &[]).await;
    }
    let count = DUE * LASTS_S;
    let due = created_by(count, 5);
    create(&site, count, |number| due + TimeDelta::milliseconds(number * 1_000 / DUE)).await;
    let left = (due + TimeDelta::seconds(BEFORE_S) - Utc::now()).to_std().unwrap_or_default();
    tokio::time::sleep(left).await;
    go_away(&site).await;
    let away_at = Utc::now();
    let back_at = away_at + TimeDelta::from_std(AWAY).expect("a length");
    let looks = watch(&site, back_at + TimeDelta::seconds(45)).await;
    let within = Duration::from_secs(60);
    eventually("no payment is open", within, || async {
        let open =
            "SELECT EXISTS (SELECT FROM payments WHERE status IN ('PENDING', 'UNKNOWN', 'PROCESSING'))";
        let open: bool =
            sqlx::query_scalar(open).fetch_one(&mut look(&site.database.url).await).await.ok()?;
        (!open).then_some(())
    })
    .await;
    agreement(figures, "opened", &looks, away_at, true);
    agreement(figures, "closed", &looks, back_at, false);
    claims(figures, &site, &looks, back_at).await;
    recovery(figures, &site, back_at).await;
    charged_once(figures, &site).await;
}

async fn go_away(site: &Installation) {
    let url = format!("{}/outage", site.url("sandbox-1"));
    let body = serde_json::json!({"kind": "refuse", "forMs": AWAY.as_millis() as u64}).to_string();
    let request = site.http.put(url).bearer_auth("sandbox-secret").header("Content-Type", "application/json");
    let answer = request.body(body).send().await.expect("the sandbox answers");
    assert!(answer.status().is_success(), "{answer:?}");
}

/// Looks at every worker's own word until all were open and are closed again.
async fn watch(site: &Installation, until: DateTime<Utc>) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    while Utc::now() < until {
        let mut open = [false; WORKERS];
        let asked = (1..=WORKERS).map(|number| {
            let name = format!("worker-{number}");
            async move { site.text(&name, "/metrics").await.unwrap_or_default() }
        });
        let said = futures_util::future::join_all(asked).await;
        let at = Utc::now();
        for (place, text) in open.iter_mut().zip(said) {
            *place = text.lines().any(|line| {
                line.starts_with("punctual_gateway_breaker_state{") && !line.trim_end().ends_with(" 0")
            });
        }
        looks.push(Look { at, open });
        let all_were = looks.iter().any(|look| look.open == [true; WORKERS]);
        if all_were && open == [false; WORKERS] {
            return looks;
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    looks
}

/// From the first worker that says so to the last.
fn agreement(figures: &mut Figures, word: &str, looks: &[Look], since: DateTime<Utc>, open: bool) {
    let later = || looks.iter().filter(|look| look.at >= since);
    let first = later().find(|look| look.open.contains(&open)).map(|look| look.at);
    let all = later().find(|look| look.open == [open; WORKERS]).map(|look| look.at);
    let name = format!("all workers know that it {word}, after the first");
    match (first, all) {
        (Some(first), Some(all)) => {
            let took = (all - first).num_milliseconds();
            let shown = format!("{took} ms; the first {} ms after it", (first - since).num_milliseconds());
            figures.holds(&name, shown, "at most 1000 ms", Holds(took <= 1_000));
        }
        _ => figures.holds(&name, "never", "at most 1000 ms", Holds(false)),
    }
}

/// Claims while it was open: each of them was a probe, since nothing else may be claimed.
async fn claims(figures: &mut Figures, site: &Installation, looks: &[Look], back_at: DateTime<Utc>) {
    let all_open = looks.iter().find(|look| look.open == [true; WORKERS]).map_or(back_at, |look| look.at);
    let query =
        "SELECT claimed_at FROM attempts WHERE claimed_at > $1 AND claimed_at < $2 ORDER BY claimed_at";
    let probes: Vec<DateTime<Utc>> = sqlx::query_scalar(query)
        .bind(all_open)
        .bind(back_at)
        .fetch_all(&mut look(&site.database.url).await)
        .await
        .expect("instants");
    let after: Vec<_> = probes.iter().map(|at| (*at - all_open).num_seconds()).collect();
    let shown = format!("{} (after {after:?} s)", probes.len());
    let holds = Holds((2..=PROBES).contains(&probes.len()));
    figures.holds("claims while it was open: probes", shown, &format!("2 to {PROBES}"), holds);
    let spent = "SELECT count(*), count(*) FILTER (WHERE sends <> 1), max(attempt)::bigint FROM payments";
    let (payments, spent, most): (i64, i64, i64) =
        sqlx::query_as(spent).fetch_one(&mut look(&site.database.url).await).await.expect("counts");
    let shown = format!("{spent} of {payments}; claimed at most {most} times");
    figures.holds("payments that the outage cost a send", shown, "0", Holds(spent == 0 && payments > 0));
}

/// What became due while it was away, once it was back.
async fn recovery(figures: &mut Figures, site: &Installation, back_at: DateTime<Utc>) {
    let tried = "SELECT id::text FROM payments WHERE attempt > 1";
    let tried: Vec<String> =
        sqlx::query_scalar(tried).fetch_all(&mut look(&site.database.url).await).await.expect("ids");
    let mut all = requests(site).await;
    // Those that were tried wait for the rungs of their ladder.
    all.retain(|request| {
        request.at >= back_at && request.due_at < back_at && !tried.contains(&request.payment)
    });
    let (p99, most) = older_waiting(&all);
    let bound = all.len() / 8;
    let shown = format!("p99 {p99}, at most {most}, of {}", all.len());
    let holds = Holds(most <= bound && !all.is_empty());
    figures.holds("older payments waiting at a request, after it", shown, &format!("at most {bound}"), holds);
    let caught_up = all.iter().map(|request| request.at - back_at).max().unwrap_or_default();
    println!("  what waited was asked for within {} ms of its return", caught_up.num_milliseconds());
}
