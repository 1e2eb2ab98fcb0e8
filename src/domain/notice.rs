//! "Go and look at this payment": the hint that Kafka carries, never the truth.

use super::ids::{GatewayName, PaymentId};
use chrono::{DateTime, Utc};

/// A due notice. No amount and no personal data, so that it may be looked at in production.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The record's key.
    pub payment: PaymentId,
    /// Lets permits and breakers act before any database call.
    pub gateway: GatewayName,
    /// Hash of the actor, for fairness.
    pub lane: i16,
    /// The client's due instant.
    pub due_at: DateTime<Utc>,
    /// `next_attempt_at`: decides slot and hold.
    pub not_before: DateTime<Utc>,
    /// Claims made when it was written; only a row with the same count may be claimed by it.
    pub attempt: i32,
}
