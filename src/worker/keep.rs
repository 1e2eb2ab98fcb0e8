//! Records that are not work: those that nobody can read or that are not ours, and those that prove
//! lost commits.
//!
//! **Promises.** None of them holds up the records behind it, and a flood of them takes a few database
//! connections at a time, not all: beyond [`MOST_AT_ONCE`] nothing more is taken from Kafka until one
//! is durable. If this dies here, they are read again.

use super::place::{Place, Record};
use super::run::{Done, Worker};
use super::store;
use crate::bucket::{BadNotice, Position};
use crate::platform::metrics;
use crate::schedule::{Refused, Schedule};
use std::sync::Arc;

/// Writes for such records under way at once.
const MOST_AT_ONCE: usize = 16;

impl<S: Schedule> Worker<S> {
    /// Whether another record may be taken from Kafka.
    pub(super) fn has_room(&self) -> bool {
        self.hold.has_room() && self.keeping < MOST_AT_ONCE
    }

    /// Keeps a record that nobody can read, or that is not ours, and completes it.
    pub(super) fn keep_bad(&mut self, at: Position, place: Place, bad: BadNotice) {
        tracing::error!(?at, reason = %bad.reason, "a record that is no notice of ours");
        metrics::NOTICES_BAD.add(1, []);
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        self.keeping += 1;
        self.tasks.spawn(async move {
            place.complete(store::keep(store.as_ref(), clock.as_ref(), at, &bad).await);
            Done::Kept
        });
    }

    /// Rule R17: stops every claim of every worker, and completes the record that proved why.
    pub(super) fn commits_were_lost(&mut self, record: Record, proof: Refused) {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        self.keeping += 1;
        self.tasks.spawn(async move {
            let sent_at = record.position.as_ref().and_then(Place::sent_at);
            store::stop_claiming(store.as_ref(), clock.as_ref(), &record.notice, sent_at, proof.why()).await;
            if let Some(place) = record.position {
                place.complete(proof);
            }
            Done::Kept
        });
    }
}
