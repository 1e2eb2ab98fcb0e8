//! Voids by name: when one is planned, what its gate asks, and what its answers do.

use super::decide_tests::{Cell, charged, decline, not_sent, now};
use super::{Plan, gate, plan, void_gate, with_request};
use crate::domain::decision::EpochChange::Same;
use crate::domain::decision::SendsAnswered::{All, None as Nobody, Own};
use crate::domain::lease::{Lease, Mono};
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::Status::{Cancelled, Completed, Failed, Parked, Pending, Unknown};
use crate::domain::verdict::{DeclineClass, Doubt, NotSent, Verdict};
use chrono::TimeDelta;
use std::time::Duration;

#[test]
fn a_void_is_planned_for_an_open_key_that_no_charge_may_use_any_more() {
    let other = |row: &mut Payment| row.gateway_account = Some("another".into());
    let older = |row: &mut Payment| row.renderer = Some(0);
    let in_vain = |row: &mut Payment| row.reason = Some(Reason::VoidUnanswered);
    let (open, expired) = (|| Cell::again(1).voiding(), TimeDelta::hours(23));
    for (name, cell, expect) in [
        ("open", open(), Plan::LookUpThenCharge),
        ("open, no look-up", open().without_lookup(), Plan::Charge),
        ("wished", open().wished(), Plan::Void),
        ("wished, voided in vain", open().wished().row(in_vain), Plan::LookUpOnly),
        ("late, voided in vain", open().past_deadline().row(in_vain), Plan::LookUpOnly),
        ("wished, voided in vain, no look-up", open().wished().without_lookup().row(in_vain), Plan::Void),
        ("wished, no look-up", open().wished().without_lookup(), Plan::Void),
        ("late", open().past_deadline(), Plan::Void),
        ("late, no look-up", open().past_deadline().without_lookup(), Plan::Void),
        ("wished, other renderer", open().wished().row(older), Plan::Void),
        ("wished, other account", open().wished().row(other), Plan::Park(Reason::AccountChanged)),
        ("wished, old key", open().wished().key_aged(expired), Plan::LookUpOnly),
        (
            "wished, old key, no look-up",
            open().wished().key_aged(expired).without_lookup(),
            Plan::Park(Reason::OutcomeUnknown),
        ),
        ("late, old key", open().past_deadline().key_aged(expired), Plan::LookUpOnly),
        ("clean, wished", Cell::again(0).voiding().wished(), Plan::GiveBack(NotSent::CancelWished)),
        ("clean, late", Cell::first().voiding().past_deadline(), Plan::GiveBack(NotSent::DeadlinePassed)),
    ] {
        assert_eq!(plan(&cell.view(), &cell.facts, now()), expect, "{name}");
    }
    let edge = TimeDelta::hours(23) - TimeDelta::microseconds(1);
    let last = open().wished().key_aged(edge);
    assert_eq!(plan(&last.view(), &last.facts, now()), Plan::Void, "to the last instant of the key");
    assert_eq!(with_request(Plan::Void, &last.row, &last.facts, &[9; 32]), Plan::Void, "it has no bytes");
}

#[test]
fn the_gate_of_a_void_is_a_send_s_without_the_deadline() {
    let cell = Cell::again(1).voiding().past_deadline();
    let seconds = Duration::from_secs;
    let lease = Lease { length: seconds(30), margin: seconds(5), gateway_total: seconds(20) };
    let (view, asked_at) = (cell.view(), Mono(seconds(1_000)));
    let (send, void) =
        (gate(&view, asked_at, &lease, &cell.facts), void_gate(&view, asked_at, &lease, &cell.facts));
    assert_eq!(send.check(now(), asked_at), Err(NotSent::DeadlinePassed));
    assert_eq!(void.check(now(), asked_at), Ok(()));
    assert_eq!(void.check(now() + TimeDelta::hours(23), asked_at), Err(NotSent::KeyExpired));
    assert_eq!(void.check(now(), send.send_before), Err(NotSent::LeaseTooShort));
    let early = cell.row.due_at - TimeDelta::milliseconds(1);
    assert_eq!(void.check(early, asked_at), Err(NotSent::HostClockEarly));
}

