//! `GET /v1/ops/workers` and `GET /v1/ops/buckets`: who is at work, and what lies in the ring.
//!
//! Both need `ops:read`. The ring is looked at through [`Survey`], since this stage knows no Kafka; the answer is
//! kept for [`KEPT`] and only one request looks at a time, however many screens show it.

use super::actor::Scope;
use super::openapi::{Answer, Operation};
use super::problem::{Code, Problem};
use super::wire::utc;
use super::{Intake, headers, json, limits};
use crate::domain::lease::Mono;
use crate::schedule::Crew;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use futures_util::future::BoxFuture;
use serde_json::{Value, json as value};
use std::time::Duration;
use tokio::sync::Mutex;

/// How old an answer about the ring may be.
const KEPT: Duration = Duration::from_secs(10);

/// What looks into the ring.
pub trait Survey: Send + Sync {
    /// Every minute from now on, each an object, as `punctual bucket list -o json` prints them.
    ///
    /// # Errors
    /// Kafka or the database does not answer; for the log.
    fn buckets(&self) -> BoxFuture<'_, Result<Value, String>>;
}

/// The ring's last answer, with the instant at which it was asked.
pub(super) type Surveyed = Mutex<Option<(Mono, Vec<u8>)>>;

pub(super) const TOLD: &[Operation] = &[
    Operation {
        path: "/v1/ops/workers",
        id: "listWorkers",
        tag: "operations",
        summary: "Who is at work",
        scope: Some(Scope::Operate),
        answers: &[Answer::ok(
            "Workers",
            "Workers with their claims, relays with their shards, the publisher.",
        )],
        ..Operation::BARE
    },
    Operation {
        path: "/v1/ops/buckets",
        id: "listBuckets",
        tag: "operations",
        summary: "The ring, minute by minute",
        scope: Some(Scope::Operate),
        answers: &[Answer::ok("Buckets", "Looked at no more than 10 seconds ago.")],
        refusals: &[Code::RingUnavailable],
        ..Operation::BARE
    },
];

pub(super) async fn workers(
    State(intake): State<Intake>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    intake.authorise(&headers, Scope::Operate).await?;
    headers::accepts_json(&headers)?;
    let crew = intake.schedule.crew().await.map_err(limits::trouble)?;
    Ok(fresh(shown(&crew).to_string().into_bytes()))
}

fn shown(crew: &Crew) -> Value {
    let workers = crew.workers.iter().map(|it| {
        value!({"worker": it.worker, "gateway": it.gateway, "claims": it.claims,
            "oldestClaimAt": it.oldest_claim_at.map(utc), "heardAt": it.heard_at.map(utc),
            "demand": it.demand, "slots": it.slots})
    });
    let relays = crew.relays.iter().map(|it| {
        value!({"relay": it.holder, "partitions": it.partitions, "shards": it.residues,
            "since": utc(it.since), "until": utc(it.until)})
    });
    let publishers = crew
        .publishers
        .iter()
        .map(|it| value!({"publisher": it.holder, "epoch": it.epoch, "until": utc(it.until)}));
    value!({"takenAt": utc(crew.taken_at), "workers": workers.collect::<Vec<_>>(),
        "relays": relays.collect::<Vec<_>>(), "publishers": publishers.collect::<Vec<_>>()})
}

pub(super) async fn buckets(
    State(intake): State<Intake>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    intake.authorise(&headers, Scope::Operate).await?;
    headers::accepts_json(&headers)?;
    let away = || Problem::new(Code::RingUnavailable).retry_after(10);
    let ring = intake.ring.as_ref().ok_or_else(away)?;
    // Whoever waits here finds the answer of the one before.
    let mut last = intake.surveyed.lock().await;
    let now = intake.clock.mono();
    if let Some((asked_at, body)) = last.as_ref()
        && now.0.saturating_sub(asked_at.0) < KEPT
    {
        return Ok(fresh(body.clone()));
    }
    let data = ring.buckets().await.map_err(|error| {
        tracing::warn!(error, "the ring could not be looked at");
        away()
    })?;
    let body = value!({"data": data}).to_string().into_bytes();
    *last = Some((now, body.clone()));
    Ok(fresh(body))
}

fn fresh(body: Vec<u8>) -> Response<Body> {
    let mut response = json(StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}
