//! The cells of the decision table by name: one row a situation that somebody thought about.

use super::{View, decide};
use crate::domain::decision::{Budget, Decision, EpochChange, SendsAnswered};
use crate::domain::declines::{DeclineCaps, DeclineCounts};
use crate::domain::facts::{Declines, Facts, LookupSupport, VoidSupport};
use crate::domain::guard_cases::payment;
use crate::domain::payment::{OnExhausted, OnSoftDecline, Payment};
use crate::domain::reason::Reason;
use crate::domain::retry::{Ladders, PerMille};
use crate::domain::state::{Cause, Status};
use crate::domain::verdict::{Decline, DeclineClass, Doubt, NotSent, Verdict};
use crate::schedule::{Answer, How};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

pub(super) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_960_020, 0).expect("in range")
}

pub(super) fn facts() -> Facts {
    Facts {
        account: "sandbox-1".into(),
        renderer: 1,
        key_ttl: Duration::from_secs(86_400),
        key_margin: Duration::from_secs(3_600),
        declines: Declines::Forgotten,
        lookup: LookupSupport::ByKey,
        voids: VoidSupport::None,
        async_final_within: Some(Duration::from_secs(7_200)),
        caps: DeclineCaps::default(),
    }
}

/// A row right after a claim from `was`, with `others` more sends open.
pub(super) fn claimed(was: Status, others: i32) -> Payment {
    let mut row = payment(now(), 1, Status::Processing);
    row.unanswered = others + 1;
    row.attempt = 3;
    row.asks = i16::from(was == Status::Unknown);
    row.epoch_first_sent_at = Some(now() - TimeDelta::minutes(10));
    row
}

pub(super) fn decline(class: DeclineClass) -> Verdict {
    let code = "code".into();
    Verdict::Declined(Decline { class, code, network_code: None, reference: None, retry_after: None })
}

pub(super) fn not_sent(why: NotSent) -> Verdict {
    Verdict::NotSent { why, retry_after: None }
}

pub(super) fn charged(row: &Payment) -> Verdict {
    Verdict::Charged { reference: "ch_1".into(), amount: row.amount }
}

/// A situation that starts from a typical one.
pub(super) struct Cell {
    pub(super) row: Payment,
    was: Status,
    /// As a claim from PENDING finds it, unless said otherwise: none.
    key_age: Option<Duration>,
    declines: DeclineCounts,
    how: How,
    pub(super) facts: Facts,
}

impl Cell {
    pub(super) fn first() -> Self {
        let (row, declines) = (claimed(Status::Pending, 0), DeclineCounts::default());
        Self { row, was: Status::Pending, key_age: None, declines, how: How::Sent, facts: facts() }
    }

    pub(super) fn again(others: i32) -> Self {
        let (row, key_age) = (claimed(Status::Unknown, others), Some(Duration::from_secs(600)));
        let (declines, how) = (DeclineCounts::default(), How::Sent);
        Self { row, was: Status::Unknown, key_age, declines, how, facts: facts() }
    }

    fn looked_up(mut self) -> Self {
        self.how = How::LookedUp;
        self
    }

    /// Come by as the answer to a void.
    pub(super) fn by_void(mut self) -> Self {
        self.how = How::Voided;
        self
    }

    /// At a gateway that voids by key.
    pub(super) fn voiding(mut self) -> Self {
        self.facts.voids = VoidSupport::ByKey;
        self
    }

    pub(super) fn replays(mut self) -> Self {
        self.facts.declines = Declines::Replayed;
        self
    }

    pub(super) fn without_lookup(mut self) -> Self {
        self.facts.lookup = LookupSupport::None;
        self
    }

    pub(super) fn row(mut self, change: impl FnOnce(&mut Payment)) -> Self {
        change(&mut self.row);
        self
    }

    pub(super) fn wished(self) -> Self {
        self.row(|row| row.cancel_wish_at = Some(now() - TimeDelta::minutes(1)))
    }

    pub(super) fn past_deadline(self) -> Self {
        self.row(|row| row.execute_before = Some(now() - TimeDelta::minutes(1)))
    }

