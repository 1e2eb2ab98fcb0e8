//! The sandbox's HTTP: charges, look-ups, the ledger.

use super::book::{Book, Refused, Reply, Ruling};
use super::connection::Peer;
use super::ledger::Ledger;
use super::wire::{self, ChargeBody, Heads, Malformed};
use crate::platform::clock::SharedClock;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, Take};
use tokio::sync::watch;

/// Longest body taken, in bytes.
const BODY_MAX: usize = 16 * 1024;

/// A request that gets no answer is reset after this long, so that a client without a time-out of
/// its own does not hold its connection for ever.
const HOLD_MAX: Duration = Duration::from_secs(600);

/// Bytes of the ledger read at once.
const CHUNK: usize = 64 * 1024;

/// What all requests share.
pub(super) struct Shared {
    pub(super) book: Mutex<Book>,
    pub(super) ledger: Ledger,
    pub(super) clock: SharedClock,
    pub(super) bearer: String,
    pub(super) latency: Duration,
    pub(super) stopping: watch::Receiver<bool>,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // No code panics while it holds the book; if one ever does, its line was absorbed or not.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_authorised(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
        given.is_some_and(|given| given.ct_eq(self.bearer.as_bytes()).into())
    }
}

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/charges", post(charge).get(look_up))
        .route("/ledger", get(ledger))
        .route("/ledger/summary", get(summary))
        .route("/livez", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(shared)
}

async fn charge(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    // In a task of its own: a client that goes away must not leave its key in flight for ever.
    let execution = tokio::spawn(execute(Arc::clone(&shared), headers, body));
    match execution.await.ok().flatten() {
        Some(Reply::Json { status, body, retry_after_s, replayed }) => {
            respond(status, &body, retry_after_s, replayed)
        }
        Some(Reply::Garbage) => "<<garbage: {\"id\":".into_response(),
        Some(Reply::Hold) => {
            let mut stopping = shared.stopping.clone();
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => {}
                () = shared.clock.sleep(HOLD_MAX) => {}
            }
            peer.reset();
            StatusCode::NO_CONTENT.into_response()
        }
        // Without a durable line there is no answer either.
        Some(Reply::Reset) | None => {
            peer.reset();
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

/// One physical request, from its line to its reply; `None` if the line never became durable.
async fn execute(
    shared: Arc<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Option<Reply> {
    let heads = Heads::read(&headers);
    let body = readable(&shared, &headers, &heads, body);
    let (ruling, durable) = {
        let mut book = shared.book();
        let ruling = book.receive(shared.clock.wall(), &heads, body.as_ref().map_err(Clone::clone)).ok()?;
        // Under the book's lock, so that the file has the book's order.
        let durable = shared.ledger.append(&ruling.line);
        (ruling, durable)
    };
    let Ruling { reply, slow, in_flight, .. } = ruling;
    let wait = match reply {
        Reply::Json { .. } | Reply::Garbage => shared.latency + slow,
        Reply::Hold | Reply::Reset => Duration::ZERO,
    };
    // Started before the fsync is awaited, so that the latency includes it.
    let pause = (!wait.is_zero()).then(|| shared.clock.sleep(wait));
    durable.await.ok()?;
    if let Some(pause) = pause {
        pause.await;
    }
    if let (true, Some(key)) = (in_flight, heads.key.as_deref()) {
        shared.book().land(key);
    }
    Some(reply)
}

fn readable(
    shared: &Shared,
    headers: &HeaderMap,
    heads: &Heads,
    body: Result<Bytes, BytesRejection>,
) -> Result<ChargeBody, Refused> {
    if !shared.is_authorised(headers) {
        return Err(Refused::Unauthorized);
    }
    if heads.key.is_none() {
        return Err(Refused::Malformed(Malformed::Key));
    }
    let bytes = body.map_err(|_| Refused::Malformed(Malformed::Shape))?;
    ChargeBody::read(&bytes).map_err(Refused::Malformed)
}

fn respond(status: u16, body: &serde_json::Value, retry_after_s: Option<u64>, replayed: bool) -> Response {
    // Only the statuses written in `book` and here arrive, all of them valid.
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, axum::Json(body)).into_response();
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    if replayed {
        let yes = header::HeaderValue::from_static("true");
        response.headers_mut().insert("idempotent-replayed", yes);
    }
    response
}

#[derive(Deserialize)]
struct LookUp {
    key: String,
}

async fn look_up(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(LookUp { key }): Query<LookUp>,
) -> Response {
    if !shared.is_authorised(&headers) {
        return respond(401, &wire::error("unauthorized", "unauthorized", None), None, false);
    }
    if !shared.latency.is_zero() {
        shared.clock.sleep(shared.latency).await;
    }
    let charges = shared.book().look_up(shared.clock.wall(), &key);
    if charges.is_empty() {
        return respond(404, &wire::error("not_found", "unknown_key", Some(&key)), None, false);
    }
    respond(200, &json!({ "key": key, "charges": charges }), None, false)
}

async fn summary(State(shared): State<Arc<Shared>>) -> Response {
    axum::Json(shared.book().summary()).into_response()
}

/// Streams what is durable at the moment of the request, from the file, so that memory stays flat.
async fn ledger(State(shared): State<Arc<Shared>>) -> Response {
    let (path, durable_bytes) = shared.ledger.durable();
    let file = match tokio::fs::File::open(path).await {
        Ok(file) => file.take(durable_bytes),
        Err(error) => {
            tracing::error!(%error, "the ledger cannot be read back");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
    };
    let chunks = futures_util::stream::try_unfold(file, next_chunk);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(chunks)).into_response()
}

async fn next_chunk(mut file: Take<tokio::fs::File>) -> io::Result<Option<(Bytes, Take<tokio::fs::File>)>> {
    let mut chunk = Vec::with_capacity(CHUNK);
    let length = file.read_buf(&mut chunk).await?;
    Ok((length > 0).then(|| (Bytes::from(chunk), file)))
}
