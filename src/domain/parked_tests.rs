//! The guards and effects of people's acts, case by case; `tests/it/operations/guards.rs` holds the SQL equal.

use super::*;
use crate::domain::guard_cases::payment;
use crate::domain::ids::Epoch;
use crate::domain::invariants::row_faults;
use crate::domain::money::{Currency, Minor};
use chrono::TimeDelta;
use std::collections::BTreeSet;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_960_020, 0).expect("in range")
}

/// Parked, nothing ever sent under its key.
fn unused() -> Payment {
    payment(now(), 1, Status::Parked)
}

/// Parked, its key used, every send answered.
fn answered() -> Payment {
    Payment { epoch_first_sent_at: Some(now() - TimeDelta::hours(2)), ..unused() }
}

/// Parked with a send that nobody answered.
fn open() -> Payment {
    Payment { unanswered: 1, ..answered() }
}

const NOTHING: Said = Said {
    charged: false,
    declined_for_good: false,
    declined_here: false,
    voided_here: false,
    charged_otherwise: false,
    reported: false,
};
const DECLINED: Said = Said { declined_here: true, ..NOTHING };
const VOIDED: Said = Said { voided_here: true, ..NOTHING };
const FOR_GOOD: Said = Said { declined_for_good: true, declined_here: true, ..NOTHING };
const CHARGED: Said = Said { charged: true, ..NOTHING };
const REPORTED: Said = Said { reported: true, ..NOTHING };
const OTHERWISE: Said = Said { charged_otherwise: true, ..CHARGED };

fn released(row: &Payment, said: Said, key: KeyWanted) -> Result<Status, WhyNot> {
    redrive(row, &said, key, None, Lineage::Released, now())
}

#[test]
fn only_a_key_under_which_nothing_was_sent_leads_to_pending() {
    for (row, said, to) in [
        (unused(), NOTHING, Ok(Status::Pending)),
        // The decline was of an earlier key.
        (unused(), Said { declined_here: false, ..NOTHING }, Ok(Status::Pending)),
        (answered(), DECLINED, Ok(Status::Unknown)),
        (answered(), NOTHING, Ok(Status::Unknown)),
        (open(), NOTHING, Ok(Status::Unknown)),
        (open(), DECLINED, Ok(Status::Unknown)),
        (open(), VOIDED, Ok(Status::Unknown)),
    ] {
        assert_eq!(released(&row, said, KeyWanted::Same), to, "{row:?} {said:?}");
    }
}

#[test]
fn a_new_key_needs_every_send_answered_and_one_answer_that_proves() {
    for (row, said, to) in [
        (answered(), DECLINED, Ok(Status::Pending)),
        (answered(), VOIDED, Ok(Status::Pending)),
        // A tombstone answers for the sends that are still under way.
        (open(), VOIDED, Ok(Status::Pending)),
        (open(), DECLINED, Err(WhyNot::OpenSend)),
        (open(), NOTHING, Err(WhyNot::OpenSend)),
        (unused(), NOTHING, Err(WhyNot::KeyUnused)),
        (answered(), NOTHING, Err(WhyNot::NotProven)),
    ] {
        assert_eq!(released(&row, said, KeyWanted::New), to, "{row:?} {said:?}");
    }
    let wished = Payment { cancel_wish_at: Some(now()), ..answered() };
    assert_eq!(released(&wished, DECLINED, KeyWanted::New), Err(WhyNot::NoChargeWanted));
    let passed = Payment { execute_before: Some(now()), ..answered() };
    assert_eq!(released(&passed, DECLINED, KeyWanted::New), Err(WhyNot::NoChargeWanted));
    let in_time = Payment { execute_before: Some(now() + TimeDelta::microseconds(1)), ..answered() };
    assert_eq!(released(&in_time, DECLINED, KeyWanted::New), Ok(Status::Pending));
    // Under the same key both are left to the claim, which asks and ends, and never charges.
    for row in [wished, passed] {
        assert_eq!(released(&row, DECLINED, KeyWanted::Same), Ok(Status::Unknown));
    }
}

#[test]
fn what_was_charged_or_declined_for_good_is_never_released() {
    for key in [KeyWanted::Same, KeyWanted::New] {
        for row in [unused(), answered(), open()] {
            assert_eq!(released(&row, CHARGED, key), Err(WhyNot::ChargeOnRecord));
            assert_eq!(released(&row, REPORTED, key), Err(WhyNot::ChargeOnRecord));
            let known = Payment { gateway_ref: Some("ch_1".into()), ..row.clone() };
            assert_eq!(released(&known, NOTHING, key), Err(WhyNot::ChargeOnRecord));
            assert_eq!(released(&row, FOR_GOOD, key), Err(WhyNot::DeclinedForGood));
        }
    }
}

