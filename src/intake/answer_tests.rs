//! What is answered, from what the schedule says, without a database.

use super::problem::{Code, Problem};
use super::{cancel, create, read, wire};
use crate::domain::ids::{ActorId, ClaimId, Epoch, Fence, GatewayName, PaymentId, WorkerName};
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::payment::Payment;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::window::Window;
use crate::schedule::{AttemptView, CancelAnswer, CreateAnswer, DailyCap, PaymentView};
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn view(status: Status) -> Box<PaymentView> {
    let due_at = at("2030-01-31T09:00:00Z");
    let id = PaymentId::new(due_at, [1; 10]).unwrap();
    let (actor, gateway) = (ActorId(Uuid::from_u128(7)), GatewayName("sandbox".into()));
    let amount = Money { minor: Minor::new(1050).unwrap(), currency: Currency::from_code("EUR").unwrap() };
    let created_at = at("2030-01-01T00:00:00.123456Z");
    let payment =
        Payment { status, lane: 1, ..Payment::created(id, actor, gateway, amount, due_at, created_at) };
    Box::new(PaymentView {
        payment,
        payee: "acct_1".to_owned().into(),
        description: None,
        metadata: BTreeMap::from([("b".into(), "2".into()), ("a".into(), "1".into())]),
        external_id: Some("inv-1".into()),
        attempts: Vec::new(),
        first_claimed_at: None,
    })
}

/// The same payment after everything that can change about it has changed.
fn later() -> Box<PaymentView> {
    let mut later = view(Status::Completed);
    let payment = &mut later.payment;
    payment.reason = Some(Reason::DeclinedSoft);
    payment.next_attempt_at = at("2030-01-31T09:05:00Z");
    payment.attempt = 2;
    payment.sends = 2;
    payment.epoch = Epoch(1);
    payment.fence = Fence(2);
    payment.gateway_ref = Some("ch_1".into());
    payment.last_moved_at = at("2030-01-31T09:05:01Z");
    payment.history_seq = 5;
    later.first_claimed_at = Some(at("2030-01-31T09:00:00.012001Z"));
    later.attempts = vec![AttemptView {
        attempt: 1,
        epoch: Epoch(0),
        claim_id: ClaimId(Uuid::from_u128(99)),
        fence: Fence(1),
        worker: WorkerName("worker-a.1".into()),
        claimed_at: at("2030-01-31T09:00:00.012001Z"),
        settled_at: Some(at("2030-01-31T09:00:00.2Z")),
        verdict: Some("declined".into()),
        code: Some("insufficient_funds".into()),
        http_status: Some(402),
        took_ms: Some(150),
        note: Some("for operators".into()),
        fenced: false,
    }];
    later
}

async fn body(response: Response) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

#[tokio::test]
async fn a_replay_is_the_same_bytes_whatever_became_of_the_payment() {
    let first = create::respond(&CreateAnswer::Created(view(Status::Pending))).unwrap();
    let again = create::respond(&CreateAnswer::Replayed(later())).unwrap();
    assert_eq!((first.status().as_u16(), again.status().as_u16()), (201, 201));
    let location = format!("/v1/scheduled-payments/{}", view(Status::Pending).payment.id);
    assert_eq!(first.headers()["location"], location.as_str());
    assert_eq!(again.headers()["location"], location.as_str());
    assert!(first.headers().get("idempotent-replayed").is_none());
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(body(first).await, body(again).await);
}

#[test]
fn the_creations_answer_is_this_text_for_ever() {
    // Rendering 1. If this fails, CREATION_RENDERING must grow and form 1 must still be answered.
    let id = view(Status::Pending).payment.id;
    let text = String::from_utf8(wire::creation(&view(Status::Pending))).unwrap();
    assert_eq!(
        text,
        format!(
            "{{\"paymentId\":\"{id}\",\"status\":\"PENDING\",\"payee\":\"acct_1\",\"amount\":1050,\
             \"currency\":\"EUR\",\"dueAt\":\"2030-01-31T09:00:00Z\",\"executeBefore\":null,\
             \"gateway\":\"sandbox\",\"externalId\":\"inv-1\",\"description\":null,\
             \"metadata\":{{\"a\":\"1\",\"b\":\"2\"}},\"retry\":{{\"maxSends\":6,\"onSoftDecline\":\"retry\",\
             \"onExhausted\":\"park\"}},\"createdAt\":\"2030-01-01T00:00:00.123456Z\",\"version\":1}}"
        )
    );
    assert_eq!(wire::CREATION_RENDERING, 1);
}

