//! When are two requests the same? And which payment does a request mean?
//!
//! The comparison is of the request after parsing and defaults, so spacing, the order of fields and
//! defaults that were spelt out do not matter. What is stored are digests keyed with the
//! installation's secret: of the whole, to decide, and of each field, to name what differs. The
//! values themselves need not be kept, and the field digests are bound to actor and key, so equal
//! values of two payments do not look equal to a reader of the database.
//!
//! The id's random bits come from actor and key alone (rule R18): the same intent has the same id,
//! even after a restore that lost the payment.

use super::rules::Request;
use super::wire::utc;
use crate::domain::ids::ActorId;
use hmac::{Hmac, Mac};
use secrecy::ExposeSecret;
use sha2::Sha256;
use std::collections::BTreeMap;

/// What the schedule keeps of a request, for comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digests {
    /// Of the whole request.
    pub(super) request_hash: [u8; 32],
    /// 32 hex digits by JSON pointer. `/metadata` stands for all its pairs.
    pub(super) fields: BTreeMap<String, String>,
}

/// A digest of parts, each preceded by its length so that no two lists run together.
fn keyed(secret: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes keys of any length (RFC 2104), so the fallback is never used.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&Default::default()));
    for part in parts {
        // usize is at most 64 bits.
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The 10 bytes of a payment id that are the client's intent (rule R18).
pub(super) fn intent(secret: &[u8; 32], actor: ActorId, key: &str) -> [u8; 10] {
    let whole = keyed(secret, &[b"punctual/intent/1", actor.0.as_bytes(), key.as_bytes()]);
    let mut bits = [0; 10];
    bits.copy_from_slice(&whole[..10]);
    bits
}

/// Which lane an actor's payments travel in, for fairness between actors: 0 ≤ n < 1024.
pub(super) fn lane(actor: ActorId) -> i16 {
    // A remainder of 1024 fits in i16.
    i16::try_from(crc32fast::hash(actor.0.as_bytes()) % 1024).unwrap_or(0)
}

/// The digests of one request.
pub(super) fn digests(secret: &[u8; 32], actor: ActorId, key: &str, request: &Request) -> Digests {
    let fields = fields(request);
    let mut parts: Vec<&[u8]> = vec![b"punctual/request/1", actor.0.as_bytes()];
    for (pointer, value) in &fields {
        parts.extend([pointer.as_bytes(), value.as_slice()]);
    }
    let request_hash = keyed(secret, &parts);
    let field = |pointer: &str, value: &[u8]| {
        let parts = [b"punctual/field/1", actor.0.as_bytes(), key.as_bytes(), pointer.as_bytes(), value];
        hex::encode(&keyed(secret, &parts)[..16])
    };
    let fields =
        fields.iter().map(|(pointer, value)| ((*pointer).to_owned(), field(pointer, value))).collect();
    Digests { request_hash, fields }
}

/// Every field that is there, in canonical form; a field that is absent has no entry.
fn fields(request: &Request) -> BTreeMap<&'static str, Vec<u8>> {
    let mut fields = BTreeMap::from([
        ("/payee", request.payee.expose_secret().as_bytes().to_vec()),
        ("/amount", request.amount.to_string().into_bytes()),
        ("/currency", request.currency.clone().into_bytes()),
        ("/dueAt", utc(request.due_at).into_bytes()),
        ("/gateway", request.gateway.clone().into_bytes()),
        ("/retry/maxSends", request.max_sends.to_string().into_bytes()),
        ("/retry/onSoftDecline", request.on_soft_decline.clone().into_bytes()),
        ("/retry/onExhausted", request.on_exhausted.clone().into_bytes()),
    ]);
    let optional = [
        ("/executeBefore", request.execute_before.map(utc)),
        ("/externalId", request.external_id.clone()),
        ("/description", request.description.clone()),
    ];
    fields.extend(optional.into_iter().filter_map(|(pointer, value)| Some((pointer, value?.into_bytes()))));
    if !request.metadata.is_empty() {
        let mut pairs = Vec::new();
        for text in request.metadata.iter().flat_map(|(name, value)| [name, value]) {
            pairs.extend((text.len() as u64).to_be_bytes());
            pairs.extend(text.as_bytes());
        }
        fields.insert("/metadata", pairs);
    }
    fields
}
