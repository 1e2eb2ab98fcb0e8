//! Around every request: its id, its time limit, a net for panics, one line in the log, and the
//! written form of a refusal.
//!
//! The log line names the route's template, never the path, the query, a header, the body or a method
//! that is none of ours: a client that pastes a card number or a key into any of those must not find it
//! in our logs, and a card number in the path is not repeated in the refusal either.
//!
//! A head that cannot be read at all does not get here: hyper answers it (see `serve`).

use super::card::masked_path;
use super::headers::{REQUEST_ID, request_id, traceparent};
use super::limits::{Arrival, MAX_URI};
use super::problem::{Code, Problem};
use crate::domain::ids::PaymentId;
use crate::platform::clock::SharedClock;
use crate::platform::dice::SharedDice;
use crate::platform::metrics;
use crate::platform::trace::{self, Kind, Span};
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONNECTION, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tracing::Instrument;
use tracing::field::{Empty, display};

/// What wrapping a request takes.
#[derive(Clone)]
pub(super) struct Envelope {
    pub(super) clock: SharedClock,
    pub(super) dice: SharedDice,
    pub(super) request_timeout: Duration,
}

/// The request's id, for answers that name it within.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestId(pub(super) String);

/// The request's own trace context, if it is traced: what a payment is to store, rather than its caller's.
#[derive(Debug, Clone)]
pub(super) struct Traced(pub(super) String);

/// The payment that the request made or found, for its line in the log; an answer takes it along.
#[derive(Debug, Clone, Copy)]
pub(super) struct About(pub(super) PaymentId);

/// Asked all day by machines that look whether this process lives.
const NOT_TRACED: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Most characters of a path that a refusal repeats.
const MAX_INSTANCE: usize = 512;

/// Who dawdles over the body is told that nothing came of it, and the connection ends, since the rest
/// of the body would be read as the next request. Otherwise a verb of the schedule may be under way.
fn out_of_time(arrival: &Arrival) -> Response {
    if !arrival.is_awaited() {
        return Problem::new(Code::RequestTimedOut).retry_after(1).into_response();
    }
    let mut response = Problem::new(Code::BodyTooSlow).retry_after(1).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Wraps one request. For `axum::middleware::from_fn_with_state`.
pub(super) async fn wrap(State(envelope): State<Envelope>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers()).unwrap_or_else(|| format!("{:032x}", envelope.dice.bits()));
    let path = request.uri().path().to_owned();
    let known =
        ["GET", "POST", "PUT", "DELETE"].into_iter().find(|known| *known == request.method().as_str());
    let method = known.unwrap_or("other");
    let route = request.extensions().get::<MatchedPath>().map(|matched| matched.as_str().to_owned());
    let span = tracing::info_span!("request", request_id = %id, actor = Empty);
    let began_at = envelope.clock.mono();
    let mut traced = traced(&request, method, route.as_deref());
    if let Some(own) = traced.traceparent() {
        request.extensions_mut().insert(Traced(own));
    }

    let arrival = Arrival::default();
    request.extensions_mut().insert(arrival.clone());
    request.extensions_mut().insert(RequestId(id.clone()));
    let is_too_long = request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > MAX_URI);
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone());
    let limit = envelope.clock.sleep(envelope.request_timeout);
    // The answer is polled first, so one that is ready is never thrown away for the limit.
    let mut response = if is_too_long {
        Problem::new(Code::UriTooLong).into_response()
    } else {
        match select(Box::pin(answer), limit).await {
            Either::Left((Ok(response), _)) => response,
            Either::Left((Err(_panic), _)) => Problem::new(Code::Internal).into_response(),
            Either::Right(((), _)) => out_of_time(&arrival),
        }
    };

    let refused = response.extensions_mut().remove::<Problem>();
    let about = response.extensions_mut().remove::<About>().map(|about| about.0);
    let about = about.or(refused.as_ref().and_then(|problem| Some(problem.payment?.0)));
    if let Some(problem) = &refused {
        let path: String = masked_path(&path).chars().take(MAX_INSTANCE).collect();
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
    metrics::INTAKE_REQUEST.record(took, [method, route, status.as_str()]);
    // u64 milliseconds outlast every process.
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let code = refused.map_or("", |problem| problem.code.as_str());
    traced.say("http.response.status_code", || i64::from(status.as_u16()));
    traced.say("punctual.request.id", || id);
    if let Some(payment) = about {
        traced.say("punctual.payment.id", || payment.to_string());
    }
    if status.is_server_error() {
        traced.failed("the answer is one of 500 to 599");
    }
    let (payment, trace_id) = (about.map(display), traced.trace_id());
    span.in_scope(|| {
        tracing::info!(method, route, status = status.as_u16(), code, payment, trace_id, took_ms, "answered")
    });
    response
}

