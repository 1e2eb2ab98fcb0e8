//! What intake hands to the schedule and gets back. Everything in here has been validated already.

use super::caps::DailyCap;
use crate::domain::ids::{ActorId, ClaimId, Epoch, Fence, GatewayName, PaymentId, WorkerName};
use crate::domain::money::{Currency, Money};
use crate::domain::payment::{Payment, RetryPolicy};
use crate::domain::state::Status;
use crate::domain::window::{Window, first_attempt_at};
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use std::collections::BTreeMap;

/// A payment to be created, with every default applied.
#[derive(Debug, Clone)]
pub struct NewPayment {
    /// Made from due time, actor and key (rule R18).
    pub id: PaymentId,
    /// The authenticated owner.
    pub actor: ActorId,
    /// 1–255 visible ASCII.
    pub idempotency_key: String,
    /// Keyed digest of the whole request after defaults (32 bytes).
    pub request_hash: [u8; 32],
    /// Keyed digests by JSON pointer (`/amount`, …), so that differing fields can be named later
    /// without keeping their values.
    pub field_digests: BTreeMap<String, String>,
    /// Destination reference.
    pub payee: SecretString,
    /// What to charge.
    pub amount: Money,
    /// Microseconds.
    pub due_at: DateTime<Utc>,
    /// Microseconds.
    pub execute_before: Option<DateTime<Utc>>,
    /// How long after `due_at` the first try may come; ends by `execute_before`.
    pub execute_within: Option<Window>,
    /// A configured gateway.
    pub gateway: GatewayName,
    /// Unique per actor among payments that are not cancelled or failed.
    pub external_id: Option<String>,
    /// Free text, ≤ 500.
    pub description: Option<String>,
    /// ≤ 50 string pairs.
    pub metadata: BTreeMap<String, String>,
    /// The actor's choice.
    pub retry: RetryPolicy,
    /// Hash of the actor.
    pub lane: i16,
    /// W3C trace context of the request.
    pub traceparent: Option<String>,
}

impl NewPayment {
    /// When it is first tried.
    #[must_use]
    pub fn first_attempt_at(&self) -> DateTime<Utc> {
        first_attempt_at(self.id, self.due_at, self.execute_within)
    }
}

/// What a create did; `P` is what is known of the payment.
#[derive(Debug, PartialEq, Eq)]
pub enum CreateAnswer<P = PaymentView> {
    /// Durable now.
    Created(Box<P>),
    /// This key created it earlier, with the same request: answer as then.
    Replayed(Box<P>),
    /// This key created another one; these fields differ.
    KeyReused {
        /// The payment the key made.
        payment: PaymentId,
        /// Its state now.
        status: Status,
        /// JSON pointers that differ, in order.
        differs: Vec<String>,
    },
    /// The external id is taken by a live payment of this actor.
    ExternalIdTaken {
        /// By this one.
        payment: PaymentId,
    },
    /// The actor has created enough today; the key stays free.
    DailyCapReached(DailyCap),
    /// What the key means was charged under another due time before a restore (rule R18); the key stays free.
    ChargedBefore {
        /// As this one, which has no row any more.
        payment: PaymentId,
    },
    /// No partition for that day (yet): 503 `schedule_not_ready`.
    DayNotReady,
}

/// One payment with what the API shows of it.
#[derive(Debug, Clone)]
pub struct PaymentView {
    /// The hot row.
    pub payment: Payment,
    /// Destination reference, shown to its owner.
    pub payee: SecretString,
    /// Free text.
    pub description: Option<String>,
    /// String pairs.
    pub metadata: BTreeMap<String, String>,
    /// The actor's own id for it.
    pub external_id: Option<String>,
    /// Oldest first; empty in the answer of `create`.
    pub attempts: Vec<AttemptView>,
    /// When the first charge-capable claim committed; `None` before.
    pub first_claimed_at: Option<DateTime<Utc>>,
}

/// One claim and what came of it.
#[derive(Debug, Clone)]
pub struct AttemptView {
    /// From 1.
    pub attempt: i32,
    /// The key's epoch.
    pub epoch: Epoch,
    /// The claim's name.
    pub claim_id: ClaimId,
    /// The claim's fence.
    pub fence: Fence,
    /// Who claimed.
    pub worker: WorkerName,
    /// By the database clock.
    pub claimed_at: DateTime<Utc>,
    /// When its outcome was recorded; `None` while open.
    pub settled_at: Option<DateTime<Utc>>,
    /// `charged`, `declined`, … ; `None` while open.
    pub verdict: Option<String>,
    /// The gateway's code, where it gave one.
    pub code: Option<String>,
    /// HTTP status, where there was one.
    pub http_status: Option<i16>,
    /// Milliseconds the gateway took.
    pub took_ms: Option<i32>,
    /// A note for people.
    pub note: Option<String>,
    /// The write came late and was fenced off.
    pub fenced: bool,
}

/// What a cancel did; each but `NotFound` names the state at the compare-and-swap.
#[derive(Debug)]
pub enum CancelAnswer {
    /// CANCELLED, now or earlier: 200, the same body again.
    Cancelled(Box<PaymentView>),
    /// The outcome is unknown and the wish to cancel recorded, now or earlier: 202. No later claim
    /// charges; whether it was charged before is still asked.
    Wished(Box<PaymentView>),
    /// Not possible in this state: 409.
    Refused(Box<PaymentView>),
    /// No such payment of this actor: 404.
    NotFound,
}

/// An API client.
#[derive(Debug, Clone)]
pub struct Actor {
    /// Who.
    pub id: ActorId,
    /// Used where a request names no currency.
    pub default_currency: Option<Currency>,
    /// Used where a request names no gateway.
    pub default_gateway: Option<GatewayName>,
}

/// A live API key, found by the hash of its text.
#[derive(Debug, Clone)]
pub struct ApiKeyRecord {
    /// The key's public id.
    pub key_id: uuid::Uuid,
    /// Whose it is.
    pub actor: Actor,
    /// Its actor's name.
    pub actor_name: String,
    /// `payments:read`, …
    pub scopes: Vec<String>,
    /// Refused from then on.
    pub expires_at: Option<DateTime<Utc>>,
    /// The database's clock as it was found.
    pub database_now: DateTime<Utc>,
}
