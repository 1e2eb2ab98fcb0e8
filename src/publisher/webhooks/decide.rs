//! What an answer, or none, means for a delivery and its endpoint: pure and exhaustive.
//!
//! **Promises.** 2xx and nothing else is a success. A wait is never shorter than its rung or than what the receiver
//! asked for, up to a cap; jitter only lengthens. 410 ends the endpoint. If this dies, its caller does.

use crate::platform::config::Webhooks;
use crate::schedule::{Became, Stops};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// Why there was no answer. The texts are for the endpoint's owner: they name no address, since what a name means
/// inside is nobody's business outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The url is none that we call.
    Url,
    /// It names, or its name has, an address that we do not call.
    Forbidden,
    /// Its name has no address.
    Name,
    /// Nobody takes connections there.
    Connect,
    /// The certificate, or something else of TLS.
    Tls,
    /// No whole answer in time.
    TimedOut,
    /// The connection ended before an answer, or what came was none.
    Broken,
}

impl Fault {
    /// For the owner.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Url => "the url is none that is called",
            Self::Forbidden => "the url leads to an address that is not called",
            Self::Name => "the name has no address",
            Self::Connect => "no connection",
            Self::Tls => "TLS failed",
            Self::TimedOut => "no answer in time",
            Self::Broken => "the connection ended without an HTTP answer",
        }
    }
}

/// What a try met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Met {
    /// An answer.
    Answer {
        /// Its status.
        status: u16,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
        /// The beginning of its body, printable.
        excerpt: String,
    },
    /// None.
    Fault(Fault),
}

/// What becomes of a delivery whose try met this after `rung` failures, and what it says of the endpoint.
pub(super) fn decide(met: &Met, rung: i32, settings: &Webhooks, jitter_per_mille: u32) -> (Became, Stops) {
    let (status, advice) = match met {
        Met::Answer { status, retry_after, .. } => (Some(*status), *retry_after),
        Met::Fault(_) => (None, None),
    };
    let advice = advice.map(|advice| advice.min(settings.retry_after_cap));
    if status.is_some_and(|status| (200..300).contains(&status)) {
        return (Became::Delivered, Stops::Nothing);
    }
    if status == Some(410) {
        return (Became::Failed, Stops::ForGood);
    }
    let stops = match (status, advice) {
        // It is the receiver that is busy, and not this event that it cannot take.
        (Some(429 | 503), Some(advice)) => Stops::For(advice),
        _ => Stops::Nothing,
    };
    let rung = usize::try_from(rung).unwrap_or(usize::MAX);
    let Some(wait) = settings.ladder.get(rung) else { return (Became::Failed, stops) };
    let base = (*wait).max(advice.unwrap_or_default());
    let most = base.saturating_mul(settings.jitter_percent) / 100;
    let added = most.saturating_mul(jitter_per_mille.min(999)) / 1_000;
    (Became::Owed(base.saturating_add(added)), stops)
}

/// `Retry-After`, as seconds or as a date.
pub(super) fn retry_after(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at: DateTime<Utc> = httpdate::parse_http_date(text).ok()?.into();
    Some((at - now).to_std().unwrap_or_default())
}

