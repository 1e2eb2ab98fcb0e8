//! The sandbox's HTTP as a client of a gateway meets it: charges and look-ups.
//!
//! **Promises**: nothing is answered before its line is durable; a request is finished even if its
//! client has gone. What only tests and people ask for is in `oracle`.

use super::book::{Book, Door, Refused, Reply, Ruling};
use super::callbacks::{Callbacks, News};
use super::connection::Peer;
use super::draw::{Purpose, draw};
use super::latency;
use super::ledger::Ledger;
use super::line::{Line, Verdict};
use super::oracle;
use super::outage::Outages;
use super::quota::Quota;
use super::settlement::Terms;
use super::wire::{self, ChargeBody, Heads, Malformed, RefundBody};
use crate::platform::clock::SharedClock;
use crate::platform::config::{Latency, OutageKind};
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::{oneshot, watch};

/// Longest body taken, in bytes.
const BODY_MAX: usize = 16 * 1024;

/// A request that gets no answer is reset after this long, so that a client without a time-out of
/// its own does not hold its connection for ever.
const HOLD_MAX: Duration = Duration::from_secs(600);

/// What all requests share.
pub(super) struct Shared {
    pub(super) book: Mutex<Book>,
    pub(super) ledger: Ledger,
    pub(super) callbacks: Option<Callbacks>,
    pub(super) clock: SharedClock,
    pub(super) bearer: String,
    pub(super) outages: Outages,
    pub(super) quota: Option<Mutex<Quota>>,
    pub(super) latency: Latency,
    pub(super) seed: u64,
    pub(super) look_ups: AtomicU64,
    pub(super) terms: Terms,
    pub(super) stopping: watch::Receiver<bool>,
}

impl Shared {
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        // No code panics while it holds the book; if one ever does, its line was absorbed or not.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_authorised(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
        given.is_some_and(|given| given.ct_eq(self.bearer.as_bytes()).into())
    }

    fn outage(&self) -> Option<OutageKind> {
        self.outages.at(self.clock.mono().0)
    }

    /// What a request meets, and the outage that makes it so or hides its answer.
    fn door(&self, refused: Option<&Refused>) -> (Door, Option<OutageKind>) {
        let outage = self.outage();
        let door = match (outage, refused) {
            (Some(OutageKind::Unavailable), _) => Door::Unavailable,
            // Refusing, it only meets what had arrived before.
            (Some(OutageKind::Silent | OutageKind::Refuse), _) => Door::Silent,
            (_, Some(Refused::Unauthorized)) => Door::Open,
            (Some(OutageKind::UnavailableCharged | OutageKind::SilentCharged) | None, _) => {
                self.take().map_or_else(Door::OverRate, |()| Door::Open)
            }
        };
        (door, outage)
    }

    /// One call of the account, if the quota lets it pass.
    fn take(&self) -> Result<(), u64> {
        let Some(quota) = &self.quota else { return Ok(()) };
        let now = self.clock.mono().0;
        quota.lock().unwrap_or_else(PoisonError::into_inner).take(now)
    }

    fn latency(&self, purpose: Purpose, number: u64) -> Duration {
        latency::length(&self.latency, draw(self.seed, purpose, number))
    }
}

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/charges", post(charge).get(look_up))
        .route("/voids", post(void))
        .route("/refunds", post(refund).get(look_up_refund))
        .route("/livez", get(|| async { "ok" }))
        .merge(oracle::routes())
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(shared)
}

async fn charge(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    perform(&shared, &peer, execute(Arc::clone(&shared), headers, body)).await
}

async fn void(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    perform(&shared, &peer, execute_void(Arc::clone(&shared), headers, body)).await
}

async fn refund(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    perform(&shared, &peer, execute_refund(Arc::clone(&shared), headers, body)).await
}

