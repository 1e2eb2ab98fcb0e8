//! The topics as anybody could read them, and the committed offsets of the workers' group: what the checks
//! of [`crate::audit`] compare with the database.
//!
//! **Promises.** Reads with a client that joins no group and commits nothing; each partition from its first
//! record (or from an instant) to the end that it had when the reading began. Keeps a few words of each
//! record. **Relies on** being called on a thread that may block. **Why offsets first**: what is below a
//! committed offset then was complete before anything else was looked at.
//!
//! If Kafka is away there is no dump, and whatever needs one is unknown.

use super::connect::{BadSettings, Logged};
use super::consumer::observer;
use super::names::Names;
use super::notice::decode;
use crate::domain::bucket::Channel;
use crate::domain::ids::PaymentId;
use crate::platform::config::Kafka;
use chrono::{DateTime, Utc};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// A question is repeated so often while partitions have no leader or their group no coordinator, or a new one that
/// we do not know.
const LEADERS_CHANGE: usize = 40;
/// Between two of them.
const LEADERS_SETTLE: Duration = Duration::from_millis(250);

/// Why there is no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// No client can be made from these settings.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// A broker refused, or nobody answers.
    #[error("the topics cannot be read: {0}")]
    Kafka(#[from] KafkaError),
    /// A topic that is not there.
    #[error("the topic {0} does not exist")]
    NoTopic(String),
    /// Nothing came although the end was not reached.
    #[error("no record came within {ANSWER_WITHIN:?} although the end was not reached")]
    Silent,
    /// An event that nobody here would have written.
    #[error("{topic}/{partition} offset {offset}: not an event: {source}")]
    NotAnEvent {
        /// Its topic.
        topic: String,
        /// Its partition.
        partition: i32,
        /// Its offset.
        offset: i64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Where a record of the ring lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The topic.
    pub channel: Channel,
    /// The partition of the topic.
    pub partition: i32,
    /// The record.
    pub offset: i64,
}

/// What is kept of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpedNotice {
    /// Whose.
    pub payment: PaymentId,
    /// Claims made when it was written.
    pub attempt: i32,
    /// Where it lies.
    pub place: Place,
    /// Below the committed offset.
    pub is_complete: bool,
}

/// What is kept of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpedEvent {
    /// Whose.
    pub payment: PaymentId,
    /// The number of its history row.
    pub sequence: i64,
    /// The partition of the topic of events.
    pub partition: i32,
}

/// What the topics hold of a window.
#[derive(Debug, Clone, Default)]
pub struct Dump {
    /// In the order of each partition.
    pub notices: Vec<DumpedNotice>,
    /// Records of the ring that are no notices, each with whether it lies below the committed offset.
    pub unreadable: Vec<(Place, bool)>,
    /// In the order of each partition.
    pub events: Vec<DumpedEvent>,
    /// Events before this instant may be gone, or were not read; `None`: the topic has all.
    pub events_complete_from: Option<DateTime<Utc>>,
}

/// A topic and a partition of it.
pub(super) type PartName = (String, i32);

/// Where to read from and to, taken at one moment; may be read any number of times.
pub struct Span {
    consumer: BaseConsumer<Logged>,
    names: Names,
    events: String,
    committed: BTreeMap<PartName, i64>,
    parts: BTreeMap<PartName, (i64, i64)>,
    since: Option<DateTime<Utc>>,
    is_truncated: bool,
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Span").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Event {
    subject: PaymentId,
    sequence: i64,
}

