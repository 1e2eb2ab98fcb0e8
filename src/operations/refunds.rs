//! `/v1/ops/refunds`: to ask for money to be given back, and to see what became of it, or which wait for people.
//!
//! What is asked for is a named charge of one payment. It is answered 202 with an approval, always: one person never
//! moves money alone. Repeated with the same `Idempotency-Key` it is the same refund. Workers send what was
//! allowed; this process never does.

use super::{Desk, IdInPath, shapes, text};
use crate::domain::ids::PaymentId;
use crate::domain::money::Minor;
use crate::domain::refund::{RefundId, RefundRefused, RefundStatus};
use crate::intake::{Code, Pairs, Problem, Scope, idempotency_key, json, trouble, utc};
use crate::platform::metrics;
use crate::schedule::{NewRefund, Refund, RefundAsked};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{HeaderName, HeaderValue, LOCATION};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use serde_json::{Value, json as object};
use sha2::{Digest, Sha256};
use uuid::Uuid;

const FIELDS: [&str; 4] = ["paymentId", "gatewayReference", "amount", "reason"];
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

pub(super) async fn post(State(desk): State<Desk>, request: Request) -> Result<Response<Body>, Problem> {
    let headers = request.headers().clone();
    let (caller, mut form) = desk.intake.act(request, Scope::Refund, &FIELDS).await?;
    let key = idempotency_key(&headers)?;
    let id = form.text("paymentId", 64)?.ok_or_else(|| form.missing("paymentId"))?;
    let payment: PaymentId = id.parse().map_err(|_| Problem::new(Code::PaymentNotFound))?;
    let reference = form.reference("gatewayReference")?;
    let reference = reference.ok_or_else(|| form.missing("gatewayReference"))?;
    let sent = form.integer("amount")?;
    let amount = sent.map(|minor| {
        let wrong =
            || Problem::at(Code::AmountNotPositive, form.pointer("amount"), Code::AmountNotPositive.doc());
        Minor::new(minor).ok_or_else(wrong)
    });
    let amount = amount.transpose()?;
    let reason = form.reason()?;
    let schedule = desk.intake.schedule();
    let new = NewRefund {
        id: RefundId::of(schedule.installation_secret(), caller.actor.id, &key),
        actor: caller.actor.id,
        request_hash: digest(payment, &reference, sent),
        idempotency_key: key,
        payment,
        reference,
        amount,
        by: caller.operator,
        reason,
        approval: desk.intake.fresh_id(),
    };
    let answer = answer(schedule.ask_refund(&new).await.map_err(trouble)?, payment);
    metrics::OPERATOR_ACTS.add(1, ["ask_refund", if answer.is_ok() { "asked" } else { "refused" }]);
    answer
}

/// Whether two requests ask for the same: the reason may be said in other words.
fn digest(payment: PaymentId, reference: &str, amount: Option<i64>) -> [u8; 32] {
    let amount = amount.map_or_else(|| "all".to_owned(), |minor| minor.to_string());
    let form = [payment.to_string(), reference.to_owned(), amount];
    let form: String = form.iter().map(|field| format!("{}:{field}", field.len())).collect();
    Sha256::digest(form).into()
}

