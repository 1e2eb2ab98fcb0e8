//! Forgeries about what comparisons with the gateway's reports found.

use super::*;
use crate::domain::matching::{Class, ItemStatus};
use crate::schedule::audit::DifferenceRow;

fn difference(field: &str) -> DifferenceRow {
    DifferenceRow { payment: id(), class: Class::MissingHere, field: field.into(), status: ItemStatus::Open }
}

/// The day of the charge and the next one are compared.
fn compared() -> Records {
    let day = honest().ledger[1].at.date_naive();
    Records { compared: vec![day, day.succ_opt().expect("a day")], ..honest() }
}

#[test]
fn a_charge_that_the_row_knows_needs_no_difference() {
    assert!(found(&compared(), Valid::True).contains("R1"));
    assert!(found(&honest(), Valid::Unknown).contains("R1"), "no day was compared");
    let halfway = Records { compared: vec![compared().compared[0]], ..honest() };
    assert!(found(&halfway, Valid::Unknown).contains("R1"), "the next day's report may have it");
}

#[test]
fn a_charge_that_the_row_does_not_know_has_to_be_told_and_is_listed_then() {
    let mut failed = compared();
    failed.payments[0].status = Status::Failed;
    let broken = found(&failed, Valid::False);
    assert!(broken.contains("R1") && broken.contains("M9"), "{broken:?}");
    failed.differences.push(difference("status"));
    let broken = found(&failed, Valid::False);
    assert!(!broken.contains("R1") && !broken.contains("M9"), "{broken:?}");
    assert!(broken.contains("H6"), "it was charged all the same: {broken:?}");
}

#[test]
fn a_difference_that_calls_charged_what_was_not_is_a_false_alarm() {
    let mut declined = compared();
    declined.ledger.truncate(1);
    declined.differences.push(difference("status"));
    assert!(found(&declined, Valid::False).contains("R1"));
    declined.differences[0].field = "gateway".into();
    assert!(!found(&declined, Valid::False).contains("R1"));
}
