//! What one request gets, before anything is remembered: from its behaviour to verdict and reply.

use super::behaviour::{Behaviour, PendingEnd};
use super::book::{Door, Refused, Reply};
use super::line::Verdict;
use super::wire::{self, Heads};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// What a request gets, before anything is remembered.
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) charged: bool,
    pub(super) then: Then,
}

pub(super) enum Then {
    Say(Reply),
    TellEntry(After),
}

pub(super) enum After {
    Execution(Duration),
    Replay,
}

impl Judged {
    pub(super) fn refuse(verdict: Verdict, status: u16, kind: &str, code: &str, heads: &Heads) -> Self {
        Self::say(verdict, status, kind, code, heads, None)
    }

    fn say(
        verdict: Verdict,
        status: u16,
        kind: &str,
        code: &str,
        heads: &Heads,
        retry_after_s: Option<u64>,
    ) -> Self {
        let body = wire::error(kind, code, heads.key.as_deref());
        let reply = Reply::Json { status, body, retry_after_s, replayed: false };
        Self { verdict, charged: false, then: Then::Say(reply) }
    }

    /// Refused by the account's quota.
    fn over_rate(wait_s: u64, heads: &Heads) -> Self {
        Self::say(Verdict::OverRate, 429, "rate_limited", "over_rate", heads, Some(wait_s))
    }

    /// Lost in an outage.
    fn away(reply: Reply) -> Self {
        Self { verdict: Verdict::Outage, charged: false, then: Then::Say(reply) }
    }

    /// What no request gets past; `None` where this gateway looks at it.
    pub(super) fn at_the_door(door: Door, heads: &Heads, refused: Option<&Refused>) -> Option<Self> {
        Some(match (door, refused) {
            (Door::Unavailable, _) => Self::away(Reply::unavailable()),
            (Door::Silent, _) => Self::away(Reply::Hold),
            (_, Some(Refused::Unauthorized)) => {
                Self::refuse(Verdict::Unauthorized, 401, "unauthorized", "unauthorized", heads)
            }
            (Door::OverRate(wait), _) => Self::over_rate(wait, heads),
            (Door::Open, Some(Refused::Malformed(what))) => {
                Self::refuse(Verdict::Invalid, 400, "invalid_request", what.code(), heads)
            }
            (Door::Open, None) => return None,
        })
    }

    /// The tombstone stands, or is planted now.
    pub(super) fn voided(reply: Reply) -> Self {
        Self { verdict: Verdict::Voided, charged: false, then: Then::Say(reply) }
    }

    /// A void that is not looked at.
    pub(super) fn void_refused() -> Self {
        Self { verdict: Verdict::VoidRefused, charged: false, then: Then::Say(Reply::unavailable()) }
    }

    pub(super) fn replay(then: Then) -> Self {
        Self { verdict: Verdict::Replayed, charged: false, then }
    }

    fn charge(then: Then) -> Self {
        Self { verdict: Verdict::Charged, charged: true, then }
    }

    pub(super) fn execute(
        link: &Behaviour,
        repeat: u32,
        limited_at: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
        heads: &Heads,
    ) -> Self {
        let plainly = || Self::charge(Then::TellEntry(After::Execution(Duration::ZERO)));
        match link {
            Behaviour::Ok
            | Behaviour::WrongAmount
            | Behaviour::WrongCurrency
            | Behaviour::Refund(_)
            | Behaviour::ChargedBack(_) => plainly(),
            Behaviour::Slow(length) => Self::charge(Then::TellEntry(After::Execution(*length))),
            Behaviour::Decline(_) => Self {
                verdict: Verdict::Declined,
                charged: false,
                then: Then::TellEntry(After::Execution(Duration::ZERO)),
            },
            Behaviour::RateLimited(length) => {
                let since = limited_at.filter(|_| repeat > 0).unwrap_or(now);
                let left = length.saturating_sub((now - since).to_std().unwrap_or_default());
                if repeat > 0 && left.is_zero() {
                    return plainly();
                }
                let seconds = left.as_millis().div_ceil(1_000);
                let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
                Self::say(Verdict::RateLimited, 429, "rate_limited", "rate_limited", heads, Some(seconds))
            }
            Behaviour::InUse(calls) if repeat < *calls => {
                Self::say(Verdict::InUse, 409, "in_use", "in_use", heads, None)
            }
            Behaviour::TimeoutNotCharged | Behaviour::VoidLost | Behaviour::VoidRefused(_) if repeat == 0 => {
                Self { verdict: Verdict::NotCharged, charged: false, then: Then::Say(Reply::Hold) }
            }
            Behaviour::InUse(_)
            | Behaviour::TimeoutNotCharged
            | Behaviour::VoidLost
            | Behaviour::VoidRefused(_) => plainly(),
            Behaviour::ServerErrorCharged | Behaviour::ServerErrorSticky => {
                Self::charge(Then::Say(server_error(false)))
            }
            Behaviour::TimeoutCharged => Self::charge(Then::Say(Reply::Hold)),
            Behaviour::ResetAfterWrite | Behaviour::LookupLag(_) | Behaviour::LookupNever => {
                Self::charge(Then::Say(Reply::Reset))
            }
            Behaviour::Garbage => Self::charge(Then::Say(Reply::Garbage)),
            Behaviour::Pending { end, .. } => Self {
                verdict: Verdict::Pending,
                charged: *end == PendingEnd::Charged,
                then: Then::TellEntry(After::Execution(Duration::ZERO)),
            },
        }
    }
}

pub(super) fn server_error(replayed: bool) -> Reply {
    let body = wire::error("server_error", "internal", None);
    Reply::Json { status: 500, body, retry_after_s: None, replayed }
}
