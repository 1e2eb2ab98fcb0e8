//! The last call that failed, in words: why a breaker opened, for the page and the log that people are sent to.
//!
//! **Promises.** Of calls that failed since the last beat a refusal is told before an outage, which is what decides what
//! to do, and a look-up, which does not say how it failed, only where nothing else is known. What was told stays until
//! something else fails or the gateway is well. One of a few fixed texts and an HTTP status, so that it is short and holds nothing of what a gateway
//! wrote. Kept by each worker of its own calls. If this dies here, a breaker has no cause and nothing else changes.

use crate::domain::verdict::{Doubt, Lookup, NotSent, Verdict};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    what: &'static str,
    http: Option<u16>,
    says: Says,
}

/// What it tells people to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    /// Not even how it failed.
    Nothing,
    /// To wait.
    Outage,
    /// To put something right.
    Refused,
}

impl Failure {
    /// Of a charge or a void; `None` for what opens no breaker.
    pub(super) fn of(verdict: &Verdict, http: Option<u16>) -> Option<Self> {
        let what = match verdict {
            Verdict::NotSent { why: NotSent::Dns, .. } => "its name did not resolve",
            Verdict::NotSent { why: NotSent::Refused, .. } => "the connection was refused",
            Verdict::NotSent { why: NotSent::Tls, .. } => "the TLS handshake failed",
            Verdict::NotSent { why: NotSent::NotAuthorised, .. } => return Some(Self::unauthorised(http)),
            Verdict::Unknown(Doubt::TimedOut) => "no answer in time",
            Verdict::Unknown(Doubt::ConnectionLost) => "the connection broke before an answer",
            Verdict::Unknown(Doubt::ServerError) => "a server error",
            Verdict::Unknown(Doubt::Unreadable) => "an answer that cannot be read",
            Verdict::Unknown(Doubt::NotTheGateway) => "an answer that is not the gateway's",
            Verdict::NotSent { .. }
            | Verdict::Unknown(Doubt::KeyMismatch | Doubt::LeaseExpired)
            | Verdict::Charged { .. }
            | Verdict::Declined(_)
            | Verdict::InProgress { .. }
            | Verdict::PendingAtGateway { .. }
            | Verdict::ContractViolation { .. }
            | Verdict::Voided => return None,
        };
        Some(Self { what, http, says: Says::Outage })
    }

    /// Of a look-up, which does not say how it failed.
    pub(super) fn of_lookup(found: &Lookup) -> Option<Self> {
        match found {
            Lookup::Unavailable { retry_after: None } => {
                Some(Self { what: "a look-up without a usable answer", http: None, says: Says::Nothing })
            }
            Lookup::Unavailable { retry_after: Some(_) } | Lookup::Found(_) | Lookup::NotFound { .. } => None,
        }
    }

    /// Of any call.
    pub(super) fn unauthorised(http: Option<u16>) -> Self {
        Self { what: "our credentials were refused", http, says: Says::Refused }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.http {
            Some(http) => write!(to, "{} (HTTP {http})", self.what),
            None => to.write_str(self.what),
        }
    }
}

/// The last one that this worker saw, and whether a beat has told it.
#[derive(Debug, Default)]
pub(super) struct LastFailure(Mutex<Option<(Failure, bool)>>);

impl LastFailure {
    fn last(&self) -> MutexGuard<'_, Option<(Failure, bool)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call ended; one that went well changes nothing.
    pub(super) fn note(&self, failure: Option<Failure>) {
        let Some(failure) = failure else { return };
        let mut last = self.last();
        let says_more = match *last {
            None => true,
            Some((_, true)) => failure.says > Says::Nothing,
            Some((known, false)) => failure.says >= known.says,
        };
        if says_more {
            *last = Some((failure, false));
        }
    }

    /// For people; `None`: no call of this worker failed.
    pub(super) fn told(&self) -> Option<String> {
        self.last().map(|(it, _)| it.to_string())
    }

    /// A beat got through. `is_well`: nothing had failed, and calls may start.
    pub(super) fn beaten(&self, is_well: bool) {
        let mut last = self.last();
        *last = last.filter(|_| !is_well).map(|(it, _)| (it, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::pace::Call;

    #[test]
    fn what_opens_a_breaker_has_a_cause_and_what_does_not_has_none() {
        let not_sent = NotSent::ALL.iter().map(|why| Verdict::NotSent { why: *why, retry_after: None });
        let unknown = Doubt::ALL.iter().map(|doubt| Verdict::Unknown(*doubt));
        for verdict in not_sent.chain(unknown).chain([Verdict::Voided]) {
            let opens = matches!(Call::of(&verdict), Some(Call::Failed | Call::Unauthorised));
            assert_eq!(Failure::of(&verdict, None).is_some(), opens, "{verdict:?}");
        }
        for (found, fails) in [
            (Lookup::Unavailable { retry_after: None }, true),
            (Lookup::Found(Verdict::Voided), false),
            (Lookup::NotFound { visible_after: None }, false),
        ] {
            assert_eq!(Failure::of_lookup(&found).is_some(), fails, "{found:?}");
        }
    }

    #[test]
    fn the_last_failure_is_told_with_its_status_and_a_call_that_went_well_does_not_hide_it() {
        let last = LastFailure::default();
        assert_eq!(last.told(), None);
        last.note(Failure::of(&Verdict::Unknown(Doubt::TimedOut), None));
        assert_eq!(last.told().as_deref(), Some("no answer in time"));
        last.note(Failure::of(&Verdict::Unknown(Doubt::ServerError), Some(503)));
        last.note(Failure::of(&Verdict::Voided, Some(200)));
        assert_eq!(last.told().as_deref(), Some("a server error (HTTP 503)"));
        last.note(Some(Failure::unauthorised(Some(401))));
        assert_eq!(last.told().as_deref(), Some("our credentials were refused (HTTP 401)"));
    }

    #[test]
    fn what_decides_what_to_do_is_not_hidden_by_what_says_less_nor_kept_once_all_is_well() {
        let last = LastFailure::default();
        let told = || last.told().unwrap_or_default();
        let timed_out = Failure::of(&Verdict::Unknown(Doubt::TimedOut), None);
        let look_up = Failure::of_lookup(&Lookup::Unavailable { retry_after: None });
        last.note(look_up);
        assert_eq!(told(), "a look-up without a usable answer", "nothing else is known");
        last.note(Some(Failure::unauthorised(Some(401))));
        last.note(timed_out);
        assert_eq!(told(), "our credentials were refused (HTTP 401)", "of one beat");
        last.beaten(false);
        last.note(look_up);
        assert_eq!(
            told(),
            "our credentials were refused (HTTP 401)",
            "a probe that looked up says nothing new"
        );
        last.note(timed_out);
        assert_eq!(told(), "no answer in time", "of a later beat");
        last.beaten(true);
        assert_eq!(last.told(), None);
    }
}