    pub(super) fn key_aged(self, age: TimeDelta) -> Self {
        self.row(|row| row.epoch_first_sent_at = Some(now() - age))
    }

    pub(super) fn view(&self) -> View<'_> {
        View { payment: &self.row, was: self.was, key_age: self.key_age, declines: self.declines }
    }

    pub(super) fn decide(&self, verdict: Verdict) -> Decision {
        let answer = Answer::silent(verdict, self.how);
        decide(&self.view(), &answer, &self.facts, &Ladders::default(), now(), PerMille(0))
    }

    /// The decision in the four words that matter.
    pub(super) fn gives(&self, verdict: Verdict) -> (Status, Option<Reason>, SendsAnswered, EpochChange) {
        let decision = self.decide(verdict);
        assert_eq!(decision.cause, Cause::Settled);
        (decision.to, decision.reason, decision.answered, decision.epoch)
    }
}

use DeclineClass::{Ambiguous, Hard, NeedsCustomer, Soft, Unmapped};
use EpochChange::{Next, Same};
use SendsAnswered::{All, None as Nobody, Own};
use Status::{Cancelled, Completed, Failed, Parked, Pending, Unknown};

#[test]
fn a_charge_as_asked_completes_from_everywhere() {
    for cell in [
        Cell::first(),
        Cell::again(3),
        Cell::again(1).looked_up(),
        Cell::first().past_deadline(),
        Cell::again(1).wished(),
        Cell::again(1).key_aged(TimeDelta::days(3)),
    ] {
        assert_eq!(cell.gives(charged(&cell.row)), (Completed, None, All, Same));
        assert_eq!(cell.decide(charged(&cell.row)).gateway_ref.as_deref(), Some("ch_1"));
    }
}

#[test]
fn a_charge_not_as_asked_parks_with_its_reference_and_writes_no_send_off() {
    let mut other = Cell::first();
    let asked = charged(&other.row);
    other.row.amount.minor = crate::domain::money::Minor::new(1).expect("positive");
    let mut currency = Cell::first();
    currency.row.amount.currency = crate::domain::money::Currency::from_code("USD").expect("in the table");
    let second = Cell::again(1).row(|row| row.gateway_ref = Some("ch_0".into()));
    for cell in [other, currency, second] {
        assert_eq!(cell.gives(asked.clone()), (Parked, Some(Reason::ContractViolation), Nobody, Same));
        assert_eq!(cell.decide(asked.clone()).gateway_ref.as_deref(), Some("ch_1"));
    }
}

#[test]
fn a_proven_final_decline_fails() {
    for (class, reason) in [
        (Hard, Reason::DeclinedHard),
        (NeedsCustomer, Reason::DeclinedNeedsCustomer),
        (Unmapped, Reason::DeclinedUnmapped),
    ] {
        for cell in [
            Cell::first(),
            Cell::again(0),
            Cell::again(2).replays(),
            Cell::again(2).replays().looked_up(),
            Cell::again(1).looked_up().row(|row| row.attempt = 2),
        ] {
            assert_eq!(cell.gives(decline(class)), (Failed, Some(reason), All, Same));
        }
    }
}

#[test]
fn a_decline_beside_an_open_send_parks_where_the_gateway_forgets_declines() {
    for class in [Hard, NeedsCustomer, Soft, Ambiguous, Unmapped] {
        for cell in [
            Cell::again(1),
            Cell::again(1).looked_up(),
            Cell::again(1).row(|row| row.attempt = 2),
            Cell::again(2).looked_up().row(|row| row.attempt = 2),
            Cell::again(1).replays().key_aged(TimeDelta::hours(23)),
            Cell::again(1).wished(),
            Cell::again(1).past_deadline(),
        ] {
            assert_eq!(cell.gives(decline(class)), (Parked, Some(Reason::UnprovenDecline), Own, Same));
        }
    }
}

