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

mod act;
mod actor;
mod address;
mod api_keys;
mod batch;
mod batch_places;
mod callback;
mod cancel;
mod canonical;
mod caps;
mod card;
mod create;
mod crew;
mod cursor;
mod docs;
mod envelope;
mod events;
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
mod opening;
mod openapi;
mod overview;
mod outflow;
mod parameters;
mod problem;
mod proof;
mod quota;
mod read;
mod routes;
mod rules;
mod serve;
mod signature;
mod stream;
mod token;
mod uses;
mod webhooks;
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
pub use api_keys::LONGEST_OVERLAP;
pub(crate) use cancel::refusal as cancel_refusal;
pub use crew::Survey;
pub use forecast::{Account, forecast_as_json};
pub(crate) use form::{Form, Pairs};
pub(crate) use headers::idempotency_key;
pub use key::{ApiKey, KeyMode, NotAKey};
pub(crate) use limits::{Arrival, read_form, trouble};
pub use openapi::{Answer, Operation, Parameter, Place, document, operations};
pub use opening::Opening;
pub use problem::{Code, FieldError, Parts, Problem, Retryable};
pub(crate) use quota::Attempts;
pub(crate) use routes::routes;
pub use routes::{Needs, ROUTES, Route};
pub use rules::Terms;
pub use serve::{CannotListen, Limits, listen, serve};
pub use token::{CannotTakeTokens, Tokens};
pub use wire::CREATION_RENDERING;
pub(crate) use wire::{history as history_as_json, standing as standing_as_json, utc};

use crate::domain::ids::GatewayName;
use crate::domain::lease::Mono;
use crate::platform::clock::SharedClock;
use crate::platform::config::{self, Api};
use crate::platform::dice::SharedDice;
use crate::platform::metrics;
use crate::schedule::{Postgres, TokenActor};
use actor::{Credential, KeyCache, Known};
use axum::Router;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;
use token::InTime;
use tokio::sync::watch;

