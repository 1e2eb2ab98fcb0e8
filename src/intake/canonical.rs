//! When are two requests the same?
//!
//! The comparison is of the request after parsing and defaults, so spacing, the order of fields and
//! defaults that were spelt out do not matter. What is stored are digests keyed with the
//! installation's secret (`domain::intent`): of the whole, to decide, and of each field, to name
//! what differs. The values themselves need not be kept.
//!
//! The form of a field here may never change while keys of older requests live: a repetition would
//! then look like another request.

use super::rules::Request;
use super::wire::utc;
use crate::domain::ids::ActorId;
use crate::domain::intent::{Secret, field_digest, request_hash};
use secrecy::ExposeSecret;
use std::collections::BTreeMap;

/// What the schedule keeps of a request, for comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digests {
    /// Of the whole request.
    pub(super) request_hash: [u8; 32],
    /// 32 hex digits by JSON pointer. `/metadata` stands for all its pairs.
    pub(super) fields: BTreeMap<String, String>,
}

/// The digests of one request of this actor.
pub(super) fn digests(secret: &Secret, actor: ActorId, request: &Request) -> Digests {
    let fields = fields(request);
    let mut whole = Vec::new();
    for (pointer, value) in &fields {
        append(&mut whole, pointer.as_bytes());
        append(&mut whole, value);
    }
    let digest = |(pointer, value): (&&str, &Vec<u8>)| {
        ((*pointer).to_owned(), field_digest(secret, actor, pointer, value))
    };
    Digests { request_hash: request_hash(secret, &whole), fields: fields.iter().map(digest).collect() }
}

/// A part after its length, so that no two lists of parts run together.
fn append(to: &mut Vec<u8>, part: &[u8]) {
    // usize is at most 64 bits.
    to.extend((part.len() as u64).to_be_bytes());
    to.extend(part);
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
        // As the client wrote it: an installation's own window may change between a request and its
        // repetition, and must not make it another one.
        ("/executeWithin", request.execute_within.map(|seconds| seconds.to_string())),
        ("/externalId", request.external_id.clone()),
        ("/description", request.description.clone()),
    ];
    fields.extend(optional.into_iter().filter_map(|(pointer, value)| Some((pointer, value?.into_bytes()))));
    if !request.metadata.is_empty() {
        let mut pairs = Vec::new();
        for text in request.metadata.iter().flat_map(|(name, value)| [name, value]) {
            append(&mut pairs, text.as_bytes());
        }
        fields.insert("/metadata", pairs);
    }
    fields
}