#[test]
fn a_void_s_answer_ends_the_payment_as_what_it_says() {
    let wished = || Cell::again(2).voiding().wished().by_void();
    let late = || Cell::again(2).voiding().past_deadline().by_void();
    assert_eq!(wished().gives(Verdict::Voided), (Cancelled, Some(Reason::VoidProven), All, Same));
    assert_eq!(late().gives(Verdict::Voided), (Failed, Some(Reason::DeadlinePassed), All, Same));
    for cell in [wished(), late()] {
        assert_eq!(cell.gives(charged(&cell.row)), (Completed, None, All, Same));
    }
    // Refused for good, by a gateway that keeps its refusals, or about the only send there ever was.
    let hard = (Failed, Some(Reason::DeclinedHard), All, Same);
    assert_eq!(wished().replays().gives(decline(DeclineClass::Hard)), hard);
    let only = Cell::again(1).voiding().wished().by_void().row(|row| row.attempt = 2);
    assert_eq!(only.gives(decline(DeclineClass::Hard)), hard);
    let soft = (Cancelled, Some(Reason::CancelledByClient), All, Same);
    assert_eq!(wished().replays().gives(decline(DeclineClass::Soft)), soft);
    let unproven = (Parked, Some(Reason::UnprovenDecline), Own, Same);
    assert_eq!(wished().gives(decline(DeclineClass::Soft)), unproven, "it may speak of one send alone");
}

#[test]
fn a_void_that_decides_nothing_is_asked_again_until_the_key_s_life_ends() {
    let wished = || Cell::again(2).voiding().wished().by_void().without_lookup();
    for verdict in [
        Verdict::Unknown(Doubt::TimedOut),
        Verdict::Unknown(Doubt::ServerError),
        Verdict::Unknown(Doubt::Unreadable),
    ] {
        let again = wished().decide(verdict.clone());
        assert_eq!(wished().gives(verdict.clone()), (Unknown, Some(Reason::VoidUnanswered), Own, Same));
        assert_eq!(again.next_attempt_at, Some(now() + TimeDelta::seconds(30)), "the re-ask ladder");
        let over = wished().key_aged(TimeDelta::hours(24));
        assert_eq!(over.gives(verdict.clone()), (Parked, Some(Reason::KeyExpiredUndecided), Own, Same));
        let unusable = wished().key_aged(TimeDelta::hours(23));
        assert_eq!(unusable.gives(verdict), (Parked, Some(Reason::OutcomeUnknown), Own, Same), "no question");
    }
    let in_use = (Unknown, Some(Reason::InProgressAtGateway), Own, Same);
    assert_eq!(wished().gives(Verdict::InProgress { retry_after: None }), in_use);
    let pending = Verdict::PendingAtGateway { reference: None };
    assert_eq!(wished().gives(pending), (Unknown, Some(Reason::PendingAtGateway), Own, Same));
    for why in [NotSent::Refused, NotSent::RateLimited, NotSent::NotAuthorised, NotSent::LeaseTooShort] {
        assert_eq!(wished().gives(not_sent(why)), (Unknown, Some(Reason::VoidUnanswered), Own, Same));
    }
    let expired = not_sent(NotSent::KeyExpired);
    assert_eq!(wished().gives(expired.clone()), (Parked, Some(Reason::KeyExpiredUndecided), Own, Same));
    let looked = Cell::again(2).voiding().wished().by_void();
    assert_eq!(looked.gives(expired), (Unknown, Some(Reason::OutcomeUnknown), Own, Same));
}

#[test]
fn where_no_look_up_asks_a_void_is_the_question_of_a_charge_without_an_answer_too() {
    let timed_out = || Verdict::Unknown(Doubt::TimedOut);
    let late = || Cell::again(1).without_lookup().past_deadline();
    assert_eq!(late().gives(timed_out()).0, Parked);
    assert_eq!(late().voiding().gives(timed_out()), (Unknown, Some(Reason::OutcomeUnknown), Nobody, Same));
    let stopped = not_sent(NotSent::DeadlinePassed);
    assert_eq!(late().gives(stopped.clone()).0, Parked);
    assert_eq!(late().voiding().gives(stopped), (Unknown, Some(Reason::OutcomeUnknown), Own, Same));
    let pending = || Verdict::PendingAtGateway { reference: None };
    assert_eq!(late().gives(pending()).0, Parked);
    assert_eq!(late().voiding().gives(pending()).0, Unknown);
    assert_eq!(Cell::again(0).voiding().gives(not_sent(NotSent::Refused)).0, Pending, "nobody wants a void");
}
