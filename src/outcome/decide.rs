//! What an answer does to its payment: one decision for every verdict in every context.
//!
//! `answered` and `to` are chosen together, by what is *proven*:
//!
//! | the answer came by | this claim's own send | the other open sends |
//! |---|---|---|
//! | a decline, sent | answered by it | answered too if the gateway replays declines |
//! | a decline, looked up | never sent | the same; or if there was one send ever, it is that one's |
//! | a charge | answered | answered: what arrives later collapses on the charge |
//! | not sent | never sent | open |
//! | a tombstone | answered | answered: what arrives later is refused |
//! | anything to a void that does not decide | never sent | open |
//! | anything looked up that does not decide | never sent | open |
//! | anything sent that does not decide | open | open |
//!
//! `All` is used only where the key is left behind (a final state, or a new epoch). While a key stays
//! in use, a late answer of an older claim may still lower the count, and must not find it lowered
//! for it already.

use super::plan::{
    View, deadline_passed, key_is_usable, key_life_left, may_charge, may_void, others_open, time_delta,
};
use crate::domain::decision::{Budget, Decision, EpochChange, SendsAnswered};
use crate::domain::declines::DeclineCounts;
use crate::domain::facts::{Declines, Facts, LookupSupport, VoidSupport};
use crate::domain::money::Money;
use crate::domain::payment::{OnExhausted, OnSoftDecline, Payment};
use crate::domain::reason::Reason;
use crate::domain::retry::{Ladders, PerMille, next_at};
use crate::domain::state::{Cause, Status};
use crate::domain::verdict::{Decline, DeclineClass, Doubt, NotSent, Verdict};
use crate::platform::faults::{Sabotage, sabotaged};
use crate::schedule::{Answer, How};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// A decline may close sends that are still under way only while the key outlives them (rule R4).
const KEY_LIFE_TO_CLOSE_OPEN_SENDS: TimeDelta = TimeDelta::hours(1);

/// Decides what one answer does. `now` is aligned to the database's clock; `jitter` is chance.
#[must_use]
pub fn decide(
    view: &View<'_>,
    answer: &Answer,
    facts: &Facts,
    ladders: &Ladders,
    now: DateTime<Utc>,
    jitter: PerMille,
) -> Decision {
    let opened_key = view.key_age.is_none();
    let View { payment: row, was, declines, .. } = *view;
    let case = Case { row, was, opened_key, declines, how: answer.how, facts, ladders, now, jitter };
    match &answer.verdict {
        Verdict::Charged { reference, amount } => case.charged(reference, *amount),
        Verdict::Declined(decline) => case.declined(decline),
        Verdict::NotSent { why, retry_after } => case.not_sent(*why, *retry_after),
        Verdict::InProgress { retry_after } => case.ask_again(Reason::InProgressAtGateway, *retry_after),
        Verdict::PendingAtGateway { reference: _ } => case.pending(),
        Verdict::Unknown(_) if sabotaged(Sabotage::UnknownIsFailed) => {
            end(Status::Failed, Reason::OutcomeUnknown)
        }
        Verdict::Unknown(_) if sabotaged(Sabotage::EpochAfterUnknown) => {
            case.declined_for_now(Reason::OutcomeUnknown, None)
        }
        Verdict::Unknown(doubt) => case.unknown(*doubt),
        Verdict::ContractViolation { what: _ } => park(Reason::ContractViolation, case.own_undecided()),
        Verdict::Voided => case.voided(),
    }
}

/// The decision of [`super::Plan::Park`], and of a request that cannot be rendered: nothing was sent
/// under this claim, and a human must look.
#[must_use]
pub fn parked(reason: Reason) -> Decision {
    Decision {
        to: Status::Parked,
        cause: Cause::Settled,
        reason: Some(reason),
        next_attempt_at: None,
        answered: SendsAnswered::Own,
        budget: Budget::Untouched,
        epoch: EpochChange::Same,
        gateway_ref: None,
    }
}

