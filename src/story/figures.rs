//! The figures of the first page in words: is everything paid on time, and will it be?
//!
//! The dashboard makes them of what its process has read, `punctual top` of what the API answers; the words, their
//! order, and what is called calm or bad are here, once, so that two people on the telephone see the same. Pure.

use super::numbers::{count, length, milliseconds};
use crate::domain::lateness::{Late, PROMISE_MS};
use chrono::TimeDelta;
use std::time::Duration;

/// Counts of what waits go no further.
const MOST: i64 = 10_000;
/// Older than that, an outcome that nobody knows is somebody's to look at.
const UNKNOWN_FOR: Duration = Duration::from_secs(900);
/// The late scan takes what is so overdue.
const LATE_SCAN: Duration = Duration::from_secs(15);

/// How something stands: its colour, its shape and its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As promised.
    Good,
    /// Somebody should look.
    Look,
    /// A promise is at stake.
    Bad,
    /// A number, and nothing more.
    Quiet,
}

impl Tone {
    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Look => "look",
            Self::Bad => "bad",
            Self::Quiet => "quiet",
        }
    }

    /// For those who do not see colours.
    #[must_use]
    pub fn shape(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Look => "△",
            Self::Bad => "▲",
            Self::Quiet => "",
        }
    }
}

/// One number with what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// What it is.
    pub label: &'static str,
    /// The number.
    pub value: String,
    /// What it means.
    pub note: String,
    /// How that is.
    pub tone: Tone,
}

/// What a percentile is known to be, in words.
#[must_use]
pub fn within(late: Late) -> String {
    match late {
        Late::Below(ms) => format!("< {}", milliseconds(i64::from(ms))),
        Late::Beyond(ms) => format!("> {}", milliseconds(i64::from(ms))),
    }
}

/// Lateness of the first claims: the median, the 99th percentile, and how many were later than the promise. What nobody
/// has claimed yet is in none of them, so the oldest that is due counts too: the promise breaks while it waits.
#[must_use]
pub fn lateness(p50_p99: Option<(Late, Late)>, broken: i64, oldest_due: Duration) -> Figure {
    let label = "Lateness p50 / p99";
    let value =
        p50_p99.map_or_else(|| "–".to_owned(), |(p50, p99)| format!("{} / {}", within(p50), within(p99)));
    if oldest_due > promise() {
        let note = format!("the oldest waits for {} now", age(oldest_due));
        return Figure { label, value, note, tone: Tone::Bad };
    }
    let Some((_, p99)) = p50_p99 else {
        let note = "nothing was claimed in the last hour".to_owned();
        return Figure { label, value, note, tone: Tone::Quiet };
    };
    let is_p99_kept = matches!(p99, Late::Below(ms) if ms <= PROMISE_MS);
    let (tone, note) = match (broken, is_p99_kept) {
        (0, _) => (Tone::Good, "every claim within 60 s".to_owned()),
        (_, true) => (Tone::Look, format!("{} later than 60 s", count(broken))),
        (_, false) => (Tone::Bad, format!("{} later than 60 s", count(broken))),
    };
    Figure { label, value, note, tone }
}

fn promise() -> Duration {
    Duration::from_millis(u64::from(PROMISE_MS.unsigned_abs()))
}

/// What was completed, with what was in the last minute that is over; `None`: nobody adds minutes up.
#[must_use]
pub fn completed(in_the_hour: i64, in_the_last_minute: Option<i64>) -> Figure {
    let (note, tone) = match in_the_last_minute {
        Some(last) => (format!("{} in the last whole minute", count(last)), Tone::Quiet),
        None => ("no keeper adds them up".to_owned(), Tone::Look),
    };
    Figure { label: "Completed in the last hour", value: count(in_the_hour), note, tone }
}

/// What waits, counted no further than ten thousand each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// Due, and not claimed.
    pub due: i64,
    /// For how long the oldest of them.
    pub oldest_due: Duration,
    /// Of an outcome that nobody knows.
    pub unknown: i64,
    /// For how long the oldest of them.
    pub oldest_unknown: Duration,
    /// For a person.
    pub parked: i64,
    /// Under a claim.
    pub processing: i64,
    /// How long the oldest claim has outlived its lease.
    pub lease_overdue: Duration,
}

/// A number that was counted up to a bound.
fn bounded(counted: i64) -> String {
    format!("{}{}", count(counted.min(MOST)), if counted >= MOST { "+" } else { "" })
}

fn age(age: Duration) -> String {
    length(TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX))
}

/// What waits: for its turn, for an answer, for a person; and what is with gateways.
#[must_use]
pub fn waiting(of: &Waits) -> [Figure; 4] {
    let promise = promise();
    let due = Figure {
        label: "Due and waiting",
        value: bounded(of.due),
        note: if of.oldest_due.is_zero() {
            "nothing waits".into()
        } else {
            format!("the oldest for {}", age(of.oldest_due))
        },
        tone: match of.oldest_due {
            oldest if oldest > promise => Tone::Bad,
            oldest if oldest > LATE_SCAN => Tone::Look,
            _ => Tone::Good,
        },
    };
    let unknown = Figure {
        label: "Outcome unknown",
        value: bounded(of.unknown),
        note: if of.unknown == 0 {
            "every outcome is known".into()
        } else {
            format!("the oldest for {}; they are asked about", age(of.oldest_unknown))
        },
        tone: match of.unknown {
            0 => Tone::Good,
            _ if of.oldest_unknown > UNKNOWN_FOR => Tone::Bad,
            _ => Tone::Look,
        },
    };
    let parked = Figure {
        label: "Parked",
        value: bounded(of.parked),
        note: if of.parked == 0 { "nobody is waited for".into() } else { "wait for a person".into() },
        tone: if of.parked == 0 { Tone::Good } else { Tone::Look },
    };
    let processing = Figure {
        label: "With gateways now",
        value: bounded(of.processing),
        note: "under a claim".into(),
        tone: if of.lease_overdue > promise { Tone::Bad } else { Tone::Quiet },
    };
    [due, unknown, parked, processing]
}

