//! Identities, each a type of its own, so that no function can be handed the wrong one.
//!
//! **The payment id carries its due time** (UUID version 8, RFC 9562 §5.8): 48 bits of Unix
//! milliseconds of `due_at`, then 74 bits that are the client's intent (rule R18). Every look-up by
//! id therefore knows its day partition without a table that maps ids to days, and a payment that
//! a restore lost and the client posts again gets the same id and the same gateway key.

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// A scheduled payment. Text form: lower-case hyphenated UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PaymentId(Uuid);

/// Why a text or a UUID is not a payment id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPaymentId {
    /// Not a UUID in hyphenated text form.
    #[error("not a UUID")]
    NotUuid,
    /// A UUID, but not of version 8 and the RFC variant.
    #[error("not a version 8 UUID")]
    NotVersion8,
    /// The 48 time bits name an instant outside the calendar that we support.
    #[error("the time in the id is out of range")]
    TimeOutOfRange,
}

impl PaymentId {
    /// Builds the id of a payment due at `due_at` (milliseconds are kept, finer digits dropped)
    /// from the first 10 of `intent`'s bytes.
    ///
    /// # Errors
    /// [`BadPaymentId::TimeOutOfRange`] for an instant before 1970 or past 48 bits of milliseconds.
    pub fn new(due_at: DateTime<Utc>, intent: [u8; 10]) -> Result<Self, BadPaymentId> {
        let ms = u64::try_from(due_at.timestamp_millis()).map_err(|_| BadPaymentId::TimeOutOfRange)?;
        if ms >> 48 != 0 {
            return Err(BadPaymentId::TimeOutOfRange);
        }
        let mut bytes = [0_u8; 16];
        bytes[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&intent);
        // `new_v8` overwrites the four version bits and the two variant bits.
        Ok(Self(Uuid::new_v8(bytes)))
    }

    /// Reads an id that came from outside.
    ///
    /// # Errors
    /// See [`BadPaymentId`].
    pub fn from_uuid(uuid: Uuid) -> Result<Self, BadPaymentId> {
        if uuid.get_version_num() != 8 || uuid.get_variant() != uuid::Variant::RFC4122 {
            return Err(BadPaymentId::NotVersion8);
        }
        let id = Self(uuid);
        DateTime::from_timestamp_millis(id.due_ms()).ok_or(BadPaymentId::TimeOutOfRange)?;
        Ok(id)
    }

    /// Unix milliseconds of the due time, 0 ≤ n < 2^48.
    #[must_use]
    pub fn due_ms(self) -> i64 {
        let bytes = self.0.as_bytes();
        bytes[..6].iter().fold(0_i64, |ms, byte| (ms << 8) | i64::from(*byte))
    }

    /// The UTC day of the due time: the partition this payment lives in.
    #[must_use]
    pub fn due_day(self) -> NaiveDate {
        // 2^48 ms is the year 10889, well inside chrono's calendar, so the fallback is unreachable.
        DateTime::from_timestamp_millis(self.due_ms()).unwrap_or_default().date_naive()
    }

    /// The UUID itself, for the database.
    #[must_use]
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PaymentId {
    type Err = BadPaymentId;
    fn from_str(text: &str) -> Result<Self, BadPaymentId> {
        if text.len() != 36 {
            return Err(BadPaymentId::NotUuid);
        }
        Self::from_uuid(Uuid::try_parse(text).map_err(|_| BadPaymentId::NotUuid)?)
    }
}

impl<'de> Deserialize<'de> for PaymentId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The authenticated API client that owns a payment; it is the payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActorId(pub Uuid);

/// Names one claim of one payment; random, made before the claim is sent, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimId(pub Uuid);

/// Grows with every claim of a payment; a write that carries an older one is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

/// The part of the gateway key that changes only after a proven non-charge (rule R4). From 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub i32);

/// The stable name of a gateway in configuration, 1–64 of `a-z 0-9 _ -`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GatewayName(pub String);

/// A worker process's name for people: slot name and incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerName(pub String);

/// The person who acts, as it is written to `done_by` and to the operators' audit.
///
/// `key:<actor name>` for an API key: two keys of one actor are one person, or rotating a key would make
/// a second pair of eyes. `oidc:<issuer>#<subject>` for a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Operator(pub String);

impl Operator {
    /// Whoever holds a key of this actor.
    #[must_use]
    pub fn of_key(actor_name: &str) -> Self {
        Self(format!("key:{actor_name}"))
    }

    /// Is this `done_by` a person's, and not an actor's or a process's?
    #[must_use]
    pub fn is_named(done_by: &str) -> bool {
        done_by.starts_with("key:") || done_by.starts_with("oidc:")
    }

