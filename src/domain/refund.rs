//! Giving money back: who may ask for how much, and what an answer to a refund means (rules R2 to R8, R16).
//!
//! **Promises.** [`ask`] is the guard of `ask_refund()`, in the same order; a test runs both over the same rows.
//! In sum no more is promised back of one charge than it took, whatever is still under way. [`decide`] never
//! calls a refund refused while one of its sends may still move money, and never sends what could be a second
//! refund: everything goes under one key, which is the refund's id.
//!
//! **Relies on** the gateway collapsing requests of one key into one refund while it remembers the key, and on
//! it refusing what is above its own charge. **If this dies here**, the claim's lease runs out, and the refund is
//! asked about under the same key.

use super::guard::Lineage;
use super::ids::ActorId;
use super::intent::{Secret, keyed};
use super::money::{Minor, Money};
use super::retry::{Ladders, PerMille};
use super::state::Status;
use super::texts::texts;
use super::verdict::{Doubt, Lookup, NotSent, Verdict};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

const LABEL: &str = "punctual-refund-id-1";

/// A replayed decline may close sends that are still under way only while the key outlives them, as with charges
/// (rule R4).
const KEY_LIFE_TO_CLOSE_OPEN_SENDS: TimeDelta = TimeDelta::hours(1);

/// Names one refund, here and at the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RefundId(pub Uuid);

impl RefundId {
    /// Of who asks under which key of their own: the same again after a restore that lost it (rule R18).
    #[must_use]
    pub fn of(secret: &Secret, actor: ActorId, idempotency_key: &str) -> Self {
        let all = keyed(secret, &[LABEL.as_bytes(), actor.0.as_bytes(), idempotency_key.as_bytes()]);
        let mut first = [0; 16];
        first.copy_from_slice(&all[..16]);
        Self(uuid::Builder::from_custom_bytes(first).into_uuid())
    }

    /// The gateway's idempotency key of it, whichever attempt asks.
    #[must_use]
    pub fn key(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for RefundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

texts! { RefundStatus, "Where a refund stands.":
    Asked = "asked": "It waits for a second person, and what it would give back is reserved.",
    Approved = "approved": "A second person allowed it; a worker sends it.",
    Sending = "sending": "A worker holds it under a lease.",
    Refunded = "refunded": "The gateway gave the money back.",
    Declined = "declined": "The gateway refused for good, and nothing of it can move money any more.",
    Unknown = "unknown": "It may have happened; the gateway is asked under the same key.",
    Rejected = "rejected": "Nobody allowed it.",
}

texts! { RefundRefused, "Why a refund cannot be asked for.":
    NoSuchPayment = "no_such_payment": "There is no payment of this id, or its day was archived.",
    NotCharged = "not_charged": "It is open, or it ended without a charge that anybody knows of.",
    Quarantined = "quarantined": "The database was restored or promoted and is not released yet.",
    ReferenceUnknown = "reference_unknown": "The gateway never named this charge for this payment.",
    NotOffered = "not_offered": "Refunds are not configured for this gateway: `gateway.refunds` is not set at its workers.",
    ReferenceTaken = "reference_taken": "This charge pays for another payment.",
    NothingLeft = "nothing_left": "All of the charge is given back, or promised back.",
    AboveCharge = "above_charge": "More than is left of the charge.",
}

/// What a refund is asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refundable {
    /// Of the payment.
    pub status: Status,
    /// What was charged.
    pub charge: Money,
    /// The named reference is one that the gateway gave for this payment.
    pub is_on_record: bool,
    /// Workers of its gateway refund.
    pub offers: bool,
    /// The charge is on record as another payment's.
    pub is_anothers: bool,
    /// Of the charge, by every refund that is done or may still be.
    pub reserved_minor: i64,
}

/// May so much be asked for, and how much is it? `None`: all that is left.
///
/// # Errors
/// [`RefundRefused`], the first that applies.
pub fn ask(of: &Refundable, amount: Option<Minor>, lineage: Lineage) -> Result<Minor, RefundRefused> {
    match of.status {
        Status::Completed | Status::Parked | Status::Refunded | Status::Failed | Status::Cancelled => {}
        Status::Pending | Status::Processing | Status::Unknown => return Err(RefundRefused::NotCharged),
    }
    if lineage == Lineage::Quarantined {
        return Err(RefundRefused::Quarantined);
    }
    if !of.is_on_record {
        // An end without a charge; a late answer may have named one all the same.
        let ended = matches!(of.status, Status::Failed | Status::Cancelled);
        return Err(if ended { RefundRefused::NotCharged } else { RefundRefused::ReferenceUnknown });
    }
    if !of.offers {
        return Err(RefundRefused::NotOffered);
    }
    if of.is_anothers {
        return Err(RefundRefused::ReferenceTaken);
    }
    let left = of.charge.minor.get() - of.reserved_minor;
    // Also of a payment that is REFUNDED: by its own charge, of which nothing is left; another one may be on record.
    let left = Minor::new(left).ok_or(RefundRefused::NothingLeft)?;
    let amount = amount.unwrap_or(left);
    if amount > left { Err(RefundRefused::AboveCharge) } else { Ok(amount) }
}

/// The meaning of what came back (or did not) from one attempt to give money back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundVerdict {
    /// The gateway says that it gave this amount back.
    Refunded {
        /// The gateway's name of the refund.
        reference: String,
        /// What it says it gave back.
        amount: Money,
    },
    /// The gateway definitively refused.
    Declined {
        /// Its code.
        code: String,
    },
    /// Proven: the request was not executed and never will be.
    NotSent {
        /// Why.
        why: NotSent,
        /// When to try again, if somebody says.
        retry_after: Option<Duration>,
    },
    /// It runs, or will be known later.
    Underway {
        /// When to ask again, if the gateway says.
        retry_after: Option<Duration>,
    },
    /// A request may have reached the gateway and no trustworthy answer came.
    Unknown(Doubt),
    /// The gateway answered what cannot be true; a person must look.
    ContractViolation {
        /// What is wrong, for people; no secrets.
        what: String,
    },
}