#[test]
fn a_soft_decline_takes_the_next_key_and_the_next_rung() {
    for (sends, seconds) in [(1, 60), (2, 300), (5, 43_200)] {
        let cell = Cell::first().row(|row| (row.sends, row.attempt) = (sends, 9));
        let decision = cell.decide(decline(Soft));
        assert_eq!(cell.gives(decline(Soft)), (Pending, Some(Reason::DeclinedSoft), All, Next));
        assert_eq!(decision.next_attempt_at, Some(now() + TimeDelta::seconds(seconds)));
        assert_eq!(decision.budget, Budget::Keep);
    }
    let reopened = (Pending, Some(Reason::DeclinedSoft), All, Next);
    assert_eq!(Cell::again(2).replays().gives(decline(Soft)), reopened);
    let advised = Verdict::Declined(Decline {
        class: Soft,
        code: "try_later".into(),
        network_code: None,
        reference: None,
        retry_after: Some(Duration::from_secs(900)),
    });
    assert_eq!(Cell::first().decide(advised).next_attempt_at, Some(now() + TimeDelta::seconds(900)));
}

#[test]
fn a_soft_decline_ends_where_policy_budget_deadline_or_wish_say_so() {
    let spent = || Cell::first().row(|row| (row.sends, row.attempt) = (6, 9));
    for (cell, expect) in [
        (
            Cell::first().row(|row| row.retry.on_soft_decline = OnSoftDecline::Fail),
            (Failed, Some(Reason::DeclinedSoft), All, Same),
        ),
        (spent(), (Parked, Some(Reason::BudgetExhausted), All, Next)),
        (
            spent().row(|row| row.retry.on_exhausted = OnExhausted::Fail),
            (Failed, Some(Reason::BudgetExhausted), All, Same),
        ),
        (Cell::first().past_deadline(), (Failed, Some(Reason::DeadlinePassed), All, Same)),
        (Cell::first().wished(), (Cancelled, Some(Reason::CancelledByClient), All, Same)),
    ] {
        assert_eq!(cell.gives(decline(Soft)), expect);
    }
}

#[test]
fn a_destination_that_was_declined_often_enough_gets_no_further_try() {
    let capped = |cell: Cell, day, thirty_days| {
        let mut cell = cell.row(|row| (row.sends, row.attempt) = (1, 9));
        cell.facts.caps = DeclineCaps { per_day: 3, per_30_days: 5 };
        cell.declines = DeclineCounts { day, thirty_days };
        cell
    };
    let too_often = (Failed, Some(Reason::DeclinedTooOften), All, Same);
    for (class, again) in [(Soft, Reason::DeclinedSoft), (Ambiguous, Reason::DeclinedAmbiguous)] {
        assert_eq!(capped(Cell::first(), 2, 2).gives(decline(class)), too_often, "the third of a day");
        assert_eq!(capped(Cell::first(), 0, 4).gives(decline(class)), too_often, "the fifth of 30 days");
        assert_eq!(capped(Cell::first(), 1, 3).gives(decline(class)), (Pending, Some(again), All, Next));
    }
    // R8: without the proof a person looks, however often it was declined.
    let unproven = (Parked, Some(Reason::UnprovenDecline), Own, Same);
    assert_eq!(capped(Cell::again(1), 2, 2).gives(decline(Soft)), unproven);
    assert_eq!(capped(Cell::again(1).replays(), 2, 2).gives(decline(Soft)), too_often);
    // What ends anyway ends for its own reason.
    assert_eq!(
        capped(Cell::first(), 9, 9).gives(decline(Hard)),
        (Failed, Some(Reason::DeclinedHard), All, Same)
    );
    let wished = (Cancelled, Some(Reason::CancelledByClient), All, Same);
    assert_eq!(capped(Cell::first().wished(), 9, 9).gives(decline(Soft)), wished);
    // A spent budget would park, and a person could let it go on.
    let spent = capped(Cell::first(), 9, 9).row(|row| row.sends = 6);
    assert_eq!(spent.gives(decline(Soft)), too_often);
}

