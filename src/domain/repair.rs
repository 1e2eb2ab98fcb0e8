//! What a settlement line may do to a payment of ours: the guard of `repair_item()`.
//!
//! **Promises**: [`repair`] is that function's guard, in the same order; a test runs both over the same rows. COMPLETED
//! means one charge of what was asked for, under a name that pays for nothing else: a line that says anything less
//! parks what is open, and only keeps its name where the payment has ended, so that people can give the money
//! back. What a bank calls its entry is evidence and nobody's name of a charge: it is held against none and kept as
//! none. A payment that a client was told had failed or was cancelled is completed by two people, never by a
//! program. Nor is what a line of an earlier key shows, while a send under the present one has no answer: that may be a
//! second charge. Such a payment is held at once, since asked about on it could be sent again.
//!
//! Quarantine does not matter here: this is the way out of it (rule R17).

use super::ids::Epoch;
use super::money::Money;
use super::payment::Payment;
use super::reason::Reason;
use super::state::{Cause, Status};
use super::texts::texts;

texts! { Power, "How far whoever asks for a repair may go.":
    Safe = "safe": "An unknown outcome is completed by a line that fits, and so is what was parked because a restore had lost its charge; what is pending and charged is parked; a refund ends by the line that bears its key.",
    Automatic = "automatic": "Besides, parked payments are completed, and unknown ones parked by a line that does not fit.",
    Person = "person": "Everything; what had failed or was cancelled with a second person.",
}

texts! { NotRepaired, "Why a line repairs nothing.":
    NoSuchItem = "no_such_item": "There is no difference of this number.",
    NotOpen = "not_open": "It is closed already, or the report of its line does not count any more.",
    NothingToRepair = "nothing_to_repair": "No line of its kind repairs a payment: look, act elsewhere, and dismiss it.",
    NoSuchPayment = "no_such_payment": "There is no payment of this id, or its day was archived.",
    Changed = "changed": "Something was written about the payment since it was looked at.",
    OtherGateway = "other_gateway": "The payment belongs to another gateway.",
    InFlight = "in_flight": "A worker holds it, or the payment that took its external id: try again in a minute.",
    ReferenceMissing = "reference_missing": "The line does not name the charge, or names one that is not on record.",
    ReferenceTaken = "reference_taken": "The charge of this name pays for another payment.",
    AboveCharge = "above_charge": "In sum more than was charged would be given back: end first what is still asked for or allowed of it.",
    OnRecord = "on_record": "The charge is on record by its name; it can be refunded, and nothing else moves.",
    NeedsPerson = "needs_person": "A person has to order it.",
    NeedsApproval = "needs_approval": "A second person has to approve it.",
}

/// What a line says, and what else is known of the charge that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge<'a> {
    /// Our rule's name of the gateway is the payment's.
    pub same_gateway: bool,
    /// Its name; empty: the line has none.
    pub reference: &'a str,
    /// That name is the gateway's own, and not one that a bank gave its entry.
    pub has_own_name: bool,
    /// Of which key it says that it was charged.
    pub epoch: Epoch,
    /// What was taken; `None`: a currency that we know nothing of, or not above zero.
    pub amount: Option<Money>,
    /// It is the only charge that the report has of this payment.
    pub is_only: bool,
    /// It pays for another payment.
    pub is_anothers: bool,
    /// It is on record as a charge of this payment.
    pub is_on_record: bool,
    /// It is on record with another amount than was asked for; a bank's entry is the charge that we know.
    pub is_on_record_otherwise: bool,
}

/// Who stands behind an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// A program, within these bounds; never [`Power::Person`].
    Program(Power),
    /// One person.
    OnePerson,
    /// Two.
    TwoPeople,
}

/// What a repair does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// The payment moves.
    Move(Cause, Status),
    /// The charge's name is kept, so that it can be given back; the payment stays where it is.
    Record,
}

