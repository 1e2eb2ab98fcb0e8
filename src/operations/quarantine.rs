//! `/v1/ops/quarantine`: why nothing is claimed, what is missing before claims may go on, and two people's word that
//! they do (rule R17).
//!
//! Released is what was compared with every gateway's own report of every day from which commits may be missing, and of
//! those behind them in which it may still book. What is missing is named, with the instant from which it can be had and
//! the command that brings it; with `anyway` two people may pass over it, and it is shouted and kept who they were.

use super::quarantine_advice::{advice, releasable_from, sentence};
use super::{Desk, shapes};
use crate::intake::{Code, FieldError, Pairs, Problem, Scope, json, trouble, utc};
use crate::platform::metrics;
use crate::schedule::{EnterAnswer, Insists, Lack, Quarantine, QuarantineView, ReleaseAnswer};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use chrono::TimeDelta;
use serde_json::{Value, json as object};

/// How many are shown.
const MOST: u32 = 50;
/// Of what is missing, as many are named in a refusal; the first are the oldest.
const MOST_NAMED: usize = 200;
/// How long the first person's word stands, as `release_quarantine()` has it.
pub(super) const WORD_STANDS: TimeDelta = TimeDelta::days(1);

pub(super) async fn show(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    Pairs::read(&uri, &[])?;
    answer(&desk, StatusCode::OK).await
}

pub(super) async fn enter(State(desk): State<Desk>, request: Request) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Approve, &["reason", "lostFrom"]).await?;
    let lost_from = form.time("lostFrom")?;
    let reason = form.reason()?;
    let entered = desk.intake.schedule().enter_quarantine(&caller.operator, &reason, lost_from).await;
    match entered.map_err(trouble)? {
        EnterAnswer::Quarantined => {
            tracing::error!(operator = caller.operator.0, reason, "a person quarantined the database");
            metrics::OPERATOR_ACTS.add(1, ["enter_quarantine", "done"]);
            answer(&desk, StatusCode::OK).await
        }
        EnterAnswer::AlreadyQuarantined => {
            metrics::OPERATOR_ACTS.add(1, ["enter_quarantine", "refused"]);
            Err(Problem::new(Code::AlreadyQuarantined))
        }
        EnterAnswer::Altered => {
            tracing::warn!(
                operator = caller.operator.0,
                reason,
                ?lost_from,
                "commits are missing since another instant"
            );
            metrics::OPERATOR_ACTS.add(1, ["alter_quarantine", "done"]);
            answer(&desk, StatusCode::OK).await
        }
        EnterAnswer::NotYet => {
            metrics::OPERATOR_ACTS.add(1, ["enter_quarantine", "refused"]);
            Err(not_since("Nothing was lost since an instant that is to come."))
        }
        EnterAnswer::ProvenBefore => {
            metrics::OPERATOR_ACTS.add(1, ["alter_quarantine", "refused"]);
            Err(not_since(
                "Something older is proven to be missing; GET /v1/ops/quarantine has it as provenFrom.",
            ))
        }
    }
}

fn not_since(why: &'static str) -> Problem {
    Problem::at(Code::OutOfRange, "/lostFrom", why)
}

