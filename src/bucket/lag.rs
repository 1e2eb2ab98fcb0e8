//! How far behind the group is, asked on a thread of its own by a client that never subscribes.
//!
//! **Why.** The thread that polls must not wait for a broker's answer; and a bucket may close only
//! when everything in it was read, which only the end of its partitions tells. What a report says
//! is at most one round old: a record that arrives after it is found by the next one, and reopens
//! its bucket.
//!
//! Between two reports it asks only whether the leaders of our partitions answer: on that rests whether
//! the late scan waits for Kafka, and a broker that is gone, frozen or leads nothing any more must be
//! noticed within ten seconds.
//!
//! The lateness that counts is measured in Postgres; this is about the topics only.

use super::connect::Logged;
use super::consumer::{Part, Shared};
use crate::domain::bucket::{Backlog, Channel, channels};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc as std_mpsc;
use std::time::Duration;

/// Between two reports.
const EVERY: Duration = Duration::from_secs(10);
/// Between two questions whether the leaders answer: a request a broker.
const BEAT: Duration = Duration::from_secs(2);
const AFTER_TROUBLE: Duration = Duration::from_secs(1);
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const METADATA_WITHIN: Duration = Duration::from_secs(2);
/// Without an answer, or a poll, for so long Kafka is away: longer than one question that times out and
/// the pauses around it, so that a single lost answer changes nothing, and short enough for ten seconds
/// in all.
pub(super) const SILENT: Duration = Duration::from_secs(7);

/// One partition, as the lag reader saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionLag {
    /// The topic.
    pub channel: Channel,
    /// The partition of the topic.
    pub partition: i32,
    /// Next offset of the group: committed, or the log's first where that lies outside the log.
    pub committed: i64,
    /// One past the last record.
    pub end: i64,
}

impl PartitionLag {
    /// Records that are not complete.
    #[must_use]
    pub fn records(&self) -> i64 {
        (self.end - self.committed).max(0)
    }
}

/// What the leader and the group have of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Of the log, which moves with retention.
    pub(super) begin: i64,
    /// Where the group goes on: its committed offset, or the beginning if that lies outside the log.
    pub(super) committed: i64,
    /// One past the last record.
    pub(super) end: i64,
}

impl Extent {
    pub(super) fn new(begin: i64, committed: Option<i64>, end: i64) -> Self {
        let within = committed.filter(|committed| (begin..=end).contains(committed));
        Self { begin, committed: within.unwrap_or(begin), end }
    }

    /// Whether there are records from `next` on, the offset that we would read where we have read any. One past
    /// the end is of another log, of the same name, and its reader has to begin anew.
    pub(super) fn is_unread(self, next: Option<i64>) -> bool {
        let next = next.unwrap_or(self.committed);
        if next > self.end { self.begin < self.end } else { next.max(self.begin) < self.end }
    }
}

/// One look at all partitions that are ours.
#[derive(Debug, Default)]
pub(super) struct Report {
    parts: BTreeMap<Part, Extent>,
}

impl Report {
    pub(super) fn of(parts: BTreeMap<Part, Extent>) -> Self {
        Self { parts }
    }

    pub(super) fn lag(&self) -> Vec<PartitionLag> {
        let lag = self.parts.iter().map(|(&(channel, partition), extent)| PartitionLag {
            channel,
            partition,
            committed: extent.committed,
            end: extent.end,
        });
        lag.collect()
    }

    /// What there is of a partition, if it was looked at.
    pub(super) fn of_part(&self, part: Part) -> Option<Extent> {
        self.parts.get(&part).copied()
    }

    /// What is unread of a channel, over `ours`; `next` is the next offset that we would read, where
    /// we have read any. `None`: the report is older than the assignment.
    pub(super) fn backlog(
        &self,
        channel: Channel,
        ours: &BTreeSet<(Channel, i32)>,
        next: impl Fn(i32) -> Option<i64>,
    ) -> Option<Backlog> {
        let mut all = Backlog::Drained;
        for part in ours.range((channel, i32::MIN)..=(channel, i32::MAX)) {
            match self.parts.get(part) {
                None => return None,
                Some(extent) if extent.is_unread(next(part.1)) => all = Backlog::Unread,
                Some(_) => {}
            }
        }
        Some(all)
    }
}

