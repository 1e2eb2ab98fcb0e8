//! What a gateway's answer means. "Unknown" is a verdict, never an error.

use super::money::Money;
use std::time::Duration;

/// An enumeration and the list of all of it, in its order.
macro_rules! kinds {
    ($( #[$doc:meta] )+ $name:ident { $( $( #[$said:meta] )+ $kind:ident, )+ }) => {
        $( #[$doc] )+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $( $( #[$said] )+ $kind, )+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[ $( Self::$kind, )+ ];
        }
    };
}

/// The meaning of what came back (or did not) from one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The gateway says that it charged this amount, which need not be the one asked for.
    Charged {
        /// The gateway's own reference.
        reference: String,
        /// What the gateway says it charged, in its words converted exactly.
        amount: Money,
    },
    /// The gateway definitively refused under this epoch's key.
    Declined(Decline),
    /// Proven: the request was not executed and never will be.
    NotSent {
        /// Why nothing was sent.
        why: NotSent,
        /// The gateway's or our own advice on when to try again.
        retry_after: Option<Duration>,
    },
    /// The gateway is still executing an earlier request under this key.
    InProgress {
        /// When the gateway asks to be asked again.
        retry_after: Option<Duration>,
    },
    /// The gateway accepted it and will know later.
    PendingAtGateway {
        /// The gateway's own reference, if it gave one.
        reference: Option<String>,
    },
    /// A request may have reached the gateway and no trustworthy answer came.
    Unknown(Doubt),
    /// The gateway answered something that cannot be true; a human must look.
    ContractViolation {
        /// What is wrong, for people; no secrets, no payee.
        what: String,
    },
    /// The gateway proved a tombstone: every later charge under this key is refused.
    Voided,
}

impl Verdict {
    /// The text stored with the attempt and counted.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Charged { .. } => "charged",
            Self::Declined(_) => "declined",
            Self::NotSent { .. } => "not_sent",
            Self::InProgress { .. } => "in_progress",
            Self::PendingAtGateway { .. } => "pending_at_gateway",
            Self::Unknown(_) => "unknown",
            Self::ContractViolation { .. } => "contract_violation",
            Self::Voided => "voided",
        }
    }
}

/// A definitive refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decline {
    /// What it means for us.
    pub class: DeclineClass,
    /// The gateway's own code, ≤ 64 characters.
    pub code: String,
    /// The network's code, where given.
    pub network_code: Option<String>,
    /// The gateway's reference of the refused try, where given.
    pub reference: Option<String>,
    /// The gateway's advice on when to try again.
    pub retry_after: Option<Duration>,
}

kinds! {
    /// Decline classes with their off-session meaning.
    DeclineClass {
        /// Will never succeed: FAILED now.
        Hard,
        /// Needs the payer to act: FAILED with its own code.
        NeedsCustomer,
        /// May succeed later: next epoch on the ladder.
        Soft,
        /// Nobody knows; one more try by default.
        Ambiguous,
        /// A code we have no row for: as hard, and an alert.
        Unmapped,
    }
}

kinds! {
    /// Proofs that nothing was executed.
    NotSent {
        /// The name did not resolve.
        Dns,
        /// The connection was refused.
        Refused,
        /// The TLS handshake failed.
        Tls,
        /// 401 or 403 in the gateway's own shape; opens that account's breaker.
        NotAuthorised,
        /// 429 in the gateway's own shape.
        RateLimited,
        /// A 400 in the gateway's own shape that provably did not execute.
        Rejected,
        /// Our own breaker is open.
        BreakerOpen,
        /// Our own pacing had no permit.
        Paced,
        /// The check right before the write said no: too little lease left.
        LeaseTooShort,
        /// The check right before the write said no: the key is too old (rule R6).
        KeyExpired,
        /// The check right before the write said no: `executeBefore` passed (rule R10).
        DeadlinePassed,
        /// The check right before the write said no: a kill switch is thrown.
        Killed,
        /// The check right before the write said no: the client wished to cancel.
        CancelWished,
        /// The worker is draining, or the row's batch was not started.
        NotStarted,
        /// The host's clock says that it is not due, although the database's did (rule R9).
        HostClockEarly,
        /// This claim only asked: the look-up did not decide and nothing was sent.
        OnlyAsked,
    }
}

impl NotSent {
    /// The text stored with the attempt.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Tls => "tls",
            Self::NotAuthorised => "not_authorised",
            Self::RateLimited => "rate_limited",
            Self::Rejected => "rejected",
            Self::BreakerOpen => "breaker_open",
            Self::Paced => "paced",
            Self::LeaseTooShort => "lease_too_short",
            Self::KeyExpired => "key_expired",
            Self::DeadlinePassed => "deadline_passed",
            Self::Killed => "killed",
            Self::CancelWished => "cancel_wished",
            Self::NotStarted => "not_started",
            Self::HostClockEarly => "host_clock_early",
            Self::OnlyAsked => "only_asked",
        }
    }
}

kinds! {
    /// Why we do not know.
    Doubt {
        /// No answer in time after bytes were written.
        TimedOut,
        /// The connection broke after bytes were written.
        ConnectionLost,
        /// 5xx or 408, from whoever sent it.
        ServerError,
        /// An answer that is cut, too large, not JSON, or inconsistent with itself.
        Unreadable,
        /// A refusal that is not in the gateway's own shape (a proxy's page).
        NotTheGateway,
        /// The gateway says that the key was used with another body.
        KeyMismatch,
        /// The lease ran out; whatever the worker did is not known.
        LeaseExpired,
    }
}

/// What a look-up by key found (rule R7: it answers about one key, and "not found" proves nothing).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The gateway knows the key, and this is what became of it.
    Found(Verdict),
    /// The gateway does not show the key (yet).
    NotFound {
        /// How long until a send that happened before this answer must have become visible, if the gateway
        /// says. A length, because an instant would be one of the host's clock.
        visible_after: Option<Duration>,
    },
    /// The look-up itself failed; nothing learned.
    Unavailable {
        /// When to ask again.
        retry_after: Option<Duration>,
    },
}
