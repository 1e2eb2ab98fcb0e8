//! The shapes on the wire, in both directions.
//!
//! **In**: [`Draft::read`] takes a document apart field by field and stops at the first thing that
//! has the wrong shape: unknown or repeated names, wrong types, times without an offset. What it
//! hands on is well formed and not yet allowed; `rules` judges that.
//!
//! **Out**: the answer of a creation is written from values that never change, in a fixed order, so
//! that a replay years later is the same bytes; [`CREATION_RENDERING`] names that form. Reads show
//! the row as it stands.
//!
//! A payment without `executeWithin` is answered without that name, so that creations from before it
//! was served keep their bytes.

use super::instant::Instant;
use super::node::{Node, pointer};
use super::problem::{Code, Problem};
use crate::domain::ids::PaymentId;
use crate::domain::payment::RetryPolicy;
use crate::domain::state::Status;
use crate::domain::window::Window;
use crate::schedule::{AttemptView, HistoryEntry, PaymentView};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// The form in which creations are answered. It grows when `Creation` changes, and payments of an
/// older form keep being answered in theirs. All payments so far are of form 1.
pub const CREATION_RENDERING: i16 = 1;

/// A well-formed request to create, before defaults and rules.
pub(super) struct Draft {
    pub(super) payee: SecretString,
    pub(super) amount: i64,
    pub(super) currency: Option<String>,
    pub(super) due_at: Instant,
    pub(super) execute_before: Option<Instant>,
    pub(super) execute_within: Option<i64>,
    pub(super) gateway: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) description: Option<String>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) retry: RetryDraft,
}

/// The retry object as written.
#[derive(Default)]
pub(super) struct RetryDraft {
    pub(super) max_sends: Option<i64>,
    pub(super) on_soft_decline: Option<String>,
    pub(super) on_exhausted: Option<String>,
}

/// The fields while they are being read.
#[derive(Default)]
struct Fields {
    payee: Option<SecretString>,
    amount: Option<i64>,
    currency: Option<String>,
    due_at: Option<Instant>,
    execute_before: Option<Instant>,
    execute_within: Option<i64>,
    gateway: Option<String>,
    external_id: Option<String>,
    description: Option<String>,
    metadata: BTreeMap<String, String>,
    retry: RetryDraft,
}

impl Draft {
    /// Reads a body.
    ///
    /// # Errors
    /// The first wrong shape in the order of the document, then the first missing field: 400.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields::default();
        for (name, node) in object("", document(body)?)? {
            fields.take(&name, node)?;
        }
        fields.whole()
    }

    /// Reads a payment of a batch, which has its idempotency key among its fields.
    ///
    /// # Errors
    /// As [`Self::read`]; the key is any text still.
    pub(super) fn read_item(item: &str) -> Result<(String, Self), Problem> {
        let (mut key, mut fields) = (None, Fields::default());
        for (name, node) in object("", document(item.as_bytes())?)? {
            if name == "idempotencyKey" {
                key = Some(text(pointer("", &name), node)?);
            } else {
                fields.take(&name, node)?;
            }
        }
        let missing =
            || Problem::at(Code::MissingIdempotencyKey, "/idempotencyKey", "idempotencyKey is required.");
        Ok((key.ok_or_else(missing)?, fields.whole()?))
    }
}

fn document(body: &[u8]) -> Result<Node, Problem> {
    Node::read(body).map_err(|not_json| Problem::new(Code::MalformedJson).detail(not_json.sentence()))
}

impl Fields {
    fn take(&mut self, name: &str, node: Node) -> Result<(), Problem> {
        let at = pointer("", name);
        match name {
            "payee" => self.payee = Some(text(at, node)?.into()),
            "amount" => self.amount = Some(integer(at, &node)?),
            "currency" => self.currency = Some(text(at, node)?),
            "dueAt" => self.due_at = Some(time(at, node)?),
            "executeBefore" => self.execute_before = Some(time(at, node)?),
            "executeWithin" => self.execute_within = Some(integer(at, &node)?),
            "gateway" => self.gateway = Some(text(at, node)?),
            "externalId" => self.external_id = Some(text(at, node)?),
            "description" => self.description = Some(text(at, node)?),
            "metadata" => {
                for (key, value) in object(&at, node)? {
                    let value = text(pointer(&at, &key), value)?;
                    self.metadata.insert(key, value);
                }
            }
            "retry" => {
                for (key, value) in object(&at, node)? {
                    let at = pointer(&at, &key);
                    match key.as_str() {
                        "maxSends" => self.retry.max_sends = Some(integer(at, &value)?),
                        "onSoftDecline" => self.retry.on_soft_decline = Some(text(at, value)?),
                        "onExhausted" => self.retry.on_exhausted = Some(text(at, value)?),
                        _ => return Err(unknown(at)),
                    }
                }
            }
            _ => return Err(unknown(at)),
        }
        Ok(())
    }

