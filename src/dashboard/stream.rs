//! `/ui/stream`: what is new, as server-sent events, so that nobody has to load a page again.
//!
//! **Promises.** Every viewer is sent the same bytes, which were written once for all of them: two hundred viewers
//! cost little more than one. An event is the state and not a change, so nothing is lost between two streams: a page
//! that comes again with the number of what it has (`Last-Event-ID`, or `after` where a script connects anew) hears
//! nothing before something else is there, and otherwise the newest at once. A login that has ended or whose key was
//! revoked is told so, and its stream ends there. Places are bounded.
//!
//! Pages close it while their tab is hidden, and put nothing into a page in which somebody is at work: that is the
//! script's part (`assets/punctual.js`).

use super::frame::{Banner, Problems};
use super::pulse::Shot;
use super::show::Shown;
use super::{Ui, Viewer, overview, text};
use crate::intake::{Code, Problem, Scope};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Response, Uri};
use futures_util::stream;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use url::form_urlencoded;

/// Between two signs of life.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Milliseconds after which a browser connects again.
const AGAIN_MS: u32 = 3_000;
/// Asks proxies of the nginx kind not to hold the stream back.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) async fn get(State(ui): State<Ui>, viewer: Viewer, uri: Uri, headers: HeaderMap) -> Shown {
    let full = || Problem::new(Code::NoStreamFree).retry_after(10);
    if ui.is_stopped() {
        return Err(full().into());
    }
    let place = Arc::clone(&ui.0.room).try_acquire_owned().map_err(|_| full())?;
    let query = uri.query().unwrap_or_default().as_bytes();
    let after =
        form_urlencoded::parse(query).find(|(name, _)| name == "after").map(|(_, id)| id.into_owned());
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let open = Open {
        shots: ui.pulse(),
        ui,
        viewer,
        has: last.or(after),
        greeted: false,
        gone: false,
        _place: place,
    };
    let frames = stream::unfold(open, |mut open| async move {
        open.next().await.map(|bytes| (Ok::<_, Infallible>(bytes), open))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let told = response.headers_mut();
    told.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    told.insert(UNBUFFERED, HeaderValue::from_static("no"));
    Ok(response)
}

/// One stream.
struct Open {
    ui: Ui,
    viewer: Viewer,
    shots: watch::Receiver<Option<Arc<Shot>>>,
    /// The number of what the page has.
    has: Option<String>,
    greeted: bool,
    /// It was told that its login is gone: nothing follows, and its place is free.
    gone: bool,
    _place: OwnedSemaphorePermit,
}

impl Open {
    /// What is sent next; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.greeted, true) {
            return Some(Bytes::from(format!("retry: {AGAIN_MS}\n: here\n\n")));
        }
        loop {
            if self.gone || self.ui.is_stopped() {
                return None;
            }
            let shot = self.shots.borrow_and_update().clone();
            if let Some(shot) = shot
                && self.has.as_deref() != Some(self.ui.id_of(&shot).as_str())
            {
                self.has = Some(self.ui.id_of(&shot));
                if !self.may_still_look().await? {
                    self.gone = true;
                    return Some(Bytes::from_static(b"event: gone\ndata: \n\n"));
                }
                return Some(self.ui.frames(&shot).await);
            }
            tokio::select! {
                biased;
                () = self.ui.stopped() => return None,
                changed = self.shots.changed() => changed.ok()?,
                () = self.ui.0.clock.sleep(HEARTBEAT) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }

    /// Is the login good still? `None` while the database cannot say so: the browser comes again.
    async fn may_still_look(&self) -> Option<bool> {
        let known = &self.viewer.0;
        match self.ui.0.intake.authorise(&known.credentials, Scope::Operate).await {
            Ok(caller) if caller.now >= known.until => Some(false),
            Ok(_) => self.ui.has_ended(&known.login).await.ok().map(|ended| !ended),
            Err(problem) if matches!(problem.code, Code::Unauthenticated | Code::MissingScope) => Some(false),
            Err(_) => None,
        }
    }
}

impl Ui {
    /// Names a look of this process; another process, or this one after a restart, has others.
    fn id_of(&self, shot: &Shot) -> String {
        format!("{}-{}", self.0.run, shot.number)
    }

    /// The event of a look, written by the first who asks for it.
    async fn frames(&self, shot: &Shot) -> Bytes {
        if let Some(written) = shot.written.get() {
            return written.clone();
        }
        let problems = Problems { found: self.problems().await };
        let banner = text::written(&Banner { problems: &problems }).to_string();
        let body = json!({
            "problems": banner,
            "now": overview::now(&shot.seen, self.0.intake.account()).to_string(),
            "minutes": overview::minutes(&shot.seen).to_string(),
        });
        // JSON has no bare line break.
        let event = format!("id: {}\nevent: look\ndata: {body}\n\n", self.id_of(shot));
        shot.written.get_or_init(|| Bytes::from(event)).clone()
    }
}