/// Everything a request needs. Cheap to clone.
#[derive(Clone)]
pub struct Intake {
    schedule: Postgres,
    clock: SharedClock,
    dice: SharedDice,
    terms: Arc<Terms>,
    keys: Arc<KeyCache>,
    uses: Arc<uses::Uses>,
    quotas: Arc<quota::Quotas>,
    request_timeout: Duration,
    /// What was counted last, for whoever asks next.
    counted: Arc<forecast::Counted>,
    account: Arc<Account>,
    /// What was read of the last hour, for whoever asks next.
    pulse: Arc<overview::Read>,
    /// Boxed away, because hardly any installation has one.
    sender: Arc<Option<callback::Sender>>,
    tokens: Option<Arc<Tokens>>,
    /// Places for batches that are read at once.
    batches: Arc<batch_places::Places>,
    /// What streams of events share.
    hub: Arc<stream::Hub>,
    most_streams: usize,
    /// What looks into the ring, where this process can.
    ring: Option<Arc<dyn Survey>>,
    /// What was seen there last.
    surveyed: Arc<crew::Surveyed>,
    /// What endpoints of webhooks may be.
    hooks: Arc<webhooks::HookTerms>,
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
            quotas: Arc::new(quota::Quotas::new(api, &clock)),
            schedule,
            clock,
            dice,
            terms: Arc::new(terms),
            keys: Arc::new(KeyCache::new(api.key_cache)),
            uses: Arc::default(),
            request_timeout: api.request_timeout,
            counted: Arc::default(),
            account: Arc::default(),
            pulse: Arc::default(),
            sender: Arc::default(),
            tokens: None,
            batches: Arc::default(),
            hub: Arc::new(stream::Hub::new(api.max_streams, None)),
            most_streams: api.max_streams,
            ring: None,
            surveyed: Arc::default(),
            hooks: Arc::new(webhooks::HookTerms::of(&config::Webhooks::default())),
        }
    }

    /// From now on endpoints of webhooks are judged by these settings.
    #[must_use]
    pub fn with_webhooks(self, settings: &config::Webhooks) -> Self {
        Self { hooks: Arc::new(webhooks::HookTerms::of(settings)), ..self }
    }

    /// From now on the tokens of this identity provider are taken beside keys.
    #[must_use]
    pub fn with_tokens(self, tokens: Option<Arc<Tokens>>) -> Self {
        Self { tokens, ..self }
    }

    /// From now on streams of events end when this turns true, or its sender is gone.
    #[must_use]
    pub fn ending_streams_at(self, stop: watch::Receiver<bool>) -> Self {
        Self { hub: Arc::new(stream::Hub::new(self.most_streams, Some(stop))), ..self }
    }

    /// From now on the ring can be looked at.
    #[must_use]
    pub fn surveying(self, ring: Arc<dyn Survey>) -> Self {
        Self { ring: Some(ring), ..self }
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
            .with_state(self.clone())
            .merge(beside)
            .fallback(|| async { Problem::new(Code::RouteNotFound) })
            .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed) })
            .layer(axum::middleware::from_fn(parameters::guard))
            .layer(axum::middleware::from_fn_with_state(self, quota::guard))
            .layer(axum::middleware::from_fn_with_state(envelope, envelope::wrap))
    }

    /// The clients' routes as a stage beside this one asks them: within this process, a refusal in the answer's
    /// extensions, without a line in the log or a limit of addresses of their own.
    pub(crate) fn bare(&self) -> Router {
        routes::router().with_state(self.clone())
    }

    /// The actor behind the request's key or token, and the time.
    ///
    /// # Errors
    /// 401, 403, 429, or 503 if the database cannot be asked.
    pub(crate) async fn authorise(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Problem> {
        let caller = self.caller_of(headers, scope).await.inspect_err(|problem| match problem.code {
            Code::MissingScope => metrics::AUTHENTICATIONS_REFUSED.add(1, ["forbidden"]),
            Code::Unauthenticated => {
                metrics::AUTHENTICATIONS_REFUSED.add(1, ["unauthenticated"]);
                self.quotas.count_failure();
            }
            // The database was away, or there were too many: nothing was judged.
            _ => {}
        })?;
        self.quotas.admit_actor(caller.actor.id)?;
        if let Some(key) = caller.key_id {
            self.uses.note(key, self.clock.mono(), &self.schedule);
        }
        tracing::Span::current().record("actor", tracing::field::display(caller.actor.id.0));
        Ok(caller)
    }

    async fn caller_of(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Problem> {
        let credential = match actor::bearer(headers) {
            Ok(credential) => credential,
            Err(problem) => {
                self.quotas.admit_stranger()?;
                return Err(problem);
            }
        };
        let hash = credential.hash();
        let asked_at = self.clock.mono();
        let known = match self.keys.get(&hash, asked_at) {
            Some(known) => Some(known),
            None => {
                // Who was confirmed before is looked at again whatever others at the same address do.
                if !self.keys.has_seen(&hash) {
                    self.quotas.admit_stranger()?;
                }
                let found = self.look_up(&credential, asked_at).await?;
                match &found {
                    Some(known) => self.keys.put(hash, known.clone()),
                    None => self.keys.forget_hash(&hash),
                }
                found
            }
        };
        actor::permit(known, scope, self.clock.mono())
    }

    async fn look_up(&self, credential: &Credential, asked_at: Mono) -> Result<Option<Known>, Problem> {
        match credential {
            Credential::Key(key) => {
                let found = self.schedule.api_key(&key.hash()).await.map_err(limits::trouble)?;
                Ok(found.map(|record| Known::of_key(record, asked_at, self.clock.mono())))
            }
            Credential::Token(text) => {
                let Some(tokens) = self.tokens.as_ref() else { return Ok(None) };
                let Some(told) = tokens.read(text.expose_secret()).await? else { return Ok(None) };
                let asked = TokenActor {
                    new_actor: self.dice.claim_id().0,
                    name: told.actor.clone(),
                    not_before: told.not_before,
                    ends_at: told.ends_at,
                };
                let found = self.schedule.actor_of_token(asked).await.map_err(limits::trouble)?;
                tokens.count(if found.is_some() { InTime::Yes } else { InTime::No });
                let asked = (asked_at, self.clock.mono());
                Ok(found.map(|(actor, now)| Known::of_token(told, actor, now, asked)))
            }
        }
    }
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
