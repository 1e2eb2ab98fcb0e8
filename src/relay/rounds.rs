//! The relay's loop: keep the shards, and pass over each of them again and again.
//!
//! Leases are renewed beside the passes, not between them: a publish may wait 30 s for a broker and
//! the lease is shorter. A lease that could not be renewed for its whole length is forgotten here
//! too, although `mark` would refuse it anyway.
//!
//! Every relay takes what is free. The first one takes all shards and the others stand by: one
//! writer is far from its limit, and a dead one is replaced within the lease.

use super::stage::Reach;
use super::{PassFailed, Publisher, Shards, Terms, step};
use crate::domain::lease::Mono;
use crate::platform::clock::SharedClock;
use crate::platform::metrics;
use crate::platform::shutdown::Shutdown;
use crate::schedule::{Schedule, ScheduleError, ShardLease, unless_defect};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a shard is looked at far ahead.
const AHEAD_EVERY: Duration = Duration::from_secs(5);
/// After a pass that met trouble.
const TROUBLE: Duration = Duration::from_secs(1);
/// What trouble with the leases is logged as.
const SHARDS: &str = "relay shards";

/// What a relay runs with.
#[derive(Clone)]
pub struct Relay {
    /// Stable name of this instance, for people and leases.
    pub holder: String,
    /// Partitions of each topic.
    pub partitions: i32,
    /// A relay silent for so long loses its shards.
    pub shard_lease: Duration,
    /// How a pass is made.
    pub terms: Terms,
    /// Time.
    pub clock: SharedClock,
}

/// A shard that is ours, and when to do what with it.
#[derive(Debug, Clone)]
struct Mine {
    lease: ShardLease,
    renewed_at: Mono,
    next_at: Mono,
    ahead_at: Mono,
}

#[derive(Default)]
struct Held(Mutex<BTreeMap<i32, Mine>>);

impl Held {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Mine>> {
        // Only inserted into and removed from under the lock: a poisoned map is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leases(&self) -> Vec<ShardLease> {
        self.lock().values().map(|mine| mine.lease.clone()).collect()
    }

    /// Forgets the shard if it is still held under this epoch.
    fn forget(&self, lease: &ShardLease) {
        let mut held = self.lock();
        if held.get(&lease.residue).is_some_and(|mine| mine.lease.epoch == lease.epoch) {
            held.remove(&lease.residue);
        }
    }
}

/// Runs until shutdown, then gives the shards back. Never drops a verb of the schedule half
/// done: both loops end between their steps.
///
/// # Errors
/// [`ScheduleError::Defect`]: the schema does not fit this build; stop and say so.
pub async fn run<S: Schedule + Shards, P: Publisher>(
    relay: &Relay,
    schedule: &S,
    publisher: &P,
    shutdown: &Shutdown,
) -> Result<(), ScheduleError> {
    let held = Held::default();
    // A defect in one loop ends the other.
    let failed = AtomicBool::new(false);
    let goes_on = || !shutdown.is_asked() && !failed.load(Ordering::Relaxed);
    let keeping = async {
        while goes_on() {
            keep(relay, schedule, &held).await.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            shutdown.pause(&*relay.clock, relay.shard_lease / 3).await;
        }
        Ok(())
    };
    let passing = async {
        while goes_on() {
            let pause = round(relay, schedule, publisher, &held).await;
            let pause = pause.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            shutdown.pause(&*relay.clock, pause).await;
        }
        Ok(())
    };
    let (kept, passed) = futures_util::future::join(keeping, passing).await;
    let leases = held.leases();
    if !leases.is_empty()
        && let Err(error) = schedule.release_shards(&leases).await
    {
        tracing::warn!(%error, "shards not given back; they are free when their lease ends");
    }
    kept.and(passed)
}

