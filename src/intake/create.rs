//! `POST /v1/scheduled-payments`: one payment, once.
//!
//! The order of checks is the order of what they cost and reveal: key, scope, headers, body, shape,
//! rules, and only then the schedule. Payment and idempotency key commit together in there, so a
//! crash here leaves either both or nothing, and the client repeats its request with the same key.

use super::actor::{Caller, Scope};
use super::canonical::{self, Digests};
use super::envelope::About;
use super::openapi::{Answer, Operation, Parameter, Place};
use super::problem::{Code, Problem};
use super::rules::{Allowed, Broken, Request, Terms};
use super::wire::{self, Draft};
use super::{Intake, headers, json, limits};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::intent;
use crate::domain::state::{Cause, Status};
use crate::platform::metrics;
use crate::schedule::{CreateAnswer, DailyCap, NewPayment, PaymentView};
use axum::extract::State;
use axum::http::header::{HeaderValue, LOCATION};
use axum::http::{self, StatusCode};
use axum::response::Response;
use chrono::TimeDelta;

pub(super) const TOLD: &[Operation] = &[Operation {
    method: "post",
    path: "/v1/scheduled-payments",
    id: "createPayment",
    tag: "payments",
    summary: "Schedule a payment",
    about: "The same key and request again get the same bytes again, with Idempotent-Replayed. A refused request \
            leaves its key free.",
    scope: Some(Scope::Write),
    parameters: &[Parameter {
        place: Place::Header,
        name: "Idempotency-Key",
        schema: r#"{"type":"string","minLength":1,"maxLength":255,"pattern":"^[!#-~]+$","examples":["order-77"]}"#,
        about: "The client's own key of this payment, the same with every repetition.",
    }],
    body: Some("NewPayment"),
    answers: &[Answer {
        headers: &["Location", "Idempotent-Replayed"],
        leads_to: &["readPayment", "cancelPayment", "readHistory", "proveHistory"],
        ..Answer::json(201, "PaymentCreated", "It exists, now or since an earlier request under this key.")
    }],
    refusals: REFUSALS,
}];

/// Why a payment is not created.
pub(super) const REFUSALS: &[Code] = &[
    Code::WrongType,
    Code::UnknownField,
    Code::DuplicateField,
    Code::MissingField,
    Code::InvalidTime,
    Code::MissingIdempotencyKey,
    Code::InvalidIdempotencyKey,
    Code::IdempotencyKeyReused,
    Code::ExternalIdConflict,
    Code::ChargedBeforeRestore,
    Code::RawCardNumber,
    Code::Empty,
    Code::TooLong,
    Code::InvalidCharacter,
    Code::TooManyPairs,
    Code::AmountNotPositive,
    Code::AmountAboveLimit,
    Code::DailyAmountReached,
    Code::DailyCountReached,
    Code::UnsupportedCurrency,
    Code::DueInPast,
    Code::DueBeyondHorizon,
    Code::ExecuteBeforeNotAfterDue,
    Code::ExecuteBeforeWithinWindow,
    Code::UnknownGateway,
    Code::OutOfRange,
    Code::UnknownChoice,
    Code::ScheduleNotReady,
];

pub(super) async fn post(
    State(intake): State<Intake>,
    request: http::Request<axum::body::Body>,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let Caller { actor, now, .. } = intake.authorise(&parts.headers, Scope::Write).await?;
    headers::accepts_json(&parts.headers)?;
    headers::json_body(&parts.headers)?;
    let key = headers::idempotency_key(&parts.headers)?;
    let arrival = parts.extensions.get::<limits::Arrival>().cloned().unwrap_or_default();
    let body = limits::read(body, &arrival).await?;

    let request = Request::with_defaults(Draft::read(&body)?, &actor, &intake.terms)?;
    let digests = canonical::digests(intake.schedule.installation_secret(), actor.id, &request);
    let schedule = &intake.schedule;
    let answer = match request.judge(&intake.terms, now) {
        Ok(allowed) => {
            let traceparent = headers::trace_context(&parts);
            let secret = intake.schedule.installation_secret();
            let new = new_payment(secret, actor.id, key, request, allowed, digests, traceparent)?;
            schedule.create(&new).await.map_err(limits::trouble)?
        }
        Err(broken) if broken.only_now() => {
            let earlier = schedule.replay(actor.id, &key, &digests.request_hash, &digests.fields).await;
            match earlier.map_err(limits::trouble)? {
                Some(earlier) => earlier,
                None => {
                    let traceparent = headers::trace_context(&parts);
                    let lost = Posted { key, request, digests, traceparent };
                    lost.again(&intake, actor.id, broken).await?
                }
            }
        }
        Err(broken) => return Err(broken.problem()),
    };
    respond(&answer)
}

/// A request whose due time has passed and whose key made nothing that is left.
struct Posted {
    key: String,
    request: Request,
    digests: Digests,
    traceparent: Option<String>,
}

