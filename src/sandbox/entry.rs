//! What one executed call leaves under its key, and what is known of it later.

use super::behaviour::{Behaviour, PendingEnd};
use super::line::{Line, Verdict};
use super::wire::ChargeBody;
use chrono::{DateTime, Utc};

/// What one executed call left under a key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) payment_id: Box<str>,
    pub(super) amount_said: i64,
    pub(super) currency_said: Box<str>,
    what: What,
    shown: Shown,
}

#[derive(Debug)]
enum What {
    Charged,
    Pending { decides_at: DateTime<Utc>, end: PendingEnd },
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
}

impl Entry {
    /// What an executed line leaves under its key; `None` if nothing.
    pub(super) fn of(line: &Line, link: &Behaviour, body: ChargeBody) -> Option<Self> {
        let what = match (line.verdict, link) {
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
        let amount_said = body.amount + i64::from(*link == Behaviour::WrongAmount);
        let currency_said = match (link, body.currency.as_str()) {
            (Behaviour::WrongCurrency, "USD") => "EUR".into(),
            (Behaviour::WrongCurrency, _) => "USD".into(),
            (_, asked) => asked.into(),
        };
        Some(Self {
            seq: line.seq,
            payment_id: body.payment_id.into(),
            amount_said,
            currency_said,
            what,
            shown,
        })
    }

    /// What a further request under the key gets.
    pub(super) fn stored(&self, link: &Behaviour, replays_errors: bool) -> Stored {
        match (&self.what, link) {
            (What::Declined(_), _) if !replays_errors => Stored::Nothing,
            (What::Charged, Behaviour::ServerErrorSticky) => Stored::ServerError,
            (What::Charged, Behaviour::ServerErrorCharged) if replays_errors => Stored::ServerError,
            _ => Stored::Entry,
        }
    }

    /// How it stands at `now`.
    pub(super) fn known(&self, now: DateTime<Utc>) -> Known {
        match &self.what {
            What::Charged => Known::Charged,
            What::Declined(code) => Known::Declined(code.to_string()),
            What::Pending { decides_at, .. } if now < *decides_at => Known::Pending,
            What::Pending { end: PendingEnd::Charged, .. } => Known::Charged,
            What::Pending { end: PendingEnd::Declined, .. } => Known::Declined("processing_error".into()),
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