    /// Every required field is there.
    fn whole(self) -> Result<Draft, Problem> {
        let missing =
            |name: &str| Problem::at(Code::MissingField, pointer("", name), format!("{name} is required."));
        Ok(Draft {
            payee: self.payee.ok_or_else(|| missing("payee"))?,
            amount: self.amount.ok_or_else(|| missing("amount"))?,
            due_at: self.due_at.ok_or_else(|| missing("dueAt"))?,
            currency: self.currency,
            execute_before: self.execute_before,
            execute_within: self.execute_within,
            gateway: self.gateway,
            external_id: self.external_id,
            description: self.description,
            metadata: self.metadata,
            retry: self.retry,
        })
    }
}

pub(super) fn unknown(at: String) -> Problem {
    Problem::at(Code::UnknownField, at, "This field is not known.")
}

pub(super) fn wrong(at: impl Into<String>, wanted: &'static str, node: &Node) -> Problem {
    Problem::at(Code::WrongType, at, format!("Expected {wanted}, found {}.", node.kind()))
}

/// The pairs of an object whose names are all different.
pub(super) fn object(at: &str, node: Node) -> Result<Vec<(String, Node)>, Problem> {
    let Node::Object(pairs) = node else { return Err(wrong(at, "an object", &node)) };
    let mut seen = HashSet::new();
    for (name, _) in &pairs {
        if !seen.insert(name.as_str()) {
            return Err(Problem::at(Code::DuplicateField, pointer(at, name), "This field appears twice."));
        }
    }
    Ok(pairs)
}

pub(super) fn text(at: String, node: Node) -> Result<String, Problem> {
    match node {
        Node::Text(text) => Ok(text),
        other => Err(wrong(at, "a string", &other)),
    }
}

pub(super) fn integer(at: String, node: &Node) -> Result<i64, Problem> {
    match node {
        Node::Integer(value) => Ok(*value),
        other => Err(wrong(at, "an integer", other)),
    }
}

fn time(at: String, node: Node) -> Result<Instant, Problem> {
    let text = text(at.clone(), node)?;
    Instant::read(&text).ok_or_else(|| {
        Problem::at(
            Code::InvalidTime,
            at,
            "Expected an RFC 3339 time with an offset, such as 2030-01-31T09:00:00Z.",
        )
    })
}

/// UTC with `Z`, as many digits as needed of none, three or six.
pub(crate) fn utc(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// What the client asked for, and when it did: what never changes of a payment. The order of fields
/// is the order on the wire, here and below, and part of the rendering.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wished<'a> {
    payee: &'a str,
    amount: i64,
    currency: &'a str,
    due_at: String,
    execute_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execute_within: Option<i32>,
    gateway: &'a str,
    external_id: Option<&'a str>,
    description: Option<&'a str>,
    metadata: &'a BTreeMap<String, String>,
    retry: RetryPolicy,
    created_at: String,
}

/// The answer of a creation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Creation<'a> {
    payment_id: PaymentId,
    status: Status,
    #[serde(flatten)]
    wished: Wished<'a>,
    version: i32,
}

/// A payment as it stands, without its attempts: what a list shows of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    payment_id: PaymentId,
    status: Status,
    status_reason: Option<&'static str>,
    #[serde(flatten)]
    wished: Wished<'a>,
    updated_at: String,
    next_attempt_at: Option<String>,
    cancel_requested_at: Option<String>,
    gateway_reference: Option<&'a str>,
    version: i32,
}

/// A payment as it stands.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Standing<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    lateness_ms: Option<i64>,
    attempts: Vec<Attempt<'a>>,
}

/// One page of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    data: Vec<Summary<'a>>,
    next_cursor: Option<String>,
}

/// A payment's history, oldest first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct History<'a> {
    payment_id: PaymentId,
    data: Vec<Happening<'a>>,
}

/// One row of history; hashes in hexadecimal.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Happening<'a> {
    seq: i32,
    from: Option<Status>,
    to: Status,
    cause: &'static str,
    by: &'a str,
    fence: i64,
    attempt: i32,
    epoch: i32,
    at: String,
    detail: serde_json::Value,
    prev: String,
    hash: String,
}

/// One attempt. Worker names and fences are for operators and not shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attempt<'a> {
    attempt: i32,
    epoch: i32,
    claimed_at: String,
    settled_at: Option<String>,
    outcome: Option<&'a str>,
    code: Option<&'a str>,
    http_status: Option<i16>,
    took_ms: Option<i32>,
    late: bool,
}