/// Renews what is ours and takes what is free.
async fn keep<S: Shards>(relay: &Relay, schedule: &S, held: &Held) -> Result<(), ScheduleError> {
    let asked_at = relay.clock.mono();
    let leases = held.leases();
    let renewed = if leases.is_empty() {
        Ok(Vec::new())
    } else {
        schedule.renew_shards(&leases, relay.shard_lease).await
    };
    let Some(still_ours) = unless_defect(SHARDS, renewed)? else {
        let now = relay.clock.mono();
        held.lock().retain(|_, mine| now.0.saturating_sub(mine.renewed_at.0) < relay.shard_lease);
        return Ok(());
    };
    held.lock().retain(|_, mine| still_ours.contains(&mine.lease));
    held.lock().values_mut().for_each(|mine| mine.renewed_at = asked_at);
    let missing = usize::try_from(relay.partitions).unwrap_or(0).saturating_sub(held.lock().len());
    if missing > 0 {
        let acquired =
            schedule.acquire_shards(&relay.holder, relay.partitions, missing, relay.shard_lease).await;
        for lease in unless_defect(SHARDS, acquired)?.unwrap_or_default() {
            tracing::info!(residue = lease.residue, epoch = lease.epoch, "relay shard is ours");
            let mine = Mine { renewed_at: asked_at, next_at: asked_at, ahead_at: asked_at, lease };
            held.lock().insert(mine.lease.residue, mine);
        }
    }
    Ok(())
}

/// One pass over every shard whose time has come, at the same time; answers the pause until the
/// next one's.
async fn round<S: Schedule, P: Publisher>(
    relay: &Relay,
    schedule: &S,
    publisher: &P,
    held: &Held,
) -> Result<Duration, ScheduleError> {
    let now = relay.clock.mono();
    let due: Vec<Mine> = held.lock().values().filter(|mine| mine.next_at <= now).cloned().collect();
    let passes = due.into_iter().map(|mine| async {
        let reach = if mine.ahead_at <= now { Reach::Ahead } else { Reach::Usual };
        (step(schedule, publisher, &mine.lease, reach, &relay.terms).await, reach, mine)
    });
    for (pass, reach, mine) in futures_util::future::join_all(passes).await {
        let (next, ahead) = match pass {
            // A crowded minute goes on at once; otherwise the nearer rows have their turn now.
            Ok(pass) if reach == Reach::Ahead => {
                let ahead = if pass.published > 0 { Duration::ZERO } else { AHEAD_EVERY };
                (Duration::ZERO, Some(ahead))
            }
            Ok(pass) => (pass.pause, None),
            Err(PassFailed::ShardLost) => {
                metrics::RELAY_FENCED.add(1, []);
                tracing::warn!(residue = mine.lease.residue, "relay shard was taken over");
                held.forget(&mine.lease);
                continue;
            }
            Err(
                PassFailed::NotStaged(defect @ ScheduleError::Defect(_))
                | PassFailed::NotMarked(defect @ ScheduleError::Defect(_)),
            ) => return Err(defect),
            Err(error) => {
                let stage = match error {
                    PassFailed::NotStaged(_) => "stage",
                    PassFailed::NotAcknowledged(_) => "publish",
                    PassFailed::NotMarked(_) | PassFailed::ShardLost => "mark",
                };
                metrics::RELAY_FAILURES.add(1, [stage]);
                tracing::warn!(%error, residue = mine.lease.residue, "relay pass; what is left is published again");
                (TROUBLE, None)
            }
        };
        let now = relay.clock.mono();
        if let Some(mine) = held.lock().get_mut(&mine.lease.residue) {
            mine.next_at = Mono(now.0 + next);
            mine.ahead_at = ahead.map_or(mine.ahead_at, |ahead| Mono(now.0 + ahead));
        }
    }
    let now = relay.clock.mono();
    // As many as Kafka has partitions: a handful.
    metrics::RELAY_SHARDS.set(f64::from(u32::try_from(held.lock().len()).unwrap_or(u32::MAX)), []);
    let next = held.lock().values().map(|mine| mine.next_at.0.saturating_sub(now.0)).min();
    Ok(next.unwrap_or(relay.terms.poll).min(relay.terms.poll))
}
