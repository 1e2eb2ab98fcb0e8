//! The API's answers as far as the story needs them, and the check of a history that a client can make.
//!
//! A field that a newer API adds is passed over; a cause that this version does not know is told as such.

use crate::domain::event_type::event_type;
use crate::domain::history::Event;
use crate::domain::ids::PaymentId;
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::window::{Window, first_attempt_at};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::Value;

/// `GET /v1/scheduled-payments/{id}`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payment {
    pub(crate) payment_id: PaymentId,
    pub(crate) status: Status,
    pub(super) status_reason: Option<String>,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) due_at: DateTime<Utc>,
    pub(super) execute_before: Option<DateTime<Utc>>,
    pub(super) execute_within: Option<i64>,
    pub(super) gateway: String,
    pub(super) external_id: Option<String>,
    pub(super) retry: Retry,
    pub(super) next_attempt_at: Option<DateTime<Utc>>,
    pub(super) cancel_requested_at: Option<DateTime<Utc>>,
    pub(super) gateway_reference: Option<String>,
    pub(super) lateness_ms: Option<i64>,
    #[serde(default)]
    pub(super) attempts: Vec<Attempt>,
    pub(super) version: i32,
}

/// The client's choice.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Retry {
    pub(super) max_sends: i64,
    pub(super) on_soft_decline: String,
    pub(super) on_exhausted: String,
}

/// One claim and what came of it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempt {
    pub(super) attempt: i32,
    pub(super) epoch: i32,
    pub(super) outcome: Option<String>,
    pub(super) http_status: Option<i16>,
    pub(super) took_ms: Option<i32>,
}

/// One row of `GET …/history`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) seq: i32,
    pub(super) from: Option<Status>,
    pub(super) to: Status,
    pub(super) cause: String,
    pub(super) by: String,
    pub(super) fence: i64,
    pub(super) attempt: i32,
    pub(super) epoch: i32,
    pub(super) at: DateTime<Utc>,
    #[serde(default)]
    pub(super) detail: Value,
    #[serde(default)]
    pub(super) prev: String,
    #[serde(default)]
    pub(super) hash: String,
}

impl Payment {
    /// Amount and currency as people write them.
    pub(super) fn money(&self) -> String {
        money(self.amount, &self.currency)
    }

    /// The instant of its first try.
    pub(super) fn first_try_at(&self) -> DateTime<Utc> {
        first_attempt_at(self.payment_id, self.due_at, self.execute_within.and_then(Window::of_seconds))
    }

    /// The sentence of its reason.
    pub(super) fn why(&self) -> Option<&str> {
        let text = self.status_reason.as_deref()?;
        Some(Reason::from_text(text).map_or(text, |reason| reason.explanation()))
    }

    /// What is known of a claim.
    pub(super) fn attempt(&self, number: i32) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.attempt == number)
    }
}

impl Row {
    /// What it tells, if this version knows.
    pub(super) fn told(&self) -> Option<Event> {
        Event::from_text(&self.cause)
    }

    /// The type of the event that was published of it.
    pub(super) fn event(&self) -> &'static str {
        self.told().map_or("unknown to this version", |event| event_type(event, self.to).as_str())
    }

    /// A text of its detail.
    pub(super) fn says(&self, name: &str) -> Option<&str> {
        self.detail.get(name).and_then(Value::as_str)
    }
}

/// The payment's own answer.
///
/// # Errors
/// For people: it is not of a form that this version knows.
pub fn payment(answer: Value) -> Result<Payment, String> {
    serde_json::from_value(answer).map_err(|error| unread("payment", &error))
}

/// What is said of an answer that cannot be read.
pub(super) fn unread(what: &str, error: &serde_json::Error) -> String {
    format!("the API's {what} is not of a form that this version knows: {error}")
}

/// In major units where the currency is known.
pub(super) fn money(amount: i64, currency: &str) -> String {
    match (Minor::new(amount), Currency::from_code(currency)) {
        (Some(minor), Some(currency)) => Money { minor, currency }.to_string(),
        _ => format!("{amount} minor units of {currency}"),
    }
}

/// To the second and in UTC: who needs more digits reads the history.
pub(super) fn second(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// What is wrong with a history that says it has `version` rows.
pub(super) fn broken(rows: &[Row], version: i32) -> Option<String> {
    let mut before: Option<&Row> = None;
    for row in rows {
        let expected = before.map_or(1, |before| before.seq.saturating_add(1));
        if row.seq != expected {
            return Some(format!("row {} stands where row {expected} belongs", row.seq));
        }
        if let Some(before) = before {
            if row.prev != before.hash {
                return Some(format!("row {} does not name the hash of the row before it", row.seq));
            }
            if row.from != Some(before.to) {
                return Some(format!("row {} does not begin where the row before it ended", row.seq));
            }
        }
        before = Some(row);
    }
    // The history was asked for after the payment, so it may only be longer.
    let last = before.map_or(0, |row| row.seq);
    (last < version).then(|| format!("it ends with row {last}, and the payment has {version}"))
}
