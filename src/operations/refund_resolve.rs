//! `POST /v1/ops/refunds/{id}/resolve`: what became of a refund that the gateway no longer explains.
//!
//! Answered 202 with an approval, always: one person's word never closes what may have moved money. Refunded needs
//! the gateway's own name of the refund and what was given back; not refunded is refused while a request may still
//! arrive, and once an answer says otherwise. The evidence is kept with the refund and in the payment's history.

use super::resolve::{Evidence, evidence};
use super::{Desk, IdInPath, shapes, text};
use crate::domain::ids::PaymentId;
use crate::domain::refund::RefundId;
use crate::domain::refund_resolution::RefundUnresolved;
use crate::intake::{Code, Form, Problem, Scope, json, trouble};
use crate::platform::metrics;
use crate::schedule::{NewRefundWord, RefundWordAsked};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use uuid::Uuid;

pub(super) async fn post(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) = desk.intake.act(request, Scope::Refund, &["reason", "as", "evidence"]).await?;
    let is_refunded = is_refunded(&mut form)?;
    let Evidence { reference, money, kept } = evidence(&mut form)?;
    let new = NewRefundWord {
        refund: Uuid::try_parse(&text(id)).map(RefundId).map_err(|_| Problem::new(Code::RefundNotFound))?,
        refunded: is_refunded.then(|| (reference.unwrap_or_default(), money)),
        by: caller.operator,
        reason: form.reason()?,
        evidence: kept,
        approval: desk.intake.fresh_id(),
    };
    let asked = desk.intake.schedule().ask_refund_resolution(&new).await.map_err(trouble)?;
    let answer = match asked {
        RefundWordAsked::Asked(approval) | RefundWordAsked::Replayed(approval) => {
            Ok(json(StatusCode::ACCEPTED, shapes::bytes(&shapes::approval(&approval))))
        }
        RefundWordAsked::Waiting(approval) => {
            let detail = format!("Approval {} is about the same refund.", approval.id);
            Err(super::approvals::about(Code::ApprovalWaits, &approval).detail(detail))
        }
        RefundWordAsked::Refused(why, payment) => Err(refusal(why, payment)),
    };
    metrics::OPERATOR_ACTS.add(1, ["resolve_refund", if answer.is_ok() { "asked" } else { "refused" }]);
    answer
}

fn is_refunded(form: &mut Form) -> Result<bool, Problem> {
    match form.text("as", 20)?.as_deref() {
        Some("refunded") => Ok(true),
        Some("not_refunded") => Ok(false),
        Some(_) => {
            Err(Problem::at(Code::UnknownChoice, form.pointer("as"), "Expected refunded or not_refunded."))
        }
        None => Err(form.missing("as")),
    }
}

/// Why people's word does not close it, as they are told.
pub(super) fn refusal(why: RefundUnresolved, payment: Option<PaymentId>) -> Problem {
    let code = match why {
        RefundUnresolved::NoSuchRefund => Code::RefundNotFound,
        // Passes once an operator has released the database.
        RefundUnresolved::Quarantined => {
            return Problem::new(Code::DatabaseUnavailable).detail(why.explanation()).retry_after(10);
        }
        RefundUnresolved::ReferenceMissing => {
            return Problem::at(Code::MissingField, "/evidence/gatewayReference", why.explanation());
        }
        RefundUnresolved::ReferenceDiffers => {
            return Problem::at(Code::EvidenceDiffers, "/evidence/gatewayReference", why.explanation());
        }
        RefundUnresolved::AmountDiffers => {
            return Problem::at(Code::EvidenceDiffers, "/evidence/amount", why.explanation());
        }
        RefundUnresolved::NotWaiting => Code::RefundNotWaiting,
        RefundUnresolved::Changed => Code::PaymentChanged,
        RefundUnresolved::AboveCharge => Code::RefundAboveCharge,
        RefundUnresolved::ReferenceTaken => Code::ReferenceTaken,
        RefundUnresolved::RefundOnRecord => Code::RefundOnRecord,
        RefundUnresolved::TooRecent => Code::RefundTooRecent,
        // Asked for here before the schedule could say so.
        RefundUnresolved::NeedsApproval => Code::Internal,
    };
    let problem = Problem::new(code).detail(why.explanation());
    match payment {
        Some(payment) => problem.about(payment, None),
        None => problem,
    }
}
