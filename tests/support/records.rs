//! Everything that the checker looks at, read once: the gateway's own ledger, the database, and what
//! the client was told.
//!
//! Amounts, instants and payees are compared as they stand; nothing here repairs or skips a row, and a
//! row that cannot be read stops the test.

use chrono::{DateTime, Utc};
use punctual::domain::history::{Event, HistoryRow};
use punctual::domain::ids::{Epoch, Fence, PaymentId};
use punctual::domain::state::Status;
use serde::Deserialize;
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection, Row};
use uuid::Uuid;

/// One physical request to the gateway, as the sandbox wrote it down.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerLine {
    /// From 1.
    pub seq: u64,
    /// When it had arrived, by the sandbox's clock.
    pub at: DateTime<Utc>,
    /// Its idempotency key.
    pub key: Option<String>,
    /// The payment it named.
    pub payment_id: Option<PaymentId>,
    /// The claim it named.
    pub claim_id: Option<Uuid>,
    /// The fence it named.
    pub fence: Option<i64>,
    /// The due instant it named.
    pub due_at: Option<DateTime<Utc>>,
    /// Minor units.
    pub amount: Option<i64>,
    /// ISO 4217.
    pub currency: Option<String>,
    /// The destination reference.
    pub payee: Option<String>,
    /// `charged`, `declined`, …
    pub verdict: String,
    /// This very request moved money.
    pub charged: bool,
}

/// A payment as the client was told that it exists.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    /// Its id.
    pub id: PaymentId,
    /// As asked.
    pub payee: String,
    /// As asked, in minor units.
    pub amount: i64,
    /// As asked.
    pub currency: String,
    /// As asked.
    pub due_at: DateTime<Utc>,
}

/// A cancel as the client saw it.
#[derive(Debug, Clone, Copy)]
pub struct Cancelled {
    /// Of which payment.
    pub id: PaymentId,
    /// HTTP status of the answer; `None` where none came.
    pub status: Option<u16>,
}

/// One row of `payments` with its payee and its place on the parked list.
#[derive(Debug, Clone)]
pub struct PaymentRow {
    /// Its id.
    pub id: PaymentId,
    /// Where it stands.
    pub status: Status,
    /// Why, where there is a reason.
    pub reason: Option<String>,
    /// Nothing may be charged before.
    pub due_at: DateTime<Utc>,
    /// When it is tried next.
    pub next_attempt_at: DateTime<Utc>,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// The destination reference.
    pub payee: String,
    /// Of the last claim.
    pub fence: i64,
    /// Rows of history it should have.
    pub history_seq: i32,
    /// The hash that its last history row should have.
    pub history_hash: Vec<u8>,
    /// The reason on the parked list, if it is there.
    pub parked: Option<String>,
}

/// One claim and what came of it.
#[derive(Debug, Clone)]
pub struct AttemptRow {
    /// Whose.
    pub payment: PaymentId,
    /// From 1.
    pub attempt: i32,
    /// The key's epoch.
    pub epoch: i32,
    /// Random, one per claim.
    pub claim_id: Uuid,
    /// Of this claim.
    pub fence: i64,
    /// Slot and incarnation.
    pub worker: String,
    /// When it was granted, by the database's clock.
    pub claimed_at: DateTime<Utc>,
    /// When its outcome was written.
    pub settled_at: Option<DateTime<Utc>>,
    /// The state that it moved the payment to; nothing if it moved none.
    pub settled_to: Option<String>,
    /// What the gateway said.
    pub verdict: Option<String>,
    /// `sent`, `looked_up` or `not_started`.
    pub how: Option<String>,
    /// The answer came too late and was kept off the status.
    pub fenced: bool,
}

/// One row of history with its stored hash.
#[derive(Debug, Clone)]
pub struct Told {
    /// What happened.
    pub row: HistoryRow,
    /// 32 bytes.
    pub hash: Vec<u8>,
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// G: in the order of its writing.
    pub ledger: Vec<LedgerLine>,
    /// C: what was acknowledged.
    pub acknowledged: Vec<Acknowledged>,
    /// C: what was cancelled, and what was answered.
    pub cancelled: Vec<Cancelled>,
    /// K: payment and sequence of each event, in the order of each partition; empty where nobody
    /// published.
    pub events: Vec<(PaymentId, i64)>,
    /// D: by id.
    pub payments: Vec<PaymentRow>,
    /// D: by payment and number.
    pub attempts: Vec<AttemptRow>,
    /// D: by payment and number.
    pub history: Vec<Told>,
}

