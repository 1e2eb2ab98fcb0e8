//! A void and a recorded wish beside the honest record: what they change of the promises, and what not.

use super::super::records::Requested;
use super::{Forge, after, attempt, claim, found, honest, id, line, operation};
use crate::audit::{LedgerLine, Op, Records, Valid};
use crate::domain::state::Status;
use std::collections::BTreeSet;

/// A void of the first epoch's key under its claim, which brings no amount.
fn void(at_ms: i64) -> LedgerLine {
    LedgerLine {
        at: after(at_ms),
        amount: None,
        currency: None,
        payee: None,
        request: Requested::Void,
        ..line(1, &id().to_string(), "voided")
    }
}

/// The honest record with a void of the same claim, and a charge that its tombstone refused long after
/// the payment had ended.
fn voided() -> Records {
    let mut records = honest();
    records.history[2].row.to = Status::Cancelled;
    records.ledger.truncate(1);
    records.ledger.push(void(1_030));
    records.attempts.truncate(1);
    records.ledger.push(LedgerLine {
        at: after(1_700),
        claim_id: Some(claim(1)),
        ..line(1, &id().to_string(), "tombstoned")
    });
    records
}

fn breaks(forge: Forge) -> BTreeSet<&'static str> {
    let mut records = voided();
    forge(&mut records);
    found(&records, Valid::False)
}

#[test]
fn a_void_is_no_second_charge_request_and_what_a_tombstone_refuses_may_come_late() {
    let broken = breaks(|records| drop(records.ledger.pop()));
    for number in ["M2", "M3", "M4", "M5", "M6", "M8"] {
        assert!(!broken.contains(number), "{number} of {broken:?}");
    }
    let late = breaks(|_| {});
    assert!(!late.contains("M8"), "a refused charge comes late: {late:?}");
    let charged = breaks(|records| records.ledger[2].verdict = "declined".into());
    assert!(charged.contains("M8"), "one that was not refused: {charged:?}");
    assert!(charged.contains("M6"), "and two requests of one claim: {charged:?}");
}

#[test]
fn a_void_needs_its_claim_its_key_and_a_key_that_may_be_sent() {
    for (number, forge) in [
        ("M2", (|records| records.ledger[1].claim_id = Some(claim(9))) as Forge),
        ("M3", |records| records.ledger[1].at = after(-1)),
        ("M5", |records| records.ledger[1].key = Some(format!("{}:1", id()))),
        // The key was opened at 1 s, may be sent for 90 s, and a call lasts 2 s.
        ("M5", |records| records.ledger[1].at = after(93_100)),
    ] {
        let broken = breaks(forge);
        assert!(broken.contains(number), "{number} of {broken:?}");
    }
}

#[test]
fn a_recorded_wish_promises_no_outcome_and_forbids_charges_of_later_claims() {
    let wished = |at_ms| {
        let mut records = honest();
        records.operations.push(operation(Op::Cancel, "shop", at_ms, 202));
        found(&records, Valid::False)
    };
    let between_claim_and_settle = wished(2_010);
    assert!(!between_claim_and_settle.contains("M7"), "{between_claim_and_settle:?}");
    assert!(!between_claim_and_settle.contains("A1"), "{between_claim_and_settle:?}");
    assert!(wished(1_500).contains("A1"), "the second claim came later, and charged");
    let mut asked = honest();
    asked.operations.push(operation(Op::Cancel, "shop", 1_500, 202));
    asked.attempts[1] =
        crate::schedule::audit::AttemptRow { how: Some("void".into()), ..attempt(2, 1, "charged") };
    assert!(!found(&asked, Valid::False).contains("A1"), "a later claim may void and ask");
}