#[test]
fn only_what_is_parked_now_in_a_released_database_and_as_it_was_seen_is_decided() {
    for status in Status::ALL.into_iter().filter(|status| *status != Status::Parked) {
        let row = payment(now(), 1, status);
        assert_eq!(released(&row, NOTHING, KeyWanted::Same), Err(WhyNot::NotParked), "{status:?}");
        let resolved = resolve(&row, &NOTHING, Resolution::NotCharged, None, Lineage::Released);
        assert_eq!(resolved, Err(WhyNot::NotParked), "{status:?}");
    }
    let row = unused();
    let at = |version, lineage| redrive(&row, &NOTHING, KeyWanted::Same, version, lineage, now());
    assert_eq!(at(None, Lineage::Quarantined), Err(WhyNot::Quarantined));
    assert_eq!(at(Some(row.history_seq - 1), Lineage::Released), Err(WhyNot::Changed));
    assert_eq!(at(Some(row.history_seq), Lineage::Released), Ok(Status::Pending));
    let stale = resolve(&row, &NOTHING, Resolution::NotCharged, Some(0), Lineage::Released);
    assert_eq!(stale, Err(WhyNot::Changed));
}

fn money(minor: i64, currency: &str) -> Option<Money> {
    Some(Money { minor: Minor::new(minor)?, currency: Currency::from_code(currency)? })
}

fn resolved(row: &Payment, said: Said, resolution: Resolution<'_>) -> Result<Status, WhyNot> {
    resolve(row, &said, resolution, None, Lineage::Released)
}

#[test]
fn charged_needs_the_reference_and_exactly_what_was_asked_for() {
    let charged = |reference, amount| Resolution::Charged { reference, amount };
    for (reference, amount, to) in [
        ("ch_1", money(12_345, "EUR"), Ok(Status::Completed)),
        ("", money(12_345, "EUR"), Err(WhyNot::ReferenceMissing)),
        ("ch_1", money(12_346, "EUR"), Err(WhyNot::AmountDiffers)),
        ("ch_1", money(12_345, "USD"), Err(WhyNot::AmountDiffers)),
        ("ch_1", None, Err(WhyNot::AmountDiffers)),
    ] {
        for (row, said) in [(unused(), NOTHING), (open(), DECLINED), (answered(), CHARGED)] {
            assert_eq!(resolved(&row, said, charged(reference, amount)), to, "{reference} {amount:?}");
        }
    }
    let known = Payment { gateway_ref: Some("ch_2".into()), ..open() };
    assert_eq!(
        resolved(&known, NOTHING, charged("ch_1", money(12_345, "EUR"))),
        Err(WhyNot::ReferenceDiffers)
    );
    assert_eq!(resolved(&known, NOTHING, charged("ch_2", money(12_345, "EUR"))), Ok(Status::Completed));
}

#[test]
fn a_charge_of_another_amount_is_neither_resolved_nor_released_whatever_is_said_of_it() {
    let known = Payment { gateway_ref: Some("ch_1".into()), ..open() };
    for (reference, amount, why) in [
        ("ch_1", money(12_345, "EUR"), WhyNot::AmountDiffers),
        ("ch_1", money(12_346, "EUR"), WhyNot::AmountDiffers),
        ("ch_2", money(12_345, "EUR"), WhyNot::ReferenceDiffers),
    ] {
        let resolution = Resolution::Charged { reference, amount };
        assert_eq!(resolved(&known, OTHERWISE, resolution), Err(why), "{reference} {amount:?}");
    }
    assert_eq!(resolved(&known, OTHERWISE, Resolution::NotCharged), Err(WhyNot::ChargeOnRecord));
    for key in [KeyWanted::Same, KeyWanted::New] {
        assert_eq!(released(&known, OTHERWISE, key), Err(WhyNot::ChargeOnRecord));
    }
}

#[test]
fn not_charged_is_refused_while_an_answer_or_a_report_says_charged_or_a_send_is_open() {
    for (row, said, to) in [
        (unused(), NOTHING, Ok(Status::Failed)),
        (answered(), FOR_GOOD, Ok(Status::Failed)),
        (open(), VOIDED, Ok(Status::Failed)),
        (open(), DECLINED, Err(WhyNot::OpenSend)),
        (open(), FOR_GOOD, Err(WhyNot::OpenSend)),
        (answered(), CHARGED, Err(WhyNot::ChargeOnRecord)),
        (unused(), REPORTED, Err(WhyNot::ChargeOnRecord)),
        (Payment { gateway_ref: Some("ch_1".into()), ..unused() }, NOTHING, Err(WhyNot::ChargeOnRecord)),
        (Payment { cancel_wish_at: Some(now()), ..unused() }, NOTHING, Ok(Status::Cancelled)),
    ] {
        assert_eq!(resolved(&row, said, Resolution::NotCharged), to, "{row:?} {said:?}");
    }
}

