//! The outbox in memory: notices by shard, in due order, until they are marked.

use super::super::port::{ShardLease, Staged, StagedNotice};
use super::super::stage::LOOK_AHEAD;
use crate::domain::bucket::{SHARDS, crowded_minute, minute_start, partition, shard};
use crate::domain::notice::Notice;
use crate::domain::payment::Payment;
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Debug)]
struct Outgoing {
    notice: Notice,
    written_at: DateTime<Utc>,
    shard: i16,
}

#[derive(Debug)]
pub(super) struct Outbox {
    /// Every notice ever written; its number is its place.
    written: Vec<Outgoing>,
    /// Numbers of those not marked yet, a set each shard, in due order.
    open: Vec<BTreeSet<(DateTime<Utc>, usize)>>,
}

impl Default for Outbox {
    fn default() -> Self {
        let shards = usize::try_from(SHARDS).unwrap();
        Self { written: Vec::new(), open: vec![BTreeSet::new(); shards] }
    }
}

impl Outbox {
    /// Writes the due notice of a payment that may be claimed.
    pub(super) fn write(&mut self, payment: &Payment, now: DateTime<Utc>) {
        let notice = Notice {
            payment: payment.id,
            gateway: payment.gateway.clone(),
            lane: payment.lane,
            due_at: payment.due_at,
            not_before: payment.next_attempt_at,
            attempt: payment.attempt,
        };
        let shard = shard(payment.id);
        self.open[usize::try_from(shard).unwrap()].insert((notice.not_before, self.written.len()));
        self.written.push(Outgoing { notice, written_at: now, shard });
    }

    pub(super) fn notices(&self) -> Vec<Notice> {
        self.written.iter().map(|outgoing| outgoing.notice.clone()).collect()
    }

    /// Those not marked yet, in no order.
    pub(super) fn open(&self) -> impl Iterator<Item = &Notice> {
        self.open.iter().flatten().map(|(_, number)| &self.written[*number].notice)
    }

    /// How many lie open that are due by `until`.
    pub(super) fn open_until(&self, until: DateTime<Utc>) -> usize {
        self.open.iter().map(|shard| shard.iter().take_while(|(at, _)| *at <= until).count()).sum()
    }

    /// What `stage.sql` reads: the residue's notices up to the lead, in due order.
    pub(super) fn stage(
        &self,
        lease: &ShardLease,
        lead: Duration,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Staged {
        let horizon = now + lead;
        let mut found: Vec<(DateTime<Utc>, usize)> = Vec::new();
        let mut next_due = None;
        for (shard, open) in (0..SHARDS).zip(&self.open) {
            if partition(shard, lease.partitions) != lease.residue {
                continue;
            }
            found.extend(open.iter().take_while(|(at, _)| *at <= horizon).take(limit));
            let beyond = open.range((horizon, usize::MAX)..).next().map(|(at, _)| *at);
            let beyond = beyond.filter(|at| *at <= horizon + LOOK_AHEAD);
            next_due = [next_due, beyond].into_iter().flatten().min();
        }
        found.sort_unstable();
        found.truncate(limit);
        // Who may read no more than this looks again at once.
        let next_due = next_due.filter(|_| found.len() < limit);
        let notices = found.into_iter().map(|(_, number)| self.staged(number)).collect();
        Staged { notices, database_now: now, next_due }
    }

    /// What `stage_crowd.sql` finds and `stage.sql` then reads.
    pub(super) fn stage_crowd(
        &self,
        lease: &ShardLease,
        (from, end): (DateTime<Utc>, DateTime<Utc>),
        limit: usize,
        now: DateTime<Utc>,
    ) -> Staged {
        let ours = (0..SHARDS).zip(&self.open);
        let ours = ours.filter(|(shard, _)| partition(*shard, lease.partitions) == lease.residue);
        let mut waiting: Vec<_> = ours.flat_map(|(_, open)| open.range((from, 0)..(end, 0))).collect();
        waiting.sort_unstable();
        let minute = crowded_minute(waiting.iter().map(|(at, _)| *at), (from, end), limit);
        let crowd = waiting.into_iter().filter(|(at, _)| Some(minute_start(*at)) == minute).take(limit);
        Staged {
            notices: crowd.map(|(_, number)| self.staged(*number)).collect(),
            database_now: now,
            next_due: None,
        }
    }

    fn staged(&self, number: usize) -> StagedNotice {
        let outgoing = &self.written[number];
        StagedNotice {
            notice_id: i64::try_from(number).unwrap(),
            written_at: outgoing.written_at,
            shard: outgoing.shard,
            notice: outgoing.notice.clone(),
            traceparent: None,
            mac: String::new(),
        }
    }

    pub(super) fn mark(&mut self, published: &[StagedNotice]) {
        for staged in published {
            let place = (staged.notice.not_before, usize::try_from(staged.notice_id).unwrap());
            self.open[usize::try_from(staged.shard).unwrap()].remove(&place);
        }
    }
}
