//! The ring as it lies in Kafka at one moment, and a look at single records, for people.
//!
//! **Promises.** Asks with a client that joins no group, commits nothing and makes no topic: whoever looks
//! changes nothing. **Relies on** being called on a thread that may block.
//!
//! A slot of the ring is used again every hour and its records stay for six. Which of them wait for the
//! coming minute is known without reading them: the broker stamps records as it takes them, and nothing is
//! staged earlier than [`LONGEST_LEAD`] before its minute.

use super::consumer::observer;
use super::dump::{ANSWER_WITHIN, DumpError, PartName, committed, list, places};
use super::names::Names;
use super::notice::{BadNotice, Read, decode};
use crate::domain::bucket::{Channel, LONGEST_LEAD, channels, coming_minute};
use crate::platform::config::Kafka;
use chrono::{DateTime, Utc};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::BTreeMap;

/// One partition of a topic of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub partition: i32,
    /// The oldest record that is left, or where one would be.
    pub begin: i64,
    /// One past the newest record.
    pub end: i64,
    /// The workers' next offset; `None`: they have committed none.
    pub committed: Option<i64>,
    /// The first record that waits for the slot's coming minute; of `now`: that is not complete.
    pub staged_from: i64,
}

impl Part {
    /// Records that are not complete.
    #[must_use]
    pub fn lag(&self) -> i64 {
        (self.end - self.committed.unwrap_or(self.begin)).max(0)
    }

    /// Records that wait for the coming minute.
    #[must_use]
    pub fn staged(&self) -> i64 {
        (self.end - self.staged_from).max(0)
    }
}

/// Every topic of the ring, the minutes from now on and then `now`, each with its partitions in order.
///
/// # Errors
/// See [`DumpError`].
pub fn survey(kafka: &Kafka, now: DateTime<Utc>) -> Result<Vec<(Channel, Vec<Part>)>, DumpError> {
    let consumer = observer(kafka)?;
    let names = Names::new(&kafka.topic_prefix);
    let mut parts = Vec::new();
    for channel in channels() {
        parts.extend(partitions(&consumer, &names.topic(channel))?);
    }
    let all = |offset| list(parts.iter().map(|part| (part, offset)));
    // Committed first: what is complete then is complete in what follows.
    let committed = committed(&consumer, &all(Offset::Invalid)?)?;
    let ends = places(&consumer, &all(Offset::End)?)?;
    let begins = places(&consumer, &all(Offset::Beginning)?)?;
    // The protocol takes an instant where an offset stands.
    let staged_at = parts.iter().filter_map(|part| match names.channel(&part.0)? {
        Channel::Ring(slot) => {
            let from = coming_minute(slot, now) - LONGEST_LEAD;
            Some((part, Offset::Offset(from.timestamp_millis())))
        }
        Channel::Now => None,
    });
    let staged = places(&consumer, &list(staged_at)?)?;
    let mut found: BTreeMap<Channel, Vec<Part>> = BTreeMap::new();
    for part in &parts {
        let (Some(channel), Some(&end)) = (names.channel(&part.0), ends.get(part)) else { continue };
        let begin = begins.get(part).copied().unwrap_or(end);
        let committed = committed.get(part).copied();
        let staged_from = match channel {
            // No record since then: nothing is staged.
            Channel::Ring(_) => staged.get(part).copied().unwrap_or(end),
            Channel::Now => committed.unwrap_or(begin),
        };
        let part = Part { partition: part.1, begin, end, committed, staged_from };
        found.entry(channel).or_default().push(part);
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(channel, _)| match channel {
        Channel::Ring(slot) => (0, coming_minute(*slot, now)),
        Channel::Now => (1, now),
    });
    Ok(found)
}