pub(super) async fn release(State(desk): State<Desk>, request: Request) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Approve, &["reason", "anyway"]).await?;
    let insists = match form.flag("anyway")? {
        Some(true) => Insists::Anyway,
        Some(false) | None => Insists::OnNothing,
    };
    let reason = form.reason()?;
    let schedule = desk.intake.schedule();
    let terms = &desk.rules.release;
    let told =
        schedule.release_quarantine(&caller.operator, &reason, insists, terms).await.map_err(trouble)?;
    let act = match insists {
        Insists::Anyway => "override_quarantine",
        Insists::OnNothing => "release_quarantine",
    };
    let result = match told {
        ReleaseAnswer::Asked => "asked",
        ReleaseAnswer::Released => "done",
        ReleaseAnswer::SamePerson | ReleaseAnswer::Lacking | ReleaseAnswer::NotQuarantined => "refused",
    };
    metrics::OPERATOR_ACTS.add(1, [act, result]);
    match told {
        ReleaseAnswer::Asked => answer(&desk, StatusCode::ACCEPTED).await,
        ReleaseAnswer::Released => {
            match insists {
                Insists::Anyway => tracing::error!(
                    operator = caller.operator.0,
                    reason,
                    "two people released the quarantine whatever is missing: what was charged before may be charged \
                     again where the gateway's own key does not prevent it"
                ),
                Insists::OnNothing => {
                    tracing::warn!(operator = caller.operator.0, reason, "the quarantine is released");
                }
            }
            answer(&desk, StatusCode::OK).await
        }
        ReleaseAnswer::SamePerson => Err(Problem::new(Code::SamePerson)),
        ReleaseAnswer::NotQuarantined => Err(Problem::new(Code::NotQuarantined)),
        ReleaseAnswer::Lacking => {
            let view = schedule.quarantines(1, terms).await.map_err(trouble)?;
            let mut problem = Problem::new(Code::QuarantineLacks);
            problem.errors = view.lacks.iter().take(MOST_NAMED).map(missing).collect();
            Err(problem)
        }
    }
}

fn missing(lack: &Lack) -> FieldError {
    let detail = sentence(lack).into();
    FieldError { pointer: "/anyway".to_owned(), code: Code::QuarantineLacks, detail }
}

async fn answer(desk: &Desk, status: StatusCode) -> Result<Response<Body>, Problem> {
    let view = desk.intake.schedule().quarantines(MOST, &desk.rules.release).await.map_err(trouble)?;
    Ok(json(status, shapes::bytes(&shown(&view))))
}

fn shown(view: &QuarantineView) -> Value {
    let lacks: Vec<Value> = view
        .lacks
        .iter()
        .map(|lack| {
            object!({
                "lack": lack.kind.as_str(),
                "gateway": lack.gateway,
                "day": lack.day.to_string(),
                "items": lack.items,
                "askableFrom": lack.askable_from.map(utc),
                "partlySeenAt": lack.partly_seen_at.map(utc),
                "explanation": sentence(lack),
            })
        })
        .collect();
    let evidence: Vec<Value> = view
        .evidence
        .iter()
        .map(|found| {
            object!({
                "at": utc(found.at),
                "kind": found.kind.as_str(),
                "paymentId": found.payment,
                "what": found.what,
            })
        })
        .collect();
    object!({
        "quarantined": view.open().is_some(),
        "advice": advice(view),
        "releasableFrom": releasable_from(view).map(utc),
        "refundsHeld": view.refunds_held,
        "lacks": lacks,
        "evidence": evidence,
        "data": view.quarantines.iter().map(one).collect::<Vec<_>>(),
    })
}

fn one(quarantine: &Quarantine) -> Value {
    object!({
        "quarantine": quarantine.id,
        "since": utc(quarantine.since),
        "kind": quarantine.kind.as_str(),
        "reason": quarantine.reason,
        "lostFrom": utc(quarantine.lost_from),
        "lostFromBy": quarantine.lost_from_by.as_ref().map(|by| &by.0),
        "provenFrom": quarantine.proven_from.map(utc),
        "releasedLineage": quarantine.released_lineage,
        "foundLineage": quarantine.found_lineage,
        "evidenceCount": quarantine.evidence_count,
        "asked": quarantine.asked.as_ref().map(|asked| object!({
            "by": asked.by.0,
            "at": utc(asked.at),
            "standsUntil": utc(asked.at + WORD_STANDS),
            "reason": asked.reason,
            "anyway": asked.insists == Insists::Anyway,
        })),
        "released": quarantine.released.as_ref().map(|released| object!({
            "by": released.by.0,
            "at": utc(released.at),
            "reason": released.reason,
            "overridden": released.overridden,
        })),
    })
}
