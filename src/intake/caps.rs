//! `/v1/ops/actors/{name}/caps`: what an actor may create in one day, shown and set.
//!
//! Setting needs `admin` and a reason, and is written down with both. What the caps mean is in `schedule/caps.rs`;
//! a create that meets one is answered 422 by `create`.

use super::actor::Scope;
use super::openapi::{Answer, Operation, Parameter, Place};
use super::problem::{Code, Problem};
use super::read::IdInPath;
use super::wire::utc;
use super::{Intake, act, headers, json, limits};
use crate::domain::money::Currency;
use crate::schedule::{Cap, CapEntry};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::HeaderMap;
use axum::http::{Request, Response, StatusCode};
use serde::{Deserialize, Serialize};

/// The order is the order on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    actor: &'a str,
    caps: Vec<ShownCap<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownCap<'a> {
    currency: &'a str,
    amount: Option<i64>,
    payments: Option<i32>,
    amount_today: i64,
    payments_today: i32,
    set_at: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    reason: String,
    currency: String,
    #[serde(default, deserialize_with = "act::present")]
    amount: Option<i64>,
    #[serde(default, deserialize_with = "act::present")]
    payments: Option<i32>,
}

pub(super) const TOLD: &[Operation] = &[
    Operation {
        path: PATH,
        id: "showActorCaps",
        tag: "access",
        summary: "What an actor may create on one day",
        about: "With what was created today, by UTC, since each cap is there.",
        scope: Some(Scope::Operate),
        parameters: &[ACTOR_NAME],
        answers: &[Answer::ok("ActorCaps", "A cap for each currency that has one.")],
        refusals: &[Code::ActorNotFound],
        ..Operation::BARE
    },
    Operation {
        method: "put",
        path: PATH,
        id: "setActorCap",
        tag: "access",
        summary: "Set what an actor may create on one day",
        about: "Of one currency; without amount and payments the cap is taken away. What was created before the \
                first cap does not count.",
        scope: Some(Scope::Admin),
        parameters: &[ACTOR_NAME],
        body: Some("ActorCap"),
        answers: &[Answer::ok("ActorCaps", "The caps as they are now.")],
        refusals: &[Code::ActorNotFound, Code::UnsupportedCurrency, Code::OutOfRange],
    },
];

const PATH: &str = "/v1/ops/actors/{name}/caps";

const ACTOR_NAME: Parameter = Parameter {
    place: Place::Path,
    name: "name",
    schema: r#"{"type":"string","minLength":1,"maxLength":100}"#,
    about: "The actor's name.",
};

pub(super) async fn get(
    State(intake): State<Intake>,
    path: IdInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    intake.authorise(&headers, Scope::Operate).await?;
    headers::accepts_json(&headers)?;
    show(&intake, &name(path)?).await
}

pub(super) async fn put(
    State(intake): State<Intake>,
    path: IdInPath,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let (parts, body) = request.into_parts();
    let caller = intake.authorise(&parts.headers, Scope::Admin).await?;
    headers::accepts_json(&parts.headers)?;
    headers::json_body(&parts.headers)?;
    let wanted: Wanted = act::read(body, &parts).await?;
    let name = name(path)?;
    let by = act::by(&caller, &wanted.reason)?;
    let currency = Currency::from_code(&wanted.currency).ok_or_else(|| {
        Problem::at(Code::UnsupportedCurrency, "/currency", "Not an upper-case ISO 4217 code.")
    })?;
    let negative = |at| Err(Problem::at(Code::OutOfRange, at, "A cap is 0 or more; leave it out for none."));
    if wanted.amount.is_some_and(|most| most < 0) {
        return negative("/amount");
    }
    if wanted.payments.is_some_and(|most| most < 0) {
        return negative("/payments");
    }
    let cap = Cap { currency, amount_minor: wanted.amount, payments: wanted.payments };
    if intake.schedule.set_actor_cap(&name, cap, by).await.map_err(limits::trouble)? {
        show(&intake, &name).await
    } else {
        Err(Problem::new(Code::ActorNotFound))
    }
}

async fn show(intake: &Intake, name: &str) -> Result<Response<Body>, Problem> {
    let found = intake.schedule.actor_caps(name).await.map_err(limits::trouble)?;
    let found = found.ok_or_else(|| Problem::new(Code::ActorNotFound))?;
    let shown = Shown { actor: name, caps: found.iter().map(shown).collect() };
    // Texts and numbers: it cannot fail to be written.
    Ok(json(StatusCode::OK, serde_json::to_vec(&shown).unwrap_or_default()))
}

fn shown(entry: &CapEntry) -> ShownCap<'_> {
    ShownCap {
        currency: entry.cap.currency.as_str(),
        amount: entry.cap.amount_minor,
        payments: entry.cap.payments,
        amount_today: entry.used_minor,
        payments_today: entry.used_payments,
        set_at: utc(entry.set_at),
    }
}

/// The name in a path; what is no line of text names nobody.
fn name(path: IdInPath) -> Result<String, Problem> {
    let named = path.ok().map(|Path(name)| name).filter(|name| !name.chars().any(char::is_control));
    named.ok_or_else(|| Problem::new(Code::ActorNotFound))
}
