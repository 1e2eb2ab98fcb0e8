//! A bus in memory: partitions, offsets, one consumer group, and everything that Kafka is allowed to
//! do to us.
//!
//! **What it keeps**: records of a partition in the order in which they were appended, committed
//! offsets per partition, a generation per membership change. A commit under an old generation is
//! refused. **What it does not keep**: anything, once it is told to lose everything.

use super::dials::{Chance, Faults};
use super::host::Host;
use super::trace::{Met, Trace};
use crate::bucket::{Envelope, NotAcknowledged, Read, Watermark};
use crate::domain::bucket::{Channel, channels, partition, shard};
use crate::domain::ids::PaymentId;
use crate::domain::invariants::Invariant;
use crate::relay::Publisher;
use crate::schedule::Memory;
use crate::worker::lab::VirtualTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;

pub(super) type Part = (Channel, i32);

/// A producer gives up on a record after so long.
const DELIVERY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Log {
    records: Vec<Read>,
    committed: usize,
    /// The farthest that anybody has read.
    read: usize,
}

#[derive(Debug, Default)]
struct State {
    logs: BTreeMap<Part, Log>,
    generation: u64,
    members: BTreeMap<u64, Arc<Notify>>,
    joined: u64,
    silent_until: Duration,
    /// Notices with a delivery report, by their number in the outbox.
    acknowledged: BTreeSet<i64>,
}

/// The bus; one a world.
#[derive(Debug)]
pub(super) struct Kafka {
    pub(super) partitions: i32,
    time: VirtualTime,
    trace: Trace,
    memory: Arc<Memory>,
    state: Mutex<State>,
}

