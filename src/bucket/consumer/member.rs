//! What a member knows, and what it does when the group changes.
//!
//! The callbacks run on the polling thread, inside `poll`, and return within milliseconds: they
//! store watermarks (the client library commits them by itself while it gives partitions up), note
//! what is ours, and pause. A commit that waits is never made here: it would wait without limit.

use super::RingEvent;
use super::unread::{Patience, Unread};
use crate::bucket::connect::Logged;
use crate::bucket::lag::{PartitionLag, Report, SILENT};
use crate::bucket::names::Names;
use crate::bucket::offsets::{SharedOffsets, Watermark};
use crate::domain::bucket::{Backlog, Channel, Phase, channels, may_close, must_open, phase};
use crate::platform::clock::SharedClock;
use chrono::{DateTime, Utc};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as std_mpsc};
use std::time::Duration;
use tokio::sync::mpsc;

/// A client that was given no part for so long, although brokers answer, has lost its way to the group: one that
/// lived through a broker that stood still was seen to. Joining takes seconds.
const NO_PART: Duration = Duration::from_secs(20);

/// Longer than brokers keep a request that they could not answer when it came.
const LOST_LATELY: Duration = Duration::from_secs(60);

/// A partition of the ring.
pub(in crate::bucket) type Part = (Channel, i32);

/// What the two threads and the [`Ring`](super::Ring) share. Locks are held for microseconds and
/// never across a call of the client library that can wait.
pub(in crate::bucket) struct Shared {
    pub(in crate::bucket) names: Names,
    pub(in crate::bucket) offsets: SharedOffsets,
    clock: SharedClock,
    events: mpsc::UnboundedSender<RingEvent>,
    state: Mutex<State>,
    polled_at_ms: AtomicU64,
    has_ended: AtomicBool,
}

struct State {
    ours: BTreeSet<Part>,
    open: BTreeSet<Channel>,
    /// As the client was last told.
    paused: BTreeSet<Part>,
    /// Paused when an earlier assignment of theirs ended. The client library keeps an application's
    /// pause with the partition and not with the assignment, so one that comes back has to be
    /// resumed, or it stays silent for as long as its bucket is open.
    left_paused: BTreeSet<Part>,
    /// Nothing is fetched: the records' channel is full, or we are leaving.
    throttled: bool,
    /// Nothing of the minute buckets is fetched: their reader has room for what is due only.
    minutes_wait: bool,
    report: Option<Report>,
    /// Of what is ours and not paused.
    unread: Unread,
    answered_at: Option<Duration>,
    /// Since when leaders have answered all the time and the group has given us no part.
    apart_since: Option<Duration>,
    /// From an assignment, of none too, to its end: the group counts on us.
    is_assigned: bool,
    /// When an assignment last ended without the group's word: it did not answer for a session.
    lost_at: Option<Duration>,
}

impl State {
    fn new(patience: Patience) -> Self {
        Self {
            ours: BTreeSet::new(),
            open: BTreeSet::new(),
            paused: BTreeSet::new(),
            left_paused: BTreeSet::new(),
            throttled: false,
            minutes_wait: false,
            report: None,
            unread: Unread::new(patience),
            answered_at: None,
            apart_since: None,
            is_assigned: false,
            lost_at: None,
        }
    }

    /// An assignment ends; its pauses stay at the client.
    fn leave_paused(&mut self) {
        self.left_paused.append(&mut self.paused);
    }
}

/// What to tell the client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) pause: Vec<Part>,
    pub(super) resume: Vec<Part>,
}

impl Shared {
    pub(super) fn new(
        names: Names,
        clock: SharedClock,
        events: mpsc::UnboundedSender<RingEvent>,
        patience: Patience,
    ) -> Self {
        let polled_at_ms = AtomicU64::new(millis(clock.mono().0));
        let (offsets, state) = (SharedOffsets::new(), Mutex::new(State::new(patience)));
        Self { names, offsets, clock, events, state, polled_at_ms, has_ended: AtomicBool::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of the state panics half-way, so a poisoned one is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::bucket) fn clock(&self) -> SharedClock {
        Arc::clone(&self.clock)
    }

    pub(super) fn tell(&self, event: RingEvent) {
        // Fails when the ring was dropped, and then nobody needs to know.
        let _dropped = self.events.send(event);
    }

    /// Notes that the client is at its end and tells why.
    pub(super) fn end(&self, last: RingEvent) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.tell(last);
    }

    /// Notes that the thread polls; answers how long it had not.
    pub(super) fn polls_now(&self) -> Duration {
        let now_ms = millis(self.clock.mono().0);
        let before_ms = self.polled_at_ms.swap(now_ms, Ordering::Relaxed);
        Duration::from_millis(now_ms.saturating_sub(before_ms))
    }

    pub(in crate::bucket) fn since_poll(&self) -> Duration {
        let now_ms = millis(self.clock.mono().0);
        Duration::from_millis(now_ms.saturating_sub(self.polled_at_ms.load(Ordering::Relaxed)))
    }

