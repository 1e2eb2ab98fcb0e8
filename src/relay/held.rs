//! The shards that are ours, and when to do what with each. If this dies, the leases run out.

use super::stage::Reach;
use crate::domain::lease::Mono;
use crate::schedule::ShardLease;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A shard that is ours.
#[derive(Debug, Clone)]
pub(super) struct Mine {
    pub(super) lease: ShardLease,
    renewed_at: Mono,
    next_at: Mono,
    ahead_at: Mono,
    /// More than our share: to be given back between two passes.
    is_leaving: bool,
}

impl Mine {
    pub(super) fn reach(&self, now: Mono) -> Reach {
        if self.ahead_at <= now { Reach::Ahead } else { Reach::Usual }
    }
}

/// All of them, by residue.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<BTreeMap<i32, Mine>>);

impl Held {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Mine>> {
        // Only inserted into and removed from under the lock: a poisoned map is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn leases(&self) -> Vec<ShardLease> {
        self.lock().values().map(|mine| mine.lease.clone()).collect()
    }

    pub(super) fn leaving(&self) -> Vec<ShardLease> {
        self.lock().values().filter(|mine| mine.is_leaving).map(|mine| mine.lease.clone()).collect()
    }

    /// Those whose time for a pass has come.
    pub(super) fn due(&self, now: Mono) -> Vec<Mine> {
        self.lock().values().filter(|mine| mine.next_at <= now).cloned().collect()
    }

    /// How long until the next one's time.
    pub(super) fn until_next(&self, now: Mono) -> Option<Duration> {
        self.lock().values().map(|mine| mine.next_at.0.saturating_sub(now.0)).min()
    }

    pub(super) fn take(&self, lease: ShardLease, asked_at: Mono) {
        let mine =
            Mine { renewed_at: asked_at, next_at: asked_at, ahead_at: asked_at, is_leaving: false, lease };
        self.lock().insert(mine.lease.residue, mine);
    }

    /// Keeps what was renewed, of what was asked for.
    pub(super) fn renewed(&self, still_ours: &[ShardLease], asked_at: Mono) {
        let mut held = self.lock();
        held.retain(|_, mine| still_ours.contains(&mine.lease));
        held.values_mut().for_each(|mine| mine.renewed_at = asked_at);
    }

    /// Nothing was renewed: forgets what has run out.
    pub(super) fn run_out(&self, now: Mono, length: Duration) {
        self.lock().retain(|_, mine| now.0.saturating_sub(mine.renewed_at.0) < length);
    }

    /// Says which go because they are more than `share`; answers how many are missing to it.
    pub(super) fn fit(&self, share: usize) -> usize {
        let mut held = self.lock();
        for (place, mine) in held.values_mut().enumerate() {
            mine.is_leaving = place >= share;
        }
        share.saturating_sub(held.len())
    }

    /// After a pass over it.
    pub(super) fn passed(&self, lease: &ShardLease, now: Mono, next: Duration, ahead: Option<Duration>) {
        if let Some(mine) = self.lock().get_mut(&lease.residue) {
            mine.next_at = Mono(now.0 + next);
            mine.ahead_at = ahead.map_or(mine.ahead_at, |ahead| Mono(now.0 + ahead));
        }
    }

    /// Forgets the shard if it is still held under this epoch.
    pub(super) fn forget(&self, lease: &ShardLease) {
        let mut held = self.lock();
        if held.get(&lease.residue).is_some_and(|mine| mine.lease.epoch == lease.epoch) {
            held.remove(&lease.residue);
        }
    }
}
