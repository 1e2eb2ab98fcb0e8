//! `GET /v1/events/stream`: the same events as they come, as server-sent events.
//!
//! **Promises.** Each event's `id` is a cursor: a client that connects again with `Last-Event-ID` (or goes on
//! with `GET /v1/events?after=`) misses nothing. A stream without either begins now, and says where that is
//! before anything else. A comment every [`HEARTBEAT`] tells both sides that the other lives. A key that is
//! revoked or expires gets no further event.
//!
//! **Many viewers, one poll.** All streams of an actor hang on one [`Tail`], a task that asks the database
//! once in [`POLL`]. A viewer first subscribes and then catches up by itself until nothing is left; from there
//! on it passes on what the tail sends behind its own place. The tail began to read before the viewer had
//! caught up, so nothing lies between the two. A viewer that is too slow for the tail catches up again.
//!
//! **Ends.** When the process is asked to stop every stream ends at once, so that clients are elsewhere
//! before the connections close; nothing of a stream is kept here that its client does not have.

use super::actor::{Caller, Scope};
use super::openapi::{Answer, Operation, Parameter, Place};
use super::problem::{Code, Problem};
use super::{Intake, events, headers, limits, parameters};
use crate::domain::event;
use crate::domain::event_type::event_type;
use crate::domain::ids::ActorId;
use crate::domain::lease::Mono;
use crate::platform::metrics;
use crate::schedule::{EventPage, EventPlace, Unpublished};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Response, Uri};
use futures_util::stream;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, broadcast, watch};

/// Between two looks of an actor's tail.
const POLL: Duration = Duration::from_millis(500);
/// Between two signs of life.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Pages that a viewer may be behind its tail.
const BEHIND: usize = 16;
/// Milliseconds after which a client connects again, unless it knows better.
const AGAIN_MS: u32 = 1_000;
/// Asks proxies of the nginx kind not to hold the stream back.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What all streams of a process share.
#[derive(Debug)]
pub(super) struct Hub {
    room: Arc<Semaphore>,
    tails: Mutex<HashMap<ActorId, Tail>>,
    /// Turns true when the process is asked to stop; `None` where nobody asks.
    stop: Option<watch::Receiver<bool>>,
}

/// Where an actor's viewers subscribe.
type Tail = broadcast::Sender<Arc<EventPage>>;

impl Hub {
    pub(super) fn new(most: usize, stop: Option<watch::Receiver<bool>>) -> Self {
        let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self { room, tails: Mutex::default(), stop }
    }

    async fn stopped(&self) {
        match self.stop.clone() {
            // An error means that whoever could ask is gone, which asks too.
            Some(mut stop) => drop(stop.wait_for(|stop| *stop).await),
            None => std::future::pending().await,
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| *stop.borrow() || stop.has_changed().is_err())
    }
}

/// Subscribes to the actor's tail; the first one starts it at this place, which the caller read before: what comes
/// behind it is the tail's to send.
async fn subscribe(
    intake: &Intake,
    actor: ActorId,
    end: EventPlace,
) -> Result<broadcast::Receiver<Arc<EventPage>>, Problem> {
    // Nobody else is made to wait here for the database.
    let mut tails = intake.hub.tails.lock().await;
    if let Some(tail) = tails.get(&actor) {
        // Of one actor, so that the others find room.
        if tail.receiver_count() >= (intake.most_streams / 4).max(2) {
            return Err(Problem::new(Code::NoStreamFree).retry_after(1));
        }
        return Ok(tail.subscribe());
    }
    let (tail, viewer) = broadcast::channel(BEHIND);
    tails.insert(actor, tail.clone());
    tokio::spawn(follow(intake.clone(), actor, tail, end));
    Ok(viewer)
}

