//! What comes in and goes out, as this gateway understands it; it shares no code with its clients.

use super::entry::{Entry, Known};
use axum::http::HeaderMap;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Largest amount taken, in minor units.
const AMOUNT_MAX: i64 = 1_000_000_000_000;

/// The body of `POST /charges`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChargeBody {
    pub(super) payment_id: String,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) payee: String,
}

/// The body of `POST /voids`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VoidBody {
    key: String,
}

/// The body of `POST /refunds`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RefundBody {
    pub(super) refund_id: String,
    pub(super) charge: String,
    pub(super) payment_id: String,
    pub(super) amount: i64,
    pub(super) currency: String,
}

impl RefundBody {
    pub(super) fn read(bytes: &[u8], key: Option<&str>) -> Result<Self, Malformed> {
        let body: Self = serde_json::from_slice(bytes).map_err(|_| Malformed::Shape)?;
        if key.is_none() || key != Some(&body.refund_id) {
            return Err(Malformed::Key);
        }
        if !(1..=64).contains(&body.payment_id.len()) {
            return Err(Malformed::PaymentId);
        }
        if !(1..=AMOUNT_MAX).contains(&body.amount) {
            return Err(Malformed::Amount);
        }
        Code::read(&body.currency).ok_or(Malformed::Currency)?;
        Ok(body)
    }

    /// Over what it asks for, so that a used key can refuse another one.
    pub(super) fn fingerprint(&self) -> u64 {
        fingerprint(&self.payment_id, self.amount, &self.currency, &self.charge)
    }
}

/// The key that a void names.
pub(super) fn void_key(bytes: &[u8]) -> Result<String, Malformed> {
    let body: VoidBody = serde_json::from_slice(bytes).map_err(|_| Malformed::Shape)?;
    if is_key(&body.key) { Ok(body.key) } else { Err(Malformed::Key) }
}

fn is_key(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// What the headers of one request said; everything but the key is for the ledger only.
#[derive(Debug, Clone, Default)]
pub(super) struct Heads {
    pub(super) key: Option<String>,
    pub(super) claim_id: Option<String>,
    pub(super) fence: Option<i64>,
    pub(super) due_at: Option<DateTime<Utc>>,
}

/// A refusal of the request itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// No `Idempotency-Key`, or not 1–64 visible ASCII characters.
    Key,
    /// Not the JSON object documented.
    Shape,
    /// Amount not in 1 to the maximum.
    Amount,
    /// Currency not three capital letters.
    Currency,
    /// Payment id empty or longer than 64 characters.
    PaymentId,
}

impl Malformed {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Key => "invalid_key",
            Self::Shape => "invalid_shape",
            Self::Amount => "invalid_amount",
            Self::Currency => "invalid_currency",
            Self::PaymentId => "invalid_payment_id",
        }
    }
}

impl Heads {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let claim = text("punctual-claim").and_then(|claim| claim.rsplit_once('/'));
        Self {
            key: text("idempotency-key").filter(|key| is_key(key)).map(str::to_owned),
            claim_id: claim.map(|(id, _)| id.to_owned()),
            fence: claim.and_then(|(_, fence)| fence.parse().ok()),
            due_at: text("punctual-due")
                .and_then(|due| DateTime::parse_from_rfc3339(due).ok())
                .map(|due| due.to_utc()),
        }
    }

    /// The number after the key's last colon; 0 without one.
    pub(super) fn epoch(&self) -> Option<u32> {
        match self.key.as_deref()?.rsplit_once(':') {
            None => Some(0),
            Some((_, epoch)) => epoch.parse().ok(),
        }
    }
}

impl ChargeBody {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let body: Self = serde_json::from_slice(bytes).map_err(|_| Malformed::Shape)?;
        if !(1..=64).contains(&body.payment_id.len()) {
            return Err(Malformed::PaymentId);
        }
        if !(1..=AMOUNT_MAX).contains(&body.amount) {
            return Err(Malformed::Amount);
        }
        Code::read(&body.currency).ok_or(Malformed::Currency)?;
        Ok(body)
    }
}

/// 64 bits over the meaning of a body, so that a used key can refuse another one. Kept in memory
/// only, so that the standard library's hash may change.
pub(super) fn fingerprint(payment_id: &str, amount: i64, currency: &str, payee: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    (payment_id, amount, currency, payee).hash(&mut hash);
    hash.finish()
}

