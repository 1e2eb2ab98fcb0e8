//! Services that are away while payments become due.

use super::own_ring::erase;
use super::{
    address, all_paid_once, due_soon, in_ms, requests_and_charges, running, seconds, site, sql, through,
};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::proxy::{Fault, Proxy};
use crate::support::steady::kafka_is;
use punctual::dev::kafka::{Cluster, ClusterOptions};
use punctual::dev::postgres::Postgres;
use punctual::dev::{Durability, artifacts, ports};
use serde_json::json;
use sqlx::Row;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn a_gateway_that_cannot_be_reached_costs_no_budget_and_no_payment() {
    let mut site = site(&[]).await;
    let sandbox = site.url("sandbox-1").to_owned();
    let proxy = Proxy::start(address(&sandbox).await).await;
    proxy.set(Fault::Refuse).await;
    let proxied = through(&sandbox, proxy.address.port());
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", &[("gateway.url", &proxied)]).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(site.create(&format!("unreachable-{n}"), "sim_ok", in_ms(1_000)).await);
    }
    for id in &ids {
        eventually("it was tried twice", seconds(20), || async {
            let row = sqlx::query(
                "SELECT status, status_reason, held_back, sends, unanswered FROM payments WHERE id = $1",
            )
            .bind(super::uuid(id))
            .fetch_one(&mut sql(&site).await)
            .await
            .expect("its row");
            if row.get::<String, _>("status") != "PENDING" || row.get::<i16, _>("held_back") < 2 {
                return None;
            }
            assert_eq!(row.get::<Option<String>, _>("status_reason").as_deref(), Some("gateway_unreachable"));
            assert_eq!((row.get::<i16, _>("sends"), row.get::<i32, _>("unanswered")), (0, 0));
            Some(())
        })
        .await;
    }
    assert_eq!(site.ledger().await.len(), 0);
    proxy.set(Fault::Pass).await;
    all_paid_once(&site, &ids, seconds(20)).await;
    assert_eq!(site.ledger().await.len(), ids.len());
}

/// A folder that Postgres, run by another user, can pass through.
fn folder() -> tempfile::TempDir {
    let open = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("punctual-it-").permissions(open).tempdir().expect("a folder")
}

#[tokio::test]
async fn while_kafka_is_away_the_late_scan_pays_in_time_and_afterwards_notices_do_again() {
    let home = folder();
    let kafka = artifacts::obtain(|_| {}).await.expect("the artifacts");
    let options = ClusterOptions { brokers: 1, first_port: None, durability: Durability::TestOnly };
    let mut cluster = Cluster::start(&kafka, home.path(), &options).await.expect("a broker");
    let mut site = running(&[("kafka.bootstrap_servers", &cluster.bootstrap_servers())]).await;
    let before = due_soon(&site, "before", 6_000).await;
    let late_ms = all_paid_once(&site, &before, seconds(30)).await;
    assert!(late_ms < 5_000, "{late_ms} ms");

    kafka_is(&site, "worker-1", "up", seconds(20)).await;
    cluster.brokers[0].kill();
    kafka_is(&site, "worker-1", "away", seconds(10)).await;
    let during = due_soon(&site, "during", 1_000).await;
    // One more worker, started while nobody answers.
    site.start("worker", "worker-2", &[]).await;
    let late_ms = all_paid_once(&site, &during, seconds(40)).await;
    // Nobody waits for Kafka any more.
    assert!(late_ms < 5_000, "{late_ms} ms");

    cluster.brokers[0].restart().await.expect("it comes back");
    let after = due_soon(&site, "after", 12_000).await;
    let late_ms = all_paid_once(&site, &after, seconds(40)).await;
    assert!(late_ms < 5_000, "{late_ms} ms");
}

