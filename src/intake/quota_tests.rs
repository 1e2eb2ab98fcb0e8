//! Limits on a clock that the tests move.

use super::*;
use crate::platform::clock::Clock;
use axum::http::HeaderMap;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Stands until it is moved.
#[derive(Debug, Default)]
struct Stopped(AtomicU64);

impl Stopped {
    fn pass(&self, length: Duration) {
        self.0.fetch_add(u64::try_from(length.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for Stopped {
    fn wall(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    fn mono(&self) -> Mono {
        Mono(Duration::from_millis(1_000_000 + self.0.load(Ordering::Relaxed)))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

fn limit<K: Hash + Eq + Clone>(quota: Quota) -> (Arc<Stopped>, Limit<K>) {
    let clock = Arc::new(Stopped::default());
    let shared: SharedClock = clock.clone();
    (clock, Limit::new("actor", quota, &shared))
}

fn a_second(rate: u32) -> Quota {
    Quota::per_second(NonZeroU32::new(rate).unwrap())
}

fn actor(number: u128) -> ActorId {
    ActorId(Uuid::from_u128(number))
}

fn from(last: u8) -> Origin {
    let peer = SocketAddr::from(([192, 0, 2, last], 1));
    origin(Some(Peer(peer)), &HeaderMap::new(), &[])
}

#[test]
fn a_second_s_worth_is_taken_at_once_and_then_as_it_comes_back() {
    let (clock, limit) = limit::<ActorId>(a_second(5));
    let left: Vec<_> = (0..6).map(|_| limit.take(&actor(1))).collect();
    assert_eq!(left[..5], [Ok(4), Ok(3), Ok(2), Ok(1), Ok(0)]);
    let wait = left[5].unwrap_err();
    assert!(wait > Duration::ZERO && wait <= Duration::from_millis(200), "{wait:?}");
    assert!(limit.take(&actor(2)).is_ok(), "another's is untouched");
    clock.pass(Duration::from_millis(200));
    assert!(limit.take(&actor(1)).is_ok());
    assert!(limit.take(&actor(1)).is_err());
    clock.pass(Duration::from_secs(10));
    assert_eq!(limit.take(&actor(1)), Ok(4), "no more than a second's worth is saved");
}

#[test]
fn what_is_remembered_is_bounded_and_a_flood_of_strangers_shares_one_place() {
    let (clock, limit) = limit::<ActorId>(a_second(2));
    let known = actor(1);
    assert!(limit.take(&known).is_ok() && limit.take(&known).is_ok() && limit.take(&known).is_err());
    for number in 2..=MOST_KEYS as u128 {
        assert!(limit.take(&actor(number)).is_ok());
    }
    assert_eq!(limit.each.len(), MOST_KEYS);
    let strangers = (0..100).filter(|number| limit.take(&actor(1_000_000 + number)).is_ok()).count();
    assert_eq!((strangers, limit.each.len()), (2, MOST_KEYS));
    clock.pass(Duration::from_secs(5));
    assert!(limit.take(&actor(2_000_000)).is_ok() && limit.take(&known).is_ok());
    assert!(limit.each.len() < 10, "who is rested is forgotten");
}

#[test]
fn an_address_with_too_many_failures_is_refused_until_the_next_one_is_due() {
    let clock = Arc::new(Stopped::default());
    let shared: SharedClock = clock.clone();
    let api = Api { failed_auth_per_address: 60, ..Api::default() };
    let quotas = Quotas::new(&api, &shared);
    let failures = quotas.failures.as_ref().unwrap();
    for _ in 0..60 {
        assert!(failures.admit(from(1)).is_ok());
        failures.count(from(1));
    }
    assert!(failures.admit(from(1)).is_ok(), "exactly the limit is no more than it");
    failures.count(from(1));
    let problem = failures.admit(from(1)).unwrap_err();
    assert_eq!((problem.code, problem.code.http(), problem.retry_after_s), (Code::RateLimited, 429, Some(1)));
    assert!(failures.admit(from(2)).is_ok(), "another address is another matter");
    clock.pass(Duration::from_secs(1));
    assert!(failures.admit(from(1)).is_ok());
    failures.count(from(1));
    failures.count(from(1));
    assert!(failures.admit(from(1)).is_err());
}

#[test]
fn no_limit_is_the_default_for_good_requests_and_failures_have_one() {
    let shared: SharedClock = Arc::new(Stopped::default());
    let quotas = Quotas::new(&Api::default(), &shared);
    assert!(quotas.per_actor.is_none() && quotas.per_address.is_none() && quotas.failures.is_some());
    let none = Api { failed_auth_per_address: 0, ..Api::default() };
    assert!(Quotas::new(&none, &shared).failures.is_none());
}

#[test]
fn the_headers_are_structured_fields_and_stand_only_where_there_is_a_limit() {
    let asked = Asked { origin: from(1), told: Mutex::default() };
    let mut headers = HeaderMap::new();
    asked.stamp(&mut headers);
    assert!(headers.is_empty());
    asked.tell(Told { limit: "address", a_second: 100, left: 99 });
    asked.tell(Told { limit: "actor", a_second: 10, left: 0 });
    asked.stamp(&mut headers);
    assert_eq!(headers[POLICY], "\"address\";q=100;w=1, \"actor\";q=10;w=1");
    assert_eq!(headers[LEFT], "\"address\";r=99;t=1, \"actor\";r=0;t=1");
}

#[test]
fn who_asks_outside_a_request_is_not_counted() {
    let shared: SharedClock = Arc::new(Stopped::default());
    let api = Api { rate_per_actor: 1, ..Api::default() };
    let quotas = Quotas::new(&api, &shared);
    assert!(quotas.admit_actor(actor(1)).is_ok() && quotas.admit_actor(actor(1)).is_ok());
    assert!(quotas.admit_stranger().is_ok());
}
