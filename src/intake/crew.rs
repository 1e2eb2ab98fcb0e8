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
use crate::platform::clock::Clock;
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
    // What is left of the request's time is for saying so.
    let patience = intake.request_timeout * 3 / 4;
    looked(ring.as_ref(), &intake.surveyed, intake.clock.as_ref(), patience).await.map(fresh).ok_or_else(away)
}

/// The ring as it was seen a moment ago, or as it is; nothing if Kafka says nothing for so long, as a frozen broker
/// does.
async fn looked(
    ring: &dyn Survey,
    surveyed: &Surveyed,
    clock: &dyn Clock,
    patience: Duration,
) -> Option<Vec<u8>> {
    let look = async {
        // Whoever waits here finds the answer of the one before.
        let mut last = surveyed.lock().await;
        let now = clock.mono();
        if let Some((asked_at, body)) = last.as_ref()
            && now.0.saturating_sub(asked_at.0) < KEPT
        {
            return Some(body.clone());
        }
        let unseen = |error: &String| tracing::warn!(error, "the ring could not be looked at");
        let data = ring.buckets().await.inspect_err(unseen).ok()?;
        let body = value!({"data": data}).to_string().into_bytes();
        *last = Some((now, body.clone()));
        Some(body)
    };
    tokio::select! {
        biased;
        seen = look => seen,
        () = clock.sleep(patience) => None,
    }
}

fn fresh(body: Vec<u8>) -> Response<Body> {
    let mut response = json(StatusCode::OK, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::clock::Host;
    use futures_util::FutureExt;

    struct Frozen;
    impl Survey for Frozen {
        fn buckets(&self) -> BoxFuture<'_, Result<Value, String>> {
            std::future::pending().boxed()
        }
    }

    struct Prompt;
    impl Survey for Prompt {
        fn buckets(&self) -> BoxFuture<'_, Result<Value, String>> {
            std::future::ready(Ok(value!([1]))).boxed()
        }
    }

    #[tokio::test]
    async fn a_ring_that_says_nothing_is_told_of_in_time_whoever_waits_for_the_other() {
        let surveyed = Surveyed::default();
        let look = || looked(&Frozen, &surveyed, &Host, Duration::from_millis(50));
        assert_eq!(futures_util::join!(look(), look()), (None, None));
        let seen = looked(&Prompt, &surveyed, &Host, Duration::from_secs(60)).await;
        assert_eq!(seen.as_deref(), Some(&br#"{"data":[1]}"#[..]), "the lock is free again");
        let kept = looked(&Frozen, &surveyed, &Host, Duration::from_secs(60)).await;
        assert_eq!(kept, seen, "it is not asked again so soon");
    }
}
