//! `POST /v1/ops/parked/{id}/redrive`: release one parked payment (rule R16).
//!
//! 200 with the payment as it stands then, 202 with an approval where one person is not enough, 409 with what
//! refuses it. Who sends `version` is refused if anything was written about the payment since.

use super::{Desk, IdInPath, refusal, shapes, text};
use crate::domain::parked::{self, Act, KeyWanted, WhyNot};
use crate::intake::{Caller, Code, Problem, Scope, json, trouble};
use crate::platform::metrics;
use crate::schedule::{ApprovalKind, AskedFor, NewApproval, ParkedView, Redrive};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};

/// What is asked for, of a payment that was looked at.
struct Asked {
    view: ParkedView,
    key: KeyWanted,
    caller: Caller,
    reason: String,
    version: Option<i32>,
}

pub(super) async fn post(
    State(desk): State<Desk>,
    id: IdInPath,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (caller, mut form) =
        desk.intake.act(request, Scope::Redrive, &["reason", "newEpoch", "version"]).await?;
    let (key, act) = match form.flag("newEpoch")? {
        Some(true) => (KeyWanted::New, Act::RedriveNewEpoch),
        Some(false) | None => (KeyWanted::Same, Act::Redrive),
    };
    let version = version(form.integer("version")?);
    let reason = form.reason()?;
    let view = desk.one(super::parked::payment_id(&text(id))?).await?;
    let asked = Asked { view, key, caller, reason, version };
    let said = asked.view.said(&desk.rules.retryable_codes);
    let payment = &asked.view.payment;
    let may = parked::redrive(payment, &said, key, version, asked.view.lineage, asked.view.now);
    let answer = match may {
        Err(why) => Err(refusal::refusal(why, payment.id, Some(payment.status))),
        Ok(_) if desk.rules.needs_approval(act, payment.amount) => desk.ask(&asked).await,
        Ok(_) => desk.release(&asked).await,
    };
    let result = match &answer {
        Ok(answer) if answer.status() == StatusCode::ACCEPTED => "asked",
        Ok(_) => "done",
        Err(_) => "refused",
    };
    metrics::OPERATOR_ACTS.add(1, [act.as_str(), result]);
    answer
}

/// The version in a body; one that no row can have fits no row.
pub(super) fn version(sent: Option<i64>) -> Option<i32> {
    sent.map(|version| i32::try_from(version).unwrap_or(-1))
}

impl Desk {
    async fn release(&self, asked: &Asked) -> Result<Response<Body>, Problem> {
        let payment = asked.view.payment.id;
        let order = Redrive {
            payment,
            key: asked.key,
            by: asked.caller.operator.clone(),
            reason: asked.reason.clone(),
            version: asked.version,
            approval: None,
        };
        let schedule = self.intake.schedule();
        let released = schedule.redrive(&order, &self.rules.retryable_codes).await.map_err(trouble)?;
        // Read again: after a refusal it says what it was lost to.
        let stands = self.one(payment).await?;
        match released {
            Ok(status) => {
                metrics::PAYMENT_TRANSITIONS.add(1, [status.as_str(), "redriven"]);
                Ok(json(StatusCode::OK, shapes::record(&stands, &self.rules)))
            }
            Err(why) => Err(refusal::refusal(why, payment, Some(stands.payment.status))),
        }
    }

    async fn ask(&self, asked: &Asked) -> Result<Response<Body>, Problem> {
        let payment = &asked.view.payment;
        let kind = match asked.key {
            KeyWanted::Same => ApprovalKind::Redrive,
            KeyWanted::New => ApprovalKind::NewEpoch,
        };
        let new = NewApproval {
            id: self.intake.fresh_id(),
            kind,
            payment: Some(payment.id),
            asked_by: asked.caller.operator.clone(),
            reason: asked.reason.clone(),
            // What the second person looks at is what is carried out, or nothing.
            request: serde_json::json!({
                "version": payment.history_seq,
                "amount": payment.amount.minor.get(),
                "currency": payment.amount.currency.as_str(),
                "epoch": payment.epoch,
            }),
        };
        match self.intake.schedule().ask_approval(&new).await.map_err(trouble)? {
            AskedFor::Asked(approval) => {
                Ok(json(StatusCode::ACCEPTED, shapes::bytes(&shapes::approval(&approval))))
            }
            AskedFor::Waiting(approval) if approval.kind == kind => {
                Ok(json(StatusCode::ACCEPTED, shapes::bytes(&shapes::approval(&approval))))
            }
            AskedFor::Waiting(_) => {
                Err(Problem::new(Code::ApprovalWaits).about(payment.id, Some(payment.status)))
            }
            AskedFor::Decided => Err(refusal::refusal(WhyNot::Changed, payment.id, Some(payment.status))),
        }
    }
}
