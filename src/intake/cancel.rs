//! `DELETE /v1/scheduled-payments/{id}`: cancel, if nothing was submitted yet.
//!
//! Where something was, and its outcome is unknown, the answer may be 202: the wish is recorded, nothing is
//! charged from the next claim on, and the gateway is told to refuse what may still be under way. The same
//! request says later what became of it: 200 CANCELLED, or 409 with the state that won.
//!
//! The schedule decides in one conditional update; what is answered here is the state at that
//! instant. Repeating a cancel that worked gives the same answer again, and a 200 means that the
//! commit was acknowledged: no charge can follow it.

use super::actor::Scope;
use super::openapi::{Answer, Operation};
use super::problem::{Code, Problem};
use super::read::{ID_IN_PATH, IdInPath, asked, stamp, tag};
use super::{Intake, json, limits, wire};
use crate::domain::guard::is_asked_about;
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use crate::platform::metrics;
use crate::schedule::CancelAnswer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::HeaderMap;
use axum::response::Response;

pub(super) const TOLD: &[Operation] = &[Operation {
    method: "delete",
    path: "/v1/scheduled-payments/{id}",
    id: "cancelPayment",
    tag: "payments",
    summary: "Cancel a payment",
    about: "Works until submission to the gateway starts; can be repeated.",
    scope: Some(Scope::Write),
    parameters: &[ID_IN_PATH],
    answers: &[
        Answer {
            headers: &["ETag"],
            ..Answer::ok("Payment", "It is cancelled: never charged, never will be.")
        },
        Answer {
            headers: &["ETag"],
            ..Answer::json(
                202,
                "Payment",
                "The wish is recorded: no later claim charges, and what was sent is asked about.",
            )
        },
    ],
    refusals: &[
        Code::PaymentNotFound,
        Code::AlreadyProcessing,
        Code::OutcomeUnknown,
        Code::AlreadyFinal,
        Code::Parked,
    ],
    ..Operation::BARE
}];

pub(super) async fn delete(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (actor, id) = asked(&intake, path, &headers, Scope::Write).await?;
    respond(&intake.schedule.cancel(actor, id).await.map_err(limits::trouble)?)
}

/// The answer on the wire.
pub(super) fn respond(answer: &CancelAnswer) -> Result<Response, Problem> {
    match answer {
        CancelAnswer::Cancelled(view) => {
            metrics::CANCELS.add(1, ["cancelled"]);
            let mut response = json(StatusCode::OK, wire::standing(view));
            stamp(&mut response, &tag(&view.payment));
            Ok(response)
        }
        CancelAnswer::Wished(view) => {
            metrics::CANCELS.add(1, ["wished"]);
            let mut response = json(StatusCode::ACCEPTED, wire::standing(view));
            stamp(&mut response, &tag(&view.payment));
            Ok(response)
        }
        CancelAnswer::Refused(view) => {
            metrics::CANCELS.add(1, ["refused"]);
            Err(refusal(&view.payment))
        }
        CancelAnswer::NotFound => {
            metrics::CANCELS.add(1, ["not_found"]);
            Err(Problem::new(Code::PaymentNotFound))
        }
    }
}

/// Why a payment that stands like this is not cancelled.
pub(crate) fn refusal(payment: &Payment) -> Problem {
    let code = match payment.status {
        // A claim that asks about an older send is as undecided as UNKNOWN itself.
        Status::Processing if is_asked_about(payment) => Code::OutcomeUnknown,
        Status::Processing => Code::AlreadyProcessing,
        Status::Unknown => Code::OutcomeUnknown,
        Status::Parked => Code::Parked,
        Status::Completed | Status::Failed | Status::Refunded => Code::AlreadyFinal,
        // Moved back between the update and the look at it; the client asks again.
        Status::Pending | Status::Cancelled => return Problem::new(Code::DatabaseUnavailable).retry_after(1),
    };
    Problem::new(code).about(payment.id, Some(payment.status))
}
