//! The first page: is everything paid on time, and will it be?
//!
//! What was due against what was completed, minute by minute, in the last hour, and what falls due in the next; how
//! late first claims were, with the line of the promise; what became of payments; how gateways answer; what waits for
//! somebody. All of it from the last look of `pulse`: the page asks the database nothing. The same pieces are what a
//! stream sends, so a page that is kept fresh and one that was just loaded are alike.
//!
//! Curves are drawn by a script from the tables that stand below them; without one the tables are there.

use super::pulse::{Seen, Stood, band_of};
use super::show::{self, Shown};
use super::text::{self, Html};
use super::{Frame, Place, Ui, Viewer};
use crate::domain::forecast::{Precision, drain};
use crate::domain::lateness::{BOUNDS_MS, Late, percentile};
use crate::intake::Account;
use crate::schedule::{GatewayStanding, Minute};
use askama::Template;
use axum::extract::State;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;
use std::time::Duration;

/// The promise, in milliseconds.
const PROMISE_MS: i32 = 60_000;
/// Counts of what waits go no further.
const MOST: i64 = 10_000;
/// Older than that, an outcome that nobody knows is somebody's to look at.
const UNKNOWN_FOR: Duration = Duration::from_secs(900);
/// The late scan takes what is so overdue.
const LATE_SCAN: Duration = Duration::from_secs(15);

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    now: Option<Html>,
    minutes: Option<Html>,
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    let shot = ui.shot().await;
    let now = shot.as_ref().map(|shot| now(&shot.seen, ui.0.intake.account()));
    let minutes = shot.as_ref().map(|shot| minutes(&shot.seen));
    show::page(&Page { frame: ui.frame(&viewer, Place::Overview).await, now, minutes })
}

/// How something stands: its colour, its shape and its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Look,
    Bad,
    Quiet,
}

impl Tone {
    fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Look => "look",
            Self::Bad => "bad",
            Self::Quiet => "quiet",
        }
    }

    fn shape(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Look => "△",
            Self::Bad => "▲",
            Self::Quiet => "",
        }
    }
}

/// One number with what it means.
struct Tile {
    label: &'static str,
    value: String,
    note: String,
    tone: Tone,
    /// The page that says more.
    way: &'static str,
}

/// For the template.
impl Tile {
    /// Too long for the large letters of a number.
    fn is_long(&self) -> bool {
        self.value.chars().count() > 9
    }
}

/// One part of what became of payments.
struct Part {
    word: &'static str,
    tone: &'static str,
    count: String,
    /// Of a thousand: where it begins in the bar, and how long it is.
    from: i64,
    length: i64,
}

/// One gateway.
struct Row {
    name: String,
    chip: Html,
    p50: String,
    p99: String,
    answers: String,
    unclear: String,
    in_flight: String,
    band: Vec<Option<Stood>>,
}

#[derive(Template)]
#[template(path = "overview_now.html")]
struct Now {
    tiles: Vec<Tile>,
    parts: Vec<Part>,
    gateways: Vec<Row>,
    /// Set while the database does not answer.
    stale_since: Option<String>,
}

impl Now {
    /// The band of a gateway in words.
    fn told(band: &[Option<Stood>]) -> String {
        let minutes = |which: Option<Stood>| band.iter().filter(|stood| **stood == which).count();
        format!(
            "{} minutes open, {} probing, {} paused, {} closed, {} not looked at",
            minutes(Some(Stood::Open)),
            minutes(Some(Stood::Probing)),
            minutes(Some(Stood::Paused)),
            minutes(Some(Stood::Closed)),
            minutes(None)
        )
    }
}

/// The whole hour in one.
#[derive(Debug, Default)]
struct Hour {
    completed: i64,
    retried: i64,
    unknown: i64,
    parked: i64,
    failed: i64,
    cancelled: i64,
    late: Vec<i64>,
}

impl Hour {
    fn of(minutes: &[Minute]) -> Self {
        let mut hour = Self { late: vec![0; BOUNDS_MS.len() + 1], ..Self::default() };
        for minute in minutes {
            hour.completed += minute.completed;
            hour.retried += minute.retried;
            hour.unknown += minute.unknown;
            hour.parked += minute.parked;
            hour.failed += minute.failed;
            hour.cancelled += minute.cancelled;
            for (sum, count) in hour.late.iter_mut().zip(&minute.late) {
                *sum += count;
            }
        }
        hour
    }

