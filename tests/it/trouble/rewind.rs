//! The group's offsets set back to the beginning: everything is read again and nothing is paid again.

use super::own_ring::{extents, lag, now_topic, remove, reset_to_earliest};
use super::{all_paid_once, in_ms, own_ring, seconds, sql};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::services::services;
use futures_util::future::join_all;
use punctual::bucket::value_of;
use punctual::domain::bucket::{partition, shard};
use punctual::domain::ids::{GatewayName, PaymentId};
use punctual::domain::intent::notice_mac;
use punctual::domain::notice::Notice;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::time::Instant;

/// Copies of each of [`PAID`] first notices.
const COPIES: usize = 50;
const PAID: usize = 60;

/// Publishes the first notices of these payments again and again, sealed as ours are.
async fn copies(site: &Installation, ids: &[String]) {
    let secret: Vec<u8> = sqlx::query_scalar("SELECT secret FROM installation")
        .fetch_one(&mut sql(site).await)
        .await
        .expect("a secret");
    let secret: [u8; 32] = secret.try_into().expect("32 bytes");
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &services().kafka_bootstrap_servers)
        .create()
        .expect("settings");
    let topic = now_topic(site);
    for _ in 0..COPIES {
        let sent = ids.iter().map(|id| async {
            let payment: PaymentId = id.parse().expect("an id");
            let due_at = chrono::DateTime::from_timestamp_millis(payment.due_ms()).expect("in range");
            let gateway = GatewayName("sandbox".into());
            let notice = Notice { payment, gateway, lane: 1, due_at, not_before: due_at, attempt: 0 };
            let (value, mac) = (value_of(&notice), notice_mac(&secret, &notice));
            let place = partition(shard(payment), own_ring::PARTITIONS);
            let seal = OwnedHeaders::new()
                .insert(Header { key: "mac", value: Some(&mac) })
                .insert(Header { key: "relay", value: Some("0/0") });
            let record = FutureRecord::to(&topic).key(id).payload(&value).partition(place).headers(seal);
            producer.send(record, seconds(20)).await.expect("a delivery");
        });
        join_all(sent).await;
    }
}

/// Claims of this worker that were refused because the payment was done already.
async fn refused(site: &Installation, name: &str) -> f64 {
    let metrics = site.text(name, "/metrics").await.expect("metrics");
    let claims = metrics.lines().filter(|line| line.starts_with("punctual_claims_total"));
    let done = claims.filter(|line| line.contains("completed") || line.contains("stale"));
    done.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test]
async fn offsets_set_back_to_the_beginning_charge_nothing_again_and_delay_nothing_that_becomes_due() {
    let mut site = own_ring::site("rewound", &[]).await;
    site.start("keeper", "keeper-1", &[]).await;
    site.start("relay", "relay-1", &[]).await;
    site.start("worker", "worker-1", &[("worker.slot", "")]).await;
    let mut ids = Vec::new();
    for n in 0..PAID {
        let payee = if n < 55 { "sim_ok" } else { "sim_slow_2000" };
        ids.push(site.create(&format!("first-{n}"), payee, in_ms(2_000)).await);
    }
    let slow = ids.split_off(55);
    all_paid_once(&site, &ids, seconds(30)).await;
    for id in &slow {
        site.settled(id, &["PROCESSING", "COMPLETED"], seconds(15)).await;
    }
    // With calls in flight: they end, and with them the offsets.
    assert_eq!(site.role("worker-1").drain(seconds(15)).await, 0);
    all_paid_once(&site, &slow, seconds(1)).await;
    assert_eq!(lag(&site).await, 0, "everything that was done is committed");
    ids.extend(slow);
    copies(&site, &ids).await;

    eventually("the group has no member and is set back", seconds(40), || async {
        reset_to_earliest(&site).await.then_some(())
    })
    .await;
    let all: i64 = extents(&site).await.values().map(|(first, end)| end - first).sum();
    assert_eq!(lag(&site).await, all);
    assert!(all >= i64::try_from(PAID * (COPIES + 1)).expect("small"), "{all}");
    let mut meanwhile = Vec::new();
    for n in 0..20 {
        meanwhile.push(site.create(&format!("meanwhile-{n}"), "sim_ok", in_ms(4_000 + 100 * n)).await);
    }
    site.start("worker", "worker-2", &[("worker.slot", "")]).await;
    let began = Instant::now();
    let late_ms = all_paid_once(&site, &meanwhile, seconds(40)).await;
    assert!(late_ms < 5_000, "before the late scan looks: {late_ms} ms");
    eventually("the lag is worked off", seconds(40), || async { (lag(&site).await == 0).then_some(()) })
        .await;
    println!("{all} records again in {:?}; the others at most {late_ms} ms late", began.elapsed());
    assert!(refused(&site, "worker-2").await >= 0.99 * f64::from(i32::try_from(all).expect("small")));
    assert_eq!(site.ledger().await.len(), PAID + meanwhile.len(), "the gateway heard of nothing twice");
    remove(site).await;
}
