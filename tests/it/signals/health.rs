//! What a process says of itself while something that it stands on is away, and how it goes in spite of that.

use super::SOON;
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::proxy::{Fault, Proxy, Way};
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Status and document of `/readyz`.
async fn ready(site: &Installation, role: &str) -> Option<(u16, Value)> {
    let answer = site.http.get(format!("{}/readyz", site.url(role))).send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, serde_json::from_str(&answer.text().await.ok()?).ok()?))
}

async fn until_ready(site: &Installation, role: &str) {
    eventually(&format!("{role} is ready"), SOON, || async {
        ready(site, role).await.filter(|(status, _)| *status == 200).map(|_| ())
    })
    .await;
}

const ROLES: [(&str, &str); 5] = [
    ("api", "api-1"),
    ("relay", "relay-1"),
    ("worker", "worker-1"),
    ("keeper", "keeper-1"),
    ("publisher", "publisher-1"),
];

#[tokio::test]
async fn a_silent_database_is_named_by_every_role_and_makes_none_of_them_dead() {
    let mut site = Installation::new(&[]).await;
    let (proxy, through) = Proxy::before(&site.database.url).await;
    for (role, name) in ROLES {
        site.start(role, name, &[("database.url", &through)]).await;
        until_ready(&site, name).await;
    }
    proxy.set(Fault::BlackHole(Way::Both)).await;
    for (_, name) in ROLES {
        let said = eventually(&format!("{name} is not ready"), SOON, || async {
            ready(&site, name).await.filter(|(status, _)| *status == 503)
        })
        .await;
        assert_eq!(said.1["ready"], false);
        let named = said.1["checks"]["postgres"].as_str().expect("the check of Postgres");
        assert!(named.contains("no answer in time") || named.contains("not reachable"), "{named}");
        let others =
            said.1["checks"].as_object().expect("checks").iter().filter(|(name, _)| *name != "postgres");
        assert!(others.clone().all(|(_, word)| word == "ok"), "{:?}", others.collect::<Vec<_>>());
        // Asked and answered in no time: whoever restarts what is not alive leaves it alone.
        for path in ["/livez", "/metrics"] {
            let asked_at = Instant::now();
            let answer = site.http.get(format!("{}{path}", site.url(name))).send().await.expect("an answer");
            assert_eq!(answer.status(), 200, "{name}{path}");
            assert!(asked_at.elapsed() < seconds(1), "{name}{path} waits for somebody");
        }
    }
    proxy.set(Fault::Pass).await;
    for (_, name) in ROLES {
        until_ready(&site, name).await;
    }
}

#[tokio::test]
async fn a_role_that_waits_for_its_database_is_alive_and_says_that_it_has_not_started() {
    let mut site = Installation::new(&[]).await;
    let (proxy, through) = Proxy::before(&site.database.url).await;
    proxy.set(Fault::BlackHole(Way::Both)).await;
    for (role, name) in &ROLES {
        site.spawn(role, name, &[("database.url", &through)]);
        let said = eventually(&format!("{name} serves"), SOON, || async { ready(&site, name).await }).await;
        assert_eq!(said.0, 503, "{}", said.1);
        assert!(said.1["checks"]["start"].is_string(), "{}", said.1);
        assert_eq!(site.text(name, "/livez").await.expect("an answer"), "alive\n");
    }
    assert_eq!(site.role("keeper-1").drain(seconds(5)).await, 0, "it waits for nobody when it is to go");
    let (status, said) = site.post("too-soon", &json!({})).await.expect("an answer");
    assert_eq!((status, &said["code"]), (503, &json!("database_unavailable")), "{said}");
    proxy.set(Fault::Pass).await;
    for (_, name) in ROLES.iter().filter(|(_, name)| *name != "keeper-1") {
        until_ready(&site, name).await;
    }
}

#[tokio::test]
async fn a_gateway_that_is_away_is_noted_by_its_worker_which_stays_ready() {
    let mut site =
        Installation::new(&[("gateway.connect_timeout", "500ms"), ("ladder.held_back", "200ms")]).await;
    site.start("api", "api-1", &[]).await;
    site.start("worker", "worker-1", &[]).await;
    site.role("sandbox-1").kill();
    for n in 0..40 {
        site.create(&format!("away-{n}"), "sim_ok", Utc::now() + TimeDelta::milliseconds(1_500)).await;
    }
    let said = eventually("the gateway is noted", 2 * SOON, || async {
        let (status, said) = ready(&site, "worker-1").await?;
        assert_eq!(status, 200, "{said}");
        said["notes"]["gateway"].is_string().then_some(said)
    })
    .await;
    assert_eq!(said["ready"], true, "{said}");
    assert!(said["notes"]["gateway"].as_str().expect("a note").starts_with("sandbox: "), "{said}");
}

