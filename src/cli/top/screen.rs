//! What stands on the screen. Pure: a state and an area in, cells out.
//!
//! Everything has its place from the top down, what matters most first, and what does not fit is left out below: a
//! terminal of any size shows something, and none is a reason to panic. Colour is never the only sign: a shape or a
//! word says the same.

use super::super::output::{Colour, plain};
use super::seen::{Gateway, Look, Problem, Worker};
use super::state::{State, View};
use crate::domain::lateness::{BOUNDS_MS, Late, PROMISE_MS};
use crate::story::{self, Tone};
use chrono::{DateTime, Utc};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, SparklineBar, Table, Widget, Wrap};

/// As the dashboard's banner says it.
pub(super) const PROBLEMS_UNKNOWN: &str = "What is wrong is not known: the database did not answer in time.";

/// Minutes of a curve.
const MINUTES: usize = 60;
/// Before the curves stand their names.
const NAMES: u16 = 20;
/// A screen with so many rows has room for taller curves.
const TALL: u16 = 34;

impl State {
    fn tint(&self, tone: Tone) -> Style {
        match (self.colour, tone) {
            (Colour::Yes, Tone::Good) => Style::new().fg(Color::Green),
            (Colour::Yes, Tone::Look) => Style::new().fg(Color::Yellow),
            (Colour::Yes, Tone::Bad) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (Colour::No, Tone::Bad) => Style::new().add_modifier(Modifier::BOLD),
            (Colour::Yes, Tone::Quiet) | (Colour::No, Tone::Good | Tone::Look | Tone::Quiet) => Style::new(),
        }
    }
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// One block of the screen.
enum Part<'a> {
    Lines(Vec<Line<'a>>),
    /// One line that may need several rows.
    Wrapped(Line<'a>),
    Curve {
        name: String,
        bars: Vec<SparklineBar>,
        most: u64,
        height: u16,
    },
    Rows {
        heads: &'static [&'static str],
        rows: Vec<Vec<String>>,
        widths: Vec<Constraint>,
    },
}

/// Rows that these words take where those that do not fit move to the next.
fn rows_of(words: &str, width: usize) -> usize {
    let (mut rows, mut used) = (1, 0);
    for word in words.split_whitespace() {
        let length = Span::raw(word).width();
        if used > 0 && used + 1 + length > width {
            (rows, used) = (rows + 1, 0);
        }
        used += usize::from(used > 0) + length;
        // What is longer than a row is broken.
        rows += used.saturating_sub(1) / width;
        used -= used.saturating_sub(1) / width * width;
    }
    rows
}

impl Part<'_> {
    fn height(&self, width: u16) -> u16 {
        let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        match self {
            Self::Lines(all) => lines(all.len()),
            Self::Wrapped(line) => lines(rows_of(&line.to_string(), usize::from(width.max(1)))),
            Self::Curve { height, .. } => *height,
            Self::Rows { rows, .. } => lines(rows.len() + 1),
        }
    }

    fn draw(self, area: Rect, buf: &mut Buffer) {
        match self {
            Self::Lines(all) => Paragraph::new(all).render(area, buf),
            Self::Wrapped(line) => Paragraph::new(line).wrap(Wrap { trim: true }).render(area, buf),
            Self::Curve { name, bars, most, .. } => {
                let names = NAMES.min(area.width);
                Line::from(name).render(Rect { width: names, height: 1, ..area }, buf);
                let of = Rect { x: area.x + names, width: area.width - names, ..area };
                // The newest minutes, or the nearest, are kept by whoever made the bars.
                Sparkline::default().data(bars).max(most.max(1)).render(of, buf);
            }
            Self::Rows { heads, rows, widths } => {
                let header = Row::new(heads.iter().copied()).style(BOLD);
                let table =
                    Table::new(rows.into_iter().map(Row::new), widths).header(header).column_spacing(2);
                Widget::render(table, area, buf);
            }
        }
    }
}