/// Sends what comes to the actor's viewers until there are none.
async fn follow(intake: Intake, actor: ActorId, tail: Tail, mut place: EventPlace) {
    let mut pause = POLL;
    loop {
        tokio::select! {
            biased;
            () = intake.hub.stopped() => break,
            () = intake.clock.sleep(pause) => {}
        }
        {
            let mut tails = intake.hub.tails.lock().await;
            // Under the lock nobody can subscribe.
            if tail.receiver_count() == 0 {
                tails.remove(&actor);
                return;
            }
        }
        pause = POLL;
        match intake.schedule.events(actor, Some(place), events::MOST_LIMIT).await {
            Ok(page) => {
                place = page.end;
                if page.is_full {
                    pause = Duration::ZERO;
                }
                if !page.events.is_empty() {
                    // An error means that the last viewer has just gone.
                    let _ = tail.send(Arc::new(page));
                }
            }
            Err(error) => tracing::debug!(%error, "events could not be read; the next look may"),
        }
    }
    intake.hub.tails.lock().await.remove(&actor);
}

pub(super) const TOLD: &[Operation] = &[Operation {
    path: "/v1/events/stream",
    id: "streamEvents",
    tag: "events",
    summary: "The same events as they come",
    about: "Server-sent events: `id` is a cursor, `event` the type, `data` the event. A comment comes every 15 \
            seconds.",
    scope: Some(Scope::Read),
    parameters: &[
        Parameter {
            place: Place::Query,
            name: "after",
            schema: r#"{"type":"string"}"#,
            about: "A cursor of these events; without it and Last-Event-ID the stream begins now.",
        },
        Parameter {
            place: Place::OptionalHeader,
            name: "Last-Event-ID",
            schema: r#"{"type":"string"}"#,
            about: "The id of the last event that arrived; goes before the query.",
        },
    ],
    answers: &[Answer {
        status: 200,
        about: "A stream that ends when the process stops or the key may not read any more.",
        media: "text/event-stream",
        schema: "",
        headers: &[],
        leads_to: &[],
    }],
    refusals: &[Code::InvalidCursor, Code::NotAcceptable, Code::NoStreamFree],
    ..Operation::BARE
}];