#[tokio::test]
async fn a_ring_that_was_erased_is_done_without_and_used_again_once_it_is_made_anew() {
    let prefix = format!("erased-{}.payments.", std::process::id());
    let mut site = running(&[("kafka.topic_prefix", &prefix)]).await;
    let before = due_soon(&site, "before", 6_000).await;
    let late_ms = all_paid_once(&site, &before, seconds(30)).await;
    assert!(late_ms < 5_000, "{late_ms} ms");

    erase(&prefix).await;
    let during = due_soon(&site, "during", 1_000).await;
    let late_ms = all_paid_once(&site, &during, seconds(40)).await;
    assert!(late_ms < 20_000, "{late_ms} ms");

    site.run(&["topics", "apply"]);
    // Neither relay nor worker is started anew. Until their clients have learnt of the new topics the
    // late scan goes on paying, and then notices are in time again.
    let batches = std::sync::atomic::AtomicUsize::new(0);
    eventually("notices come through the new topics in time", seconds(120), || async {
        let batch = batches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let after = due_soon(&site, &format!("after-{batch}"), 8_000).await;
        let late_ms = all_paid_once(&site, &after, seconds(40)).await;
        assert!(late_ms < 20_000, "{late_ms} ms");
        (late_ms < 5_000).then_some(())
    })
    .await;
    site.roles.clear();
    erase(&prefix).await;
}

/// POSTs until it is created, as a client does that obeys 503; answers the id and whether it was asked
/// to come again.
async fn insist(site: &Installation, key: &str) -> (String, bool) {
    let due_at = in_ms(3_000).to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let body = json!({"payee": "sim_ok", "amount": 1_250, "currency": "EUR", "dueAt": due_at});
    let turned_away = std::cell::Cell::new(false);
    let id = eventually(&format!("{key} is created"), seconds(60), || {
        let (body, turned_away) = (&body, &turned_away);
        let url = format!("{}/v1/scheduled-payments", site.url("api-1"));
        let request = site.http.post(url).bearer_auth(&site.api_key).header("Idempotency-Key", key);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        async move {
            let answer = request.send().await.expect("the API itself is there");
            match answer.status().as_u16() {
                201 => {
                    let created: serde_json::Value =
                        serde_json::from_str(&answer.text().await.ok()?).expect("JSON");
                    Some(created["paymentId"].as_str().expect("an id").to_owned())
                }
                503 => {
                    assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
                    turned_away.set(true);
                    None
                }
                other => panic!("{other}: {:?}", answer.text().await),
            }
        }
    })
    .await;
    (id, turned_away.get())
}

#[tokio::test]
async fn a_postgres_restarted_twice_under_load_loses_no_payment_and_needs_no_hand() {
    let home = folder();
    let mut server =
        Postgres::start(home.path(), ports::free(), Durability::Durable).await.expect("a server");
    let config = punctual::platform::config::Database {
        url: server.url().as_str().into(),
        partition_days_ahead: 10,
        ..Default::default()
    };
    punctual::schedule::migrate(&config).await.expect("the migrations run");
    // A due time that passes while the database is away is still taken.
    let mut site = running(&[
        ("database.url", &server.url()),
        ("api.due_grace", "1h"),
        ("database.acquire_timeout", "1s"),
    ])
    .await;
    let load = async {
        let mut made = Vec::new();
        for n in 0..120 {
            made.push(insist(&site, &format!("load-{n}")).await);
            tokio::time::sleep(std::time::Duration::from_millis(40)).await;
        }
        made
    };
    let trouble = async {
        let away = || async {
            let answer = site.http.get(format!("{}/readyz", site.url("api-1"))).send().await.ok()?;
            (answer.status() == 503).then_some(())
        };
        server.stop().await;
        eventually("the API says that it is not ready", seconds(10), away).await;
        server.restart().await.expect("it comes back");
        let back = || async {
            let answer = site.http.get(format!("{}/readyz", site.url("api-1"))).send().await.ok()?;
            answer.status().is_success().then_some(())
        };
        eventually("the API is ready by itself", seconds(20), back).await;
        server.kill();
        server.restart().await.expect("it comes back from a crash");
        eventually("the API is ready by itself", seconds(20), back).await;
    };
    let (made, ()) = futures_util::future::join(load, trouble).await;
    assert!(made.iter().any(|(_, turned_away)| *turned_away), "nobody was answered 503");
    let ids: Vec<String> = made.into_iter().map(|(id, _)| id).collect();
    all_paid_once(&site, &ids, seconds(40)).await;
    for role in ["api-1", "relay-1", "worker-1", "keeper-1"] {
        assert_eq!(site.role(role).exit_code(), None, "{role} lives on");
    }
    for id in ids.iter().take(3) {
        assert_eq!(requests_and_charges(&site, id).await.1, 1);
    }
}
