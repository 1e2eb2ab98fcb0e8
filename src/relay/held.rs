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
    /// The pass before was a look far ahead: the nearer rows have their turn.
    was_ahead: bool,
    /// More than our share: to be given back between two passes.
    is_leaving: bool,
    /// A pass over it has not ended.
    is_busy: bool,
}

impl Mine {
    pub(super) fn reach(&self, now: Mono) -> Reach {
        if self.ahead_at <= now && !self.was_ahead { Reach::Ahead } else { Reach::Usual }
    }
}

/// What a pass was, and so when the next one comes.
#[derive(Debug, Clone, Copy)]
pub(super) enum After {
    /// Of the nearer rows, which want a pause.
    Usual(Duration),
    /// A look far ahead, to be repeated after so long; the nearer rows come first.
    Ahead(Duration),
    /// One that failed.
    Trouble(Duration),
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

    /// Those that are to be given back and have no pass.
    pub(super) fn leaving(&self) -> Vec<ShardLease> {
        let held = self.lock();
        let free = held.values().filter(|mine| mine.is_leaving && !mine.is_busy);
        free.map(|mine| mine.lease.clone()).collect()
    }

    /// Those whose time for a pass has come; until [`Held::passed`] they have one.
    pub(super) fn begin(&self, now: Mono) -> Vec<Mine> {
        let mut held = self.lock();
        let due = held.values_mut().filter(|mine| mine.next_at <= now && !mine.is_busy);
        due.map(|mine| {
            mine.is_busy = true;
            mine.clone()
        })
        .collect()
    }

    /// How long until the next one's time.
    pub(super) fn until_next(&self, now: Mono) -> Option<Duration> {
        let held = self.lock();
        let idle = held.values().filter(|mine| !mine.is_busy);
        idle.map(|mine| mine.next_at.0.saturating_sub(now.0)).min()
    }

    pub(super) fn take(&self, lease: ShardLease, asked_at: Mono) {
        let residue = lease.residue;
        let mine = Mine {
            lease,
            renewed_at: asked_at,
            next_at: asked_at,
            ahead_at: asked_at,
            was_ahead: false,
            is_leaving: false,
            is_busy: false,
        };
        self.lock().insert(residue, mine);
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
    pub(super) fn passed(&self, lease: &ShardLease, now: Mono, reach: Reach, after: After) {
        let mut held = self.lock();
        if let Some(mine) = held.get_mut(&lease.residue).filter(|mine| mine.lease.epoch == lease.epoch) {
            mine.is_busy = false;
            mine.was_ahead = reach == Reach::Ahead;
            mine.next_at = match after {
                // A look far ahead that is due then waits for no pause.
                After::Usual(pause) => Mono(now.0 + pause).min(mine.ahead_at.max(now)),
                After::Ahead(_) => now,
                After::Trouble(pause) => Mono(now.0 + pause),
            };
            if let After::Ahead(again) = after {
                mine.ahead_at = Mono(now.0 + again);
            }
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
