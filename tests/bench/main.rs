//! The whole path under load, everything included and everything on this machine: create through the
//! API, notice through Kafka, claim, charge over HTTP, outcome, history. Ends with the ledger check;
//! no figure counts without it.
//!
//! `make bench`, or `cargo test --release --test bench -- [--rate N] [--seconds N] [--workers N]`.
//! Rate is payments due per second; they are created ahead, so creation does not compete with
//! execution for the two cores of a small machine.
//!
//! `-- statements` measures the schedule's own verbs instead, `-- outbox` three ways of marking a notice.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot go on should stop")]
#![allow(clippy::disallowed_methods, reason = "real services run on real time")]
#![allow(clippy::float_arithmetic, reason = "figures for people")]
#![allow(unreachable_pub, reason = "tests/support is written as the small library that it is")]

mod outbox;
mod statements;
#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code, reason = "the tests of the schedule use the rest")]
#[path = "../it/schedule/world.rs"]
mod world;

use chrono::{DateTime, TimeDelta, Utc};
use clap::Parser;
use futures_util::stream::{FuturesUnordered, StreamExt};
use sqlx::{Connection, PgConnection};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use support::eventually;
use support::installation::Installation;

/// What to run.
#[derive(Debug, Clone, Parser)]
struct Load {
    /// Payments due each second.
    #[arg(long, default_value_t = 1_200)]
    rate: u32,
    /// For so many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Worker processes.
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Requests in flight while creating.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// The least executed per second that passes.
    #[arg(long, default_value_t = 1_157.0)]
    at_least: f64,
    /// Handed in by `cargo test`.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    instead: Option<Instead>,
}

/// What else can be measured.
#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum Instead {
    /// Creates, claims, settles and scans by themselves, with a year of partitions.
    Statements,
    /// What it costs to remember that a notice was published: three ways in turn.
    Outbox {
        /// Seconds undisturbed, and as many with a transaction open elsewhere.
        #[arg(long, default_value_t = 30)]
        hold: u64,
    },
}

fn main() -> ExitCode {
    let load = Load::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match load.instead {
            None => run(&load).await,
            Some(Instead::Statements) => {
                statements::batches_of_200_with_a_year_of_partitions().await;
                ExitCode::SUCCESS
            }
            Some(Instead::Outbox { hold }) => {
                outbox::three_ways_of_marking(Duration::from_secs(hold)).await;
                ExitCode::SUCCESS
            }
        }
    })
}