/// A connection to a test's database, for looking.
pub async fn look(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("the test's database answers")
}

/// Reads the database in one snapshot, beside a ledger and the client's log.
pub async fn read(url: &str, ledger: &[serde_json::Value], acknowledged: Vec<Acknowledged>) -> Records {
    let line = |line: &serde_json::Value| {
        serde_json::from_value(line.clone()).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let mut database = look(url).await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    sqlx::query(begin).execute(&mut database).await.expect("a snapshot");
    let payments = sqlx::query(
        "SELECT p.*, d.payee_sealed, d.key_version, h.reason AS parked_reason
         FROM payments p JOIN payment_details d ON d.due_day = p.due_day AND d.id = p.id
         LEFT JOIN parked h ON h.payment_id = p.id ORDER BY p.id",
    )
    .try_map(|row| payment(&row))
    .fetch_all(&mut database)
    .await
    .expect("payments");
    let attempts = sqlx::query("SELECT * FROM attempts ORDER BY payment_id, attempt")
        .try_map(|row| attempt(&row))
        .fetch_all(&mut database)
        .await
        .expect("attempts");
    let history = sqlx::query("SELECT * FROM payment_history ORDER BY payment_id, seq")
        .try_map(|row| told(&row))
        .fetch_all(&mut database)
        .await
        .expect("history");
    Records {
        ledger: ledger.iter().map(line).collect(),
        acknowledged,
        cancelled: Vec::new(),
        events: Vec::new(),
        payments,
        attempts,
        history,
    }
}

fn payment(row: &PgRow) -> sqlx::Result<PaymentRow> {
    assert_eq!(row.try_get::<i16, _>("key_version")?, 0, "this checker reads plain payees");
    Ok(PaymentRow {
        id: id(row.try_get("id")?),
        status: status(row.try_get("status")?),
        reason: row.try_get("status_reason")?,
        due_at: row.try_get("due_at")?,
        next_attempt_at: row.try_get("next_attempt_at")?,
        amount: row.try_get("amount_minor")?,
        currency: row.try_get("currency")?,
        payee: String::from_utf8(row.try_get("payee_sealed")?).expect("a payee is text"),
        fence: row.try_get("fence")?,
        history_seq: row.try_get("history_seq")?,
        history_hash: row.try_get("history_hash")?,
        parked: row.try_get("parked_reason")?,
    })
}

fn attempt(row: &PgRow) -> sqlx::Result<AttemptRow> {
    Ok(AttemptRow {
        payment: id(row.try_get("payment_id")?),
        attempt: row.try_get("attempt")?,
        epoch: row.try_get("epoch")?,
        claim_id: row.try_get("claim_id")?,
        fence: row.try_get("fence")?,
        worker: row.try_get("worker")?,
        claimed_at: row.try_get("claimed_at")?,
        settled_at: row.try_get("settled_at")?,
        settled_to: row.try_get("settled_to")?,
        verdict: row.try_get("verdict")?,
        how: row.try_get("how")?,
        fenced: row.try_get("fenced")?,
    })
}

fn told(row: &PgRow) -> sqlx::Result<Told> {
    let was: String = row.try_get("was")?;
    let cause: String = row.try_get("cause")?;
    Ok(Told {
        row: HistoryRow {
            payment: id(row.try_get("payment_id")?),
            seq: row.try_get("seq")?,
            from: (was != "-").then(|| status(was)),
            to: status(row.try_get("became")?),
            event: Event::from_text(&cause).unwrap_or_else(|| panic!("the cause {cause:?}")),
            by: row.try_get("done_by")?,
            fence: Fence(row.try_get("fence")?),
            attempt: row.try_get("attempt")?,
            epoch: Epoch(row.try_get("epoch")?),
            at: row.try_get("at")?,
            detail: row.try_get("detail")?,
        },
        hash: row.try_get("hash")?,
    })
}

fn id(uuid: Uuid) -> PaymentId {
    PaymentId::from_uuid(uuid).unwrap_or_else(|error| panic!("{uuid}: {error}"))
}

fn status(text: String) -> Status {
    Status::from_text(&text).unwrap_or_else(|| panic!("the state {text:?}"))
}