    /// First claims later than the promise.
    fn broken(&self) -> i64 {
        let kept = BOUNDS_MS.iter().filter(|bound| **bound <= PROMISE_MS).count();
        self.late.iter().skip(kept).sum()
    }
}

/// Tiles, outcomes and gateways.
pub(super) fn now(seen: &Seen, account: &Account) -> Html {
    let minutes = seen.pulse.as_ref().map(|pulse| pulse.minutes.as_slice()).unwrap_or_default();
    let hour = Hour::of(minutes);
    let mut tiles = vec![late(&hour), completed(&hour, minutes)];
    tiles.extend(waiting(seen));
    tiles.push(next(seen, account));
    text::written(&Now {
        tiles,
        parts: parts(&hour),
        gateways: seen.gateways.iter().map(|standing| row(seen, standing)).collect(),
        stale_since: seen.is_stale.then(|| format!("{} UTC", seen.at.format("%Y-%m-%d %H:%M:%S"))),
    })
}

/// What a percentile is known to be, in words.
fn within(late: Late) -> String {
    match late {
        Late::Below(ms) => format!("< {}", text::milliseconds(i64::from(ms))),
        Late::Beyond(ms) => format!("> {}", text::milliseconds(i64::from(ms))),
    }
}

/// Lateness of the first claims.
fn late(hour: &Hour) -> Tile {
    let label = "Lateness p50 / p99";
    let Some((p50, p99)) = percentile(&hour.late, 500).zip(percentile(&hour.late, 990)) else {
        let note = "nothing fell due in the last hour".to_owned();
        return Tile { label, value: "–".into(), note, tone: Tone::Quiet, way: "" };
    };
    let broken = hour.broken();
    let is_p99_kept = matches!(p99, Late::Below(ms) if ms <= PROMISE_MS);
    let (tone, note) = match (broken, is_p99_kept) {
        (0, _) => (Tone::Good, "every one within 60 s".to_owned()),
        (_, true) => (Tone::Look, format!("{} later than 60 s", text::count(broken))),
        (_, false) => (Tone::Bad, format!("{} later than 60 s", text::count(broken))),
    };
    Tile { label, value: format!("{} / {}", within(p50), within(p99)), note, tone, way: "" }
}

fn completed(hour: &Hour, minutes: &[Minute]) -> Tile {
    let last = minutes.iter().rev().find(|minute| minute.due.is_some());
    let (note, tone) = match last {
        Some(last) => (format!("{} in the last whole minute", text::count(last.completed)), Tone::Quiet),
        None => ("no keeper adds them up".to_owned(), Tone::Look),
    };
    let (label, value) = ("Completed in the last hour", text::count(hour.completed));
    Tile { label, value, note, tone, way: "/ui/payments?q=status:COMPLETED" }
}

/// A number that was counted up to a bound.
fn bounded(count: i64) -> String {
    format!("{}{}", text::count(count.min(MOST)), if count >= MOST { "+" } else { "" })
}

fn age(age: Duration) -> String {
    text::length(TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX))
}

/// What waits: for its turn, for an answer, for a person.
fn waiting(seen: &Seen) -> Vec<Tile> {
    let Some(backlog) = seen.pulse.as_ref().map(|pulse| &pulse.waiting) else { return Vec::new() };
    let open = &backlog.open;
    let oldest = backlog.oldest_due.iter().map(|(_, overdue)| *overdue).max().unwrap_or_default();
    let promise = Duration::from_millis(u64::from(PROMISE_MS.unsigned_abs()));
    let due = Tile {
        label: "Due and waiting",
        value: bounded(open.due),
        note: if oldest.is_zero() {
            "nothing waits".into()
        } else {
            format!("the oldest for {}", age(oldest))
        },
        tone: match oldest {
            oldest if oldest > promise => Tone::Bad,
            oldest if oldest > LATE_SCAN => Tone::Look,
            _ => Tone::Good,
        },
        way: "/ui/forecast",
    };
    let unknown = Tile {
        label: "Outcome unknown",
        value: bounded(open.unknown),
        note: if open.unknown == 0 {
            "every outcome is known".into()
        } else {
            format!("the oldest for {}; they are asked about", age(open.oldest_unknown))
        },
        tone: match open.unknown {
            0 => Tone::Good,
            _ if open.oldest_unknown > UNKNOWN_FOR => Tone::Bad,
            _ => Tone::Look,
        },
        way: "/ui/payments?q=status:UNKNOWN",
    };
    let parked = Tile {
        label: "Parked",
        value: bounded(open.parked),
        note: if open.parked == 0 { "nobody is waited for".into() } else { "wait for a person".into() },
        tone: if open.parked == 0 { Tone::Good } else { Tone::Look },
        way: "/ui/parked",
    };
    let processing = Tile {
        label: "With gateways now",
        value: bounded(open.processing),
        note: "under a claim".into(),
        tone: if open.lease_overdue > promise { Tone::Bad } else { Tone::Quiet },
        way: "/ui/workers",
    };
    vec![due, unknown, parked, processing]
}

