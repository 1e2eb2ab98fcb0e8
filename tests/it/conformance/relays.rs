//! What two relays do with the outbox and with each other's shards.

use super::chance::one_of;
use super::compare::{Difference, same};
use super::operations::expected;
use super::sequence::{Batch, Sequence, pick, whole_ties};
use chrono::TimeDelta;
use punctual::domain::bucket::{partition, shard};
use punctual::schedule::{Schedule, ShardLease, Shards, Staged, StagedNotice};
use rand::Rng;
use std::time::Duration;

/// Of the ring that both write.
pub const PARTITIONS: i32 = 3;
const RELAYS: [&str; 2] = ["relay-a", "relay-b"];
const LENGTHS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(45)];

/// Without what only one store numbers, signs or times.
fn said(notices: &[StagedNotice]) -> Vec<String> {
    notices.iter().map(|staged| format!("{} {:?}", staged.shard, staged.notice)).collect()
}

fn in_order(mut notices: Vec<StagedNotice>) -> Vec<StagedNotice> {
    notices.sort_by_key(|it| (it.notice.not_before, it.notice.payment, it.notice.attempt, it.notice_id));
    notices
}

fn by_residue(mut leases: Vec<ShardLease>) -> Vec<ShardLease> {
    leases.sort_by_key(|lease| lease.residue);
    leases
}