    pub(super) fn health(&self) -> super::Health {
        let now = self.clock.mono().0;
        let state = self.state();
        super::Health {
            partitions: state.ours.len(),
            since_poll: self.since_poll(),
            since_answer: state.answered_at.map(|at| now.saturating_sub(at)),
            is_assigned: state.is_assigned,
            has_ended: self.has_ended.load(Ordering::Relaxed),
        }
    }

    pub(super) fn lag(&self) -> Vec<PartitionLag> {
        self.state().report.as_ref().map(Report::lag).unwrap_or_default()
    }

    /// What the lag reader is to look at.
    pub(in crate::bucket) fn ours(&self) -> Vec<Part> {
        self.state().ours.iter().copied().collect()
    }

    pub(in crate::bucket) fn answered(&self, report: Option<Report>) {
        let now = self.clock.mono().0;
        let offsets = self.offsets.lock();
        let mut state = self.state();
        let State { answered_at, apart_since, is_assigned, unread, ours, paused, .. } = &mut *state;
        let was_silent = answered_at.is_none_or(|at| now.saturating_sub(at) >= SILENT);
        *answered_at = Some(now);
        *apart_since = if *is_assigned { None } else { apart_since.filter(|_| !was_silent).or(Some(now)) };
        if let Some(report) = report {
            let next = |(channel, partition)| offsets.next_offset(channel, partition);
            unread.seen(&report, ours.difference(paused).copied(), next);
            state.report = Some(report);
        }
    }

    /// Whether the group has given us no part for too long.
    pub(super) fn is_apart(&self) -> bool {
        let now = self.clock.mono().0;
        let state = self.state();
        let apart = state.apart_since.filter(|_| !state.is_assigned);
        apart.is_some_and(|since| now.saturating_sub(since) >= NO_PART)
    }

    /// A partition whose records lie at its leader and do not come.
    pub(super) fn stuck(&self) -> Option<Part> {
        self.state().unread.stuck()
    }

    pub(super) fn throttle(&self, on: bool) {
        let mut state = self.state();
        state.throttled = on;
        state.unread.forget(|_| true);
    }

    pub(super) fn let_minutes_wait(&self, on: bool) {
        let mut state = self.state();
        if state.minutes_wait != on {
            state.minutes_wait = on;
            state.unread.forget(|(channel, _)| channel != Channel::Now);
        }
    }

    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn minutes_wait(&self) -> bool {
        self.state().minutes_wait
    }

    pub(super) fn is_throttled(&self) -> bool {
        self.state().throttled
    }

    /// Opens and closes buckets by the clock and the last report; answers what the client must be
    /// told for it.
    pub(super) fn turn(&self) -> Turn {
        let now = self.clock.wall();
        let offsets = self.offsets.lock();
        let mut state = self.state();
        let state = &mut *state;
        for channel in channels() {
            let next = |partition| offsets.next_offset(channel, partition);
            let backlog = state.report.as_ref().and_then(|report| report.backlog(channel, &state.ours, next));
            let was_open = state.open.contains(&channel);
            let is_open = stays_open(channel, was_open, backlog, now);
            if is_open != was_open {
                tracing::debug!(?channel, is_open, ?backlog, "bucket");
                if is_open {
                    state.open.insert(channel)
                } else {
                    state.open.remove(&channel)
                };
            }
        }
        let wanted: BTreeSet<Part> = state
            .ours
            .iter()
            .filter(|(channel, _)| {
                let waits = state.minutes_wait && *channel != Channel::Now;
                state.throttled || waits || !state.open.contains(channel)
            })
            .copied()
            .collect();
        // Of what is ours again everything is said anew, and nothing is resumed that was never paused:
        // that would throw away what the client has fetched.
        let back: BTreeSet<Part> = state.left_paused.intersection(&state.ours).copied().collect();
        state.left_paused.retain(|part| !back.contains(part));
        let turn = Turn {
            pause: wanted.difference(&state.paused).copied().collect(),
            resume: state.paused.union(&back).filter(|part| !wanted.contains(part)).copied().collect(),
        };
        state.paused = wanted;
        turn
    }

