//! The stand-in for Kafka carries records between ordinary clients, and only between them.

use punctual::bucket::in_process::InProcessKafka;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::time::Duration;

#[tokio::test]
async fn the_stand_in_makes_topics_when_asked_and_carries_records() {
    let kafka = InProcessKafka::start().expect("a stand-in");
    kafka.create_topic("payments.due.now", 2).expect("a topic");
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", kafka.bootstrap_servers());

    let producer: FutureProducer = client.create().expect("settings");
    let record = FutureRecord::to("payments.due.now").key("one").payload("notice");
    producer.send(record, Duration::from_secs(10)).await.expect("a delivery");

    let settings = client.set("group.id", "workers").set("auto.offset.reset", "earliest");
    let consumer: StreamConsumer = settings.create().expect("settings");
    let metadata =
        consumer.fetch_metadata(Some("payments.due.now"), Duration::from_secs(10)).expect("metadata");
    assert_eq!(metadata.topics()[0].partitions().len(), 2);
    consumer.subscribe(&["payments.due.now"]).expect("a subscription");
    let record = tokio::time::timeout(Duration::from_secs(20), consumer.recv()).await;
    let record = record.expect("a record in time").expect("a record");
    assert_eq!(record.payload(), Some(b"notice".as_slice()));
}
