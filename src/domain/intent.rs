//! Everything that is keyed by the installation's secret: the id's intent bits (rule R18), the
//! MACs of notices and events (rule R17), the digests of request fields and the seal of a list's cursor.
//!
//! The secret is 32 bytes, kept in the database, the same for all processes of one installation.
//! It must survive a restore together with the data: with another secret a payment that the restore
//! lost and the client posts again would get another id, and with it another gateway key.
//!
//! [`intent`] signs `actor ‖ key`, 16 bytes of UUID and then the key; every other use starts with a
//! label of its own, so that no value made for one purpose can serve another. A label is longer
//! than 16 bytes and no actor id is chosen by a client.

use super::ids::{ActorId, PaymentId};
use super::notice::Notice;
use chrono::{DateTime, Utc};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// The installation's secret.
pub type Secret = [u8; 32];

const NOTICE_LABEL: &str = "punctual-notice-mac-1";
const EVENT_LABEL: &str = "punctual-event-mac-1";
const REQUEST_LABEL: &str = "punctual-request-hash-1";
const FIELD_LABEL: &str = "punctual-field-digest-1";
const CURSOR_LABEL: &str = "punctual-list-cursor-1";

fn sign(secret: &Secret, parts: &[&[u8]]) -> [u8; 32] {
    signer(secret, parts).finalize().into_bytes().into()
}

/// HMAC-SHA256 of the parts, for values that are named elsewhere; the first part is the label.
pub(super) fn keyed(secret: &Secret, parts: &[&[u8]]) -> [u8; 32] {
    sign(secret, parts)
}

/// The inner and outer key of HMAC (RFC 2104 §2): the secret, filled up to a block, under each pad.
pub(super) fn pads(secret: &Secret) -> ([u8; 64], [u8; 64]) {
    let (mut inner, mut outer) = ([0x36; 64], [0x5c; 64]);
    for (at, byte) in secret.iter().enumerate() {
        inner[at] ^= byte;
        outer[at] ^= byte;
    }
    (inner, outer)
}

fn signer(secret: &Secret, parts: &[&[u8]]) -> Hmac<Sha256> {
    // A key shorter than HMAC's block is filled up with zeros (RFC 2104 §2); done here, it cannot fail.
    let mut block = [0; 64];
    block[..secret.len()].copy_from_slice(secret);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac
}

/// The intent bits of a payment id: the first 10 bytes of HMAC-SHA256(secret, actor ‖ key).
///
/// Equal for the same actor and idempotency key, whatever was lost in between. With 74 bits kept
/// after version and variant, and the due millisecond beside them, two different keys meet only by
/// an accident of 2^-74 within one millisecond of due time.
#[must_use]
pub fn intent(secret: &Secret, actor: ActorId, idempotency_key: &str) -> [u8; 10] {
    let all = sign(secret, &[actor.0.as_bytes(), idempotency_key.as_bytes()]);
    let mut first = [0; 10];
    first.copy_from_slice(&all[..10]);
    first
}

/// The fixed text form of a notice: label, payment id, gateway, lane, `dueAt`, `notBefore` (both in
/// microseconds since 1970) and attempt, each as `length:text`. A wire format that keeps fewer
/// digits than microseconds would not verify.
fn notice_form(notice: &Notice) -> String {
    let fields = [
        NOTICE_LABEL.to_owned(),
        notice.payment.to_string(),
        notice.gateway.0.clone(),
        notice.lane.to_string(),
        notice.due_at.timestamp_micros().to_string(),
        notice.not_before.timestamp_micros().to_string(),
        notice.attempt.to_string(),
    ];
    fields.iter().map(|field| format!("{}:{field}", field.len())).collect()
}

/// The notice's MAC, 64 lower-case hex digits. Only a notice that carries it may prove that commits
/// were lost (rule R17); a wrong one is a bad notice and nothing more.
#[must_use]
pub fn notice_mac(secret: &Secret, notice: &Notice) -> String {
    hex::encode(sign(secret, &[notice_form(notice).as_bytes()]))
}

/// What a notice's MAC says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authenticity {
    /// Made by this installation.
    Authentic,
    /// Not made by this installation, or changed on the way.
    Forged,
}

/// Checks a notice's MAC, in constant time.
#[must_use]
pub fn check_notice(secret: &Secret, notice: &Notice, mac: &str) -> Authenticity {
    let Ok(given) = hex::decode(mac) else { return Authenticity::Forged };
    match signer(secret, &[notice_form(notice).as_bytes()]).verify_slice(&given) {
        Ok(()) => Authenticity::Authentic,
        Err(_) => Authenticity::Forged,
    }
}

