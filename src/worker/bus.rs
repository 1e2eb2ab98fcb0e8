//! Kafka as the worker sees it: joined, or away and tried again.
//!
//! **Promises.** The work path never waits for Kafka. Without it (or without its topics, or after
//! the worker left because it was stuck) the worker is in *direct mode*: the late scan brings
//! everything at once, the log says so, and joining is tried again every few seconds.
//!
//! **If this dies here**, the group gives our partitions to others, and claims refuse what was done.

use super::run::Condition;
use crate::bucket::{Ring, RingEvent, Taken};
use crate::domain::lease::Mono;
use futures_util::future::BoxFuture;
use std::time::Duration;

/// Checks the topics and joins the group; `Err` says why not, for people.
pub type Join = Box<dyn FnMut() -> BoxFuture<'static, Result<Ring, String>> + Send>;

/// Between two tries to join.
pub(super) const JOIN_AGAIN: Duration = Duration::from_secs(5);

/// The state of the membership.
#[derive(Debug)]
pub(super) enum Bus {
    /// Direct mode; `try_at` is `None` while a try is under way.
    Away { try_at: Option<Mono> },
    /// A member, though brokers may be out of reach.
    Joined(Ring),
}

impl Bus {
    /// Kafka can be relied on to bring notices.
    pub(super) fn is_up(&self) -> bool {
        match self {
            Self::Away { .. } => false,
            Self::Joined(ring) => ring.health().is_up(),
        }
    }

    /// A record that is here already.
    pub(super) fn record_here(&mut self) -> Option<Taken> {
        match self {
            Self::Away { .. } => None,
            Self::Joined(ring) => ring.records.try_recv().ok(),
        }
    }
}

/// Says in the log when Kafka stops or begins to bring notices.
pub(super) fn tell(before: &Condition, now: &Condition) {
    match (before.kafka_is_up, now.kafka_is_up) {
        (true, false) => tracing::warn!("Kafka does not answer: direct mode"),
        (false, true) => tracing::info!("Kafka answers: notices bring what is due"),
        (true, true) | (false, false) => {}
    }
}

/// What the next thing from Kafka is.
#[derive(Debug)]
pub(super) enum FromBus {
    Event(RingEvent),
    Record(Taken),
    /// One of its channels closed: the client is gone.
    Closed,
}

impl Bus {
    /// The next event or, with room for it, record.
    pub(super) async fn next(&mut self, room: Room) -> FromBus {
        // Two receivers of one ring cannot be borrowed through two calls at once.
        let Self::Joined(ring) = self else { return std::future::pending().await };
        tokio::select! {
            biased;
            event = ring.events.recv() => event.map_or(FromBus::Closed, FromBus::Event),
            taken = ring.records.recv(), if room == Room::Yes => taken.map_or(FromBus::Closed, FromBus::Record),
        }
    }
}

/// Whether the hold takes another record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Yes,
    No,
}
