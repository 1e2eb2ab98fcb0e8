//! What one worker has done, as counts: for health, metrics and the drain's last words.
//!
//! **Promises.** Counts only grow, and each record or claim is counted where it ends. The loop
//! compares [`Progress::finished`] over time to notice a worker that has work and finishes none.
//! Nothing depends on them for safety; if this dies here, counts start at zero.

use crate::domain::state::Status;
use crate::schedule::{RefusedBecause, SettledAs};
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
}

impl Progress {
    /// Claims won.
    #[must_use]
    pub fn claims(&self) -> u64 {
        self.claimed.load(Ordering::Relaxed)
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

    /// Everything that ended with a proof.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.settled() + self.refused.load(Ordering::Relaxed) + self.deferred.load(Ordering::Relaxed)
    }

    pub(super) fn claimed(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.claimed.fetch_add(count, Ordering::Relaxed);
        metrics::counter!("punctual_claims_total").increment(count);
    }

    pub(super) fn refused_one(&self, why: RefusedBecause) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("punctual_claims_refused_total", "why" => refusal(why)).increment(1);
    }

    pub(super) fn settled_one(&self, result: SettledAs) {
        let (count, to) = match result {
            SettledAs::Written(status) => (&self.written, status.as_str()),
            SettledAs::Fenced => (&self.fenced, "FENCED"),
        };
        count.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("punctual_settled_total", "to" => to).increment(1);
    }

    pub(super) fn deferred_one(&self) {
        self.deferred.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("punctual_notices_deferred_total").increment(1);
    }

    pub(super) fn abandoned_one(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("punctual_settles_abandoned_total").increment(1);
    }
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
