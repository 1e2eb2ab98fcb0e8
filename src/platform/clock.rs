//! Time as a parameter. The simulation hands in virtual time; everything else hands in [`Host`].

use crate::domain::lease::Mono;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// The only source of time for stages, workers, relays and keepers.
pub trait Clock: Send + Sync + 'static {
    /// The host's wall clock.
    fn wall(&self) -> DateTime<Utc>;
    /// The host's suspend-counting monotonic clock.
    fn mono(&self) -> Mono;
    /// Sleeps on the monotonic clock.
    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()>;
}

/// A clock that can be shared.
pub type SharedClock = Arc<dyn Clock>;

/// What `work` comes to within `limit` on this clock; `None` after that, and it is given up where it stands. Never
/// for what must not be cut short: a transaction's begin or commit.
pub async fn within<T>(clock: &dyn Clock, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = clock.sleep(limit) => None,
    }
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

impl Clock for Host {
    fn wall(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn mono(&self) -> Mono {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        Mono(Duration::new(seconds, nanos))
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(length))
    }
}
