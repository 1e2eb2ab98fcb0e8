//! Who is asking, and may they?
//!
//! A key is checked by its checksum before anything else, then by its hash: in a cache that believes
//! a key for [`key_cache`](crate::platform::config::Api), and in the database otherwise. So a
//! revoked key works for at most that long (under 5 s), and a key that expires stops at once, because
//! the expiry is looked at on every request. Refusals are not cached: a key that was just made works.
//!
//! **The time is the database's too.** Its answer about a key carries its clock, and the host's
//! monotonic clock counts on from there. A host whose wall clock is wrong would refuse good due times
//! as past, and keys that are still valid; here it decides nothing.
//!
//! If the database is away and the cache has forgotten, the answer is 503 and never 401: a client
//! must not throw away a good key because of our outage.

use super::card::holds_card_number;
use super::key::ApiKey;
use super::problem::{Code, Problem};
use super::token::Told;
use crate::domain::ids::Operator;
use crate::domain::lease::Mono;
use crate::schedule::{Actor, ApiKeyRecord};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// What a route needs of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// `payments:read`
    Read,
    /// `payments:write`
    Write,
    /// `ops:read`: what concerns all clients together.
    Operate,
    /// `ops:redrive`: to release, resolve and refuse parked payments.
    Redrive,
    /// `ops:refund`
    Refund,
    /// `ops:approve`: to be the second person.
    Approve,
    /// `gateways:write`: to pause gateways and to throw kill switches.
    Gateways,
    /// `admin`: keys and caps. It implies none of the others.
    Admin,
}

/// Reads an actor's name as a person gave it.
///
/// # Errors
/// What a name is, for one that is none.
pub fn actor_name(text: &str) -> Result<String, &'static str> {
    let fits = (1..=100).contains(&text.chars().count())
        && !text.chars().any(char::is_control)
        && text.trim() == text
        && !holds_card_number(text);
    if fits {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 100 characters on one line, no space at its ends and no card number in it")
    }
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Operate,
        Self::Redrive,
        Self::Refund,
        Self::Approve,
        Self::Gateways,
        Self::Admin,
    ];
    /// Those of a client that pays.
    pub const OF_CLIENTS: [Self; 2] = [Self::Read, Self::Write];

    /// Its text in `keys create` and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "payments:read",
            Self::Write => "payments:write",
            Self::Operate => "ops:read",
            Self::Redrive => "ops:redrive",
            Self::Refund => "ops:refund",
            Self::Approve => "ops:approve",
            Self::Gateways => "gateways:write",
            Self::Admin => "admin",
        }
    }
}

/// Most keys remembered; past it the cache starts again, which costs one look-up a key.
const MOST_KEYS: usize = 10_000;

/// Who was confirmed, as the database gave it: by a key, or by a token.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// None of a token.
    key_id: Option<Uuid>,
    actor: Actor,
    operator: Operator,
    scopes: Vec<String>,
    expires_at: Option<DateTime<Utc>>,
    database_now: DateTime<Utc>,
    asked_at: Mono,
    answered_at: Mono,
}

impl Known {
    /// A key's record, with the instants right before the question and right after its answer.
    pub(super) fn of_key(record: ApiKeyRecord, asked_at: Mono, answered_at: Mono) -> Self {
        Self {
            key_id: Some(record.key_id),
            actor: record.actor,
            operator: Operator::of_key(&record.actor_name),
            scopes: record.scopes,
            expires_at: record.expires_at,
            database_now: record.database_now,
            asked_at,
            answered_at,
        }
    }

    /// What a token said and the database knows of its actor, at its clock's `database_now`.
    pub(super) fn of_token(
        told: Told,
        actor: Actor,
        database_now: DateTime<Utc>,
        (asked_at, answered_at): (Mono, Mono),
    ) -> Self {
        let Told { operator, scopes, ends_at, .. } = told;
        let expires_at = Some(ends_at);
        Self { key_id: None, actor, operator, scopes, expires_at, database_now, asked_at, answered_at }
    }

    /// The database's clock at `now`, short of it by no more than its answer's time on the way.
    fn database_now(&self, now: Mono) -> DateTime<Utc> {
        self.database_now + now.0.saturating_sub(self.answered_at.0)
    }
}

/// Who asks, and when.
#[derive(Debug)]
pub(crate) struct Caller {
    /// Whose payments these are.
    pub(crate) actor: Actor,
    /// The person, for what is written down about acts.
    pub(crate) operator: Operator,
    /// The key that was used; none with a token.
    pub(crate) key_id: Option<Uuid>,
    /// What it may do.
    pub(crate) scopes: Vec<Scope>,
    /// The database's clock.
    pub(crate) now: DateTime<Utc>,
}

/// Keys that the database confirmed a moment ago.
#[derive(Debug)]
pub(super) struct KeyCache {
    believed_for: Duration,
    keys: Mutex<HashMap<[u8; 32], Known>>,
}

