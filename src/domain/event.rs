//! The event of a history row: CloudEvents 1.0, structured JSON, the same bytes in every delivery, whether
//! through Kafka or over the interface.
//!
//! Everything in it comes from the immutable row and from columns of the payment that never change, so
//! a repetition cannot contradict what a reader already has. No payee, no description, no metadata: it
//! can be shown to anybody who may see that a payment exists. The one thing that can be missing
//! from a repetition is `data.payment`, once the payment's day is detached.

use super::event_type::event_type;
use super::history::{Event, HistoryRow};
use super::ids::{ActorId, GatewayName};
use super::money::Money;
use super::reason::Reason;
use super::state::{Cause, Status};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Map, Value};

/// `source` of every event.
pub const SOURCE: &str = "punctual";

/// What of a payment never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Whose payment it is.
    pub actor: ActorId,
    /// Through which gateway.
    pub gateway: GatewayName,
    /// How much.
    pub amount: Money,
    /// Not before.
    pub due_at: DateTime<Utc>,
    /// No charge after.
    pub execute_before: Option<DateTime<Utc>>,
    /// The trace of the request that made it, W3C form.
    pub traceparent: Option<String>,
}

/// One history row, ready to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpublished {
    /// The row.
    pub row: HistoryRow,
    /// Its payment; `None` once the payment's day is detached.
    pub payment: Option<Snapshot>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    specversion: &'static str,
    id: String,
    source: &'static str,
    r#type: &'static str,
    subject: String,
    time: String,
    datacontenttype: &'static str,
    sequence: i32,
    data: What<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct What<'a> {
    status: &'static str,
    previous_status: Option<&'static str>,
    cause: &'static str,
    reason: Option<&'static str>,
    by: &'a str,
    attempt: i32,
    epoch: i32,
    fence: i64,
    detail: Map<String, Value>,
    payment: Option<Payment<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payment<'a> {
    actor_id: String,
    amount: i64,
    currency: &'a str,
    gateway: &'a str,
    due_at: String,
    execute_before: Option<String>,
}

/// The id of a row's event, for readers that remove duplicates.
#[must_use]
pub fn id(row: &HistoryRow) -> String {
    format!("{}/{}", row.payment, row.seq)
}

/// The event as JSON.
#[must_use]
pub fn json(unpublished: &Unpublished) -> Vec<u8> {
    let row = &unpublished.row;
    let detail = detail(row);
    let reason = reason(row, &detail);
    let envelope = Envelope {
        specversion: "1.0",
        id: id(row),
        source: SOURCE,
        r#type: event_type(row.event, row.to).as_str(),
        subject: row.payment.to_string(),
        time: text_of(row.at),
        datacontenttype: "application/json",
        sequence: row.seq,
        data: What {
            status: row.to.as_str(),
            previous_status: row.from.map(|from| from.as_str()),
            cause: row.event.as_str(),
            reason: reason.map(Reason::as_str),
            by: &row.by,
            attempt: row.attempt,
            epoch: row.epoch.0,
            fence: row.fence.0,
            detail,
            payment: unpublished.payment.as_ref().map(payment),
        },
    };
    // Strings and integers under string keys: serde_json has no case in which it fails.
    serde_json::to_vec(&envelope).unwrap_or_default()
}

fn payment(snapshot: &Snapshot) -> Payment<'_> {
    Payment {
        actor_id: snapshot.actor.0.to_string(),
        amount: snapshot.amount.minor.get(),
        currency: snapshot.amount.currency.as_str(),
        gateway: &snapshot.gateway.0,
        due_at: text_of(snapshot.due_at),
        execute_before: snapshot.execute_before.map(text_of),
    }
}

/// The row's own detail, as it was written.
fn detail(row: &HistoryRow) -> Map<String, Value> {
    match serde_json::from_str(&row.detail) {
        Ok(Value::Object(detail)) => detail,
        // No statement of ours writes anything but an object; what it wrote is shown, not hidden.
        Ok(_) | Err(_) => Map::from_iter([("text".to_owned(), Value::String(row.detail.clone()))]),
    }
}

/// Why it stands where it stands: written with a settled row, implied by the other causes.
fn reason(row: &HistoryRow, detail: &Map<String, Value>) -> Option<Reason> {
    let written = || detail.get("reason").and_then(Value::as_str).and_then(Reason::from_text);
    match row.event {
        // The reason in the detail is a person's own words.
        Event::Moved(Cause::Redriven) => Some(Reason::Redriven),
        Event::Moved(Cause::Resolved) => match row.to {
            Status::Failed => Some(Reason::ResolvedNotCharged),
            Status::Cancelled => Some(Reason::CancelledByClient),
            Status::Completed
            | Status::Pending
            | Status::Processing
            | Status::Unknown
            | Status::Parked
            | Status::Refunded => None,
        },
        Event::Moved(Cause::Cancelled) => Some(Reason::CancelledByClient),
        Event::Moved(Cause::DeadlinePassed) => Some(Reason::DeadlinePassed),
        Event::Moved(Cause::LeaseExpired) => Some(Reason::LeaseExpired),
        Event::Moved(Cause::Poisoned) => Some(Reason::Poisoned),
        Event::Moved(
            Cause::Created
            | Cause::Claimed
            | Cause::Settled
            | Cause::Reconciled
            | Cause::Refunded
            | Cause::Repaired,
        )
        | Event::Fenced
        | Event::CancelWished
        | Event::Noted => written(),
    }
}

/// Postgres keeps microseconds, and so does the text.
fn text_of(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Micros, true)
}
