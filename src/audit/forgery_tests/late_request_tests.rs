//! The late request of a worker that was frozen past its lease: harmless where its claim was open when the
//! payment ended, and a broken promise in every other case.

use super::*;

/// The second claim was made before the first one's outcome ended the payment, and its request came later.
fn frozen(end: Status) -> Records {
    let mut records = honest();
    records.history[2].row.to = end;
    records.attempts[1].claimed_at = after(1_400);
    records
}

#[test]
fn a_frozen_worker_s_late_request_is_held_against_nobody_unless_it_charges_what_has_failed() {
    assert!(!found(&frozen(Status::Parked), Valid::False).contains("M8"));
    let mut failed = frozen(Status::Failed);
    assert!(found(&failed, Valid::False).contains("M8"), "it charged");
    failed.ledger[1].charged = false;
    assert!(!found(&failed, Valid::False).contains("M8"));
}

#[test]
fn a_claim_that_had_ended_or_came_later_excuses_no_request() {
    for change in [
        (|r| r.attempts[1].settled_at = Some(after(1_450))) as fn(&mut Records),
        |r| r.attempts[1].claimed_at = after(1_600),
        |r| r.ledger[1].claim_id = Some(claim(9)),
    ] {
        let mut records = frozen(Status::Parked);
        change(&mut records);
        assert!(found(&records, Valid::False).contains("M8"));
    }
}

#[test]
fn after_a_hard_decline_only_a_frozen_worker_s_request_that_charges_nothing_is_excused() {
    let mut records = honest();
    records.attempts[0].code = Some("stolen_card".into());
    records.attempts[1].claimed_at = after(1_040);
    assert!(found(&records, Valid::False).contains("H9"), "it charged");
    records.ledger[1].charged = false;
    assert!(!found(&records, Valid::False).contains("H9"));
    records.attempts[1].claimed_at = after(2_000);
    assert!(found(&records, Valid::False).contains("H9"), "a claim after the decline");
}