impl KeyCache {
    pub(super) fn new(believed_for: Duration) -> Self {
        Self { believed_for, keys: Mutex::new(HashMap::new()) }
    }

    /// A key confirmed less than `believed_for` ago.
    pub(super) fn get(&self, hash: &[u8; 32], now: Mono) -> Option<Known> {
        // A panic while the lock was held leaves a map that is still whole.
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.get(hash)?;
        (now.0.saturating_sub(known.asked_at.0) < self.believed_for).then(|| known.clone())
    }

    /// Was it confirmed before, however long ago?
    pub(super) fn has_seen(&self, hash: &[u8; 32]) -> bool {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).contains_key(hash)
    }

    /// Forgets what turned out to be no key any more.
    pub(super) fn forget_hash(&self, hash: &[u8; 32]) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }

    /// Forgets a key that was revoked here.
    pub(super) fn forget(&self, key_id: Uuid) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|_, known| known.key_id != Some(key_id));
    }

    /// Remembers a key; the time that the database's answer took counts as age.
    pub(super) fn put(&self, hash: [u8; 32], known: Known) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MOST_KEYS {
            keys.clear();
        }
        keys.insert(hash, known);
    }
}

/// What a request shows to say who sends it.
pub(super) enum Credential {
    /// An API key with a good checksum.
    Key(ApiKey),
    /// Three parts with dots between them, not looked at yet. At most [`LONGEST_TOKEN`] bytes.
    Token(SecretString),
}

/// Longest token that is looked at, in bytes; what identity providers send fits many times.
const LONGEST_TOKEN: usize = 8 * 1024;

impl Credential {
    /// Under this it is remembered.
    pub(super) fn hash(&self) -> [u8; 32] {
        match self {
            Self::Key(key) => key.hash(),
            Self::Token(text) => Sha256::digest(text.expose_secret().as_bytes()).into(),
        }
    }
}

/// The key or token in `Authorization: Bearer …`.
///
/// # Errors
/// 401, for anything that is not exactly one well-formed key, or one text of a token's form.
pub(super) fn bearer(headers: &HeaderMap) -> Result<Credential, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Err(unauthenticated("Bearer realm=\"punctual\"")) };
    if values.next().is_some() {
        return Err(refused());
    }
    let text = value.to_str().map_err(|_| refused())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(refused)?;
    if !scheme.eq_ignore_ascii_case("Bearer") {
        return Err(refused());
    }
    let token = token.trim();
    if let Ok(key) = ApiKey::parse(token) {
        return Ok(Credential::Key(key));
    }
    let part = |text: &str| {
        !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
    };
    if token.len() > LONGEST_TOKEN || token.split('.').count() != 3 || !token.split('.').all(part) {
        return Err(refused());
    }
    Ok(Credential::Token(token.into()))
}

/// 401 for a key or token that is none, or none any more.
pub(super) fn refused() -> Problem {
    unauthenticated("Bearer realm=\"punctual\", error=\"invalid_token\"")
}

/// The actor of a confirmed key, if the key may still do this.
///
/// # Errors
/// 401 for a key that is unknown, revoked or expired; 403 for a missing scope.
pub(super) fn permit(known: Option<Known>, scope: Scope, now: Mono) -> Result<Caller, Problem> {
    let timed = known.map(|known| (known.database_now(now), known));
    let live = timed.filter(|(now, known)| known.expires_at.is_none_or(|at| *now < at));
    let Some((now, known)) = live else { return Err(refused()) };
    if !known.scopes.iter().any(|held| held == scope.as_str()) {
        let mut problem = Problem::new(Code::MissingScope)
            .detail(format!("This request needs the scope {}.", scope.as_str()));
        problem.www_authenticate = Some(format!(
            "Bearer realm=\"punctual\", error=\"insufficient_scope\", scope=\"{}\"",
            scope.as_str()
        ));
        return Err(problem);
    }
    let holds = |scope: &Scope| known.scopes.iter().any(|held| held == scope.as_str());
    let scopes = Scope::ALL.into_iter().filter(holds).collect();
    Ok(Caller { actor: known.actor, operator: known.operator, key_id: known.key_id, scopes, now })
}

