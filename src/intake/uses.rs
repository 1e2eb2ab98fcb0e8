//! When keys were last used: written behind requests, at most once a minute a key.
//!
//! **Promises.** No request waits for it, and a key costs one row a minute however often it is used. While a
//! batch is being written the keys that come meanwhile wait for the next, so a thousand keys are a few
//! statements. Nobody writes while nobody comes. **If this dies here**, a use is not known of until the next
//! minute's; what may be done with a key never depends on it.

use crate::domain::lease::Mono;
use crate::schedule::Postgres;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// A key's use is written at most this often.
const EVERY: Duration = Duration::from_secs(60);
/// Most keys remembered; past it all are forgotten, which costs one write a key.
const MOST_KEYS: usize = 10_000;

/// Which keys were used.
#[derive(Debug, Default)]
pub(super) struct Uses(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    /// When a key was last handed on to be written.
    last: HashMap<Uuid, Mono>,
    /// To be written.
    pending: BTreeSet<Uuid>,
    /// Somebody writes, until nothing is pending.
    is_written: bool,
}

impl Uses {
    /// A key was used.
    pub(super) fn note(self: &Arc<Self>, key: Uuid, now: Mono, schedule: &Postgres) {
        if self.needs_writer(key, now) {
            let (uses, schedule) = (Arc::clone(self), schedule.clone());
            tokio::spawn(async move {
                while let Some(keys) = uses.batch() {
                    if let Err(error) = schedule.note_key_uses(keys).await {
                        tracing::debug!(%error, "uses of keys were not written");
                    }
                }
            });
        }
    }

    /// Notes it; true for the one caller who must see that it is written.
    fn needs_writer(&self, key: Uuid, now: Mono) -> bool {
        let mut noted = self.lock();
        let is_fresh = |at: &Mono| now.0.saturating_sub(at.0) < EVERY;
        if noted.last.get(&key).is_some_and(is_fresh) {
            return false;
        }
        if noted.last.len() >= MOST_KEYS {
            noted.last.clear();
        }
        noted.last.insert(key, now);
        noted.pending.insert(key);
        !std::mem::replace(&mut noted.is_written, true)
    }

    /// What is to be written now; `None`: nothing, and the writer may go.
    fn batch(&self) -> Option<Vec<Uuid>> {
        let mut noted = self.lock();
        let keys: Vec<Uuid> = std::mem::take(&mut noted.pending).into_iter().collect();
        noted.is_written = !keys.is_empty();
        noted.is_written.then_some(keys)
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        // A panic while the lock was held leaves maps that are still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_s(second: u64) -> Mono {
        Mono(Duration::from_secs(second))
    }

    fn key(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[test]
    fn a_key_is_written_once_a_minute_however_often_it_is_used() {
        let uses = Uses::default();
        assert!(uses.needs_writer(key(1), at_s(100)));
        for second in 100..160 {
            assert!(!uses.needs_writer(key(1), at_s(second)));
        }
        assert_eq!(uses.batch(), Some(vec![key(1)]));
        assert_eq!(uses.batch(), None);
        assert!(!uses.needs_writer(key(1), at_s(159)));
        assert!(uses.needs_writer(key(1), at_s(160)));
    }

    #[test]
    fn what_comes_while_a_batch_is_written_is_the_next_one_and_has_the_same_writer() {
        let uses = Uses::default();
        assert!(uses.needs_writer(key(1), at_s(0)));
        assert_eq!(uses.batch(), Some(vec![key(1)]));
        assert!(!uses.needs_writer(key(3), at_s(0)) && !uses.needs_writer(key(2), at_s(0)));
        assert_eq!(uses.batch(), Some(vec![key(2), key(3)]));
        assert_eq!(uses.batch(), None);
        assert!(uses.needs_writer(key(4), at_s(0)), "the writer has gone");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let uses = Uses::default();
        for number in 0..=MOST_KEYS as u128 {
            uses.needs_writer(key(number), at_s(0));
        }
        assert!(uses.lock().last.len() <= MOST_KEYS);
    }
}
