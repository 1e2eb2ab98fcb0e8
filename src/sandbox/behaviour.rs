//! What the simulated gateway does, said by the destination reference.
//!
//! A reference is one behaviour or a chain of them joined by `|`. Each executed charge call of one
//! *payment* (whatever its key's epoch, so that "declined, then paid" can be told) takes the next
//! link; the last one repeats. A call answered from a stored result, or refused because another is
//! in flight, executes nothing and takes no link.

use super::book::Mood;
use std::time::Duration;

/// Longest reference read, in bytes.
const REFERENCE_MAX: usize = 255;

/// Longest wait that a reference may ask for.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// One executed charge call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// `sim_ok`: charged.
    Ok,
    /// `sim_slow_<ms>`: charged, answered that much later.
    Slow(Duration),
    /// `sim_decline_<code>`: declined with that code.
    Decline(String),
    /// `sim_429_<s>`: 429 with Retry-After; as the last link, charged once `s` seconds have passed.
    RateLimited(Duration),
    /// `sim_in_use_<n>`: 409 for the first `n` calls, then charged.
    InUse(u32),
    /// `sim_500_charged`: charged, answered 500.
    ServerErrorCharged,
    /// `sim_500_sticky`: charged, answered 500 then and for ever under that key; look-ups tell.
    ServerErrorSticky,
    /// `sim_timeout_charged`: charged, not answered.
    TimeoutCharged,
    /// `sim_timeout_not_charged`: nothing done, not answered; as the last link, then as `sim_ok`.
    TimeoutNotCharged,
    /// `sim_void_lost`: as `sim_timeout_not_charged`; the first void of its key is performed and not answered.
    VoidLost,
    /// `sim_void_refused_<n>`: as `sim_timeout_not_charged`; the first `n` voids of its key get 503 and do nothing.
    VoidRefused(u32),
    /// `sim_reset_after_write`: charged, then the connection is reset.
    ResetAfterWrite,
    /// `sim_pending_<s>_ok`, `sim_pending_<s>_fail`: accepted, decided `after` that long.
    Pending {
        /// From acceptance to decision.
        after: Duration,
        /// How it ends.
        end: PendingEnd,
    },
    /// `sim_lookup_lag_<s>`: charged, then reset; look-ups do not show it for that long.
    LookupLag(Duration),
    /// `sim_lookup_404_charged`: charged, then reset; look-ups never show it.
    LookupNever,
    /// `sim_wrong_amount`: charged; answers and look-ups name one minor unit more.
    WrongAmount,
    /// `sim_wrong_currency`: charged; answers and look-ups name another currency.
    WrongCurrency,
    /// `sim_garbage`: charged, answered 200 with something that is not JSON.
    Garbage,
    /// `sim_refund_timeout`, `sim_refund_reset`, `sim_refund_lost`, `sim_refund_declined`: charged as `sim_ok`;
    /// its refunds are given back and not answered, or reset, or lost at the first request, or declined.
    Refund(Mood),
    /// `sim_chargeback_<s>`: charged; taken back after that long, which only the settlement report tells.
    ChargedBack(Duration),
}

/// How a pending charge ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingEnd {
    /// Charged.
    Charged,
    /// Declined with `processing_error`.
    Declined,
}

/// What every executed call of one payment does, in order. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain(Vec<Behaviour>);

impl Chain {
    /// Reads a destination reference; `None` if any link is not known: that is an invalid
    /// destination, not a silent success.
    pub(super) fn parse(reference: &str) -> Option<Self> {
        if reference.len() > REFERENCE_MAX {
            return None;
        }
        reference.split('|').map(Behaviour::parse).collect::<Option<Vec<_>>>().map(Self)
    }

    /// The behaviour of the call after `calls` executed ones, and how often it ran before as the
    /// repeating last link.
    pub(super) fn link(&self, calls: u32) -> (&Behaviour, u32) {
        // A chain has at most 255 bytes, so its length fits.
        let last = u32::try_from(self.0.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let at = calls.min(last);
        let link = self.0.get(usize::try_from(at).unwrap_or(0)).unwrap_or(&Behaviour::Ok);
        (link, calls - at)
    }
}

impl Behaviour {
    fn parse(link: &str) -> Option<Self> {
        let name = link.strip_prefix("sim_")?;
        Some(match name {
            "ok" => Self::Ok,
            "500_charged" => Self::ServerErrorCharged,
            "500_sticky" => Self::ServerErrorSticky,
            "timeout_charged" => Self::TimeoutCharged,
            "timeout_not_charged" => Self::TimeoutNotCharged,
            "void_lost" => Self::VoidLost,
            "reset_after_write" => Self::ResetAfterWrite,
            "lookup_404_charged" => Self::LookupNever,
            "wrong_amount" => Self::WrongAmount,
            "wrong_currency" => Self::WrongCurrency,
            "garbage" => Self::Garbage,
            "refund_timeout" => Self::Refund(Mood::HidesRefunds),
            "refund_reset" => Self::Refund(Mood::ResetsRefunds),
            "refund_lost" => Self::Refund(Mood::LosesRefunds),
            "refund_declined" => Self::Refund(Mood::RefusesRefunds),
            _ => return Self::parse_with_value(name),
        })
    }

