//! What a person released: looked up before anything is sent, sent once, and as careful as ever (rule R16).

use super::decide_tests::{Cell, decline, not_sent, now};
use super::{Plan, plan};
use crate::domain::decision::{Budget, EpochChange, SendsAnswered};
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::verdict::{DeclineClass, NotSent};
use chrono::TimeDelta;

/// Released under a key that nobody used; the claim is its first.
fn unused() -> Cell {
    Cell::first().row(|row| (row.reason, row.sends) = (Some(Reason::Redriven), row.retry.max_sends))
}

/// Released with one send open.
fn open() -> Cell {
    Cell::again(1).row(|row| row.reason = Some(Reason::Redriven))
}

fn planned(cell: &Cell) -> Plan {
    plan(&cell.view(), &cell.facts, now())
}

#[test]
fn it_is_looked_up_first_wherever_it_stands() {
    assert_eq!(planned(&Cell::first()), Plan::Charge, "what nobody released is sent at once");
    assert_eq!(planned(&unused()), Plan::LookUpThenCharge);
    assert_eq!(planned(&open()), Plan::LookUpThenCharge);
    assert_eq!(planned(&unused().without_lookup()), Plan::Charge, "where nobody can be asked");
}

#[test]
fn past_deadline_wish_or_key_nothing_is_sent() {
    assert_eq!(planned(&unused().past_deadline()), Plan::GiveBack(NotSent::DeadlinePassed));
    assert_eq!(planned(&unused().wished()), Plan::GiveBack(NotSent::CancelWished));
    assert_eq!(planned(&open().past_deadline()), Plan::LookUpOnly);
    assert_eq!(planned(&open().wished()), Plan::LookUpOnly);
    let aged = open().key_aged(TimeDelta::hours(25));
    assert_eq!(planned(&aged), Plan::LookUpOnly);
    // And then it waits for a person again.
    let again = aged.gives(not_sent(NotSent::OnlyAsked));
    assert_eq!(
        again,
        (Status::Parked, Some(Reason::KeyExpiredUndecided), SendsAnswered::Own, EpochChange::Same)
    );
}

#[test]
fn a_look_up_that_fails_leaves_an_unused_key_unused_and_the_next_claim_looks_up_again() {
    let later = unused().decide(not_sent(NotSent::OnlyAsked));
    assert_eq!((later.to, later.reason), (Status::Pending, Some(Reason::Redriven)));
    assert_eq!((later.answered, later.budget), (SendsAnswered::Own, Budget::HandBack));
    for why in [NotSent::Refused, NotSent::Paced, NotSent::NotStarted, NotSent::BreakerOpen] {
        assert_eq!(unused().decide(not_sent(why)).reason, Some(Reason::Redriven), "{why:?}");
    }
    let spent = |row: &mut Payment| (row.held_back, row.held_back_since) = (49, Some(now()));
    assert_eq!(unused().row(spent).decide(not_sent(NotSent::OnlyAsked)).to, Status::Parked, "not for ever");
    // Under a key that was used, nothing found proves nothing.
    assert_eq!(open().decide(not_sent(NotSent::OnlyAsked)).to, Status::Unknown);
    let used = Cell::again(0).row(|row| row.reason = Some(Reason::Redriven));
    assert_eq!(used.decide(not_sent(NotSent::OnlyAsked)).to, Status::Unknown);
}

#[test]
fn the_granted_send_is_the_last_one() {
    let declined = unused().gives(decline(DeclineClass::Soft));
    assert_eq!(
        declined,
        (Status::Parked, Some(Reason::BudgetExhausted), SendsAnswered::All, EpochChange::Next)
    );
}
