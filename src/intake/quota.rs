//! How many requests are taken: from one actor, from one address, and from an address whose keys are wrong.
//!
//! **Promises.** Each limit is a rate with one second's worth at once (GCRA, by the `governor` crate), counted in
//! this process alone. What is remembered is bounded: past [`MOST_KEYS`] those that are rested are forgotten, and
//! whoever still finds no room shares one place with the others. A refusal is 429 `rate_limited` with
//! `Retry-After`; where a limit is set, every answer under `/v1/` says how much of it is left, as
//! draft-ietf-httpapi-ratelimit-headers-10 has it.
//!
//! **Wrong keys** cost the database a question each, so an address has `api.failed_auth_per_address` of them a
//! minute; past that, keys and tokens that were not confirmed before are refused without a question. A
//! client that is at work keeps working, also behind an address that somebody else abuses.
//!
//! **Why in memory**: a limit that is exact over all processes would make each request write. With `n` of
//! them an actor has up to `n` times its rate. If this dies here, all begin anew with a full second.

use super::Intake;
use super::address::{Origin, Peer, origin};
use super::problem::{Code, Problem};
use crate::domain::ids::ActorId;
use crate::domain::lease::Mono;
use crate::platform::clock::SharedClock;
use crate::platform::config::Api;
use crate::platform::metrics;
use axum::extract::{Request, State};
use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use ipnet::IpNet;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most actors or addresses that a limit remembers.
const MOST_KEYS: usize = 10_000;
/// `RateLimit-Policy`
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// `RateLimit`
const LEFT: HeaderName = HeaderName::from_static("ratelimit");

tokio::task_local! {
    /// The request that is being answered, for whoever authorises it: handlers know headers only.
    static ASKED: Arc<Asked>;
}

/// What is known of a request's limits so far.
#[derive(Debug)]
struct Asked {
    origin: Origin,
    told: Mutex<Vec<Told>>,
}

/// One limit and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    limit: &'static str,
    a_second: u32,
    left: u32,
}

impl Asked {
    fn tell(&self, told: Told) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }

    /// Writes the two headers, if there is anything to say.
    fn stamp(&self, headers: &mut HeaderMap) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_empty() {
            return;
        }
        let list = |one: &dyn Fn(&Told) -> String| told.iter().map(one).collect::<Vec<_>>().join(", ");
        let policy = list(&|told| format!("\"{}\";q={};w=1", told.limit, told.a_second));
        let left = list(&|told| format!("\"{}\";r={};t=1", told.limit, told.left));
        for (name, text) in [(POLICY, policy), (LEFT, left)] {
            // Letters, digits and punctuation of ours: always a legal header value.
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(name, value);
            }
        }
    }
}

/// The limits of one process.
#[derive(Debug)]
pub(super) struct Quotas {
    per_actor: Option<Limit<ActorId>>,
    per_address: Option<Limit<Origin>>,
    failures: Option<Failures>,
    trusted: Vec<IpNet>,
}

impl Quotas {
    /// As configured; a rate of 0 is no limit.
    pub(super) fn new(api: &Api, clock: &SharedClock) -> Self {
        let a_second = |rate: u32| NonZeroU32::new(rate).map(Quota::per_second);
        let a_minute = NonZeroU32::new(api.failed_auth_per_address).map(Quota::per_minute);
        Self {
            per_actor: a_second(api.rate_per_actor).map(|quota| Limit::new("actor", quota, clock)),
            per_address: a_second(api.rate_per_address).map(|quota| Limit::new("address", quota, clock)),
            failures: a_minute.map(|quota| Failures {
                limit: Limit::new("failures", quota, clock),
                until: Mutex::default(),
                clock: Arc::clone(clock),
            }),
            trusted: api.trusted_proxies.clone(),
        }
    }

    /// Counts a request of this actor.
    ///
    /// # Errors
    /// 429
    pub(super) fn admit_actor(&self, actor: ActorId) -> Result<(), Problem> {
        let Some(limit) = &self.per_actor else { return Ok(()) };
        // Outside a request there is nobody to tell.
        ASKED.try_with(|asked| limit.admit(&actor, asked)).unwrap_or(Ok(()))
    }

    fn admit_address(&self, asked: &Asked) -> Result<(), Problem> {
        self.per_address.as_ref().map_or(Ok(()), |limit| limit.admit(&asked.origin, asked))
    }

    /// A key or token was refused: counts for its address.
    pub(super) fn count_failure(&self) {
        if let Some(failures) = &self.failures {
            let _ = ASKED.try_with(|asked| failures.count(asked.origin));
        }
    }

    /// May a key or token that nobody confirmed so far be looked at?
    ///
    /// # Errors
    /// 429 while its address has too many failures.
    pub(super) fn admit_stranger(&self) -> Result<(), Problem> {
        let Some(failures) = &self.failures else { return Ok(()) };
        ASKED.try_with(|asked| failures.admit(asked.origin)).unwrap_or(Ok(()))
    }
}

/// What is limited; health, metrics and documents are not.
const LIMITED: [&str; 2] = ["/v1/", "/ui"];