/// The beginning of an answer as people may be shown it: letters, digits and what stands between them; nothing that
/// moves a cursor or turns the direction of writing.
pub(super) fn printable(bytes: &[u8], most: usize) -> String {
    let shown = |c: char| if c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric() { c } else { '·' };
    String::from_utf8_lossy(bytes).chars().map(shown).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<u64>) -> Met {
        Met::Answer { status, retry_after: retry_after.map(Duration::from_secs), excerpt: String::new() }
    }

    fn decided(met: &Met, rung: i32) -> (Became, Stops) {
        decide(met, rung, &Webhooks::default(), 0)
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn only_2xx_is_a_success() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(decided(&answer(status, None), 0), (Became::Delivered, Stops::Nothing), "{status}");
        }
        for status in
            [101, 199, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 422, 429, 500, 502, 504, 599]
        {
            assert_eq!(
                decided(&answer(status, None), 0),
                (Became::Owed(secs(5)), Stops::Nothing),
                "{status}"
            );
        }
    }

    #[test]
    fn the_ladder_is_climbed_to_its_end_and_takes_more_than_a_day() {
        let waits: Vec<Became> = (0..9).map(|rung| decided(&Met::Fault(Fault::TimedOut), rung).0).collect();
        let ladder = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].map(|n| Became::Owed(secs(n)));
        assert_eq!(waits[..7], ladder);
        assert_eq!(waits[7..], [Became::Failed, Became::Failed]);
        assert!(Webhooks::default().ladder.iter().sum::<Duration>() > secs(86_400));
    }

    #[test]
    fn every_fault_is_tried_again_and_says_what_it_was() {
        use Fault as F;
        let all = [F::Url, F::Forbidden, F::Name, F::Connect, F::Tls, F::TimedOut, F::Broken];
        for fault in all {
            assert_eq!(decided(&Met::Fault(fault), 1).0, Became::Owed(secs(300)), "{fault:?}");
            assert!((5..=200).contains(&fault.as_str().len()), "{fault:?}");
        }
    }

    #[test]
    fn retry_after_lengthens_up_to_its_cap_and_stops_a_busy_endpoint() {
        assert_eq!(decided(&answer(503, Some(60)), 0), (Became::Owed(secs(60)), Stops::For(secs(60))));
        assert_eq!(decided(&answer(429, Some(1)), 1), (Became::Owed(secs(300)), Stops::For(secs(1))));
        assert_eq!(decided(&answer(500, Some(60)), 0), (Became::Owed(secs(60)), Stops::Nothing), "one event");
        let day = secs(86_400);
        assert_eq!(decided(&answer(503, Some(u64::MAX)), 0), (Became::Owed(day), Stops::For(day)));
        assert_eq!(decided(&answer(503, Some(9)), 7), (Became::Failed, Stops::For(secs(9))), "the last rung");
    }

    #[test]
    fn gone_ends_the_endpoint_whatever_the_rung() {
        for rung in [0, 7, 100] {
            assert_eq!(decided(&answer(410, Some(5)), rung), (Became::Failed, Stops::ForGood));
        }
    }

    #[test]
    fn jitter_only_lengthens_and_nothing_overflows() {
        let settings =
            Webhooks { ladder: vec![secs(100), Duration::MAX], jitter_percent: 20, ..Webhooks::default() };
        let waited = |rung, jitter| decide(&answer(500, None), rung, &settings, jitter).0;
        assert_eq!(waited(0, 0), Became::Owed(secs(100)));
        assert_eq!(waited(0, 500), Became::Owed(secs(110)));
        assert_eq!(
            waited(0, 5_000),
            Became::Owed(Duration::from_millis(119_980)),
            "no more than 999 per mille"
        );
        assert_eq!(waited(1, 999), Became::Owed(Duration::MAX));
        assert_eq!(waited(-1, 0), Became::Failed, "no such rung");
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        let now = DateTime::from_timestamp(1_795_960_020, 0).unwrap();
        let date = |at: DateTime<Utc>| httpdate::fmt_http_date(at.into());
        assert_eq!(retry_after(" 120 ", now), Some(secs(120)));
        assert_eq!(retry_after(&date(now + chrono::TimeDelta::seconds(90)), now), Some(secs(90)));
        assert_eq!(retry_after(&date(now - chrono::TimeDelta::days(1)), now), Some(secs(0)));
        for text in ["", "soon", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(retry_after(text, now), None, "{text}");
        }
    }

    #[test]
    fn an_excerpt_is_printable_and_short() {
        assert_eq!(printable(b"ok: {\"a\":1}\r\n\t\0\x1b[31m", 100), "ok: {\"a\":1}·····[31m");
        assert_eq!(printable("zu spät \u{202e}moneys \u{200b}".as_bytes(), 100), "zu spät ·moneys ·");
        assert_eq!(printable(&[0xff, b'a', 0xc3], 100), "·a·");
        assert_eq!(printable("äöü".as_bytes(), 2), "äö");
    }
}
