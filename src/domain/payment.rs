//! One payment as the rules see it: the hot row, no free text.
//!
//! The payee is not here: only a claim hands it out, because only a charge needs it.

use super::ids::{ActorId, Epoch, Fence, GatewayName, PaymentId};
use super::money::Money;
use super::reason::Reason;
use super::state::Status;
use super::window::{Window, first_attempt_at};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The row of `payments`, field for field, in the units of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Carries `due_at` in its first 48 bits.
    pub id: PaymentId,
    /// Who owns it.
    pub actor: ActorId,
    /// Where it stands.
    pub status: Status,
    /// Why it stands there, once something happened to it.
    pub reason: Option<Reason>,
    /// Nothing may be charged before this instant (microseconds). Immutable.
    pub due_at: DateTime<Utc>,
    /// No charge request may start at or after this instant (rule R10).
    pub execute_before: Option<DateTime<Utc>>,
    /// How long after `due_at` the first try may come. Immutable.
    pub execute_within: Option<Window>,
    /// When the next claim may happen; never before `due_at`.
    pub next_attempt_at: DateTime<Utc>,
    /// The gateway that moves the money.
    pub gateway: GatewayName,
    /// What to charge.
    pub amount: Money,
    /// Claims made so far; names the notice that may claim next.
    pub attempt: i32,
    /// Sends that count against the retry budget (rule R12).
    pub sends: i16,
    /// Sends in a row that spent no budget because the gateway never took them (rule R12: 50 park).
    pub held_back: i16,
    /// First of those in-a-row instants (rule R12: 24 h park); `None` when `held_back` is 0.
    pub held_back_since: Option<DateTime<Utc>>,
    /// Re-asks made since the outcome became unknown; the rung of the re-ask ladder.
    pub asks: i16,
    /// The gateway key's epoch (rule R4).
    pub epoch: Epoch,
    /// First possible send under this epoch's key; rule R6 counts from here.
    pub epoch_first_sent_at: Option<DateTime<Utc>>,
    /// Possible sends of this epoch without a definitive answer. 0 whenever PENDING.
    pub unanswered: i32,
    /// SHA-256 of the bytes first sent under this epoch's key (rule R5), once a settle recorded it.
    pub request_hash: Option<[u8; 32]>,
    /// The gateway account this epoch was opened at (rule R4).
    pub gateway_account: Option<String>,
    /// The renderer that made this epoch's request bytes (rule R4).
    pub renderer: Option<i16>,
    /// The first call's reference at gateways that take two.
    pub intent_ref: Option<String>,
    /// The reference of the charge, once known.
    pub gateway_ref: Option<String>,
    /// Grows with every claim.
    pub fence: Fence,
    /// The client's wish to cancel, where the state could not grant it at once.
    pub cancel_wish_at: Option<DateTime<Utc>>,
    /// What to do with soft declines and an exhausted budget.
    pub retry: RetryPolicy,
    /// Hash of the actor, so that fairness acts before any database call.
    pub lane: i16,
    /// When the client's request was accepted.
    pub created_at: DateTime<Utc>,
    /// When it last changed state.
    pub last_moved_at: DateTime<Utc>,
    /// `seq` of its newest history row; the API's `version`.
    pub history_seq: i32,
}

impl Payment {
    /// A payment as its create leaves it: PENDING, with nothing claimed, sent or asked; in lane 0, without
    /// a deadline, under the default policy.
    #[must_use]
    pub fn created(
        id: PaymentId,
        actor: ActorId,
        gateway: GatewayName,
        amount: Money,
        due_at: DateTime<Utc>,
        created_at: DateTime<Utc>,
    ) -> Self {
        Self {
            id,
            actor,
            status: Status::Pending,
            reason: None,
            due_at,
            execute_before: None,
            execute_within: None,
            next_attempt_at: due_at,
            gateway,
            amount,
            attempt: 0,
            sends: 0,
            held_back: 0,
            held_back_since: None,
            asks: 0,
            epoch: Epoch(0),
            epoch_first_sent_at: None,
            unanswered: 0,
            request_hash: None,
            gateway_account: None,
            renderer: None,
            intent_ref: None,
            gateway_ref: None,
            fence: Fence(0),
            cancel_wish_at: None,
            retry: RetryPolicy::default(),
            lane: 0,
            created_at,
            last_moved_at: created_at,
            history_seq: 1,
        }
    }

    /// The instant that its first try was planned for; from it on the payment is late.
    #[must_use]
    pub fn first_attempt_at(&self) -> DateTime<Utc> {
        first_attempt_at(self.id, self.due_at, self.execute_within)
    }
}

/// The actor's choice for one payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    /// Sends allowed in all, 1–6.
    pub max_sends: i16,
    /// What a soft decline does.
    pub on_soft_decline: OnSoftDecline,
    /// What an exhausted budget does, where the proof of rule R8 allows the choice.
    pub on_exhausted: OnExhausted,
}

/// What a soft decline does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnSoftDecline {
    /// Try again on the ladder.
    Retry,
    /// FAILED at once, proof permitting.
    Fail,
}

/// What an exhausted budget does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExhausted {
    /// Hold for a human.
    Park,
    /// FAILED, proof permitting.
    Fail,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_sends: 6, on_soft_decline: OnSoftDecline::Retry, on_exhausted: OnExhausted::Park }
    }
}
