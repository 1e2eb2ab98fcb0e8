//! The proofs that hold the dangerous order in types. Only this folder can make them.
//!
//! `claim` is the only maker of [`Claimed`]; a gateway takes it by value and gives back
//! [`Answered`]; `settle` takes that by value and gives back [`Settled`]; an offset is completed
//! only by [`Settled`] or [`Refused`], by value. None of them is `Clone`, and their fields are
//! private: a charge without a claim, a second charge under one claim, and a commit before the
//! outcome row do not compile.

use crate::domain::declines::DeclineCounts;
pub use crate::domain::guard::{Early, RefusedBecause};
use crate::domain::ids::ClaimId;
use crate::domain::lease::Mono;
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use crate::domain::verdict::{Decline, NotSent, Verdict};
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use std::time::Duration;

/// The right to call the gateway once for one payment, granted by a committed claim.
#[derive(Debug)]
pub struct Claimed {
    payment: Payment,
    payee: SecretString,
    claim_id: ClaimId,
    was: Status,
    asked_at: Mono,
    claimed_at: DateTime<Utc>,
    key_age: Option<Duration>,
    declines: DeclineCounts,
    traceparent: Option<String>,
}

/// The fields of a committed claim, as read back from the row; for implementations of `Schedule`.
#[derive(Debug)]
pub(in crate::schedule) struct ClaimRow {
    pub(in crate::schedule) payment: Payment,
    pub(in crate::schedule) payee: SecretString,
    pub(in crate::schedule) claim_id: ClaimId,
    pub(in crate::schedule) was: Status,
    pub(in crate::schedule) asked_at: Mono,
    pub(in crate::schedule) claimed_at: DateTime<Utc>,
    pub(in crate::schedule) key_age: Option<Duration>,
    pub(in crate::schedule) declines: DeclineCounts,
    pub(in crate::schedule) traceparent: Option<String>,
}

impl Claimed {
    pub(in crate::schedule) fn new(row: ClaimRow) -> Self {
        let ClaimRow { payment, payee, claim_id, was, asked_at, claimed_at, key_age, declines, traceparent } =
            row;
        Self { payment, payee, claim_id, was, asked_at, claimed_at, key_age, declines, traceparent }
    }

    /// A claim that no database granted, so that gateways can be tested alone; claimed at the
    /// payment's last move. Absent from builds that can reach a real gateway.
    #[cfg(any(test, feature = "faults"))]
    #[must_use]
    pub fn for_tests(
        payment: Payment,
        payee: SecretString,
        claim_id: ClaimId,
        was: Status,
        asked_at: Mono,
        key_age: Option<Duration>,
    ) -> Self {
        let claimed_at = payment.last_moved_at;
        let (declines, traceparent) = (DeclineCounts::default(), None);
        Self { payment, payee, claim_id, was, asked_at, claimed_at, key_age, declines, traceparent }
    }

    /// The payment *after* the claim: status PROCESSING, attempt, fence and `unanswered` grown.
    #[must_use]
    pub fn payment(&self) -> &Payment {
        &self.payment
    }

    /// The destination reference; secret.
    #[must_use]
    pub fn payee(&self) -> &SecretString {
        &self.payee
    }

    /// This claim's own name.
    #[must_use]
    pub fn claim_id(&self) -> ClaimId {
        self.claim_id
    }

    /// The state it was claimed from: PENDING (charge) or UNKNOWN (ask).
    #[must_use]
    pub fn was(&self) -> Status {
        self.was
    }

    /// The instant before the claim was sent, on the host's suspend-counting clock.
    #[must_use]
    pub fn asked_at(&self) -> Mono {
        self.asked_at
    }

    /// The database's instant of the claim.
    #[must_use]
    pub fn claimed_at(&self) -> DateTime<Utc> {
        self.claimed_at
    }

    /// How old this epoch's key was at the claim by the database clock: `None` if this claim is its
    /// first possible send.
    #[must_use]
    pub fn key_age(&self) -> Option<Duration> {
        self.key_age
    }

    /// Declines of its destination before the claim, of whatever payments.
    #[must_use]
    pub fn declines(&self) -> DeclineCounts {
        self.declines
    }