impl Span {
    /// Committed offsets first, then the ends; records before `since` are left out. Blocks.
    ///
    /// # Errors
    /// See [`DumpError`].
    pub fn take(kafka: &Kafka, since: Option<DateTime<Utc>>) -> Result<Self, DumpError> {
        let consumer = observer(kafka)?;
        let names = Names::new(&kafka.topic_prefix);
        let events = format!("{}events", kafka.topic_prefix);
        let mut topics = names.ring();
        topics.push(events.clone());
        let mut parts = Vec::new();
        for topic in topics {
            let metadata = consumer.fetch_metadata(Some(&topic), ANSWER_WITHIN)?;
            let of_topic = metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions);
            let before = parts.len();
            parts.extend(of_topic.map(|partition| (topic.clone(), partition.id())));
            if parts.len() == before {
                return Err(DumpError::NoTopic(topic));
            }
        }
        let all = |offset| list(parts.iter().map(|part| (part, offset)));
        let committed = committed(&consumer, &all(Offset::Invalid)?)?;
        let asked = |offset| places(&consumer, &all(offset)?);
        let ends = asked(Offset::End)?;
        let first = asked(Offset::Beginning)?;
        let begins = match since {
            // The protocol takes an instant where an offset stands.
            Some(since) => asked(Offset::Offset(since.timestamp_millis()))?,
            None => first.clone(),
        };
        let is_truncated = first.iter().any(|((topic, _), first)| *topic == events && *first > 0);
        let spans = ends.into_iter().map(|(part, end)| {
            // Nothing at or after the instant: nothing to read.
            let begin = begins.get(&part).copied().unwrap_or(end);
            (part, (begin.min(end), end))
        });
        let parts = spans.collect();
        Ok(Self { consumer, names, events, committed, parts, since, is_truncated })
    }

    /// Everything of the payments that `wanted` wants, and every record that cannot be read. Blocks.
    ///
    /// # Errors
    /// See [`DumpError`].
    pub fn read(&self, wanted: impl Fn(PaymentId) -> bool) -> Result<Dump, DumpError> {
        let mut left: BTreeMap<PartName, i64> = BTreeMap::new();
        for (part, (begin, end)) in &self.parts {
            if begin < end {
                left.insert(part.clone(), *end);
            }
        }
        let starts = left.keys().map(|part| (part, Offset::Offset(self.parts[part].0)));
        self.consumer.assign(&list(starts)?)?;
        let mut dump = Dump { events_complete_from: self.since, ..Dump::default() };
        while !left.is_empty() {
            let record = self.consumer.poll(ANSWER_WITHIN).ok_or(DumpError::Silent)??;
            let part = (record.topic().to_owned(), record.partition());
            let Some(end) = left.get(&part).copied() else { continue };
            if record.offset() < end {
                self.keep(&record, &part, &wanted, &mut dump)?;
            }
            if record.offset() + 1 >= end {
                left.remove(&part);
            }
        }
        self.consumer.assign(&TopicPartitionList::new())?;
        Ok(dump)
    }

    fn keep(
        &self,
        record: &BorrowedMessage<'_>,
        part: &PartName,
        wanted: &impl Fn(PaymentId) -> bool,
        dump: &mut Dump,
    ) -> Result<(), DumpError> {
        let (partition, offset) = (record.partition(), record.offset());
        let Some(channel) = self.names.channel(record.topic()) else {
            return self.keep_event(record, wanted, dump);
        };
        let place = Place { channel, partition, offset };
        let is_complete = self.committed.get(part).is_some_and(|committed| offset < *committed);
        let header = |name: &str| {
            let headers = record.headers()?;
            headers.iter().find(|header| header.key == name).and_then(|header| header.value)
        };
        match decode(record.key(), record.payload(), header) {
            Ok(read) if wanted(read.notice.payment) => dump.notices.push(DumpedNotice {
                payment: read.notice.payment,
                attempt: read.notice.attempt,
                place,
                is_complete,
            }),
            Ok(_) => {}
            Err(_) => dump.unreadable.push((place, is_complete)),
        }
        Ok(())
    }

    fn keep_event(
        &self,
        record: &BorrowedMessage<'_>,
        wanted: &impl Fn(PaymentId) -> bool,
        dump: &mut Dump,
    ) -> Result<(), DumpError> {
        debug_assert_eq!(record.topic(), self.events, "no other topic was assigned");
        let (partition, offset) = (record.partition(), record.offset());
        if self.is_truncated && offset == self.parts[&(self.events.clone(), partition)].0 {
            // What came before the oldest record that is left, in any partition, is gone.
            let at = record.timestamp().to_millis().and_then(DateTime::from_timestamp_millis);
            dump.events_complete_from = dump.events_complete_from.max(at);
        }
        let event: Event =
            serde_json::from_slice(record.payload().unwrap_or_default()).map_err(|source| {
                DumpError::NotAnEvent { topic: record.topic().to_owned(), partition, offset, source }
            })?;
        if wanted(event.subject) {
            dump.events.push(DumpedEvent { payment: event.subject, sequence: event.sequence, partition });
        }
        Ok(())
    }
}

