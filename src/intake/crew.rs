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
use crate::platform::clock::SharedClock;
use crate::schedule::Crew;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use futures_util::future::BoxFuture;
use serde_json::{Value, json as value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How old an answer about the ring may be.
const KEPT: Duration = Duration::from_secs(10);
/// Longest look: who looks holds the lock, and a database whose host is gone may never answer.
const LONGEST: Duration = Duration::from_secs(60);

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
    looked(ring, &intake.surveyed, &intake.clock, patience, LONGEST).await.map(fresh).ok_or_else(away)
}

/// The ring as it was seen a moment ago, or as it is; nothing if Kafka says nothing for so long, as a frozen broker
/// does.
async fn looked(
    ring: &Arc<dyn Survey>,
    surveyed: &Arc<Surveyed>,
    clock: &SharedClock,
    patience: Duration,
    longest: Duration,
) -> Option<Vec<u8>> {
    let look = async {
        // Whoever waits here finds the answer of the one before.
        let mut last = Arc::clone(surveyed).lock_owned().await;
        let now = clock.mono();
        if let Some((asked_at, body)) = last.as_ref()
            && now.0.saturating_sub(asked_at.0) < KEPT
        {
            return Some(body.clone());
        }
        let (ring, clock) = (Arc::clone(ring), Arc::clone(clock));
        // With the lock in a task of its own: a look blocks a thread for longer than who asked for it has patience,
        // and the next one must not begin beside it.
        let seen = tokio::spawn(async move {
            let unseen = |error: &String| tracing::warn!(error, "the ring could not be looked at");
            let data = tokio::select! {
                biased;
                data = ring.buckets() => data,
                () = clock.sleep(longest) => Err(format!("nothing was answered within {longest:?}")),
            };
            let data = data.inspect_err(unseen).ok()?;
            let body = value!({"data": data}).to_string().into_bytes();
            *last = Some((now, body.clone()));
            Some(body)
        });
        seen.await.ok().flatten()
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    #[derive(Default)]
    struct Slow {
        asked: AtomicUsize,
        answers: Notify,
    }

    impl Survey for Slow {
        fn buckets(&self) -> BoxFuture<'_, Result<Value, String>> {
            async move {
                self.asked.fetch_add(1, Ordering::Relaxed);
                self.answers.notified().await;
                Ok(value!([1]))
            }
            .boxed()
        }
    }

    #[tokio::test]
    async fn a_ring_that_says_nothing_is_looked_at_once_however_many_have_no_patience_left() {
        let (surveyed, clock): (Arc<Surveyed>, SharedClock) = (Arc::default(), Arc::new(Host));
        let slow = Arc::new(Slow::default());
        let ring: Arc<dyn Survey> = slow.clone();
        let look = || looked(&ring, &surveyed, &clock, Duration::from_millis(50), LONGEST);
        assert_eq!(futures_util::join!(look(), look()), (None, None));
        assert_eq!(look().await, None);
        assert_eq!(slow.asked.load(Ordering::Relaxed), 1);
        slow.answers.notify_one();
        let seen = looked(&ring, &surveyed, &clock, Duration::from_secs(60), LONGEST).await;
        assert_eq!(seen.as_deref(), Some(&br#"{"data":[1]}"#[..]), "the lock is free again");
        let kept = looked(&ring, &surveyed, &clock, Duration::from_secs(60), LONGEST).await;
        assert_eq!((kept, slow.asked.load(Ordering::Relaxed)), (seen, 1), "it is not asked again so soon");
    }

    #[tokio::test]
    async fn a_look_that_would_never_end_keeps_nobody_from_the_next_one() {
        let (surveyed, clock): (Arc<Surveyed>, SharedClock) = (Arc::default(), Arc::new(Host));
        let slow = Arc::new(Slow::default());
        let ring: Arc<dyn Survey> = slow.clone();
        for asked in 1..=2 {
            let (patience, longest) = (Duration::from_secs(60), Duration::from_millis(20));
            assert_eq!(looked(&ring, &surveyed, &clock, patience, longest).await, None);
            assert_eq!(slow.asked.load(Ordering::Relaxed), asked);
        }
    }
}