async fn run(load: &Load) -> ExitCode {
    let mut site = Installation::new(&[("sandbox.latency", "20ms"), ("worker.max_in_flight", "512")]).await;
    site.start("api", "api-1", &[]).await;
    let total = u64::from(load.rate) * u64::from(load.seconds);
    // Created at a pace that one API holds, and due when all of them are there.
    let due_from = Utc::now() + TimeDelta::seconds(10 + i64::try_from(total / 900).expect("small"));
    let created_in = create(&site, load, total, due_from).await;
    let rate = rate(total, created_in);
    println!(
        "created                    {total} in {:.1} s = {rate:.0}/s (one at a time, {} in flight)",
        created_in.as_secs_f64(),
        load.clients
    );
    assert!(Utc::now() < due_from, "creation took longer than planned: lower --rate");

    site.start("relay", "relay-1", &[]).await;
    site.start("keeper", "keeper-1", &[]).await;
    for number in 1..=load.workers {
        site.start("worker", &format!("worker-{number}"), &[]).await;
    }
    let mut database = PgConnection::connect(&site.database.url).await.expect("the database answers");
    sqlx::query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .execute(&mut database)
        .await
        .expect("the server has pg_stat_statements");
    sqlx::query("SELECT pg_stat_statements_reset()")
        .execute(&mut database)
        .await
        .expect("pg_stat_statements");
    let within = (due_from - Utc::now()).to_std().unwrap_or_default()
        + Duration::from_secs(u64::from(load.seconds) * 4 + 60);
    // Asked by the index of what is open, which is empty when all is done: counting would be load.
    eventually("no payment is open", within, || async {
        let open =
            "SELECT EXISTS (SELECT FROM payments WHERE status IN ('PENDING', 'UNKNOWN', 'PROCESSING'))";
        let mut looking = PgConnection::connect(&site.database.url).await.ok()?;
        let open: bool = sqlx::query_scalar(open).fetch_one(&mut looking).await.ok()?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        (!open).then_some(())
    })
    .await;
    let completed = count(&site.database.url, "status = 'COMPLETED'").await;
    assert_eq!(completed, total, "all of them were to be charged");
    let passed = report(&mut database, load, total).await & checked(&site, total).await;
    statements(&mut database, total).await;
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn create(site: &Installation, load: &Load, total: u64, due_from: DateTime<Utc>) -> Duration {
    let start = Instant::now();
    let mut open = FuturesUnordered::new();
    for number in 0..total {
        if open.len() >= load.clients {
            open.next().await;
        }
        let due_at = due_from
            + TimeDelta::microseconds(
                i64::try_from(number * 1_000_000 / u64::from(load.rate)).expect("small"),
            );
        open.push(async move {
            site.create(&format!("bench-{number}"), "sim_ok", due_at).await;
        });
    }
    while open.next().await.is_some() {}
    start.elapsed()
}

fn rate(count: u64, length: Duration) -> f64 {
    f64::from(u32::try_from(count).expect("a benchmark is small")) / length.as_secs_f64()
}

async fn count(url: &str, condition: &str) -> u64 {
    let mut database = PgConnection::connect(url).await.expect("the database answers");
    let text = format!("SELECT count(*) FROM payments WHERE {condition}");
    let counted: i64 =
        sqlx::query_scalar(sqlx::AssertSqlSafe(text)).fetch_one(&mut database).await.expect("a count");
    u64::try_from(counted).expect("a count")
}

/// Rate and lateness, by the database's clock.
async fn report(database: &mut PgConnection, load: &Load, total: u64) -> bool {
    let (first, last): (DateTime<Utc>, DateTime<Utc>) =
        sqlx::query_as("SELECT min(due_at), max(last_moved_at) FROM payments")
            .fetch_one(&mut *database)
            .await
            .expect("instants");
    let executed = rate(total, (last - first).to_std().expect("time goes forward"));
    let lateness: Vec<f64> = sqlx::query_scalar(
        "SELECT percentile_cont(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY extract(epoch FROM a.claimed_at - p.due_at)::float8 * 1000)
         FROM payments p JOIN attempts a ON a.due_day = p.due_day AND a.payment_id = p.id AND a.attempt = 1",
    )
    .fetch_one(&mut *database)
    .await
    .expect("percentiles");
    println!(
        "executed                   {executed:.0}/s while {}/s were due for {} s   bound ≥ {:.0}",
        load.rate, load.seconds, load.at_least
    );
    println!(
        "lateness, due to claim     p50 {:.0} ms, p99 {:.0} ms, max {:.0} ms",
        lateness[0], lateness[1], lateness[2]
    );
    executed >= load.at_least
}

/// The gateway's own ledger against ours.
async fn checked(site: &Installation, total: u64) -> bool {
    let summary = site
        .http
        .get(format!("{}/ledger/summary", site.url("sandbox-1")))
        .send()
        .await
        .expect("the sandbox answers");
    let summary: serde_json::Value =
        serde_json::from_str(&summary.text().await.expect("a body")).expect("JSON");
    println!("ledger                     {summary}");
    let is = |name: &str, wanted: u64| summary[name].as_u64() == Some(wanted);
    is("charges", total)
        && is("paymentsCharged", total)
        && is("paymentsChargedMoreThanOnce", 0)
        && is("early", 0)
}

/// What each statement cost the database.
async fn statements(database: &mut PgConnection, total: u64) {
    let rows: Vec<(String, i64, f64)> = sqlx::query_as(
        "SELECT left(query, 60), calls, total_exec_time FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 12",
    )
    .fetch_all(database)
    .await
    .expect("pg_stat_statements");
    println!("database time              ms      calls   µs a payment   statement");
    for (query, calls, ms) in rows {
        let each = ms * 1_000.0 / rate(total, Duration::from_secs(1));
        println!("{:>28.0} {calls:>10} {each:>14.1}   {}", ms, query.lines().next().unwrap_or(""));
    }
}
