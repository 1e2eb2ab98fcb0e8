//! Several workers in one group.

use super::own_ring::remove;
use super::{all_paid_once, in_ms, joined, own_ring, seconds, site};
use crate::support::eventually;
use crate::support::installation::Installation;
use serde_json::Value;

const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];

async fn start(site: &mut Installation, settings: &[(&str, &str)]) {
    site.start("keeper", "keeper-1", &[]).await;
    site.start("relay", "relay-1", &[]).await;
    for name in WORKERS {
        site.spawn("worker", name, settings);
    }
}

/// How often its log says this.
fn said(site: &Installation, name: &str, words: &str) -> usize {
    site.roles[name].log_text().lines().filter(|line| line.contains(words)).count()
}

/// How many partitions it was given last.
fn assigned(site: &Installation, name: &str) -> Option<u64> {
    let text = site.roles[name].log_text();
    let line = text.lines().rfind(|line| line.contains("partitions assigned"))?;
    serde_json::from_str::<Value>(line).expect("a line of JSON")["partitions"].as_u64()
}

/// Waits until these workers have so many partitions, whoever has the most.
async fn until_assigned(site: &Installation, names: &[&str], wanted: &[u64]) {
    eventually(&format!("{names:?} have {wanted:?}"), seconds(60), || async {
        let mut have: Vec<_> = names.iter().filter_map(|name| assigned(site, name)).collect();
        have.sort_unstable();
        (have == wanted).then_some(())
    })
    .await;
}

/// Payments due every 100 ms from `from_ms` on.
async fn create(site: &Installation, name: &str, count: i64, from_ms: i64) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(site.create(&format!("{name}-{n}"), "sim_ok", in_ms(from_ms + 100 * n)).await);
    }
    ids
}

#[tokio::test]
async fn three_workers_share_every_minute_and_a_rolling_restart_moves_nothing_and_pays_everything_once() {
    let waits = [("kafka.session_timeout", "20s"), ("worker.late_by", "20s")];
    let mut site = own_ring::site("rolling", &waits).await;
    start(&mut site, &[]).await;
    // One partition of each of the 61 topics.
    until_assigned(&site, &WORKERS, &[61, 61, 61]).await;
    let moves = |site: &Installation| WORKERS.map(|name| said(site, name, "partitions revoked"));
    let before = moves(&site);
    let ids = create(&site, "rolling", 90, 1_000).await;
    for name in WORKERS {
        let times = said(&site, name, "partitions assigned");
        assert_eq!(site.role(name).drain(seconds(15)).await, 0, "{name}");
        site.start("worker", name, &[]).await;
        eventually("it has its partitions again", seconds(30), || async {
            (said(&site, name, "partitions assigned") > times).then_some(())
        })
        .await;
        assert_eq!(assigned(&site, name), Some(61), "{name}");
    }
    let late_ms = all_paid_once(&site, &ids, seconds(40)).await;
    assert!(late_ms < 10_000, "{late_ms} ms");
    assert_eq!(site.ledger().await.len(), ids.len(), "not one question more than payments");
    assert_eq!(moves(&site), before, "nobody was disturbed");

    // Its partitions wait for its name, for 20 s; the payments in them do not.
    let ids = create(&site, "left", 60, 1_000).await;
    assert_eq!(site.role("worker-3").drain(seconds(15)).await, 0);
    let late_ms = all_paid_once(&site, &ids, seconds(40)).await;
    assert!(late_ms < 10_000, "{late_ms} ms");
    remove(site).await;
}

#[tokio::test]
async fn what_a_worker_leaves_without_a_name_is_taken_over_in_seconds_and_a_dead_one_s_by_the_late_scan() {
    let mut site = own_ring::site("leaving", &[("worker.late_by", "8s")]).await;
    start(&mut site, &[("worker.slot", "")]).await;
    until_assigned(&site, &WORKERS, &[61, 61, 61]).await;
    let ids = create(&site, "drained", 60, 1_000).await;
    assert_eq!(site.role("worker-3").drain(seconds(15)).await, 0);
    let late_ms = all_paid_once(&site, &ids, seconds(40)).await;
    assert!(late_ms < 7_500, "the others had its partitions before the late scan looks: {late_ms} ms");
    until_assigned(&site, &WORKERS[..2], &[61, 122]).await;

    let ids = create(&site, "killed", 40, 1_000).await;
    site.role("worker-2").kill();
    let late_ms = all_paid_once(&site, &ids, seconds(60)).await;
    assert!(late_ms < 15_000, "{late_ms} ms");
    until_assigned(&site, &WORKERS[..1], &[183]).await;
    remove(site).await;
}

#[tokio::test]
async fn of_two_workers_under_one_slot_name_the_first_says_so_and_ends_and_the_second_pays_everything_once() {
    let mut site = site(&[]).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "twin-1", &[("worker.slot", "twin")]).await;
    joined(&site, "twin-1").await;
    let ids = create(&site, "twin", 80, 1_000).await;
    site.start("worker", "twin-2", &[("worker.slot", "twin")]).await;
    assert_eq!(site.role("twin-1").ended(seconds(30)).await, 7, "{}", site.role("twin-1").log_text());
    let told = site.role("twin-1").log_text();
    assert!(told.contains("another process joined the group as worker.slot"), "{told}");
    assert!(told.contains("abandoned 0"), "it drains first: {told}");
    let late_ms = all_paid_once(&site, &ids, seconds(40)).await;
    assert!(late_ms < 20_000, "{late_ms} ms");
    assert_eq!(site.role("twin-2").exit_code(), None, "nobody takes the name back");
    assert_eq!(said(&site, "twin-2", "partitions revoked"), 0);
    assert_eq!(site.ledger().await.len(), ids.len());
}