/// Looks every [`EVERY`] and when nudged, and asks every [`BEAT`] meanwhile, until the ring is gone.
///
/// Who has no partition of its own asks about `everything`: a group cannot share out what nobody leads.
pub(super) fn watch(
    observer: &BaseConsumer<Logged>,
    shared: &Shared,
    everything: &[Part],
    nudged: &std_mpsc::Receiver<()>,
) {
    let (mut wait, mut look_at) = (BEAT, Duration::ZERO);
    loop {
        match nudged.recv_timeout(wait) {
            Ok(()) => look_at = Duration::ZERO,
            Err(std_mpsc::RecvTimeoutError::Timeout) => {}
            Err(std_mpsc::RecvTimeoutError::Disconnected) => return,
        }
        let now = shared.clock().mono().0;
        let ours = shared.ours();
        let asked = if ours.is_empty() { everything } else { &ours };
        let asked = leaders_answer(observer, shared, asked).and_then(|ends| {
            // Told at once: the group's coordinator may be another broker, and silent for longer.
            shared.answered(None);
            if !ours.is_empty() && now >= look_at {
                shared.answered(Some(look(observer, shared, &ours, &ends)?));
                look_at = now + EVERY;
            }
            Ok(())
        });
        wait = if let Err(error) = asked {
            // A leader that has just changed, most often. Health shows the age of the last answer.
            if wait == BEAT {
                tracing::info!(%error, "leaders of the ring do not answer");
            } else {
                tracing::debug!(%error, "leaders of the ring do not answer");
            }
            // This client subscribes to nothing, so the library does not ask by itself who leads now.
            let _silent_too = observer.fetch_metadata(None, METADATA_WITHIN);
            AFTER_TROUBLE
        } else {
            BEAT
        };
        let since_poll = shared.since_poll();
        if since_poll > EVERY {
            tracing::error!("the ring has not been polled for {since_poll:?}");
        }
    }
}

/// Every partition of a ring with so many of each topic.
pub(super) fn everything(partitions: i32) -> Vec<Part> {
    channels().flat_map(|channel| (0..partitions).map(move |partition| (channel, partition))).collect()
}

/// The ends of partitions, as their leaders have them.
fn leaders_answer(
    observer: &BaseConsumer<Logged>,
    shared: &Shared,
    parts: &[Part],
) -> KafkaResult<BTreeMap<Part, i64>> {
    let ends = ask(observer, shared, parts, Offset::End)?;
    if ends.len() < parts.len() {
        // Notices of such a partition do not come, whoever else answers.
        return Err(KafkaError::OffsetFetch(RDKafkaErrorCode::LeaderNotAvailable));
    }
    Ok(ends)
}

fn look(
    observer: &BaseConsumer<Logged>,
    shared: &Shared,
    ours: &[Part],
    ends: &BTreeMap<Part, i64>,
) -> KafkaResult<Report> {
    let committed =
        offsets_of(shared, &observer.committed_offsets(list(shared, ours, Offset::Invalid), ANSWER_WITHIN)?);
    // Retention may have deleted what the group has not read.
    let begins = ask(observer, shared, ours, Offset::Beginning)?;
    let parts = ours.iter().filter_map(|part| {
        let (begin, end) = (begins.get(part)?, ends.get(part)?);
        Some((*part, Extent::new(*begin, committed.get(part).copied(), *end)))
    });
    Ok(Report::of(parts.collect()))
}

/// One request a broker for all partitions: the protocol takes "end" and "beginning" as times.
fn ask(
    observer: &BaseConsumer<Logged>,
    shared: &Shared,
    parts: &[(Channel, i32)],
    at: Offset,
) -> KafkaResult<BTreeMap<(Channel, i32), i64>> {
    let answer = observer.offsets_for_times(list(shared, parts, at), ANSWER_WITHIN)?;
    Ok(offsets_of(shared, &answer))
}

fn list(shared: &Shared, parts: &[(Channel, i32)], offset: Offset) -> TopicPartitionList {
    shared.list(parts.iter().map(|part| (*part, offset)))
}

fn offsets_of(shared: &Shared, list: &TopicPartitionList) -> BTreeMap<(Channel, i32), i64> {
    let offsets = list.elements().into_iter().filter_map(|element| {
        element.error().ok()?;
        match element.offset() {
            Offset::Offset(offset) => {
                Some(((shared.names.channel(element.topic())?, element.partition()), offset))
            }
            Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => {
                None
            }
        }
    });
    offsets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_committed_offset_outside_the_log_is_its_beginning() {
        let committed = |begin, committed, end| Extent::new(begin, committed, end).committed;
        assert_eq!(committed(20, Some(10), 20), 20, "deleted before it was read");
        assert_eq!(committed(0, Some(4_000), 500), 0, "another log of the same name");
        assert_eq!(committed(0, None, 5), 0);
        assert_eq!((committed(0, Some(5), 5), committed(3, Some(3), 9)), (5, 3));
    }

    #[test]
    fn what_was_deleted_is_not_unread_and_what_lies_in_another_log_is() {
        let deleted = Extent::new(20, Some(10), 20);
        assert!(!deleted.is_unread(None) && !deleted.is_unread(Some(15)) && !deleted.is_unread(Some(20)));
        assert!(Extent::new(20, Some(10), 21).is_unread(Some(15)));
        let anew = Extent::new(0, None, 500);
        assert!(anew.is_unread(Some(4_000)) && anew.is_unread(Some(499)) && !anew.is_unread(Some(500)));
        assert!(!Extent::new(0, None, 0).is_unread(Some(4_000)), "nothing to be read yet");
    }
}