    fn parse_with_value(name: &str) -> Option<Self> {
        let value = |prefix: &str| name.strip_prefix(prefix);
        if let Some(ms) = value("slow_") {
            return wait(ms, Duration::from_millis).map(Self::Slow);
        }
        if let Some(code) = value("decline_") {
            let fits = (1..=64).contains(&code.len())
                && code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            return fits.then(|| Self::Decline(code.to_owned()));
        }
        if let Some(seconds) = value("429_") {
            return wait(seconds, Duration::from_secs).map(Self::RateLimited);
        }
        if let Some(calls) = value("in_use_") {
            return number(calls).and_then(|n| u32::try_from(n).ok()).map(Self::InUse);
        }
        if let Some(voids) = value("void_refused_") {
            return number(voids).and_then(|n| u32::try_from(n).ok()).map(Self::VoidRefused);
        }
        if let Some(seconds) = value("lookup_lag_") {
            return wait(seconds, Duration::from_secs).map(Self::LookupLag);
        }
        if let Some(seconds) = value("chargeback_") {
            return wait(seconds, Duration::from_secs).map(Self::ChargedBack);
        }
        let (seconds, end) = value("pending_")?.split_once('_')?;
        let end = match end {
            "ok" => PendingEnd::Charged,
            "fail" => PendingEnd::Declined,
            _ => return None,
        };
        Some(Self::Pending { after: wait(seconds, Duration::from_secs)?, end })
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn wait(text: &str, unit: fn(u64) -> Duration) -> Option<Duration> {
    number(text).map(unit).filter(|length| *length <= WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(reference: &str) -> Option<Behaviour> {
        Chain::parse(reference).map(|chain| chain.link(0).0.clone())
    }

    #[test]
    fn every_documented_reference_is_read() {
        let s = Duration::from_secs;
        let cases = [
            ("sim_ok", Behaviour::Ok),
            ("sim_slow_250", Behaviour::Slow(Duration::from_millis(250))),
            ("sim_decline_insufficient_funds", Behaviour::Decline("insufficient_funds".into())),
            ("sim_429_3", Behaviour::RateLimited(s(3))),
            ("sim_in_use_2", Behaviour::InUse(2)),
            ("sim_500_charged", Behaviour::ServerErrorCharged),
            ("sim_500_sticky", Behaviour::ServerErrorSticky),
            ("sim_timeout_charged", Behaviour::TimeoutCharged),
            ("sim_timeout_not_charged", Behaviour::TimeoutNotCharged),
            ("sim_void_lost", Behaviour::VoidLost),
            ("sim_void_refused_2", Behaviour::VoidRefused(2)),
            ("sim_reset_after_write", Behaviour::ResetAfterWrite),
            ("sim_pending_5_ok", Behaviour::Pending { after: s(5), end: PendingEnd::Charged }),
            ("sim_pending_0_fail", Behaviour::Pending { after: s(0), end: PendingEnd::Declined }),
            ("sim_lookup_lag_9", Behaviour::LookupLag(s(9))),
            ("sim_lookup_404_charged", Behaviour::LookupNever),
            ("sim_wrong_amount", Behaviour::WrongAmount),
            ("sim_wrong_currency", Behaviour::WrongCurrency),
            ("sim_garbage", Behaviour::Garbage),
            ("sim_refund_timeout", Behaviour::Refund(Mood::HidesRefunds)),
            ("sim_refund_reset", Behaviour::Refund(Mood::ResetsRefunds)),
            ("sim_refund_lost", Behaviour::Refund(Mood::LosesRefunds)),
            ("sim_refund_declined", Behaviour::Refund(Mood::RefusesRefunds)),
            ("sim_chargeback_60", Behaviour::ChargedBack(s(60))),
        ];
        for (reference, wanted) in cases {
            assert_eq!(only(reference), Some(wanted), "{reference}");
        }
    }

    #[test]
    fn a_reference_that_is_not_known_is_refused_not_charged() {
        let long = format!("sim_ok{}", "|sim_ok".repeat(40));
        for reference in [
            "",
            "acct_1",
            "SIM_OK",
            "sim_ok ",
            "sim_ok|",
            "|sim_ok",
            "sim_slow_",
            "sim_slow_-1",
            "sim_slow_1.5",
            "sim_slow_99999999999",
            "sim_429_",
            "sim_decline_",
            "sim_decline_Two Words",
            "sim_pending_5",
            "sim_pending_5_maybe",
            "sim_chargeback_",
            "sim_chargeback_86401",
            &long,
        ] {
            assert_eq!(Chain::parse(reference), None, "{reference}");
        }
    }

    #[test]
    fn each_call_takes_the_next_link_and_the_last_repeats() {
        let chain = Chain::parse("sim_429_1|sim_decline_call_issuer|sim_ok").expect("a chain");
        let links: Vec<_> = (0..5).map(|calls| chain.link(calls)).collect();
        let decline = Behaviour::Decline("call_issuer".into());
        let limited = Behaviour::RateLimited(Duration::from_secs(1));
        assert_eq!(
            links,
            [(&limited, 0), (&decline, 0), (&Behaviour::Ok, 0), (&Behaviour::Ok, 1), (&Behaviour::Ok, 2)]
        );
    }
}