/// Carries one request out and answers it as its reply says.
async fn perform(
    shared: &Shared,
    peer: &Peer,
    execution: impl Future<Output = Option<Reply>> + Send + 'static,
) -> Response {
    // In a task of its own: a client that goes away must not leave its key in flight for ever.
    let execution = tokio::spawn(execution);
    match execution.await.ok().flatten() {
        Some(Reply::Json { status, body, retry_after_s, replayed }) => {
            respond(status, &body, retry_after_s, replayed)
        }
        Some(Reply::Garbage) => "<<garbage: {\"id\":".into_response(),
        Some(Reply::Hold) => hold(shared, peer).await,
        // Without a durable line there is no answer either.
        Some(Reply::Reset) | None => {
            peer.reset();
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

/// Answers nothing for as long as a client may wait.
async fn hold(shared: &Shared, peer: &Peer) -> Response {
    let mut stopping = shared.stopping.clone();
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => {}
        () = shared.clock.sleep(HOLD_MAX) => {}
    }
    peer.reset();
    StatusCode::NO_CONTENT.into_response()
}

/// One physical request, from its line to its reply; `None` if the line never became durable.
async fn execute(
    shared: Arc<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Option<Reply> {
    let heads = Heads::read(&headers);
    let body = readable(&shared, &headers, &heads, body);
    let (door, outage) = shared.door(body.as_ref().err());
    let ruled = {
        let mut book = shared.book();
        let asked = body.as_ref().map_err(Clone::clone);
        let ruling = book.receive(shared.clock.wall(), door, &heads, asked).ok()?;
        // Under the book's lock, so that the file has the book's order.
        let durable = shared.ledger.append(&ruling.line);
        (ruling, durable)
    };
    answer(&shared, &heads, outage, ruled).await
}

/// One void, in the same way.
async fn execute_void(
    shared: Arc<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Option<Reply> {
    let mut heads = Heads::read(&headers);
    let key = readable_void(&shared, &headers, body);
    heads.key = key.as_ref().ok().cloned();
    let (door, outage) = shared.door(key.as_ref().err());
    let ruled = {
        let mut book = shared.book();
        let ruling = book.receive_void(shared.clock.wall(), door, &heads, key.as_ref().err()).ok()?;
        let durable = shared.ledger.append(&ruling.line);
        (ruling, durable)
    };
    answer(&shared, &heads, outage, ruled).await
}

/// One refund, in the same way.
async fn execute_refund(
    shared: Arc<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Option<Reply> {
    let heads = Heads::read(&headers);
    let body = readable_refund(&shared, &headers, &heads, body);
    let (door, outage) = shared.door(body.as_ref().err());
    let ruled = {
        let mut book = shared.book();
        let asked = body.as_ref().map_err(Clone::clone);
        let ruling = book.receive_refund(shared.clock.wall(), door, &heads, asked).ok()?;
        let durable = shared.ledger.append(&ruling.line);
        (ruling, durable)
    };
    answer(&shared, &heads, outage, ruled).await
}

/// From the line to the reply: not before it is durable, and after the usual time.
async fn answer(
    shared: &Shared,
    heads: &Heads,
    outage: Option<OutageKind>,
    (ruling, durable): (Ruling, oneshot::Receiver<()>),
) -> Option<Reply> {
    let Ruling { line, reply, slow, in_flight } = ruling;
    let wait = match reply {
        Reply::Json { .. } | Reply::Garbage => shared.latency(Purpose::Charge, line.seq) + slow,
        Reply::Hold | Reply::Reset => Duration::ZERO,
    };
    let reply = match outage {
        Some(OutageKind::UnavailableCharged) => Reply::unavailable(),
        Some(OutageKind::SilentCharged) => Reply::Hold,
        Some(OutageKind::Unavailable | OutageKind::Silent | OutageKind::Refuse) | None => reply,
    };
    // Started before the fsync is awaited, so that the latency includes it.
    let pause = (!wait.is_zero()).then(|| shared.clock.sleep(wait));
    durable.await.ok()?;
    if let Some(callbacks) = &shared.callbacks
        && let Some(news) = news_of(shared, &line)
    {
        callbacks.tell(news);
    }
    if let Some(pause) = pause {
        pause.await;
    }
    if let (true, Some(key)) = (in_flight, heads.key.as_deref()) {
        shared.book().land(key);
    }
    Some(reply)
}

/// What there will be to tell of a charge that was accepted and is decided later.
fn news_of(shared: &Shared, line: &Line) -> Option<News> {
    let key = line.key.clone().filter(|_| line.verdict == Verdict::Pending)?;
    let decides_at = shared.book().decides_at(&key)?;
    let payment_id = line.payment_id.clone()?;
    Some(News { seq: line.seq, key, payment_id, charged: line.charged, decides_at })
}

fn readable_void(
    shared: &Shared,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<String, Refused> {
    if !shared.is_authorised(headers) {
        return Err(Refused::Unauthorized);
    }
    let bytes = body.map_err(|_| Refused::Malformed(Malformed::Shape))?;
    wire::void_key(&bytes).map_err(Refused::Malformed)
}

fn readable_refund(
    shared: &Shared,
    headers: &HeaderMap,
    heads: &Heads,
    body: Result<Bytes, BytesRejection>,
) -> Result<RefundBody, Refused> {
    if !shared.is_authorised(headers) {
        return Err(Refused::Unauthorized);
    }
    let bytes = body.map_err(|_| Refused::Malformed(Malformed::Shape))?;
    RefundBody::read(&bytes, heads.key.as_deref()).map_err(Refused::Malformed)
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

pub(super) fn respond(
    status: u16,
    body: &serde_json::Value,
    retry_after_s: Option<u64>,
    replayed: bool,
) -> Response {
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

/// A look-up that may be looked at: its key, after the usual time.
async fn look_up_key(
    shared: &Shared,
    peer: &Peer,
    headers: &HeaderMap,
    asked: Result<Query<LookUp>, QueryRejection>,
) -> Result<String, Response> {
    match shared.outage() {
        Some(OutageKind::Unavailable | OutageKind::UnavailableCharged) => {
            return Err(respond(503, &wire::error("unavailable", "unavailable", None), None, false));
        }
        Some(OutageKind::Silent | OutageKind::SilentCharged | OutageKind::Refuse) => {
            return Err(hold(shared, peer).await);
        }
        None => {}
    }
    if !shared.is_authorised(headers) {
        return Err(respond(401, &wire::error("unauthorized", "unauthorized", None), None, false));
    }
    let Ok(Query(LookUp { key })) = asked else {
        return Err(respond(400, &wire::error("invalid_request", "invalid_query", None), None, false));
    };
    if let Err(wait) = shared.take() {
        let body = wire::error("rate_limited", "over_rate", Some(&key));
        return Err(respond(429, &body, Some(wait), false));
    }
    let number = shared.look_ups.fetch_add(1, Ordering::Relaxed) + 1;
    let latency = shared.latency(Purpose::LookUp, number);
    if !latency.is_zero() {
        shared.clock.sleep(latency).await;
    }
    Ok(key)
}

async fn look_up(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    asked: Result<Query<LookUp>, QueryRejection>,
) -> Response {
    let key = match look_up_key(&shared, &peer, &headers, asked).await {
        Ok(key) => key,
        Err(refused) => return refused,
    };
    let (charges, is_voided) = {
        let book = shared.book();
        (book.look_up(shared.clock.wall(), &key), book.is_voided(&key))
    };
    if is_voided {
        return respond(200, &json!({ "key": key, "charges": charges, "voided": true }), None, false);
    }
    if charges.is_empty() {
        return respond(404, &wire::error("not_found", "unknown_key", Some(&key)), None, false);
    }
    respond(200, &json!({ "key": key, "charges": charges }), None, false)
}

async fn look_up_refund(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    asked: Result<Query<LookUp>, QueryRejection>,
) -> Response {
    let key = match look_up_key(&shared, &peer, &headers, asked).await {
        Ok(key) => key,
        Err(refused) => return refused,
    };
    let found = shared.book().look_up_refund(&key);
    match found {
        Some(refund) => respond(200, &refund, None, false),
        None => respond(404, &wire::error("not_found", "unknown_key", Some(&key)), None, false),
    }
}