/// May `charge` repair `row`, and how? `version` is the one that the asker saw, if that matters. Who holds the external
/// id of a payment that had ended is asked by the statement alone.
///
/// # Errors
/// [`NotRepaired`], the first that applies.
pub fn repair(
    row: &Payment,
    charge: &Charge<'_>,
    behind: Behind,
    version: Option<i32>,
) -> Result<Repair, NotRepaired> {
    if version.is_some_and(|seen| seen != row.history_seq) {
        return Err(NotRepaired::Changed);
    } else if !charge.same_gateway {
        return Err(NotRepaired::OtherGateway);
    } else if row.status == Status::Processing {
        return Err(NotRepaired::InFlight);
    } else if row.status == Status::Pending {
        // What is charged is not charged once more, under whichever name or none: to hold it needs none.
        return Ok(Repair::Move(Cause::Reconciled, Status::Parked));
    } else if charge.has_own_name && charge.reference.is_empty() {
        return Err(NotRepaired::ReferenceMissing);
    } else if charge.has_own_name && charge.is_anothers {
        return Err(NotRepaired::ReferenceTaken);
    }
    let fits = fits(row, charge);
    let is_of_earlier_key = is_of_earlier_key(row, charge);
    let wanted = match row.status {
        Status::Unknown if fits && !is_of_earlier_key => Repair::Move(Cause::Reconciled, Status::Completed),
        Status::Unknown => Repair::Move(Cause::Reconciled, Status::Parked),
        Status::Parked if fits => Repair::Move(Cause::Reconciled, Status::Completed),
        Status::Failed | Status::Cancelled if fits => Repair::Move(Cause::Repaired, Status::Completed),
        Status::Parked
        | Status::Failed
        | Status::Cancelled
        | Status::Completed
        | Status::Refunded
        // Both are answered above.
        | Status::Pending
        | Status::Processing => Repair::Record,
    };
    match wanted {
        // There is no name to keep.
        Repair::Record if !charge.has_own_name => Err(NotRepaired::NothingToRepair),
        Repair::Record if charge.is_on_record => Err(NotRepaired::OnRecord),
        Repair::Record => Ok(wanted),
        Repair::Move(Cause::Repaired, _) => match behind {
            Behind::Program(_) => Err(NotRepaired::NeedsPerson),
            Behind::OnePerson => Err(NotRepaired::NeedsApproval),
            Behind::TwoPeople => Ok(wanted),
        },
        Repair::Move(_, to) => match behind {
            Behind::Program(_) if row.status == Status::Parked && is_of_earlier_key => {
                Err(NotRepaired::NeedsPerson)
            }
            // Asked about on, it could be sent again under the later key.
            Behind::Program(Power::Safe)
                if (row.status, to) == (Status::Unknown, Status::Parked) && !is_of_earlier_key =>
            {
                Err(NotRepaired::NeedsPerson)
            }
            // Nobody decided that one: it is held because this charge was found before it was claimed.
            Behind::Program(Power::Safe)
                if row.status == Status::Parked && row.reason != Some(Reason::ChargedBefore) =>
            {
                Err(NotRepaired::NeedsPerson)
            }
            Behind::Program(_) | Behind::OnePerson | Behind::TwoPeople => Ok(wanted),
        },
    }
}

/// One charge, of what was asked for, and of no other name than the one that we know.
fn fits(row: &Payment, charge: &Charge<'_>) -> bool {
    charge.is_only
        && charge.amount == Some(row.amount)
        && (!charge.has_own_name || row.gateway_ref.as_deref().is_none_or(|known| known == charge.reference))
        && !charge.is_on_record_otherwise
}

/// A later key was taken because the gateway had said that nothing was charged under this one (rule R4), and what was
/// sent under the later one has no answer yet. An intent succeeds once, and a bank's key has no epoch.
fn is_of_earlier_key(row: &Payment, charge: &Charge<'_>) -> bool {
    charge.has_own_name && charge.epoch < row.epoch && row.unanswered > 0 && row.intent_ref.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::repair_cases::cases;
    use chrono::{DateTime, Utc};

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_960_020, 0).expect("in range")
    }

    #[test]
    fn every_case_of_the_table_holds() {
        for case in cases(now()) {
            let got = repair(&case.row, &case.charge(), case.behind, case.version);
            assert_eq!(got, case.expect, "{}", case.name);
        }
    }

    #[test]
    fn every_move_of_a_repair_is_legal_and_the_table_knows_every_state() {
        let cases = cases(now());
        let names: std::collections::BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            assert_eq!(crate::domain::invariants::row_faults(&case.row), Vec::new(), "{}", case.name);
            if let Ok(Repair::Move(cause, to)) = case.expect {
                let moved = crate::domain::state::advance(Some(case.row.status), cause, to);
                assert_eq!(moved, Ok(to), "{}", case.name);
            }
        }
        for status in Status::ALL {
            assert!(cases.iter().any(|case| case.row.status == status), "{status:?}");
        }
    }

    #[test]
    fn nothing_but_two_people_completes_what_a_client_was_told_had_ended() {
        for case in cases(now()) {
            if let Ok(Repair::Move(Cause::Repaired, _)) = case.expect {
                assert_eq!(case.behind, Behind::TwoPeople, "{}", case.name);
            }
        }
    }
}