#[test]
fn an_ambiguous_decline_gets_one_more_try() {
    let sent = |sends| Cell::first().row(|row| row.sends = sends).gives(decline(Ambiguous));
    assert_eq!(sent(1), (Pending, Some(Reason::DeclinedAmbiguous), All, Next));
    assert_eq!(sent(2), (Failed, Some(Reason::DeclinedAmbiguous), All, Same));
    let single = Cell::first().row(|row| row.retry.max_sends = 1);
    assert_eq!(single.gives(decline(Ambiguous)), (Parked, Some(Reason::BudgetExhausted), All, Next));
}

#[test]
fn what_the_gateway_did_not_take_is_handed_back() {
    for (why, reason) in [
        (NotSent::Dns, Reason::GatewayUnreachable),
        (NotSent::Refused, Reason::GatewayUnreachable),
        (NotSent::Tls, Reason::GatewayUnreachable),
        (NotSent::BreakerOpen, Reason::GatewayUnreachable),
        (NotSent::NotAuthorised, Reason::GatewayRefusedUs),
        (NotSent::RateLimited, Reason::GatewayRateLimited),
        (NotSent::Paced, Reason::GatewayRateLimited),
    ] {
        assert_eq!(Cell::first().gives(not_sent(why)), (Pending, Some(reason), Own, Same));
        let open = (Unknown, Some(Reason::OutcomeUnknown), Own, Same);
        assert_eq!(Cell::again(1).gives(not_sent(why)), open, "open sends keep it unknown");
        assert_eq!(Cell::first().decide(not_sent(why)).budget, Budget::HandBack);
        assert_eq!(Cell::again(1).decide(not_sent(why)).budget, Budget::HandBack);
        let long = |row: &mut Payment| (row.held_back, row.held_back_since) = (49, Some(now()));
        for cell in [Cell::first().row(long), Cell::again(1).row(long)] {
            assert_eq!(cell.gives(not_sent(why)), (Parked, Some(Reason::HeldBackTooLong), Own, Same));
        }
        let day = |row: &mut Payment| {
            (row.held_back, row.held_back_since) = (2, Some(now() - TimeDelta::hours(24)));
        };
        assert_eq!(Cell::first().row(day).decide(not_sent(why)).to, Parked);
    }
    let asked = Verdict::NotSent { why: NotSent::RateLimited, retry_after: Some(Duration::from_secs(40)) };
    assert_eq!(Cell::first().decide(asked).next_attempt_at, Some(now() + TimeDelta::seconds(40)));
}

#[test]
fn what_we_did_not_send_ourselves_counts_nothing() {
    for why in [NotSent::NotStarted, NotSent::LeaseTooShort, NotSent::HostClockEarly, NotSent::Killed] {
        let long = |row: &mut Payment| (row.held_back, row.held_back_since) = (49, Some(now()));
        let decision = Cell::first().row(long).decide(not_sent(why));
        assert_eq!((decision.to, decision.budget), (Pending, Budget::Untouched), "{why:?}");
        let expect = (Unknown, Some(Reason::OutcomeUnknown), Own, Same);
        assert_eq!(Cell::again(1).gives(not_sent(why)), expect, "{why:?}");
    }
}

#[test]
fn a_clean_payment_ends_by_wish_or_deadline_whatever_kept_it_from_being_sent() {
    for why in [NotSent::Refused, NotSent::NotStarted, NotSent::Killed, NotSent::KeyExpired] {
        let wished = (Cancelled, Some(Reason::CancelledByClient), All, Same);
        assert_eq!(Cell::again(0).wished().gives(not_sent(why)), wished);
        let late = (Failed, Some(Reason::DeadlinePassed), All, Same);
        assert_eq!(Cell::first().past_deadline().gives(not_sent(why)), late);
    }
}