impl Kafka {
    pub(super) fn new(partitions: i32, time: VirtualTime, trace: Trace, memory: Arc<Memory>) -> Self {
        Self { partitions, time, trace, memory, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn is_silent(&self) -> bool {
        self.time.elapsed() < self.state().silent_until
    }

    /// Nobody gets an answer for so long.
    pub(super) fn silence(&self, length: Duration) {
        self.trace.met(Met::KafkaSilent, None, length.as_micros() as u64);
        self.state().silent_until = self.time.elapsed() + length;
    }

    pub(super) fn heal(&self) {
        self.state().silent_until = Duration::ZERO;
    }

    /// Topics, records and committed offsets are gone; the topics are made anew.
    pub(super) fn erase(&self) {
        self.trace.met(Met::KafkaErased, None, 0);
        let mut state = self.state();
        state.logs.clear();
        state.regroup();
    }

    /// A new member.
    pub(super) fn join(&self) -> (u64, Arc<Notify>) {
        let mut state = self.state();
        state.joined += 1;
        let (id, notify) = (state.joined, Arc::new(Notify::new()));
        state.members.insert(id, Arc::clone(&notify));
        state.regroup();
        (id, notify)
    }

    /// It left, or was not heard of for a session. Twice is once.
    pub(super) fn leave(&self, id: u64) {
        let mut state = self.state();
        if state.members.remove(&id).is_some() {
            state.regroup();
        }
    }

    /// The group is told to agree anew.
    pub(super) fn rebalance(&self) {
        self.state().regroup();
    }

    /// The generation, and the partitions of this member in it; `None` if it was put out.
    pub(super) fn assignment(&self, id: u64) -> Option<(u64, Vec<Part>)> {
        let state = self.state();
        let place = state.members.keys().position(|member| *member == id)? as i32;
        let count = state.members.len() as i32;
        let parts = channels().flat_map(|channel| (0..self.partitions).map(move |part| (channel, part)));
        Some((state.generation, parts.filter(|(_, part)| part % count == place).collect()))
    }

    pub(super) fn generation(&self, id: u64) -> Option<u64> {
        let state = self.state();
        state.members.contains_key(&id).then_some(state.generation)
    }

    /// Where a new owner begins to read.
    pub(super) fn committed(&self, part: Part) -> usize {
        self.state().logs.get(&part).map_or(0, |log| log.committed)
    }

    /// Those of `parts` with something behind these positions.
    pub(super) fn unread(&self, positions: &BTreeMap<Part, usize>) -> Vec<Part> {
        let state = self.state();
        let behind =
            |(part, log): (&Part, &Log)| (*positions.get(part)? < log.records.len()).then_some(*part);
        state.logs.iter().filter_map(behind).collect()
    }

    /// The record at this offset.
    pub(super) fn read(&self, part: Part, offset: usize) -> Option<Read> {
        let mut state = self.state();
        let log = state.logs.get_mut(&part)?;
        let record = log.records.get(offset)?.clone();
        let again = offset < log.read;
        log.read = log.read.max(offset + 1);
        drop(state);
        let what = if again { Met::Redelivered } else { Met::Delivered };
        self.trace.met(what, Some(record.notice.payment), record.notice.attempt as u64);
        Some(record)
    }

    /// Commits watermarks of a generation; what lies below them must have left its mark (K1).
    pub(super) fn commit(&self, id: u64, generation: u64, marks: &[Watermark]) {
        let mut state = self.state();
        if !state.members.contains_key(&id) || state.generation != generation {
            drop(state);
            return self.trace.met(Met::StaleCommit, None, marks.len() as u64);
        }
        let mut passed = Vec::new();
        for mark in marks {
            let Some(log) = state.logs.get_mut(&(mark.channel, mark.partition)) else { continue };
            let next = mark.next_offset as usize;
            passed.extend(log.records.iter().take(next).skip(log.committed).map(|read| read.notice.clone()));
            log.committed = next;
        }
        drop(state);
        for notice in passed {
            if !self.memory.has_evidence(&notice) {
                self.trace.broke(Invariant::K1, Some(notice.payment), format!("committed past {notice:?}"));
            }
        }
    }

    /// Whether a producer was told that this notice arrived.
    pub(super) fn has_acknowledged(&self, notice_id: i64) -> bool {
        self.state().acknowledged.contains(&notice_id)
    }

    fn append(&self, envelope: &Envelope) {
        let id = envelope.staged.notice.payment;
        let part = (envelope.channel, envelope.partition);
        if partition(shard(id), self.partitions) != envelope.partition {
            self.trace.broke(Invariant::K2, Some(id), format!("published to {part:?}"));
        }
        let read = Read { notice: envelope.staged.notice.clone(), mac: None, traceparent: None };
        let mut state = self.state();
        state.logs.entry(part).or_default().records.push(read);
        state.members.values().for_each(|member| member.notify_one());
        drop(state);
        self.trace.met(Met::Published, Some(id), envelope.staged.notice_id as u64);
    }
}

impl State {
    fn regroup(&mut self) {
        self.generation += 1;
        self.members.values().for_each(|member| member.notify_one());
    }
}

/// One relay's producer.
pub(super) struct Producer {
    pub(super) kafka: Arc<Kafka>,
    pub(super) host: Arc<Host>,
    pub(super) chance: Arc<Chance>,
    pub(super) faults: Arc<Mutex<Faults>>,
    pub(super) latency: Duration,
}

impl Producer {
    async fn travel(&self) {
        self.host.travel(&self.chance, self.latency).await;
    }

    /// The order in which a batch's records arrive, some of them twice.
    fn arrivals(&self, batch: &[Envelope], faults: &Faults) -> Vec<usize> {
        let mut order: Vec<usize> = (0..batch.len()).collect();
        if self.chance.hits(faults.reordered) && batch.len() > 1 {
            self.kafka.trace.met(Met::Reordered, None, batch.len() as u64);
            for at in (1..order.len()).rev() {
                order.swap(at, self.chance.below(at as u64 + 1) as usize);
            }
        }
        let doubled: Vec<usize> =
            order.iter().copied().filter(|_| self.chance.hits(faults.doubled)).collect();
        for index in &doubled {
            self.kafka.trace.met(Met::PublishedTwice, Some(payment(&batch[*index])), 0);
        }
        order.extend(doubled);
        order
    }
}

fn payment(envelope: &Envelope) -> PaymentId {
    envelope.staged.notice.payment
}

impl Publisher for Producer {
    async fn publish(&self, batch: &[Envelope]) -> Result<(), NotAcknowledged> {
        self.travel().await;
        let faults = self.faults.lock().unwrap().clone();
        let missing = |indexes: Vec<usize>| NotAcknowledged {
            indexes,
            of: batch.len(),
            first: "injected: no delivery report".into(),
        };
        if self.kafka.is_silent() {
            self.host.take(DELIVERY).await;
            return Err(missing((0..batch.len()).collect()));
        }
        // Without a report it may be there or not.
        let unreported: BTreeSet<usize> =
            (0..batch.len()).filter(|_| self.chance.hits(faults.unacknowledged)).collect();
        for index in self.arrivals(batch, &faults) {
            if !unreported.contains(&index) || self.chance.hits(500) {
                self.kafka.append(&batch[index]);
            }
        }
        self.travel().await;
        let reported = batch.iter().enumerate().filter(|(index, _)| !unreported.contains(index));
        let reported = reported.map(|(_, envelope)| envelope.staged.notice_id);
        self.kafka.state().acknowledged.extend(reported);
        for index in &unreported {
            self.kafka.trace.met(Met::NotAcknowledged, Some(payment(&batch[*index])), 0);
        }
        if unreported.is_empty() { Ok(()) } else { Err(missing(unreported.into_iter().collect())) }
    }
}