impl RefundVerdict {
    /// The text stored with the attempt and counted.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refunded { .. } => "refunded",
            Self::Declined { .. } => "declined",
            Self::NotSent { .. } => "not_sent",
            Self::Underway { .. } => "underway",
            Self::Unknown(_) => "unknown",
            Self::ContractViolation { .. } => "contract_violation",
        }
    }

    /// From the reading that charges share: where it says charged, the money of this request moved.
    #[must_use]
    pub fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Charged { reference, amount } => Self::Refunded { reference, amount },
            Verdict::Declined(decline) => Self::Declined { code: decline.code },
            Verdict::NotSent { why, retry_after } => Self::NotSent { why, retry_after },
            Verdict::InProgress { retry_after } => Self::Underway { retry_after },
            Verdict::PendingAtGateway { .. } => Self::Underway { retry_after: None },
            Verdict::Unknown(doubt) => Self::Unknown(doubt),
            Verdict::ContractViolation { what } => Self::ContractViolation { what },
            // Refunds have no tombstones: whoever answers so answers another question.
            Verdict::Voided => Self::Unknown(Doubt::Unreadable),
        }
    }
}

/// What a look-up by a refund's key found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundLookup {
    /// The gateway knows the key, and this is what became of it.
    Found(RefundVerdict),
    /// The gateway does not show the key; that proves nothing.
    NotFound,
    /// Nothing was learned.
    Unavailable {
        /// When to ask again.
        retry_after: Option<Duration>,
    },
}

impl RefundLookup {
    /// From the reading that charges share.
    #[must_use]
    pub fn of(lookup: Lookup) -> Self {
        match lookup {
            Lookup::Found(verdict) => Self::Found(RefundVerdict::of(verdict)),
            Lookup::NotFound { .. } => Self::NotFound,
            Lookup::Unavailable { retry_after } => Self::Unavailable { retry_after },
        }
    }
}

/// How an answer was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnedBy {
    /// By a request to give money back, or by trying to make one.
    Request,
    /// By a look-up alone: this claim sent nothing.
    LookUp,
}

/// A refund as its decision sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefundView {
    /// What it gives back.
    pub amount: Money,
    /// Other claims that may have sent and have no answer.
    pub others_open: i32,
    /// How this claim learned what it did.
    pub by: LearnedBy,
    /// Claims since it was clean that ended without an answer that decides.
    pub asks: i16,
    /// Claims so far, this one included.
    pub attempt: i32,
    /// From then on the gateway may have forgotten the key; `None`: nobody used it before this claim.
    pub key_ends_at: Option<DateTime<Utc>>,
}

