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
use crate::domain::lateness::{Late, PROMISE_MS, percentile};
use crate::intake::Account;
use crate::schedule::{Backlog, Forecast, GatewayStanding, Hour, Minute};
use crate::story::{self, Figure, Waits, within};
use askama::Template;
use axum::extract::State;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::time::Duration;

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

/// One number with what it means, and the page that says more.
struct Tile {
    figure: Figure,
    way: &'static str,
}

/// For the template.
impl Tile {
    /// Too long for the large letters of a number.
    fn is_long(&self) -> bool {
        self.figure.value.chars().count() > 9
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

/// Tiles, outcomes and gateways.
pub(super) fn now(seen: &Seen, account: &Account) -> Html {
    let minutes = seen.pulse.as_ref().map(|pulse| pulse.minutes.as_slice()).unwrap_or_default();
    let hour = Hour::of(minutes);
    text::written(&Now {
        tiles: tiles(seen, &hour, minutes, account),
        parts: parts(&hour),
        gateways: seen.gateways.iter().map(|standing| row(seen, standing)).collect(),
        stale_since: seen.is_stale.then(|| format!("{} UTC", seen.at.format("%Y-%m-%d %H:%M:%S"))),
    })
}

/// Where each figure of the overview leads, in their order.
const WAYS: [&str; 7] = [
    "",
    "/ui/payments?q=status:COMPLETED",
    "/ui/forecast",
    "/ui/payments?q=status:UNKNOWN",
    "/ui/parked",
    "/ui/workers",
    "/ui/forecast",
];

fn tiles(seen: &Seen, hour: &Hour, minutes: &[Minute], account: &Account) -> Vec<Tile> {
    let waits = seen.pulse.as_ref().map(|pulse| waits(&pulse.waiting));
    let whole = minutes.iter().rev().find(|minute| minute.due.is_some()).map(|minute| minute.completed);
    let oldest = waits.map(|waits| waits.oldest_due).unwrap_or_default();
    let late = story::lateness(hour.percentile(500).zip(hour.percentile(990)), hour.broken(), oldest);
    let figures = [late, story::completed(hour.completed, whole)]
        .into_iter()
        .chain(story::waiting(&waits.unwrap_or_default()))
        .chain([story::coming(seen.forecast.as_ref().map(|forecast| coming(forecast, account)))]);
    let tiles = figures.zip(WAYS).map(|(figure, way)| Tile { figure, way });
    // What waits is not said before anything was seen.
    tiles
        .enumerate()
        .filter(|(at, _)| waits.is_some() || !(2..6).contains(at))
        .map(|(_, tile)| tile)
        .collect()
}

fn waits(backlog: &Backlog) -> Waits {
    let open = &backlog.open;
    Waits {
        due: open.due,
        oldest_due: backlog.oldest_due.iter().map(|(_, overdue)| *overdue).max().unwrap_or_default(),
        unknown: open.unknown,
        oldest_unknown: open.oldest_unknown,
        parked: open.parked,
        processing: open.processing,
        lease_overdue: open.lease_overdue,
    }
}

/// What falls due in the next hour, over all gateways.
fn coming(forecast: &Forecast, account: &Account) -> story::Coming {
    let mut all = story::Coming { due: 0, is_exact: true, left: None };
    for gateway in &forecast.gateways {
        let rate = account.rate_of(gateway);
        all.due += gateway.minutes.iter().map(|minute| minute.count).sum::<i64>();
        all.is_exact &= gateway.minutes.iter().all(|minute| minute.precision == Precision::Exact);
        let drained = drain(forecast.taken_at, gateway.overdue.count, &gateway.minutes, rate);
        let left = drained.last().map_or(0, |last| last.left_at_end);
        if rate.is_some() {
            all.left = Some(all.left.unwrap_or(0) + left);
        }
    }
    all
}

/// What became of payments, as shares of a bar.
fn parts(hour: &Hour) -> Vec<Part> {
    let all = [
        ("completed", "completed", hour.completed),
        ("will be tried again", "pending", hour.retried),
        ("were unknown for a while", "unknown", hour.unknown),
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
            Some(Stood::Probing) => text::chip("bad", "▲", "still broken: probing"),
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
    use crate::schedule::{OpenStates, Pulse};
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
    fn every_figure_leads_to_the_page_that_says_more() {
        let seen = Seen {
            pulse: Some(Arc::new(Pulse {
                taken_at: DateTime::UNIX_EPOCH,
                minutes: Vec::new(),
                waiting: Backlog {
                    oldest_due: vec![
                        (GatewayName("a".into()), Duration::from_secs(3)),
                        (GatewayName("b".into()), Duration::from_secs(61)),
                    ],
                    unpublished_due: 0,
                    days_ahead: 9,
                    oldest_open_day_age: 0,
                    open: OpenStates { parked: 2, ..OpenStates::default() },
                },
            })),
            ..Seen::default()
        };
        let told = tiles(&seen, &Hour::default(), &[], &Account::default());
        let of = |label: &str| told.iter().find(|tile| tile.figure.label == label).unwrap();
        assert_eq!(
            (told.len(), of("Parked").way, of("Parked").figure.value.as_str()),
            (7, "/ui/parked", "2")
        );
        assert_eq!(of("Due and waiting").figure.note, "the oldest for 1 min", "at whichever gateway");
        assert_eq!(of("With gateways now").way, "/ui/workers");
        let unseen = tiles(&Seen::default(), &Hour::default(), &[], &Account::default());
        let labels: Vec<&str> = unseen.iter().map(|tile| tile.figure.label).collect();
        assert_eq!(labels, ["Lateness p50 / p99", "Completed in the last hour", "Due in the next hour"]);
    }
}