#[test]
fn an_unknown_payment_proven_clean_with_its_budget_spent_does_not_get_another_send() {
    let spent = |row: &mut Payment| (row.sends, row.attempt) = (6, 9);
    let park = (Parked, Some(Reason::BudgetExhausted), Own, Same);
    assert_eq!(Cell::again(0).row(spent).gives(not_sent(NotSent::Refused)), park);
    let fails = Cell::again(0).row(spent).row(|row| row.retry.on_exhausted = OnExhausted::Fail);
    let fail = (Failed, Some(Reason::BudgetExhausted), All, Same);
    assert_eq!(fails.gives(not_sent(NotSent::Refused)), fail);
    assert_eq!(Cell::again(0).gives(not_sent(NotSent::Refused)).0, Pending, "budget left");
}

#[test]
fn the_check_right_before_the_write_ends_clean_payments_and_asks_about_open_ones() {
    let ask = (Unknown, Some(Reason::OutcomeUnknown), Own, Same);
    for (why, clean, without_lookup) in [
        (NotSent::DeadlinePassed, (Failed, Some(Reason::DeadlinePassed), All, Same), Reason::OutcomeUnknown),
        (
            NotSent::CancelWished,
            (Cancelled, Some(Reason::CancelledByClient), All, Same),
            Reason::OutcomeUnknown,
        ),
        (NotSent::KeyExpired, (Pending, Some(Reason::NotSent), Own, Same), Reason::KeyExpiredUndecided),
    ] {
        assert_eq!(Cell::first().gives(not_sent(why)), clean);
        assert_eq!(Cell::again(1).gives(not_sent(why)), ask, "{why:?}");
        let parks = (Parked, Some(without_lookup), Own, Same);
        assert_eq!(Cell::again(1).without_lookup().gives(not_sent(why)), parks);
    }
    // Every send was answered, but the key was used: its age does not start anew.
    let aged = not_sent(NotSent::KeyExpired);
    assert_eq!(Cell::again(0).gives(aged.clone()), (Unknown, Some(Reason::OutcomeUnknown), Nobody, Same));
    let parks = (Parked, Some(Reason::KeyExpiredUndecided), Own, Same);
    assert_eq!(Cell::again(0).without_lookup().gives(aged), parks);
    let rejected = (Parked, Some(Reason::GatewayRejected), Own, Same);
    assert_eq!(Cell::first().gives(not_sent(NotSent::Rejected)), rejected);
    assert_eq!(Cell::again(1).gives(not_sent(NotSent::Rejected)), rejected);
}

#[test]
fn a_look_up_that_did_not_decide_asks_on_and_never_calls_the_payment_clean() {
    let asked = || not_sent(NotSent::OnlyAsked);
    let on = (Unknown, Some(Reason::OutcomeUnknown), Own, Same);
    assert_eq!(Cell::again(1).looked_up().gives(asked()), on);
    assert_eq!(
        Cell::again(0).looked_up().gives(asked()),
        (Unknown, Some(Reason::OutcomeUnknown), Nobody, Same)
    );
    let aged = |hours| Cell::again(1).looked_up().key_aged(TimeDelta::hours(hours)).gives(asked());
    assert_eq!(aged(23), on, "the margin is for look-ups");
    assert_eq!(aged(24), (Parked, Some(Reason::KeyExpiredUndecided), Own, Same));
}

#[test]
fn a_send_without_a_trustworthy_answer_stays_open_on_the_re_ask_ladder() {
    for doubt in [
        Doubt::TimedOut,
        Doubt::ConnectionLost,
        Doubt::ServerError,
        Doubt::Unreadable,
        Doubt::NotTheGateway,
        Doubt::LeaseExpired,
    ] {
        let expect = (Unknown, Some(Reason::OutcomeUnknown), Nobody, Same);
        assert_eq!(Cell::first().gives(Verdict::Unknown(doubt)), expect);
        assert_eq!(Cell::again(2).gives(Verdict::Unknown(doubt)), expect);
        let first = Cell::first().decide(Verdict::Unknown(doubt));
        assert_eq!(first.next_attempt_at, Some(now() + TimeDelta::seconds(5)));
        let fourth = Cell::again(1).row(|row| row.asks = 3).decide(Verdict::Unknown(doubt));
        assert_eq!(fourth.next_attempt_at, Some(now() + TimeDelta::seconds(600)));
    }
    let looked = Cell::again(1).looked_up();
    let expect = (Unknown, Some(Reason::OutcomeUnknown), Own, Same);
    assert_eq!(looked.gives(Verdict::Unknown(Doubt::ServerError)), expect, "a look-up sends nothing");
    let last = Cell::again(0).looked_up();
    let expect = (Unknown, Some(Reason::OutcomeUnknown), Nobody, Same);
    assert_eq!(last.gives(Verdict::Unknown(Doubt::ServerError)), expect, "the last one is never closed");
    let expect = (Parked, Some(Reason::OutcomeUnknown), Nobody, Same);
    for cell in [Cell::first().without_lookup().past_deadline(), Cell::again(1).without_lookup().wished()] {
        assert_eq!(cell.gives(Verdict::Unknown(Doubt::TimedOut)), expect, "nothing can ask any more");
    }
}

