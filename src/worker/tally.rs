//! What one outcome counts as, taken down before the settle takes the outcome away.
//!
//! Counted only against the settle's proof, so that metrics and the attempts' table agree. Nothing
//! depends on it; if this dies here, counts start at zero.

use crate::domain::decision::{Budget, Decision, EpochChange};
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::invariants::Invariant;
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::verdict::{DeclineClass, NotSent, Verdict};
use crate::platform::{metrics, violation};
use crate::schedule::{Answered, SettledAs};

/// Rungs beyond this are counted as this one: ladders repeat their last rung.
const LAST_RUNG: i32 = 20;

/// One outcome's labels.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tally {
    gateway: GatewayName,
    verdict: &'static str,
    is_unmapped: bool,
    pub(super) payment: PaymentId,
    /// What cannot be true of a charge if this promise was kept.
    contradiction: Option<(Invariant, &'static str)>,
    next: Option<(Ladder, i32)>,
    parked: Option<Reason>,
    is_capped: bool,
}

/// What the next try waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ladder {
    Retry,
    Reask,
    Pending,
    HeldBack,
    GivenBack,
}

impl Ladder {
    fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Reask => "reask",
            Self::Pending => "pending",
            Self::HeldBack => "held_back",
            Self::GivenBack => "given_back",
        }
    }
}

impl Tally {
    pub(super) fn of((answered, decision): &(Answered, Decision)) -> Self {
        let (payment, verdict) = (answered.claimed().payment(), &answered.answer().verdict);
        let class = answered.answer().decline().map(|decline| decline.class);
        Self {
            gateway: payment.gateway.clone(),
            verdict: verdict.as_str(),
            is_unmapped: class == Some(DeclineClass::Unmapped),
            payment: payment.id,
            contradiction: contradiction(payment, verdict),
            next: decision.next_attempt_at.map(|_| rung(payment, verdict, decision)),
            parked: decision.reason.filter(|_| decision.to == Status::Parked),
            is_capped: decision.reason == Some(Reason::DeclinedTooOften),
        }
    }

    /// The settle has said what it did.
    pub(super) fn count(&self, result: SettledAs) {
        let gateway = self.gateway.0.as_str();
        if let Some((broken, what)) = self.contradiction {
            violation::seen(broken, Some(self.payment), what);
        }
        metrics::ATTEMPTS.add(1, [gateway, self.verdict]);
        if self.is_unmapped {
            metrics::DECLINES_UNMAPPED.add(1, [gateway]);
        }
        match result {
            // The decision was not written.
            SettledAs::Fenced => {}
            SettledAs::Written(_) => {
                if let Some((ladder, step)) = self.next {
                    let step = step.min(LAST_RUNG).to_string();
                    metrics::RETRY_SCHEDULED.add(1, [ladder.as_str(), &step]);
                }
                if self.is_capped {
                    metrics::DECLINES_CAPPED.add(1, [gateway]);
                }
                if let Some(reason) = self.parked {
                    metrics::PARKED.add(1, [reason.as_str()]);
                }
            }
        }
    }
}

/// A charge of another amount than asked, or a second one: under another reference than the one known.
pub(super) fn contradiction(payment: &Payment, verdict: &Verdict) -> Option<(Invariant, &'static str)> {
    let Verdict::Charged { reference, amount } = verdict else { return None };
    if *amount != payment.amount {
        return Some((Invariant::M4, "the gateway says that it charged another amount than asked"));
    }
    let known = payment.gateway_ref.as_ref()?;
    (known != reference).then_some((Invariant::M1, "the gateway names a second charge of the payment"))
}

/// The ladder and its rung, from 1, as `outcome::decide` took them.
fn rung(payment: &Payment, verdict: &Verdict, decision: &Decision) -> (Ladder, i32) {
    if decision.budget == Budget::HandBack {
        return (Ladder::HeldBack, i32::from(payment.held_back) + 1);
    }
    if decision.epoch == EpochChange::Next {
        return (Ladder::Retry, payment.sends.into());
    }
    match verdict {
        Verdict::NotSent {
            why: NotSent::NotStarted | NotSent::LeaseTooShort | NotSent::HostClockEarly | NotSent::Killed,
            ..
        } => (Ladder::GivenBack, 1),
        // A key that may start anew, because nothing under it is open.
        Verdict::NotSent { .. } if decision.to == Status::Pending => (Ladder::GivenBack, 1),
        Verdict::PendingAtGateway { .. } => (Ladder::Pending, i32::from(payment.asks) + 1),
        Verdict::NotSent { .. }
        | Verdict::Charged { .. }
        | Verdict::Declined(_)
        | Verdict::InProgress { .. }
        | Verdict::Unknown(_)
        | Verdict::ContractViolation { .. }
        | Verdict::Voided => (Ladder::Reask, i32::from(payment.asks) + 1),
    }
}