/// What falls due in the next hour, and whether the permitted rate is enough for it.
fn next(seen: &Seen, account: &Account) -> Tile {
    let label = "Due in the next hour";
    let Some(forecast) = &seen.forecast else {
        return Tile {
            label,
            value: "–".into(),
            note: "not counted yet".into(),
            tone: Tone::Quiet,
            way: "/ui/forecast",
        };
    };
    let (mut due, mut left, mut is_exact, mut has_rate) = (0, 0, true, false);
    for gateway in &forecast.gateways {
        let rate = account.rate_of(gateway);
        has_rate |= rate.is_some();
        due += gateway.minutes.iter().map(|minute| minute.count).sum::<i64>();
        is_exact &= gateway.minutes.iter().all(|minute| minute.precision == Precision::Exact);
        let drained = drain(forecast.taken_at, gateway.overdue.count, &gateway.minutes, rate);
        left += drained.last().map_or(0, |last| last.left_at_end);
    }
    let (note, tone) = match (has_rate, left) {
        (false, _) => ("no rate is set for the gateway".to_owned(), Tone::Quiet),
        (true, 0) => ("the permitted rate is enough".to_owned(), Tone::Good),
        (true, left) => (format!("{} will be left at its end", text::count(left)), Tone::Look),
    };
    let value = format!("{}{}", text::count(due), if is_exact { "" } else { "+" });
    Tile { label, value, note, tone, way: "/ui/forecast" }
}

/// What became of payments, as shares of a bar.
fn parts(hour: &Hour) -> Vec<Part> {
    let all = [
        ("completed", "completed", hour.completed),
        ("will be tried again", "pending", hour.retried),
        ("unknown", "unknown", hour.unknown),
        ("parked", "parked", hour.parked),
        ("failed", "failed", hour.failed),
        ("cancelled", "cancelled", hour.cancelled),
    ];
    let sum = all.iter().map(|(_, _, count)| count).sum::<i64>().max(1);
    let mut before = 0;
    let mut parts = Vec::new();
    for (word, tone, count) in all {
        let (from, until) = (before * 1_000 / sum, (before + count) * 1_000 / sum);
        before += count;
        // What is there is seen, however little it is.
        let length = if count > 0 { (until - from).max(3) } else { 0 };
        parts.push(Part { word, tone, count: text::count(count), from: from.min(997), length });
    }
    parts
}

fn row(seen: &Seen, standing: &GatewayStanding) -> Row {
    let calls = seen.calls.iter().find(|calls| calls.gateway == standing.name);
    let took = |took: Duration| text::milliseconds(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
    let band = band_of(seen, &standing.name);
    let stands = band.last().copied().flatten();
    Row {
        name: standing.name.0.clone(),
        chip: match stands {
            Some(Stood::Open) => text::chip("bad", "▲", "breaker open"),
            Some(Stood::Probing) => text::chip("look", "△", "probing"),
            Some(Stood::Paused) => text::chip("look", "▮▮", "paused"),
            Some(Stood::Closed) => text::chip("good", "✓", "takes charges"),
            None => text::chip("quiet", "", "not looked at"),
        },
        p50: calls.map_or_else(|| "–".to_owned(), |calls| took(calls.p50)),
        p99: calls.map_or_else(|| "–".to_owned(), |calls| took(calls.p99)),
        answers: calls.map_or_else(|| "0".to_owned(), |calls| text::count(calls.calls)),
        unclear: calls.map_or_else(|| "0".to_owned(), |calls| text::count(calls.unclear)),
        in_flight: text::count(i64::try_from(standing.in_flight).unwrap_or(i64::MAX)),
        band,
    }
}

/// A minute of the next hour, over all gateways.
struct Coming {
    at: DateTime<Utc>,
    due: i64,
}

#[derive(Template)]
#[template(path = "overview_minutes.html")]
struct Minutes<'a> {
    past: &'a [Minute],
    coming: Vec<Coming>,
    promise_ms: i32,
}

