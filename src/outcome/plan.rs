//! What may be asked of the gateway under a fresh claim, and what a look-up's answer means next.
//!
//! The order of the questions is the order of their strength. A payment without any other open send
//! is clean: a wish to cancel or a passed deadline ends it here, without a call. With an open send
//! nothing may be concluded, only asked: by a look-up first, and by a resend under the same key only
//! where rules R4 (same account and renderer), R5 (same bytes), R6 (a living key), R10 (deadline)
//! and the client's wish all allow it. Where deadline or wish forbid the resend, a gateway that voids by
//! key is asked to: its tombstone, or what it says became of the key, decides.
//!
//! **A void is sent only while the key may be sent** (rule R6), although it moves no money: a gateway that
//! has forgotten the key plants the tombstone on a blank key and says "voided", while the charge that it
//! does not remember stands. And only in the same account (rule R4), for the same reason. It has no bytes
//! of ours but the key, so another renderer is no obstacle.
//!
//! The plan is made early; [`gate`] builds the check that is made again right before the first byte.

use crate::domain::declines::DeclineCounts;
use crate::domain::facts::{Facts, LookupSupport, VoidSupport};
use crate::domain::lease::{Lease, Mono, SendGate};
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::verdict::{Lookup, NotSent, Verdict};
use crate::platform::faults::{Sabotage, sabotaged};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// A committed claim, as far as judgement needs it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The row after the claim.
    pub payment: &'a Payment,
    /// The state it was claimed from.
    pub was: Status,
    /// Age of the epoch's key at the claim, by the database clock; `None`: this claim is its first
    /// possible send.
    pub key_age: Option<Duration>,
    /// Declines of the payment's destination before the claim.
    pub declines: DeclineCounts,
}

/// What to do under the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Send the charge.
    Charge,
    /// Ask about the key; if the gateway does not show it, send under the same key.
    LookUpThenCharge,
    /// Ask about the key; send nothing.
    LookUpOnly,
    /// Void the key: no charge can follow, or the gateway says what became of it.
    Void,
    /// Settle as not sent, without any call.
    GiveBack(NotSent),
    /// Settle with [`super::parked`], without any call.
    Park(Reason),
}

/// Plans one claim. `now` is aligned to the database's clock.
#[must_use]
pub fn plan(view: &View<'_>, facts: &Facts, now: DateTime<Utc>) -> Plan {
    if others_open(view.payment) == 0 { plan_clean(view, facts, now) } else { plan_open(view, facts, now) }
}

/// Possible sends of this epoch without an answer, besides this claim's own.
pub(super) fn others_open(payment: &Payment) -> i32 {
    (payment.unanswered - 1).max(0)
}

/// Nothing of ours is under way: it may end here, or be sent.
fn plan_clean(view: &View<'_>, facts: &Facts, now: DateTime<Utc>) -> Plan {
    let payment = view.payment;
    if payment.cancel_wish_at.is_some() {
        Plan::GiveBack(NotSent::CancelWished)
    } else if deadline_passed(payment, now) {
        Plan::GiveBack(NotSent::DeadlinePassed)
    } else if !same_account(payment, facts) || !same_renderer(payment, facts) {
        Plan::Park(Reason::AccountChanged)
    } else if !key_is_usable(payment, facts, now) {
        match (view.key_age, facts.lookup) {
            // Given back, the key's age starts anew: nothing was ever sent under it.
            (None, _) => Plan::GiveBack(NotSent::KeyExpired),
            // What was sent under it was answered, but a copy may still be under way, and the gateway is
            // about to forget that it knows the key (rule R6).
            (Some(_), LookupSupport::ByKey) => Plan::LookUpOnly,
            (Some(_), LookupSupport::None) => Plan::Park(Reason::KeyExpiredUndecided),
        }
    } else {
        match (view.was, facts.lookup) {
            // What answered the last open send came too late to be decided by (rule R2): it may have
            // been a hard decline, after which nothing is sent (invariant H9). The gateway tells.
            (Status::Unknown, LookupSupport::ByKey) => Plan::LookUpThenCharge,
            // Released by a person (rule R16): under this key nothing was sent, but the gateway shows the
            // charges of earlier ones too.
            (_, LookupSupport::ByKey) if payment.reason == Some(Reason::Redriven) => Plan::LookUpThenCharge,
            (_, LookupSupport::ByKey | LookupSupport::None) => Plan::Charge,
        }
    }
}