#[test]
fn within_its_window_a_payment_is_not_late() {
    let mut seen = later();
    seen.payment.execute_within = Window::of_seconds(60);
    let planned = seen.payment.first_attempt_at();
    seen.first_claimed_at = Some(planned + TimeDelta::milliseconds(7));
    let shown: Value = serde_json::from_slice(&wire::standing(&seen)).unwrap();
    assert_eq!((&shown["latenessMs"], &shown["executeWithin"]), (&json!(7), &json!(60)));
    let created: Value = serde_json::from_slice(&wire::creation(&seen)).unwrap();
    assert_eq!(created["executeWithin"], json!(60));
}

#[test]
fn a_read_shows_what_the_interface_promises() {
    let shown: Value = serde_json::from_slice(&wire::standing(&later())).unwrap();
    assert_eq!(
        shown,
        json!({
            "paymentId": later().payment.id.to_string(), "status": "COMPLETED", "statusReason": "declined_soft",
            "payee": "acct_1", "amount": 1050, "currency": "EUR", "dueAt": "2030-01-31T09:00:00Z",
            "executeBefore": null, "gateway": "sandbox", "externalId": "inv-1", "description": null,
            "metadata": {"a": "1", "b": "2"},
            "retry": {"maxSends": 6, "onSoftDecline": "retry", "onExhausted": "park"},
            "createdAt": "2030-01-01T00:00:00.123456Z", "updatedAt": "2030-01-31T09:05:01Z",
            "nextAttemptAt": null, "cancelRequestedAt": null, "gatewayReference": "ch_1", "latenessMs": 13,
            "attempts": [{
                "attempt": 1, "epoch": 0, "claimedAt": "2030-01-31T09:00:00.012001Z",
                "settledAt": "2030-01-31T09:00:00.200Z", "outcome": "declined", "code": "insufficient_funds",
                "httpStatus": 402, "tookMs": 150, "late": false,
            }],
            "version": 5,
        })
    );
}

#[test]
fn a_next_attempt_is_shown_only_where_there_will_be_one() {
    for status in Status::ALL {
        let shown: Value = serde_json::from_slice(&wire::standing(&view(status))).unwrap();
        assert_eq!(shown["nextAttemptAt"].is_string(), status.is_claimable(), "{status:?}");
        assert_eq!(shown["latenessMs"], Value::Null);
    }
}

#[test]
fn lateness_is_counted_in_whole_milliseconds_rounded_up() {
    for (late_us, ms) in [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (60_000_000, 60_000)] {
        let mut view = view(Status::Processing);
        view.first_claimed_at = Some(view.payment.due_at + TimeDelta::microseconds(late_us));
        let shown: Value = serde_json::from_slice(&wire::standing(&view)).unwrap();
        assert_eq!(shown["latenessMs"], ms, "{late_us} µs");
    }
}

#[tokio::test]
async fn a_cancelled_payment_is_the_same_answer_every_time() {
    let first = cancel::respond(&CancelAnswer::Cancelled(view(Status::Cancelled))).unwrap();
    let again = cancel::respond(&CancelAnswer::Cancelled(view(Status::Cancelled))).unwrap();
    assert_eq!((first.status().as_u16(), again.status().as_u16()), (200, 200));
    assert_eq!(first.headers()["etag"], "W/\"1\"");
    let first = body(first).await;
    assert_eq!(serde_json::from_slice::<Value>(&first).unwrap()["status"], "CANCELLED");
    assert_eq!(first, body(again).await);
}