/// For the template.
impl Minutes<'_> {
    fn clock(at: &DateTime<Utc>) -> String {
        at.format("%H:%M").to_string()
    }

    fn due(minute: &Minute) -> String {
        minute.due.map_or_else(|| "–".to_owned(), text::count)
    }

    fn count(count: &i64) -> String {
        text::count(*count)
    }

    fn took(minute: &Minute, per_mille: i64) -> String {
        percentile(&minute.late, per_mille).map_or_else(|| "–".to_owned(), within)
    }

    /// For a script: nothing where nothing is known.
    fn bare_due(minute: &Minute) -> String {
        minute.due.map(|due| due.to_string()).unwrap_or_default()
    }

    /// For a script, in milliseconds.
    fn bare_late(minute: &Minute, per_mille: i64) -> String {
        let ms = percentile(&minute.late, per_mille).map(|(Late::Below(ms) | Late::Beyond(ms))| ms);
        ms.map(|ms| ms.to_string()).unwrap_or_default()
    }
}

/// The two tables that the curves are drawn from.
pub(super) fn minutes(seen: &Seen) -> Html {
    let mut coming: BTreeMap<DateTime<Utc>, i64> = BTreeMap::new();
    for gateway in seen.forecast.iter().flat_map(|forecast| &forecast.gateways) {
        for minute in &gateway.minutes {
            *coming.entry(minute.from).or_default() += minute.count;
        }
    }
    text::written(&Minutes {
        past: seen.pulse.as_ref().map(|pulse| pulse.minutes.as_slice()).unwrap_or_default(),
        coming: coming.into_iter().map(|(at, due)| Coming { at, due }).collect(),
        promise_ms: PROMISE_MS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::GatewayName;
    use crate::schedule::{Backlog, OpenStates, Pulse};
    use std::sync::Arc;

    #[test]
    fn the_parts_of_the_bar_fill_it_and_the_least_of_them_is_seen() {
        let hour = Hour { completed: 999_999, failed: 1, ..Hour::default() };
        let parts = parts(&hour);
        assert_eq!((parts[0].from, parts[0].length), (0, 999));
        let failed = parts.iter().find(|part| part.word == "failed").unwrap();
        assert_eq!((failed.from, failed.length), (997, 3));
        assert!(super::parts(&Hour::default()).iter().all(|part| part.length == 0));
    }

    #[test]
    fn a_tile_is_calm_until_somebody_should_look() {
        let seen = |open, oldest_s| Seen {
            pulse: Some(Arc::new(Pulse {
                taken_at: DateTime::UNIX_EPOCH,
                minutes: Vec::new(),
                waiting: Backlog {
                    oldest_due: vec![(GatewayName("a".into()), Duration::from_secs(oldest_s))],
                    unpublished_due: 0,
                    days_ahead: 9,
                    oldest_open_day_age: 0,
                    open,
                },
            })),
            ..Seen::default()
        };
        let tones = |seen: &Seen| waiting(seen).iter().map(|tile| tile.tone).collect::<Vec<_>>();
        let calm = OpenStates::default();
        assert_eq!(tones(&seen(calm, 0)), [Tone::Good, Tone::Good, Tone::Good, Tone::Quiet]);
        let minute = Duration::from_secs(61);
        let busy = OpenStates {
            unknown: 2,
            oldest_unknown: Duration::from_secs(1_000),
            parked: 20_000,
            lease_overdue: minute,
            ..calm
        };
        assert_eq!(tones(&seen(busy, 61)), [Tone::Bad, Tone::Bad, Tone::Look, Tone::Bad]);
        assert_eq!(waiting(&seen(busy, 61))[2].value, "10,000+");
        assert_eq!(tones(&seen(calm, 16))[0], Tone::Look);
    }
}
