//! What an interface answers from its first moment: health, and for everything else that the schedule is not there
//! yet, until the whole of it is opened.
//!
//! An API whose database is away when it starts is alive: whoever restarts what is not alive would only make it late
//! for the database's return. Its port is taken by then, so the clients have somebody who tells them to come again.
//!
//! If this dies, the process does.

use super::envelope;
use super::problem::{Code, Problem};
use crate::platform::clock::SharedClock;
use crate::platform::config::Api;
use crate::platform::dice::SharedDice;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use std::sync::{Arc, OnceLock};
use tower::ServiceExt;

/// For the clients of an interface that has not begun.
const COME_AGAIN_S: u32 = 2;

/// An interface that is closed until it is opened.
#[derive(Debug, Clone)]
pub struct Opening {
    whole: Arc<OnceLock<Router>>,
}

impl Opening {
    /// What is served from now on: health, and the rest once it is opened.
    pub fn with(health: Router, api: &Api, clock: SharedClock, dice: SharedDice) -> (Self, Router) {
        let opening = Self { whole: Arc::default() };
        let envelope = envelope::Envelope { clock, dice, request_timeout: api.request_timeout };
        let closed = health
            .fallback(|| async { Problem::new(Code::DatabaseUnavailable).retry_after(COME_AGAIN_S) })
            .layer(axum::middleware::from_fn_with_state(envelope, envelope::wrap));
        let served = Router::new().fallback(answer).with_state((opening.clone(), closed));
        (opening, served)
    }

    /// From here on this answers everything.
    pub fn open(&self, whole: Router) {
        self.whole.get_or_init(|| whole);
    }
}

async fn answer(State((opening, closed)): State<(Opening, Router)>, request: Request) -> Response {
    let app = opening.whole.get().unwrap_or(&closed).clone();
    let Ok(answer) = app.oneshot(request).await;
    answer
}
