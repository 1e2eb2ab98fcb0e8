//! The newest events of the topic: what a database must have, if it is the one that they were published from.
//!
//! **Promises.** Reads with a client that joins no group and commits nothing, of each partition the newest `NEWEST`
//! records up to the end that it had when the reading began, and answers those that can be read as events with their
//! seals. What a replay published again is passed over, however much of it lies behind the newest: it says of itself
//! that it is old. It judges nothing: whether a seal is ours is the caller's to ask. **Relies on** being called on a
//! thread that may block; behind a long replay it reads for as long. If Kafka is away there is no answer, and nobody may
//! take that for a good one.

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

/// Records of one partition: more than a few, since a publisher that died publishes its last ones again.
const NEWEST: usize = 100;
/// Read at first, and on the way back at most at once.
const AT_ONCE: (i64, i64) = (100, 10_000);

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
        let begin = begins.get(&part).copied().unwrap_or(end).max(end - AT_ONCE.0);
        if begin < end {
            left.insert(part, (begin, end));
        }
    }
    let mut all = Vec::new();
    for (part, (end, mut newest)) in read(&consumer, left)? {
        all.append(&mut newest.events);
        let begin = begins.get(&part).copied().unwrap_or(end);
        all.extend(further_back(&consumer, &part, (begin, end), newest.records)?);
    }
    Ok(all)
}

/// What a stretch of a partition holds beside repetitions.
#[derive(Default)]
struct Newest {
    /// Records, sealed or not.
    records: usize,
    events: Vec<SealedEvent>,
}

/// Of this span, from its end: until enough was seen.
fn further_back(
    consumer: &BaseConsumer<Logged>,
    part: &PartName,
    (begin, mut end): (i64, i64),
    mut seen: usize,
) -> Result<Vec<SealedEvent>, DumpError> {
    let mut events = Vec::new();
    let mut width = AT_ONCE.0;
    while begin < end && seen < NEWEST {
        width = (width * 10).min(AT_ONCE.1);
        let from = begin.max(end - width);
        for (_, (_, newest)) in read(consumer, BTreeMap::from([(part.clone(), (from, end))]))? {
            seen += newest.records;
            events.extend(newest.events);
        }
        end = from;
    }
    Ok(events)
}

/// Each span, with its begin.
fn read(
    consumer: &BaseConsumer<Logged>,
    mut left: BTreeMap<PartName, (i64, i64)>,
) -> Result<BTreeMap<PartName, (i64, Newest)>, DumpError> {
    consumer.assign(&list(left.iter().map(|(part, (begin, _))| (part, Offset::Offset(*begin))))?)?;
    let mut all: BTreeMap<PartName, (i64, Newest)> =
        left.iter().map(|(part, (begin, _))| (part.clone(), (*begin, Newest::default()))).collect();
    while !left.is_empty() {
        let record = consumer.poll(ANSWER_WITHIN).ok_or(DumpError::Silent)??;
        let part = (record.topic().to_owned(), record.partition());
        let Some((_, end)) = left.get(&part).copied() else { continue };
        if record.offset() < end
            && !is_again(&record)
            && let Some((_, newest)) = all.get_mut(&part)
        {
            newest.records += 1;
            newest.events.extend(sealed(&record));
        }
        if record.offset() + 1 >= end {
            left.remove(&part);
        }
    }
    consumer.assign(&TopicPartitionList::new())?;
    Ok(all)
}

/// Published before, by its own word. Who lies so hides nothing but their own record.
fn is_again(record: &BorrowedMessage<'_>) -> bool {
    record.headers().is_some_and(|headers| headers.iter().any(|header| header.key == "again"))
}

/// What cannot be read, or has no seal, proves nothing.
fn sealed(record: &BorrowedMessage<'_>) -> Option<SealedEvent> {
    let headers = record.headers()?;
    let mac = headers.iter().find(|header| header.key == "mac").and_then(|header| header.value)?;
    let Event { subject, sequence, time } = serde_json::from_slice(record.payload()?).ok()?;
    Some(SealedEvent { payment: subject, sequence, at: time, mac: String::from_utf8_lossy(mac).into_owned() })
}