/// In how many partitions of the ring the workers' group has committed an offset beyond the end: of a topic of the
/// same name that is gone. What comes to the new one would be skipped up to there.
///
/// # Errors
/// See [`DumpError`].
pub fn skipped(kafka: &Kafka) -> Result<usize, DumpError> {
    let consumer = observer(kafka)?;
    let names = Names::new(&kafka.topic_prefix);
    let mut parts = Vec::new();
    for channel in channels() {
        parts.extend(partitions(&consumer, &names.topic(channel))?);
    }
    let committed = committed(&consumer, &list(parts.iter().map(|part| (part, Offset::Invalid)))?)?;
    let mut skipped = 0;
    for ((topic, partition), committed) in committed {
        let (_, end) = consumer.fetch_watermarks(&topic, partition, ANSWER_WITHIN)?;
        skipped += usize::from(committed > end);
    }
    Ok(skipped)
}

/// A record as it lies there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// Of its topic.
    pub partition: i32,
    /// Of its partition.
    pub offset: i64,
    /// When the broker took it.
    pub taken_at: Option<DateTime<Utc>>,
    /// In their order; a value that is no text is in hexadecimal.
    pub headers: Vec<(String, String)>,
    /// What it says, or why it cannot be read.
    pub read: Result<Read, BadNotice>,
    /// Below the workers' committed offset.
    pub is_complete: bool,
}

/// The newest `limit` records of a topic of the ring, oldest first.
///
/// # Errors
/// See [`DumpError`].
pub fn peek(kafka: &Kafka, channel: Channel, limit: usize) -> Result<Vec<Peeked>, DumpError> {
    let consumer = observer(kafka)?;
    let parts = partitions(&consumer, &Names::new(&kafka.topic_prefix).topic(channel))?;
    let all = |offset| list(parts.iter().map(|part| (part, offset)));
    let committed = committed(&consumer, &all(Offset::Invalid)?)?;
    let ends = places(&consumer, &all(Offset::End)?)?;
    let begins = places(&consumer, &all(Offset::Beginning)?)?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut left: BTreeMap<PartName, (i64, i64)> = BTreeMap::new();
    for (part, end) in ends {
        let begin = begins.get(&part).copied().unwrap_or(end).max(end.saturating_sub(most));
        if begin < end {
            left.insert(part, (begin, end));
        }
    }
    consumer.assign(&list(left.iter().map(|(part, (begin, _))| (part, Offset::Offset(*begin))))?)?;
    let mut found = Vec::new();
    while !left.is_empty() {
        let record = consumer.poll(ANSWER_WITHIN).ok_or(DumpError::Silent)??;
        let part = (record.topic().to_owned(), record.partition());
        let Some((_, end)) = left.get(&part).copied() else { continue };
        if record.offset() < end {
            let is_complete = committed.get(&part).is_some_and(|committed| record.offset() < *committed);
            found.push(peeked(&record, is_complete));
        }
        if record.offset() + 1 >= end {
            left.remove(&part);
        }
    }
    consumer.assign(&TopicPartitionList::new())?;
    found.sort_by_key(|it: &Peeked| (it.taken_at, it.partition, it.offset));
    Ok(found.split_off(found.len().saturating_sub(limit)))
}

fn partitions(
    consumer: &BaseConsumer<super::connect::Logged>,
    topic: &str,
) -> Result<Vec<PartName>, DumpError> {
    let metadata = consumer.fetch_metadata(Some(topic), ANSWER_WITHIN)?;
    let of_topic = metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions);
    let parts: Vec<PartName> = of_topic.map(|partition| (topic.to_owned(), partition.id())).collect();
    if parts.is_empty() { Err(DumpError::NoTopic(topic.to_owned())) } else { Ok(parts) }
}

fn peeked(record: &BorrowedMessage<'_>, is_complete: bool) -> Peeked {
    let headers = record.headers();
    let find = |name: &str| headers?.iter().find(|header| header.key == name).and_then(|header| header.value);
    let text = |value: Option<&[u8]>| {
        let value = value.unwrap_or_default();
        std::str::from_utf8(value).map_or_else(|_| hex::encode(value), str::to_owned)
    };
    let all = headers.iter().flat_map(|headers| headers.iter());
    Peeked {
        partition: record.partition(),
        offset: record.offset(),
        taken_at: record.timestamp().to_millis().and_then(DateTime::from_timestamp_millis),
        headers: all.map(|header| (header.key.to_owned(), text(header.value))).collect(),
        read: decode(record.key(), record.payload(), find),
        is_complete,
    }
}