impl Posted {
    /// Rule R18: what a restore lost after it was charged is taken once more although its due time has passed, under
    /// the same id, so that its client gets it back; a claim finds the charge and parks it. Anything else is refused
    /// as it was.
    async fn again(self, intake: &Intake, actor: ActorId, broken: Broken) -> Result<CreateAnswer, Problem> {
        let secret = intake.schedule.installation_secret();
        let id = PaymentId::new(self.request.due_at, intent::intent(secret, actor, &self.key));
        let (Ok(id), true) = (id, broken.only_for_having_passed()) else { return Err(broken.problem()) };
        let lost = intake.schedule.lost_charges(&[id]).await.map_err(limits::trouble)?;
        match lost.get(&id) {
            None => Err(broken.problem()),
            Some(lost) if lost.charged_as != id => {
                Ok(CreateAnswer::ChargedBefore { payment: lost.charged_as })
            }
            Some(lost) if !lost.is_open => Err(broken.problem()),
            Some(_) => {
                let allowed = judged_in_time(&self.request, &intake.terms).map_err(Broken::problem)?;
                let Self { key, request, digests, traceparent } = self;
                let new = new_payment(secret, actor, key, request, allowed, digests, traceparent)?;
                intake.schedule.create(&new).await.map_err(limits::trouble)
            }
        }
    }
}

/// As it was judged when there was still time.
pub(super) fn judged_in_time(request: &Request, terms: &Terms) -> Result<Allowed, Broken> {
    request.judge(terms, request.due_at - TimeDelta::seconds(1))
}

pub(super) fn new_payment(
    secret: &[u8; 32],
    actor: ActorId,
    idempotency_key: String,
    request: Request,
    allowed: Allowed,
    digests: Digests,
    traceparent: Option<String>,
) -> Result<NewPayment, Problem> {
    let bits = intent::intent(secret, actor, &idempotency_key);
    // The rules allow nothing before 1970, and the horizon ends long before 48 bits of milliseconds.
    let id = PaymentId::new(request.due_at, bits)
        .map_err(|_| Problem::at(Code::InvalidTime, "/dueAt", "The time is out of range."))?;
    Ok(NewPayment {
        id,
        actor,
        idempotency_key,
        request_hash: digests.request_hash,
        field_digests: digests.fields,
        payee: request.payee,
        amount: allowed.amount,
        due_at: request.due_at,
        execute_before: request.execute_before,
        execute_within: allowed.execute_within,
        gateway: allowed.gateway,
        external_id: request.external_id,
        description: request.description,
        metadata: request.metadata,
        retry: allowed.retry,
        lane: intent::lane(actor),
        traceparent,
    })
}

/// The answer on the wire.
pub(super) fn respond(answer: &CreateAnswer) -> Result<Response, Problem> {
    let (view, how) = told(answer)?;
    let mut response = created(view);
    if how == How::Replayed {
        response.headers_mut().insert(headers::IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// How a payment that exists came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// By this request.
    Created,
    /// By an earlier one under the same key.
    Replayed,
}

/// What a client is told of a create, counted.
pub(super) fn told(answer: &CreateAnswer) -> Result<(&PaymentView, How), Problem> {
    match answer {
        CreateAnswer::Created(view) => {
            metrics::PAYMENTS_CREATED.add(1, []);
            metrics::PAYMENT_TRANSITIONS.add(1, [Status::Pending.as_str(), Cause::Created.as_str()]);
            Ok((view, How::Created))
        }
        CreateAnswer::Replayed(view) => {
            metrics::IDEMPOTENT_REPLAYS.add(1, ["replayed"]);
            Ok((view, How::Replayed))
        }
        CreateAnswer::KeyReused { payment, status, differs } => {
            metrics::IDEMPOTENT_REPLAYS.add(1, ["key_reused"]);
            let mut problem = Problem::new(Code::IdempotencyKeyReused).about(*payment, Some(*status));
            problem.differs = Some(differs.clone());
            Err(problem)
        }
        CreateAnswer::ExternalIdTaken { payment } => {
            let detail = "A live payment has this externalId.";
            Err(Problem::at(Code::ExternalIdConflict, "/externalId", detail).about(*payment, None))
        }
        CreateAnswer::DailyCapReached(DailyCap::Amount) => {
            Err(Problem::at(Code::DailyAmountReached, "/amount", Code::DailyAmountReached.doc()))
        }
        CreateAnswer::DailyCapReached(DailyCap::Payments) => Err(Problem::new(Code::DailyCountReached)),
        CreateAnswer::ChargedBefore { payment } => {
            Err(Problem::new(Code::ChargedBeforeRestore).about(*payment, None))
        }
        CreateAnswer::DayNotReady => Err(Problem::new(Code::ScheduleNotReady).retry_after(30)),
    }
}

fn created(view: &PaymentView) -> Response {
    let mut response = json(StatusCode::CREATED, wire::creation(view));
    response.extensions_mut().insert(About(view.payment.id));
    // A UUID after a fixed path: always a legal header value.
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/scheduled-payments/{}", view.payment.id)) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}