#[tokio::test]
async fn a_recorded_wish_is_answered_202_with_its_instant_and_the_state() {
    let mut wished = view(Status::Unknown);
    wished.payment.cancel_wish_at = Some(at("2030-01-31T09:00:07Z"));
    let answer = cancel::respond(&CancelAnswer::Wished(wished)).unwrap();
    assert_eq!(answer.status().as_u16(), 202);
    assert_eq!(answer.headers()["etag"], "W/\"1\"");
    let shown: Value = serde_json::from_slice(&body(answer).await).unwrap();
    assert_eq!(shown["status"], "UNKNOWN");
    assert_eq!(shown["cancelRequestedAt"], "2030-01-31T09:00:07Z");
}

#[test]
fn a_refused_cancel_names_the_state_that_refused_it() {
    for (status, code) in [
        (Status::Processing, Code::AlreadyProcessing),
        (Status::Unknown, Code::OutcomeUnknown),
        (Status::Completed, Code::AlreadyFinal),
        (Status::Failed, Code::AlreadyFinal),
        (Status::Refunded, Code::AlreadyFinal),
        (Status::Parked, Code::Parked),
    ] {
        let problem = cancel::respond(&CancelAnswer::Refused(view(status))).unwrap_err();
        assert_eq!((problem.code, problem.code.http()), (code, 409));
        assert_eq!(problem.payment, Some((view(status).payment.id, Some(status))));
    }
    let missing = cancel::respond(&CancelAnswer::NotFound).unwrap_err();
    assert_eq!(missing.code, Code::PaymentNotFound);
}

#[test]
fn a_claim_that_asks_about_an_older_send_is_answered_as_unknown() {
    for (unanswered, asks, code) in
        [(1, 0, Code::AlreadyProcessing), (2, 0, Code::OutcomeUnknown), (1, 1, Code::OutcomeUnknown)]
    {
        let mut view = view(Status::Processing);
        view.payment.unanswered = unanswered;
        view.payment.asks = asks;
        assert_eq!(
            cancel::respond(&CancelAnswer::Refused(view)).unwrap_err().code,
            code,
            "{unanswered}, {asks}"
        );
    }
}

#[test]
fn a_conflict_names_the_payment_and_what_differs() {
    let id = view(Status::Pending).payment.id;
    let differs = vec!["/amount".to_owned(), "/payee".to_owned()];
    let reused = CreateAnswer::KeyReused { payment: id, status: Status::Completed, differs: differs.clone() };
    let problem = create::respond(&reused).unwrap_err();
    assert_eq!((problem.code.http(), problem.code), (409, Code::IdempotencyKeyReused));
    assert_eq!(problem.payment, Some((id, Some(Status::Completed))));
    assert_eq!(problem.differs, Some(differs));

    let problem = create::respond(&CreateAnswer::ExternalIdTaken { payment: id }).unwrap_err();
    assert_eq!((problem.code.http(), problem.code), (409, Code::ExternalIdConflict));
    assert_eq!(problem.payment, Some((id, None)));

    let problem = create::respond(&CreateAnswer::DayNotReady).unwrap_err();
    assert_eq!((problem.code.http(), problem.code), (503, Code::ScheduleNotReady));
    assert!(problem.retry_after_s.is_some());

    for (cap, code) in
        [(DailyCap::Amount, Code::DailyAmountReached), (DailyCap::Payments, Code::DailyCountReached)]
    {
        let problem = create::respond(&CreateAnswer::DailyCapReached(cap)).unwrap_err();
        assert_eq!((problem.code.http(), problem.code), (422, code));
    }
}

#[test]
fn a_text_that_is_no_id_is_answered_like_an_unknown_id() {
    for text in
        ["", "1", "not-a-uuid", "8e03978e-40d5-43e8-bc93-6894a57f9324", "018CC251F4008ABC9DEF0123456789AB"]
    {
        let problem = read::payment_id(Ok(axum::extract::Path(text.to_owned()))).unwrap_err();
        let unknown = Problem::new(Code::PaymentNotFound);
        assert_eq!(problem.write("/p", "r"), unknown.write("/p", "r"), "{text}");
    }
    let id = view(Status::Pending).payment.id;
    assert_eq!(read::payment_id(Ok(axum::extract::Path(id.to_string()))).unwrap(), id);
}