/// Draws all of it.
pub(super) fn draw(state: &State, area: Rect, buf: &mut Buffer) {
    let mut parts = head(state);
    let foot = u16::from(area.height > 1);
    let body = Rect { height: area.height - foot, ..area };
    if state.is_explaining {
        parts.push(Part::Lines(EXPLAINED.iter().map(|line| Line::from(*line)).collect()));
    } else if let Some(look) = &state.last {
        parts.extend(match state.view {
            View::Everything => everything(state, look, area),
            View::Gateways => gateways(look, true),
            View::Workers => workers(look, true),
            View::Problems => problems(state, look, Fixes::All),
        });
    }
    let old_from = 1 + u16::from(state.away.is_some()) * 2;
    stacked(parts, body, buf);
    if state.away.is_some() && body.height > old_from && !state.is_explaining {
        buf.set_style(Rect { y: body.y + old_from, height: body.height - old_from, ..body }, DIM);
    }
    if foot == 1 {
        let words = View::ALL.map(|view| {
            if view == state.view { format!("[{}]", view.word()) } else { view.word().to_owned() }
        });
        let line = Line::from(format!("q quit  r ask now  ? help  {}", words.join("  ")));
        line.style(DIM).render(Rect { y: area.bottom() - 1, height: 1, ..area }, buf);
    }
}

/// One part below the other, as long as there is room.
fn stacked(parts: Vec<Part<'_>>, area: Rect, buf: &mut Buffer) {
    let mut top = area.y;
    for part in parts {
        let height = part.height(area.width).min(area.bottom().saturating_sub(top));
        if height == 0 {
            return;
        }
        part.draw(Rect { y: top, height, ..area }, buf);
        top += height;
    }
}

fn instant(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn head(state: &State) -> Vec<Part<'static>> {
    let taken = state.last.as_ref().map(|look| look.overview.taken_at);
    let asking = match state.asked_at {
        Some(at) if state.now - at >= chrono::TimeDelta::seconds(2) => {
            format!("asked {}, no answer yet", story::distance(at, state.now))
        }
        Some(_) | None => format!("asks every {}", humantime::format_duration(state.every)),
    };
    let stood = taken.map_or_else(|| "nothing seen yet".to_owned(), instant);
    let first = Line::from(vec![
        Span::styled("Punctual", BOLD),
        Span::raw(format!("  {stood}  {}  {asking}", state.address)),
    ]);
    let mut lines = vec![first];
    if let Some(away) = &state.away {
        let since = format!("{} ({})", instant(away.since), story::distance(away.since, state.now));
        let told = format!("▲ The API does not answer since {since}");
        let old = match taken {
            Some(taken) => format!("  {}. What follows is OLD, of {}", away.why, instant(taken)),
            None => format!("  {}", away.why),
        };
        lines.push(Line::styled(told, state.tint(Tone::Bad)));
        lines.push(Line::styled(old, state.tint(Tone::Bad)));
    }
    vec![Part::Lines(lines)]
}

/// Whether what mends a problem is shown of all, or of the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fixes {
    All,
    OfTheWorst,
}

fn problems<'a>(state: &State, look: &Look, fixes: Fixes) -> Vec<Part<'a>> {
    let one = |text: String, tone| Part::Wrapped(Line::styled(text, state.tint(tone)));
    let Some(found) = &look.problems else {
        return vec![one(format!("△ {PROBLEMS_UNKNOWN}"), Tone::Look)];
    };
    let Some(worst) = found.first() else {
        return vec![one("✓ no problem is known".to_owned(), Tone::Good)];
    };
    let bad = found.iter().any(|it| it.level == "bad");
    let (shape, word, tone) =
        if bad { ("▲", "problem", Tone::Bad) } else { ("△", "warning", Tone::Look) };
    let several = if found.len() == 1 { "" } else { "s" };
    let mut parts =
        vec![one(format!("{shape} {} {word}{several}: {}", found.len(), plain(&worst.saw)), tone)];
    let told = |it: &Problem| {
        format!("  {} {}: {}. {}", it.level, plain(&it.check), plain(&it.means), plain(&it.fix))
    };
    match fixes {
        Fixes::OfTheWorst => parts.push(Part::Wrapped(Line::from(told(worst)))),
        Fixes::All => {
            for it in found {
                let seen = format!("{} {}: {}", it.level, plain(&it.check), plain(&it.saw));
                parts.push(Part::Lines(vec![Line::default()]));
                parts.push(one(seen, if it.level == "bad" { Tone::Bad } else { Tone::Look }));
                parts.push(Part::Wrapped(Line::from(format!("{}.", plain(&it.means)))));
                parts.push(Part::Wrapped(Line::from(format!("Do: {}", plain(&it.fix)))));
                if let Some(name) = &it.runbook {
                    parts.push(Part::Lines(vec![Line::from(format!("Runbook: {}", plain(name)))]));
                }
            }
        }
    }
    parts
}

