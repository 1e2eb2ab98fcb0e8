//! The plans by name, and what a look-up and the gate make of them.

use super::decide_tests::{Cell, claimed, not_sent, now};
use super::plan::others_open;
use super::{AfterLookup, Plan, View, after_lookup, gate, parked, plan, with_request};
use crate::domain::decision::{Budget, EpochChange, SendsAnswered};
use crate::domain::lease::{Lease, Mono};
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::verdict::{Doubt, Lookup, NotSent, Verdict};
use chrono::TimeDelta;
use std::time::Duration;

#[test]
fn plans_by_name() {
    let expired = TimeDelta::hours(23);
    let moved = |row: &mut Payment| row.gateway_account = Some("another".into());
    let older = |row: &mut Payment| row.renderer = Some(0);
    let fresh = |row: &mut Payment| (row.gateway_account, row.renderer) = (None, None);
    for (name, cell, expect) in [
        ("first send", Cell::first().row(fresh), Plan::Charge),
        ("retry", Cell::first(), Plan::Charge),
        ("unknown, all answered since", Cell::again(0), Plan::LookUpThenCharge),
        ("unknown, all answered since, no look-up", Cell::again(0).without_lookup(), Plan::Charge),
        ("clean, wished", Cell::again(0).wished(), Plan::GiveBack(NotSent::CancelWished)),
        ("clean, late", Cell::first().past_deadline(), Plan::GiveBack(NotSent::DeadlinePassed)),
        ("clean, old key", Cell::first().key_aged(expired), Plan::GiveBack(NotSent::KeyExpired)),
        ("clean, other account", Cell::first().row(moved), Plan::Park(Reason::AccountChanged)),
        ("clean, other renderer", Cell::first().row(older), Plan::Park(Reason::AccountChanged)),
        ("open", Cell::again(1), Plan::LookUpThenCharge),
        ("open, wished", Cell::again(1).wished(), Plan::LookUpOnly),
        ("open, late", Cell::again(1).past_deadline(), Plan::LookUpOnly),
        ("open, old key", Cell::again(1).key_aged(expired), Plan::LookUpOnly),
        ("open, other renderer", Cell::again(1).row(older), Plan::LookUpOnly),
        ("open, other account", Cell::again(1).row(moved), Plan::Park(Reason::AccountChanged)),
        ("open, no look-up", Cell::again(1).without_lookup(), Plan::Charge),
        (
            "open, no look-up, wished",
            Cell::again(1).without_lookup().wished(),
            Plan::Park(Reason::OutcomeUnknown),
        ),
        (
            "open, no look-up, old key",
            Cell::again(1).without_lookup().key_aged(expired),
            Plan::Park(Reason::KeyExpiredUndecided),
        ),
        (
            "open, no look-up, other renderer",
            Cell::again(1).without_lookup().row(older),
            Plan::Park(Reason::AccountChanged),
        ),
    ] {
        assert_eq!(plan(&cell.view(), &cell.facts, now()), expect, "{name}");
    }
}

#[test]
fn other_bytes_are_never_sent_under_a_used_key() {
    let (same, other) = ([1; 32], [2; 32]);
    let hashed = |row: &mut Payment| row.request_hash = Some([1; 32]);
    for (cell, planned, hash, expect) in [
        (Cell::first(), Plan::Charge, other, Plan::Charge),
        (Cell::first().row(hashed), Plan::Charge, same, Plan::Charge),
        (Cell::first().row(hashed), Plan::Charge, other, Plan::Park(Reason::RequestChanged)),
        (Cell::again(1).row(hashed), Plan::LookUpThenCharge, same, Plan::LookUpThenCharge),
        (Cell::again(1).row(hashed), Plan::LookUpThenCharge, other, Plan::LookUpOnly),
        (Cell::again(1).row(hashed), Plan::LookUpOnly, other, Plan::LookUpOnly),
        (
            Cell::again(1).row(hashed).without_lookup(),
            Plan::Charge,
            other,
            Plan::Park(Reason::RequestChanged),
        ),
    ] {
        assert_eq!(with_request(planned, &cell.row, &cell.facts, &hash), expect);
    }
}

#[test]
fn not_found_permits_a_resend_only_where_it_was_planned() {
    let only_asked = |seconds: Option<u64>| {
        let retry_after = seconds.map(Duration::from_secs);
        AfterLookup::Settle(Verdict::NotSent { why: NotSent::OnlyAsked, retry_after })
    };
    let missing = |seconds: Option<u64>| Lookup::NotFound { visible_after: seconds.map(Duration::from_secs) };
    assert_eq!(after_lookup(Plan::LookUpThenCharge, missing(Some(60))), AfterLookup::Charge);
    assert_eq!(after_lookup(Plan::LookUpOnly, missing(Some(60))), only_asked(Some(60)));
    assert_eq!(after_lookup(Plan::LookUpOnly, missing(None)), only_asked(None));
    for plan in [Plan::LookUpThenCharge, Plan::LookUpOnly] {
        let down = Lookup::Unavailable { retry_after: Some(Duration::from_secs(7)) };
        assert_eq!(after_lookup(plan, down), only_asked(Some(7)));
        let claims_not_sent = Lookup::Found(not_sent(NotSent::Rejected));
        assert_eq!(after_lookup(plan, claims_not_sent), only_asked(None));
        let open = Verdict::Unknown(Doubt::ServerError);
        assert_eq!(after_lookup(plan, Lookup::Found(open.clone())), AfterLookup::Settle(open));
    }
}

#[test]
fn the_gate_closes_by_lease_key_age_and_deadline_whichever_comes_first() {
    let lease = Lease {
        length: Duration::from_secs(30),
        margin: Duration::from_secs(5),
        gateway_total: Duration::from_secs(20),
    };
    let asked_at = Mono(Duration::from_secs(1_000));
    let mut cell = Cell::again(1).key_aged(TimeDelta::hours(22));
    cell.row.execute_before = Some(now() + TimeDelta::minutes(90));
    let view = View { key_age: Some(Duration::from_secs(22 * 3_600)), ..cell.view() };
    let gate = gate(&view, asked_at, &lease, &cell.facts);
    assert_eq!(gate.send_before, Mono(Duration::from_secs(1_005)));
    assert_eq!(gate.not_before, cell.row.due_at);
    assert_eq!(gate.key_usable_until, Some(now() + TimeDelta::hours(1)));
    assert_eq!(gate.key_usable_until_mono, Some(Mono(Duration::from_secs(1_000 + 3_600))));
    assert_eq!(gate.execute_before, cell.row.execute_before);
    assert_eq!(gate.check(now(), asked_at), Ok(()));
    let hours = |n| now() + TimeDelta::hours(n);
    assert_eq!(gate.check(hours(1), asked_at), Err(NotSent::KeyExpired));
    assert_eq!(gate.check(now(), gate.send_before), Err(NotSent::LeaseTooShort));
    assert_eq!(
        gate.check(cell.row.due_at - TimeDelta::milliseconds(1), asked_at),
        Err(NotSent::HostClockEarly)
    );
}

#[test]
fn a_parked_claim_closes_only_its_own_send() {
    let decision = parked(Reason::CannotRender);
    assert_eq!(
        (decision.to, decision.answered, decision.epoch),
        (Status::Parked, SendsAnswered::Own, EpochChange::Same)
    );
    assert_eq!(decision.budget, Budget::Untouched);
    assert_eq!(others_open(&claimed(Status::Unknown, 2)), 2);
}