    /// Whom this issuer calls by this subject.
    #[must_use]
    pub fn of_token(issuer: &str, subject: &str) -> Self {
        Self(format!("oidc:{issuer}#{subject}"))
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for GatewayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The gateway's idempotency key of one epoch: `<payment id>`, or `<payment id>:<epoch>` past 0.
///
/// A function of payment and epoch alone, never of the attempt: a key per attempt charges twice
/// after a time-out (invariant M5).
#[must_use]
pub fn gateway_key(payment: PaymentId, epoch: Epoch) -> String {
    if epoch.0 == 0 { payment.to_string() } else { format!("{payment}:{}", epoch.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn due(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).expect("in range")
    }

    #[test]
    fn an_id_has_version_8_and_the_rfc_variant_whatever_its_intent() {
        for byte in [0x00, 0xff, 0x5a] {
            let id = PaymentId::new(due(1_795_960_020_123), [byte; 10]).expect("in range");
            let text = id.to_string();
            assert_eq!(text.len(), 36);
            assert_eq!(&text[14..15], "8");
            assert!("89ab".contains(&text[19..20]));
            assert_eq!(text, text.to_lowercase());
        }
    }

    #[test]
    fn the_intent_s_other_74_bits_are_kept() {
        let id = PaymentId::new(due(0), [0xff; 10]).expect("in range");
        assert_eq!(id.to_string(), "00000000-0000-8fff-bfff-ffffffffffff");
        let id = PaymentId::new(due(0), [0x00; 10]).expect("in range");
        assert_eq!(id.to_string(), "00000000-0000-8000-8000-000000000000");
    }

    #[test]
    fn a_due_time_that_48_bits_cannot_carry_is_refused() {
        let last = (1_i64 << 48) - 1;
        assert_eq!(PaymentId::new(due(last), [0; 10]).map(PaymentId::due_ms), Ok(last));
        assert_eq!(PaymentId::new(due(last + 1), [0; 10]), Err(BadPaymentId::TimeOutOfRange));
        assert_eq!(PaymentId::new(due(-1), [0; 10]), Err(BadPaymentId::TimeOutOfRange));
    }

    #[test]
    fn what_is_not_an_id_of_ours_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", BadPaymentId::NotUuid),
            ("01a2283e88208aaa9bbb0123456789ab", BadPaymentId::NotUuid),
            ("{01a2283e-8820-8aaa-9bbb-0123456789ab}", BadPaymentId::NotUuid),
            ("01a2283e-8820-8aaa-9bbb-0123456789ag", BadPaymentId::NotUuid),
            ("01a2283e-8820-4aaa-9bbb-0123456789ab", BadPaymentId::NotVersion8),
            ("01a2283e-8820-8aaa-1bbb-0123456789ab", BadPaymentId::NotVersion8),
            ("01a2283e-8820-8aaa-dbbb-0123456789ab", BadPaymentId::NotVersion8),
        ] {
            assert_eq!(text.parse::<PaymentId>(), Err(reason), "{text}");
        }
        let upper = "01A2283E-8820-8AAA-9BBB-0123456789AB".parse::<PaymentId>().expect("an id");
        assert_eq!(upper.to_string(), "01a2283e-8820-8aaa-9bbb-0123456789ab");
    }

    #[test]
    fn the_gateway_key_is_a_function_of_payment_and_epoch() {
        let id: PaymentId = "01a2283e-8820-8aaa-9bbb-0123456789ab".parse().expect("an id");
        assert_eq!(gateway_key(id, Epoch(0)), "01a2283e-8820-8aaa-9bbb-0123456789ab");
        assert_eq!(gateway_key(id, Epoch(1)), "01a2283e-8820-8aaa-9bbb-0123456789ab:1");
        assert_eq!(gateway_key(id, Epoch(12)), "01a2283e-8820-8aaa-9bbb-0123456789ab:12");
    }

    proptest! {
        #[test]
        fn the_due_time_round_trips_and_names_the_partition(
            ms in 0..(1_i64 << 48), finer in 0..1_000_i64, intent in any::<[u8; 10]>(),
        ) {
            let due_at = due(ms) + chrono::TimeDelta::microseconds(finer);
            let id = PaymentId::new(due_at, intent).expect("in range");
            prop_assert_eq!(id.due_ms(), ms);
            prop_assert_eq!(id.due_day(), due_at.date_naive());
            prop_assert_eq!(id.to_string().parse::<PaymentId>(), Ok(id));
            prop_assert_eq!(PaymentId::from_uuid(id.as_uuid()), Ok(id));
            let json = serde_json::to_string(&id).expect("plain");
            prop_assert_eq!(serde_json::from_str::<PaymentId>(&json).expect("read back"), id);
        }

        #[test]
        fn ids_sort_by_due_time(one in 0..(1_i64 << 48), two in 0..(1_i64 << 48), intent in any::<[u8; 10]>()) {
            let ids = (PaymentId::new(due(one), intent), PaymentId::new(due(two), intent));
            let (Ok(first), Ok(second)) = ids else { panic!("in range") };
            prop_assert_eq!(first.cmp(&second), one.cmp(&two));
        }
    }
}