pub(super) async fn get(
    State(intake): State<Intake>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let Caller { actor, .. } = intake.authorise(&headers, Scope::Read).await?;
    headers::accepts_stream(&headers)?;
    let secret = intake.schedule.installation_secret();
    let after = after(&uri, &headers)?;
    let after = after.map(|(text, name)| events::place(secret, actor.id, &text, name)).transpose()?;
    let none = || Problem::new(Code::NoStreamFree).retry_after(1);
    if intake.hub.is_stopped() {
        return Err(none());
    }
    let permit = Arc::clone(&intake.hub.room).try_acquire_owned().map_err(|_| none())?;
    let end = intake.schedule.events_end().await.map_err(limits::trouble)?;
    let tail = subscribe(&intake, actor.id, end).await?;
    let place = after.unwrap_or(end);
    let viewer = Viewer {
        actor: actor.id,
        headers,
        tail,
        place,
        mode: Mode::Greeting,
        heard_at: intake.clock.mono(),
        intake,
        _open: Open::new(permit),
    };
    let frames = stream::unfold(viewer, |mut viewer| async move {
        viewer.next().await.map(|bytes| (Ok::<_, Infallible>(bytes), viewer))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let told = response.headers_mut();
    told.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    told.insert(UNBUFFERED, HeaderValue::from_static("no"));
    Ok(response)
}

/// The cursor to go on from, with the name of where it stood. The header is the newer one: a client that
/// connects again repeats its query.
fn after(uri: &Uri, headers: &HeaderMap) -> Result<Option<(String, &'static str)>, Problem> {
    let mut after = None;
    parameters::read(uri, |name, value| match name {
        "after" => {
            after = Some((value.to_owned(), "after"));
            Ok(())
        }
        other => Err(parameters::unknown(other)),
    })?;
    let name = "Last-Event-ID";
    let twice = || parameters::at(name, Code::InvalidCursor, "This header appears more than once.");
    let last = headers::only(headers, &headers::LAST_EVENT_ID).map_err(|()| twice())?;
    // A text that is not UTF-8 is no cursor either.
    Ok(last.map(|bytes| (String::from_utf8_lossy(bytes).into_owned(), name)).or(after))
}

/// A place among the streams, counted.
struct Open {
    _permit: OwnedSemaphorePermit,
}

impl Open {
    fn new(permit: OwnedSemaphorePermit) -> Self {
        metrics::EVENT_STREAMS.shift(1.0, []);
        Self { _permit: permit }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        metrics::EVENT_STREAMS.shift(-1.0, []);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing was said yet.
    Greeting,
    /// Reads by itself.
    CatchingUp,
    /// Hears from the tail.
    Live,
}

/// One stream.
struct Viewer {
    intake: Intake,
    actor: ActorId,
    /// Of the request; its key is asked about again before every event.
    headers: HeaderMap,
    tail: broadcast::Receiver<Arc<EventPage>>,
    place: EventPlace,
    mode: Mode,
    /// When the client was last sent anything.
    heard_at: Mono,
    _open: Open,
}

impl Viewer {
    /// What is sent next; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        let frames = match self.mode {
            Mode::Greeting => {
                self.mode = Mode::CatchingUp;
                Some(format!("retry: {AGAIN_MS}\nid: {}\n: from here on\n\n", self.cursor(&self.place)))
            }
            Mode::CatchingUp | Mode::Live => self.come().await,
        };
        self.heard_at = self.intake.clock.mono();
        frames.map(Bytes::from)
    }

    async fn come(&mut self) -> Option<String> {
        loop {
            if self.intake.hub.is_stopped() {
                return None;
            }
            let frames = match self.mode {
                Mode::Greeting | Mode::CatchingUp => self.catch_up().await?,
                Mode::Live => self.hear().await?,
            };
            if !frames.is_empty() {
                // The cache believes a key for a few seconds; a database that is away ends the stream, and
                // the client comes again.
                self.intake.caller_of(&self.headers, Scope::Read).await.ok()?;
                return Some(frames);
            }
        }
    }

    async fn catch_up(&mut self) -> Option<String> {
        let page = self.intake.schedule.events(self.actor, Some(self.place), events::MOST_LIMIT).await;
        let page =
            page.inspect_err(|error| tracing::debug!(%error, "a stream ends: no events can be read")).ok()?;
        if !page.is_full {
            self.mode = Mode::Live;
        }
        Some(self.pass(&page))
    }

    async fn hear(&mut self) -> Option<String> {
        let silent = self.intake.clock.mono().0.saturating_sub(self.heard_at.0);
        let intake = self.intake.clone();
        tokio::select! {
            biased;
            () = intake.hub.stopped() => None,
            heard = self.tail.recv() => match heard {
                Ok(page) => Some(self.pass(&page)),
                Err(RecvError::Lagged(_)) => {
                    self.mode = Mode::CatchingUp;
                    Some(String::new())
                }
                Err(RecvError::Closed) => None,
            },
            () = intake.clock.sleep(HEARTBEAT.saturating_sub(silent)) => {
                Some(format!("id: {}\n: still here\n\n", self.cursor(&self.place)))
            }
        }
    }

    /// The frames of what lies behind our place, and moves it.
    fn pass(&mut self, page: &EventPage) -> String {
        let mut frames = String::new();
        // A page of another life of the database is behind everything of ours.
        let is_new = |place: &EventPlace| place.lineage != self.place.lineage || place.is_behind(&self.place);
        for (place, event) in page.events.iter().filter(|(place, _)| is_new(place)) {
            frames.push_str(&self.frame(place, event));
        }
        if is_new(&page.end) {
            self.place = page.end;
        }
        frames
    }

    fn frame(&self, place: &EventPlace, event: &Unpublished) -> String {
        let (row, id) = (&event.row, self.cursor(place));
        let json = event::json(event);
        // Written by serde_json: UTF-8 on one line.
        let text = String::from_utf8_lossy(&json);
        format!("id: {id}\nevent: {}\ndata: {text}\n\n", event_type(row.event, row.to).as_str())
    }

    fn cursor(&self, place: &EventPlace) -> String {
        events::write(self.intake.schedule.installation_secret(), self.actor, place)
    }
}
