//! What people may do with a parked payment, and what it does to the row (rule R16).
//!
//! **Promise**: the guards here are the conditions of `redrive_parked()` and `resolve_parked()`, in the same
//! order, and the effects their SET clauses; a test runs both over the same rows. An act that is possible now may
//! be refused a moment later: what is shown to people is advice, and the statement decides on the locked row.
//!
//! **A re-drive never charges by itself.** It makes the payment claimable. Where something was sent under its key
//! it becomes UNKNOWN, so that the claim asks about that key before anything else, and sends, if at all, what
//! collapses on it. Where nothing ever was, it becomes PENDING, and the worker asks there too, by the reason
//! ([`Reason::Redriven`]). The key's age, the deadline and a wish to cancel are judged by the claim as ever: past
//! them it is only asked about, and parked again.
//!
//! **Never**: a new key with an open send; anything but a resolution once an answer, or a line of a settlement report
//! that counts, says that it was charged (another key would charge twice, and the same one asks nothing new); a send after a decline for good; COMPLETED by
//! a charge that took another amount than asked, whoever says so: that one is given back (`refund.rs`).

use super::guard::Lineage;
use super::money::Money;
use super::payment::Payment;
use super::reason::Reason;
use super::state::{Cause, IllegalMove, Status, advance};
use super::texts::texts;
use chrono::{DateTime, Utc};

/// What the answers on record, and the gateways' reports, say of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said {
    /// Some answer says that it was charged, under whichever key.
    pub charged: bool,
    /// Some decline was for good, under whichever key.
    pub declined_for_good: bool,
    /// Some answer under the present key is a decline.
    pub declined_here: bool,
    /// The gateway planted a tombstone under the present key.
    pub voided_here: bool,
    /// The charge whose reference the payment carries took another amount than asked.
    pub charged_otherwise: bool,
    /// A line of a settlement report that counts shows a charge of it, under whichever name or none.
    pub reported: bool,
}

/// Which key the next charge is to carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyWanted {
    /// The present one.
    Same,
    /// A new one (rule R4); a second person must have said so.
    New,
}

/// What a person says became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// It was charged.
    Charged {
        /// The gateway's name of the charge.
        reference: &'a str,
        /// What the gateway says that it took; `None` for a currency or amount that we know none of.
        amount: Option<Money>,
    },
    /// It was not, and never will be.
    NotCharged,
}

texts! { WhyNot, "Why an act is refused.":
    NoSuchPayment = "no_such_payment": "There is no payment of this id, or its day was archived.",
    NotParked = "not_parked": "It is not parked, or not any more.",
    Quarantined = "quarantined": "The database was restored or promoted and is not released yet.",
    Changed = "changed": "Something was written about it since it was looked at.",
    ChargeOnRecord = "charge_on_record": "An answer on record, or a line of a settlement report, says that it was charged: resolve it as charged, repair it by the line, or refund it.",
    DeclinedForGood = "declined_for_good": "It was declined for good, and nothing may be sent after that.",
    OpenSend = "open_send": "A send under its key has no answer, so that it may still be charged.",
    KeyUnused = "key_unused": "Nothing was ever sent under its present key: a re-drive under the same one is all it needs.",
    NoChargeWanted = "no_charge_wanted": "Its deadline has passed, or its client wishes to cancel it.",
    NotProven = "not_proven": "No answer on record proves that nothing was charged under its key.",
    NeedsApproval = "needs_approval": "A second person has to approve it.",
    ReferenceMissing = "reference_missing": "Charged needs the gateway's reference.",
    AmountDiffers = "amount_differs": "Amount and currency of the charge must be those of the payment.",
    ReferenceDiffers = "reference_differs": "The gateway named another reference for the charge of this payment.",
    ReferenceTaken = "reference_taken": "This charge pays for another payment.",
}

