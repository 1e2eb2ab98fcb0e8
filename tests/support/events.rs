//! The events of a run, read from Kafka as any consumer would.

use super::eventually;
use super::installation::Installation;
use super::records::Records;
use punctual::domain::ids::PaymentId;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Waits until as many different events of this run are there as it has rows of history, at most 30 s;
/// then gives them all, repetitions too, in the order of each partition. Fewer are given where the time
/// is over: that they are too few is for the checker to say.
pub async fn published(site: &Installation, records: &Records) -> Vec<(PaymentId, i64)> {
    let ours: BTreeSet<PaymentId> = records.payments.iter().map(|payment| payment.id).collect();
    let rows: usize = records.payments.iter().map(|p| usize::try_from(p.history_seq).expect("a count")).sum();
    let start = std::time::Instant::now();
    eventually("the events are there, or the time for them is over", SOON * 2, || async {
        let site = (site.kafka().to_owned(), format!("{}payments.events", site.ring.prefix));
        let ours = ours.clone();
        let read = tokio::task::spawn_blocking(move || read(&site.0, &site.1, &ours));
        let events = read.await.expect("it reads on");
        let different = events.iter().collect::<BTreeSet<_>>().len();
        (different >= rows || start.elapsed() > SOON).then_some(events)
    })
    .await
}

fn read(servers: &str, topic: &str, ours: &BTreeSet<PaymentId>) -> Vec<(PaymentId, i64)> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", "reads-only")
        .set("enable.auto.commit", "false")
        .create()
        .expect("settings");
    let metadata = consumer.fetch_metadata(Some(topic), SOON).expect("an answer");
    let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions()).map(|it| it.id());
    let mut list = TopicPartitionList::new();
    let mut left = 0;
    for partition in partitions {
        let (begin, end) = consumer.fetch_watermarks(topic, partition, SOON).expect("an answer");
        left += end - begin;
        list.add_partition_offset(topic, partition, Offset::Offset(begin)).expect("a place");
    }
    consumer.assign(&list).expect("assigned");
    let mut events = Vec::new();
    while left > 0 {
        let record = consumer.poll(SOON).expect("a record in time").expect("a record");
        left -= 1;
        let event: Value = serde_json::from_slice(record.payload().expect("a value")).expect("JSON");
        let id: PaymentId = event["subject"].as_str().expect("an id").parse().expect("a payment's id");
        if ours.contains(&id) {
            events.push((id, event["sequence"].as_i64().expect("a number")));
        }
    }
    events
}