/// One answer in its context.
struct Case<'a> {
    row: &'a Payment,
    was: Status,
    /// Nothing was ever sent under this epoch's key before this claim.
    opened_key: bool,
    declines: DeclineCounts,
    how: How,
    facts: &'a Facts,
    ladders: &'a Ladders,
    now: DateTime<Utc>,
    jitter: PerMille,
}

/// What one decline proves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// No send of this epoch can move money any more.
    EveryOpenSend,
    /// It speaks for one send; others are open.
    OneSend,
}

impl Case<'_> {
    /// A gateway that says it charged is believed only if it charged what was asked, and once.
    fn charged(&self, reference: &str, amount: Money) -> Decision {
        let another = self.row.gateway_ref.as_deref().is_some_and(|known| known != reference);
        if amount != self.row.amount || another {
            // Money moved, but not as asked: nobody may call this payment clean, so no send is
            // written off.
            let park = park(Reason::ContractViolation, SendsAnswered::None);
            return Decision { gateway_ref: Some(reference.to_owned()), ..park };
        }
        Decision {
            reason: None,
            gateway_ref: Some(reference.to_owned()),
            ..end(Status::Completed, Reason::OutcomeUnknown)
        }
    }

    fn declined(&self, decline: &Decline) -> Decision {
        match self.proof_of_decline() {
            Proof::OneSend => park(Reason::UnprovenDecline, SendsAnswered::Own),
            Proof::EveryOpenSend => match decline.class {
                DeclineClass::Hard => end(Status::Failed, Reason::DeclinedHard),
                DeclineClass::NeedsCustomer => end(Status::Failed, Reason::DeclinedNeedsCustomer),
                DeclineClass::Unmapped => end(Status::Failed, Reason::DeclinedUnmapped),
                DeclineClass::Soft => self.declined_for_now(Reason::DeclinedSoft, decline.retry_after),
                // One more try by default, whatever the first send was refused for.
                DeclineClass::Ambiguous if self.row.sends >= 2 => {
                    end(Status::Failed, Reason::DeclinedAmbiguous)
                }
                DeclineClass::Ambiguous => {
                    self.declined_for_now(Reason::DeclinedAmbiguous, decline.retry_after)
                }
            },
        }
    }

    /// Rules R4, R7, R8: does this decline close every open send of the epoch?
    fn proof_of_decline(&self) -> Proof {
        let others = others_open(self.row);
        let replayed = match self.facts.declines {
            Declines::Replayed => {
                key_life_left(self.row, self.facts, self.now) > KEY_LIFE_TO_CLOSE_OPEN_SENDS
            }
            Declines::Forgotten => false,
        };
        if others == 0 || replayed || self.looked_up_the_only_send() {
            Proof::EveryOpenSend
        } else {
            Proof::OneSend
        }
    }

    /// A looked-up decline answers one send of this key without saying which. If this is the second
    /// claim of all, and it sent nothing, there is one send that it can be about. (`attempt` is never
    /// reset, so this stays true through re-drives; later claims cannot tell.) A void sends no charge
    /// either, so a decline that answers it is read in the same way.
    fn looked_up_the_only_send(&self) -> bool {
        match self.how {
            How::LookedUp | How::Voided => self.row.attempt == 2 && others_open(self.row) == 1,
            How::Sent | How::NotStarted => false,
        }
    }

    /// Proven uncharged and not for good: the next epoch on the ladder, unless something forbids it.
    fn declined_for_now(&self, reason: Reason, advice: Option<Duration>) -> Decision {
        if self.row.cancel_wish_at.is_some() {
            return end(Status::Cancelled, Reason::CancelledByClient);
        }
        if deadline_passed(self.row, self.now) {
            return end(Status::Failed, Reason::DeadlinePassed);
        }
        match self.row.retry.on_soft_decline {
            OnSoftDecline::Fail => return end(Status::Failed, reason),
            OnSoftDecline::Retry => {}
        }
        // Of all payments of this destination together; a person who re-drove this one would make it worse.
        if self.facts.caps.are_reached(self.declines) {
            return end(Status::Failed, Reason::DeclinedTooOften);
        }
        if self.budget_is_spent() {
            return self.exhausted();
        }
        let wait = self.ladders.after_decline(self.row.sends, advice, self.jitter);
        Decision {
            next_attempt_at: Some(next_at(self.row, self.now, wait)),
            epoch: EpochChange::Next,
            ..end(Status::Pending, reason)
        }
    }

    fn budget_is_spent(&self) -> bool {
        self.row.sends >= self.row.retry.max_sends
    }

    /// Proven uncharged with no send left. Parked under a new key: only this transaction has the
    /// proof that a new key needs, and a re-drive then needs none.
    fn exhausted(&self) -> Decision {
        match self.row.retry.on_exhausted {
            OnExhausted::Fail => end(Status::Failed, Reason::BudgetExhausted),
            OnExhausted::Park => {
                Decision { epoch: EpochChange::Next, ..end(Status::Parked, Reason::BudgetExhausted) }
            }
        }
    }

    fn not_sent(&self, why: NotSent, advice: Option<Duration>) -> Decision {
        match why {
            NotSent::Dns | NotSent::Refused | NotSent::Tls | NotSent::BreakerOpen => {
                self.held_back(Reason::GatewayUnreachable, advice)
            }
            NotSent::NotAuthorised => self.held_back(Reason::GatewayRefusedUs, advice),
            NotSent::RateLimited | NotSent::Paced => self.held_back(Reason::GatewayRateLimited, advice),
            // The same bytes would be refused again.
            NotSent::Rejected => parked(Reason::GatewayRejected),
            // What is switched off is not claimed again before that ends, so there is nothing to wait for.
            NotSent::NotStarted | NotSent::LeaseTooShort | NotSent::HostClockEarly | NotSent::Killed => {
                self.given_back(self.ladders.after_held_back(0, advice, self.jitter))
            }
            NotSent::KeyExpired => self.key_expired(advice),
            NotSent::DeadlinePassed => self.must_not_send(Status::Failed, Reason::DeadlinePassed, advice),
            NotSent::CancelWished => self.must_not_send(Status::Cancelled, Reason::CancelledByClient, advice),
            NotSent::OnlyAsked if sabotaged(Sabotage::NotFoundIsProof) => {
                self.declined_for_now(Reason::OutcomeUnknown, advice)
            }
            // Released under a key that nobody used before this claim, and that this claim did not use:
            // whatever its look-up failed of, the payment is as clean as it was.
            NotSent::OnlyAsked if self.opened_key && self.is_redriven() && others_open(self.row) == 0 => {
                self.held_back(Reason::GatewayUnreachable, advice)
            }
            NotSent::OnlyAsked => self.asked(advice),
        }
    }

    /// The gateway took nothing: no budget is spent, but 50 or a day of it in a row park.
    fn held_back(&self, reason: Reason, advice: Option<Duration>) -> Decision {
        let wait = self.ladders.after_held_back(self.row.held_back, advice, self.jitter);
        let later = self.send_later(reason, wait);
        let too_long = self.ladders.is_held_back_too_long(self.row, self.now);
        match later.to {
            Status::Pending | Status::Unknown if too_long => {
                Decision { budget: Budget::HandBack, ..parked(Reason::HeldBackTooLong) }
            }
            Status::Pending | Status::Unknown => Decision { budget: Budget::HandBack, ..later },
            // Ended by a wish, a deadline or a spent budget.
            Status::Parked
            | Status::Failed
            | Status::Cancelled
            | Status::Completed
            | Status::Processing
            | Status::Refunded => later,
        }
    }

    /// Nothing was sent by our own doing.
    fn given_back(&self, wait: Duration) -> Decision {
        self.send_later(Reason::NotSent, wait)
    }

    /// The key is too old to be sent. A clean payment ends where it is to end, and where nothing was
    /// ever sent under the key its age starts anew; otherwise only look-ups are left, even if every send
    /// was answered.
    fn key_expired(&self, advice: Option<Duration>) -> Decision {
        let ends = self.row.cancel_wish_at.is_some() || deadline_passed(self.row, self.now);
        if others_open(self.row) == 0 && (self.opened_key || ends) {
            return self.given_back(self.ladders.after_held_back(0, advice, self.jitter));
        }
        match self.facts.lookup {
            LookupSupport::ByKey => self.asked(advice),
            LookupSupport::None => parked(Reason::KeyExpiredUndecided),
        }
    }

    /// A deadline or a wish forbids every further send: a clean payment ends, an open one is asked
    /// about (or voided) for as long as that can decide.
    fn must_not_send(&self, to: Status, reason: Reason, advice: Option<Duration>) -> Decision {
        if others_open(self.row) == 0 {
            return Decision { budget: Budget::Untouched, ..end(to, reason) };
        }
        match self.facts.lookup {
            LookupSupport::ByKey => self.asked(advice),
            LookupSupport::None if self.may_void_later() => self.asked(advice),
            LookupSupport::None => parked(Reason::OutcomeUnknown),
        }
    }

    /// Can a void still be sent for this key by the next claim, in place of a charge? The gate that said
    /// "too late" or "wished" may know more than the row, so this asks for the offer and the key alone.
    fn may_void_later(&self) -> bool {
        match self.facts.voids {
            VoidSupport::ByKey => key_is_usable(self.row, self.facts, self.now),
            VoidSupport::None => false,
        }
    }

    /// Nothing was sent now; the same key is tried after `wait`. PENDING only if no other send is
    /// open; then a wish or a deadline ends the payment at once, and so does a budget that has no
    /// send left (a re-ask spends none, so nothing is handed back for it).
    fn send_later(&self, reason: Reason, wait: Duration) -> Decision {
        if others_open(self.row) > 0 {
            return self.again(Status::Unknown, self.undecided(), wait);
        }
        if self.row.cancel_wish_at.is_some() {
            Decision { budget: Budget::Untouched, ..end(Status::Cancelled, Reason::CancelledByClient) }
        } else if deadline_passed(self.row, self.now) {
            Decision { budget: Budget::Untouched, ..end(Status::Failed, Reason::DeadlinePassed) }
        } else if self.was == Status::Unknown && self.budget_is_spent() {
            match self.row.retry.on_exhausted {
                OnExhausted::Fail => {
                    Decision { budget: Budget::Untouched, ..end(Status::Failed, Reason::BudgetExhausted) }
                }
                // No decline is being recorded, so the key stays (rule R4).
                OnExhausted::Park => parked(Reason::BudgetExhausted),
            }
        } else {
            self.again(Status::Pending, self.unless_redriven(reason), wait)
        }
    }

    /// What a person released is looked up before its first send, however many claims come before that.
    fn unless_redriven(&self, reason: Reason) -> Reason {
        if self.is_redriven() { Reason::Redriven } else { reason }
    }

    fn is_redriven(&self) -> bool {
        self.row.reason == Some(Reason::Redriven)
    }

    fn again(&self, to: Status, reason: Reason, wait: Duration) -> Decision {
        Decision { to, next_attempt_at: Some(next_at(self.row, self.now, wait)), ..parked(reason) }
    }

    fn unknown(&self, doubt: Doubt) -> Decision {
        match doubt {
            Doubt::TimedOut
            | Doubt::ConnectionLost
            | Doubt::ServerError
            | Doubt::Unreadable
            | Doubt::NotTheGateway
            | Doubt::LeaseExpired => self.ask_again(self.undecided(), None),
            // Somebody used our key with other bytes: repeating the question repeats the answer.
            Doubt::KeyMismatch => park(Reason::RequestChanged, self.own_undecided()),
        }
    }

    /// Names what was asked in vain, so that the next claim asks in the other way (`plan`).
    fn undecided(&self) -> Reason {
        match self.how {
            How::Voided => Reason::VoidUnanswered,
            How::LookedUp | How::NotStarted | How::Sent => Reason::OutcomeUnknown,
        }
    }

    /// Nothing was sent and nothing learned; asking goes on. Whatever stopped the send, this claim's
    /// own is closed, but never as the last one: "not found" proves nothing.
    fn asked(&self, advice: Option<Duration>) -> Decision {
        let reason = if self.row.reason == Some(Reason::PendingAtGateway) {
            Reason::PendingAtGateway
        } else {
            Reason::OutcomeUnknown
        };
        let answered = if others_open(self.row) > 0 { SendsAnswered::Own } else { SendsAnswered::None };
        Decision { budget: Budget::Untouched, answered, ..self.ask_again(reason, advice) }
    }

    /// UNKNOWN, until the key's whole life is over: then neither a resend nor a look-up can decide.
    /// (A charge known to be pending is asked about for as long as the gateway said.)
    ///
    /// Sends end a margin earlier (rule R6); that margin is the time for look-ups alone.
    fn ask_again(&self, reason: Reason, advice: Option<Duration>) -> Decision {
        let has_question = may_charge(self.row, self.now) || may_void(self.row, self.facts, self.now);
        let answered = self.own_undecided();
        let key_is_over = key_life_left(self.row, self.facts, self.now) <= TimeDelta::zero();
        if key_is_over && !(self.row.reason == Some(Reason::PendingAtGateway) && self.pending_is_in_time()) {
            return park(Reason::KeyExpiredUndecided, answered);
        }
        match self.facts.lookup {
            LookupSupport::None if !has_question => return park(Reason::OutcomeUnknown, answered),
            LookupSupport::None | LookupSupport::ByKey => {}
        }
        let wait = self.ladders.before_ask(self.row.asks, advice, self.jitter);
        self.ask_after(reason, wait)
    }

    fn ask_after(&self, reason: Reason, wait: Duration) -> Decision {
        Decision {
            answered: self.own_undecided(),
            budget: Budget::Keep,
            ..self.again(Status::Unknown, reason, wait)
        }
    }

    /// Accepted and open: asked about until the gateway promised to know, which may be long after
    /// the key's life; then only look-ups ask.
    fn pending(&self) -> Decision {
        if self.facts.async_final_within.is_none() {
            return self.ask_again(Reason::PendingAtGateway, None);
        }
        let askable = match self.facts.lookup {
            LookupSupport::ByKey => true,
            LookupSupport::None => {
                key_is_usable(self.row, self.facts, self.now)
                    && (may_charge(self.row, self.now) || may_void(self.row, self.facts, self.now))
            }
        };
        if !askable || !self.pending_is_in_time() {
            return park(Reason::UnknownTooLong, self.own_undecided());
        }
        let wait = self.ladders.while_pending(self.row.asks, None, self.jitter);
        self.ask_after(Reason::PendingAtGateway, wait)
    }

    /// Has the gateway time left to know the outcome of what it accepted?
    fn pending_is_in_time(&self) -> bool {
        match (self.facts.async_final_within, self.row.epoch_first_sent_at) {
            (Some(within), Some(since)) => self.now - since < time_delta(within),
            (Some(_), None) | (None, Some(_) | None) => false,
        }
    }

    /// A tombstone: no charge can happen under this key. What that is good for depends on who
    /// wanted it; a tombstone that nobody asked for is shown to a human.
    fn voided(&self) -> Decision {
        if self.row.cancel_wish_at.is_some() {
            end(Status::Cancelled, Reason::VoidProven)
        } else if deadline_passed(self.row, self.now) {
            end(Status::Failed, Reason::DeadlinePassed)
        } else {
            park(Reason::VoidProven, SendsAnswered::Own)
        }
    }

    /// What an answer that decides nothing says of this claim's own send: a look-up or a void sent no
    /// charge, so it is closed; but never the last open one, or "not found" would have proven something.
    fn own_undecided(&self) -> SendsAnswered {
        match self.how {
            How::LookedUp | How::Voided | How::NotStarted if others_open(self.row) > 0 => SendsAnswered::Own,
            How::LookedUp | How::Voided | How::NotStarted | How::Sent => SendsAnswered::None,
        }
    }
}

/// The key is left behind: everything under it is answered.
fn end(to: Status, reason: Reason) -> Decision {
    Decision { to, answered: SendsAnswered::All, budget: Budget::Keep, ..parked(reason) }
}

fn park(reason: Reason, answered: SendsAnswered) -> Decision {
    Decision { answered, budget: Budget::Keep, ..parked(reason) }
}