/// May `row` be released, and to which state? `version` is the one that the asker saw, if that matters.
///
/// # Errors
/// [`WhyNot`], the first that applies.
pub fn redrive(
    row: &Payment,
    said: &Said,
    key: KeyWanted,
    version: Option<i32>,
    lineage: Lineage,
    database_now: DateTime<Utc>,
) -> Result<Status, WhyNot> {
    is_to_be_decided(row, version, lineage)?;
    if charge_is_on_record(row, said) {
        return Err(WhyNot::ChargeOnRecord);
    }
    if said.declined_for_good {
        return Err(WhyNot::DeclinedForGood);
    }
    match key {
        KeyWanted::Same if row.unanswered == 0 && row.epoch_first_sent_at.is_none() => Ok(Status::Pending),
        KeyWanted::Same => Ok(Status::Unknown),
        KeyWanted::New => may_open_new_key(row, said, database_now),
    }
}

/// Rule R4: every send under the key is answered (a tombstone answers for all), and an answer proves that it
/// did not charge.
fn may_open_new_key(row: &Payment, said: &Said, now: DateTime<Utc>) -> Result<Status, WhyNot> {
    let deadline_passed = row.execute_before.is_some_and(|deadline| now >= deadline);
    if row.unanswered > 0 && !said.voided_here {
        Err(WhyNot::OpenSend)
    } else if row.epoch_first_sent_at.is_none() {
        Err(WhyNot::KeyUnused)
    } else if row.cancel_wish_at.is_some() || deadline_passed {
        Err(WhyNot::NoChargeWanted)
    } else if !said.declined_here && !said.voided_here {
        Err(WhyNot::NotProven)
    } else {
        Ok(Status::Pending)
    }
}

/// May `row` be ended by a person's word, and in which state? That the reference pays for no other payment is
/// asked by the statement alone, and so is what a charge took that the payment does not carry the reference of.
///
/// # Errors
/// [`WhyNot`], the first that applies.
pub fn resolve(
    row: &Payment,
    said: &Said,
    resolution: Resolution<'_>,
    version: Option<i32>,
    lineage: Lineage,
) -> Result<Status, WhyNot> {
    is_to_be_decided(row, version, lineage)?;
    match resolution {
        Resolution::Charged { reference: "", amount: _ } => Err(WhyNot::ReferenceMissing),
        Resolution::Charged { reference: _, amount } if amount != Some(row.amount) => {
            Err(WhyNot::AmountDiffers)
        }
        Resolution::Charged { reference, amount: _ } => {
            let known = row.gateway_ref.as_deref();
            if known.is_some_and(|known| known != reference) {
                Err(WhyNot::ReferenceDiffers)
            } else if known.is_some() && said.charged_otherwise {
                // Nobody's word makes what was taken what was asked for (invariant M4).
                Err(WhyNot::AmountDiffers)
            } else {
                Ok(Status::Completed)
            }
        }
        Resolution::NotCharged if charge_is_on_record(row, said) => Err(WhyNot::ChargeOnRecord),
        Resolution::NotCharged if row.unanswered > 0 && !said.voided_here => Err(WhyNot::OpenSend),
        // Who wished to cancel is told that it worked.
        Resolution::NotCharged if row.cancel_wish_at.is_some() => Ok(Status::Cancelled),
        Resolution::NotCharged => Ok(Status::Failed),
    }
}

fn is_to_be_decided(row: &Payment, version: Option<i32>, lineage: Lineage) -> Result<(), WhyNot> {
    if row.status != Status::Parked {
        return Err(WhyNot::NotParked);
    }
    match lineage {
        Lineage::Quarantined => Err(WhyNot::Quarantined),
        Lineage::Released if version.is_some_and(|seen| seen != row.history_seq) => Err(WhyNot::Changed),
        Lineage::Released => Ok(()),
    }
}

fn charge_is_on_record(row: &Payment, said: &Said) -> bool {
    said.charged || said.reported || row.gateway_ref.is_some()
}

