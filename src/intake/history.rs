//! `GET /v1/scheduled-payments/{id}/history`: everything that ever happened to a payment.
//!
//! Each row with its hash and the hash before it, as stored; nothing is verified here. Workers and
//! operators are named; the actor itself is shown as `client`.

use super::actor::Scope;
use super::openapi::{Answer, Operation};
use super::problem::{Code, Problem};
use super::read::{ID_IN_PATH, IF_NONE_MATCH, IdInPath, asked, unless_known};
use super::{Intake, limits, wire};
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::http::header::HeaderMap;

pub(super) const TOLD: &[Operation] = &[Operation {
    path: "/v1/scheduled-payments/{id}/history",
    id: "readHistory",
    tag: "payments",
    summary: "Everything that happened to a payment",
    scope: Some(Scope::Read),
    parameters: &[ID_IN_PATH, IF_NONE_MATCH],
    answers: &[Answer { headers: &["ETag"], ..Answer::ok("History", "Oldest first.") }, Answer::UNCHANGED],
    refusals: &[Code::PaymentNotFound],
    ..Operation::BARE
}];

pub(super) async fn get(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let (actor, id) = asked(&intake, path, &headers, Scope::Read).await?;
    let found = intake.schedule.history(actor, id).await.map_err(limits::trouble)?;
    let entries = found.ok_or_else(|| Problem::new(Code::PaymentNotFound))?;
    // Rows are only ever added, so the number of the newest names the whole.
    let version = entries.last().map_or(0, |newest| newest.row.seq);
    Ok(unless_known(&headers, &format!("W/\"{version}\""), || wire::history(id, &entries)))
}