/// What of the sends so far an answer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundSends {
    /// None: this claim may have sent too.
    None,
    /// The one of this claim: it sent nothing, or what it sent did nothing.
    Own,
    /// All of the key.
    All,
}

/// What becomes of a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundDecision {
    /// Where it stands then.
    pub to: RefundStatus,
    /// When it is claimed again; `None`: never, or a person has to look.
    pub next_at: Option<DateTime<Utc>>,
    /// Which sends are answered.
    pub answered: RefundSends,
}

/// Decides what one attempt's verdict makes of a refund. `replays_declines`: the gateway answers a decline again under
/// the same key for as long as it knows that, so that it speaks for every send of it.
#[must_use]
pub fn decide(
    view: &RefundView,
    verdict: &RefundVerdict,
    replays_declines: bool,
    ladders: &Ladders,
    now: DateTime<Utc>,
    jitter: PerMille,
) -> RefundDecision {
    let after = |wait: Duration| {
        Some((now + TimeDelta::from_std(wait).unwrap_or(TimeDelta::hours(1))).trunc_subsecs(6))
    };
    let end = |to, answered| RefundDecision { to, next_at: None, answered };
    let key_life_left = view.key_ends_at.map_or(TimeDelta::MAX, |end| end - now);
    let asked = |advice, answered| RefundDecision {
        to: RefundStatus::Unknown,
        next_at: after(ladders.before_ask(view.asks, advice, jitter)),
        answered,
    };
    let is_alone = view.others_open == 0;
    // One request was ever made under the key, by the claim before this one, and the gateway shows what it came to.
    // A later question cannot tell: of two requests the gateway shows the one that it refused, while the other is
    // still on its way.
    let is_its_answer = view.by == LearnedBy::LookUp && view.others_open == 1 && view.asks == 1;
    let speaks_for_all = replays_declines && key_life_left > KEY_LIFE_TO_CLOSE_OPEN_SENDS;
    match verdict {
        RefundVerdict::Refunded { amount, .. } if *amount == view.amount => {
            end(RefundStatus::Refunded, RefundSends::All)
        }
        // It stays as uncertain as it is, and nobody sends or asks any more.
        RefundVerdict::Refunded { .. } | RefundVerdict::ContractViolation { .. } => {
            end(RefundStatus::Unknown, RefundSends::None)
        }
        RefundVerdict::Declined { .. } if is_alone || is_its_answer || speaks_for_all => {
            end(RefundStatus::Declined, RefundSends::All)
        }
        // Of an older send nothing is known: at the end of the ladder a person has to look.
        RefundVerdict::Declined { .. } if usize::try_from(view.asks).unwrap_or(0) >= ladders.reask.len() => {
            end(RefundStatus::Unknown, RefundSends::Own)
        }
        RefundVerdict::Declined { .. } => asked(None, RefundSends::Own),
        // The gateway calls the request itself wrong, and it will say so for ever.
        RefundVerdict::NotSent { why: NotSent::Rejected, .. } if is_alone => {
            end(RefundStatus::Declined, RefundSends::All)
        }
        RefundVerdict::NotSent { retry_after, .. } if is_alone => RefundDecision {
            to: RefundStatus::Approved,
            next_at: after(ladders.after_held_back(rung(view.attempt), *retry_after, jitter)),
            answered: RefundSends::Own,
        },
        // The gateway shows nothing of the key, and may have forgotten it: neither sending nor asking decides any more
        // (rule R6).
        RefundVerdict::NotSent { why: NotSent::KeyExpired, .. } if key_life_left <= TimeDelta::zero() => {
            end(RefundStatus::Unknown, RefundSends::Own)
        }
        RefundVerdict::NotSent { retry_after, .. } => asked(*retry_after, RefundSends::Own),
        RefundVerdict::Underway { retry_after } => RefundDecision {
            to: RefundStatus::Unknown,
            next_at: after(ladders.while_pending(view.asks, *retry_after, jitter)),
            answered: RefundSends::None,
        },
        RefundVerdict::Unknown(_) => asked(None, RefundSends::None),
    }
}

fn rung(attempt: i32) -> i16 {
    i16::try_from(attempt.max(1) - 1).unwrap_or(i16::MAX)
}

#[cfg(test)]
#[path = "refund_tests.rs"]
mod tests;