impl Sequence<'_> {
    /// A lease of anybody, which may have been lost long ago; a fresh one where there is none.
    pub async fn any_lease(&mut self) -> Result<Option<ShardLease>, Difference> {
        let holder = one_of(&mut self.chance, &RELAYS);
        if self.leases.get(holder).is_none_or(Vec::is_empty) {
            self.acquire(holder).await?;
        }
        let held = self.leases.get(holder).cloned().unwrap_or_default();
        let newest = held.len().saturating_sub(3);
        let from = if self.chance.random_bool(0.85) { newest } else { 0 };
        Ok(pick(&mut self.chance, &held[from..]))
    }

    pub async fn stage(&mut self) -> Result<(), Difference> {
        let Some(lease) = self.any_lease().await? else { return Ok(()) };
        let lead = Duration::from_secs(one_of(&mut self.chance, &[0, 60, 900]));
        let until = self.now() + lead;
        let open = self.memory.open_notices().into_iter();
        let ours = open.filter(|it| partition(shard(it.payment), PARTITIONS) == lease.residue);
        let mut keys: Vec<_> = ours.map(|it| it.not_before).filter(|at| *at <= until).collect();
        keys.sort_unstable();
        let wanted = one_of(&mut self.chance, &[1, 3, 50]);
        let limit = if wanted == 50 { 50 } else { u32::try_from(whole_ties(&keys, wanted)).unwrap() };
        self.tell(format!("stage {lease:?} {lead:?} {limit}"));
        let postgres = expected("stage", self.stores.worker.stage(&lease, lead, limit).await)?;
        let memory = expected("stage", self.memory.stage(&lease, lead, limit).await)?;
        same("next_due of stage", &postgres.next_due, &memory.next_due)?;
        same("clock of stage", &postgres.database_now, &memory.database_now)?;
        self.saw(if postgres.notices.len() < keys.len().min(usize::try_from(limit).unwrap()) {
            "old notices dropped"
        } else {
            "staged"
        });
        let (postgres, memory) = (in_order(postgres.notices), in_order(memory.notices));
        same("stage", &said(&postgres), &said(&memory))?;
        self.look_ahead(&lease, limit.min(3)).await?;
        if !postgres.is_empty() {
            self.staged.push(Batch { lease, postgres, memory });
        }
        Ok(())
    }

    /// What a look far ahead finds; it changes nothing.
    async fn look_ahead(&mut self, lease: &ShardLease, limit: u32) -> Result<(), Difference> {
        let (beyond, within) = (Duration::from_secs(60), Duration::from_secs(7_200));
        let postgres = self.stores.worker.stage_crowd(lease, beyond, within, limit).await;
        let postgres = expected("stage_crowd", postgres)?;
        let memory = self.memory.stage_crowd(lease, beyond, within, limit).await;
        let memory = expected("stage_crowd", memory)?;
        self.saw(if postgres.notices.is_empty() { "no crowd" } else { "a crowd" });
        // Rows of one instant may be cut anywhere: as many, and of the same instants.
        let instants =
            |staged: &Staged| staged.notices.iter().map(|it| it.notice.not_before).collect::<Vec<_>>();
        same("stage_crowd", &instants(&postgres), &instants(&memory))
    }

    /// Some of what was staged, with the lease it was staged under or with another one.
    pub async fn pick_batch(&mut self) -> Result<Option<Batch>, Difference> {
        let another = if self.chance.random_bool(0.15) { self.any_lease().await? } else { None };
        if self.staged.is_empty() {
            return Ok(None);
        }
        let staged = &self.staged[self.chance.random_range(0..self.staged.len())];
        let length = self.chance.random_range(0..=staged.postgres.len());
        let lease = another.unwrap_or_else(|| staged.lease.clone());
        let (postgres, memory) = (staged.postgres[..length].to_vec(), staged.memory[..length].to_vec());
        Ok(Some(Batch { lease, postgres, memory }))
    }

    pub async fn mark(&mut self) -> Result<(), Difference> {
        let Some(Batch { lease, postgres, memory }) = self.pick_batch().await? else { return Ok(()) };
        self.tell(format!("mark {lease:?} {:?}", said(&postgres)));
        let ours = expected("mark", self.stores.worker.mark(&lease, &postgres).await)?;
        let theirs = expected("mark", self.memory.mark(&lease, &memory).await)?;
        self.saw(if ours { "marked" } else { "shard lost" });
        same("mark", &ours, &theirs)
    }

    pub async fn acquire(&mut self, holder: &'static str) -> Result<(), Difference> {
        let (want, length) = (self.chance.random_range(1..=3), one_of(&mut self.chance, &LENGTHS));
        self.tell(format!("acquire_shards {holder} {want} {length:?}"));
        let postgres = self.stores.worker.acquire_shards(holder, PARTITIONS, want, length).await;
        let postgres = by_residue(expected("acquire_shards", postgres)?);
        let memory = self.memory.acquire_shards(holder, PARTITIONS, want, length).await;
        let memory = by_residue(expected("acquire_shards", memory)?);
        self.ends.push(self.now() + length);
        if postgres.iter().any(|lease| lease.epoch > 1) {
            self.saw("shard changed hands");
        }
        same("acquire_shards", &postgres, &memory)?;
        self.leases.entry(holder).or_default().extend(postgres);
        Ok(())
    }

    pub async fn shards(&mut self) -> Result<(), Difference> {
        let holder = one_of(&mut self.chance, &RELAYS);
        let held = self.leases.get(holder).cloned().unwrap_or_default();
        let some: Vec<ShardLease> = held.into_iter().filter(|_| self.chance.random_bool(0.6)).collect();
        match self.chance.random_range(0..10) {
            0..5 => self.acquire(holder).await,
            5..8 => {
                let length = one_of(&mut self.chance, &LENGTHS);
                self.tell(format!("renew_shards {some:?} {length:?}"));
                let postgres = self.stores.worker.renew_shards(&some, length).await;
                let postgres = by_residue(expected("renew_shards", postgres)?);
                let memory = by_residue(expected("renew", self.memory.renew_shards(&some, length).await)?);
                self.ends.push(self.now() + length);
                self.saw(if postgres.len() < some.len() { "renewal refused" } else { "renewed" });
                same("renew_shards", &postgres, &memory)
            }
            _ => {
                self.tell(format!("release_shards {some:?}"));
                expected("release_shards", self.stores.worker.release_shards(&some).await)?;
                expected("release_shards", self.memory.release_shards(&some).await)
            }
        }
    }

    pub async fn relays(&mut self) -> Result<(), Difference> {
        let holder = one_of(&mut self.chance, &["relay-a", "relay-b", "relay-c"]);
        if self.chance.random_bool(0.7) {
            let length = one_of(&mut self.chance, &LENGTHS);
            self.tell(format!("enlist_relay {holder} {length:?}"));
            let postgres = self.stores.worker.enlist_relay(holder, PARTITIONS, length).await;
            let memory = self.memory.enlist_relay(holder, PARTITIONS, length).await;
            self.ends.push(self.now() + length);
            // Two that came at one instant stand in the order of their names, in both.
            return same("enlist", &expected("enlist", postgres)?, &expected("enlist", memory)?);
        }
        let held = self.leases.remove(holder).unwrap_or_default();
        self.tell(format!("retire_relay {holder} {held:?}"));
        expected("retire", self.stores.worker.retire_relay(holder, PARTITIONS, &held).await)?;
        expected("retire", self.memory.retire_relay(holder, PARTITIONS, &held).await)?;
        let now = self.now();
        self.ends.retain(|at| *at > now - TimeDelta::minutes(1));
        Ok(())
    }
}