fn everything<'a>(state: &State, look: &Look, area: Rect) -> Vec<Part<'a>> {
    let mut parts = problems(state, look, Fixes::OfTheWorst);
    let figures = look.figures().into_iter().map(|it| {
        let style = state.tint(it.tone);
        Line::from(vec![
            Span::styled(format!("{:<2}", it.tone.shape()), style),
            Span::raw(format!("{:<27}", it.label)),
            Span::styled(format!("{:<20}", it.value), BOLD),
            Span::styled(it.note, style),
        ])
    });
    parts.push(Part::Lines(figures.collect()));
    let mix = look.outcomes().map(|(word, count)| format!("{word} {}", story::count(count)));
    parts.push(Part::Wrapped(Line::from(format!("Last hour: {}", mix.join(", ")))));
    parts.extend(curves(state, look, area));
    parts.extend(gateways(look, false));
    parts.extend(workers(look, false));
    parts
}

/// Due against completed of the last hour on one scale, the next hour, and how late the latest were.
fn curves<'a>(state: &State, look: &Look, area: Rect) -> Vec<Part<'a>> {
    let room = usize::from(area.width.saturating_sub(NAMES)).min(MINUTES);
    let height = if area.height >= TALL { 2 } else { 1 };
    let minutes = &look.overview.minutes[look.overview.minutes.len().saturating_sub(room)..];
    let bar = |count: i64| u64::try_from(count).unwrap_or(0);
    let due: Vec<Option<u64>> = minutes.iter().map(|minute| minute.due.map(bar)).collect();
    let completed: Vec<u64> = minutes.iter().map(|minute| bar(minute.completed)).collect();
    let coming: Vec<u64> = look.next_hour().into_iter().take(room).map(bar).collect();
    let late: Vec<Option<Late>> = minutes.iter().map(|minute| minute.lateness_p99.map(Late::from)).collect();
    let scale = due.iter().flatten().chain(&completed).copied().max().unwrap_or(0);
    let next = coming.iter().copied().max().unwrap_or(0);
    let latest = late
        .iter()
        .flatten()
        .max_by_key(|late| step(**late))
        .map_or_else(|| "–".to_owned(), |late| story::within(*late));
    let named =
        |name: &str, most: u64| format!("{name} ({})", story::count(i64::try_from(most).unwrap_or(i64::MAX)));
    let curve = |name, bars, most| Part::Curve { name, bars, most, height };
    let broken = state.tint(Tone::Bad);
    let late_bar = |late: &Option<Late>| {
        let bar = SparklineBar::from(late.map(step));
        if late.is_some_and(breaks) { bar.style(broken) } else { bar }
    };
    vec![
        curve(named("due", scale), due.into_iter().map(SparklineBar::from).collect(), scale),
        curve(named("completed", scale), completed.into_iter().map(SparklineBar::from).collect(), scale),
        curve(named("next hour", next), coming.into_iter().map(SparklineBar::from).collect(), next),
        curve(format!("p99 ({latest})"), late.iter().map(late_bar).collect(), step(Late::Beyond(0))),
    ]
}

/// Lateness by the bounds that it is counted in: from milliseconds to minutes in one curve.
fn step(late: Late) -> u64 {
    let place = match late {
        Late::Below(ms) => BOUNDS_MS.iter().position(|bound| *bound >= ms).unwrap_or(BOUNDS_MS.len()),
        Late::Beyond(_) => BOUNDS_MS.len(),
    };
    u64::try_from(place + 1).unwrap_or(u64::MAX)
}

fn breaks(late: Late) -> bool {
    match late {
        Late::Below(ms) => ms > PROMISE_MS,
        Late::Beyond(_) => true,
    }
}

/// Name, how it stands, breaker, calls a second, in flight, calls of the last ten seconds, and what somebody did.
pub(super) fn gateway_cells(of: &Gateway) -> [String; 7] {
    let mut notes = Vec::new();
    if let Some(paused) = &of.paused {
        notes.push(format!("{}: {} ({})", plain(&paused.by), plain(&paused.reason), instant(paused.since)));
    }
    notes
        .extend(of.kill_switches.iter().map(|it| format!("switch {} {}", plain(&it.kind), plain(&it.value))));
    notes.extend(of.breaker.cause.as_deref().map(plain));
    if let Some(until) = of.breaker.until {
        notes.push(format!("until {}, trip {}", instant(until), of.breaker.trips));
    }
    if let Some(until) = of.asked_to_wait_until {
        notes.push(format!("asked to wait until {}", instant(until)));
    }
    [
        plain(&of.gateway),
        plain(story::stands(&of.status)),
        plain(&of.breaker.state),
        of.rate
            .as_ref()
            .map_or_else(|| "none".to_owned(), |rate| format!("{} of {}", rate.held_now, rate.configured)),
        of.in_flight.to_string(),
        format!("{} failed of {}", of.calls.failed, of.calls.last_ten_seconds),
        notes.join("; "),
    ]
}

