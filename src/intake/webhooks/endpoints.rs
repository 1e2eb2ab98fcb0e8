//! Endpoints: made, listed, shown, changed, rotated, switched off and on, tested, deleted.
//!
//! Bodies are read as strictly as those of operators (`act.rs`): an unknown field is refused, because a misspelt
//! `eventTypes` would otherwise ask for everything. If this dies, an act is done or it is not; see `webhooks`.

use super::{endpoint_id, url};
use crate::domain::event_type::EventType;
use crate::domain::webhook::{MOST_CONCURRENCY, USUAL_CONCURRENCY, WebhookSecret};
use crate::intake::actor::{Caller, Scope};
use crate::intake::api_keys::LONGEST_OVERLAP;
use crate::intake::card::holds_card_number;
use crate::intake::problem::{Code, Problem};
use crate::intake::read::IdInPath;
use crate::intake::wire::utc;
use crate::intake::{Intake, act, headers, json, limits};
use crate::platform::dice::Dice;
use crate::schedule::{
    EndpointAnswer, EndpointChange, EndpointLine, EndpointSwitch, NewWebhookEndpoint, SecretRotated,
    TestAsked, WebhookEndpoint,
};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, HeaderMap, HeaderValue, LOCATION};
use axum::http::{Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// Most characters of a description.
const LONGEST_DESCRIPTION: usize = 500;
/// Most types that a request names; there are fewer, so the rest would be repetitions.
const MOST_TYPES: usize = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    url: String,
    #[serde(default, deserialize_with = "act::present")]
    description: Option<String>,
    #[serde(default, deserialize_with = "act::present")]
    event_types: Option<Vec<String>>,
    #[serde(default, deserialize_with = "act::present")]
    max_concurrency: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Change {
    #[serde(default, deserialize_with = "act::present")]
    version: Option<i32>,
    #[serde(default, deserialize_with = "act::present")]
    url: Option<String>,
    #[serde(default, deserialize_with = "act::present")]
    description: Option<String>,
    #[serde(default, deserialize_with = "act::present")]
    event_types: Option<Vec<String>>,
    #[serde(default, deserialize_with = "act::present")]
    max_concurrency: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rotation {
    #[serde(default, deserialize_with = "act::present")]
    overlap_seconds: Option<u64>,
}

/// An endpoint on the wire. The order is the order there.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    endpoint_id: Uuid,
    url: &'a str,
    description: &'a str,
    event_types: &'a [String],
    max_concurrency: i16,
    disabled_at: Option<String>,
    disabled_reason: Option<&'static str>,
    owed_until: Option<String>,
    skipped_events: i64,
    failing_since: Option<String>,
    last_success_at: Option<String>,
    resting_until: Option<String>,
    previous_secret_until: Option<String>,
    created_at: String,
    changed_at: String,
    version: i32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithSecret<'a> {
    #[serde(flatten)]
    endpoint: Shown<'a>,
    secret: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithActs<'a> {
    #[serde(flatten)]
    endpoint: Shown<'a>,
    acts: Vec<ShownAct<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownAct<'a> {
    version: i32,
    at: String,
    act: &'static str,
    by: &'a str,
    detail: &'a serde_json::Value,
}

#[derive(Serialize)]
struct All<'a> {
    data: Vec<Shown<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Queued {
    event_id: String,
    event_type: &'static str,
    event_at: String,
}

pub(in crate::intake) async fn get(
    State(intake): State<Intake>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = intake.look(&headers, Scope::Read).await?;
    let found = intake.schedule.webhook_endpoints(caller.actor.id).await.map_err(limits::trouble)?;
    Ok(written(StatusCode::OK, &All { data: found.iter().map(shown).collect() }))
}

pub(in crate::intake) async fn create(
    State(intake): State<Intake>,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let (caller, wanted): (_, Wanted) = asked(&intake, request).await?;
    let secret = fresh_secret(&*intake.dice);
    let id = intake.fresh_id();
    let new = NewWebhookEndpoint {
        id,
        actor: caller.actor.id,
        url: url::judge(&wanted.url, &intake.hooks.allow)?,
        description: description(wanted.description.unwrap_or_default())?,
        event_types: event_types(&wanted.event_types.unwrap_or_default())?,
        max_concurrency: concurrency(wanted.max_concurrency)?.unwrap_or(USUAL_CONCURRENCY),
        secret: secret.clone(),
        most: intake.hooks.most_endpoints,
        by: caller.operator.clone(),
    };
    done(intake.schedule.make_webhook_endpoint(new).await.map_err(limits::trouble)?)?;
    let made = intake.schedule.webhook_endpoint(caller.actor.id, id).await.map_err(limits::trouble)?;
    // Somebody saw it in the list and deleted it at once.
    let (made, _) = made.ok_or_else(|| Problem::new(Code::WebhookEndpointChanged))?;
    let told = WithSecret { endpoint: shown(&made), secret: secret.text() };
    let mut response = written(StatusCode::CREATED, &told);
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/webhook-endpoints/{id}")) {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(unstored(response))
}

pub(in crate::intake) async fn show(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = intake.look(&headers, Scope::Read).await?;
    standing(&intake, &caller, id_of(path)?).await
}

pub(in crate::intake) async fn change(
    State(intake): State<Intake>,
    path: IdInPath,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let (caller, asked): (_, Change) = asked(&intake, request).await?;
    let id = id_of(path)?;
    let change = EndpointChange {
        seen: asked.version,
        url: asked.url.map(|text| url::judge(&text, &intake.hooks.allow)).transpose()?,
        description: asked.description.map(description).transpose()?,
        event_types: asked.event_types.map(|types| event_types(&types)).transpose()?,
        max_concurrency: concurrency(asked.max_concurrency)?,
    };
    let by = caller.operator.clone();
    let changed = intake.schedule.change_webhook_endpoint(caller.actor.id, id, change, by).await;
    done(changed.map_err(limits::trouble)?)?;
    standing(&intake, &caller, id).await
}

pub(in crate::intake) async fn rotate(
    State(intake): State<Intake>,
    path: IdInPath,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let (caller, asked): (_, Rotation) = asked(&intake, request).await?;
    let id = id_of(path)?;
    let overlap = asked.overlap_seconds.map_or(intake.hooks.overlap, Duration::from_secs);
    if overlap > LONGEST_OVERLAP {
        let why = "overlapSeconds is at most 2592000, 30 days.";
        return Err(Problem::at(Code::OutOfRange, "/overlapSeconds", why));
    }
    let secret = fresh_secret(&*intake.dice);
    let (actor, by) = (caller.actor.id, caller.operator.clone());
    let rotated = intake.schedule.rotate_webhook_secret(actor, id, secret.clone(), overlap, by).await;
    match rotated.map_err(limits::trouble)? {
        SecretRotated::Rotated(_) => {
            let (now, _) = found(&intake, &caller, id).await?;
            let told = WithSecret { endpoint: shown(&now), secret: secret.text() };
            Ok(unstored(written(StatusCode::CREATED, &told)))
        }
        SecretRotated::Rotating(until) => {
            let why = format!("The secret before the present one signs until {}.", utc(until));
            Err(Problem::new(Code::WebhookSecretRotating).detail(why))
        }
        SecretRotated::NotFound => Err(Problem::new(Code::WebhookEndpointNotFound)),
    }
}

pub(in crate::intake) async fn disable(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    switch(&intake, path, &headers, EndpointSwitch::Off).await
}

pub(in crate::intake) async fn enable(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    switch(&intake, path, &headers, EndpointSwitch::On).await
}

async fn switch(
    intake: &Intake,
    path: IdInPath,
    headers: &HeaderMap,
    to: EndpointSwitch,
) -> Result<Response<Body>, Problem> {
    let caller = intake.look(headers, Scope::Write).await?;
    let id = id_of(path)?;
    let by = caller.operator.clone();
    let switched = intake.schedule.switch_webhook_endpoint(caller.actor.id, id, to, by).await;
    done(switched.map_err(limits::trouble)?)?;
    standing(intake, &caller, id).await
}

pub(in crate::intake) async fn delete(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = intake.look(&headers, Scope::Write).await?;
    let id = id_of(path)?;
    let by = caller.operator.clone();
    let deleted = intake.schedule.delete_webhook_endpoint(caller.actor.id, id, by).await;
    done(deleted.map_err(limits::trouble)?)?;
    Ok(written(StatusCode::OK, &serde_json::json!({"endpointId": id, "deleted": true})))
}

pub(in crate::intake) async fn test(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = intake.look(&headers, Scope::Write).await?;
    let id = id_of(path)?;
    let asked = intake.schedule.send_webhook_test(caller.actor.id, id, intake.fresh_id()).await;
    match asked.map_err(limits::trouble)? {
        TestAsked::Queued(test, at) => {
            let queued = Queued {
                event_id: format!("{test}/0"),
                event_type: crate::domain::webhook::TEST_TYPE,
                event_at: utc(at),
            };
            Ok(written(StatusCode::ACCEPTED, &queued))
        }
        TestAsked::NotFound => Err(Problem::new(Code::WebhookEndpointNotFound)),
        TestAsked::Disabled => Err(Problem::new(Code::WebhookEndpointDisabled)),
        TestAsked::TooMany => Err(Problem::new(Code::WebhookTestsWaiting)),
    }
}

/// Who acts, and what they sent.
pub(super) async fn asked<T: serde::de::DeserializeOwned>(
    intake: &Intake,
    request: Request<Body>,
) -> Result<(Caller, T), Problem> {
    let (parts, body) = request.into_parts();
    let caller = intake.authorise(&parts.headers, Scope::Write).await?;
    headers::accepts_json(&parts.headers)?;
    headers::json_body(&parts.headers)?;
    Ok((caller, act::read(body, &parts).await?))
}

fn id_of(path: IdInPath) -> Result<Uuid, Problem> {
    endpoint_id(&path.map(|Path(text)| text).unwrap_or_default())
}

/// 32 bytes that nobody can guess.
fn fresh_secret(dice: &dyn Dice) -> WebhookSecret {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&dice.bits().to_be_bytes());
    bytes[16..].copy_from_slice(&dice.bits().to_be_bytes());
    WebhookSecret::new(bytes)
}

