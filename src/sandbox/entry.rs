//! What one executed call leaves under its key, and what is known of it later.

use super::behaviour::{Behaviour, PendingEnd};
use super::book::Rules;
use super::line::{Line, Verdict};
use super::name::Name;
use super::wire::Code;
use chrono::{DateTime, Utc};

/// What one executed call left under a key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) payment: Name,
    pub(super) amount_said: i64,
    pub(super) currency_said: Code,
    what: What,
    shown: Shown,
}

#[derive(Debug)]
enum What {
    Charged,
    /// Charged, and taken back at that instant.
    ChargedBack(DateTime<Utc>),
    Pending {
        decides_at: DateTime<Utc>,
        end: PendingEnd,
    },
    Declined(Box<str>),
}

#[derive(Debug)]
enum Shown {
    Always,
    From(DateTime<Utc>),
    Never,
}

/// What is known of an entry at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    Charged,
    Pending,
    InProgress,
    Declined(String),
}

/// What a further request under the key gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// It executes.
    Nothing,
    /// The last entry again.
    Entry,
    /// The 500 again.
    ServerError,
    /// A refusal, for ever: the key was voided.
    Tombstone,
}

impl Entry {
    /// What an executed line leaves under its key; `None` if nothing.
    pub(super) fn of(line: &Line, link: &Behaviour, payment: Name, amount: i64, asked: Code) -> Option<Self> {
        let what = match (line.verdict, link) {
            (Verdict::Charged, Behaviour::ChargedBack(after)) => What::ChargedBack(line.at + *after),
            (Verdict::Charged, _) => What::Charged,
            (Verdict::Pending, Behaviour::Pending { after, end }) => {
                What::Pending { decides_at: line.at + *after, end: *end }
            }
            (Verdict::Declined, Behaviour::Decline(code)) => What::Declined(code.as_str().into()),
            _ => return None,
        };
        let shown = match link {
            Behaviour::LookupLag(length) => Shown::From(line.at + *length),
            Behaviour::LookupNever => Shown::Never,
            _ => Shown::Always,
        };
        let amount_said = amount + i64::from(*link == Behaviour::WrongAmount);
        let currency_said = if *link == Behaviour::WrongCurrency { asked.other() } else { asked };
        Some(Self { seq: line.seq, payment, amount_said, currency_said, what, shown })
    }

    /// What a further request under the key gets.
    pub(super) fn stored(&self, link: &Behaviour, rules: Rules) -> Stored {
        match (&self.what, link) {
            (What::Declined(_), _) if !rules.replays_declines => Stored::Nothing,
            (What::Charged, Behaviour::ServerErrorSticky) => Stored::ServerError,
            (What::Charged, Behaviour::ServerErrorCharged) if rules.replays_5xx => Stored::ServerError,
            _ => Stored::Entry,
        }
    }

    /// How it stands at `now`.
    pub(super) fn known(&self, now: DateTime<Utc>) -> Known {
        match &self.what {
            What::Charged | What::ChargedBack(_) => Known::Charged,
            What::Declined(code) => Known::Declined(code.to_string()),
            What::Pending { decides_at, .. } if now < *decides_at => Known::Pending,
            What::Pending { end: PendingEnd::Charged, .. } => Known::Charged,
            What::Pending { end: PendingEnd::Declined, .. } => Known::Declined("processing_error".into()),
        }
    }

    /// When it is decided, if it is decided later than it was accepted.
    pub(super) fn decides_at(&self) -> Option<DateTime<Utc>> {
        match &self.what {
            What::Pending { decides_at, .. } => Some(*decides_at),
            What::Charged | What::ChargedBack(_) | What::Declined(_) => None,
        }
    }

    /// When money moved by it, however that is answered; `None` if it never did or will.
    pub(super) fn moved_at(&self, line_at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match &self.what {
            What::Charged | What::ChargedBack(_) => Some(line_at),
            What::Pending { decides_at, end: PendingEnd::Charged } => Some(*decides_at),
            What::Pending { end: PendingEnd::Declined, .. } | What::Declined(_) => None,
        }
    }

    /// When the payer's bank takes the money back; `None` if it never does.
    pub(super) fn charged_back_at(&self) -> Option<DateTime<Utc>> {
        match &self.what {
            What::ChargedBack(at) => Some(*at),
            What::Charged | What::Pending { .. } | What::Declined(_) => None,
        }
    }

    /// Look-ups show it at `now`.
    pub(super) fn is_shown(&self, now: DateTime<Utc>) -> bool {
        match self.shown {
            Shown::Always => true,
            Shown::From(at) => now >= at,
            Shown::Never => false,
        }
    }
}
