//! Several relays on one ring.

use super::own_ring::{notices, remove};
use super::{address, all_paid_once, in_ms, own_ring, seconds, site, sql, through};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::proxy::{Fault, Proxy};
use std::collections::BTreeMap;
use std::time::Instant;

/// How many shards each has whose lease has not ended.
async fn shares(site: &Installation) -> BTreeMap<String, i64> {
    let held = "SELECT holder, count(*) FROM relay_shards WHERE until > clock_timestamp() GROUP BY holder";
    let held: Vec<(String, i64)> = sqlx::query_as(held).fetch_all(&mut sql(site).await).await.expect("rows");
    held.into_iter().collect()
}

async fn until_shared(site: &Installation, wanted: &[(&str, i64)]) {
    let wanted: BTreeMap<String, i64> =
        wanted.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    eventually(&format!("{wanted:?}"), seconds(30), || async {
        (shares(site).await == wanted).then_some(())
    })
    .await;
}

async fn until_all_is_marked(site: &Installation) {
    eventually("every notice is published and marked", seconds(30), || async {
        let open = sqlx::query_scalar("SELECT count(*) FROM due_notices");
        let open: i64 = open.fetch_one(&mut sql(site).await).await.expect("a count");
        (open == 0).then_some(())
    })
    .await;
}

/// Payments in the second minute from now: published at once, due long after the test.
async fn create(site: &Installation, name: &str) {
    for n in 0..15 {
        site.create(&format!("{name}-{n}"), "sim_ok", in_ms(100_000)).await;
    }
}

#[tokio::test]
async fn relays_share_the_shards_a_newcomer_gets_its_part_and_what_one_leaves_is_taken_at_once() {
    let mut site = own_ring::site("shared", &[("relay.lead", "5min"), ("relay.shard_lease", "8s")]).await;
    site.start("relay", "relay-1", &[]).await;
    until_shared(&site, &[("relay-1", 3)]).await;
    create(&site, "alone").await;
    site.start("relay", "relay-2", &[]).await;
    create(&site, "two-come").await;
    until_shared(&site, &[("relay-1", 2), ("relay-2", 1)]).await;
    site.start("relay", "relay-3", &[]).await;
    create(&site, "three-come").await;
    until_shared(&site, &[("relay-1", 1), ("relay-2", 1), ("relay-3", 1)]).await;
    site.start("relay", "relay-4", &[]).await;
    create(&site, "four").await;

    assert_eq!(site.role("relay-1").drain(seconds(15)).await, 0);
    let held = shares(&site).await;
    assert!(!held.contains_key("relay-1"), "free when it has ended, not when its lease has: {held:?}");
    let left_at = Instant::now();
    create(&site, "three").await;
    until_shared(&site, &[("relay-2", 1), ("relay-3", 1), ("relay-4", 1)]).await;
    assert!(left_at.elapsed() < seconds(5), "what one leaves is taken long before a lease of 8 s ends");
    until_all_is_marked(&site).await;

    let published = notices(&site).await;
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for notice in &published {
        assert_eq!(notice.relay.0, notice.partition, "{notice:?}");
        *times.entry(&notice.payment).or_default() += 1;
    }
    assert_eq!(times.len(), 75);
    assert!(times.values().all(|times| *times == 1), "nobody gives a shard away in a pass: {times:?}");
    let epochs = published.iter().map(|notice| notice.relay.1).max();
    assert!(epochs >= Some(2), "shards changed hands: {epochs:?}");

    site.role("relay-2").kill();
    let killed_at = Instant::now();
    create(&site, "killed").await;
    until_shared(&site, &[("relay-3", 2), ("relay-4", 1)]).await;
    assert!(killed_at.elapsed() < seconds(8 + 5), "its lease, and the others' next look");
    until_all_is_marked(&site).await;
    assert_eq!(notices(&site).await.len(), 90);
    remove(site).await;
}

#[tokio::test]
async fn a_relay_frozen_between_publishing_and_marking_is_fenced_when_it_wakes_and_shares_again() {
    let mut site = site(&[]).await;
    let url = site.database.url.clone();
    let proxy = Proxy::start(address(&url).await).await;
    let proxied = through(&url, proxy.address.port());
    site.start("relay", "relay-1", &[("database.url", &proxied)]).await;
    until_shared(&site, &[("relay-1", 2)]).await;
    proxy.set(Fault::HoldFrom(b"Called by mark".to_vec())).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(site.create(&format!("frozen-{n}"), "sim_ok", in_ms(14_000)).await);
    }
    eventually("a batch is published and its mark is on its way", seconds(20), || async {
        (proxy.holds() > 0).then_some(())
    })
    .await;
    site.role("relay-1").freeze();
    site.start("relay", "relay-2", &[]).await;
    until_shared(&site, &[("relay-2", 2)]).await;
    until_all_is_marked(&site).await;

    proxy.set(Fault::Pass).await;
    site.role("relay-1").thaw();
    eventually("its mark is refused", seconds(20), || async {
        let metrics = site.text("relay-1", "/metrics").await.ok()?;
        let fenced = metrics.lines().find_map(|line| line.strip_prefix("punctual_relay_fenced_total "))?;
        (fenced.parse::<f64>().ok()? >= 1.0).then_some(())
    })
    .await;
    until_shared(&site, &[("relay-1", 1), ("relay-2", 1)]).await;
    // The notices of that batch are in Kafka twice.
    site.start("worker", "worker-1", &[]).await;
    all_paid_once(&site, &ids, seconds(40)).await;
    assert_eq!(site.ledger().await.len(), ids.len());
}
