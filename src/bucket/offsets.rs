//! Which records are done with, and how far each partition may be committed (rule R11).
//!
//! **Promise.** The watermark of a partition never passes a record that is not complete, and a
//! record is complete only against a proof that only `schedule` can make: its outcome is durable,
//! its claim was durably refused, it was kept as unreadable, or the late scan owns its row. A
//! record of an assignment that is over can be completed by nobody: whoever owns the partition now
//! reads it again, and the claim refuses it.
//!
//! **If this dies here** nothing is lost: records above the last committed watermark are read again.
//!
//! The order *outcome row, then offset* is held by types. This does not compile, since an answer
//! that was not settled proves nothing:
//!
//! ```compile_fail,E0277
//! use punctual::{bucket::{Offsets, Position}, schedule};
//! fn done(offsets: &mut Offsets, at: Position, proof: schedule::Answered) {
//!     offsets.complete(at, proof);
//! }
//! ```
//!
//! and its twin, one type apart, does:
//!
//! ```
//! use punctual::{bucket::{Offsets, Position}, schedule};
//! fn done(offsets: &mut Offsets, at: Position, proof: schedule::Settled) {
//!     offsets.complete(at, proof);
//! }
//! ```
//!
//! Nor does one outcome complete two records:
//!
//! ```compile_fail,E0382
//! use punctual::{bucket::{Offsets, Position}, schedule};
//! fn done(offsets: &mut Offsets, first: Position, second: Position, proof: schedule::Settled, other: schedule::Settled) {
//!     offsets.complete(first, proof);
//!     offsets.complete(second, proof);
//! }
//! ```
//!
//! while two outcomes complete two:
//!
//! ```
//! use punctual::{bucket::{Offsets, Position}, schedule};
//! fn done(offsets: &mut Offsets, first: Position, second: Position, proof: schedule::Settled, other: schedule::Settled) {
//!     offsets.complete(first, proof);
//!     offsets.complete(second, other);
//! }
//! ```
//!
//! And nobody outside `schedule` makes a proof:
//!
//! ```compile_fail,E0624
//! use punctual::schedule::{RefusedBecause, Refused};
//! fn proof(made: Refused) -> Refused {
//!     Refused::new(made.why())
//! }
//! ```
//!
//! ```
//! use punctual::schedule::{RefusedBecause, Refused};
//! fn proof(made: Refused) -> Refused {
//!     made
//! }
//! ```

use crate::domain::bucket::Channel;
use crate::platform::faults::{Sabotage, sabotaged};
use crate::schedule::{BadNoticeKept, Deferred, Refused, Settled};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a record lies, and in which assignment of its partition to us it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    channel: Channel,
    partition: i32,
    offset: i64,
    assignment: u64,
}

impl Position {
    /// The topic.
    #[must_use]
    pub fn channel(self) -> Channel {
        self.channel
    }

    /// The partition of the topic.
    #[must_use]
    pub fn partition(self) -> i32 {
        self.partition
    }

    /// The record's offset in the partition.
    #[must_use]
    pub fn offset(self) -> i64 {
        self.offset
    }
}

/// Why a record is done with.
#[derive(Debug)]
pub enum Proof {
    /// Its payment's outcome is durable, or its claim was fenced off for good.
    Settled(Settled),
    /// Its claim was durably refused.
    Refused(Refused),
    /// It cannot be read, and is kept for people.
    Kept(BadNoticeKept),
    /// It was held too long, and the late scan owns its row.
    Deferred(Deferred),
}

impl From<Settled> for Proof {
    fn from(proof: Settled) -> Self {
        Self::Settled(proof)
    }
}

impl From<Refused> for Proof {
    fn from(proof: Refused) -> Self {
        Self::Refused(proof)
    }
}

impl From<BadNoticeKept> for Proof {
    fn from(proof: BadNoticeKept) -> Self {
        Self::Kept(proof)
    }
}

impl From<Deferred> for Proof {
    fn from(proof: Deferred) -> Self {
        Self::Deferred(proof)
    }
}

/// What completing a record did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// It counts.
    Counted,
    /// It was complete already.
    Again,
    /// The partition is not ours any more, or was taken away and given back since: its next reader
    /// gets the record again. Nothing to do.
    TakenAway,
}

/// How far one partition may be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// The topic.
    pub channel: Channel,
    /// The partition of the topic.
    pub partition: i32,
    /// The next offset to read, as Kafka stores it: one past the last record of the complete run.
    pub next_offset: i64,
}

/// The records of every partition that is ours. Pure; see [`SharedOffsets`] for the one in use.
#[derive(Debug, Default)]
pub struct Offsets {
    partitions: BTreeMap<(Channel, i32), Partition>,
    /// Grows with every assignment of any partition, so no two assignments share a number.
    assignments: u64,
}

#[derive(Debug)]
struct Partition {
    assignment: u64,
    /// Taken and not yet below the watermark, in offset order, each with whether it is complete.
    /// The first one is never complete, so the watermark is its offset.
    open: VecDeque<(i64, bool)>,
    /// One past the last offset taken; `None` before the first.
    next: Option<i64>,
    /// The watermark last given out by [`Offsets::stored`].
    given_out: Option<i64>,
}