#[tokio::test]
async fn a_kafka_that_is_away_is_noted_and_payments_do_without_it() {
    let mut site = Installation::new(&[]).await;
    let nowhere = [("kafka.bootstrap_servers", "127.0.0.1:1")];
    site.start("api", "api-1", &[]).await;
    for (role, name) in [("relay", "relay-1"), ("worker", "worker-1"), ("publisher", "publisher-1")] {
        site.start(role, name, &nowhere).await;
    }
    let id = site.create("without", "sim_ok", Utc::now() + TimeDelta::seconds(1)).await;
    site.settled(&id, &["COMPLETED"], 2 * SOON).await;
    for name in ["relay-1", "worker-1", "publisher-1"] {
        until_ready(&site, name).await;
        let said = eventually(&format!("{name} notes it"), 2 * SOON, || async {
            let (status, said) = ready(&site, name).await?;
            assert_eq!(status, 200, "{name}: {said}");
            said["notes"]["kafka"].is_string().then_some(said)
        })
        .await;
        assert!(!said.to_string().contains("127.0.0.1"), "fixed words, no addresses: {said}");
    }
}

#[tokio::test]
async fn a_worker_ends_its_call_and_says_its_last_words_once() {
    let mut site = Installation::new(&[]).await;
    site.start("api", "api-1", &[]).await;
    site.start("worker", "worker-1", &[]).await;
    let id = site.create("last", "sim_slow_3000", Utc::now() + TimeDelta::seconds(1)).await;
    site.settled(&id, &["PROCESSING"], SOON).await;
    let asked_at = Instant::now();
    assert_eq!(site.role("worker-1").drain(seconds(30)).await, 0);
    let took = asked_at.elapsed();
    assert!(took < seconds(15), "a call of 3 s: {took:?}");
    let log = site.roles["worker-1"].log_text();
    let words: Vec<_> = log.lines().filter(|line| line.contains("drained 1, abandoned 0")).collect();
    assert_eq!(words.len(), 1, "{log}");
    let words: Value = serde_json::from_str(words[0]).expect("JSON");
    assert_eq!((&words["drained"], &words["abandoned"]), (&Value::from(1), &Value::from(0)), "{words}");
    println!("seen drain took_ms={} drained=1 abandoned=0", took.as_millis());
    assert_eq!(site.get(&id).await.expect("an answer").1["status"], "COMPLETED");
}

#[tokio::test]
async fn a_worker_whose_database_is_silent_goes_in_time_all_the_same_and_says_what_it_leaves() {
    let mut site = Installation::new(&[
        ("worker.drain", "3s"),
        ("gateway.total_timeout", "2s"),
        ("gateway.connect_timeout", "1s"),
    ])
    .await;
    let (proxy, through) = Proxy::before(&site.database.url).await;
    site.start("api", "api-1", &[]).await;
    site.start("worker", "worker-1", &[("database.url", &through)]).await;
    let id = site.create("silent", "sim_slow_1000", Utc::now() + TimeDelta::seconds(1)).await;
    site.settled(&id, &["PROCESSING"], SOON).await;
    proxy.set(Fault::BlackHole(Way::Both)).await;
    let asked_at = Instant::now();
    // Of 30 s, `worker.drain` may have 22: here 3, and the same rest.
    assert_eq!(site.role("worker-1").drain(seconds(30)).await, 0);
    assert!(asked_at.elapsed() < seconds(3 + 8), "{:?}", asked_at.elapsed());
    println!("seen silent-drain took_ms={}", asked_at.elapsed().as_millis());
    let log = site.roles["worker-1"].log_text();
    assert_eq!(log.lines().filter(|line| line.contains("drained 0, abandoned 1")).count(), 1, "{log}");
    // Charged once, and whoever comes next asks about it.
    assert_eq!(site.ledger().await.iter().filter(|line| line["charged"] == true).count(), 1);
    site.start("keeper", "keeper-1", &[]).await;
    site.start("worker", "worker-2", &[]).await;
    site.settled(&id, &["COMPLETED"], 3 * SOON).await;
    assert_eq!(site.ledger().await.iter().filter(|line| line["charged"] == true).count(), 1);
}