/// The fixed text form of an event: label, payment id, sequence and instant in microseconds since 1970, each as
/// `length:text`.
fn event_form(payment: PaymentId, sequence: i32, at: DateTime<Utc>) -> String {
    let fields = [
        EVENT_LABEL.to_owned(),
        payment.to_string(),
        sequence.to_string(),
        at.timestamp_micros().to_string(),
    ];
    fields.iter().map(|field| format!("{}:{field}", field.len())).collect()
}

/// The MAC of an event in its topic, 64 lower-case hex digits: that this history row was written by this installation.
/// Only an event that carries it may prove that commits were lost (rule R17).
#[must_use]
pub fn event_mac(secret: &Secret, payment: PaymentId, sequence: i32, at: DateTime<Utc>) -> String {
    hex::encode(sign(secret, &[event_form(payment, sequence, at).as_bytes()]))
}

/// Checks an event's MAC, in constant time.
#[must_use]
pub fn check_event(
    secret: &Secret,
    payment: PaymentId,
    sequence: i32,
    at: DateTime<Utc>,
    mac: &str,
) -> Authenticity {
    let Ok(given) = hex::decode(mac) else { return Authenticity::Forged };
    match signer(secret, &[event_form(payment, sequence, at).as_bytes()]).verify_slice(&given) {
        Ok(()) => Authenticity::Authentic,
        Err(_) => Authenticity::Forged,
    }
}

/// The keyed digest of a whole request after defaults, kept beside its idempotency key. `canonical`
/// is the caller's one fixed serialisation.
#[must_use]
pub fn request_hash(secret: &Secret, canonical: &[u8]) -> [u8; 32] {
    sign(secret, &[REQUEST_LABEL.as_bytes(), canonical])
}

/// The keyed digest of one field of a request, 32 hex digits, so that differing fields can be named
/// later without keeping their values. Keyed by actor and pointer too: equal values of two actors,
/// or of two fields, do not show as equal.
#[must_use]
pub fn field_digest(secret: &Secret, actor: ActorId, pointer: &str, value: &[u8]) -> String {
    let pointer_length = format!("{}:", pointer.len());
    let parts =
        [FIELD_LABEL.as_bytes(), actor.0.as_bytes(), pointer_length.as_bytes(), pointer.as_bytes(), value];
    hex::encode(&sign(secret, &parts)[..16])
}

fn cursor_signer(secret: &Secret, actor: ActorId, query: &[u8], place: &[u8]) -> Hmac<Sha256> {
    let length = format!("{}:", query.len());
    signer(secret, &[CURSOR_LABEL.as_bytes(), actor.0.as_bytes(), length.as_bytes(), query, place])
}

/// Seals a place in an actor's list under one query: 16 bytes of HMAC-SHA256.
///
/// `query` is the canonical text of order and filters, so a cursor is of no use with others.
#[must_use]
pub fn cursor_mac(secret: &Secret, actor: ActorId, query: &[u8], place: &[u8]) -> [u8; 16] {
    let all: [u8; 32] = cursor_signer(secret, actor, query, place).finalize().into_bytes().into();
    let mut first = [0; 16];
    first.copy_from_slice(&all[..16]);
    first
}

/// Is this seal ours, for this actor, query and place? In constant time.
#[must_use]
pub fn check_cursor(
    secret: &Secret,
    actor: ActorId,
    query: &[u8],
    place: &[u8],
    mac: &[u8; 16],
) -> Authenticity {
    match cursor_signer(secret, actor, query, place).verify_truncated_left(mac) {
        Ok(()) => Authenticity::Authentic,
        Err(_) => Authenticity::Forged,
    }
}