    /// The partitions with their offsets where one is given, as the client library wants them.
    pub(in crate::bucket) fn list(
        &self,
        parts: impl IntoIterator<Item = (Part, Offset)>,
    ) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for ((channel, partition), offset) in parts {
            // Our offsets are never negative, and only a negative one is refused.
            let _accepted = list.add_partition(&self.names.topic(channel), partition).set_offset(offset);
        }
        list
    }

    /// Tells the client what is to be committed next.
    pub(super) fn store(&self, consumer: &BaseConsumer<Member>) {
        let moved: Vec<Watermark> = self.offsets.lock().stored();
        if moved.is_empty() {
            return;
        }
        let list = self.list(
            moved.iter().map(|mark| ((mark.channel, mark.partition), Offset::Offset(mark.next_offset))),
        );
        if let Err(error) = consumer.store_offsets(&list) {
            // Every partition of the list was lost in this very moment; its next reader starts
            // lower, and claims refuse what is done already.
            tracing::debug!(%error, "watermarks not stored");
        }
    }

    pub(super) fn assigned(&self, parts: &[Part]) {
        let mut offsets = self.offsets.lock();
        for (channel, partition) in parts {
            offsets.assigned(*channel, *partition);
        }
        drop(offsets);
        let mut state = self.state();
        state.ours = parts.iter().copied().collect();
        state.is_assigned = true;
        // What is fetched first is decided by the phase alone, since the report is about other
        // partitions.
        state.leave_paused();
        state.report = None;
        state.unread.forget(|_| true);
        state.open.clear();
    }

    pub(super) fn revoked(&self) -> usize {
        let gone = {
            let mut state = self.state();
            state.leave_paused();
            state.unread.forget(|_| true);
            state.is_assigned = false;
            std::mem::take(&mut state.ours)
        };
        let mut offsets = self.offsets.lock();
        for (channel, partition) in &gone {
            offsets.revoked(*channel, *partition);
        }
        gone.len()
    }

    /// The group did not answer for a session.
    fn lost(&self) {
        let now = self.clock.mono().0;
        self.state().lost_at = Some(now);
    }

    /// Whether this client may have asked to join again, under its own name, before a former question of
    /// the kind was answered.
    pub(super) fn lost_lately(&self) -> bool {
        let lost_at = self.state().lost_at;
        lost_at.is_some_and(|at| self.clock.mono().0.saturating_sub(at) < LOST_LATELY)
    }

    fn parts_of(&self, list: &TopicPartitionList) -> Vec<Part> {
        let elements = list.elements();
        elements.iter().filter_map(|it| Some((self.names.channel(it.topic())?, it.partition()))).collect()
    }
}

/// Whether a bucket is to be open now. Until the lag reader has looked, only its minute opens it and
/// nothing closes it.
fn stays_open(channel: Channel, is_open: bool, backlog: Option<Backlog>, now: DateTime<Utc>) -> bool {
    let Channel::Ring(slot) = channel else { return true };
    let phase = phase(slot, now);
    match backlog {
        None => is_open || phase == Phase::Due,
        Some(backlog) if is_open => !may_close(phase, backlog),
        Some(backlog) => must_open(phase, backlog),
    }
}

fn millis(instant: Duration) -> u64 {
    u64::try_from(instant.as_millis()).unwrap_or(u64::MAX)
}

/// The client library's side of [`Shared`].
pub(in crate::bucket) struct Member {
    shared: Arc<Shared>,
    /// Asks the lag reader not to wait. It is here, and nowhere else, so that the lag reader ends
    /// with the client.
    nudge: std_mpsc::SyncSender<()>,
}

impl Member {
    pub(super) fn new(shared: Arc<Shared>, nudge: std_mpsc::SyncSender<()>) -> Self {
        Self { shared, nudge }
    }
}

impl ClientContext for Member {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        Logged.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        Logged.error(error, reason);
    }
}

impl ConsumerContext for Member {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, change: &Rebalance<'_>) {
        match change {
            Rebalance::Assign(list) => {
                let parts = self.shared.parts_of(list);
                self.shared.assigned(&parts);
            }
            Rebalance::Revoke(_) => {
                // What is lost is another's already; storing for it would be refused.
                if consumer.assignment_lost() {
                    self.shared.lost();
                } else {
                    self.shared.store(consumer);
                }
                let gone = self.shared.revoked();
                self.shared.tell(RingEvent::Revoked(gone));
            }
            Rebalance::Error(error) => tracing::error!(%error, "the group could not be joined"),
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, change: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = change {
            // Before the first fetch: the client asks for the committed offsets first.
            tell(&self.shared, consumer);
            self.shared.tell(RingEvent::Assigned(list.count()));
            // Full means that it has been asked already.
            let _asked = self.nudge.try_send(());
        }
    }

    fn commit_callback(&self, result: Result<(), KafkaError>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            // Repeated by the next interval; a watermark is never lost, only later.
            tracing::debug!(%error, "offsets not committed");
        }
    }
}

/// Opens and closes at the client what the clock and the lag reader say.
pub(super) fn tell(shared: &Shared, consumer: &BaseConsumer<Member>) {
    let Turn { pause, resume } = shared.turn();
    let list = |parts: Vec<Part>| shared.list(parts.into_iter().map(|part| (part, Offset::Invalid)));
    for (what, result) in [
        ("pause", (!pause.is_empty()).then(|| consumer.pause(&list(pause)))),
        ("resume", (!resume.is_empty()).then(|| consumer.resume(&list(resume)))),
    ] {
        if let Some(Err(error)) = result {
            // The assignment changed under us; everything is said again for the next one.
            tracing::warn!(%error, "could not {what} partitions");
        }
    }
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