/// The effect of a granted re-drive to `to`.
///
/// One send is granted, not a new budget (rule R12): the count is lowered only as far as one more fits, and only
/// where the next charge is counted. The patience with a gateway that takes nothing starts anew.
///
/// # Errors
/// The row is not PARKED; it is unchanged.
pub fn apply_redrive(
    row: &mut Payment,
    key: KeyWanted,
    to: Status,
    now: DateTime<Utc>,
) -> Result<(), IllegalMove> {
    let to = advance(Some(row.status), Cause::Redriven, to)?;
    match key {
        KeyWanted::Same => {}
        KeyWanted::New => {
            row.epoch.0 += 1;
            row.unanswered = 0;
            row.epoch_first_sent_at = None;
            row.request_hash = None;
            row.gateway_account = None;
            row.renderer = None;
        }
    }
    let clean = to == Status::Pending;
    if clean {
        row.sends = row.sends.min(row.retry.max_sends - 1);
    }
    row.asks = if clean { 0 } else { row.asks.saturating_add(1) };
    (row.held_back, row.held_back_since) = (0, None);
    row.reason = Some(Reason::Redriven);
    row.next_attempt_at = now.max(row.due_at);
    moved(row, to, now);
    Ok(())
}

/// The effect of a granted resolution to `to`: nothing is open any more.
///
/// # Errors
/// The row is not PARKED; it is unchanged.
pub fn apply_resolve(
    row: &mut Payment,
    resolution: Resolution<'_>,
    to: Status,
    now: DateTime<Utc>,
) -> Result<(), IllegalMove> {
    let to = advance(Some(row.status), Cause::Resolved, to)?;
    row.reason = match to {
        Status::Failed => Some(Reason::ResolvedNotCharged),
        Status::Cancelled => Some(Reason::CancelledByClient),
        Status::Completed
        | Status::Pending
        | Status::Processing
        | Status::Unknown
        | Status::Parked
        | Status::Refunded => None,
    };
    match resolution {
        Resolution::Charged { reference, amount: _ } => row.gateway_ref = Some(reference.to_owned()),
        Resolution::NotCharged => {}
    }
    row.unanswered = 0;
    row.asks = 0;
    moved(row, to, now);
    Ok(())
}

fn moved(row: &mut Payment, to: Status, now: DateTime<Utc>) {
    row.status = to;
    row.last_moved_at = now;
    row.history_seq += 1;
}

/// An act that people may be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// Release it under the present key.
    Redrive,
    /// Release it under a new key.
    RedriveNewEpoch,
    /// End it as charged.
    ResolveCharged,
    /// End it as not charged.
    ResolveNotCharged,
}

impl Act {
    /// In the order in which they are shown.
    pub const ALL: [Self; 4] =
        [Self::Redrive, Self::RedriveNewEpoch, Self::ResolveCharged, Self::ResolveNotCharged];

    /// Its text on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::RedriveNewEpoch => "redrive_new_epoch",
            Self::ResolveCharged => "resolve_charged",
            Self::ResolveNotCharged => "resolve_not_charged",
        }
    }

    /// Whether it is possible now; charged is judged as if with a reference and amount that fit.
    ///
    /// # Errors
    /// [`WhyNot`], the first that applies.
    pub fn may(
        self,
        row: &Payment,
        said: &Said,
        lineage: Lineage,
        database_now: DateTime<Utc>,
    ) -> Result<Status, WhyNot> {
        match self {
            Self::Redrive => redrive(row, said, KeyWanted::Same, None, lineage, database_now),
            Self::RedriveNewEpoch => redrive(row, said, KeyWanted::New, None, lineage, database_now),
            Self::ResolveCharged => {
                let reference = row.gateway_ref.as_deref().unwrap_or("any");
                let charged = Resolution::Charged { reference, amount: Some(row.amount) };
                resolve(row, said, charged, None, lineage)
            }
            Self::ResolveNotCharged => resolve(row, said, Resolution::NotCharged, None, lineage),
        }
    }
}

#[cfg(test)]
#[path = "parked_tests.rs"]
mod tests;
