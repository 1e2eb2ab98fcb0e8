//! What one pass publishes, and when to look again: pure.
//!
//! The slot of a notice comes from its instant alone; *ring or now* is decided by the database's
//! clock as it was read in the same pass. A wrong choice costs lateness, never earliness: the reader
//! holds a record for its own instant wherever it lies.

use crate::bucket::Envelope;
use crate::domain::bucket::{LONGEST_LEAD, partition, ring_or_now};
use crate::schedule::{ShardLease, Staged};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Shortest pause, so that a row that stays stageable and unpublished does not make us spin.
const SHORTEST: Duration = Duration::from_millis(10);

/// What a pass looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Everything within the usual lead.
    Usual,
    /// Between the usual lead and [`LONGEST_LEAD`], the earliest minute that more than fills a batch: the
    /// usual lead may not suffice for it.
    Ahead,
}

/// What a pass does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// To publish, in due order.
    pub envelopes: Vec<Envelope>,
    /// Left for a later pass: too far ahead, or another shard's (which no correct schedule stages).
    pub left: usize,
}

/// Places what was staged.
#[must_use]
pub fn place(staged: Staged, shard: &ShardLease, guard: Duration) -> Plan {
    let mut plan = Plan::default();
    for notice in staged.notices {
        let too_far = notice.notice.not_before > staged.database_now + LONGEST_LEAD;
        let partition = partition(notice.shard, shard.partitions);
        if too_far || partition != shard.residue {
            plan.left += 1;
            continue;
        }
        let channel = ring_or_now(notice.notice.not_before, staged.database_now, guard);
        plan.envelopes.push(Envelope {
            channel,
            partition,
            staged: notice,
            residue: shard.residue,
            epoch: shard.epoch,
        });
    }
    plan
}

/// How long to pause after a pass that published everything it found: not at all after a full one,
/// or if it may have been full before the notices that lead nowhere were dropped from it (then
/// `next` is not known).
#[must_use]
pub fn pause(
    found: usize,
    limit: u32,
    next: Option<DateTime<Utc>>,
    database_now: DateTime<Utc>,
    poll: Duration,
) -> Duration {
    let is_full = found >= usize::try_from(limit).unwrap_or(usize::MAX);
    if is_full || (found > 0 && next.is_none()) {
        return Duration::ZERO;
    }
    let until = next.map_or(TimeDelta::MAX, |next| next - database_now);
    // Negative: it is stageable already.
    until.to_std().unwrap_or(SHORTEST).clamp(SHORTEST, poll.max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::bucket::{Channel, Slot};
    use crate::domain::ids::{GatewayName, PaymentId};
    use crate::domain::notice::Notice;
    use crate::schedule::StagedNotice;

    const GUARD: Duration = Duration::from_secs(15);

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn notice(id: i64, shard: i16, not_before: DateTime<Utc>) -> StagedNotice {
        let payment = PaymentId::new(not_before, [7; 10]).unwrap();
        let gateway = GatewayName("sandbox".into());
        let notice = Notice { payment, gateway, lane: 0, due_at: not_before, not_before, attempt: 0 };
        StagedNotice {
            notice_id: id,
            written_at: not_before,
            shard,
            notice,
            traceparent: None,
            mac: String::new(),
        }
    }

    fn shard() -> ShardLease {
        ShardLease { residue: 5, partitions: 12, holder: "r".into(), epoch: 3 }
    }

    #[test]
    fn a_notice_goes_to_the_partition_of_its_shard_in_due_order() {
        let now = at("2026-11-29T14:00:00Z");
        let staged = Staged {
            notices: vec![
                notice(1, 5, at("2026-11-29T14:00:10Z")),
                notice(2, 17, at("2026-11-29T14:01:00Z")),
                notice(3, 41, at("2026-11-29T14:01:30Z")),
            ],
            database_now: now,
            next_due: None,
        };
        let plan = place(staged, &shard(), GUARD);
        let placed: Vec<_> = plan
            .envelopes
            .iter()
            .map(|it| (it.staged.notice_id, it.channel, it.partition, it.epoch))
            .collect();
        assert_eq!(
            placed,
            [
                (1, Channel::Now, 5, 3),
                (2, Channel::Ring(Slot::new(1).unwrap()), 5, 3),
                (3, Channel::Ring(Slot::new(1).unwrap()), 5, 3)
            ]
        );
        assert_eq!(plan.left, 0);
    }

    #[test]
    fn what_lies_too_far_ahead_or_in_another_shard_is_left() {
        let now = at("2026-11-29T14:00:00Z");
        let staged = Staged {
            notices: vec![notice(1, 6, now), notice(2, 5, at("2026-11-29T14:15:00.000001Z"))],
            database_now: now,
            next_due: None,
        };
        assert_eq!(place(staged, &shard(), GUARD), Plan { envelopes: vec![], left: 2 });
    }

    #[test]
    fn after_a_full_batch_there_is_no_pause_and_never_a_longer_one_than_the_poll() {
        let now = at("2026-11-29T14:00:00Z");
        let poll = Duration::from_millis(500);
        let after = |found, next| pause(found, 10, next, now, poll);
        assert_eq!(after(10, None), Duration::ZERO);
        assert_eq!(after(9, None), Duration::ZERO, "one was dropped from a full one, perhaps");
        assert_eq!(after(0, None), poll);
        assert_eq!(after(0, Some(now + TimeDelta::milliseconds(120))), Duration::from_millis(120));
        assert_eq!(after(0, Some(now + TimeDelta::hours(1))), poll);
        assert_eq!(after(0, Some(now - TimeDelta::hours(1))), SHORTEST);
    }
}
