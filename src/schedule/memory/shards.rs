//! The relay's shard leases in memory, with the epochs and the lapses of `schedule::shards`.
//!
//! A shard that no relay ever took in the run can be marked by anybody: the tests of single steps
//! lease none.

use super::super::port::{ScheduleError, ShardLease, Shards, Standing};
use super::{Memory, State, Verb};
use chrono::{DateTime, Utc};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Held {
    holder: String,
    epoch: i64,
    until: DateTime<Utc>,
}

/// A relay that said that it lives.
#[derive(Debug)]
pub(super) struct Living {
    since: DateTime<Utc>,
    until: DateTime<Utc>,
}

impl State {
    pub(super) fn is_held_by(&self, lease: &ShardLease) -> bool {
        match self.shards.get(&(lease.partitions, lease.residue)) {
            Some(held) => held.holder == lease.holder && held.epoch == lease.epoch,
            None => true,
        }
    }

    /// Changes those that are still held as these leases say; answers which.
    fn change_held(&mut self, leases: &[ShardLease], change: impl Fn(&mut Held)) -> Vec<ShardLease> {
        let ours: Vec<_> = leases.iter().filter(|lease| self.is_held_by(lease)).cloned().collect();
        for lease in &ours {
            if let Some(held) = self.shards.get_mut(&(lease.partitions, lease.residue)) {
                change(held);
            }
        }
        ours
    }

    fn free(&mut self, leases: &[ShardLease]) {
        self.change_held(leases, |held| {
            held.until = DateTime::<Utc>::MIN_UTC;
            // Without one a renewal that was on its way cannot bring the lease back.
            held.holder.clear();
        });
    }
}

impl Shards for Memory {
    async fn enlist_relay(
        &self,
        holder: &str,
        partitions: i32,
        length: Duration,
    ) -> Result<Standing, ScheduleError> {
        self.transact(Verb::Shards, |state, now| {
            state.relays.retain(|_, living| living.until >= now);
            let name = (partitions, holder.to_owned());
            let ours = state.relays.entry(name).or_insert(Living { since: now, until: now });
            ours.until = now + length;
            let place = (ours.since, holder.to_owned());
            let others = state.relays.iter().filter(|((of, other), _)| *of == partitions && other != holder);
            let others: Vec<_> = others.map(|((_, name), living)| (living.since, name.clone())).collect();
            Standing { others: others.len(), older: others.iter().filter(|other| **other < place).count() }
        })
        .await
    }

    async fn acquire_shards(
        &self,
        holder: &str,
        partitions: i32,
        want: usize,
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        self.transact(Verb::Shards, |state, now| {
            let mut taken = Vec::new();
            for residue in 0..partitions {
                let held = state.shards.entry((partitions, residue)).or_insert_with(|| Held {
                    holder: String::new(),
                    epoch: 0,
                    until: DateTime::<Utc>::MIN_UTC,
                });
                if held.until < now && taken.len() < want {
                    *held = Held { holder: holder.to_owned(), epoch: held.epoch + 1, until: now + length };
                    taken.push(ShardLease {
                        residue,
                        partitions,
                        holder: holder.to_owned(),
                        epoch: held.epoch,
                    });
                }
            }
            taken
        })
        .await
    }

    async fn renew_shards(
        &self,
        held: &[ShardLease],
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        self.transact(Verb::Shards, |state, now| state.change_held(held, |held| held.until = now + length))
            .await
    }

    async fn release_shards(&self, held: &[ShardLease]) -> Result<(), ScheduleError> {
        self.transact(Verb::Shards, |state, _| state.free(held)).await
    }

    async fn retire_relay(
        &self,
        holder: &str,
        partitions: i32,
        held: &[ShardLease],
    ) -> Result<(), ScheduleError> {
        self.transact(Verb::Shards, |state, _| {
            state.relays.remove(&(partitions, holder.to_owned()));
            state.free(held);
        })
        .await
    }
}
