//! What a real gateway does not offer its clients: the ledger, the switch, and, as a mailbox for
//! files would have them, the settlement reports.
//!
//! **Promises**: the ledger is served from the file, only what is durable, with flat memory. An
//! outage touches nothing here, so that a test can see what happened during one; only a refused
//! connection keeps everybody out.

use super::connection::Peer;
use super::report::{What, Writing};
use super::routes::{Shared, respond};
use super::wire;
use crate::platform::config::{Defects, OutageKind, Value};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chrono::NaiveDate;
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, Take};
use tokio::sync::mpsc;

/// Bytes of the ledger read at once.
const CHUNK: usize = 64 * 1024;

/// Chunks of a report written ahead of its reader.
const AHEAD: usize = 4;

/// Longest outage that can be switched on.
const OUTAGE_MAX: Duration = Duration::from_secs(24 * 3_600);

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/ledger", get(ledger))
        .route("/ledger/summary", get(summary))
        .route("/settlement", get(settlement))
        .route("/settlement/defects", get(defects))
        .route("/outage", get(outage).put(switch_on).delete(switch_off))
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
    ndjson(Body::from_stream(futures_util::stream::try_unfold(file, next_chunk)))
}

async fn next_chunk(mut file: Take<tokio::fs::File>) -> io::Result<Option<(Bytes, Take<tokio::fs::File>)>> {
    let mut chunk = Vec::with_capacity(CHUNK);
    let length = file.read_buf(&mut chunk).await?;
    Ok((length > 0).then(|| (Bytes::from(chunk), file)))
}

fn ndjson(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// `?day=2026-11-28`; `defects` and `seed` in place of the settings.
/// Others are refused, because a misspelt `defects` would otherwise rehearse a flawless report.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    day: String,
    defects: Option<String>,
    seed: Option<u64>,
}

/// What was asked, or that it cannot be read: nobody but the owner of the secret is told which.
type Readable = Result<Query<Asked>, QueryRejection>;

async fn settlement(State(shared): State<Arc<Shared>>, headers: HeaderMap, asked: Readable) -> Response {
    report(shared, &headers, asked, What::Report)
}

async fn defects(State(shared): State<Arc<Shared>>, headers: HeaderMap, asked: Readable) -> Response {
    report(shared, &headers, asked, What::Defects)
}

fn report(shared: Arc<Shared>, headers: &HeaderMap, asked: Readable, what: What) -> Response {
    if !shared.is_authorised(headers) {
        return unauthorised();
    }
    let Ok(Query(asked)) = asked else { return invalid("invalid_query") };
    let mut terms = shared.terms.clone();
    terms.seed = asked.seed.unwrap_or(terms.seed);
    match asked.defects.as_deref().map(Defects::read) {
        None => {}
        Some(Ok(defects)) => terms.defects = defects,
        Some(Err(_)) => return invalid("invalid_defects"),
    }
    let Ok(day) = asked.day.parse::<NaiveDate>() else { return invalid("invalid_day") };
    let (out, chunks) = mpsc::channel(AHEAD);
    let writing = Writing { shared, terms, day, what, out };
    // Ends by itself when the body is dropped: nobody receives any more.
    drop(tokio::task::spawn_blocking(move || writing.run()));
    let next = |mut chunks: mpsc::Receiver<io::Result<Bytes>>| async {
        let chunk = chunks.recv().await?;
        Some((chunk, chunks))
    };
    ndjson(Body::from_stream(futures_util::stream::unfold(chunks, next)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Switch {
    kind: String,
    for_ms: Option<u64>,
}

async fn outage(State(shared): State<Arc<Shared>>) -> Response {
    let kind = shared.outages.at(shared.clock.mono().0);
    respond(200, &json!({ "kind": kind.map(OutageKind::name) }), None, false)
}

async fn switch_on(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !shared.is_authorised(&headers) {
        return unauthorised();
    }
    let Ok(switch) = serde_json::from_slice::<Switch>(&body) else { return invalid("invalid_shape") };
    let Some(kind) = OutageKind::named(&switch.kind) else { return invalid("invalid_kind") };
    let length = switch.for_ms.map(Duration::from_millis);
    // One that refuses hears no switch, so it must end by itself.
    if length.is_some_and(|length| length > OUTAGE_MAX) || (kind == OutageKind::Refuse && length.is_none()) {
        return invalid("invalid_for_ms");
    }
    // Before it begins: this connection still carries the answer, and is then closed.
    peer.spare();
    shared.outages.switch_on(kind, length.map(|length| shared.clock.mono().0 + length));
    let mut response = respond(200, &json!({ "kind": kind.name() }), None, false);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn switch_off(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if !shared.is_authorised(&headers) {
        return unauthorised();
    }
    shared.outages.switch_off();
    outage(State(shared)).await
}

fn unauthorised() -> Response {
    respond(401, &wire::error("unauthorized", "unauthorized", None), None, false)
}

fn invalid(code: &str) -> Response {
    respond(400, &wire::error("invalid_request", code, None), None, false)
}
