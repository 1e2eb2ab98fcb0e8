//! What the screen knows: the last answer, how old it is, and what somebody chose with keys. Pure.

use super::super::output::{Colour, plain};
use super::seen::Look;
use chrono::{DateTime, Utc};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::Duration;

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Everything,
    Gateways,
    Workers,
    Problems,
}

impl View {
    pub(super) const ALL: [Self; 4] = [Self::Everything, Self::Gateways, Self::Workers, Self::Problems];

    pub(super) fn next(self) -> Self {
        match self {
            Self::Everything => Self::Gateways,
            Self::Gateways => Self::Workers,
            Self::Workers => Self::Problems,
            Self::Problems => Self::Everything,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Everything => "1 everything",
            Self::Gateways => "2 gateways",
            Self::Workers => "3 workers",
            Self::Problems => "4 problems",
        }
    }
}

/// The API has not answered since then.
#[derive(Debug, Clone)]
pub(super) struct Away {
    pub(super) since: DateTime<Utc>,
    pub(super) why: String,
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Ask,
    Quit,
}

/// Everything that is drawn.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) address: String,
    pub(super) every: Duration,
    pub(super) colour: Colour,
    pub(super) view: View,
    pub(super) is_explaining: bool,
    pub(super) last: Option<Look>,
    pub(super) away: Option<Away>,
    /// By this host's clock, for what it waits for itself.
    pub(super) now: DateTime<Utc>,
    /// The question that is open was asked then.
    pub(super) asked_at: Option<DateTime<Utc>>,
}

impl State {
    pub(super) fn new(address: String, every: Duration, colour: Colour) -> Self {
        let now = DateTime::UNIX_EPOCH;
        let (last, away, asked_at) = (None, None, None);
        Self {
            address,
            every,
            colour,
            view: View::Everything,
            is_explaining: false,
            last,
            away,
            now,
            asked_at,
        }
    }

    /// Whether anything was ever seen.
    pub(super) fn has_seen(&self) -> bool {
        self.last.is_some()
    }

    /// It was answered.
    pub(super) fn answered(&mut self, look: Look) {
        self.last = Some(look);
        self.away = None;
        self.asked_at = None;
    }

    /// It was not. What was seen before stays, and is old from the question on that was not answered.
    pub(super) fn failed(&mut self, why: &str) {
        let since = self.asked_at.take().unwrap_or(self.now);
        let since = self.away.take().map_or(since, |away| away.since);
        self.away = Some(Away { since, why: plain(why) });
    }

    /// Somebody pressed a key.
    pub(super) fn pressed(&mut self, key: KeyEvent) -> Next {
        if key.kind != KeyEventKind::Press {
            return Next::Stay;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Next::Quit,
            KeyCode::Esc if self.is_explaining => self.is_explaining = false,
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('r') => return Next::Ask,
            KeyCode::Char('?') => self.is_explaining = !self.is_explaining,
            KeyCode::Tab => self.view = self.view.next(),
            KeyCode::Char(digit @ '1'..='4') => {
                let place = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).unwrap_or(1);
                self.view = View::ALL[(place - 1).min(View::ALL.len() - 1)];
            }
            _ => {}
        }
        Next::Stay
    }
}
