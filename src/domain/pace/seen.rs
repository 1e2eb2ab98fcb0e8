//! How calls to a gateway end, as far as pacing and the breaker care, and how many did of late.
//!
//! A decline is an answer, and so is a 400: the gateway is well. Pure; if this dies here, counts start anew.

use crate::domain::verdict::{Doubt, Lookup, NotSent, Verdict};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// How one call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The gateway answered, whatever it was.
    Answered,
    /// It did not, or not as a gateway does.
    Failed,
    /// It takes no more for now; how long, if it said so.
    RateLimited(Option<Duration>),
    /// It does not know us.
    Unauthorised,
}

impl Call {
    /// Of a charge or a void; `None` if there was no call.
    #[must_use]
    pub fn of(verdict: &Verdict) -> Option<Self> {
        match verdict {
            Verdict::Charged { .. }
            | Verdict::Declined(_)
            | Verdict::InProgress { .. }
            | Verdict::PendingAtGateway { .. }
            | Verdict::ContractViolation { .. }
            | Verdict::Voided => Some(Self::Answered),
            Verdict::NotSent { why, retry_after } => match why {
                NotSent::Dns | NotSent::Refused | NotSent::Tls => Some(Self::Failed),
                NotSent::NotAuthorised => Some(Self::Unauthorised),
                NotSent::RateLimited => Some(Self::RateLimited(*retry_after)),
                NotSent::Rejected => Some(Self::Answered),
                NotSent::BreakerOpen
                | NotSent::Paced
                | NotSent::LeaseTooShort
                | NotSent::KeyExpired
                | NotSent::DeadlinePassed
                | NotSent::Killed
                | NotSent::CancelWished
                | NotSent::NotStarted
                | NotSent::HostClockEarly
                | NotSent::OnlyAsked => None,
            },
            Verdict::Unknown(doubt) => match doubt {
                Doubt::TimedOut
                | Doubt::ConnectionLost
                | Doubt::ServerError
                | Doubt::Unreadable
                | Doubt::NotTheGateway => Some(Self::Failed),
                Doubt::KeyMismatch => Some(Self::Answered),
                Doubt::LeaseExpired => None,
            },
        }
    }

    /// Of a look-up. One that failed and says when to come again was refused for its rate, or by a gateway
    /// that wants to be left alone; both are obeyed alike.
    #[must_use]
    pub fn of_lookup(found: &Lookup) -> Self {
        match found {
            Lookup::Found(_) | Lookup::NotFound { .. } => Self::Answered,
            Lookup::Unavailable { retry_after: Some(length) } => Self::RateLimited(Some(*length)),
            Lookup::Unavailable { retry_after: None } => Self::Failed,
        }
    }
}

/// How many calls ended how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Answered.
    pub answered: u32,
    /// Failed.
    pub failed: u32,
    /// Refused for the rate.
    pub rate_limited: u32,
    /// Refused because of who we are.
    pub unauthorised: u32,
    /// The longest that any of them was told to wait.
    pub retry_after: Option<Duration>,
}

impl Seen {
    /// One more.
    pub fn add(&mut self, call: Call) {
        match call {
            Call::Answered => self.answered += 1,
            Call::Failed => self.failed += 1,
            Call::Unauthorised => self.unauthorised += 1,
            Call::RateLimited(length) => {
                self.rate_limited += 1;
                self.retry_after = self.retry_after.max(length);
            }
        }
    }

    /// All of them.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.answered + self.failed + self.rate_limited + self.unauthorised
    }

    /// Something that others have to know at once.
    #[must_use]
    pub fn is_trouble(&self) -> bool {
        self.calls() > self.answered
    }
}

/// Seconds looked back on.
const SECONDS: usize = 10;

/// Calls of the last ten seconds, by the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The newest second, from 1970.
    pub second: i64,
    /// Calls in it and in the nine before, newest first.
    pub calls: [u32; SECONDS],
    /// Those that failed.
    pub failed: [u32; SECONDS],
}

impl Default for Window {
    fn default() -> Self {
        Self { second: 0, calls: [0; SECONDS], failed: [0; SECONDS] }
    }
}

impl Window {
    /// Counts what was seen until `now`.
    pub(super) fn count(&mut self, seen: &Seen, now: DateTime<Utc>) {
        let passed = usize::try_from(now.timestamp() - self.second).unwrap_or(0).min(SECONDS);
        self.second = self.second.max(now.timestamp());
        for counts in [&mut self.calls, &mut self.failed] {
            counts.rotate_right(passed % SECONDS);
            counts[..passed].fill(0);
        }
        self.calls[0] += seen.calls();
        self.failed[0] += seen.failed;
    }

    /// Calls of the ten seconds that end now, and the failed ones among them.
    #[must_use]
    pub fn sums(&self, now: DateTime<Utc>) -> (u32, u32) {
        let passed = usize::try_from(now.timestamp() - self.second).unwrap_or(0).min(SECONDS);
        let of = |counts: &[u32; SECONDS]| counts[..SECONDS - passed].iter().sum();
        (of(&self.calls), of(&self.failed))
    }
}
