//! Which offset waits for a record: its position, and the offsets that count it.
//!
//! Both together, because a worker that joined Kafka anew has other offsets than before, and an
//! outcome that comes late must find the ones that its record was counted in (or nobody).

use super::hold::Held;
use crate::bucket::{Position, Proof, SharedOffsets};
use chrono::{DateTime, Utc};

/// A record's place in one membership's offsets.
#[derive(Debug, Clone)]
pub struct Place {
    at: Position,
    offsets: SharedOffsets,
    sent_at: Option<DateTime<Utc>>,
}

/// A notice with the place of the record that brought it.
pub type Record = Held<Place>;

impl Place {
    /// The record at `at`, counted by `offsets`.
    #[must_use]
    pub fn new(at: Position, offsets: SharedOffsets) -> Self {
        Self { at, offsets, sent_at: None }
    }

    /// With the instant at which the record was given to Kafka.
    #[must_use]
    pub fn sent(self, sent_at: Option<DateTime<Utc>>) -> Self {
        Self { sent_at, ..self }
    }

    /// When the record was given to Kafka, if that is known.
    #[must_use]
    pub fn sent_at(&self) -> Option<DateTime<Utc>> {
        self.sent_at
    }

    /// Completes the record.
    pub fn complete(self, proof: impl Into<Proof>) {
        // A partition that was taken away meanwhile is read again by its new owner; nothing to do.
        let _counted = self.offsets.complete(self.at, proof);
    }

    /// Whether its partition is still ours.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.offsets.is_current(self.at)
    }
}
