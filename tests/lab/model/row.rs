//! The abstraction: the row of the model and how it stands for a real [`Payment`].
//!
//! Every rule is asked of a real `Payment`, made here from the few numbers that differ between
//! states, and read back after the real effect was applied. What is not kept, and why nothing is
//! lost by it:
//!
//! | column | here |
//! |---|---|
//! | id, actor, gateway, amount, lane, `created_at`, due, deadline, retry policy | the same in every state of one exploration |
//! | instants | whole ticks, rounded down |
//! | reason | only whether it is one of the three that a rule reads: `PendingAtGateway`, `VoidUnanswered`, `Redriven` |
//! | `gateway_account` | set and cleared together with the renderer; accounts do not change here |
//! | `request_hash` | the version of the bytes |
//! | `gateway_ref` | the number of the charge |
//! | asks, `held_back`, `held_back_since` | zero: they choose a rung of a ladder (here of one rung) and the limits of R12, which are not reached |
//! | `last_moved_at`, the instant of a wish | read only to hurry the claim that honours the wish |
//! | `history_seq` | not read by any rule; a step checks that it grew by one |
//!
//! `fence` and `attempt` grow together but are kept apart: a failover that loses a commit must be
//! able to hand out the same one twice.

use super::terms::{DUE, Terms, Tick, instant, tick};
use punctual::domain::guard_cases;
use punctual::domain::ids::{Epoch, Fence};
use punctual::domain::payment::Payment;
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;

/// One payment, as far as states differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    pub status: Status,
    pub pending_at_gateway: bool,
    pub void_unanswered: bool,
    pub redriven: bool,
    pub next_at: Tick,
    pub attempt: u8,
    pub sends: u8,
    pub epoch: u8,
    pub first_sent_at: Option<Tick>,
    pub unanswered: u8,
    pub body: Option<u8>,
    pub renderer: Option<u8>,
    pub charge: Option<u8>,
    pub fence: u8,
    pub wish: bool,
}

fn small(count: impl TryInto<u8>) -> u8 {
    count.try_into().unwrap_or_else(|_| panic!("counts of an exploration are small"))
}

impl Row {
    /// Just created.
    pub fn new() -> Self {
        Self {
            status: Status::Pending,
            pending_at_gateway: false,
            void_unanswered: false,
            redriven: false,
            next_at: DUE,
            attempt: 0,
            sends: 0,
            epoch: 0,
            first_sent_at: None,
            unanswered: 0,
            body: None,
            renderer: None,
            charge: None,
            fence: 0,
            wish: false,
        }
    }

    /// The real row that this one stands for.
    pub fn payment(&self, template: &Payment) -> Payment {
        Payment {
            status: self.status,
            reason: match (self.pending_at_gateway, self.void_unanswered, self.redriven) {
                (true, _, _) => Some(Reason::PendingAtGateway),
                (false, true, _) => Some(Reason::VoidUnanswered),
                (false, false, true) => Some(Reason::Redriven),
                (false, false, false) => None,
            },
            next_attempt_at: instant(self.next_at),
            attempt: self.attempt.into(),
            sends: self.sends.into(),
            epoch: Epoch(self.epoch.into()),
            epoch_first_sent_at: self.first_sent_at.map(instant),
            unanswered: self.unanswered.into(),
            request_hash: self.body.map(|body| [body; 32]),
            gateway_account: self.renderer.map(|_| "sandbox-1".into()),
            renderer: self.renderer.map(i16::from),
            gateway_ref: self.charge.map(reference),
            fence: Fence(self.fence.into()),
            cancel_wish_at: self.wish.then(|| instant(0)),
            ..template.clone()
        }
    }

    /// Reads it back.
    pub fn of(payment: &Payment) -> Self {
        Self {
            status: payment.status,
            pending_at_gateway: payment.reason == Some(Reason::PendingAtGateway),
            void_unanswered: payment.reason == Some(Reason::VoidUnanswered),
            redriven: payment.reason == Some(Reason::Redriven),
            next_at: tick(payment.next_attempt_at),
            attempt: small(payment.attempt),
            sends: small(payment.sends),
            epoch: small(payment.epoch.0),
            first_sent_at: payment.epoch_first_sent_at.map(tick),
            unanswered: small(payment.unanswered),
            body: payment.request_hash.map(|hash| hash[0]),
            renderer: payment.renderer.map(small),
            charge: payment.gateway_ref.as_ref().map(|reference| small(reference.len())),
            fence: small(payment.fence.0),
            wish: payment.cancel_wish_at.is_some(),
        }
    }
}

/// What is the same in every state of one exploration.
pub fn template(terms: &Terms) -> Payment {
    // The table's row is due an hour before the instant it is made for.
    let row = guard_cases::payment(instant(DUE + 1), 1, Status::Pending);
    Payment { execute_before: terms.deadline.map(instant), asks: 0, retry: terms.retry(), ..row }
}

/// The gateway's reference of its `n`th charge: as long as its number.
pub fn reference(n: u8) -> String {
    "c".repeat(n.into())
}
