//! Forgeries about what comparisons with the gateway's reports found.

use super::*;
use crate::domain::matching::{Class, ItemStatus};
use crate::schedule::audit::DifferenceRow;

fn gateway(name: &str) -> GatewayName {
    GatewayName(name.into())
}

fn difference(field: &str) -> DifferenceRow {
    let (class, status) = (Class::MissingHere, ItemStatus::Open);
    DifferenceRow { payment: id(), gateway: gateway("sandbox"), class, field: field.into(), status }
}

/// The day of the charge and the next one are compared with this gateway's reports.
fn compared_at(name: &str) -> Records {
    let day = honest().ledger[1].at.date_naive();
    let days = [day, day.succ_opt().expect("a day")];
    Records { compared: days.map(|day| (gateway(name), day)).to_vec(), ..honest() }
}

fn compared() -> Records {
    compared_at("sandbox")
}

#[test]
fn a_charge_that_the_row_knows_needs_no_difference() {
    assert!(found(&compared(), Valid::True).contains("R1"));
    assert!(found(&honest(), Valid::Unknown).contains("R1"), "no day was compared");
    let halfway = Records { compared: compared().compared[..1].to_vec(), ..honest() };
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
fn what_another_gateway_reports_tells_nobody_of_a_charge() {
    let mut elsewhere = compared_at("elsewhere");
    elsewhere.payments[0].status = Status::Failed;
    let unknown = found(&elsewhere, Valid::Unknown);
    assert!(unknown.contains("R1"), "its own gateway's days were not compared: {unknown:?}");
    let mut failed = compared();
    failed.payments[0].status = Status::Failed;
    failed.differences.push(DifferenceRow { gateway: gateway("elsewhere"), ..difference("gateway") });
    let broken = found(&failed, Valid::False);
    assert!(broken.contains("R1") && broken.contains("M9"), "only the other one's was told: {broken:?}");
    failed.differences.push(difference("status"));
    let broken = found(&failed, Valid::False);
    assert!(!broken.contains("R1") && !broken.contains("M9"), "{broken:?}");
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
