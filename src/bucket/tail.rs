//! The newest events of the topic: what a database must have, if it is the one that they were published from.
//!
//! **Promises.** Reads with a client that joins no group and commits nothing, of each partition at most `NEWEST`
//! records up to the end that it had when the reading began, and answers those that can be read as events with their
//! seals. It judges nothing: whether a seal is ours is the caller's to ask. **Relies on** being called on a thread that
//! may block. If Kafka is away there is no answer, and nobody may take that for a good one.

use super::connect::Logged;
use super::consumer::observer;
use super::dump::{ANSWER_WITHIN, DumpError, PartName, list, places};
use crate::domain::ids::PaymentId;
use crate::platform::config::Kafka;
use chrono::{DateTime, Utc};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Records of one partition: more than a few, since old events may have been published again after the newest.
const NEWEST: i64 = 100;

/// An event with its seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedEvent {
    /// Whose.
    pub payment: PaymentId,
    /// The number of its history row.
    pub sequence: i32,
    /// The instant of that row.
    pub at: DateTime<Utc>,
    /// As it came.
    pub mac: String,
}

#[derive(Deserialize)]
struct Event {
    subject: PaymentId,
    sequence: i32,
    time: DateTime<Utc>,
}

/// The newest events of every partition. Blocks.
///
/// # Errors
/// See [`DumpError`].
pub fn newest_events(kafka: &Kafka) -> Result<Vec<SealedEvent>, DumpError> {
    let consumer = observer(kafka)?;
    let topic = format!("{}events", kafka.topic_prefix);
    let metadata = consumer.fetch_metadata(Some(&topic), ANSWER_WITHIN)?;
    let of_topic = metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions);
    let parts: Vec<PartName> = of_topic.map(|partition| (topic.clone(), partition.id())).collect();
    if parts.is_empty() {
        return Err(DumpError::NoTopic(topic));
    }
    let asked = |offset| places(&consumer, &list(parts.iter().map(|part| (part, offset)))?);
    let ends = asked(Offset::End)?;
    let begins = asked(Offset::Beginning)?;
    let mut left: BTreeMap<PartName, (i64, i64)> = BTreeMap::new();
    for (part, end) in ends {
        let begin = begins.get(&part).copied().unwrap_or(end).max(end - NEWEST);
        if begin < end {
            left.insert(part, (begin, end));
        }
    }
    read(&consumer, left)
}

fn read(
    consumer: &BaseConsumer<Logged>,
    mut left: BTreeMap<PartName, (i64, i64)>,
) -> Result<Vec<SealedEvent>, DumpError> {
    consumer.assign(&list(left.iter().map(|(part, (begin, _))| (part, Offset::Offset(*begin))))?)?;
    let mut events = Vec::new();
    while !left.is_empty() {
        let record = consumer.poll(ANSWER_WITHIN).ok_or(DumpError::Silent)??;
        let part = (record.topic().to_owned(), record.partition());
        let Some((_, end)) = left.get(&part).copied() else { continue };
        if record.offset() < end {
            events.extend(sealed(&record));
        }
        if record.offset() + 1 >= end {
            left.remove(&part);
        }
    }
    consumer.assign(&TopicPartitionList::new())?;
    Ok(events)
}

/// What cannot be read, or has no seal, proves nothing.
fn sealed(record: &BorrowedMessage<'_>) -> Option<SealedEvent> {
    let headers = record.headers()?;
    let mac = headers.iter().find(|header| header.key == "mac").and_then(|header| header.value)?;
    let Event { subject, sequence, time } = serde_json::from_slice(record.payload()?).ok()?;
    Some(SealedEvent { payment: subject, sequence, at: time, mac: String::from_utf8_lossy(mac).into_owned() })
}