fn gateways<'a>(look: &Look, is_whole: bool) -> Vec<Part<'a>> {
    const HEADS: &[&str] = &["GATEWAY", "STANDS", "BREAKER", "A SECOND", "IN FLIGHT", "LAST 10 S", "WHY"];
    if look.gateways.is_empty() {
        return vec![Part::Lines(vec![Line::from("No worker has registered a gateway yet.")])];
    }
    let widths =
        [14, 18, 8, 10, 9, 16].map(Constraint::Length).into_iter().chain([Constraint::Min(0)]).collect();
    let mut parts = vec![Part::Rows {
        heads: HEADS,
        rows: look.gateways.iter().map(|it| gateway_cells(it).to_vec()).collect(),
        widths,
    }];
    if is_whole {
        for it in &look.gateways {
            let [name, .., note] = gateway_cells(it);
            if !note.is_empty() {
                parts.push(Part::Wrapped(Line::from(format!("{name}: {note}"))));
            }
        }
    }
    parts
}

/// Name, gateway, claims, age of the oldest, when it was heard of, and what it asks for of what it can.
pub(super) fn worker_cells(of: &Worker, now: DateTime<Utc>) -> [String; 6] {
    let ago = |at: Option<DateTime<Utc>>| at.map_or_else(|| "–".to_owned(), |at| story::distance(at, now));
    let slots = of
        .demand
        .zip(of.slots)
        .map_or_else(|| "–".to_owned(), |(demand, slots)| format!("{demand} of {slots}"));
    [
        plain(&of.worker),
        plain(&of.gateway),
        of.claims.to_string(),
        ago(of.oldest_claim_at),
        ago(of.heard_at),
        slots,
    ]
}

fn workers<'a>(look: &Look, is_whole: bool) -> Vec<Part<'a>> {
    const HEADS: &[&str] = &["WORKER", "GATEWAY", "CLAIMS", "OLDEST", "HEARD", "WANTS"];
    let (crew, now) = (&look.crew, look.overview.taken_at);
    let mut parts = Vec::new();
    if crew.workers.is_empty() {
        let [before, command, after] = story::NOBODY_AT_WORK;
        parts.push(Part::Wrapped(Line::from(format!("{before}`{command}`{after}"))));
    } else {
        parts.push(Part::Rows {
            heads: HEADS,
            rows: crew.workers.iter().map(|it| worker_cells(it, now).to_vec()).collect(),
            widths: [24, 14, 7, 10, 10, 10].map(Constraint::Length).to_vec(),
        });
    }
    let many = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let told = format!(
        "{}, {}; {} not published",
        story::counted(many(crew.relays.len()), "relay", "relays"),
        story::counted(many(crew.publishers.len()), "publisher leads", "publishers lead"),
        story::counted(look.overview.waiting.unpublished, "due notice is", "due notices are"),
    );
    parts.push(Part::Lines(vec![Line::from(told)]));
    if is_whole {
        let relay = crew.relays.iter().map(|it| {
            format!(
                "relay {}: {} partitions, leads until {}",
                plain(&it.relay),
                it.partitions,
                instant(it.until)
            )
        });
        let publisher = crew
            .publishers
            .iter()
            .map(|it| format!("publisher {}: leads until {}", plain(&it.publisher), instant(it.until)));
        parts.push(Part::Lines(relay.chain(publisher).map(Line::from).collect()));
    }
    parts
}

const EXPLAINED: &[&str] = &[
    "",
    "q Esc Ctrl-C  quit                r  ask now",
    "1 2 3 4 Tab   what is shown       ?  this",
    "",
    "Curves are minutes; in brackets is the highest. `due` and `completed` are of the",
    "last hour and have one scale, `next hour` falls due. `p99` is how late the latest",
    "one in a hundred first claims were; bars beyond 60 s are bold or red.",
    "",
    "✓ as promised  △ look at it  ▲ a promise is at stake",
    "A SECOND: calls that a gateway is held to now, of those configured.",
    "WANTS: claims that a worker would take now, of those that it can have.",
    "",
    "What to do: `punctual parked list`, `punctual gateway list`, `punctual doctor`,",
    "and the runbook of each alert: `punctual assets print runbooks`.",
];

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