/// Begins the request's span, as a part of its caller's trace if that has one. Of what the client wrote it says nothing.
fn traced(request: &Request, method: &'static str, route: Option<&str>) -> Span {
    if !trace::is_on() || route.is_some_and(|route| NOT_TRACED.contains(&route)) {
        return Span::default();
    }
    let caller = traceparent(request.headers());
    let mut span = trace::span("request", Kind::Server).told_by(caller.as_deref()).start();
    let route = route.unwrap_or("none");
    span.called(|| format!("{method} {route}"));
    span.say("http.request.method", || method);
    span.say("http.route", || route.to_owned());
    span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::limits;
    use crate::platform::{clock::Host, dice::Os};
    use axum::Router;
    use axum::body::Bytes;
    use axum::http::StatusCode;
    use axum::routing::{get, post};
    use http_body::Frame;
    use http_body_util::{BodyExt, StreamBody};
    use std::io::Error;
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
            .route("/body", post(take))
            .fallback(|| async { Problem::new(Code::RouteNotFound) })
            .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed) })
            .layer(axum::middleware::from_fn_with_state(envelope, wrap))
    }

    /// Reads the body, then works for ever.
    async fn take(request: Request) -> Problem {
        let arrival = request.extensions().get::<Arrival>().unwrap().clone();
        match limits::read(request.into_body(), &arrival).await {
            Ok(_) => std::future::pending().await,
            Err(problem) => problem,
        }
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
    async fn a_body_that_does_not_arrive_is_408_and_one_that_is_being_worked_on_503() {
        let slow = Body::new(StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Error>>()));
        for (body, status, code, closes) in [
            (slow, 408, "body_too_slow", true),
            (Body::from("whole"), 503, "request_timed_out", false),
            (Body::from(vec![b' '; limits::MAX_BODY + 1]), 413, "body_too_large", false),
        ] {
            let request = Request::builder().method("POST").uri("/body").body(body).unwrap();
            let response = app(Duration::from_millis(50)).oneshot(request).await.unwrap();
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers().contains_key("retry-after"), status != 413);
            assert_eq!(response.headers().get("connection").is_some_and(|value| value == "close"), closes);
            let text = response.into_body().collect().await.unwrap().to_bytes();
            let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert_eq!((&document["code"], &document["retryable"]), (&code.into(), &(status != 413).into()));
        }
    }

    #[tokio::test]
    async fn an_address_that_is_too_long_is_refused_in_our_words_and_not_repeated() {
        let fits = format!("/ok?{}", "x".repeat(MAX_URI - 4));
        assert_eq!(ask("GET", &fits, None).await.0, StatusCode::OK);
        for long in [format!("{fits}x"), format!("/{}", "x".repeat(60_000))] {
            let (status, _, text) = ask("GET", &long, None).await;
            let document: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!((status.as_u16(), &document["code"]), (414, &"uri_too_long".into()));
            assert!(text.len() < 1_024, "{} bytes", text.len());
        }
    }

    #[tokio::test]
    async fn a_card_number_in_the_path_is_not_repeated() {
        for path in ["/4111111111111111", "/ok/4111%201111%201111%201111", "/ok?4111111111111111"] {
            let (_, headers, text) = ask("PUT", path, Some("4111111111111111")).await;
            assert!(!text.contains("1111") && !text.contains("*/*"), "{text}");
            assert!(headers[REQUEST_ID].len() == 32, "{path}");
        }
    }

    #[tokio::test]
    async fn a_good_answer_passes_unchanged() {
        let (status, _, text) = ask("GET", "/ok", None).await;
        assert_eq!((status.as_u16(), text.as_str()), (200, "fine"));
    }
}
