//! `GET /v1/ops/overview`: the last hour minute by minute, and what waits now.
//!
//! It needs `ops:read`. What was read is kept for [`KEPT`] and only one request reads, however many screens show it.

use super::actor::Scope;
use super::openapi::{Answer, Operation};
use super::problem::Problem;
use super::wire::utc;
use super::{Intake, headers, json, limits};
use crate::domain::lateness::{Late, percentile};
use crate::domain::lease::Mono;
use crate::schedule::{Hour, Minute, Pulse};
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use serde_json::{Value, json as value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How old an answer may be: a screen that is drawn anew each second is never told the same for long.
const KEPT: Duration = Duration::from_millis(900);

/// What was read last, with the instant at which it was asked for.
pub(super) type Read = Mutex<Option<(Mono, Arc<Pulse>)>>;

pub(super) const TOLD: &[Operation] = &[Operation {
    path: "/v1/ops/overview",
    id: "overview",
    tag: "operations",
    summary: "The last hour, and what waits",
    scope: Some(Scope::Operate),
    answers: &[Answer::ok("Overview", "The minutes as a keeper added them up, what waits as it is now.")],
    ..Operation::BARE
}];

pub(super) async fn get(State(intake): State<Intake>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    intake.authorise(&headers, Scope::Operate).await?;
    headers::accepts_json(&headers)?;
    let pulse = intake.pulse().await?;
    let mut response = json(StatusCode::OK, shown(&pulse).to_string().into_bytes());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

impl Intake {
    /// The last hour and what waits, as it was a moment ago or is.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn pulse(&self) -> Result<Arc<Pulse>, Problem> {
        // Whoever waits here finds the answer of the one before.
        let mut last = self.pulse.lock().await;
        let now = self.clock.mono();
        if let Some((asked_at, pulse)) = last.as_ref()
            && now.0.saturating_sub(asked_at.0) < KEPT
        {
            return Ok(Arc::clone(pulse));
        }
        let pulse = Arc::new(self.schedule.pulse().await.map_err(limits::trouble)?);
        *last = Some((now, Arc::clone(&pulse)));
        Ok(pulse)
    }
}

fn shown(pulse: &Pulse) -> Value {
    let (waiting, open) = (&pulse.waiting, &pulse.waiting.open);
    let oldest = waiting
        .oldest_due
        .iter()
        .map(|(gateway, overdue)| value!({"gateway": gateway.0, "oldestDueSeconds": overdue.as_secs()}));
    value!({
        "takenAt": utc(pulse.taken_at),
        "hour": hour(&Hour::of(&pulse.minutes)),
        "minutes": pulse.minutes.iter().map(minute).collect::<Vec<_>>(),
        "waiting": {
            "due": open.due,
            "processing": open.processing,
            "unknown": open.unknown,
            "parked": open.parked,
            "unpublished": waiting.unpublished_due,
            "oldestUnknownSeconds": open.oldest_unknown.as_secs(),
            "leaseOverdueSeconds": open.lease_overdue.as_secs(),
            "gateways": oldest.collect::<Vec<_>>(),
        },
    })
}

fn hour(of: &Hour) -> Value {
    value!({
        "completed": of.completed,
        "failed": of.failed,
        "cancelled": of.cancelled,
        "parked": of.parked,
        "unknown": of.unknown,
        "retried": of.retried,
        "latenessP50": late(of.percentile(500)),
        "latenessP99": late(of.percentile(990)),
        "laterThan60s": of.broken(),
    })
}

fn minute(of: &Minute) -> Value {
    value!({
        "from": utc(of.from),
        "due": of.due,
        "claimed": of.claimed,
        "completed": of.completed,
        "failed": of.failed,
        "cancelled": of.cancelled,
        "parked": of.parked,
        "unknown": of.unknown,
        "retried": of.retried,
        "latenessP50": late(percentile(&of.late, 500)),
        "latenessP99": late(percentile(&of.late, 990)),
    })
}

fn late(of: Option<Late>) -> Value {
    match of {
        None => Value::Null,
        Some(Late::Below(ms)) => value!({"belowMs": ms}),
        Some(Late::Beyond(ms)) => value!({"beyondMs": ms}),
    }
}
