//! What one worker has done, as counts: for health, metrics and the drain's last words.
//!
//! **Promises.** Counts only grow, and each record or claim is counted where it ends. The loop
//! compares [`Progress::finished`] over time to notice a worker that has work and finishes none.
//! Nothing depends on them for safety; if this dies here, counts start at zero.

use super::tally::Tally;
use crate::domain::invariants::{Invariant, row_faults};
use crate::domain::state::{Cause, Status};
use crate::platform::{metrics, violation};
use crate::schedule::{Claimed, Early, RefusedBecause, SettledAs};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since start.
#[derive(Debug, Default)]
pub struct Progress {
    claimed: AtomicU64,
    written: AtomicU64,
    fenced: AtomicU64,
    refused: AtomicU64,
    deferred: AtomicU64,
    abandoned: AtomicU64,
    /// How many were abandoned when something last ended with a proof.
    abandoned_before: AtomicU64,
    /// Claims in a row that the database did not answer.
    unanswered_claims: AtomicU64,
}

impl Progress {
    /// Claims won.
    #[must_use]
    pub fn claims(&self) -> u64 {
        self.claimed.load(Ordering::Relaxed)
    }

    /// A claim that the database did not answer: how many in a row, this one included. While it is away there are
    /// dozens a second, so not each is worth a line.
    pub(super) fn claim_unanswered(&self) -> u64 {
        self.unanswered_claims.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A claim that it answered.
    pub(super) fn claim_answered(&self) {
        self.unanswered_claims.store(0, Ordering::Relaxed);
    }

    /// Claims whose outcome is durable, fenced ones included.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.written.load(Ordering::Relaxed) + self.fenced.load(Ordering::Relaxed)
    }

    /// Claims whose outcome could not be written in time; the reaper has them asked about.
    #[must_use]
    pub fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Claims that have no durable outcome (yet), those given up included.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.claims().saturating_sub(self.settled())
    }

    /// Claims that a healthy worker would still be finishing: the open ones, without those given up
    /// before something else ended well. The reaper has those by now, and no idle moment brings them
    /// back.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.open().saturating_sub(self.abandoned_before.load(Ordering::Relaxed))
    }

    /// Everything that ended with a proof.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.settled() + self.refused.load(Ordering::Relaxed) + self.deferred.load(Ordering::Relaxed)
    }

    /// Claims won. A recovered one counts like any other: it was won by the claim that was lost.
    pub(super) fn claimed<'a>(&self, claims: impl Iterator<Item = &'a Claimed>, by: ClaimedBy) {
        for claimed in claims {
            self.claimed.fetch_add(1, Ordering::Relaxed);
            let payment = claimed.payment();
            if payment.attempt == 1 {
                // Within its window a payment is not late.
                let late = claimed.claimed_at() - payment.first_attempt_at();
                metrics::PAYMENT_LATENESS.record(late.to_std().unwrap_or_default(), []);
            }
            if claimed.claimed_at() < payment.due_at {
                metrics::PAYMENT_EARLY.add(1, []);
                violation::seen(Invariant::M3, Some(payment.id), "claimed before it was due");
            }
            // A row that no rule allows, from the database's own hand.
            for fault in row_faults(payment) {
                violation::seen(fault.breaks(), Some(payment.id), &fault.to_string());
            }
            metrics::QUARANTINE.set(0.0, []);
            metrics::PAYMENT_TRANSITIONS.add(1, [Status::Processing.as_str(), Cause::Claimed.as_str()]);
            metrics::CLAIMS.add(
                1,
                [match by {
                    ClaimedBy::Notice => "claimed",
                    ClaimedBy::LateScan => "claimed_late",
                }],
            );
        }
    }

    pub(super) fn early_one(&self, why: Early) {
        let why = match why {
            Early::NotDue => "not_due",
            Early::Contended => "contended",
            Early::SwitchedOff => "switched_off",
            Early::Quarantined => {
                metrics::QUARANTINE.set(1.0, []);
                "quarantined"
            }
        };
        metrics::CLAIMS.add(1, [why]);
    }

    fn ended_well(&self) {
        self.abandoned_before.store(self.abandoned(), Ordering::Relaxed);
    }

    pub(super) fn refused_one(&self, why: RefusedBecause) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.ended_well();
        metrics::CLAIMS.add(1, [refusal(why)]);
    }

    pub(super) fn settled_one(&self, result: SettledAs, tally: &Tally) {
        self.ended_well();
        tally.count(result);
        match result {
            SettledAs::Written(to) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                metrics::PAYMENT_TRANSITIONS.add(1, [to.as_str(), Cause::Settled.as_str()]);
            }
            SettledAs::Fenced => {
                self.fenced.fetch_add(1, Ordering::Relaxed);
                metrics::FENCED_WRITES.add(1, []);
            }
        }
    }

    pub(super) fn deferred_one(&self) {
        self.deferred.fetch_add(1, Ordering::Relaxed);
        self.ended_well();
        metrics::NOTICES_DEFERRED.add(1, []);
    }

    pub(super) fn abandoned_one(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
        metrics::SETTLES_ABANDONED.add(1, []);
    }
}

/// What led to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimedBy {
    /// A notice from Kafka.
    Notice,
    /// The late scan.
    LateScan,
}

fn refusal(why: RefusedBecause) -> &'static str {
    match why {
        RefusedBecause::Cancelled => "cancelled",
        RefusedBecause::Final(Status::Completed) => "completed",
        RefusedBecause::Final(_) => "final",
        RefusedBecause::Parked => "parked",
        RefusedBecause::HeldByAnother => "held",
        RefusedBecause::Stale => "stale",
        RefusedBecause::NoSuchPayment => "no_such_payment",
        RefusedBecause::AheadOfRow => "ahead_of_row",
        RefusedBecause::OtherGateway => "other_gateway",
    }
}