/// The offset of each partition at the instant or end that the list names.
pub(super) fn places(
    consumer: &BaseConsumer<Logged>,
    at: &TopicPartitionList,
) -> Result<BTreeMap<PartName, i64>, KafkaError> {
    patiently(consumer, || consumer.offsets_for_times(at.clone(), ANSWER_WITHIN))
}

/// What the workers' group has committed of these partitions.
pub(super) fn committed(
    consumer: &BaseConsumer<Logged>,
    of: &TopicPartitionList,
) -> Result<BTreeMap<PartName, i64>, KafkaError> {
    patiently(consumer, || consumer.committed_offsets(of.clone(), ANSWER_WITHIN))
}

/// A topic that was made a moment ago, or a broker that has just gone or come, has no leader for a while, and a
/// group no coordinator: that is no answer, and is asked again.
fn patiently(
    consumer: &BaseConsumer<Logged>,
    ask: impl Fn() -> Result<TopicPartitionList, KafkaError>,
) -> Result<BTreeMap<PartName, i64>, KafkaError> {
    let mut answer = ask();
    for _ in 0..LEADERS_CHANGE {
        if !matches!(&answer, Err(KafkaError::MetadataFetch(code)) if changes_hands(*code)) {
            break;
        }
        // Nothing is assigned, so nothing comes: this waits, and lets the client learn.
        let _nothing = consumer.poll(LEADERS_SETTLE);
        answer = ask();
    }
    Ok(offsets(&answer?))
}

fn changes_hands(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::{
        CoordinatorLoadInProgress, CoordinatorNotAvailable, FencedLeaderEpoch, LeaderNotAvailable,
        NotCoordinator, NotLeaderForPartition, UnknownLeaderEpoch,
    };
    matches!(
        code,
        LeaderNotAvailable
            | NotLeaderForPartition
            | FencedLeaderEpoch
            | UnknownLeaderEpoch
            | NotCoordinator
            | CoordinatorNotAvailable
            | CoordinatorLoadInProgress
    )
}

pub(super) fn list<'a>(
    parts: impl Iterator<Item = (&'a PartName, Offset)>,
) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for ((topic, partition), offset) in parts {
        list.add_partition_offset(topic, *partition, offset)?;
    }
    Ok(list)
}

pub(super) fn offsets(list: &TopicPartitionList) -> BTreeMap<PartName, i64> {
    let known = list.elements().into_iter().filter_map(|element| match element.offset() {
        Offset::Offset(offset) => Some(((element.topic().to_owned(), element.partition()), offset)),
        Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => None,
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leaders_and_coordinators_that_change_are_waited_for() {
        use RDKafkaErrorCode::{LeaderNotAvailable, NotCoordinator, NotLeaderForPartition};
        for code in [NotLeaderForPartition, LeaderNotAvailable, NotCoordinator] {
            assert!(changes_hands(code), "{code}");
        }
        for code in [RDKafkaErrorCode::TopicAuthorizationFailed, RDKafkaErrorCode::OperationTimedOut] {
            assert!(!changes_hands(code), "{code}");
        }
    }
}
