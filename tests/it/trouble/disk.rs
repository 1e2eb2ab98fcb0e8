//! Disks that are full while payments become due: the gateway's, and the database's.

use super::{all_paid_once, in_ms, running, seconds, sql};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::tiny_disk::TinyDisk;
use chrono::{DateTime, SecondsFormat, Utc};
use punctual::dev::postgres::Postgres;
use punctual::dev::{Durability, ports};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use std::collections::BTreeSet;

async fn create(site: &Installation, name: &str, count: i64, from_ms: i64) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(site.create(&format!("{name}-{n}"), "sim_ok", in_ms(from_ms + 10 * n)).await);
    }
    ids
}

async fn ended(site: &mut Installation, role: &str) -> i32 {
    eventually(&format!("{role} ends"), seconds(20), || {
        let code = site.role(role).exit_code();
        async move { code }
    })
    .await
}

/// Who is COMPLETED by our own word.
async fn completed(site: &Installation) -> BTreeSet<String> {
    let ids = sqlx::query_scalar("SELECT id::text FROM payments WHERE status = 'COMPLETED'");
    ids.fetch_all(&mut sql(site).await).await.expect("ids").into_iter().collect()
}

/// Who was charged, by the whole lines of the gateway's file.
fn charged(ledger: &std::path::Path) -> BTreeSet<String> {
    let bytes = std::fs::read(ledger).expect("the ledger");
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut ids = BTreeSet::new();
    for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = serde_json::from_slice(line).expect("a whole line");
        if line["charged"] == true {
            let id = line["paymentId"].as_str().expect("an id").to_owned();
            assert!(ids.insert(id), "charged twice: {line}");
        }
    }
    ids
}

#[tokio::test]
async fn a_gateway_whose_ledger_is_full_says_charged_to_nobody_without_a_line_and_charges_nobody_twice() {
    let Some(disk) = TinyDisk::mount("32k") else { return };
    let ledger = disk.path().join("ledger.ndjson");
    let mut site = running(&[("sandbox.ledger", &ledger.display().to_string())]).await;
    let ids = create(&site, "full", 200, 3_000).await;

    assert_ne!(ended(&mut site, "sandbox-1").await, 0);
    let log = site.role("sandbox-1").log_text();
    assert!(log.contains("No space left on device"), "{log}");
    let there = charged(&ledger);
    assert!(!there.is_empty() && there.len() < ids.len(), "{}", there.len());
    let told = completed(&site).await;
    assert!(told.is_subset(&there), "without a line: {:?}", told.difference(&there));

    // Started anew by whoever watches it, while it is still full.
    let url = site.url("sandbox-1").to_owned();
    let address = url.trim_start_matches("http://");
    site.spawn("sandbox", "sandbox-1", &[("sandbox.listen", address)]);
    assert_ne!(ended(&mut site, "sandbox-1").await, 0);
    let told = completed(&site).await;
    let there = charged(&ledger);
    assert!(told.is_subset(&there), "without a line: {:?}", told.difference(&there));

    disk.resize("4m");
    site.start("sandbox", "sandbox-1", &[("sandbox.listen", address)]).await;
    all_paid_once(&site, &ids, seconds(30)).await;
    assert_eq!(charged(&ledger).len(), ids.len());
    site.roles.clear();
}

/// A server whose data and log are on a tiny disk, and an installation that keeps its truth there.
struct Cramped {
    site: Installation,
    server: Postgres,
    disk: TinyDisk,
    /// Of every payment that [`post`] asks for: a repetition must be the same request.
    due_at: DateTime<Utc>,
}

async fn cramped() -> Option<Cramped> {
    let disk = TinyDisk::mount("400m")?;
    let server = Postgres::start(disk.path(), ports::free(), Durability::Durable).await.expect("a server");
    let config = punctual::platform::config::Database {
        url: server.url().as_str().into(),
        partition_days_ahead: 10,
        ..Default::default()
    };
    punctual::schedule::migrate(&config).await.expect("the migrations run");
    let site = running(&[
        ("database.url", &server.url()),
        ("api.due_grace", "1h"),
        ("database.acquire_timeout", "1s"),
    ])
    .await;
    Some(Cramped { site, server, disk, due_at: in_ms(2_000) })
}