fn unauthenticated(how: &str) -> Problem {
    let mut problem = Problem::new(Code::Unauthenticated);
    problem.www_authenticate = Some(how.to_owned());
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::ActorId;
    use crate::platform::dice::Os;
    use axum::http::HeaderValue;
    use chrono::TimeDelta;

    const FOUND_AT: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn at_s(second: u64) -> Mono {
        Mono(Duration::from_secs(second))
    }

    /// Asked for at 100 s and answered at 102 s of the host's clock.
    fn known(scopes: &[&str], expires_at: Option<DateTime<Utc>>) -> Known {
        let actor = Actor { id: ActorId(Uuid::nil()), default_currency: None, default_gateway: None };
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let record = ApiKeyRecord {
            key_id: Uuid::nil(),
            actor,
            actor_name: "shop".into(),
            scopes,
            expires_at,
            database_now: FOUND_AT,
        };
        Known::of_key(record, at_s(100), at_s(102))
    }

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn one_well_formed_bearer_key_is_read() {
        let key = ApiKey::generate(&Os);
        let text = key.text().expose_secret();
        for value in [format!("Bearer {text}"), format!("bearer {text}"), format!("BEARER   {text}")] {
            let Ok(read @ Credential::Key(_)) = bearer(&headers(&[&value])) else { panic!("refused") };
            assert_eq!(read.hash(), key.hash());
        }
        let token = bearer(&headers(&["Bearer aa.b_-.cc"]));
        assert!(matches!(token, Ok(Credential::Token(text)) if text.expose_secret() == "aa.b_-.cc"));
    }

    #[test]
    fn everything_else_is_401_with_a_challenge() {
        let text = ApiKey::generate(&Os).text().expose_secret().to_owned();
        let good = format!("Bearer {text}");
        let long = format!("Bearer a.{}.c", "b".repeat(LONGEST_TOKEN));
        let bad: Vec<Vec<String>> = vec![
            vec![],
            vec![String::new()],
            vec!["Bearer".into()],
            vec!["Bearer pk_live_x".into()],
            vec![format!("Basic {text}")],
            vec![text.clone()],
            vec![format!("{good}x")],
            vec!["Bearer a.b".into()],
            vec!["Bearer a.b.c.d".into()],
            vec!["Bearer a..c".into()],
            vec!["Bearer a.b=.c".into()],
            vec![long],
            vec![format!("{good}, {good}")],
            vec![good.clone(), good],
        ];
        for values in bad {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let Err(problem) = bearer(&headers(&values)) else { panic!("{values:?} is taken") };
            assert_eq!(problem.code, Code::Unauthenticated, "{values:?}");
            assert!(problem.www_authenticate.as_ref().unwrap().starts_with("Bearer realm="));
        }
    }

    #[test]
    fn scopes_and_expiry_are_looked_at_on_every_request() {
        let now = at_s(112);
        let ten_s_on = FOUND_AT + TimeDelta::seconds(10);
        assert!(permit(Some(known(&["payments:read"], None)), Scope::Read, now).is_ok());
        let later = ten_s_on + TimeDelta::microseconds(1);
        assert!(permit(Some(known(&["payments:read"], Some(later))), Scope::Read, now).is_ok());
        for (held, needed) in
            [("payments:read", Scope::Write), ("payments:write", Scope::Read), ("admin", Scope::Read)]
        {
            let problem = permit(Some(known(&[held], None)), needed, now).unwrap_err();
            assert_eq!(problem.code, Code::MissingScope);
            assert!(problem.www_authenticate.as_ref().unwrap().contains(needed.as_str()));
        }
        let expired = permit(Some(known(&["payments:read"], Some(ten_s_on))), Scope::Read, now).unwrap_err();
        let unknown = permit(None, Scope::Read, now).unwrap_err();
        assert_eq!((expired.code, unknown.code), (Code::Unauthenticated, Code::Unauthenticated));
    }

    #[test]
    fn the_time_is_the_databases_and_goes_on_by_the_hosts_monotonic_clock() {
        for (mono_s, passed_s) in [(102, 0), (105, 3), (0, 0)] {
            let caller = permit(Some(known(&["payments:read"], None)), Scope::Read, at_s(mono_s)).unwrap();
            assert_eq!(caller.now, FOUND_AT + TimeDelta::seconds(passed_s));
        }
    }

    #[test]
    fn an_actors_name_is_one_line_without_surprises() {
        for name in ["shop", "Löwenapotheke am Markt", "a.b/c:d", &"ü".repeat(100)] {
            assert_eq!(actor_name(name).as_deref(), Ok(name));
        }
        for name in ["", " ", " shop", "shop\n", "a\0b", "a\tb", "4111 1111 1111 1111", &"x".repeat(101)] {
            assert!(actor_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_cache_believes_a_key_no_longer_than_it_may() {
        let cache = KeyCache::new(Duration::from_secs(3));
        cache.put([1; 32], known(&[], None));
        assert!(cache.get(&[1; 32], at_s(102)).is_some());
        assert!(cache.get(&[1; 32], at_s(103)).is_none());
        assert!(cache.get(&[2; 32], at_s(100)).is_none());
        assert!(cache.has_seen(&[1; 32]) && !cache.has_seen(&[2; 32]));
        cache.forget(Uuid::nil());
        assert!(!cache.has_seen(&[1; 32]));
        let forgetful = KeyCache::new(Duration::ZERO);
        forgetful.put([1; 32], known(&[], None));
        assert!(forgetful.get(&[1; 32], at_s(100)).is_none());
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = KeyCache::new(Duration::from_secs(3));
        for n in 0..=MOST_KEYS {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&n.to_be_bytes());
            cache.put(hash, known(&[], None));
        }
        assert!(cache.keys.lock().unwrap().len() <= MOST_KEYS);
    }
}
