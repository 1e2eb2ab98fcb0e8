//! The wire form of a due notice, version 1.
//!
//! Key: the payment id in lower-case hyphenated text. Value: small JSON,
//! `{v, paymentId, gateway, lane, dueAt, notBefore, attempt}`; no amount and no personal data, so it
//! may be read with any tool in production. Headers: `bucket` (the exact minute), `not-before` (ms),
//! `relay` (residue/epoch of its writer), `mac` (rule R17), `traceparent`.
//!
//! **Promise.** What [`value_of`] writes, [`decode`] reads to the microsecond. What is not exactly
//! that is a [`BadNotice`] with a reason: it is kept for people and its partition goes on. Headers
//! other than `mac` are for people and tools; nothing is decided by them. Whether a seal is ours is
//! not judged here, where no secret is known, but by who takes the record in.

use crate::domain::bucket::{Channel, label};
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::notice::Notice;
use crate::schedule::StagedNotice;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// The version that this build writes, and the only one that it reads.
const VERSION: u32 = 1;
/// More of an unreadable record is not kept.
const KEPT_BYTES: usize = 4_096;
/// More of what is wrong with it is not told.
const TOLD_CHARS: usize = 300;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    v: u32,
    payment_id: PaymentId,
    gateway: GatewayName,
    lane: i16,
    due_at: String,
    not_before: String,
    attempt: i32,
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What it says.
    pub notice: Notice,
    /// Its authentication code as it came, to be checked by whoever takes the record in.
    pub mac: Option<String>,
    /// The trace of the request that made it, W3C form.
    pub traceparent: Option<String>,
}

/// A record that no code can read, with what is worth keeping of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadNotice {
    /// What is wrong.
    pub reason: BadNoticeReason,
    /// The record's key, at most 4 KiB of it.
    pub key: Option<Vec<u8>>,
    /// The record's value, at most 4 KiB of it.
    pub value: Option<Vec<u8>>,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadNoticeReason {
    /// No value at all.
    #[error("the record has no value")]
    NoValue,
    /// Not an object with a version.
    #[error("not a notice: {0}")]
    NotANotice(String),
    /// Written by a later build, or by nobody.
    #[error("version {0} is not known")]
    UnknownVersion(u32),
    /// A field is missing, surplus, or not what it should be.
    #[error("not a notice of version 1: {0}")]
    NotVersionOne(String),
    /// The key must be the payment's id: it decides the partition.
    #[error("the key is not the payment's id")]
    KeyDiffers,
    /// The instant is not RFC 3339 in UTC.
    #[error("{field} is not an instant in UTC")]
    NotAnInstant {
        /// Which field.
        field: &'static str,
    },
    /// A gateway's name is 1–64 of `a-z 0-9 _ -`.
    #[error("the gateway's name is not one")]
    NotAGateway,
    /// The due time in the id and the one beside it differ.
    #[error("dueAt is not the due time in the id")]
    DueTimeDiffers,
    /// A payment is never tried before it is due.
    #[error("notBefore lies before dueAt")]
    BeforeDue,
    /// A count of claims.
    #[error("attempt is negative")]
    NegativeAttempt,
    /// Well formed, but its `mac` is absent or not made under this installation's secret (rule R17).
    #[error("its seal is not this installation's")]
    NotOurs,
}

impl Read {
    /// The same record as one that this installation did not write.
    #[must_use]
    pub fn disowned(&self) -> BadNotice {
        BadNotice {
            reason: BadNoticeReason::NotOurs,
            key: Some(self.notice.payment.to_string().into_bytes()),
            value: Some(value_of(&self.notice)),
        }
    }
}

/// Everything that goes to Kafka with one notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// In this topic.
    pub channel: Channel,
    /// In this partition of it.
    pub partition: i32,
    /// The row of the outbox.
    pub staged: StagedNotice,
    /// Whose it is: residue and fencing epoch of the relay's shard.
    pub residue: i32,
    /// See `residue`.
    pub epoch: i64,
}

impl Envelope {
    /// The record's headers, in the order in which they are written.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let not_before = self.staged.notice.not_before;
        let mut headers = vec![
            ("bucket", label(not_before)),
            ("not-before", not_before.timestamp_millis().to_string()),
            ("relay", format!("{}/{}", self.residue, self.epoch)),
            ("mac", self.staged.mac.clone()),
        ];
        headers.extend(self.staged.traceparent.clone().map(|trace| ("traceparent", trace)));
        headers
    }
}