/// A request of ours may have charged, or still may: ask, and send only what collapses on its key.
fn plan_open(view: &View<'_>, facts: &Facts, now: DateTime<Utc>) -> Plan {
    let payment = view.payment;
    if !same_account(payment, facts) {
        // The key lives in an account that this gateway no longer speaks for: "not found" here
        // would say nothing at all.
        return Plan::Park(Reason::AccountChanged);
    }
    if may_void(payment, facts, now) {
        // A void that cannot be had must not hide an outcome that a look-up would show, and the reverse: after
        // a void without an answer the key is looked up, and after that voided again.
        let in_vain = payment.reason == Some(Reason::VoidUnanswered);
        return match facts.lookup {
            LookupSupport::ByKey if in_vain => Plan::LookUpOnly,
            LookupSupport::ByKey | LookupSupport::None => Plan::Void,
        };
    }
    let obstacle = if !may_charge(payment, now) {
        Some(Reason::OutcomeUnknown)
    } else if !same_renderer(payment, facts) {
        Some(Reason::AccountChanged)
    } else if !key_is_usable(payment, facts, now) {
        Some(Reason::KeyExpiredUndecided)
    } else {
        None
    };
    match (facts.lookup, obstacle) {
        (LookupSupport::ByKey, None) => Plan::LookUpThenCharge,
        (LookupSupport::ByKey, Some(_)) => Plan::LookUpOnly,
        // Without look-ups the resend under the same key is the question.
        (LookupSupport::None, None) => Plan::Charge,
        (LookupSupport::None, Some(reason)) => Plan::Park(reason),
    }
}

/// Is a void the way to decide an open key: wanted, offered, and sure to mean this key's own charge?
pub(super) fn may_void(payment: &Payment, facts: &Facts, now: DateTime<Utc>) -> bool {
    match facts.voids {
        VoidSupport::ByKey => {
            let usable = key_is_usable(payment, facts, now) || sabotaged(Sabotage::VoidPastKey);
            !may_charge(payment, now) && usable
        }
        VoidSupport::None => false,
    }
}

/// Do wish and deadline still allow a charge (rule R10)?
pub(super) fn may_charge(payment: &Payment, now: DateTime<Utc>) -> bool {
    let wished = payment.cancel_wish_at.is_some() && !sabotaged(Sabotage::ChargeAfterWish);
    !wished && !deadline_passed(payment, now)
}

/// Holds the plan against the rendered request (rule R5): bytes that differ from those first sent
/// under this key are not sent.
#[must_use]
pub fn with_request(plan: Plan, payment: &Payment, facts: &Facts, hash: &[u8; 32]) -> Plan {
    let same = payment.request_hash.is_none_or(|first| first == *hash);
    match plan {
        Plan::Charge | Plan::LookUpThenCharge if !same => match (facts.lookup, others_open(payment) > 0) {
            (LookupSupport::ByKey, true) => Plan::LookUpOnly,
            (LookupSupport::ByKey, false) | (LookupSupport::None, _) => Plan::Park(Reason::RequestChanged),
        },
        Plan::Charge
        | Plan::LookUpThenCharge
        | Plan::LookUpOnly
        | Plan::Void
        | Plan::GiveBack(_)
        | Plan::Park(_) => plan,
    }
}

/// The check right before the first byte (rules R6, R9, R10, R14), for a claim asked for at
/// `asked_at`.
///
/// The key's age is limited twice: by the wall clock from the first send on record, and by the
/// suspend-counting clock from this claim on, whichever says later. The second limit starts at the
/// instant *before* the claim was asked for, so the claim's own delay only shortens it.
#[must_use]
pub fn gate(view: &View<'_>, asked_at: Mono, lease: &Lease, facts: &Facts) -> SendGate {
    let payment = view.payment;
    let life = facts.key_ttl.saturating_sub(facts.key_margin);
    let left = life.saturating_sub(view.key_age.unwrap_or_default());
    let asks_key = !sabotaged(Sabotage::KeyAgeAtClaimOnly);
    SendGate {
        send_before: lease.send_before(asked_at),
        not_before: payment.due_at,
        key_usable_until: payment
            .epoch_first_sent_at
            .and_then(|first| after(first, life))
            .filter(|_| asks_key),
        key_usable_until_mono: asked_at.0.checked_add(left).map(Mono).filter(|_| asks_key),
        execute_before: payment.execute_before,
        // Of the worker's own, who adds it.
        switches: None,
    }
}

