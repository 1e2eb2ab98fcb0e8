//! Around every request: its id, its time limit, a net for panics, one line in the log, and the
//! written form of a refusal.
//!
//! The log line names the route's template, never the path, the query, a header or the body: a
//! client that pastes a card number or a key into any of those must not find it in our logs.

use super::headers::{REQUEST_ID, request_id};
use super::problem::{Code, Problem};
use crate::platform::clock::SharedClock;
use crate::platform::dice::SharedDice;
use crate::platform::metrics;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tracing::Instrument;
use tracing::field::Empty;

/// What wrapping a request takes.
#[derive(Clone)]
pub(super) struct Envelope {
    pub(super) clock: SharedClock,
    pub(super) dice: SharedDice,
    pub(super) request_timeout: Duration,
}

/// Wraps one request. For `axum::middleware::from_fn_with_state`.
pub(super) async fn wrap(State(envelope): State<Envelope>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers()).unwrap_or_else(|| format!("{:032x}", envelope.dice.bits()));
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|matched| matched.as_str().to_owned());
    let span = tracing::info_span!("request", request_id = %id, actor = Empty);
    let began_at = envelope.clock.mono();

    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone());
    let limit = envelope.clock.sleep(envelope.request_timeout);
    // The answer is polled first, so one that is ready is never thrown away for the limit.
    let mut response = match select(Box::pin(answer), limit).await {
        Either::Left((Ok(response), _)) => response,
        Either::Left((Err(_panic), _)) => Problem::new(Code::Internal).into_response(),
        Either::Right(((), _)) => Problem::new(Code::RequestTimedOut).retry_after(1).into_response(),
    };

    let refused = response.extensions_mut().remove::<Problem>();
    if let Some(problem) = &refused {
        *response.body_mut() = Body::from(problem.write(&path, &id));
    }
    let headers = response.headers_mut();
    // Hex digits, or checked by `request_id`: always a legal header value.
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));

    let took = envelope.clock.mono().0.saturating_sub(began_at.0);
    let status = response.status();
    let route = route.as_deref().unwrap_or("none");
    let counted_method = ["GET", "POST", "DELETE"].into_iter().find(|known| *known == method.as_str());
    metrics::INTAKE_REQUEST.record(took, [counted_method.unwrap_or("other"), route, status.as_str()]);
    // u64 milliseconds outlast every process.
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let code = refused.map_or("", |problem| problem.code.as_str());
    span.in_scope(|| tracing::info!(%method, route, status = status.as_u16(), code, took_ms, "answered"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{clock::Host, dice::Os};
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use std::sync::Arc;
    use tower::ServiceExt;

    fn app(request_timeout: Duration) -> Router {
        let envelope = Envelope { clock: Arc::new(Host), dice: Arc::new(Os), request_timeout };
        Router::new()
            .route("/ok", get(|| async { "fine" }))
            .route(
                "/panic",
                get(|| async {
                    if true {
                        panic!("secret words")
                    }
                }),
            )
            .route("/stuck", get(std::future::pending::<()>))
            .fallback(|| async { Problem::new(Code::RouteNotFound) })
            .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed) })
            .layer(axum::middleware::from_fn_with_state(envelope, wrap))
    }

    async fn ask(method: &str, path: &str, id: Option<&str>) -> (StatusCode, axum::http::HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(id) = id {
            request = request.header(REQUEST_ID, id);
        }
        let app = app(Duration::from_millis(if path == "/stuck" { 20 } else { 10_000 }));
        let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        (parts.status, parts.headers, text)
    }

    #[tokio::test]
    async fn every_answer_carries_a_request_id() {
        for path in ["/ok", "/panic", "/stuck", "/nowhere"] {
            let (_, headers, _) = ask("GET", path, None).await;
            assert_eq!(headers[REQUEST_ID].len(), 32, "{path}");
            let (_, headers, _) = ask("GET", path, Some("mine-1")).await;
            assert_eq!(headers[REQUEST_ID], "mine-1", "{path}");
            let (_, headers, _) = ask("GET", path, Some("not sane")).await;
            assert_eq!(headers[REQUEST_ID].len(), 32, "{path}");
        }
    }

    #[tokio::test]
    async fn every_refusal_is_a_problem_document_about_this_request() {
        for (method, path, status, code) in [
            ("GET", "/panic", 500, "internal"),
            ("GET", "/stuck", 503, "request_timed_out"),
            ("GET", "/nowhere", 404, "route_not_found"),
            ("PUT", "/ok", 405, "method_not_allowed"),
        ] {
            let (answered, headers, text) = ask(method, path, Some("r-9")).await;
            assert_eq!(answered.as_u16(), status, "{path}");
            assert_eq!(headers["content-type"], "application/problem+json");
            let document: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(document["code"], code);
            assert_eq!(document["status"], status);
            assert_eq!(document["requestId"], "r-9");
            assert_eq!(document["instance"], path);
            assert!(!text.contains("secret words"));
            assert_eq!(headers.get("retry-after").is_some(), status == 503, "{path}");
            assert_eq!(
                headers.get("allow").map(|allow| allow.to_str().unwrap()),
                (status == 405).then_some("GET,HEAD")
            );
        }
    }

    #[tokio::test]
    async fn a_good_answer_passes_unchanged() {
        let (status, _, text) = ask("GET", "/ok", None).await;
        assert_eq!((status.as_u16(), text.as_str()), (200, "fine"));
    }
}