impl Offsets {
    /// Nothing is ours yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A partition was assigned to us. Everything known of an earlier assignment is forgotten.
    pub fn assigned(&mut self, channel: Channel, partition: i32) {
        self.assignments += 1;
        let fresh =
            Partition { assignment: self.assignments, open: VecDeque::new(), next: None, given_out: None };
        self.partitions.insert((channel, partition), fresh);
    }

    /// A partition was taken away. What is in flight for it completes nothing any more.
    pub fn revoked(&mut self, channel: Channel, partition: i32) {
        self.partitions.remove(&(channel, partition));
    }

    /// A record was read. `None` for a partition that is not ours and for a record that was read
    /// before in this assignment and is still open: the caller drops it.
    ///
    /// An offset below what was read is a log that was cut and written anew (or a position reset by
    /// hand): the partition starts afresh there, because these are other records.
    #[must_use]
    pub fn taken(&mut self, channel: Channel, partition: i32, offset: i64) -> Option<Position> {
        let known = self.partitions.get(&(channel, partition))?;
        if known.next.is_some_and(|next| offset < next) {
            if known.open.binary_search_by_key(&offset, |(open, _)| *open).is_ok() {
                return None;
            }
            self.assigned(channel, partition);
        }
        let state = self.partitions.get_mut(&(channel, partition))?;
        state.open.push_back((offset, false));
        state.next = Some(offset + 1);
        Some(Position { channel, partition, offset, assignment: state.assignment })
    }

    /// The record at `at` is done with, by this proof.
    pub fn complete(&mut self, at: Position, proof: impl Into<Proof>) -> Completed {
        // The proof has done its work by existing; consuming it keeps it from being used twice.
        let _spent: Proof = proof.into();
        self.finish(at)
    }

    fn finish(&mut self, at: Position) -> Completed {
        let Some(state) = self.current(at) else { return Completed::TakenAway };
        let Ok(place) = state.open.binary_search_by_key(&at.offset, |(offset, _)| *offset) else {
            return Completed::Again;
        };
        let Some((_, complete)) = state.open.get_mut(place) else { return Completed::Again };
        if std::mem::replace(complete, true) {
            return Completed::Again;
        }
        while state.open.front().is_some_and(|(_, complete)| *complete) {
            state.open.pop_front();
        }
        Completed::Counted
    }

    /// Whether the record may still be worked on: its partition has been ours without a break since
    /// it was read.
    #[must_use]
    pub fn is_current(&self, at: Position) -> bool {
        self.partitions
            .get(&(at.channel, at.partition))
            .is_some_and(|state| state.assignment == at.assignment)
    }

    fn current(&mut self, at: Position) -> Option<&mut Partition> {
        let state = self.partitions.get_mut(&(at.channel, at.partition))?;
        (state.assignment == at.assignment).then_some(state)
    }

    /// The watermarks that moved since this was last asked, to be stored for the next commit.
    #[must_use]
    pub fn stored(&mut self) -> Vec<Watermark> {
        let mut moved = Vec::new();
        for (&(channel, partition), state) in &mut self.partitions {
            let watermark = state.watermark();
            if watermark != state.given_out {
                state.given_out = watermark;
                moved.extend(watermark.map(|next_offset| Watermark { channel, partition, next_offset }));
            }
        }
        moved
    }

    /// Next offset to be read of a partition that is ours; `None` before its first record.
    #[must_use]
    pub fn next_offset(&self, channel: Channel, partition: i32) -> Option<i64> {
        self.partitions.get(&(channel, partition))?.next
    }

    /// Records read and not complete, over all partitions.
    #[must_use]
    pub fn open(&self) -> usize {
        self.partitions
            .values()
            .map(|state| state.open.iter().filter(|(_, complete)| !complete).count())
            .sum()
    }
}

impl Partition {
    /// `None` until something was read: there is nothing to say then, and a stored offset would
    /// overwrite the group's.
    fn watermark(&self) -> Option<i64> {
        if sabotaged(Sabotage::OffsetAtPoll) {
            return self.next;
        }
        self.open.front().map(|(offset, _)| *offset).or(self.next)
    }
}

/// The [`Offsets`] of one consumer, shared between the thread that reads and stores and the worker
/// that completes. Cheap to clone; every call is short.
#[derive(Debug, Clone, Default)]
pub struct SharedOffsets(Arc<Mutex<Offsets>>);

impl SharedOffsets {
    /// Offsets of a consumer of no broker, for a worker under test or in simulation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// See [`Offsets::complete`].
    pub fn complete(&self, at: Position, proof: impl Into<Proof>) -> Completed {
        self.lock().complete(at, proof)
    }

    /// See [`Offsets::is_current`].
    #[must_use]
    pub fn is_current(&self, at: Position) -> bool {
        self.lock().is_current(at)
    }

    /// Access to all of it.
    pub fn lock(&self) -> MutexGuard<'_, Offsets> {
        // Nothing in `Offsets` panics half-way through a change, so a poisoned one is still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "offsets_tests.rs"]
mod tests;