fn answer(asked: RefundAsked, payment: PaymentId) -> Result<Response<Body>, Problem> {
    let (refund, is_replay) = match asked {
        RefundAsked::Asked(refund) => (refund, false),
        RefundAsked::Replayed(refund) => (refund, true),
        RefundAsked::KeyReused => {
            return Err(Problem::new(Code::IdempotencyKeyReused).detail("This key asked for another refund."));
        }
        RefundAsked::Refused(why) => return Err(refusal(why, payment)),
    };
    let mut response = json(StatusCode::ACCEPTED, shapes::bytes(&shown(&refund)));
    // A UUID after a fixed path: always a legal header value.
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/ops/refunds/{}", refund.id)) {
        response.headers_mut().insert(LOCATION, location);
    }
    if is_replay {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn refusal(why: RefundRefused, payment: PaymentId) -> Problem {
    let code = match why {
        RefundRefused::NoSuchPayment => return Problem::new(Code::PaymentNotFound).detail(why.explanation()),
        // Passes once an operator has released the database.
        RefundRefused::Quarantined => {
            return Problem::new(Code::DatabaseUnavailable).detail(why.explanation()).retry_after(10);
        }
        RefundRefused::NotCharged => Code::NotCharged,
        RefundRefused::ReferenceUnknown => Code::ReferenceUnknown,
        RefundRefused::NotOffered => Code::RefundsNotOffered,
        RefundRefused::ReferenceTaken => Code::ReferenceTaken,
        RefundRefused::NothingLeft => Code::NothingToRefund,
        RefundRefused::AboveCharge => Code::RefundAboveCharge,
    };
    Problem::new(code).detail(why.explanation()).about(payment, None)
}

pub(super) async fn list(
    State(desk): State<Desk>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Refund).await?;
    let pairs = Pairs::read(&uri, &["paymentId", "needsHuman"])?;
    let payment: Option<PaymentId> =
        pairs.read_as("paymentId", "Expected a payment's id.", |text| text.parse().ok())?;
    let waits = pairs.read_as("needsHuman", "Expected true.", |text| (text == "true").then_some(()))?;
    let schedule = desk.intake.schedule();
    let found = match (payment, waits) {
        (Some(payment), None) => schedule.refunds_of(payment).await,
        (None, Some(())) => schedule.refunds_for_people().await,
        (Some(_), Some(())) | (None, None) => {
            let why =
                "Name the payment whose refunds to list, or ask with needsHuman=true for those that wait.";
            return Err(Problem::at(Code::InvalidParameter, "/paymentId", why));
        }
    };
    let found = found.map_err(trouble)?;
    Ok(json(StatusCode::OK, shapes::page(found.iter().map(shown).collect(), None)))
}

pub(super) async fn show(
    State(desk): State<Desk>,
    id: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    desk.intake.look(&headers, Scope::Refund).await?;
    let none = || Problem::new(Code::RefundNotFound);
    let id = Uuid::try_parse(&text(id)).map(RefundId).map_err(|_| none())?;
    let found = desk.intake.schedule().refund(id).await.map_err(trouble)?;
    Ok(json(StatusCode::OK, shapes::bytes(&shown(&found.ok_or_else(none)?))))
}

fn shown(refund: &Refund) -> Value {
    let is_under_way =
        matches!(refund.status, RefundStatus::Approved | RefundStatus::Sending | RefundStatus::Unknown);
    object!({
        "refundId": refund.id,
        "paymentId": refund.payment,
        "status": refund.status.as_str(),
        "explanation": refund.status.explanation(),
        // Nobody asks the gateway any more, and what became of it is not known.
        "needsHuman": refund.status == RefundStatus::Unknown && refund.next_attempt_at.is_none(),
        "gateway": refund.gateway,
        "gatewayReference": refund.reference,
        "amount": refund.amount.minor.get(),
        "currency": refund.amount.currency.as_str(),
        "refundReference": refund.gateway_ref,
        "code": refund.code,
        "note": refund.note,
        "reason": refund.reason,
        "askedBy": refund.asked_by,
        "askedAt": utc(refund.asked_at),
        "expiresAt": (refund.status == RefundStatus::Asked).then(|| utc(refund.expires_at)),
        "approvalId": refund.approval,
        "approvedBy": refund.approved_by,
        "approvedAt": refund.approved_at.map(utc),
        "nextAttemptAt": refund.next_attempt_at.filter(|_| is_under_way).map(utc),
        "attempts": refund.attempt,
        "openSends": refund.open_sends,
        "finishedAt": refund.finished_at.map(utc),
        "givenBack": (refund.status == RefundStatus::Refunded)
            .then(|| refund.given_back.unwrap_or(refund.amount.minor).get()),
        "resolvedBy": refund.resolved_by,
        "resolvedApprovalId": refund.resolved_approval,
        "evidence": refund.evidence,
    })
}