/// The record's value.
#[must_use]
pub fn value_of(notice: &Notice) -> Vec<u8> {
    let wire = Wire {
        v: VERSION,
        payment_id: notice.payment,
        gateway: notice.gateway.clone(),
        lane: notice.lane,
        due_at: text_of(notice.due_at),
        not_before: text_of(notice.not_before),
        attempt: notice.attempt,
    };
    // A struct of strings and integers with string keys: serde_json has no case in which it fails.
    serde_json::to_vec(&wire).unwrap_or_default()
}

/// Reads a record. `header` finds a header's bytes by name.
///
/// # Errors
/// [`BadNotice`] for everything that this build would not have written.
pub fn decode<'a>(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    header: impl Fn(&str) -> Option<&'a [u8]>,
) -> Result<Read, BadNotice> {
    let text = |name| header(name).and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned);
    match read(key, value) {
        Ok(notice) => Ok(Read { notice, mac: text("mac"), traceparent: text("traceparent") }),
        Err(reason) => {
            let kept = |bytes: &[u8]| bytes.get(..KEPT_BYTES).unwrap_or(bytes).to_vec();
            Err(BadNotice { reason, key: key.map(kept), value: value.map(kept) })
        }
    }
}

fn read(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Notice, BadNoticeReason> {
    #[derive(Deserialize)]
    struct Versioned {
        v: u32,
    }
    let value = value.ok_or(BadNoticeReason::NoValue)?;
    // The version first, so that a later build's record is named as such and not as garbage.
    let versioned: Versioned =
        serde_json::from_slice(value).map_err(|error| BadNoticeReason::NotANotice(told(&error)))?;
    if versioned.v != VERSION {
        return Err(BadNoticeReason::UnknownVersion(versioned.v));
    }
    let wire: Wire =
        serde_json::from_slice(value).map_err(|error| BadNoticeReason::NotVersionOne(told(&error)))?;
    if key != Some(wire.payment_id.to_string().as_bytes()) {
        return Err(BadNoticeReason::KeyDiffers);
    }
    let due_at = instant(&wire.due_at, "dueAt")?;
    let not_before = instant(&wire.not_before, "notBefore")?;
    if !is_gateway_name(&wire.gateway.0) {
        return Err(BadNoticeReason::NotAGateway);
    }
    if due_at.timestamp_millis() != wire.payment_id.due_ms() {
        return Err(BadNoticeReason::DueTimeDiffers);
    }
    if not_before < due_at {
        return Err(BadNoticeReason::BeforeDue);
    }
    if wire.attempt < 0 {
        return Err(BadNoticeReason::NegativeAttempt);
    }
    let Wire { payment_id: payment, gateway, lane, attempt, .. } = wire;
    Ok(Notice { payment, gateway, lane, due_at, not_before, attempt })
}

/// The reader's words quote the record: as long as it likes, and with a NUL, which Postgres keeps in no
/// text. A reason that cannot be kept would hold up its partition for ever.
fn told(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words
        .chars()
        .take(TOLD_CHARS)
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// Postgres keeps microseconds, and so does the text.
fn text_of(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Micros, true)
}

fn instant(text: &str, field: &'static str) -> Result<DateTime<Utc>, BadNoticeReason> {
    let bad = BadNoticeReason::NotAnInstant { field };
    let instant = text.parse::<DateTime<Utc>>().map_err(|_| bad.clone())?;
    if text_of(instant) == text { Ok(instant) } else { Err(bad) }
}

fn is_gateway_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::bucket::Slot;
    use chrono::TimeDelta;
    use proptest::prelude::*;

    const EXAMPLE: &str = include_str!("../../topics/notice.example.json");

    fn no_headers<'a>(_: &str) -> Option<&'a [u8]> {
        None
    }

    fn notices() -> impl Strategy<Value = Notice> {
        let instants = (0_i64..8_000_000_000_000_000, 0_i64..10_000_000_000_000);
        (instants, any::<[u8; 10]>(), "[a-z0-9_-]{1,64}", any::<i16>(), 0..i32::MAX).prop_map(
            |((due_us, later_us), intent, gateway, lane, attempt)| {
                let due_at = DateTime::from_timestamp_micros(due_us).unwrap();
                let not_before = due_at + TimeDelta::microseconds(later_us);
                let payment = PaymentId::new(due_at, intent).unwrap();
                Notice { payment, gateway: GatewayName(gateway), lane, due_at, not_before, attempt }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(notice in notices()) {
            let key = notice.payment.to_string();
            let read = decode(Some(key.as_bytes()), Some(&value_of(&notice)), no_headers);
            prop_assert_eq!(read.map(|read| read.notice), Ok(notice));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(key: Vec<u8>, value: Vec<u8>) {
            prop_assert!(decode(Some(&key), Some(&value), no_headers).is_err());
        }

        #[test]
        fn a_record_that_was_cut_short_is_bad(notice in notices(), part in 0..1_000_usize) {
            let value = value_of(&notice);
            let cut = value.len() * part / 1_000;
            let key = notice.payment.to_string();
            prop_assert!(decode(Some(key.as_bytes()), Some(&value[..cut]), no_headers).is_err());
        }
    }

    /// The golden example with one thing changed, and the reason it is then refused for.
    fn refused(from: &str, to: &str) -> BadNoticeReason {
        let changed = EXAMPLE.replace(from, to);
        assert_ne!(changed, EXAMPLE, "`{from}` is not in the example");
        decode(Some(b"01a227a1-6ba0-8001-8203-040506070809"), Some(changed.as_bytes()), no_headers)
            .unwrap_err()
            .reason
    }

    #[test]
    fn the_golden_example_is_what_this_build_writes() {
        let read =
            decode(Some(b"01a227a1-6ba0-8001-8203-040506070809"), Some(EXAMPLE.as_bytes()), no_headers)
                .unwrap();
        let ours: serde_json::Value = serde_json::from_slice(&value_of(&read.notice)).unwrap();
        assert_eq!(ours, serde_json::from_str::<serde_json::Value>(EXAMPLE).unwrap());
    }

    #[test]
    fn everything_that_is_not_exactly_a_notice_is_refused_with_its_reason() {
        use BadNoticeReason as R;
        assert_eq!(refused("\"v\": 1", "\"v\": 2"), R::UnknownVersion(2));
        assert!(matches!(refused("\"v\": 1", "\"w\": 1"), R::NotANotice(_)));
        assert!(matches!(refused("\"v\": 1", "\"v\": 1, \"amount\": 5"), R::NotVersionOne(_)));
        assert!(matches!(refused("\"lane\"", "\"line\""), R::NotVersionOne(_)));
        assert_eq!(refused("070809", "070800"), R::KeyDiffers);
        assert_eq!(
            refused("2026-11-29T14:07:00.000000Z", "2026-11-29T14:07:00Z"),
            R::NotAnInstant { field: "dueAt" }
        );
        assert_eq!(refused("sandbox", "Sandbox"), R::NotAGateway);
        assert_eq!(refused("2026-11-29T14:07:00.000000Z", "2026-11-29T14:07:00.001000Z"), R::DueTimeDiffers);
        assert_eq!(refused("2026-11-29T14:08:02.500000Z", "2026-11-29T14:06:00.000000Z"), R::BeforeDue);
        assert_eq!(refused("\"attempt\": 1", "\"attempt\": -1"), R::NegativeAttempt);
        let nothing = decode(Some(b"x"), None, no_headers).unwrap_err();
        assert_eq!(nothing, BadNotice { reason: R::NoValue, key: Some(b"x".to_vec()), value: None });
    }

    #[test]
    fn of_an_endless_record_only_its_beginning_is_kept() {
        let bad = decode(None, Some(&[b'x'; 60_000]), no_headers).unwrap_err();
        assert_eq!(bad.value.map(|value| value.len()), Some(KEPT_BYTES));
    }

    #[test]
    fn a_reason_that_quotes_the_record_can_be_kept_as_text() {
        let long = format!("{{\"v\": 1, \"\\u0000{}\": 1}}", "x".repeat(5_000));
        let BadNoticeReason::NotVersionOne(told) =
            decode(None, Some(long.as_bytes()), no_headers).unwrap_err().reason
        else {
            panic!("not of version 1")
        };
        assert!(!told.contains('\0') && told.chars().count() <= TOLD_CHARS, "{told}");
    }

    #[test]
    fn headers_name_the_exact_minute_and_the_writer() {
        let mut staged = StagedNotice {
            notice_id: 1,
            written_at: DateTime::UNIX_EPOCH,
            shard: 5,
            notice: decode(
                Some(b"01a227a1-6ba0-8001-8203-040506070809"),
                Some(EXAMPLE.as_bytes()),
                no_headers,
            )
            .unwrap()
            .notice,
            traceparent: None,
            mac: "ab".into(),
        };
        let envelope = |staged| Envelope {
            channel: Channel::Ring(Slot::new(8).unwrap()),
            partition: 5,
            staged,
            residue: 5,
            epoch: 17,
        };
        let plain = envelope(staged.clone()).headers();
        assert_eq!(
            plain,
            [
                ("bucket", "2026-11-29T14:08Z".to_owned()),
                ("not-before", "1795961282500".to_owned()),
                ("relay", "5/17".to_owned()),
                ("mac", "ab".to_owned()),
            ]
        );
        staged.traceparent = Some("00-aa-bb-01".into());
        assert_eq!(envelope(staged).headers().last(), Some(&("traceparent", "00-aa-bb-01".to_owned())));
    }
}
