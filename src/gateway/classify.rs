//! From what was heard (or not) on one HTTP exchange to what it means: total, no clock, and pure but for
//! counting what cannot be true ([`violation`]).
//!
//! **Promises**: nothing that could have executed is ever called NotSent, and nothing is called
//! Charged unless payment and key are the ones asked for. What was taken is told as the gateway says
//! it: whoever decides holds it against what was asked. **Relies on** the caller for one fact only:
//! whether the body left. **Why this way**: the status alone cannot be trusted,
//! because a proxy can answer 403, 404 or 429 after the gateway has executed; a refusal counts
//! only in the gateway's own shape, with the type that belongs to its status. Everything else
//! after the first byte is a [`Doubt`]. Answers are untrusted: no text of theirs but a checked code
//! or reference goes further. The shapes are documented in `http.rs`.

use super::declines;
use crate::domain::ids::PaymentId;
use crate::domain::invariants::Invariant;
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::verdict::{Decline, Doubt, Lookup, NotSent, Verdict};
use crate::platform::violation;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::time::Duration;

/// What was asked for, to hold the answer against.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) key: String,
    pub(super) payment: PaymentId,
    pub(super) amount: Money,
}

/// What one exchange came to.
#[derive(Debug)]
pub(super) enum Heard {
    /// A status line and headers arrived.
    Answer { status: u16, retry_after: Option<Duration>, body: Result<Vec<u8>, BodyFault> },
    /// No answer, and proof that the body never left.
    Unsent(NotSent),
    /// The body may have left and no answer came in time.
    TimedOut,
    /// The body may have left and the connection ended or broke.
    Lost,
}