#[test]
fn our_key_with_other_bytes_parks() {
    let expect = (Parked, Some(Reason::RequestChanged), Nobody, Same);
    assert_eq!(Cell::first().gives(Verdict::Unknown(Doubt::KeyMismatch)), expect);
}

#[test]
fn in_progress_is_asked_again_no_sooner_than_told() {
    let told = Verdict::InProgress { retry_after: Some(Duration::from_secs(90)) };
    let expect = (Unknown, Some(Reason::InProgressAtGateway), Nobody, Same);
    assert_eq!(Cell::again(1).gives(told.clone()), expect);
    assert_eq!(Cell::again(1).decide(told).next_attempt_at, Some(now() + TimeDelta::seconds(90)));
    let looked = (Unknown, Some(Reason::InProgressAtGateway), Own, Same);
    assert_eq!(Cell::again(1).looked_up().gives(Verdict::InProgress { retry_after: None }), looked);
}

#[test]
fn a_charge_pending_at_the_gateway_is_asked_about_until_it_promised_to_know() {
    let pending = || Verdict::PendingAtGateway { reference: Some("pi_1".into()) };
    let on = (Unknown, Some(Reason::PendingAtGateway), Nobody, Same);
    assert_eq!(Cell::first().gives(pending()), on);
    assert_eq!(Cell::first().decide(pending()).gateway_ref, None, "no charge yet");
    let aged = |hours| Cell::again(1).looked_up().key_aged(TimeDelta::hours(hours));
    assert_eq!(aged(1).gives(pending()), (Unknown, Some(Reason::PendingAtGateway), Own, Same));
    assert_eq!(aged(2).gives(pending()), (Parked, Some(Reason::UnknownTooLong), Own, Same));
    let mut days = aged(30).row(|row| row.reason = Some(Reason::PendingAtGateway));
    days.facts.async_final_within = Some(Duration::from_secs(5 * 86_400));
    assert_eq!(days.gives(pending()).0, Unknown, "longer than the key lives");
    let missed = days.gives(not_sent(NotSent::OnlyAsked));
    assert_eq!(
        missed,
        (Unknown, Some(Reason::PendingAtGateway), Own, Same),
        "one failed look-up does not park"
    );
}

#[test]
fn an_answer_that_cannot_be_true_parks() {
    let what = || Verdict::ContractViolation { what: "2xx without an amount".into() };
    assert_eq!(Cell::first().gives(what()), (Parked, Some(Reason::ContractViolation), Nobody, Same));
    let looked = (Parked, Some(Reason::ContractViolation), Own, Same);
    assert_eq!(Cell::again(1).looked_up().gives(what()), looked);
}

#[test]
fn a_tombstone_cancels_only_what_was_wished_to_be_cancelled() {
    let voided = || Verdict::Voided;
    assert_eq!(Cell::again(2).wished().gives(voided()), (Cancelled, Some(Reason::VoidProven), All, Same));
    let late = (Failed, Some(Reason::DeadlinePassed), All, Same);
    assert_eq!(Cell::again(2).past_deadline().gives(voided()), late);
    assert_eq!(Cell::again(2).gives(voided()), (Parked, Some(Reason::VoidProven), Own, Same));
}
