//! The broker that the other tests rely on is there, is real, and keeps what it is given.

use crate::support::services::services;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::time::Duration;

fn client() -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", &services().kafka_bootstrap_servers);
    client
}

#[tokio::test]
async fn what_is_produced_is_consumed_unchanged_and_in_order() {
    let topic = format!("it.round-trip.{}", std::process::id());
    let admin: AdminClient<_> = client().create().expect("settings");
    let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(1));
    let made = admin.create_topics(&[new], &AdminOptions::new()).await.expect("an answer");
    assert_eq!(made, [Ok(topic.clone())]);

    let producer: FutureProducer = client()
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", "20000")
        .create()
        .expect("settings");
    let payloads: Vec<String> = (0..100).map(|number| format!("notice {number}")).collect();
    let reports = payloads.iter().map(|payload| {
        let record = FutureRecord::to(&topic).key("one").payload(payload);
        producer.send_result(record).expect("room in the queue")
    });
    for report in futures_util::future::join_all(reports.collect::<Vec<_>>()).await {
        report.expect("a report").expect("a delivery");
    }

    let consumer: StreamConsumer =
        client().set("group.id", &topic).set("auto.offset.reset", "earliest").create().expect("settings");
    consumer.subscribe(&[&topic]).expect("a subscription");
    for payload in &payloads {
        let record = tokio::time::timeout(Duration::from_secs(20), consumer.recv()).await;
        let record = record.expect("a record in time").expect("a record");
        assert_eq!(record.payload(), Some(payload.as_bytes()));
        assert_eq!(record.key(), Some(b"one".as_slice()));
    }
    admin.delete_topics(&[&topic], &AdminOptions::new()).await.expect("an answer");
}

#[tokio::test]
async fn the_broker_is_apache_kafka_in_kraft_mode_and_not_a_stand_in() {
    if services().kafka_kind != "apache" {
        // Somebody else's brokers may be any that speak the protocol.
        return;
    }
    let admin: AdminClient<_> = client().create().expect("settings");
    let asked = [ResourceSpecifier::Broker(1)];
    let answers = admin.describe_configs(&asked, &AdminOptions::new()).await.expect("an answer");
    let broker = answers[0].as_ref().expect("the broker's settings");
    // The client library's own mock has no such request, and other brokers no such settings.
    let setting = |name: &str| broker.get(name).and_then(|entry| entry.value.clone());
    assert_eq!(setting("process.roles").as_deref(), Some("broker,controller"));
    assert_eq!(setting("auto.create.topics.enable").as_deref(), Some("false"));
    assert!(setting("controller.quorum.voters").is_some());
}