/// Around every route of clients and operators: counts the request for its address, and lets whoever authorises it
/// know where it is from.
pub(super) async fn guard(State(intake): State<Intake>, request: Request, next: Next) -> Response {
    if !LIMITED.iter().any(|limited| request.uri().path().starts_with(limited)) {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Peer>().copied();
    let origin = origin(peer, request.headers(), &intake.quotas.trusted);
    let asked = Arc::new(Asked { origin, told: Mutex::default() });
    let mut response = match intake.quotas.admit_address(&asked) {
        Ok(()) => ASKED.scope(Arc::clone(&asked), next.run(request)).await,
        Err(problem) => problem.into_response(),
    };
    asked.stamp(response.headers_mut());
    response
}

/// 429, to be repeated after so long.
pub(super) fn too_many(limit: &'static str, wait: Duration) -> Problem {
    metrics::REQUESTS_LIMITED.add(1, [limit]);
    // Whole seconds, rounded up, at least one; no wait here is longer than a minute.
    let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1);
    Problem::new(Code::RateLimited).retry_after(seconds)
}

/// Attempts of people to log in, so many a minute from one address: a form invites guesses as no header does.
#[derive(Debug)]
pub(crate) struct Attempts(Limit<Origin>);

impl Attempts {
    pub(crate) fn new(a_minute: NonZeroU32, clock: &SharedClock) -> Self {
        Self(Limit::new("logins", Quota::per_minute(a_minute), clock))
    }

    /// Counts one of the request that is being answered.
    ///
    /// # Errors
    /// 429
    pub(crate) fn admit(&self) -> Result<(), Problem> {
        // Outside a request there is nobody to count for.
        let taken = ASKED.try_with(|asked| self.0.take(&asked.origin)).unwrap_or(Ok(0));
        taken.map(|_| ()).map_err(|wait| too_many(self.0.name, wait))
    }
}

/// The clock as the limiter reads it.
#[derive(Clone)]
struct Ticks(SharedClock);

impl governor::clock::Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.mono().0
    }
}

type Keyed<K> = RateLimiter<K, HashMapStateStore<K>, Ticks, StateInformationMiddleware>;

/// One rate for each key.
struct Limit<K: Hash + Eq + Clone> {
    name: &'static str,
    quota: Quota,
    each: Keyed<K>,
    /// Of all who find no room.
    shared: Keyed<()>,
    clock: SharedClock,
}

impl<K: Hash + Eq + Clone> Limit<K> {
    fn new(name: &'static str, quota: Quota, clock: &SharedClock) -> Self {
        let ticks = || Ticks(Arc::clone(clock));
        Self {
            name,
            quota,
            each: RateLimiter::new(quota, HashMapStateStore::default(), ticks()),
            shared: RateLimiter::new(quota, HashMapStateStore::default(), ticks()),
            clock: Arc::clone(clock),
        }
    }

    /// What is left, or how long to wait.
    fn take(&self, key: &K) -> Result<u32, Duration> {
        if self.each.len() >= MOST_KEYS {
            self.each.retain_recent();
        }
        // The bound is passed by no more than requests that are here at once.
        let taken =
            if self.each.len() < MOST_KEYS { self.each.check_key(key) } else { self.shared.check_key(&()) };
        match taken {
            Ok(state) => Ok(state.remaining_burst_capacity()),
            Err(until) => Err(until.wait_time_from(self.clock.mono().0)),
        }
    }

    fn admit(&self, key: &K, asked: &Asked) -> Result<(), Problem> {
        let taken = self.take(key);
        let left = *taken.as_ref().unwrap_or(&0);
        asked.tell(Told { limit: self.name, a_second: self.quota.burst_size().get(), left });
        taken.map(|_| ()).map_err(|wait| too_many(self.name, wait))
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for Limit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit").field("name", &self.name).field("quota", &self.quota).finish_non_exhaustive()
    }
}

/// Failures of each address, and those that have had too many.
struct Failures {
    limit: Limit<Origin>,
    until: Mutex<HashMap<Origin, Mono>>,
    clock: SharedClock,
}

impl Failures {
    fn count(&self, origin: Origin) {
        if let Err(wait) = self.limit.take(&origin) {
            let now = self.clock.mono();
            let mut until = self.until();
            if until.len() >= MOST_KEYS {
                until.retain(|_, at| at.0 > now.0);
            }
            // With no room left the database answers: it is a question more, and no harm.
            if until.len() < MOST_KEYS {
                until.insert(origin, Mono(now.0 + wait));
            }
        }
    }

    fn admit(&self, origin: Origin) -> Result<(), Problem> {
        let now = self.clock.mono();
        let wait = self.until().get(&origin).map_or(Duration::ZERO, |at| at.0.saturating_sub(now.0));
        if wait.is_zero() { Ok(()) } else { Err(too_many(self.limit.name, wait)) }
    }

    fn until(&self) -> MutexGuard<'_, HashMap<Origin, Mono>> {
        // A panic while the lock was held leaves a map that is still whole.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limit.fmt(f)
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
