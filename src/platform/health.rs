//! Where a process can be looked at: `/livez`, `/readyz`, `/metrics`.
//!
//! `/livez` asks nobody: a process whose database is away must not be restarted for it. `/readyz`
//! names the dependency that fails, in fixed words without addresses. A gateway outage makes no
//! worker unready: its rows wait in the schedule, and a restart would not help. It is a *note* there.
//! All of it is served from a process's first moment, before it has found what it works with ([`Served`]).
//!
//! The REST interface mounts [`routes`] beside its own; every other role serves them with
//! [`serve`]. If this dies, the process runs on unseen, so [`serve`] returns its error to whoever
//! started it.

use super::metrics::Exposition;
use super::shutdown::Shutdown;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;

/// A check that has not answered by then counts as failed; orchestrators wait a little longer.
const PATIENCE: Duration = Duration::from_secs(2);

type Note = Arc<dyn Fn() -> Option<String> + Send + Sync>;
type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The named checks of one process.
#[derive(Clone)]
pub struct Readiness {
    checks: Vec<(&'static str, Check)>,
    notes: Vec<(&'static str, Note)>,
    shutdown: Shutdown,
    patience: Duration,
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|(name, _)| name)).finish()
    }
}

impl Readiness {
    /// Without checks: ready until shutdown is asked for, so that a draining process gets no work.
    #[must_use]
    pub fn new(shutdown: Shutdown) -> Self {
        Self { checks: Vec::new(), notes: Vec::new(), shutdown, patience: PATIENCE }
    }

    /// Adds a check, asked at each request and given 2 s. The error is answered to anybody who asks:
    /// a few fixed words, no addresses.
    #[must_use]
    pub fn with<F>(mut self, name: &'static str, check: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.checks.push((name, Arc::new(move || Box::pin(check()))));
        self
    }

    /// Adds what people should see and no orchestrator act on, while there is something to say; fixed words
    /// too.
    #[must_use]
    pub fn noting(
        mut self,
        name: &'static str,
        note: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.notes.push((name, Arc::new(note)));
        self
    }

    /// Asks every check at once: the name and what is wrong, or `ok`.
    pub async fn ask(&self) -> Ready {
        let asked = self.checks.iter().map(|(name, check)| async move {
            let answer = tokio::time::timeout(self.patience, check()).await;
            let failure = answer.unwrap_or_else(|_| Err("no answer in time".to_owned())).err();
            (*name, failure)
        });
        let mut failures: BTreeMap<&'static str, Option<String>> =
            futures_util::future::join_all(asked).await.into_iter().collect();
        if self.shutdown.is_asked() {
            failures.insert("shutdown", Some("draining".to_owned()));
        }
        let notes = self.notes.iter().filter_map(|(name, note)| Some((*name, note()?))).collect();
        Ready { failures, notes }
    }
}

/// What is served of a process from its first moment: alive, and not ready before its checks are there.
#[derive(Debug, Clone)]
pub struct Served {
    checks: Arc<OnceLock<Readiness>>,
}

impl Served {
    /// Of a process that has just begun.
    #[must_use]
    pub fn starting() -> Self {
        Self { checks: Arc::default() }
    }

    /// From now on these checks say whether it is ready; the first that are given stay.
    pub fn started(&self, checks: Readiness) {
        self.checks.get_or_init(|| checks);
    }

    async fn ask(&self) -> Ready {
        match self.checks.get() {
            Some(checks) => checks.ask().await,
            None => Ready {
                failures: BTreeMap::from([(
                    "start",
                    Some("not finished; the log says what it waits for".to_owned()),
                )]),
                notes: BTreeMap::new(),
            },
        }
    }
}

impl From<Readiness> for Served {
    fn from(checks: Readiness) -> Self {
        Self { checks: Arc::new(OnceLock::from(checks)) }
    }
}

/// What the checks answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    failures: BTreeMap<&'static str, Option<String>>,
    notes: BTreeMap<&'static str, String>,
}

impl Ready {
    /// Every check is well.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.failures.values().all(Option::is_none)
    }
}

impl IntoResponse for Ready {
    fn into_response(self) -> Response {
        let ready = self.is_ready();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let checks: BTreeMap<&str, &str> =
            self.failures.iter().map(|(name, failure)| (*name, failure.as_deref().unwrap_or("ok"))).collect();
        let mut answer = serde_json::json!({"ready": ready, "checks": checks});
        if !self.notes.is_empty() {
            answer["notes"] = serde_json::json!(self.notes);
        }
        (status, [(header::CACHE_CONTROL, "no-store")], axum::Json(answer)).into_response()
    }
}

