//! Trouble on purpose, on real services: what is missing, taken, frozen, killed, cut off, forged or
//! asked for at the same instant. Each case ends with the same question to the simulated gateway's own
//! ledger: was every payment charged exactly once, or, where that was promised, never?

mod apis;
mod bus;
mod clocks;
mod cluster;
mod commits;
mod crowds;
mod cut;
mod disk;
mod drains;
mod kills;
mod outages;
pub mod own_ring;
mod races;
mod records;
mod relays;
mod rewind;
mod slow;
mod start;
mod storm;
mod voids;
mod workers;

use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Row};
use std::net::SocketAddr;
use std::time::Duration;

/// Leases, ladders and sessions short enough to be waited for.
const QUICK: [(&str, &str); 10] = [
    ("worker.lease", "5s"),
    ("worker.margin", "500ms"),
    ("worker.drain", "5s"),
    ("gateway.total_timeout", "4s"),
    ("gateway.connect_timeout", "1s"),
    ("ladder.reask", "500ms"),
    ("ladder.held_back", "500ms"),
    ("keeper.reap_every", "200ms"),
    ("kafka.session_timeout", "6s"),
    ("relay.shard_lease", "3s"),
];

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn in_ms(ms: i64) -> DateTime<Utc> {
    Utc::now() + TimeDelta::milliseconds(ms)
}

/// An installation with short times, with its API and keeper running.
async fn site(settings: &[(&str, &str)]) -> Installation {
    let settings: Vec<_> = QUICK.iter().chain(settings).copied().collect();
    let mut site = Installation::new(&settings).await;
    site.start("api", "api-1", &[]).await;
    site.start("keeper", "keeper-1", &[]).await;
    site
}

/// The same with a relay, and with a worker that Kafka brings its notices to.
async fn running(settings: &[(&str, &str)]) -> Installation {
    let mut site = site(settings).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", &[]).await;
    joined(&site, "worker-1").await;
    site
}

/// Waits until a worker was given partitions: before that its late scan carries everything.
async fn joined(site: &Installation, name: &str) {
    let words = "partitions assigned";
    let what = format!("{name} has its partitions");
    eventually(&what, seconds(60), || async { site.roles[name].log_text().contains(words).then_some(()) })
        .await;
}

/// A session in the installation's database, as its superuser.
async fn sql(site: &Installation) -> PgConnection {
    let url = site.environment.get("PUNCTUAL_DATABASE__URL").expect("a database");
    url.parse::<PgConnectOptions>().expect("a URL").connect().await.expect("a session")
}

fn uuid(id: &str) -> uuid::Uuid {
    id.parse().expect("a payment's id")
}

/// The payment's history, each row as `was cause became`, in order.
async fn history(site: &Installation, id: &str) -> Vec<String> {
    let rows =
        sqlx::query("SELECT was, cause, became FROM payment_history WHERE payment_id = $1 ORDER BY seq");
    let rows = rows.bind(uuid(id)).fetch_all(&mut sql(site).await).await.expect("its history");
    let word = |row: &sqlx::postgres::PgRow, column: &str| row.get::<String, _>(column);
    rows.iter()
        .map(|row| format!("{} {} {}", word(row, "was"), word(row, "cause"), word(row, "became")))
        .collect()
}

/// How often this payment was asked for at the gateway, and how often that moved money.
async fn requests_and_charges(site: &Installation, id: &str) -> (usize, usize) {
    let ledger = site.ledger().await;
    let lines: Vec<&Value> = ledger.iter().filter(|line| line["paymentId"] == id).collect();
    (lines.len(), lines.iter().filter(|line| line["charged"] == true).count())
}

/// Where a URL points to, for a proxy in front of it.
async fn address(url: &str) -> SocketAddr {
    let url = reqwest::Url::parse(url).expect("a URL");
    let host = url.host_str().expect("a host").trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(5432);
    tokio::net::lookup_host((host, port)).await.expect("an address").next().expect("an address")
}

/// The same URL, to another loopback port.
fn through(url: &str, port: u16) -> String {
    let mut url = reqwest::Url::parse(url).expect("a URL");
    url.set_host(Some("127.0.0.1")).expect("a host can be set");
    url.set_port(Some(port)).expect("a port can be set");
    url.to_string().trim_end_matches('/').to_owned()
}

/// Ten payments, due in so many milliseconds.
async fn due_soon(site: &Installation, name: &str, ms: i64) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(site.create(&format!("{name}-{n}"), "sim_ok", in_ms(ms)).await);
    }
    ids
}

/// Waits until each is COMPLETED and charged once, in one request; answers the longest lateness in ms.
async fn all_paid_once(site: &Installation, ids: &[String], within: Duration) -> i64 {
    let mut latest = 0;
    for id in ids {
        let paid = site.settled(id, &["COMPLETED"], within).await;
        latest = latest.max(paid["latenessMs"].as_i64().expect("a lateness"));
    }
    let ledger = site.ledger().await;
    for id in ids {
        let charged =
            ledger.iter().filter(|line| line["paymentId"] == id.as_str() && line["charged"] == true);
        assert_eq!(charged.count(), 1, "{id}: {ledger:?}");
    }
    latest
}
