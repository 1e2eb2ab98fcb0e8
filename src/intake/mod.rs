//! Stage 1, intake: the REST interface, where a client's wish becomes a durable payment or nothing.
//!
//! **Promises.** A 201 means committed: payment, idempotency key, history and due notice in one
//! transaction. The same key never makes a second payment, whatever was lost on the way. Nothing
//! is accepted that a later stage could not carry out: amounts are integers, times have offsets,
//! currencies and gateways are known. No card number gets past this stage, and neither keys nor
//! payees get into a log.
//!
//! **Relies on** `schedule::Postgres` alone; it holds no state but a cache of API keys.
//!
//! **Why this way.** `wire` (shape) → `rules` (permission) → `canonical` (identity) are pure
//! functions from bytes to [`NewPayment`](crate::schedule::NewPayment), so every row of the
//! interface's table is tested without a database. One verb of the schedule does the rest.
//!
//! **If this dies here:** before the commit nothing happened; after it the payment exists and the
//! client's repetition gets the answer that was lost.

mod actor;
mod callback;
mod cancel;
mod canonical;
mod card;
mod create;
mod cursor;
mod envelope;
mod filters;
mod forecast;
mod form;
mod headers;
mod history;
mod instant;
mod key;
mod limits;
mod list;
mod node;
mod problem;
mod read;
mod routes;
mod rules;
mod serve;
mod signature;
mod wire;

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod chaos_tests;
#[cfg(test)]
mod request_tests;
#[cfg(test)]
mod window_tests;

pub(crate) use actor::Caller;
pub use actor::{Scope, actor_name};
pub use forecast::{Account, forecast_as_json};
pub(crate) use form::{Form, Pairs};
pub(crate) use headers::idempotency_key;
pub use key::{ApiKey, KeyMode, NotAKey};
pub(crate) use limits::trouble;
pub use problem::{Code, FieldError, Parts, Problem, Retryable};
pub use routes::{Needs, ROUTES, Route};
pub use rules::Terms;
pub use serve::{CannotListen, Limits, listen, serve};
pub use wire::CREATION_RENDERING;
pub(crate) use wire::utc;

use crate::domain::ids::GatewayName;
use crate::platform::clock::SharedClock;
use crate::platform::config::{self, Api};
use crate::platform::dice::SharedDice;
use crate::platform::metrics;
use crate::schedule::Postgres;
use actor::{KeyCache, Known};
use axum::Router;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;

/// Everything a request needs. Cheap to clone.
#[derive(Clone)]
pub struct Intake {
    schedule: Postgres,
    clock: SharedClock,
    dice: SharedDice,
    terms: Arc<Terms>,
    keys: Arc<KeyCache>,
    request_timeout: Duration,
    /// What was counted last, for whoever asks next.
    counted: Arc<forecast::Counted>,
    account: Arc<Account>,
    /// Boxed away, because hardly any installation has one.
    sender: Arc<Option<callback::Sender>>,
}

impl Intake {
    /// Puts the stage together; `gateways` are the configured ones, the default first.
    #[must_use]
    pub fn new(
        schedule: Postgres,
        clock: SharedClock,
        dice: SharedDice,
        api: &Api,
        gateways: Vec<GatewayName>,
    ) -> Self {
        let terms = Terms {
            horizon: api.horizon,
            due_grace: api.due_grace,
            max_amount_minor: api.max_amount_minor,
            gateways,
            execute_within: None,
        };
        Self {
            schedule,
            clock,
            dice,
            terms: Arc::new(terms),
            keys: Arc::new(KeyCache::new(api.key_cache)),
            request_timeout: api.request_timeout,
            counted: Arc::default(),
            account: Arc::default(),
            sender: Arc::default(),
        }
    }

    /// From now on the callbacks of this gateway are taken, if it has a secret for them.
    #[must_use]
    pub fn with_callbacks(self, gateway: &config::Gateway) -> Self {
        Self { sender: Arc::new(callback::Sender::of(gateway)), ..self }
    }

    /// From now on payments that name no window of their own are spread over this gateway's, and the
    /// forecast knows its permitted rate.
    #[must_use]
    pub fn spreading(self, gateway: &config::Gateway) -> Self {
        let terms = Terms { execute_within: gateway.execute_within, ..(*self.terms).clone() };
        Self { terms: Arc::new(terms), account: Arc::new(Account::of(gateway)), ..self }
    }

    /// Every route, each answer wrapped; `beside` is what else this process serves, such as health
    /// and metrics, without API keys.
    pub fn router(self, beside: Router) -> Router {
        let envelope = envelope::Envelope {
            clock: self.clock.clone(),
            dice: self.dice.clone(),
            request_timeout: self.request_timeout,
        };
        routes::router()
            .with_state(self)
            .merge(beside)
            .fallback(|| async { Problem::new(Code::RouteNotFound) })
            .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed) })
            .layer(axum::middleware::from_fn_with_state(envelope, envelope::wrap))
    }

    /// The actor behind the request's key, and the time.
    ///
    /// # Errors
    /// 401, 403, or 503 if the database cannot be asked.
    pub(crate) async fn authorise(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Problem> {
        let caller = self.caller_of(headers, scope).await.inspect_err(|problem| match problem.code {
            Code::MissingScope => metrics::AUTHENTICATIONS_REFUSED.add(1, ["forbidden"]),
            Code::Unauthenticated => metrics::AUTHENTICATIONS_REFUSED.add(1, ["unauthenticated"]),
            // The database was away: nothing was refused.
            _ => {}
        })?;
        tracing::Span::current().record("actor", tracing::field::display(caller.actor.id.0));
        Ok(caller)
    }

    async fn caller_of(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Problem> {
        let hash = actor::bearer(headers)?.hash();
        let asked_at = self.clock.mono();
        let known = match self.keys.get(&hash, asked_at) {
            Some(known) => Some(known),
            None => {
                let found = self.schedule.api_key(&hash).await.map_err(limits::trouble)?;
                let found = found.map(|record| Known::new(record, asked_at, self.clock.mono()));
                if let Some(known) = &found {
                    self.keys.put(hash, known.clone());
                }
                found
            }
        };
        actor::permit(known, scope, self.clock.mono())
    }
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