/// The three routes.
pub fn routes(served: impl Into<Served>, exposition: Exposition) -> Router {
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(|State(served): State<Served>| async move { served.ask().await }))
        .with_state(served.into())
        .route("/metrics", get(metrics_text).with_state(exposition))
}

async fn metrics_text(State(exposition): State<Exposition>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, exposition.render()).into_response()
}

/// Serves the three routes until shutdown.
///
/// # Errors
/// The socket broke.
pub async fn serve(listener: TcpListener, routes: Router, shutdown: Shutdown) -> std::io::Result<()> {
    axum::serve(listener, routes).with_graceful_shutdown(async move { shutdown.wait().await }).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn answer(routes: Router, path: &str) -> (StatusCode, String) {
        let response = routes.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn exposition() -> Exposition {
        let recorder = super::super::metrics::recorder().unwrap();
        super::super::metrics::register(&recorder, &[]);
        Exposition::of(&recorder)
    }

    #[tokio::test]
    async fn readyz_names_the_failing_dependency_and_livez_does_not_care() {
        let (_trigger, shutdown) = Shutdown::manual();
        let readiness = Readiness::new(shutdown)
            .with("postgres", || async { Err("not reachable".to_owned()) })
            .with("kafka", || async { Ok(()) });
        let routes = routes(readiness, exposition());
        let (status, body) = answer(routes.clone(), "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, r#"{"checks":{"kafka":"ok","postgres":"not reachable"},"ready":false}"#);
        assert_eq!(answer(routes, "/livez").await, (StatusCode::OK, "alive\n".to_owned()));
    }

    #[tokio::test]
    async fn a_note_is_shown_while_there_is_one_and_makes_nobody_unready() {
        let (_trigger, shutdown) = Shutdown::manual();
        let said = Arc::new(std::sync::Mutex::new(Some("the breaker is open".to_owned())));
        let note = Arc::clone(&said);
        let readiness = Readiness::new(shutdown).noting("gateway", move || note.lock().unwrap().clone());
        let routes = routes(readiness, exposition());
        let (status, body) = answer(routes.clone(), "/readyz").await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, r#"{"checks":{},"notes":{"gateway":"the breaker is open"},"ready":true}"#);
        *said.lock().unwrap() = None;
        assert_eq!(answer(routes, "/readyz").await.1, r#"{"checks":{},"ready":true}"#);
    }

    #[tokio::test]
    async fn a_check_that_hangs_counts_as_failed() {
        let (_trigger, shutdown) = Shutdown::manual();
        let mut readiness = Readiness::new(shutdown).with("postgres", std::future::pending);
        readiness.patience = Duration::from_millis(10);
        let ready = readiness.ask().await;
        assert!(!ready.is_ready());
        assert_eq!(ready.failures["postgres"].as_deref(), Some("no answer in time"));
    }

    #[tokio::test]
    async fn a_process_that_begins_is_alive_and_becomes_ready_with_its_checks() {
        let (_trigger, shutdown) = Shutdown::manual();
        let served = Served::starting();
        let routes = routes(served.clone(), exposition());
        assert_eq!(answer(routes.clone(), "/livez").await.0, StatusCode::OK);
        let (status, body) = answer(routes.clone(), "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.contains(r#""checks":{"start":"not finished"#), "{body}");
        served.started(Readiness::new(shutdown.clone()).with("postgres", || async { Ok(()) }));
        let ready = (StatusCode::OK, r#"{"checks":{"postgres":"ok"},"ready":true}"#.to_owned());
        assert_eq!(answer(routes.clone(), "/readyz").await, ready);
        served.started(Readiness::new(shutdown));
        assert_eq!(answer(routes, "/readyz").await, ready);
    }

    #[tokio::test]
    async fn a_draining_process_is_alive_and_not_ready() {
        let (trigger, shutdown) = Shutdown::manual();
        let routes = routes(Readiness::new(shutdown), exposition());
        assert_eq!(answer(routes.clone(), "/readyz").await.0, StatusCode::OK);
        trigger.stop();
        assert_eq!(answer(routes.clone(), "/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer(routes, "/livez").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn metrics_are_served_as_prometheus_text() {
        let (_trigger, shutdown) = Shutdown::manual();
        let (status, body) = answer(routes(Readiness::new(shutdown), exposition()), "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            body.contains("# TYPE punctual_payment_early_total counter\npunctual_payment_early_total 0\n")
        );
    }
}
