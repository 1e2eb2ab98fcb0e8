//! From rows to the rules' own types. A row that does not fit is a defect of ours, never a guess.

use super::proof::{ClaimRow, Claimed};
use super::records::{AttemptView, PaymentView};
use crate::domain::declines::DeclineCounts;
use crate::domain::history::{Event, HistoryRow};
use crate::domain::ids::{ActorId, ClaimId, Epoch, Fence, GatewayName, PaymentId, WorkerName};
use crate::domain::lease::Mono;
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::payment::{OnExhausted, OnSoftDecline, Payment, RetryPolicy};
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::switches::{Switch, Switches};
use crate::domain::window::Window;
use crate::platform::trace;
use secrecy::SecretString;
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};
use std::time::Duration;
use uuid::Uuid;

/// A value of the right type that the rules' own types do not hold: this row's fault, not the schema's.
#[derive(Debug, thiserror::Error)]
#[error("unfit value {0}")]
pub(super) struct Unfit(String);

pub(super) fn unfit(column: &str, found: &dyn std::fmt::Debug) -> Error {
    Error::ColumnDecode { index: column.to_owned(), source: Box::new(Unfit(format!("{found:?}"))) }
}

/// A text in this column, as its type reads it.
pub(super) fn parsed<T>(row: &PgRow, column: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
    let text: String = row.try_get(column)?;
    parse(&text).ok_or_else(|| unfit(column, &text))
}

/// A payment id in this column.
pub(super) fn payment_id(row: &PgRow, column: &str) -> Result<PaymentId, Error> {
    let id: Uuid = row.try_get(column)?;
    PaymentId::from_uuid(id).map_err(|_| unfit(column, &id))
}

/// A payment's id in this column, which may be empty.
pub(super) fn payment_if_any(row: &PgRow, column: &str) -> Result<Option<PaymentId>, Error> {
    row.try_get::<Option<Uuid>, _>(column)?.map(|_| payment_id(row, column)).transpose()
}

/// A state in this column.
pub(super) fn status(row: &PgRow, column: &str) -> Result<Status, Error> {
    parsed(row, column, Status::from_text)
}

/// A row of `payment_history`. Its payment is given, because a statement that asks for one payment's
/// rows does not repeat it in each.
pub(super) fn history(row: &PgRow, payment: PaymentId) -> Result<HistoryRow, Error> {
    let was: String = row.try_get("was")?;
    Ok(HistoryRow {
        payment,
        seq: row.try_get("seq")?,
        // The text form of "did not exist".
        from: if was == "-" { None } else { Some(status(row, "was")?) },
        to: status(row, "became")?,
        event: parsed(row, "cause", Event::from_text)?,
        by: row.try_get("done_by")?,
        fence: Fence(row.try_get("fence")?),
        attempt: row.try_get("attempt")?,
        epoch: Epoch(row.try_get("epoch")?),
        at: row.try_get("at")?,
        detail: row.try_get("detail")?,
    })
}

/// The stored hash of a history row.
pub(super) fn history_hash(row: &PgRow) -> Result<[u8; 32], Error> {
    required_hash(row, "hash")
}

/// A hash that is never null.
pub(super) fn required_hash(row: &PgRow, column: &str) -> Result<[u8; 32], Error> {
    hash(row, column)?.ok_or_else(|| unfit(column, &"null"))
}

fn hash(row: &PgRow, column: &str) -> Result<Option<[u8; 32]>, Error> {
    let bytes: Option<Vec<u8>> = row.try_get(column)?;
    bytes.map(|bytes| bytes.try_into().map_err(|bytes| unfit(column, &bytes))).transpose()
}

/// Amount and currency of a payment.
pub(super) fn money(row: &PgRow) -> Result<Money, Error> {
    let amount: i64 = row.try_get("amount_minor")?;
    let minor = Minor::new(amount).ok_or_else(|| unfit("amount_minor", &amount))?;
    Ok(Money { minor, currency: parsed(row, "currency", Currency::from_code)? })
}

/// What is switched off, as `kind:value` texts; null where nothing is.
pub(super) fn switches(row: &PgRow) -> Result<Switches, Error> {
    let texts: Option<Vec<String>> = row.try_get("switches")?;
    Ok(Switches::of(texts.unwrap_or_default().iter().filter_map(|text| Switch::stored(text))))
}

/// A whole row of `payments`.
pub(super) fn payment(row: &PgRow) -> Result<Payment, Error> {
    // A reason of a later build is no reason to this one; while builds are changed both are at work.
    let reason: Option<String> = row.try_get("status_reason")?;
    let reason = reason.and_then(|text| Reason::from_text(&text));
    Ok(Payment {
        id: payment_id(row, "id")?,
        actor: ActorId(row.try_get("actor_id")?),
        status: status(row, "status")?,
        reason,
        due_at: row.try_get("due_at")?,
        execute_before: row.try_get("execute_before")?,
        execute_within: window(row)?,
        next_attempt_at: row.try_get("next_attempt_at")?,
        gateway: GatewayName(row.try_get("gateway")?),
        amount: money(row)?,
        attempt: row.try_get("attempt")?,
        sends: row.try_get("sends")?,
        held_back: row.try_get("held_back")?,
        held_back_since: row.try_get("held_back_since")?,
        asks: row.try_get("asks")?,
        epoch: Epoch(row.try_get("epoch")?),
        epoch_first_sent_at: row.try_get("epoch_first_sent_at")?,
        unanswered: row.try_get("unanswered")?,
        request_hash: hash(row, "request_hash")?,
        gateway_account: row.try_get("gateway_account")?,
        renderer: row.try_get("renderer")?,
        intent_ref: row.try_get("intent_ref")?,
        gateway_ref: row.try_get("gateway_ref")?,
        fence: Fence(row.try_get("fence")?),
        cancel_wish_at: row.try_get("cancel_wish_at")?,
        retry: RetryPolicy {
            max_sends: row.try_get("max_sends")?,
            on_soft_decline: parsed(row, "on_soft_decline", on_soft_decline)?,
            on_exhausted: parsed(row, "on_exhausted", on_exhausted)?,
        },
        lane: row.try_get("lane")?,
        created_at: row.try_get("created_at")?,
        last_moved_at: row.try_get("last_moved_at")?,
        history_seq: row.try_get("history_seq")?,
    })
}

