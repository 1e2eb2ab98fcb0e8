//! What a gateway promises, as data, and what can be asked of it, as a trait.

use crate::domain::declines::DeclineCaps;
use crate::domain::facts::VoidSupport;
use crate::domain::lease::SendGate;
use crate::domain::payment::Payment;
use crate::domain::refund::RefundLookup;
use crate::domain::verdict::Lookup;
use crate::schedule::{Answer, Answered, AnsweredRefund, Claimed, ClaimedRefund, RefundOrder};
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use std::time::Duration;

/// A gateway described by data, so that the same rules work for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The configured name.
    pub name: crate::domain::ids::GatewayName,
    /// The account's identity; a key is unique only within it (rule R4).
    pub account: String,
    /// The version of the request format (rule R4).
    pub renderer: i16,
    /// How long the gateway remembers a key (rule R6).
    pub key_ttl: Duration,
    /// Safety distance kept from `key_ttl`.
    pub key_margin: Duration,
    /// A stored decline is replayed under the same key. False unless proven.
    pub replays_declines: bool,
    /// A stored 5xx is replayed under the same key; refused at start without a look-up.
    pub replays_5xx: bool,
    /// Another body under a used key is refused.
    pub compares_body: bool,
    /// The gateway can be asked about a key.
    pub lookup: bool,
    /// A send is visible to look-ups after this long.
    pub not_found_horizon: Duration,
    /// A void makes every later charge under the key refused, for ever. False unless proven.
    pub voids_by_key: bool,
    /// A refund is collapsed by its key, and never above its charge. False unless proven.
    pub refunds: bool,
    /// A pending payment is decided by then.
    pub async_final_within: Option<Duration>,
    /// Declines of one destination that are enough.
    pub caps: DeclineCaps,
    /// Time to connect.
    pub connect_timeout: Duration,
    /// Time for the whole call; smaller than lease − margin (rule R14), unless leases are renewed.
    pub total_timeout: Duration,
    /// Leases are renewed while a call is in flight, so that a call may outlast one.
    pub renews_lease: bool,
    /// Largest number of calls in flight from one worker.
    pub max_in_flight: usize,
    /// What all workers share.
    pub pacing: Pacing,
}

/// What an account takes from all workers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// Calls a second; 0: no limit.
    pub rate: u32,
    /// Per cent of them that questions are sure of.
    pub lookup_share: u32,
    /// Calls in flight; 0: no limit.
    pub in_flight: u32,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { rate: 0, lookup_share: 10, in_flight: 0 }
    }
}

impl Profile {
    /// Whether voids may be sent, as the rules read it.
    #[must_use]
    pub fn void_support(&self) -> VoidSupport {
        if self.voids_by_key { VoidSupport::ByKey } else { VoidSupport::None }
    }
}

/// The bytes of one epoch's request (rule R5): the same for every send under the key.
#[derive(Debug, Clone)]
pub struct FrozenRequest {
    /// The idempotency key.
    pub key: String,
    /// The body, exactly. Secret, because it names the payee.
    pub body: SecretString,
    /// SHA-256 of the body.
    pub hash: [u8; 32],
}

/// Why no request can be made for this payment at this gateway; it parks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no request can be made: {0}")]
pub struct CannotRender(pub String);

/// One gateway account.
pub trait Gateway: Send + Sync + 'static {
    /// Its description.
    fn profile(&self) -> &Profile;

    /// Makes the epoch's request: pure, the same bytes for the same payment and epoch.
    ///
    /// # Errors
    /// [`CannotRender`] rather than a rounded amount or a cut field.
    fn prepare(&self, claimed: &Claimed) -> Result<FrozenRequest, CannotRender>;

    /// Sends at most one money-moving request (rule R15). `gate` is checked at the body's first poll.
    fn charge(&self, claimed: Claimed, request: FrozenRequest, gate: SendGate) -> BoxFuture<'_, Answered>;

    /// Asks what became of the key of the payment's current epoch.
    fn lookup<'a>(&'a self, payment: &'a Payment) -> BoxFuture<'a, Lookup>;

    /// Voids the key of the payment's current epoch; only where [`Profile::voids_by_key`] says so.
    ///
    /// Moves no money, so it borrows the claim, and repeating it is harmless. `gate` is checked at the
    /// body's first poll all the same: a void that arrives after the gateway forgot the key proves nothing
    /// (rule R6). The answer is [`crate::domain::verdict::Verdict::Voided`], or what had become of the key
    /// before, or that a charge runs under it; its `how` is `Voided` if the void may have left, and
    /// `NotStarted` if it provably did not.
    fn void<'a>(&'a self, claimed: &'a Claimed, gate: SendGate) -> BoxFuture<'a, Answer>;
}

/// One gateway account that gives money back. A trait of its own, because most that can be charged here are asked
/// for no refunds, and no stand-in of a test need know them.
pub trait Refunds: Send + Sync + 'static {
    /// Its description.
    fn profile(&self) -> &Profile;

    /// Makes the refund's request: pure, the same bytes for the same refund, whichever attempt asks (rule R5).
    ///
    /// # Errors
    /// [`CannotRender`] rather than a cut field.
    fn prepare_refund(&self, order: &RefundOrder) -> Result<FrozenRequest, CannotRender>;

    /// Sends at most one request that gives money back (rule R15). `gate` is checked at the body's first poll.
    fn refund(
        &self,
        claimed: ClaimedRefund,
        request: FrozenRequest,
        gate: SendGate,
    ) -> BoxFuture<'_, AnsweredRefund>;

    /// Asks what became of the refund's key.
    fn lookup_refund<'a>(&'a self, order: &'a RefundOrder) -> BoxFuture<'a, RefundLookup>;
}