/// What falls due in the next hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coming {
    /// Payments.
    pub due: i64,
    /// Counted, and not only to a bound.
    pub is_exact: bool,
    /// Those that the permitted rate leaves at its end; `None`: no rate is known.
    pub left: Option<i64>,
}

/// What falls due in the next hour, and whether the permitted rate is enough for it; `None`: not counted yet.
#[must_use]
pub fn coming(of: Option<Coming>) -> Figure {
    let label = "Due in the next hour";
    let Some(of) = of else {
        return Figure { label, value: "–".into(), note: "not counted yet".into(), tone: Tone::Quiet };
    };
    let (note, tone) = match of.left {
        None => ("no rate is set for the gateway".to_owned(), Tone::Quiet),
        Some(0) => ("the permitted rate is enough".to_owned(), Tone::Good),
        Some(left) => (format!("{} will be left at its end", count(left)), Tone::Look),
    };
    Figure { label, value: format!("{}{}", count(of.due), if of.is_exact { "" } else { "+" }), note, tone }
}

/// What stands between a gateway and charges, by its `status` in the API.
#[must_use]
pub fn stands(status: &str) -> &str {
    match status {
        "open" => "takes charges",
        "paused" => "paused by a person",
        "killed" => "switched off",
        "broken" => "breaker open",
        "probing" => "probing",
        "asked_to_wait" => "asked to wait",
        other => other,
    }
}

/// How a breaker stands, by its `state` in the API: an open one lets nothing through, which not everybody knows.
#[must_use]
pub fn breaker(state: &str) -> &str {
    match state {
        "closed" => "closed: calls go through",
        "open" => "open: no calls go through",
        "half_open" => "half open: one call is trying, no others go through",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_calm_until_somebody_should_look() {
        let tones = |of: &Waits| waiting(of).map(|figure| figure.tone);
        let calm = Waits::default();
        assert_eq!(tones(&calm), [Tone::Good, Tone::Good, Tone::Good, Tone::Quiet]);
        let minute = Duration::from_secs(61);
        let busy = Waits {
            oldest_due: minute,
            unknown: 2,
            oldest_unknown: Duration::from_secs(1_000),
            parked: 20_000,
            lease_overdue: minute,
            ..calm
        };
        assert_eq!(tones(&busy), [Tone::Bad, Tone::Bad, Tone::Look, Tone::Bad]);
        assert_eq!(waiting(&busy)[2].value, "10,000+");
        let overdue = Waits { oldest_due: Duration::from_secs(16), ..calm };
        assert_eq!(
            (tones(&overdue)[0], waiting(&overdue)[0].note.as_str()),
            (Tone::Look, "the oldest for 16 s")
        );
    }

    #[test]
    fn lateness_is_bad_where_the_promise_breaks_for_more_than_one_in_a_hundred() {
        let at_once = Duration::ZERO;
        let of = |p99, broken| {
            let figure = lateness(Some((Late::Below(50), p99)), broken, at_once);
            (figure.value, figure.note, figure.tone)
        };
        let fine = ("< 50 ms / < 1.0 s".into(), "every claim within 60 s".into(), Tone::Good);
        assert_eq!(of(Late::Below(1_000), 0), fine);
        assert_eq!(of(Late::Below(60_000), 3).2, Tone::Look);
        assert_eq!(of(Late::Below(600_000), 3).2, Tone::Bad);
        assert_eq!(of(Late::Beyond(600_000), 3).0, "< 50 ms / > 10 min");
        assert_eq!(lateness(None, 0, at_once).value, "–");
    }

    #[test]
    fn lateness_is_bad_while_somebody_waits_for_longer_than_the_promise() {
        let of = |claimed: Option<(Late, Late)>, seconds| {
            let figure = lateness(claimed, 0, Duration::from_secs(seconds));
            (figure.note, figure.tone)
        };
        let fast = Some((Late::Below(50), Late::Below(1_000)));
        assert_eq!(of(fast, 60).1, Tone::Good);
        let waits = ("the oldest waits for 2 min now".to_owned(), Tone::Bad);
        assert_eq!(of(fast, 120), waits);
        assert_eq!(of(None, 120), waits, "also where nothing is claimed at all, as in quarantine");
    }

    #[test]
    fn the_next_hour_says_what_the_permitted_rate_leaves() {
        let of = |left| coming(Some(Coming { due: 1_200, is_exact: false, left }));
        assert_eq!((of(Some(0)).value.as_str(), of(Some(0)).tone), ("1,200+", Tone::Good));
        assert_eq!((of(Some(7)).note.as_str(), of(None).tone), ("7 will be left at its end", Tone::Quiet));
        assert_eq!(coming(None).note, "not counted yet");
    }
}
