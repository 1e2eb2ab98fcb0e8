//! One line of the ledger: what one physical request to `POST /charges`, `/voids` or `/refunds` asked and
//! what became of it.
//!
//! The lines are the oracle that everything else is checked against, so they say only what this
//! gateway itself saw and did, and they alone rebuild its memory after a restart.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// What became of one physical request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Executed: money moved, whatever was answered.
    Charged,
    /// Executed: accepted, decided later; `charged` tells how it ends.
    Pending,
    /// Executed: declined.
    Declined,
    /// Executed: nothing done and nothing answered.
    NotCharged,
    /// Executed: told to come back later.
    RateLimited,
    /// Executed: told that the key is in use.
    InUse,
    /// Answered from the result stored under the key.
    Replayed,
    /// Refused: a request under this key was in flight at that moment.
    Concurrent,
    /// Refused: the key was used with another body.
    KeyReused,
    /// Refused: not readable, or the destination is not known.
    Invalid,
    /// Refused: wrong credentials.
    Unauthorized,
    /// Refused: more calls a second than allowed.
    OverRate,
    /// Lost in an outage that executes nothing.
    Outage,
    /// A void: from now on no charge under this key, for ever. Also when it was voided before.
    Voided,
    /// A void that was not looked at, as the destination says.
    VoidRefused,
    /// A charge refused by the tombstone that a void left under its key.
    Tombstoned,
    /// A refund: money went back, whatever was answered.
    Refunded,
}

/// What a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// To move money.
    #[default]
    Charge,
    /// To refuse every later charge under a key.
    Void,
    /// To give money back.
    Refund,
}

impl Request {
    // serde hands the field over by reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_charge(&self) -> bool {
        *self == Self::Charge
    }
}

impl Verdict {
    /// It took a link of the payment's chain.
    pub(super) fn executed(self) -> bool {
        match self {
            Self::Charged
            | Self::Pending
            | Self::Declined
            | Self::NotCharged
            | Self::RateLimited
            | Self::InUse => true,
            Self::Replayed
            | Self::Concurrent
            | Self::KeyReused
            | Self::Invalid
            | Self::Unauthorized
            | Self::OverRate
            | Self::Outage
            | Self::Voided
            | Self::VoidRefused
            | Self::Tombstoned
            | Self::Refunded => false,
        }
    }
}

/// One line, in this order of fields. What a request did not say, or not readably, is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Line {
    /// From 1, without gaps.
    pub(super) seq: u64,
    /// When the request had arrived, by this gateway's clock.
    #[serde(serialize_with = "micros")]
    pub(super) at: DateTime<Utc>,
    /// The `Idempotency-Key` header; of a void, from the body.
    pub(super) key: Option<String>,
    /// From the body; of a void, the key up to its colon.
    pub(super) payment_id: Option<String>,
    /// The number after the key's colon; 0 without one.
    pub(super) epoch: Option<u32>,
    /// From the `Punctual-Claim` header.
    pub(super) claim_id: Option<String>,
    /// From the `Punctual-Claim` header.
    pub(super) fence: Option<i64>,
    /// From the `Punctual-Due` header.
    #[serde(serialize_with = "micros_or_null")]
    pub(super) due_at: Option<DateTime<Utc>>,
    /// As asked, in minor units.
    pub(super) amount: Option<i64>,
    /// As asked.
    pub(super) currency: Option<String>,
    /// As asked.
    pub(super) payee: Option<String>,
    /// What became of it.
    pub(super) verdict: Verdict,
    /// This very request moved money (or, pending, will).
    pub(super) charged: bool,
    /// Said only by the lines of voids and refunds.
    #[serde(default, skip_serializing_if = "Request::is_charge")]
    pub(super) request: Request,
    /// The charge that a refund gives back; said only by its lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) charge: Option<String>,
    /// What this charge took, said only where it is not what was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) taken: Option<Taken>,
}

/// An amount that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Taken {
    /// In minor units.
    pub(super) amount: i64,
    /// Three capital letters.
    pub(super) currency: String,
}

fn micros<S: serde::Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true))
}

// serde hands the field over by reference, so the reference to an Option is its choice, not ours.
#[allow(clippy::ref_option)]
fn micros_or_null<S: serde::Serializer>(at: &Option<DateTime<Utc>>, to: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => micros(at, to),
        None => to.serialize_none(),
    }
}
