//! `GET /v1/scheduled-payments/{id}`: the payment as it stands.
//!
//! Someone else's id, an unknown one and a text that is no id at all are answered alike, so nobody
//! can probe for the payments of others.

use super::actor::{Caller, Scope};
use super::openapi::{Answer, Operation, Parameter, Place};
use super::problem::{Code, Problem};
use super::{Intake, headers, json, limits, wire};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::payment::Payment;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};

pub(super) type IdInPath = Result<Path<String>, PathRejection>;

/// The id of every route of one payment.
pub(super) const ID_IN_PATH: Parameter = Parameter {
    place: Place::Path,
    name: "id",
    schema: r##"{"$ref":"#/components/schemas/PaymentId"}"##,
    about: "The payment's id. Another client's is answered like one that does not exist.",
};

/// For a client that has an answer already.
pub(super) const IF_NONE_MATCH: Parameter = Parameter {
    place: Place::OptionalHeader,
    name: "If-None-Match",
    schema: r#"{"type":"string"}"#,
    about: "The ETag of an earlier answer.",
};

pub(super) const TOLD: &[Operation] = &[Operation {
    path: "/v1/scheduled-payments/{id}",
    id: "readPayment",
    tag: "payments",
    summary: "A payment as it stands",
    scope: Some(Scope::Read),
    parameters: &[ID_IN_PATH, IF_NONE_MATCH],
    answers: &[Answer { headers: &["ETag"], ..Answer::ok("Payment", "As it stands.") }, Answer::UNCHANGED],
    refusals: &[Code::PaymentNotFound],
    ..Operation::BARE
}];

pub(super) async fn get(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let (actor, id) = asked(&intake, path, &headers, Scope::Read).await?;
    let found = intake.schedule.find(actor, id).await.map_err(limits::trouble)?;
    let view = found.ok_or_else(|| Problem::new(Code::PaymentNotFound))?;
    let tag = tag(&view.payment);
    Ok(unless_known(&headers, &tag, || wire::standing(&view)))
}

/// Who asks about which payment: how every route of one payment begins.
///
/// # Errors
/// 401, 403, 404, 406, or 503 if the database cannot be asked.
pub(super) async fn asked(
    intake: &Intake,
    path: IdInPath,
    headers: &HeaderMap,
    scope: Scope,
) -> Result<(ActorId, PaymentId), Problem> {
    let Caller { actor, .. } = intake.authorise(headers, scope).await?;
    headers::accepts_json(headers)?;
    Ok((actor.id, payment_id(path)?))
}

/// 200 with this body and tag, or 304 for a client that has what the tag names.
pub(super) fn unless_known(headers: &HeaderMap, tag: &str, body: impl FnOnce() -> Vec<u8>) -> Response<Body> {
    let mut response = if headers::matches_tag(headers, tag) {
        let mut unchanged = Response::new(Body::empty());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else {
        json(StatusCode::OK, body())
    };
    stamp(&mut response, tag);
    response
}

/// The id in a path.
///
/// # Errors
/// 404, like an unknown one.
pub(super) fn payment_id(path: IdInPath) -> Result<PaymentId, Problem> {
    let text = path.map(|Path(text)| text).unwrap_or_default();
    text.parse().map_err(|_| Problem::new(Code::PaymentNotFound))
}

/// Weak, because it names the payment's version and not the bytes; every change of what is shown
/// appends to the history and so changes it.
pub(super) fn tag(payment: &Payment) -> String {
    format!("W/\"{}\"", payment.history_seq)
}

/// Adds the tag, and lets only the client's own cache keep the answer, to be asked about each time.
pub(super) fn stamp(response: &mut Response<Body>, tag: &str) {
    // Digits between quotes: always a legal header value.
    if let Ok(value) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(ETAG, value);
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
}
