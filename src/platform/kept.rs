//! An answer that many want at once and that may be a few seconds old.
//!
//! **Promise.** However many pages ask, one asks the database at a time, and no more often than every so often: the
//! others wait for its answer, or take the last one. A question that takes too long is given up; the last answer is
//! shown meanwhile, and it is not asked again before its time.
//!
//! **If this dies here**, the lock is free again with the request that held it.

use super::clock::{Clock, within};
use crate::domain::lease::Mono;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// The last answer, with the instant at which it was asked for.
pub struct Kept<T>(Mutex<Option<(Mono, Option<Arc<T>>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Kept<T> {
    /// The answer, at most `age` old, or a new one that takes at most `patience`; the last one of all if that fails.
    pub async fn get<E: std::fmt::Display>(
        &self,
        clock: &dyn Clock,
        (age, patience): (Duration, Duration),
        ask: impl Future<Output = Result<T, E>>,
    ) -> Option<Arc<T>> {
        // Whoever waits here finds the answer of the one before.
        let mut last = self.0.lock().await;
        let now = clock.mono();
        if let Some((asked_at, answer)) = last.as_ref()
            && now.0.saturating_sub(asked_at.0) < age
        {
            return answer.clone();
        }
        let before = last.take().and_then(|(_, answer)| answer);
        let answer = match within(clock, patience, ask).await {
            Some(Ok(answer)) => Some(Arc::new(answer)),
            Some(Err(error)) => {
                tracing::warn!(%error, "what was known before is shown");
                before
            }
            None => {
                tracing::warn!(?patience, "what was known before is shown: no answer in time");
                before
            }
        };
        *last = Some((now, answer.clone()));
        answer
    }

    /// Asks anew the next time, because what was known is old by what was just done.
    pub async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::clock::Host;
    use std::sync::atomic::{AtomicU32, Ordering};

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn many_who_ask_at_once_are_one_question() {
        let (kept, asked) = (Kept::default(), AtomicU32::new(0));
        let ask = || async {
            tokio::task::yield_now().await;
            Ok::<_, String>(asked.fetch_add(1, Ordering::Relaxed))
        };
        let get = || kept.get(&Host, (LONG, LONG), ask());
        let (one, two) = futures_util::join!(get(), get());
        assert_eq!((one.as_deref(), two.as_deref()), (Some(&0), Some(&0)));
        assert_eq!(kept.get(&Host, (Duration::ZERO, LONG), ask()).await.as_deref(), Some(&1));
        assert_eq!(get().await.as_deref(), Some(&1));
        kept.forget().await;
        assert_eq!(get().await.as_deref(), Some(&2));
    }

    #[tokio::test]
    async fn what_fails_or_never_ends_leaves_the_last_answer_and_is_not_asked_again_at_once() {
        let kept = Kept::default();
        let none = Duration::ZERO;
        kept.get(&Host, (none, LONG), async { Ok::<_, String>(7) }).await;
        let failed = kept.get(&Host, (none, LONG), async { Err("away") }).await;
        assert_eq!(failed.as_deref(), Some(&7));
        let hung =
            kept.get(&Host, (none, Duration::from_millis(10)), std::future::pending::<Result<i32, String>>());
        assert_eq!(hung.await.as_deref(), Some(&7));
        let soon = kept.get(&Host, (LONG, LONG), async { Ok::<_, String>(8) }).await;
        assert_eq!(soon.as_deref(), Some(&7));
    }
}