fn description(text: String) -> Result<String, Problem> {
    let refused = |code: Code, why: &'static str| Err(Problem::at(code, "/description", why));
    if text.chars().count() > LONGEST_DESCRIPTION {
        return refused(Code::TooLong, "description has at most 500 characters.");
    }
    if text.chars().any(char::is_control) {
        return refused(
            Code::InvalidCharacter,
            "description holds no control characters, such as line breaks.",
        );
    }
    if holds_card_number(&text) {
        return refused(Code::RawCardNumber, "Digits that may be a card number.");
    }
    Ok(text)
}

/// Known ones, each once, in the order of the table.
fn event_types(asked: &[String]) -> Result<Vec<String>, Problem> {
    if asked.len() > MOST_TYPES {
        return Err(Problem::at(Code::TooLong, "/eventTypes", "eventTypes names each type once."));
    }
    let known = |text: &String| EventType::ALL.iter().any(|it| it.as_str() == text);
    if let Some(at) = asked.iter().position(|text| !known(text)) {
        let all: Vec<&str> = EventType::ALL.iter().map(|it| it.as_str()).collect();
        let why = format!("One of {}.", all.join(", "));
        return Err(Problem::at(Code::UnknownEventType, format!("/eventTypes/{at}"), why));
    }
    let wanted = EventType::ALL.iter().filter(|it| asked.iter().any(|text| text == it.as_str()));
    Ok(wanted.map(|it| it.as_str().to_owned()).collect())
}

