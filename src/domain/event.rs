//! The event of a history row: CloudEvents 1.0, structured JSON, the same bytes in every delivery, whether
//! through Kafka or over the interface.
//!
//! Everything in it comes from the immutable row and from columns of the payment that never change, so
//! a repetition cannot contradict what a reader already has. No payee, no description, no metadata: it
//! can be shown to anybody who may see that a payment exists. The one thing that can be missing
//! from a repetition is `data.payment`, once the payment's day is detached.

use super::event_type::{EventType, event_type};
use super::history::{Event, HistoryRow};
use super::ids::{ActorId, GatewayName, Operator};
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Announced<'a> {
    v: u8,
    payment_id: String,
    gateway: &'a str,
    reason: &'static str,
    parked_at: String,
    sequence: i32,
}

/// What is announced to people's tools when a row parks its payment (`topics/parked.schema.json`); `None` for
/// every other row, and for a payment whose day is detached, which nobody can act on.
#[must_use]
pub fn announcement(unpublished: &Unpublished) -> Option<Vec<u8>> {
    let row = &unpublished.row;
    let snapshot = unpublished.payment.as_ref()?;
    if event_type(row.event, row.to) != EventType::Parked {
        return None;
    }
    let announced = Announced {
        v: 1,
        payment_id: row.payment.to_string(),
        gateway: &snapshot.gateway.0,
        // A row of an older build may have none: what moved it says as much as is known.
        reason: reason(row, &detail(row)).map_or(row.event.as_str(), Reason::as_str),
        parked_at: text_of(row.at),
        sequence: row.seq,
    };
    // As above.
    Some(serde_json::to_vec(&announced).unwrap_or_default())
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
        Event::Moved(Cause::Cancelled) if Operator::is_named(&row.by) => Some(Reason::CancelledByOperator),
        Event::Moved(Cause::Cancelled) => Some(Reason::CancelledByClient),
        Event::Moved(Cause::DeadlinePassed) => Some(Reason::DeadlinePassed),
        Event::Moved(Cause::LeaseExpired) => Some(Reason::LeaseExpired),
        Event::Moved(Cause::Poisoned) => Some(Reason::Poisoned),
        Event::Moved(Cause::Reconciled) => match row.to {
            Status::Parked => reconciled(row, detail),
            Status::Completed
            | Status::Pending
            | Status::Processing
            | Status::Unknown
            | Status::Failed
            | Status::Cancelled
            | Status::Refunded => None,
        },
        Event::Moved(Cause::Repaired) => None,
        // What a settlement line proved and what a person said of it (`item`) is no reason of the registry.
        Event::Noted if detail.contains_key("item") => None,
        Event::Moved(Cause::Created | Cause::Claimed | Cause::Settled | Cause::Refunded)
        | Event::Fenced
        | Event::CancelWished
        | Event::Noted => written(detail),
    }
}

fn written(detail: &Map<String, Value>) -> Option<Reason> {
    detail.get("reason").and_then(Value::as_str).and_then(Reason::from_text)
}

/// Why reconciliation parked it: by a line of a settlement report (`item`; the reason beside it is a person's own
/// words), or as it was written.
fn reconciled(row: &HistoryRow, detail: &Map<String, Value>) -> Option<Reason> {
    if !detail.contains_key("item") {
        return written(detail);
    }
    // The line is another payment's, which took its external id back.
    if !detail.contains_key("class") {
        return Some(Reason::ExternalIdTakenBack);
    }
    // A charge that fits completes what was unknown; where nothing was asked for, any charge parks.
    if row.from == Some(Status::Pending) {
        Some(Reason::ChargeFound)
    } else {
        Some(Reason::ContractViolation)
    }
}

/// Postgres keeps microseconds, and so does the text.
fn text_of(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Micros, true)
}
