//! Forgeries about refunds.

use super::super::records::{Requested, Taken};
use super::*;
use crate::domain::refund::{RefundId, RefundStatus};
use crate::schedule::audit::{RefundClaim, RefundRow};

fn refund(number: u8) -> RefundId {
    RefundId(Uuid::from_u128(0xF0_00 + u128::from(number)))
}

fn row(number: u8, amount: i64, status: RefundStatus) -> RefundRow {
    let claim = RefundClaim { claim_id: claim(number), fence: 1, claimed_at: after(20_000) };
    RefundRow {
        id: refund(number),
        payment: id(),
        reference: "ch_2".into(),
        amount,
        currency: "EUR".into(),
        status,
        finished_at: Some(after(20_020)),
        is_shown: false,
        claims: vec![claim],
    }
}

fn given(number: u8, amount: i64, verdict: &str) -> LedgerLine {
    LedgerLine {
        at: after(20_010),
        fence: Some(1),
        due_at: None,
        amount: Some(amount),
        payee: None,
        charged: false,
        request: Requested::Refund,
        charge: Some("ch_2".into()),
        ..line(number, &refund(number).to_string(), verdict)
    }
}

/// Given back in two parts, and a third part declined.
fn given_back() -> Records {
    let mut records = honest();
    for (number, amount, status, verdict) in [
        (11, 1_000, RefundStatus::Refunded, "refunded"),
        (12, 250, RefundStatus::Refunded, "refunded"),
        (13, 1, RefundStatus::Declined, "declined"),
    ] {
        records.refunds.push(row(number, amount, status));
        records.ledger.push(given(number, amount, verdict));
    }
    records
}

#[test]
fn refunds_that_were_allowed_break_no_promise_and_are_looked_at() {
    assert_eq!(found(&given_back(), Valid::False), BTreeSet::new());
    assert!(found(&given_back(), Valid::True).contains("M10"));
    assert!(found(&honest(), Valid::Unknown).contains("M10"));
}

#[test]
fn every_forged_refund_is_found() {
    let forgeries: &[(&str, Forge)] = &[
        ("one more line of the same refund", |r| r.ledger.push(given(11, 1_000, "refunded"))),
        ("nobody asked for it", |r| drop(r.refunds.remove(0))),
        ("no claim made it", |r| r.refunds[0].claims.clear()),
        ("another fence", |r| r.ledger[2].fence = Some(2)),
        ("before its claim", |r| r.ledger[2].at = after(19_999)),
        ("another amount", |r| r.ledger[2].amount = Some(999)),
        ("another currency", |r| r.ledger[2].currency = Some("USD".into())),
        ("another charge", |r| r.ledger[2].charge = Some("ch_1".into())),
        ("more than was charged", |r| {
            r.refunds.push(row(14, 1, RefundStatus::Refunded));
            r.ledger.push(given(14, 1, "refunded"));
        }),
        ("called done and not done", |r| r.ledger[2].verdict = "declined".into()),
        ("called declined and done", |r| r.refunds[0].status = RefundStatus::Declined),
        ("called rejected and done", |r| r.refunds[0].status = RefundStatus::Rejected),
    ];
    for (what, forge) in forgeries {
        let mut records = given_back();
        forge(&mut records);
        assert_eq!(found(&records, Valid::False), BTreeSet::from(["M10"]), "{what}");
    }
}

#[test]
fn a_charge_is_given_back_up_to_what_it_took_whatever_was_asked() {
    for (amount, broken) in [(1_249, true), (1_250, false), (1_300, false)] {
        let mut records = given_back();
        records.ledger[1].taken = Some(Box::new(Taken { amount, currency: "EUR".into() }));
        let wanted = if broken { BTreeSet::from(["M10"]) } else { BTreeSet::new() };
        assert_eq!(found(&records, Valid::False), wanted, "{amount}");
    }
    let mut records = given_back();
    records.ledger[1].taken = Some(Box::new(Taken { amount: 1_251, currency: "EUR".into() }));
    for number in [14, 15] {
        assert_eq!(found(&records, Valid::False), BTreeSet::new(), "{number}");
        records.refunds.push(row(number, 1, RefundStatus::Refunded));
        records.ledger.push(given(number, 1, "refunded"));
    }
    assert_eq!(found(&records, Valid::False), BTreeSet::from(["M10"]), "one more than it took");
}

#[test]
fn of_two_charges_of_one_payment_neither_is_given_back_beyond_the_larger_one() {
    let mut records = given_back();
    let mut less = line(9, &id().to_string(), "charged");
    less.taken = Some(Box::new(Taken { amount: 1_000, currency: "EUR".into() }));
    records.ledger.push(less);
    assert!(!found(&records, Valid::False).contains("M10"), "what came back is the other one's");
    records.refunds.push(row(14, 1, RefundStatus::Refunded));
    records.ledger.push(given(14, 1, "refunded"));
    assert!(found(&records, Valid::False).contains("M10"), "more than either took");
}

#[test]
fn a_part_that_came_back_while_it_was_read_is_not_held_against_anybody() {
    let mut records = given_back();
    records.ledger.truncate(3);
    assert_eq!(found(&records, Valid::False), BTreeSet::from(["M10"]));
    // The second part ended after the ledger was read, and the payment has not moved since it was completed.
    records.ledger_read_at = Some(after(20_015));
    records.refunds[0].finished_at = Some(after(20_012));
    assert_eq!(found(&records, Valid::False), BTreeSet::new());
}

/// The first part as a restore left it and a line of the report ended it: nobody knows any more who sent it.
fn shown_by_a_report() -> Records {
    let mut records = given_back();
    records.refunds[0].is_shown = true;
    records.refunds[0].claims.clear();
    records
}

#[test]
fn what_a_report_showed_needs_no_claim_that_a_restore_lost() {
    let records = shown_by_a_report();
    assert_eq!(found(&records, Valid::False), BTreeSet::new());
    // Put on record under a key of its own: somebody gave it back in the gateway's dashboard.
    let mut records = shown_by_a_report();
    records.ledger[2].key = None;
    assert_eq!(found(&records, Valid::False), BTreeSet::new());
    // Both parts.
    (records.refunds[1].is_shown, records.ledger[3].key) = (true, None);
    assert_eq!(found(&records, Valid::False), BTreeSet::new());
    let forgeries: &[(&str, Forge)] = &[
        ("nobody put it on record", |r| r.refunds[0].is_shown = false),
        ("sent after it was over", |r| r.ledger[2].at = after(20_021)),
        ("another amount", |r| r.ledger[2].amount = Some(999)),
        ("another charge", |r| r.ledger[2].charge = Some("ch_1".into())),
        ("given back again", |r| r.ledger.push(given(11, 1_000, "refunded"))),
        ("never given back", |r| drop(r.ledger.remove(2))),
        ("once more under no key", |r| {
            r.ledger.push(LedgerLine { key: None, ..given(11, 1, "refunded") });
        }),
    ];
    for (what, forge) in forgeries {
        let mut records = shown_by_a_report();
        forge(&mut records);
        assert_eq!(found(&records, Valid::False), BTreeSet::from(["M10"]), "{what}");
    }
}