fn concurrency(asked: Option<i64>) -> Result<Option<i16>, Problem> {
    let fits = |asked: i64| i16::try_from(asked).ok().filter(|it| (1..=MOST_CONCURRENCY).contains(it));
    let refused = || Problem::at(Code::OutOfRange, "/maxConcurrency", "maxConcurrency is 1 to 100.");
    asked.map(|asked| fits(asked).ok_or_else(refused)).transpose()
}

/// Goes on where the act is done, now or before.
fn done(answer: EndpointAnswer) -> Result<(), Problem> {
    match answer {
        EndpointAnswer::Done | EndpointAnswer::Before => Ok(()),
        EndpointAnswer::NotFound => Err(Problem::new(Code::WebhookEndpointNotFound)),
        EndpointAnswer::UrlTaken => Err(Problem::new(Code::WebhookUrlTaken)),
        EndpointAnswer::TooMany => Err(Problem::new(Code::TooManyWebhookEndpoints)),
        EndpointAnswer::ChangedSince => Err(Problem::new(Code::WebhookEndpointChanged)),
    }
}

async fn found(
    intake: &Intake,
    caller: &Caller,
    id: Uuid,
) -> Result<(WebhookEndpoint, Vec<EndpointLine>), Problem> {
    let found = intake.schedule.webhook_endpoint(caller.actor.id, id).await.map_err(limits::trouble)?;
    found.ok_or_else(|| Problem::new(Code::WebhookEndpointNotFound))
}

/// The endpoint as it is now, with what was done to it.
async fn standing(intake: &Intake, caller: &Caller, id: Uuid) -> Result<Response<Body>, Problem> {
    let (endpoint, lines) = found(intake, caller, id).await?;
    let told = WithActs { endpoint: shown(&endpoint), acts: lines.iter().map(shown_act).collect() };
    Ok(written(StatusCode::OK, &told))
}

fn shown_act(line: &EndpointLine) -> ShownAct<'_> {
    ShownAct {
        version: line.version,
        at: utc(line.at),
        act: line.act.as_str(),
        by: &line.done_by,
        detail: &line.detail,
    }
}

fn shown(endpoint: &WebhookEndpoint) -> Shown<'_> {
    Shown {
        endpoint_id: endpoint.id,
        url: &endpoint.url,
        description: &endpoint.description,
        event_types: &endpoint.event_types,
        max_concurrency: endpoint.max_concurrency,
        disabled_at: endpoint.disabled.map(|(at, _)| utc(at)),
        disabled_reason: endpoint.disabled.map(|(_, why)| why.as_str()),
        owed_until: endpoint.owed_until.map(utc),
        skipped_events: endpoint.skipped,
        failing_since: endpoint.failing_since.map(utc),
        last_success_at: endpoint.last_success_at.map(utc),
        resting_until: endpoint.hold_until.map(utc),
        previous_secret_until: endpoint.previous_secret_until.map(utc),
        created_at: utc(endpoint.created_at),
        changed_at: utc(endpoint.changed_at),
        version: endpoint.version,
    }
}

/// With a secret in it: for nobody's cache.
fn unstored(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) fn written(status: StatusCode, told: &impl Serialize) -> Response<Body> {
    // Texts, ids and lists: it cannot fail to be written.
    json(status, serde_json::to_vec(told).unwrap_or_default())
}