impl Cramped {
    /// POSTs once; 201 gives its id, 503 nothing.
    async fn post(&self, key: &str) -> Option<String> {
        let due_at = self.due_at.to_rfc3339_opts(SecondsFormat::Micros, true);
        let body = json!({"payee": "sim_ok", "amount": 1_250, "currency": "EUR", "dueAt": due_at,
            "description": "x".repeat(200)});
        let (status, body) = self.site.post(key, &body).await.expect("the API itself is there");
        match status {
            201 => Some(body["paymentId"].as_str().expect("an id").to_owned()),
            503 => None,
            other => panic!("{key}: {other}: {body}"),
        }
    }

    /// POSTs new payments until five of them were refused; the ids of the others, and the refused keys.
    async fn post_until_refused(&self) -> (Vec<String>, Vec<String>) {
        let (mut ids, mut refused) = (Vec::new(), Vec::new());
        for n in 0..20_000 {
            let key = format!("full-{n}");
            match self.post(&key).await {
                Some(id) => ids.push(id),
                None => refused.push(key),
            }
            if refused.len() == 5 {
                return (ids, refused);
            }
        }
        panic!("never full: {} created", ids.len());
    }

    /// With space again: what was refused is created by the same request, and everything is paid once.
    async fn recovers(mut self, mut ids: Vec<String>, refused: Vec<String>) {
        for key in &refused {
            ids.push(eventually("it is created after all", seconds(20), || self.post(key)).await);
        }
        ids.sort();
        ids.dedup();
        all_paid_once(&self.site, &ids, seconds(30)).await;
        let rows = "SELECT count(*) FROM payments";
        let rows: i64 =
            sqlx::query_scalar(rows).fetch_one(&mut sql(&self.site).await).await.expect("a count");
        assert_eq!(rows, i64::try_from(ids.len()).expect("few"), "one row for each, none that nobody knows");
        for role in ["api-1", "relay-1", "worker-1", "keeper-1"] {
            assert_eq!(self.site.role(role).exit_code(), None, "{role} lives on");
        }
        self.site.roles.clear();
        self.server.stop().await;
    }
}

#[tokio::test]
async fn a_database_whose_tables_cannot_grow_refuses_for_now_and_loses_and_doubles_nothing() {
    let Some(cramped) = cramped().await else { return };
    let site = &cramped.site;
    let mut ids = create(site, "before", 60, 1_500).await;
    cramped.disk.fill();
    let (created, refused) = cramped.post_until_refused().await;
    ids.extend(created);
    eventually("all have been due for a second, or were paid", seconds(10), || due_for_a_second(site)).await;
    let claimed = sqlx::query_scalar("SELECT payment_id::text FROM attempts");
    let claimed: BTreeSet<String> =
        claimed.fetch_all(&mut sql(site).await).await.expect("ids").into_iter().collect();
    for line in site.ledger().await {
        let id = line["paymentId"].as_str().expect("an id");
        assert!(claimed.contains(id), "asked without a claim: {line}");
    }
    cramped.disk.free();
    cramped.recovers(ids, refused).await;
}

#[tokio::test]
async fn a_database_that_gives_up_for_want_of_space_for_its_log_loses_and_doubles_nothing() {
    let Some(mut cramped) = cramped().await else { return };
    let (site, server) = (&cramped.site, &cramped.server);
    let mut ids = create(site, "before", 60, 1_000).await;
    cramped.disk.fill();
    eventually("the server gives up", seconds(30), || async {
        // Refused, or cut off: both are what is waited for.
        let Ok(mut session) = PgConnection::connect(&server.url()).await else { return gone(server) };
        let fill_a_segment =
            "SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1000000)), pg_switch_wal()";
        let _ = sqlx::query(fill_a_segment).execute(&mut session).await;
        None
    })
    .await;
    let (created, refused) = cramped.post_until_refused().await;
    ids.extend(created);
    cramped.disk.free();
    cramped.server.restart().await.expect("with space it comes back");
    cramped.recovers(ids, refused).await;
}

/// The server does not listen any more.
fn gone(server: &Postgres) -> Option<()> {
    let url = reqwest::Url::parse(&server.url()).expect("a URL");
    ports::is_free(url.port().expect("a port")).then_some(())
}

/// Every payment still open has been due for a second.
async fn due_for_a_second(site: &Installation) -> Option<()> {
    let waiting = "SELECT NOT EXISTS (SELECT FROM payments
        WHERE status <> 'COMPLETED' AND due_at > clock_timestamp() - interval '1 second')";
    let is_over: bool = sqlx::query_scalar(waiting).fetch_one(&mut sql(site).await).await.ok()?;
    is_over.then_some(())
}
