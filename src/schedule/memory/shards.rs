//! The relay's shard leases in memory, with the epochs and the lapses of `schedule::shards`.
//!
//! A shard that no relay ever took in the run can be marked by anybody: the tests of single steps
//! lease none.

use super::super::port::{ScheduleError, ShardLease, Standing};
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
}

impl Memory {
    /// As `Postgres::enlist_relay`.
    ///
    /// # Errors
    /// The fault of the moment.
    pub async fn enlist_relay(
        &self,
        holder: &str,
        partitions: i32,
        length: Duration,
    ) -> Result<Standing, ScheduleError> {
        self.transact(Verb::Shards, |state, now| {
            state.relays.retain(|_, living| living.until >= now);
            let name = (partitions, holder.to_owned());
            let ours = state.relays.entry(name.clone()).or_insert(Living { since: now, until: now });
            ours.until = now + length;
            let place = (ours.since, holder.to_owned());
            let others = state.relays.iter().filter(|((of, other), _)| *of == partitions && other != holder);
            let others: Vec<_> = others.map(|((_, name), living)| (living.since, name.clone())).collect();
            Standing { others: others.len(), older: others.iter().filter(|other| **other < place).count() }
        })
        .await
    }

    /// As `Postgres::retire_relay`.
    ///
    /// # Errors
    /// The fault of the moment.
    pub async fn retire_relay(
        &self,
        holder: &str,
        partitions: i32,
        held: &[ShardLease],
    ) -> Result<(), ScheduleError> {
        self.transact(Verb::Shards, |state, _| {
            state.relays.remove(&(partitions, holder.to_owned()));
            let ours: Vec<_> = held.iter().filter(|lease| state.is_held_by(lease)).cloned().collect();
            state.free(&ours);
        })
        .await
    }

    /// As `Postgres::acquire_shards`.
    ///
    /// # Errors
    /// The fault of the moment.
    pub async fn acquire_shards(
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

    /// As `Postgres::renew_shards`.
    ///
    /// # Errors
    /// The fault of the moment.
    pub async fn renew_shards(
        &self,
        held: &[ShardLease],
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        self.transact(Verb::Shards, |state, now| {
            let ours: Vec<_> = held.iter().filter(|lease| state.is_held_by(lease)).cloned().collect();
            state.until(&ours, now + length);
            ours
        })
        .await
    }

    /// As `Postgres::release_shards`.
    ///
    /// # Errors
    /// The fault of the moment.
    pub async fn release_shards(&self, held: &[ShardLease]) -> Result<(), ScheduleError> {
        self.transact(Verb::Shards, |state, _| {
            let ours: Vec<_> = held.iter().filter(|lease| state.is_held_by(lease)).cloned().collect();
            state.free(&ours);
        })
        .await
    }
}

impl State {
    /// Without a holder, so that a renewal that was on its way cannot bring the lease back.
    fn free(&mut self, leases: &[ShardLease]) {
        self.until(leases, DateTime::<Utc>::MIN_UTC);
        for lease in leases {
            if let Some(held) = self.shards.get_mut(&(lease.partitions, lease.residue)) {
                held.holder.clear();
            }
        }
    }

    fn until(&mut self, leases: &[ShardLease], until: DateTime<Utc>) {
        for lease in leases {
            if let Some(held) = self.shards.get_mut(&(lease.partitions, lease.residue)) {
                held.until = until;
            }
        }
    }
}
