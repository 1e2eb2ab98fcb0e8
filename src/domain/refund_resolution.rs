//! Closing a refund by people's word, where the gateway's decides nothing any more (rules R2, R7, R16).
//!
//! **Promises.** [`resolve`] is the guard of `resolve_refund()`, in the same order, and [`ChargeSums::after`] is what
//! it does to the sums of the charge; a test runs both over the same rows. Whatever people say, in sum no more is
//! called given back than was charged. What was really given back may differ from what was asked for, since a
//! gateway that contradicts itself is one way to get here; what nobody gave back is free to be asked for again.
//!
//! **A word never takes an answer back.** Once an answer says that money was given back, it cannot be called not
//! given back; and it cannot while a request of ours may still arrive ([`QUIET`]). No proof stands behind "not given
//! back" but the evidence of two people: should the first request have moved money after all, the gateway still
//! refuses what is above its own charge, and the audit says so (M10).
//!
//! **If this dies here**, nothing was decided.

use super::guard::Lineage;
use super::money::{Minor, Money};
use super::refund::RefundStatus;
use super::texts::texts;
use chrono::{DateTime, TimeDelta, Utc};

/// Between the last claim of a refund and the word that nothing was given back: far longer than a claim and its
/// request can live (lease and margin, about a minute), and than a connection sends what it holds again.
pub const QUIET: TimeDelta = TimeDelta::hours(1);

texts! { RefundUnresolved, "Why people's word does not close a refund.":
    NoSuchRefund = "no_such_refund": "There is no refund of this id, or the day of its payment was archived.",
    NotWaiting = "not_waiting": "It does not wait for people: it has ended, was never allowed, or the gateway is still asked.",
    Quarantined = "quarantined": "The database was restored or promoted and is not released yet.",
    Changed = "changed": "A worker has learned something about it since it was looked at.",
    ReferenceMissing = "reference_missing": "Refunded needs the gateway's own name of the refund.",
    ReferenceDiffers = "reference_differs": "The gateway named this refund otherwise.",
    AmountDiffers = "amount_differs": "Refunded needs what was given back, in the currency of the charge.",
    AboveCharge = "above_charge": "In sum more than was charged would be given back.",
    ReferenceTaken = "reference_taken": "The gateway uses this name for another refund.",
    RefundOnRecord = "refund_on_record": "An answer on record says that money was given back.",
    TooRecent = "too_recent": "It was claimed within the last hour, and a request of that claim may still arrive.",
    NeedsApproval = "needs_approval": "A second person has to approve it.",
}

/// What people say became of a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundWord<'a> {
    /// The gateway gave money back.
    Refunded {
        /// Its own name of that.
        reference: &'a str,
        /// How much; `None` for a currency or amount that we know none of.
        amount: Option<Money>,
    },
    /// It did not, and never will under this key.
    NotRefunded,
}

/// What of one charge is promised back and what is back, in minor units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChargeSums {
    /// What was charged.
    pub charge_minor: i64,
    /// Of every refund that is done or may still be.
    pub reserved_minor: i64,
    /// Of those that are done.
    pub refunded_minor: i64,
}

impl ChargeSums {
    /// Once a refund that reserved `asked` has ended as this word says.
    #[must_use]
    pub fn after(self, asked: Minor, word: RefundWord<'_>) -> Self {
        let given = match word {
            RefundWord::Refunded { reference: _, amount } => amount.map_or(0, |amount| amount.minor.get()),
            RefundWord::NotRefunded => 0,
        };
        Self {
            charge_minor: self.charge_minor,
            reserved_minor: self.reserved_minor - asked.get() + given,
            refunded_minor: self.refunded_minor + given,
        }
    }
}

/// A refund as people find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRefund {
    /// Where it stands.
    pub status: RefundStatus,
    /// When the gateway is asked again; `None`: never.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// What was asked for.
    pub amount: Money,
    /// Of its charge.
    pub sums: ChargeSums,
    /// The gateway's name of it, where an answer gave one.
    pub reference: Option<String>,
    /// The named reference is on record as another refund's.
    pub is_anothers: bool,
    /// An answer says that money was given back, however late it came.
    pub says_refunded: bool,
    /// Claims so far: the version that people look at.
    pub attempt: i32,
    /// The last of them.
    pub last_claimed_at: Option<DateTime<Utc>>,
}

impl OpenRefund {
    /// Nobody asks the gateway any more, and what became of it is not known.
    #[must_use]
    pub fn needs_human(&self) -> bool {
        self.status == RefundStatus::Unknown && self.next_attempt_at.is_none()
    }
}

/// May this word close it, and how does it end then? `seen` is the number of claims that the people saw.
///
/// # Errors
/// [`RefundUnresolved`], the first that applies. That a second person is needed is asked by the statement alone.
pub fn resolve(
    of: &OpenRefund,
    word: RefundWord<'_>,
    seen: i32,
    lineage: Lineage,
    database_now: DateTime<Utc>,
) -> Result<RefundStatus, RefundUnresolved> {
    if !of.needs_human() {
        return Err(RefundUnresolved::NotWaiting);
    }
    if lineage == Lineage::Quarantined {
        return Err(RefundUnresolved::Quarantined);
    }
    if seen != of.attempt {
        return Err(RefundUnresolved::Changed);
    }
    match word {
        RefundWord::Refunded { reference: "", amount: _ } => Err(RefundUnresolved::ReferenceMissing),
        RefundWord::Refunded { reference, amount } => given_back(of, reference, amount),
        RefundWord::NotRefunded if of.says_refunded || of.reference.is_some() => {
            Err(RefundUnresolved::RefundOnRecord)
        }
        RefundWord::NotRefunded if of.last_claimed_at.is_some_and(|at| at > database_now - QUIET) => {
            Err(RefundUnresolved::TooRecent)
        }
        RefundWord::NotRefunded => Ok(RefundStatus::Declined),
    }
}

fn given_back(
    of: &OpenRefund,
    reference: &str,
    amount: Option<Money>,
) -> Result<RefundStatus, RefundUnresolved> {
    if of.reference.as_deref().is_some_and(|known| known != reference) {
        return Err(RefundUnresolved::ReferenceDiffers);
    }
    let Some(amount) = amount.filter(|amount| amount.currency == of.amount.currency) else {
        return Err(RefundUnresolved::AmountDiffers);
    };
    // What it reserved is its own; beside that, only what nobody else was promised.
    let most = of.sums.charge_minor - of.sums.reserved_minor + of.amount.minor.get();
    if amount.minor.get() > most {
        return Err(RefundUnresolved::AboveCharge);
    }
    if of.is_anothers { Err(RefundUnresolved::ReferenceTaken) } else { Ok(RefundStatus::Refunded) }
}

#[cfg(test)]
#[path = "refund_resolution_tests.rs"]
mod tests;
