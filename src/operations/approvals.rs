//! `/v1/ops/approvals`: what waits for a second person, and their word on it.
//!
//! The word and what it allows are one transaction. Whoever asked is refused; of two who decide at once one wins,
//! and the other is told 409.

use super::{Desk, IdInPath, reconciliations, refund_resolve, refusal, shapes, uuid};
use crate::domain::state::{Cause, Status};
use crate::intake::{Code, Pairs, Problem, Scope, json, trouble};
use crate::platform::metrics;
use crate::schedule::{ActTerms, Approval, ApprovalStatus, ApprovalVerdict, CarriedOut, Decided, Obstacle};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};

pub(super) async fn list(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let pairs = Pairs::read(&uri, &["status", "limit", "cursor"])?;
    let wanted = "Expected pending, approved, rejected or expired.";
    let status = pairs.read_as("status", wanted, ApprovalStatus::from_text)?;
    let limit = pairs.limit()?;
    let schedule = desk.intake.schedule();
    let last = super::before(&pairs, |id| schedule.approval(id)).await?;
    let after = last.map(|last| (last.asked_at, last.id));
    let most = u32::try_from(limit).unwrap_or(u32::MAX);
    let status = status.unwrap_or(ApprovalStatus::Pending);
    let found = schedule.approvals(status, after, most).await.map_err(trouble)?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.id.to_string());
    Ok(json(StatusCode::OK, shapes::page(found.iter().map(shapes::approval).collect(), next)))
}

pub(super) async fn show(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Operate).await?;
    let id = uuid(id, Code::ApprovalNotFound)?;
    let found = desk.intake.schedule().approval(id).await.map_err(trouble)?;
    Ok(answer(&found.ok_or_else(|| Problem::new(Code::ApprovalNotFound))?))
}

pub(super) async fn approve(
    desk: State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    decide(desk, id, request, ApprovalVerdict::Approve).await
}

pub(super) async fn reject(
    desk: State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    decide(desk, id, request, ApprovalVerdict::Reject).await
}

async fn decide(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
    verdict: ApprovalVerdict,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Approve, &["reason"]).await?;
    let reason = form.reason()?;
    let id = uuid(id, Code::ApprovalNotFound)?;
    let terms = ActTerms { retryable_codes: desk.rules.retryable_codes.clone() };
    let schedule = desk.intake.schedule();
    let decided = schedule.decide_approval(id, &caller.operator, verdict, &reason, &terms).await;
    let answer = told(decided.map_err(trouble)?);
    metrics::OPERATOR_ACTS.add(1, [verdict.as_str(), if answer.is_ok() { "done" } else { "refused" }]);
    answer
}

fn told(decided: Decided) -> Result<Response<Body>, Problem> {
    match decided {
        Decided::Approved(approval, CarriedOut::Redriven(status)) => {
            metrics::PAYMENT_TRANSITIONS.add(1, [status.as_str(), "redriven"]);
            Ok(answer(&approval))
        }
        Decided::Approved(approval, CarriedOut::RefundClosed(closed)) => {
            if closed.is_whole {
                metrics::PAYMENT_TRANSITIONS.add(1, [Status::Refunded.as_str(), "refunded"]);
            }
            Ok(answer(&approval))
        }
        Decided::Approved(approval, CarriedOut::Repaired(done)) => {
            reconciliations::count(done, Cause::Repaired);
            Ok(answer(&approval))
        }
        Decided::Approved(approval, CarriedOut::RefundAllowed(_) | CarriedOut::Withdrawn(_))
        | Decided::Rejected(approval) => Ok(answer(&approval)),
        Decided::Already(approval) => Err(match approval.status {
            ApprovalStatus::Expired => about(Code::ApprovalExpired, &approval),
            ApprovalStatus::Approved | ApprovalStatus::Rejected | ApprovalStatus::Pending => {
                let by = approval.decided_by.as_ref().map_or("", |by| by.0.as_str());
                let detail = format!("It was {} by {by}.", approval.status.as_str());
                about(Code::ApprovalDecided, &approval).detail(detail)
            }
        }),
        Decided::Expired(approval) => Err(about(Code::ApprovalExpired, &approval)),
        Decided::SamePerson(approval) => Err(about(Code::SamePerson, &approval)),
        Decided::Impossible(Approval { payment: Some(payment), .. }, Obstacle::Parked(why)) => {
            Err(refusal::refusal(why, payment, None))
        }
        Decided::Impossible(approval, Obstacle::RefundIsVoid) => Err(about(Code::ApprovalExpired, &approval)),
        Decided::Impossible(approval, Obstacle::Refund(why)) => {
            Err(refund_resolve::refusal(why, approval.payment))
        }
        // What a worker holds passes, and the approval waits on; after the others it is void.
        Decided::Impossible(approval, Obstacle::Repair(why)) => {
            Err(reconciliations::refusal(why, approval.payment))
        }
        Decided::Impossible(_, Obstacle::ReportDoesNotCount) => Err(Problem::new(Code::ReportDoesNotCount)),
        // Only payments are parked.
        Decided::Impossible(Approval { payment: None, .. }, Obstacle::Parked(_)) => {
            Err(Problem::new(Code::Internal))
        }
        Decided::Impossible(_, Obstacle::Unreadable) => Err(Problem::new(Code::Internal)),
        Decided::NotFound => Err(Problem::new(Code::ApprovalNotFound)),
    }
}

/// Of its payment, where it is one's.
pub(super) fn about(code: Code, approval: &Approval) -> Problem {
    let problem = Problem::new(code);
    match approval.payment {
        Some(payment) => problem.about(payment, None),
        None => problem,
    }
}

fn answer(approval: &Approval) -> Response<Body> {
    json(StatusCode::OK, shapes::bytes(&shapes::approval(approval)))
}