#[test]
fn a_redrive_grants_one_send_and_no_new_budget() {
    for (sends, left) in [(0, 0), (1, 1), (5, 5), (6, 5)] {
        let mut row = Payment { sends, attempt: 9, held_back: 50, held_back_since: Some(now()), ..unused() };
        apply_redrive(&mut row, KeyWanted::Same, Status::Pending, now()).expect("legal");
        assert_eq!((row.status, row.sends, row.asks), (Status::Pending, left, 0));
        assert_eq!((row.held_back, row.held_back_since), (0, None));
        assert_eq!((row.reason, row.next_attempt_at), (Some(Reason::Redriven), now()));
        assert_eq!(row_faults(&row), []);
    }
    // A question about an unknown outcome spends none, so none is granted for it.
    let mut row = Payment { sends: 6, attempt: 9, ..open() };
    apply_redrive(&mut row, KeyWanted::Same, Status::Unknown, now()).expect("legal");
    assert_eq!((row.sends, row.asks, row.unanswered, row.epoch), (6, 1, 1, Epoch(0)));
    assert_eq!(row_faults(&row), []);
}

#[test]
fn a_new_key_starts_with_nothing_and_is_due_at_once_but_never_before_its_time() {
    let mut row = Payment { request_hash: Some([7; 32]), ..open() };
    row.due_at = now() + TimeDelta::minutes(1);
    apply_redrive(&mut row, KeyWanted::New, Status::Pending, now()).expect("legal");
    assert_eq!((row.epoch, row.unanswered, row.epoch_first_sent_at), (Epoch(1), 0, None));
    assert_eq!((row.request_hash, row.gateway_account, row.renderer), (None, None, None));
    assert_eq!(row.next_attempt_at, row.due_at);
}

#[test]
fn a_resolution_leaves_nothing_open() {
    for (resolution, to, reason) in [
        (Resolution::Charged { reference: "ch_1", amount: None }, Status::Completed, None),
        (Resolution::NotCharged, Status::Failed, Some(Reason::ResolvedNotCharged)),
        (Resolution::NotCharged, Status::Cancelled, Some(Reason::CancelledByClient)),
    ] {
        let mut row = open();
        apply_resolve(&mut row, resolution, to, now()).expect("legal");
        assert_eq!((row.status, row.reason, row.unanswered, row.history_seq), (to, reason, 0, 6));
        assert_eq!(row.gateway_ref.is_some(), to == Status::Completed);
        assert_eq!(row_faults(&row), []);
    }
}

#[test]
fn an_effect_on_what_is_not_parked_is_refused_and_changes_nothing() {
    for status in Status::ALL.into_iter().filter(|status| *status != Status::Parked) {
        let mut row = payment(now(), 1, status);
        let before = row.clone();
        assert!(apply_redrive(&mut row, KeyWanted::Same, Status::Pending, now()).is_err());
        assert!(apply_resolve(&mut row, Resolution::NotCharged, Status::Failed, now()).is_err());
        assert_eq!(row, before);
    }
}

#[test]
fn what_is_offered_is_what_the_guards_say() {
    let offers = |row: &Payment, said: Said| {
        let may = |act: Act| act.may(row, &said, Lineage::Released, now()).map_err(WhyNot::as_str);
        Act::ALL.map(may)
    };
    assert_eq!(
        offers(&open(), NOTHING),
        [Ok(Status::Unknown), Err("open_send"), Ok(Status::Completed), Err("open_send")]
    );
    let known = Payment { gateway_ref: Some("ch_1".into()), ..open() };
    assert_eq!(
        offers(&known, CHARGED),
        [Err("charge_on_record"), Err("charge_on_record"), Ok(Status::Completed), Err("charge_on_record")]
    );
    assert_eq!(
        offers(&known, OTHERWISE),
        [Err("charge_on_record"), Err("charge_on_record"), Err("amount_differs"), Err("charge_on_record")]
    );
}

#[test]
fn texts_are_distinct_read_back_and_explained() {
    let texts: BTreeSet<_> = WhyNot::ALL.iter().map(|why| why.as_str()).collect();
    assert_eq!(texts.len(), WhyNot::ALL.len());
    for why in WhyNot::ALL {
        assert_eq!(WhyNot::from_text(why.as_str()), Some(*why));
        assert!(why.explanation().ends_with('.'));
    }
    assert_eq!(WhyNot::from_text("done"), None);
}