/// The check right before the first byte of a void: the same, but for the deadline, which is one of the
/// two reasons to void.
#[must_use]
pub fn void_gate(view: &View<'_>, asked_at: Mono, lease: &Lease, facts: &Facts) -> SendGate {
    let gate = SendGate { execute_before: None, ..gate(view, asked_at, lease, facts) };
    if sabotaged(Sabotage::VoidPastKey) {
        return SendGate { key_usable_until: None, key_usable_until_mono: None, ..gate };
    }
    gate
}

/// What a look-up means next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterLookup {
    /// Settle with this verdict, come by as a look-up.
    Settle(Verdict),
    /// Send the charge, under the same key.
    Charge,
}

/// Reads a look-up made under `plan` (rule R7).
///
/// "Not found" is not "not charged": all it permits is a resend under the same key, and only where
/// the plan allowed one. What the gateway shows of the key, even as an open question, stops the
/// resend: it has the request, so another one would ask nothing new. A look-up that failed permits
/// nothing, for it would turn a look-up outage into a wave of resends.
#[must_use]
pub fn after_lookup(plan: Plan, found: Lookup) -> AfterLookup {
    let only_asked =
        |retry_after| AfterLookup::Settle(Verdict::NotSent { why: NotSent::OnlyAsked, retry_after });
    match found {
        Lookup::Found(verdict) => match verdict {
            // A record that claims "not sent" speaks of one request, not of those still under way.
            Verdict::NotSent { why: _, retry_after } => only_asked(retry_after),
            Verdict::Charged { .. }
            | Verdict::Declined(_)
            | Verdict::InProgress { .. }
            | Verdict::PendingAtGateway { .. }
            | Verdict::Unknown(_)
            | Verdict::ContractViolation { .. }
            | Verdict::Voided => AfterLookup::Settle(verdict),
        },
        Lookup::NotFound { visible_after } => match plan {
            Plan::LookUpThenCharge => AfterLookup::Charge,
            Plan::LookUpOnly | Plan::Charge | Plan::Void | Plan::GiveBack(_) | Plan::Park(_) => {
                only_asked(visible_after)
            }
        },
        Lookup::Unavailable { retry_after } => only_asked(retry_after),
    }
}

pub(super) fn deadline_passed(payment: &Payment, now: DateTime<Utc>) -> bool {
    payment.execute_before.is_some_and(|deadline| now >= deadline)
}

fn same_account(payment: &Payment, facts: &Facts) -> bool {
    payment.gateway_account.as_ref().is_none_or(|account| *account == facts.account)
}

fn same_renderer(payment: &Payment, facts: &Facts) -> bool {
    payment.renderer.is_none_or(|renderer| renderer == facts.renderer)
}

/// May anything still be sent under the key (rule R6)? A key without an age cannot be, after a
/// claim; should it happen, it counts as too old.
pub(super) fn key_is_usable(payment: &Payment, facts: &Facts, now: DateTime<Utc>) -> bool {
    key_life_left(payment, facts, now) > time_delta(facts.key_margin)
}

/// How long the gateway still remembers the key; zero or less once it may have forgotten it.
pub(super) fn key_life_left(payment: &Payment, facts: &Facts, now: DateTime<Utc>) -> TimeDelta {
    let end = payment.epoch_first_sent_at.and_then(|first| after(first, facts.key_ttl));
    match (payment.epoch_first_sent_at, end) {
        (None, _) => TimeDelta::zero(),
        (Some(_), Some(end)) => end - now,
        // A lifetime past the calendar's end.
        (Some(_), None) => TimeDelta::MAX,
    }
}

fn after(instant: DateTime<Utc>, length: Duration) -> Option<DateTime<Utc>> {
    instant.checked_add_signed(time_delta(length))
}

/// Settings are far below what chrono holds; beyond that a length never ends.
pub(super) fn time_delta(length: Duration) -> TimeDelta {
    TimeDelta::from_std(length).unwrap_or(TimeDelta::MAX)
}