/// The window after its due time within which a payment is first tried.
pub(super) fn window(row: &PgRow) -> Result<Option<Window>, Error> {
    let seconds: Option<i32> = row.try_get("execute_within_s")?;
    let read =
        |seconds: i32| Window::of_seconds(seconds.into()).ok_or_else(|| unfit("execute_within_s", &seconds));
    seconds.map(read).transpose()
}

fn on_soft_decline(text: &str) -> Option<OnSoftDecline> {
    match text {
        "retry" => Some(OnSoftDecline::Retry),
        "fail" => Some(OnSoftDecline::Fail),
        _ => None,
    }
}

fn on_exhausted(text: &str) -> Option<OnExhausted> {
    match text {
        "park" => Some(OnExhausted::Park),
        "fail" => Some(OnExhausted::Fail),
        _ => None,
    }
}

/// The stored text of a choice.
pub(super) fn choices(retry: RetryPolicy) -> (&'static str, &'static str) {
    let soft = match retry.on_soft_decline {
        OnSoftDecline::Retry => "retry",
        OnSoftDecline::Fail => "fail",
    };
    let exhausted = match retry.on_exhausted {
        OnExhausted::Park => "park",
        OnExhausted::Fail => "fail",
    };
    (soft, exhausted)
}

/// The destination reference, hidden.
pub(super) fn payee(row: &PgRow) -> Result<SecretString, Error> {
    payee_text(row).map(SecretString::from)
}

/// The destination reference, for whoever compares it and shows it to nobody.
pub(super) fn payee_text(row: &PgRow) -> Result<String, Error> {
    let sealed: Vec<u8> = row.try_get("payee_sealed")?;
    // The value is a secret: the error does not show it.
    String::from_utf8(sealed).map_err(|_| unfit("payee_sealed", &"not UTF-8"))
}

/// A claim that this transaction made or found; a proof only once it has committed.
pub(super) fn claimed(row: &PgRow, asked_at: Mono) -> Result<Claimed, Error> {
    let age: Option<i64> = row.try_get("key_age_us")?;
    Ok(Claimed::new(ClaimRow {
        payment: payment(row)?,
        payee: payee(row)?,
        claim_id: ClaimId(row.try_get("claim_id")?),
        was: status(row, "was")?,
        asked_at,
        claimed_at: row.try_get("claimed_at")?,
        // A key opened "in the future" by a clock that stepped back counts as new.
        key_age: age.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))),
        declines: DeclineCounts {
            day: count(row, "declines_day")?,
            thirty_days: count(row, "declines_30_days")?,
        },
        traceparent: if trace::is_on() { row.try_get("traceparent")? } else { None },
    }))
}

/// A sum of counts; of none it is null.
fn count(row: &PgRow, column: &str) -> Result<u32, Error> {
    let sum: Option<i64> = row.try_get(column)?;
    Ok(u32::try_from(sum.unwrap_or(0)).unwrap_or(u32::MAX))
}

/// What the API shows, without attempts.
pub(super) fn view(row: &PgRow) -> Result<PaymentView, Error> {
    let metadata: sqlx::types::Json<_> = row.try_get("metadata")?;
    Ok(PaymentView {
        payment: payment(row)?,
        payee: payee(row)?,
        description: row.try_get("description")?,
        metadata: metadata.0,
        external_id: row.try_get("external_id")?,
        attempts: Vec::new(),
        first_claimed_at: None,
    })
}

/// The attempt of a row of `find.sql`; `None` for a payment that was never claimed.
pub(super) fn attempt(row: &PgRow) -> Result<Option<AttemptView>, Error> {
    let Some(attempt) = row.try_get("t_attempt")? else { return Ok(None) };
    Ok(Some(AttemptView {
        attempt,
        epoch: Epoch(row.try_get("t_epoch")?),
        claim_id: ClaimId(row.try_get("t_claim_id")?),
        fence: Fence(row.try_get("t_fence")?),
        worker: WorkerName(row.try_get("t_worker")?),
        claimed_at: row.try_get("t_claimed_at")?,
        settled_at: row.try_get("t_settled_at")?,
        verdict: row.try_get("t_verdict")?,
        code: row.try_get("t_code")?,
        http_status: row.try_get("t_http_status")?,
        took_ms: row.try_get("t_took_ms")?,
        note: row.try_get("t_note")?,
        fenced: row.try_get("t_fenced")?,
    }))
}
