//! The relay's loop: keep the share of the shards, and pass over each of them again and again.
//!
//! Leases are renewed beside the passes, not between them: a publish may wait 15 s for a broker and
//! the lease is shorter. A lease that could not be renewed for its whole length is forgotten here
//! too, although `mark` would refuse it anyway.
//!
//! Every shard has its own pace: a partition that Kafka cannot take now keeps no other one waiting.
//!
//! Relays share: whoever holds more than its part gives the rest back *between* two passes, so the next
//! holder begins where this one ended and nothing goes out twice. A dead one's part is taken when its
//! lease ends.

use super::held::{After, Held, Mine};
use super::shards::share;
use super::stage::Reach;
use super::{Pass, PassFailed, Publisher, Terms, step};
use crate::domain::lease::Mono;
use crate::platform::clock::SharedClock;
use crate::platform::metrics;
use crate::platform::shutdown::Shutdown;
use crate::schedule::{Schedule, ScheduleError, Shards, unless_defect};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a shard is looked at far ahead.
const AHEAD_EVERY: Duration = Duration::from_secs(5);
/// The lease is renewed, and the others are counted, so many times within its length: what a relay gave
/// back is published again after that long.
const LOOKS: u32 = 10;
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
            keep(relay, schedule, &held, shutdown)
                .await
                .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            shutdown.pause(&*relay.clock, relay.shard_lease / LOOKS).await;
        }
        Ok(())
    };
    let passing = async {
        let (mut passes, mut result) = (FuturesUnordered::new(), Ok(()));
        loop {
            if goes_on() {
                result = give_back(schedule, &held).await;
                let now = relay.clock.mono();
                let due = held.begin(now).into_iter();
                passes.extend(due.map(|mine| pass(relay, schedule, publisher, mine, now)));
            } else if passes.is_empty() {
                return result;
            }
            // As many as Kafka has partitions: a handful.
            metrics::RELAY_SHARDS.set(f64::from(u32::try_from(held.count()).unwrap_or(u32::MAX)), []);
            let next = held.until_next(relay.clock.mono()).unwrap_or(relay.terms.poll);
            tokio::select! {
                biased;
                Some(ended) = passes.next() => result = result.and(take_in(relay, &held, ended)),
                // Asked to stop, it waits for the passes alone: no shard has another one, however due.
                () = shutdown.wait(), if goes_on() => {}
                () = relay.clock.sleep(next.min(relay.terms.poll)), if goes_on() => {}
                else => {}
            }
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        }
    };
    let (kept, passed) = futures_util::future::join(keeping, passing).await;
    if let Err(error) = schedule.retire_relay(&relay.holder, relay.partitions, &held.leases()).await {
        tracing::warn!(%error, "shards not given back; they are free when their lease ends");
    }
    kept.and(passed)
}

/// Renews what is ours, and takes what is free of what is missing to our share. Each answer may have been waited for
/// for long: who was asked to stop meanwhile neither stands for a share nor takes one.
async fn keep<S: Shards>(
    relay: &Relay,
    schedule: &S,
    held: &Held,
    shutdown: &Shutdown,
) -> Result<(), ScheduleError> {
    let asked_at = relay.clock.mono();
    let leases = held.leases();
    let renewed = if leases.is_empty() {
        Ok(Vec::new())
    } else {
        schedule.renew_shards(&leases, relay.shard_lease).await
    };
    let Some(still_ours) = unless_defect(SHARDS, renewed)? else {
        held.run_out(relay.clock.mono(), relay.shard_lease);
        return Ok(());
    };
    held.renewed(&still_ours, asked_at);
    if shutdown.is_asked() {
        return Ok(());
    }
    let enlisted = schedule.enlist_relay(&relay.holder, relay.partitions, relay.shard_lease).await;
    let Some(standing) = unless_defect(SHARDS, enlisted)? else { return Ok(()) };
    let missing = held.fit(share(standing, relay.partitions));
    if missing > 0 && !shutdown.is_asked() {
        let acquired =
            schedule.acquire_shards(&relay.holder, relay.partitions, missing, relay.shard_lease).await;
        for lease in unless_defect(SHARDS, acquired)?.unwrap_or_default() {
            tracing::info!(residue = lease.residue, epoch = lease.epoch, "relay shard is ours");
            held.take(lease, asked_at);
        }
    }
    Ok(())
}

/// Gives back what is more than our share, shard by shard as its pass has ended.
async fn give_back<S: Shards>(schedule: &S, held: &Held) -> Result<(), ScheduleError> {
    let leaving = held.leaving();
    // Not known to be free: it stays ours, and is given back by the next round.
    if leaving.is_empty() || unless_defect(SHARDS, schedule.release_shards(&leaving).await)?.is_none() {
        return Ok(());
    }
    for lease in &leaving {
        tracing::info!(residue = lease.residue, epoch = lease.epoch, "relay shard is given to another");
        held.forget(lease);
    }
    Ok(())
}

/// A pass that has ended, and over what.
struct Ended {
    mine: Mine,
    reach: Reach,
    pass: Result<Pass, PassFailed>,
}

async fn pass<S: Schedule, P: Publisher>(
    relay: &Relay,
    schedule: &S,
    publisher: &P,
    mine: Mine,
    now: Mono,
) -> Ended {
    let reach = mine.reach(now);
    let pass = step(schedule, publisher, &mine.lease, reach, &relay.terms).await;
    Ended { mine, reach, pass }
}

/// Says when the shard has its next pass, and counts what went wrong.
fn take_in(relay: &Relay, held: &Held, ended: Ended) -> Result<(), ScheduleError> {
    let Ended { mine, reach, pass } = ended;
    let after = match pass {
        // A crowded minute goes on as soon as the nearer rows have had their turn.
        Ok(pass) if reach == Reach::Ahead => {
            After::Ahead(if pass.published > 0 { Duration::ZERO } else { AHEAD_EVERY })
        }
        Ok(pass) => After::Usual(pass.pause),
        Err(PassFailed::ShardLost) => {
            metrics::RELAY_FENCED.add(1, []);
            tracing::warn!(residue = mine.lease.residue, "relay shard was taken over");
            held.forget(&mine.lease);
            return Ok(());
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
            After::Trouble(TROUBLE)
        }
    };
    held.passed(&mine.lease, relay.clock.mono(), reach, after);
    Ok(())
}