/// The lane of an actor: 15 bits of SHA-256 of its id. Not keyed, since fairness needs it before
/// any database call and it says nothing about the actor.
#[must_use]
pub fn lane(actor: ActorId) -> i16 {
    let hash = Sha256::digest(actor.0.as_bytes());
    i16::from_be_bytes([hash[0] & 0x7f, hash[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::GatewayName;
    use chrono::TimeDelta;
    use uuid::Uuid;

    const SECRET: Secret = [0x42; 32];
    const OTHER: Secret = [0x43; 32];

    fn actor(n: u128) -> ActorId {
        ActorId(Uuid::from_u128(n))
    }

    fn notice() -> Notice {
        let due_at = DateTime::from_timestamp_micros(1_795_960_020_123_456).expect("in range");
        Notice {
            payment: PaymentId::new(due_at, [9; 10]).expect("in range"),
            gateway: GatewayName("sandbox".into()),
            lane: 7,
            due_at,
            not_before: due_at + TimeDelta::seconds(60),
            attempt: 2,
        }
    }

    #[test]
    fn the_intent_is_a_function_of_secret_actor_and_key() {
        let one = intent(&SECRET, actor(1), "order-1");
        assert_eq!(one, intent(&SECRET, actor(1), "order-1"));
        assert_ne!(one, intent(&SECRET, actor(1), "order-2"));
        assert_ne!(one, intent(&SECRET, actor(2), "order-1"));
        assert_ne!(one, intent(&OTHER, actor(1), "order-1"));
        // From `hmac.new(b"\x42"*32, uuid.UUID(int=1).bytes + b"order-1", "sha256")` of Python.
        assert_eq!(hex::encode(one), "1776e04d2963a7a5ba53");
    }

    #[test]
    fn a_notice_verifies_only_unchanged_and_under_the_same_secret() {
        let original = notice();
        let mac = notice_mac(&SECRET, &original);
        assert_eq!(mac.len(), 64);
        assert_eq!(check_notice(&SECRET, &original, &mac), Authenticity::Authentic);
        assert_eq!(check_notice(&OTHER, &original, &mac), Authenticity::Forged);
        for broken in ["", "zz", &mac[..62], &format!("{mac}00")] {
            assert_eq!(check_notice(&SECRET, &original, broken), Authenticity::Forged);
        }
        let us = TimeDelta::microseconds(1);
        let changed = [
            Notice { attempt: 3, ..original.clone() },
            Notice { lane: 8, ..original.clone() },
            Notice { gateway: GatewayName("other".into()), ..original.clone() },
            Notice { due_at: original.due_at + us, ..original.clone() },
            Notice { not_before: original.not_before + us, ..original.clone() },
            Notice {
                payment: PaymentId::new(original.due_at, [8; 10]).expect("in range"),
                ..original.clone()
            },
        ];
        for notice in changed {
            assert_eq!(check_notice(&SECRET, &notice, &mac), Authenticity::Forged, "{notice:?}");
        }
    }

    #[test]
    fn an_event_s_mac_holds_for_its_row_and_secret_only_and_is_no_notice_s() {
        let (payment, at) = (notice().payment, notice().due_at);
        let mac = event_mac(&SECRET, payment, 3, at);
        let check = |secret, payment, sequence, at| check_event(secret, payment, sequence, at, &mac);
        assert_eq!(check(&SECRET, payment, 3, at), Authenticity::Authentic);
        assert_eq!(check(&OTHER, payment, 3, at), Authenticity::Forged);
        assert_eq!(check(&SECRET, payment, 4, at), Authenticity::Forged);
        assert_eq!(check(&SECRET, payment, 3, at + TimeDelta::microseconds(1)), Authenticity::Forged);
        assert_eq!(check_event(&SECRET, payment, 3, at, "zz"), Authenticity::Forged);
        assert_eq!(check_notice(&SECRET, &notice(), &mac), Authenticity::Forged);
    }

    #[test]
    fn field_digests_show_no_equality_across_actors_fields_or_installations() {
        let one = field_digest(&SECRET, actor(1), "/amount", b"100");
        assert_eq!(one.len(), 32);
        assert_eq!(one, field_digest(&SECRET, actor(1), "/amount", b"100"));
        assert_ne!(one, field_digest(&SECRET, actor(2), "/amount", b"100"));
        assert_ne!(one, field_digest(&SECRET, actor(1), "/amoun", b"t100"));
        assert_ne!(one, field_digest(&OTHER, actor(1), "/amount", b"100"));
        assert_ne!(request_hash(&SECRET, b"{}"), request_hash(&OTHER, b"{}"));
    }

    #[test]
    fn lanes_are_never_negative_and_spread() {
        let lanes: std::collections::BTreeSet<_> = (0..1000).map(|n| lane(actor(n))).collect();
        assert!(lanes.iter().all(|lane| *lane >= 0));
        assert!(lanes.len() > 950, "{}", lanes.len());
    }

    #[test]
    fn a_cursor_s_seal_holds_for_its_secret_actor_query_and_place_only() {
        let mac = cursor_mac(&SECRET, actor(1), b"query", b"place");
        let check =
            |secret, actor, query: &[u8], place: &[u8]| check_cursor(secret, actor, query, place, &mac);
        assert_eq!(check(&SECRET, actor(1), b"query", b"place"), Authenticity::Authentic);
        assert_eq!(check(&OTHER, actor(1), b"query", b"place"), Authenticity::Forged);
        assert_eq!(check(&SECRET, actor(2), b"query", b"place"), Authenticity::Forged);
        assert_eq!(check(&SECRET, actor(1), b"queri", b"place"), Authenticity::Forged);
        assert_eq!(check(&SECRET, actor(1), b"query", b"placf"), Authenticity::Forged);
        assert_eq!(check(&SECRET, actor(1), b"queryp", b"lace"), Authenticity::Forged, "no field grows");
    }
}
