//! Records in a due topic that are no notices, are not ours, or know more than the database.

use super::{all_paid_once, in_ms, running, seconds, sql, uuid};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::services::services;
use chrono::{DateTime, Utc};
use punctual::bucket::value_of;
use punctual::domain::ids::{GatewayName, PaymentId};
use punctual::domain::intent::notice_mac;
use punctual::domain::notice::Notice;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

fn now_topic(site: &Installation) -> String {
    format!("{}payments.due.now", site.ring.prefix)
}

/// Produces into the first partition of the near topic; answers the record's offset.
async fn produce(site: &Installation, key: &str, value: Option<&[u8]>, mac: Option<&str>) -> i64 {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &services().kafka_bootstrap_servers)
        .create()
        .expect("settings");
    let topic = now_topic(site);
    let mut record = FutureRecord::to(&topic).key(key).partition(0);
    if let Some(value) = value {
        record = record.payload(value);
    }
    if let Some(mac) = mac {
        record = record.headers(OwnedHeaders::new().insert(Header { key: "mac", value: Some(mac) }));
    }
    producer.send(record, Duration::from_secs(20)).await.expect("a delivery").offset
}

/// A notice of this payment as of `attempt`, due at once.
fn notice(id: &str, attempt: i32) -> Notice {
    let payment: PaymentId = id.parse().expect("an id");
    let due_at = DateTime::<Utc>::from_timestamp_millis(payment.due_ms()).expect("in range");
    Notice { payment, gateway: GatewayName("sandbox".into()), lane: 1, due_at, not_before: due_at, attempt }
}

async fn secret(site: &Installation) -> [u8; 32] {
    let secret: Vec<u8> = sqlx::query_scalar("SELECT secret FROM installation")
        .fetch_one(&mut sql(site).await)
        .await
        .expect("a secret");
    secret.try_into().expect("32 bytes")
}

async fn quarantine(site: &Installation) -> Option<String> {
    let reason =
        sqlx::query_scalar("SELECT quarantine_reason FROM installation WHERE quarantined_at IS NOT NULL");
    reason.fetch_optional(&mut sql(site).await).await.expect("an answer")
}

/// The group's committed offset of the near topic's first partition.
async fn committed(site: &Installation) -> i64 {
    let group = site.environment["PUNCTUAL_KAFKA__GROUP"].clone();
    let topic = now_topic(site);
    let asked = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &services().kafka_bootstrap_servers)
            .set("group.id", group)
            .create()
            .expect("settings");
        let mut asked = TopicPartitionList::new();
        asked.add_partition(&topic, 0);
        let found = consumer.committed_offsets(asked, Duration::from_secs(10)).expect("an answer");
        match found.elements()[0].offset() {
            Offset::Offset(offset) => offset,
            _ => -1,
        }
    });
    asked.await.expect("no panic")
}

#[tokio::test]
async fn what_is_no_notice_of_ours_is_kept_for_people_and_its_partition_goes_on() {
    let site = running(&[]).await;
    let first = site.create("first", "sim_ok", in_ms(500)).await;
    all_paid_once(&site, std::slice::from_ref(&first), seconds(30)).await;

    let forged = notice(&first, 7);
    let unknown = notice("01a227a1-6ba0-8001-8203-040506070809", 0);
    let value = value_of(&forged);
    let (short, wrong) = ("ab", notice_mac(&[0; 32], &forged));
    let mut bad = Vec::new();
    for (key, value, mac) in [
        ("garbage", Some(b"{not json".as_slice()), None),
        ("later", Some(br#"{"v": 9}"#.as_slice()), None),
        // The reader's words about it hold a NUL, which no text column keeps.
        ("nul", Some(br#"{"v": 1, "\u0000": 1}"#.as_slice()), None),
        ("nothing", None, None),
        (first.as_str(), Some(value.as_slice()), None),
        (first.as_str(), Some(value.as_slice()), Some(short)),
        (first.as_str(), Some(value.as_slice()), Some(wrong.as_str())),
        ("01a227a1-6ba0-8001-8203-040506070809", Some(value_of(&unknown).as_slice()), Some(wrong.as_str())),
    ] {
        bad.push(produce(&site, key, value, mac).await);
    }
    let kept = eventually("all of them are kept", seconds(20), || async {
        let kept = sqlx::query_scalar(
            "SELECT reason FROM bad_notices WHERE topic = $1 AND kafka_partition = 0 AND kafka_offset = ANY ($2)
             ORDER BY kafka_offset",
        );
        let kept: Vec<String> =
            kept.bind(now_topic(&site)).bind(&bad).fetch_all(&mut sql(&site).await).await.expect("rows");
        (kept.len() == bad.len()).then_some(kept)
    })
    .await;
    assert!(kept[1].contains("version 9"), "{kept:?}");
    assert!(kept[4..].iter().all(|reason| reason.contains("seal")), "{kept:?}");
    assert_eq!(quarantine(&site).await, None, "a forged notice proves nothing");

    let mut later = Vec::new();
    for n in 0..8 {
        later.push(site.create(&format!("later-{n}"), "sim_ok", in_ms(1_500)).await);
    }
    let late_ms = all_paid_once(&site, &later, seconds(30)).await;
    assert!(late_ms < 10_000, "the late scan, which waits for 15 s, was not needed: {late_ms} ms");
    let last = *bad.last().expect("some");
    eventually("the partition's offset is past them", seconds(15), || async {
        (committed(&site).await > last).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_authentic_notice_that_the_database_cannot_explain_stops_claims_until_they_are_released() {
    let site = running(&[]).await;
    let secret = secret(&site).await;
    let first = site.create("first", "sim_ok", in_ms(500)).await;
    all_paid_once(&site, std::slice::from_ref(&first), seconds(30)).await;

    let unknown = PaymentId::new(Utc::now(), [7; 10]).expect("in range").to_string();
    for (number, lost) in [notice(&first, 2), notice(&unknown, 0)].into_iter().enumerate() {
        let key = lost.payment.to_string();
        produce(&site, &key, Some(&value_of(&lost)), Some(&notice_mac(&secret, &lost))).await;
        let why = eventually("the database is quarantined", seconds(20), || quarantine(&site)).await;
        assert!(why.contains(&key), "{why}");

        let held = site.create(&format!("held-{number}"), "sim_ok", in_ms(500)).await;
        let late = "SELECT clock_timestamp() > due_at + interval '2 s' FROM payments WHERE id = $1";
        eventually("it is due for two seconds", seconds(20), || async {
            let late: bool = sqlx::query_scalar(late)
                .bind(uuid(&held))
                .fetch_one(&mut sql(&site).await)
                .await
                .expect("its row");
            late.then_some(())
        })
        .await;
        let (_, payment) = site.get(&held).await.expect("an answer");
        assert_eq!(payment["status"], "PENDING", "{payment}");
        sqlx::query("SELECT release_lineage()").execute(&mut sql(&site).await).await.expect("released");
        all_paid_once(&site, &[held], seconds(30)).await;
    }
    assert_eq!(quarantine(&site).await, None, "each of them was taken in once");
}
