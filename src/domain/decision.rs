//! What we do next with one claimed payment, and what that does to its row.
//!
//! Made by `outcome::decide`, written by `Schedule::settle`. A [`Decision`] is the *whole* effect of
//! an attempt on the row, so that model, simulation and SQL apply the same thing.

use super::reason::Reason;
use super::state::{Cause, Status};
use chrono::{DateTime, Utc};

/// The effect of one attempt. Counters are relative: a fenced late answer may lower `unanswered`
/// while the claim is open, and the settle must not undo that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The state the payment moves to; `PROCESSING –settle→` this is legal by `state::MOVES`.
    pub to: Status,
    /// Always [`Cause::Settled`] or [`Cause::Poisoned`].
    pub cause: Cause,
    /// Why, for the row, the API and people.
    pub reason: Option<Reason>,
    /// When the next claim may happen; `Some` exactly when `to` is PENDING or UNKNOWN. A due notice
    /// for this instant is written by the same transaction.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Which of this epoch's possible sends are now definitively answered.
    pub answered: SendsAnswered,
    /// Whether this send spends budget, or is handed back (rule R12).
    pub budget: Budget,
    /// Whether the next charge uses a new gateway key (rule R4).
    pub epoch: EpochChange,
    /// The reference of the charge (COMPLETED, or PARKED with a charge).
    pub gateway_ref: Option<String>,
}

/// How many of the epoch's possible sends have a definitive answer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendsAnswered {
    /// None: this claim's own possible send stays open.
    None,
    /// This claim's own: `unanswered - 1`.
    Own,
    /// All of them (the gateway replays errors under the key, or a charge or a tombstone answers
    /// for the key as a whole): `unanswered = 0`.
    All,
}

/// What the send did to the retry budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// The claim counted it (when it came from PENDING) and it stays counted; clears `held_back`.
    Keep,
    /// Nothing was taken by the gateway: hand the claim's count back, and count it as held back.
    HandBack,
    /// Nothing was taken, by our own doing (drain, batch not started): hand back, count nothing.
    Untouched,
}

/// Whether the gateway key changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochChange {
    /// Same key.
    Same,
    /// `epoch + 1`, with `epoch_first_sent_at`, hash, account and renderer cleared. Only with every
    /// send of this epoch answered, or under a gateway that replays errors (rule R4).
    Next,
}