/// Why an answer's body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFault {
    /// It did not end in time.
    TimedOut,
    /// It ended before its length.
    Cut,
    /// Longer than [`super::http::ANSWER_CAP`].
    TooLarge,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChargeShape {
    id: String,
    status: StatusShape,
    key: String,
    payment_id: String,
    amount: i64,
    currency: String,
    code: Option<String>,
    network_code: Option<String>,
    advice: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum StatusShape {
    Charged,
    Pending,
    InProgress,
    Declined,
}

#[derive(Deserialize)]
struct LookupShape {
    key: String,
    charges: Vec<ChargeShape>,
    #[serde(default)]
    voided: bool,
}

/// The answer to a void that left a tombstone, or found one.
#[derive(Deserialize)]
struct VoidedShape {
    key: String,
    #[serde(rename = "status")]
    _status: VoidedStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum VoidedStatus {
    Voided,
}

#[derive(Deserialize)]
struct ErrorShape {
    error: ErrorFields,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorFields {
    r#type: ErrorType,
    code: String,
    key: Option<String>,
    payment_id: Option<String>,
    reference: Option<String>,
    network_code: Option<String>,
    advice: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
enum ErrorType {
    InvalidRequest,
    Unauthorized,
    Forbidden,
    Declined,
    NotFound,
    InUse,
    KeyReused,
    RateLimited,
    Voided,
}

/// What the answer to `POST /charges` means.
pub(super) fn charge(asked: &Asked, heard: Heard) -> Verdict {
    read(asked, heard, |status, retry_after, body| accepted(asked, status, retry_after, body))
}

/// What the answer to `POST /voids` means: a tombstone, or what an answer to a charge under the same key
/// would mean. It has no bytes but the key, so a refusal of the request itself speaks about the void alone:
/// nothing is learned of the charge, and the question stays.
pub(super) fn void(asked: &Asked, heard: Heard) -> Verdict {
    match read(asked, heard, |status, retry_after, body| voided(asked, status, retry_after, body)) {
        Verdict::NotSent { why: NotSent::Rejected, .. } | Verdict::Unknown(Doubt::KeyMismatch) => {
            Verdict::Unknown(Doubt::Unreadable)
        }
        verdict => verdict,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefundShape {
    id: String,
    status: RefundShapeStatus,
    key: String,
    charge: String,
    amount: i64,
    currency: String,
    code: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum RefundShapeStatus {
    Refunded,
    Pending,
    InProgress,
    Declined,
}

/// What a refund's request asked for, to hold the answer against.
#[derive(Debug, Clone)]
pub(super) struct AskedBack {
    /// As a charge of this key and amount would be asked for.
    pub(super) asked: Asked,
    /// The charge that is given back.
    pub(super) charge: String,
}

/// What the answer to `POST /refunds` means. Where it says charged, the money of this request is back.
pub(super) fn refund(of: &AskedBack, heard: Heard) -> Verdict {
    read(&of.asked, heard, |status, retry_after, body| given_back(of, status, retry_after, body))
}

fn given_back(of: &AskedBack, status: u16, retry_after: Option<Duration>, body: &[u8]) -> Verdict {
    let Ok(shape) = serde_json::from_slice::<RefundShape>(body) else {
        return Verdict::Unknown(Doubt::Unreadable);
    };
    let fits = match shape.status {
        RefundShapeStatus::Refunded => matches!(status, 200 | 201),
        RefundShapeStatus::Pending => matches!(status, 200 | 202),
        RefundShapeStatus::InProgress => status == 202,
        RefundShapeStatus::Declined => status == 200,
    };
    if fits { read_refund(of, &shape, retry_after) } else { Verdict::Unknown(Doubt::Unreadable) }
}

fn read_refund(of: &AskedBack, shape: &RefundShape, retry_after: Option<Duration>) -> Verdict {
    if shape.key != of.asked.key {
        return contradiction(&of.asked, Invariant::M10, "the answer names another refund than asked".into());
    }
    if shape.charge != of.charge {
        return contradiction(
            &of.asked,
            Invariant::M10,
            "the answer gives another charge back than asked".into(),
        );
    }
    if !is_reference(&shape.id) {
        return Verdict::Unknown(Doubt::Unreadable);
    }
    match shape.status {
        RefundShapeStatus::Refunded if is_amount(&of.asked, shape) => {
            Verdict::Charged { reference: shape.id.clone(), amount: of.asked.amount }
        }
        RefundShapeStatus::Refunded => {
            let said = amount_text(shape.amount, &shape.currency);
            let what = format!("gave {said} back under {}, asked {}", shape.id, of.asked.amount);
            contradiction(&of.asked, Invariant::M10, what)
        }
        RefundShapeStatus::Pending => Verdict::PendingAtGateway { reference: Some(shape.id.clone()) },
        RefundShapeStatus::InProgress => Verdict::InProgress { retry_after },
        RefundShapeStatus::Declined => {
            decline(shape.code.as_deref(), None, None, Some(&shape.id), retry_after)
        }
    }
}

fn is_amount(asked: &Asked, shape: &RefundShape) -> bool {
    shape.amount == asked.amount.minor.get()
        && Currency::from_code(&shape.currency) == Some(asked.amount.currency)
}

/// What the answer to `GET /refunds?key=` means: an object as `POST /refunds` answers it, or 404.
pub(super) fn refund_lookup(of: &AskedBack, heard: Heard) -> Lookup {
    let Heard::Answer { status, retry_after, body } = heard else {
        return Lookup::Unavailable { retry_after: None };
    };
    let unavailable = Lookup::Unavailable { retry_after };
    let Ok(body) = body else { return unavailable };
    match status {
        200 => match serde_json::from_slice::<RefundShape>(&body) {
            Ok(shape) => match read_refund(of, &shape, retry_after) {
                // What cannot be read teaches nothing; the question stays open.
                Verdict::Unknown(_) => unavailable,
                verdict => Lookup::Found(verdict),
            },
            Err(_) => unavailable,
        },
        404 => match serde_json::from_slice::<ErrorShape>(&body) {
            Ok(ErrorShape { error }) if error.r#type == ErrorType::NotFound => {
                Lookup::NotFound { visible_after: None }
            }
            Ok(_) | Err(_) => unavailable,
        },
        _ => unavailable,
    }
}

/// The meaning of an answer whose 2xx `accept` reads.
fn read(
    asked: &Asked,
    heard: Heard,
    accept: impl FnOnce(u16, Option<Duration>, &[u8]) -> Verdict,
) -> Verdict {
    let (status, retry_after, body) = match heard {
        Heard::Unsent(why) => return Verdict::NotSent { why, retry_after: None },
        Heard::TimedOut => return Verdict::Unknown(Doubt::TimedOut),
        Heard::Lost => return Verdict::Unknown(Doubt::ConnectionLost),
        Heard::Answer { status, retry_after, body } => (status, retry_after, body),
    };
    if status == 408 || status >= 500 {
        return Verdict::Unknown(Doubt::ServerError);
    }
    let body = match body {
        Ok(body) => body,
        Err(BodyFault::TimedOut) => return Verdict::Unknown(Doubt::TimedOut),
        Err(BodyFault::Cut | BodyFault::TooLarge) => return Verdict::Unknown(Doubt::Unreadable),
    };
    match status {
        200..=299 => accept(status, retry_after, &body),
        400..=499 => refused(asked, status, retry_after, &body),
        // A redirect or a status nobody defined: whoever sent it, it is not the gateway's contract.
        _ => Verdict::Unknown(Doubt::NotTheGateway),
    }
}

fn voided(asked: &Asked, status: u16, retry_after: Option<Duration>, body: &[u8]) -> Verdict {
    match serde_json::from_slice::<VoidedShape>(body) {
        Ok(shape) if status == 200 && shape.key == asked.key => Verdict::Voided,
        Ok(shape) if status == 200 => {
            let what = format!("the answer voids another key than asked ({} characters)", shape.key.len());
            contradiction(asked, Invariant::M5, what)
        }
        Ok(_) => Verdict::Unknown(Doubt::Unreadable),
        Err(_) => accepted(asked, status, retry_after, body),
    }
}

fn accepted(asked: &Asked, status: u16, retry_after: Option<Duration>, body: &[u8]) -> Verdict {
    let Ok(shape) = serde_json::from_slice::<ChargeShape>(body) else {
        return Verdict::Unknown(Doubt::Unreadable);
    };
    let fits = match shape.status {
        StatusShape::Charged => matches!(status, 200 | 201),
        StatusShape::Pending => matches!(status, 200 | 202),
        StatusShape::InProgress => status == 202,
        StatusShape::Declined => status == 200,
    };
    if !fits {
        return Verdict::Unknown(Doubt::Unreadable);
    }
    if shape.key != asked.key {
        return contradiction(asked, Invariant::M5, "the answer names another key than asked".into());
    }
    read_charge(asked, &shape, retry_after)
}

/// The meaning of one charge object, whatever its key.
fn read_charge(asked: &Asked, shape: &ChargeShape, retry_after: Option<Duration>) -> Verdict {
    if shape.payment_id != asked.payment.to_string() {
        return contradiction(asked, Invariant::M4, "the answer names another payment than asked".into());
    }
    if !is_reference(&shape.id) {
        return Verdict::Unknown(Doubt::Unreadable);
    }
    match shape.status {
        StatusShape::Charged => charged(asked, shape),
        StatusShape::Pending => Verdict::PendingAtGateway { reference: Some(shape.id.clone()) },
        StatusShape::InProgress => Verdict::InProgress { retry_after },
        StatusShape::Declined => decline(
            shape.code.as_deref(),
            shape.network_code.as_deref(),
            shape.advice.as_deref(),
            Some(&shape.id),
            retry_after,
        ),
    }
}

/// Money moved under this name. Of another amount than asked it is a charge too: its name and what it took are what
/// people need to give it back. That it breaks a promise is counted once, with its outcome (`worker/tally.rs`). What
/// cannot be read as money can only be told, and is counted here.
fn charged(asked: &Asked, shape: &ChargeShape) -> Verdict {
    if let (Some(minor), Some(currency)) = (Minor::new(shape.amount), Currency::from_code(&shape.currency)) {
        return Verdict::Charged { reference: shape.id.clone(), amount: Money { minor, currency } };
    }
    let said = amount_text(shape.amount, &shape.currency);
    let what = format!("charged {said} under {}, asked {}", shape.id, asked.amount);
    contradiction(asked, Invariant::M4, what)
}

/// An amount of the gateway's as people read it; nothing of what it calls a currency is repeated that is none.
fn amount_text(minor: i64, currency: &str) -> String {
    match (Minor::new(minor), Currency::from_code(currency)) {
        (Some(minor), Some(currency)) => Money { minor, currency }.to_string(),
        (None, Some(currency)) => format!("{minor} minor units of {currency}"),
        (_, None) => format!("{minor} minor units of an unreadable currency"),
    }
}

/// The gateway says what cannot be true if this promise was kept: counted here, where the number is known.
fn contradiction(asked: &Asked, broken: Invariant, what: String) -> Verdict {
    violation::seen(broken, Some(asked.payment), &what);
    Verdict::ContractViolation { what }
}

fn decline(
    code: Option<&str>,
    network_code: Option<&str>,
    advice: Option<&str>,
    reference: Option<&str>,
    retry_after: Option<Duration>,
) -> Verdict {
    let Some(code) = code.filter(|code| is_code(code)) else {
        return Verdict::Unknown(Doubt::Unreadable);
    };
    Verdict::Declined(Decline {
        class: declines::class(code, advice),
        code: code.to_owned(),
        network_code: network_code.filter(|code| is_code(code)).map(str::to_owned),
        reference: reference.filter(|text| is_reference(text)).map(str::to_owned),
        retry_after,
    })
}

fn refused(asked: &Asked, status: u16, retry_after: Option<Duration>, body: &[u8]) -> Verdict {
    let Ok(ErrorShape { error }) = serde_json::from_slice(body) else {
        return Verdict::Unknown(Doubt::NotTheGateway);
    };
    let about_another = error.key.as_ref().is_some_and(|key| *key != asked.key)
        || error.payment_id.as_ref().is_some_and(|id| *id != asked.payment.to_string());
    if about_another {
        return Verdict::Unknown(Doubt::Unreadable);
    }
    match (status, error.r#type) {
        (400, ErrorType::InvalidRequest) => Verdict::NotSent { why: NotSent::Rejected, retry_after },
        (401, ErrorType::Unauthorized) | (403, ErrorType::Forbidden) => {
            Verdict::NotSent { why: NotSent::NotAuthorised, retry_after }
        }
        (429, ErrorType::RateLimited) => Verdict::NotSent { why: NotSent::RateLimited, retry_after },
        // A decline is proof of a non-charge (rule R8): it must say about which key it speaks.
        (402, ErrorType::Declined) if error.key.is_some() => decline(
            Some(&error.code),
            error.network_code.as_deref(),
            error.advice.as_deref(),
            error.reference.as_deref(),
            retry_after,
        ),
        (409, ErrorType::InUse) => Verdict::InProgress { retry_after },
        // As much a proof as a decline is.
        (409, ErrorType::Voided) if error.key.is_some() => Verdict::Voided,
        (400 | 409 | 422, ErrorType::KeyReused) => Verdict::Unknown(Doubt::KeyMismatch),
        // The gateway's shape with a type that does not belong to its status contradicts itself.
        _ => Verdict::Unknown(Doubt::Unreadable),
    }
}

/// What the answer to `GET /charges?key=` means. `visible_after`: how long until a send made before
/// now must be visible.
pub(super) fn lookup(asked: &Asked, heard: Heard, visible_after: Duration) -> Lookup {
    let Heard::Answer { status, retry_after, body } = heard else {
        return Lookup::Unavailable { retry_after: None };
    };
    let not_found = Lookup::NotFound { visible_after: Some(visible_after) };
    let unavailable = Lookup::Unavailable { retry_after };
    let Ok(body) = body else { return unavailable };
    match status {
        200 => match serde_json::from_slice::<LookupShape>(&body) {
            Ok(shape) if shape.key == asked.key => match_all(asked, &shape, retry_after, not_found),
            Ok(_) | Err(_) => unavailable,
        },
        404 => match serde_json::from_slice::<ErrorShape>(&body) {
            Ok(ErrorShape { error }) if error.r#type == ErrorType::NotFound => not_found,
            Ok(_) | Err(_) => unavailable,
        },
        _ => unavailable,
    }
}

/// Any charge of this payment counts, whichever epoch's key it stands under; a tombstone stands under the
/// key asked about, and so must a decline (rule R7). Money that moved, or may yet, comes before a tombstone,
/// and a tombstone before a decline, which it outlives.
fn match_all(
    asked: &Asked,
    LookupShape { charges, voided, .. }: &LookupShape,
    retry_after: Option<Duration>,
    not_found: Lookup,
) -> Lookup {
    let moved: Vec<_> = charges.iter().filter(|shape| shape.status == StatusShape::Charged).collect();
    if moved.len() > 1 {
        let what = format!("the gateway shows {} charges for one payment", moved.len());
        return Lookup::Found(contradiction(asked, Invariant::M1, what));
    }
    let in_state = |status| charges.iter().find(|shape| shape.status == status);
    let open = moved
        .first()
        .copied()
        .or_else(|| in_state(StatusShape::Pending))
        .or_else(|| in_state(StatusShape::InProgress));
    if open.is_none() && *voided {
        return Lookup::Found(Verdict::Voided);
    }
    let chosen = open.or_else(|| charges.iter().rev().find(|shape| shape.key == asked.key));
    match chosen.map(|shape| read_charge(asked, shape, retry_after)) {
        None => not_found,
        // An entry that cannot be read teaches nothing; the question stays open.
        Some(Verdict::Unknown(_)) => Lookup::Unavailable { retry_after },
        Some(verdict) => Lookup::Found(verdict),
    }
}

/// `Retry-After` as seconds or an HTTP date (RFC 9110 §10.2.3); a date that passed is zero.
pub(super) fn retry_after(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    let at = DateTime::<Utc>::from(httpdate::parse_http_date(text).ok()?);
    Some((at - now).to_std().unwrap_or(Duration::ZERO))
}

/// 1–64 of letters, digits and `_ - .`: short, and no place for a message.
fn is_code(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// 1–255 visible ASCII characters.
fn is_reference(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