    /// The trace context that the POST stored, where somebody listens; see `platform/trace.rs`.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// The gateway's answer to the one request sent (or proven unsent) under this claim.
    #[must_use]
    pub fn answered(self, answer: Answer) -> Answered {
        Answered { claimed: self, answer }
    }

    /// Gives the claim back: nothing was sent under it.
    #[must_use]
    pub fn not_started(self, why: NotSent) -> Answered {
        self.answered(Answer::silent(Verdict::NotSent { why, retry_after: None }, How::NotStarted))
    }
}

/// How a verdict was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// By a money-moving request under this claim.
    Sent,
    /// By a look-up under this claim; no money-moving request was made.
    LookedUp,
    /// By a void under this claim; no money-moving request was made.
    Voided,
    /// No request of any kind.
    NotStarted,
}

/// What one attempt learned, with what is worth keeping of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What it means.
    pub verdict: Verdict,
    /// How it was come by.
    pub how: How,
    /// SHA-256 of the body sent (or frozen and not sent); checked against the epoch's (rule R5).
    pub request_hash: Option<[u8; 32]>,
    /// HTTP status, where there was one.
    pub http_status: Option<u16>,
    /// How long the gateway took.
    pub took: Option<Duration>,
    /// A short note for people: no secrets, no payee, ≤ 500 characters.
    pub note: Option<String>,
}

impl Answer {
    /// An answer without any request behind it.
    #[must_use]
    pub fn silent(verdict: Verdict, how: How) -> Self {
        Self { verdict, how, request_hash: None, http_status: None, took: None, note: None }
    }

    /// The decline inside, if it is one.
    #[must_use]
    pub fn decline(&self) -> Option<&Decline> {
        match &self.verdict {
            Verdict::Declined(decline) => Some(decline),
            Verdict::Charged { .. }
            | Verdict::NotSent { .. }
            | Verdict::InProgress { .. }
            | Verdict::PendingAtGateway { .. }
            | Verdict::Unknown(_)
            | Verdict::ContractViolation { .. }
            | Verdict::Voided => None,
        }
    }
}

/// A claim that has its answer; only `settle` takes it from here.
#[derive(Debug)]
pub struct Answered {
    claimed: Claimed,
    answer: Answer,
}

impl Answered {
    /// The claim.
    #[must_use]
    pub fn claimed(&self) -> &Claimed {
        &self.claimed
    }

    /// The answer.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }
}

/// One answer of `claim`, in the order of the notices asked for.
#[derive(Debug)]
pub enum ClaimAnswer {
    /// Ours: call the gateway.
    Claimed(Box<Claimed>),
    /// Not yet, or not now: wait and present the notice again. Never drop it.
    Early {
        /// The database's word on when.
        until: DateTime<Utc>,
        /// What holds it.
        why: Early,
    },
    /// Durably refused: this notice has nothing left to do.
    Refused(Refused),
}

/// Proof that a notice was durably refused.
#[derive(Debug)]
pub struct Refused {
    why: RefusedBecause,
}

impl Refused {
    pub(in crate::schedule) fn new(why: RefusedBecause) -> Self {
        Self { why }
    }

    /// Why.
    #[must_use]
    pub fn why(&self) -> RefusedBecause {
        self.why
    }
}

/// Proof that an outcome row is durable, or that this claim's write was fenced off for good.
#[derive(Debug)]
pub struct Settled {
    result: SettledAs,
}

/// What a settle did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettledAs {
    /// The decision is the payment's state now.
    Written(Status),
    /// The claim was no longer current; the answer is kept as evidence.
    Fenced,
}

impl Settled {
    pub(in crate::schedule) fn new(result: SettledAs) -> Self {
        Self { result }
    }

    /// What it did.
    #[must_use]
    pub fn result(&self) -> SettledAs {
        self.result
    }
}

/// Proof that a record that no code can read is kept in `bad_notices`.
#[derive(Debug)]
pub struct BadNoticeKept {
    _made_here: (),
}

impl BadNoticeKept {
    pub(in crate::schedule) fn new() -> Self {
        Self { _made_here: () }
    }
}

/// Proof that a row has been claimable and overdue for so long that the late scan owns it (rule R11).
#[derive(Debug)]
pub struct Deferred {
    _made_here: (),
}

impl Deferred {
    pub(in crate::schedule) fn new() -> Self {
        Self { _made_here: () }
    }
}
