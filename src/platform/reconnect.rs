//! Waiting for infrastructure: the pauses between two tries to reach Postgres or Kafka.
//!
//! The only module that uses `backoff`. The crate is no longer maintained (RUSTSEC-2025-0012); it
//! computes pauses and nothing else here, and is easily replaced. Payment retries are never made of
//! this: when to try a payment again is a rule of the domain, written down with the payment.

use super::clock::Clock;
use super::shutdown::Shutdown;
use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;
use std::fmt;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);

/// The pauses of one connection: 0.2 s growing to 10 s, each ± 30 %, without end.
pub struct Pauses(ExponentialBackoff);

impl Default for Pauses {
    fn default() -> Self {
        Self(ExponentialBackoff {
            current_interval: FIRST,
            initial_interval: FIRST,
            multiplier: 2.0,
            randomization_factor: 0.3,
            max_interval: LONGEST,
            // Never give up: Postgres may be away for a day, and everything due then fires.
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        })
    }
}

impl fmt::Debug for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pauses({:?})", self.0.current_interval)
    }
}

impl Pauses {
    /// How long to wait before the next try.
    pub fn next_pause(&mut self) -> Duration {
        self.0.next_backoff().unwrap_or(LONGEST)
    }

    /// It worked: begin with the short pauses again.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

/// Tries until it works; `None` if shutdown was asked for first. A try in flight is never cut off: it bounds itself.
pub async fn until_connected<T, E, F>(
    what: &str,
    clock: &dyn Clock,
    shutdown: &Shutdown,
    mut connect: impl FnMut() -> F,
) -> Option<T>
where
    E: fmt::Display,
    F: Future<Output = Result<T, E>>,
{
    let mut pauses = Pauses::default();
    while !shutdown.is_asked() {
        match connect().await {
            Ok(connected) => return Some(connected),
            Err(error) => {
                let pause = pauses.next_pause();
                tracing::warn!(what, %error, pause_ms = pause.as_millis(), "not reachable, trying again");
                shutdown.pause(clock, pause).await;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::lease::Mono;
    use chrono::{DateTime, Utc};
    use futures_util::future::BoxFuture;

    /// Time that passes at once.
    struct Hurried;
    impl Clock for Hurried {
        fn wall(&self) -> DateTime<Utc> {
            DateTime::UNIX_EPOCH
        }
        fn mono(&self) -> Mono {
            Mono(Duration::ZERO)
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[test]
    fn pauses_grow_to_a_bound_and_begin_again_after_success() {
        let mut pauses = Pauses::default();
        let first = pauses.next_pause();
        assert!((140..=260).contains(&first.as_millis()), "{first:?}");
        let later = (0..1_000).map(|_| pauses.next_pause()).max().unwrap();
        assert!((7_000..=13_000).contains(&later.as_millis()), "{later:?}");
        pauses.reset();
        assert!(pauses.next_pause() < Duration::from_millis(261));
    }

    #[tokio::test]
    async fn it_tries_until_it_works() {
        let (_trigger, shutdown) = Shutdown::manual();
        let mut tries = 0;
        let connected = until_connected("a test", &Hurried, &shutdown, || {
            tries += 1;
            std::future::ready(if tries < 4 { Err("not yet") } else { Ok(tries) })
        });
        assert_eq!(connected.await, Some(4));
    }

    #[tokio::test]
    async fn shutdown_ends_it() {
        let (trigger, shutdown) = Shutdown::manual();
        let connected = until_connected("a test", &Hurried, &shutdown, || {
            trigger.stop();
            std::future::ready(Err::<(), _>("never"))
        });
        assert_eq!(connected.await, None);
    }
}