/// A currency: three capital letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Code([u8; 3]);

impl Code {
    pub(super) fn read(text: &str) -> Option<Self> {
        let letters = <[u8; 3]>::try_from(text.as_bytes()).ok()?;
        letters.iter().all(u8::is_ascii_uppercase).then_some(Self(letters))
    }

    pub(super) fn as_str(&self) -> &str {
        // Made of letters, and nowhere else.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// A currency that it is not.
    pub(super) fn other(self) -> Self {
        Self(if self.0 == *b"USD" { *b"EUR" } else { *b"USD" })
    }
}

/// An error in this gateway's own shape.
pub(super) fn error(kind: &str, code: &str, key: Option<&str>) -> Value {
    json!({ "error": { "type": kind, "code": code, "key": key } })
}

/// The answer to a void that stands.
pub(super) fn voided(key: &str) -> Value {
    json!({ "key": key, "status": "voided" })
}

/// A decline in this gateway's own shape.
pub(super) fn declined(code: &str, key: &str, seq: u64) -> Value {
    json!({ "error": { "type": "declined", "code": code, "key": key, "reference": reference(seq) } })
}

/// One charge object, as answered and as listed by look-ups.
pub(super) fn charge_object(key: &str, entry: &Entry, known: &Known) -> Value {
    let (status, code) = match known {
        Known::Charged => ("charged", None),
        Known::Pending => ("pending", None),
        Known::InProgress => ("in_progress", None),
        Known::Declined(code) => ("declined", Some(code)),
    };
    let mut object = json!({
        "id": reference(entry.seq),
        "status": status,
        "key": key,
        "paymentId": entry.payment.to_string(),
        "amount": entry.amount_said,
        "currency": entry.currency_said.as_str(),
    });
    if let Some(code) = code {
        object["code"] = json!(code);
    }
    object
}

/// This gateway's name for what the ledger's line `seq` did.
pub(super) fn reference(seq: u64) -> String {
    format!("ch_{seq}")
}

/// The same of a refund.
pub(super) fn refund_reference(seq: u64) -> String {
    format!("re_{seq}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_strictly() {
        let good = r#"{"paymentId":"p","amount":10,"currency":"EUR","payee":"sim_ok"}"#;
        assert!(ChargeBody::read(good.as_bytes()).is_ok());
        let cases = [
            (good.replace("10", "10.0"), Malformed::Shape),
            (good.replace("10", "\"10\""), Malformed::Shape),
            (good.replace("10", "1e1"), Malformed::Shape),
            (good.replace("}", ",\"more\":1}"), Malformed::Shape),
            (good.replace("\"payee\":\"sim_ok\"", "\"amount\":10"), Malformed::Shape),
            (good.replace("10", "0"), Malformed::Amount),
            (good.replace("10", "-10"), Malformed::Amount),
            (good.replace("10", "9999999999999"), Malformed::Amount),
            (good.replace("EUR", "eur"), Malformed::Currency),
            (good.replace("EUR", "EURO"), Malformed::Currency),
            (good.replace("\"p\"", "\"\""), Malformed::PaymentId),
        ];
        for (body, wanted) in cases {
            assert_eq!(ChargeBody::read(body.as_bytes()).err(), Some(wanted), "{body}");
        }
    }

    #[test]
    fn bodies_that_mean_something_else_have_other_fingerprints() {
        let first = fingerprint("p", 10, "EUR", "sim_ok");
        assert_eq!(first, fingerprint("p", 10, "EUR", "sim_ok"));
        assert_ne!(first, fingerprint("p", 11, "EUR", "sim_ok"));
        assert_ne!(first, fingerprint("p", 10, "EUR", "sim_garbage"));
        assert_ne!(fingerprint("p", 10, "EUR", "Usim_ok"), fingerprint("p", 10, "EURU", "sim_ok"));
    }

    #[test]
    fn the_epoch_is_what_follows_the_keys_colon() {
        let epoch = |key: &str| Heads { key: Some(key.into()), ..Heads::default() }.epoch();
        assert_eq!(epoch("abc"), Some(0));
        assert_eq!(epoch("abc:3"), Some(3));
        assert_eq!(epoch("abc:x"), None);
        assert_eq!(Heads::default().epoch(), None);
    }
}