/// The creation's answer in form [`CREATION_RENDERING`].
pub(super) fn creation(view: &PaymentView) -> Vec<u8> {
    bytes(&Creation {
        payment_id: view.payment.id,
        status: Status::Pending,
        wished: wished(view),
        version: 1,
    })
}

fn wished(view: &PaymentView) -> Wished<'_> {
    let payment = &view.payment;
    Wished {
        payee: view.payee.expose_secret(),
        amount: payment.amount.minor.get(),
        currency: payment.amount.currency.as_str(),
        due_at: utc(payment.due_at),
        execute_before: payment.execute_before.map(utc),
        execute_within: payment.execute_within.map(Window::seconds),
        gateway: &payment.gateway.0,
        external_id: view.external_id.as_deref(),
        description: view.description.as_deref(),
        metadata: &view.metadata,
        retry: payment.retry,
        created_at: utc(payment.created_at),
    }
}

/// The payment as it stands.
pub(crate) fn standing(view: &PaymentView) -> Vec<u8> {
    bytes(&Standing {
        summary: summary(view),
        lateness_ms: view.first_claimed_at.map(|at| lateness_ms(view.payment.first_attempt_at(), at)),
        attempts: view.attempts.iter().map(attempt).collect(),
    })
}

fn summary(view: &PaymentView) -> Summary<'_> {
    let payment = &view.payment;
    Summary {
        payment_id: payment.id,
        status: payment.status,
        status_reason: payment.reason.map(|reason| reason.as_str()),
        wished: wished(view),
        updated_at: utc(payment.last_moved_at),
        next_attempt_at: payment.status.is_claimable().then(|| utc(payment.next_attempt_at)),
        cancel_requested_at: payment.cancel_wish_at.map(utc),
        gateway_reference: payment.gateway_ref.as_deref(),
        version: payment.history_seq,
    }
}

/// One page of a list.
pub(super) fn page(payments: &[PaymentView], next_cursor: Option<String>) -> Vec<u8> {
    bytes(&Page { data: payments.iter().map(summary).collect(), next_cursor })
}

/// A payment's history.
pub(crate) fn history(payment_id: PaymentId, entries: &[HistoryEntry]) -> Vec<u8> {
    bytes(&History { payment_id, data: entries.iter().map(happening).collect() })
}

fn happening(entry: &HistoryEntry) -> Happening<'_> {
    let row = &entry.row;
    Happening {
        seq: row.seq,
        from: row.from,
        to: row.to,
        cause: row.event.as_str(),
        by: if row.by.starts_with("actor:") { "client" } else { &row.by },
        fence: row.fence.0,
        attempt: row.attempt,
        epoch: row.epoch.0,
        at: utc(row.at),
        // Written as JSON by ourselves; anything else is shown as the text it is.
        detail: serde_json::from_str(&row.detail).unwrap_or_else(|_| row.detail.as_str().into()),
        prev: hex::encode(entry.prev),
        hash: hex::encode(entry.hash),
    }
}

/// Whole milliseconds, rounded up: a payment claimed a microsecond late was not on time.
fn lateness_ms(planned_at: DateTime<Utc>, first_claimed_at: DateTime<Utc>) -> i64 {
    let late = first_claimed_at.signed_duration_since(planned_at);
    let whole = late.num_milliseconds();
    if late > TimeDelta::milliseconds(whole) { whole + 1 } else { whole }
}

fn attempt(view: &AttemptView) -> Attempt<'_> {
    Attempt {
        attempt: view.attempt,
        epoch: view.epoch.0,
        claimed_at: utc(view.claimed_at),
        settled_at: view.settled_at.map(utc),
        outcome: view.verdict.as_deref(),
        code: view.code.as_deref(),
        http_status: view.http_status,
        took_ms: view.took_ms,
        late: view.fenced,
    }
}

fn bytes(body: &impl Serialize) -> Vec<u8> {
    // Structs of texts, numbers, lists and a map with text keys: serde_json fails on none of them.
    serde_json::to_vec(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_number_in_a_name_is_not_repeated() {
        const CARD: &str = "4111 1111 1111 1111";
        for (body, pointer) in [
            (format!(r#"{{"{CARD}":1}}"#), "/***"),
            (format!(r#"{{"retry":{{"{CARD}":1}}}}"#), "/retry/***"),
            (format!(r#"{{"metadata":{{"{CARD}":1}}}}"#), "/metadata/***"),
            (format!(r#"{{"{CARD}":1,"{CARD}":1}}"#), "/***"),
        ] {
            let problem = Draft::read(body.as_bytes()).err().unwrap();
            assert_eq!((problem.code.http(), problem.errors[0].pointer.as_str()), (400, pointer));
            let written = String::from_utf8(problem.write("/", "r")).unwrap();
            assert!(!written.contains("1111"), "{written}");
        }
    }
}
