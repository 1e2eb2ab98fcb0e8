//! What a process that begins asks Kafka: the newest events, whatever a replay laid upon them.

use crate::support::services::services;
use futures_util::future::join_all;
use punctual::bucket::tail::{SealedEvent, newest_events};
use punctual::domain::ids::PaymentId;
use punctual::platform::config;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
/// More than is looked at in one step back.
const REPEATED: i32 = 1_500;

/// Whether a record is of a replay.
#[derive(Clone, Copy, PartialEq)]
enum Sent {
    First,
    Again,
}

fn event(sequence: i32) -> SealedEvent {
    let at = chrono::DateTime::from_timestamp(1_795_960_020, 0).expect("in range");
    let payment = PaymentId::new(at, [9; 10]).expect("an id");
    SealedEvent { payment, sequence, at, mac: format!("seal {sequence}") }
}

async fn publish(topic: &str, events: impl Iterator<Item = SealedEvent>, sent: Sent) {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &services().kafka_bootstrap_servers)
        .create()
        .expect("settings");
    let records = events.map(|event| {
        let value =
            json!({"subject": event.payment, "sequence": event.sequence, "time": event.at}).to_string();
        let producer = producer.clone();
        async move {
            let mut headers = OwnedHeaders::new().insert(Header { key: "mac", value: Some(&event.mac) });
            if sent == Sent::Again {
                headers = headers.insert(Header { key: "again", value: Some("1") });
            }
            let record = FutureRecord::to(topic).key("k").payload(&value).partition(0).headers(headers);
            producer.send(record, SOON).await.expect("a delivery");
        }
    });
    join_all(records).await;
}

async fn newest(kafka: &config::Kafka) -> Vec<i32> {
    let kafka = kafka.clone();
    let found = tokio::task::spawn_blocking(move || newest_events(&kafka)).await.expect("read");
    let mut sequences: Vec<i32> = found.expect("events").into_iter().map(|event| event.sequence).collect();
    sequences.sort_unstable();
    sequences
}

#[tokio::test]
async fn a_replay_does_not_hide_the_newest_event_that_was_published_before_it() {
    let servers = services().kafka_bootstrap_servers.clone();
    let kafka = config::Kafka {
        bootstrap_servers: servers.clone(),
        topic_prefix: format!("tail-{}.", std::process::id()),
        ..Default::default()
    };
    let topic = format!("{}events", kafka.topic_prefix);
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &servers).create().expect("settings");
    let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(1));
    for made in admin.create_topics([&new], &AdminOptions::new()).await.expect("an answer") {
        made.expect("made");
    }
    publish(&topic, [event(1)].into_iter(), Sent::First).await;
    publish(&topic, (0..REPEATED).map(|_| event(7)), Sent::Again).await;
    assert_eq!(newest(&kafka).await, [1], "behind all that was repeated");
    publish(&topic, [event(2)].into_iter(), Sent::First).await;
    assert_eq!(newest(&kafka).await, [1, 2]);
    publish(&topic, (100..250).map(event), Sent::First).await;
    assert_eq!(newest(&kafka).await, (150..250).collect::<Vec<_>>(), "as many as are looked at, and no more");
    for gone in admin.delete_topics(&[&topic], &AdminOptions::new()).await.expect("an answer") {
        gone.expect("deleted");
    }
}
