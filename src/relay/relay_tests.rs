//! A pass and the rounds, over an outbox and a ring in memory, with every step failing in turn.

use super::stage::Reach;
use super::*;
use crate::domain::bucket::{Channel, crowded_minute, minute_start, shard as shard_of, whole_minutes};
use crate::domain::decision::Decision;
use crate::domain::ids::{ClaimId, GatewayName, PaymentId};
use crate::domain::lease::Mono;
use crate::domain::notice::Notice;
use crate::platform::clock::Clock;
use crate::platform::shutdown::{Shutdown, Trigger};
use crate::schedule::*;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

const TERMS: Terms = Terms {
    lead: Duration::from_secs(90),
    guard: Duration::from_secs(15),
    batch: 3,
    poll: Duration::from_millis(500),
};

fn now() -> DateTime<Utc> {
    "2026-11-29T14:00:00Z".parse().unwrap()
}

/// An outbox of one partition, and the leases on it.
#[derive(Default)]
struct Outbox {
    rows: Mutex<BTreeMap<i64, StagedNotice>>,
    epoch: Mutex<i64>,
    /// Fails the next mark.
    mark_fails: Mutex<bool>,
    released: Mutex<usize>,
    /// Relays beside this one, and the older ones of them.
    standing: Mutex<(usize, usize)>,
    /// Asks to stop while it is enlisted.
    stops: Mutex<Option<Trigger>>,
}

impl Outbox {
    fn with(offsets_s: &[i64]) -> Self {
        let this = Self { epoch: Mutex::new(1), ..Self::default() };
        for (id, seconds) in (1..).zip(offsets_s) {
            let not_before = now() + TimeDelta::seconds(*seconds);
            let payment = PaymentId::new(not_before, [u8::try_from(id % 256).unwrap(); 10]).unwrap();
            let gateway = GatewayName("sandbox".into());
            let notice = Notice { payment, gateway, lane: 0, due_at: not_before, not_before, attempt: 0 };
            let row = StagedNotice {
                notice_id: id,
                written_at: now(),
                shard: shard_of(payment),
                notice,
                traceparent: None,
                mac: "00".into(),
            };
            this.rows.lock().unwrap().insert(id, row);
        }
        this
    }

    fn left(&self) -> Vec<i64> {
        self.rows.lock().unwrap().keys().copied().collect()
    }

    fn lease(&self) -> ShardLease {
        ShardLease { residue: 0, partitions: 1, holder: "r".into(), epoch: *self.epoch.lock().unwrap() }
    }
}

impl Schedule for Outbox {
    async fn stage(&self, _: &ShardLease, lead: Duration, limit: u32) -> Result<Staged, ScheduleError> {
        let mut rows: Vec<_> = self.rows.lock().unwrap().values().cloned().collect();
        rows.sort_by_key(|row| row.notice.not_before);
        let (mut near, far): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.notice.not_before <= now() + lead);
        near.truncate(usize::try_from(limit).unwrap());
        let next_due = far.first().map(|row| row.notice.not_before - lead);
        Ok(Staged { notices: near, database_now: now(), next_due })
    }

    async fn stage_crowd(
        &self,
        _: &ShardLease,
        beyond: Duration,
        within: Duration,
        limit: u32,
    ) -> Result<Staged, ScheduleError> {
        let signed = |lead| TimeDelta::from_std(lead).unwrap();
        let (rows, limit) = (self.rows.lock().unwrap(), usize::try_from(limit).unwrap());
        let minute = whole_minutes(now(), signed(beyond), signed(within))
            .and_then(|span| crowded_minute(rows.values().map(|row| row.notice.not_before), span, limit));
        let mut crowd: Vec<_> = rows
            .values()
            .filter(|row| Some(minute_start(row.notice.not_before)) == minute)
            .cloned()
            .collect();
        crowd.sort_by_key(|row| row.notice.not_before);
        crowd.truncate(limit);
        Ok(Staged { notices: crowd, database_now: now(), next_due: None })
    }

    async fn mark(&self, shard: &ShardLease, published: &[StagedNotice]) -> Result<bool, ScheduleError> {
        if std::mem::take(&mut *self.mark_fails.lock().unwrap()) {
            return Err(ScheduleError::CommitUnknown("lost".into()));
        }
        if shard.epoch != *self.epoch.lock().unwrap() {
            return Ok(false);
        }
        for row in published {
            assert!(self.rows.lock().unwrap().remove(&row.notice_id).is_some(), "marked twice");
        }
        Ok(true)
    }

    async fn claim(
        &self,
        _: &ClaimTerms,
        _: &[Notice],
        _: &[ClaimId],
    ) -> Result<Vec<ClaimAnswer>, ScheduleError> {
        unreachable!("a relay claims nothing")
    }
    async fn claim_late(
        &self,
        _: &ClaimTerms,
        _: Duration,
        _: &[i16],
        _: &[ClaimId],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        unreachable!("a relay claims nothing")
    }
    async fn renew(&self, _: &[OpenClaim], _: Duration) -> Result<Vec<Renewed>, ScheduleError> {
        unreachable!("no relay renews a claim")
    }

    async fn recover(
        &self,
        _: &ClaimTerms,
        _: &[(PaymentId, ClaimId)],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        unreachable!("a relay claims nothing")
    }
    async fn settle(&self, _: Vec<(Answered, Decision)>) -> Result<Vec<Settled>, SettleFailed> {
        unreachable!("a relay settles nothing")
    }
    async fn defer(&self, _: &[Notice]) -> Result<Vec<Option<Deferred>>, ScheduleError> {
        unreachable!("a relay defers nothing")
    }
    async fn reap(&self, _: Duration, _: u32) -> Result<Reaped, ScheduleError> {
        unreachable!("a relay reaps nothing")
    }
}

impl Shards for Outbox {
    async fn enlist_relay(&self, _: &str, _: i32, _: Duration) -> Result<Standing, ScheduleError> {
        if let Some(trigger) = &*self.stops.lock().unwrap() {
            trigger.stop();
        }
        let (others, older) = *self.standing.lock().unwrap();
        Ok(Standing { others, older })
    }
    async fn retire_relay(&self, _: &str, _: i32, held: &[ShardLease]) -> Result<(), ScheduleError> {
        self.release_shards(held).await
    }
    async fn acquire_shards(
        &self,
        holder: &str,
        partitions: i32,
        _: usize,
        _: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        let mut epoch = self.epoch.lock().unwrap();
        *epoch += 1;
        Ok(vec![ShardLease { residue: 0, partitions, holder: holder.into(), epoch: *epoch }])
    }
    async fn renew_shards(&self, held: &[ShardLease], _: Duration) -> Result<Vec<ShardLease>, ScheduleError> {
        let epoch = *self.epoch.lock().unwrap();
        Ok(held.iter().filter(|lease| lease.epoch == epoch).cloned().collect())
    }
    async fn release_shards(&self, held: &[ShardLease]) -> Result<(), ScheduleError> {
        *self.released.lock().unwrap() += held.len();
        Ok(())
    }
}

/// Keeps what arrives; loses the notices it is told to lose, once each.
#[derive(Default)]
struct Topics {
    arrived: Mutex<Vec<(i64, Channel)>>,
    loses: Mutex<BTreeSet<i64>>,
}

impl Topics {
    fn ids(&self) -> Vec<i64> {
        self.arrived.lock().unwrap().iter().map(|(id, _)| *id).collect()
    }
}

impl Publisher for Topics {
    async fn publish(&self, batch: &[Envelope]) -> Result<(), NotAcknowledged> {
        let mut indexes = Vec::new();
        for (index, envelope) in batch.iter().enumerate() {
            if self.loses.lock().unwrap().remove(&envelope.staged.notice_id) {
                indexes.push(index);
            } else {
                self.arrived.lock().unwrap().push((envelope.staged.notice_id, envelope.channel));
            }
        }
        match indexes.is_empty() {
            true => Ok(()),
            false => Err(NotAcknowledged { indexes, of: batch.len(), first: "timed out".into() }),
        }
    }
}

#[tokio::test]
async fn what_is_acknowledged_is_marked_and_nothing_waits_after_a_full_batch() {
    let (outbox, topics) = (Outbox::with(&[5, 60, 61, 80, 500]), Topics::default());
    let shard = outbox.lease();
    let pass = step(&outbox, &topics, &shard, Reach::Usual, &TERMS).await.unwrap();
    assert_eq!(pass, Pass { published: 3, pause: Duration::ZERO });
    let pass = step(&outbox, &topics, &shard, Reach::Usual, &TERMS).await.unwrap();
    assert_eq!(pass, Pass { published: 1, pause: TERMS.poll });
    assert_eq!(topics.ids(), [1, 2, 3, 4]);
    assert_eq!(topics.arrived.lock().unwrap()[0].1, Channel::Now, "due in 5 s, inside the guard");
    assert_eq!(outbox.left(), [5]);
}

#[tokio::test]
async fn of_a_batch_that_arrived_in_part_only_that_part_is_marked() {
    let (outbox, topics) = (Outbox::with(&[60, 61, 62]), Topics::default());
    topics.loses.lock().unwrap().insert(2);
    let shard = outbox.lease();
    let failed = step(&outbox, &topics, &shard, Reach::Usual, &TERMS).await.unwrap_err();
    assert!(
        matches!(failed, PassFailed::NotAcknowledged(NotAcknowledged { indexes, of: 3, .. }) if indexes == [1])
    );
    assert_eq!(outbox.left(), [2]);
    step(&outbox, &topics, &shard, Reach::Usual, &TERMS).await.unwrap();
    assert_eq!(topics.ids(), [1, 3, 2]);
    assert_eq!(outbox.left(), [] as [i64; 0]);
}

#[tokio::test]
async fn a_lost_answer_to_the_mark_publishes_again_and_loses_nothing() {
    let (outbox, topics) = (Outbox::with(&[60, 61]), Topics::default());
    *outbox.mark_fails.lock().unwrap() = true;
    let shard = outbox.lease();
    let failed = step(&outbox, &topics, &shard, Reach::Usual, &TERMS).await.unwrap_err();
    assert!(matches!(failed, PassFailed::NotMarked(ScheduleError::CommitUnknown(_))));
    assert_eq!(outbox.left(), [1, 2]);
    step(&outbox, &topics, &shard, Reach::Usual, &TERMS).await.unwrap();
    assert_eq!(topics.ids(), [1, 2, 1, 2]);
    assert_eq!(outbox.left(), [] as [i64; 0]);
}

#[tokio::test]
async fn a_relay_that_lost_its_shard_marks_nothing() {
    let (outbox, topics) = (Outbox::with(&[60]), Topics::default());
    let stale = outbox.lease();
    *outbox.epoch.lock().unwrap() += 1;
    let failed = step(&outbox, &topics, &stale, Reach::Usual, &TERMS).await.unwrap_err();
    assert!(matches!(failed, PassFailed::ShardLost));
    assert_eq!(outbox.left(), [1]);
}

#[tokio::test]
async fn far_ahead_only_a_crowded_minute_is_published() {
    let topics = Topics::default();
    let sparse = Outbox::with(&[200, 400, 600]);
    let pass = step(&sparse, &topics, &sparse.lease(), Reach::Ahead, &TERMS).await.unwrap();
    assert_eq!(pass, Pass { published: 0, pause: TERMS.poll });
    // Whatever waits before it: a minute has a topic of its own.
    let crowd = Outbox::with(&[130, 200, 310, 430, 601, 602, 603, 604]);
    let pass = step(&crowd, &topics, &crowd.lease(), Reach::Ahead, &TERMS).await.unwrap();
    assert_eq!(pass.published, 3);
    assert_eq!(crowd.left(), [1, 2, 3, 4, 8], "less than a batch is left for the usual lead");
    let beyond = Outbox::with(&[901, 902, 903]);
    let pass = step(&beyond, &topics, &beyond.lease(), Reach::Ahead, &TERMS).await.unwrap();
    assert_eq!(pass.published, 0, "the ring would meet its own tail");
}

/// Time passes only by sleeping.
struct Virtual(Arc<Mutex<Duration>>);

impl Clock for Virtual {
    fn wall(&self) -> DateTime<Utc> {
        now()
    }
    fn mono(&self) -> Mono {
        Mono(*self.0.lock().unwrap())
    }
    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        let time = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::task::yield_now().await;
            *time.lock().unwrap() += length;
        })
    }
}

fn relay() -> Relay {
    Relay {
        holder: "r".into(),
        partitions: 1,
        shard_lease: Duration::from_secs(10),
        terms: TERMS,
        clock: Arc::new(Virtual(Arc::default())),
    }
}

/// Runs the rounds beside a test that watches and ends them.
async fn beside<F: Future<Output = ()>>(outbox: &Outbox, topics: &Topics, watcher: F) {
    let (trigger, shutdown) = Shutdown::manual();
    let relay = relay();
    let ran = run(&relay, outbox, topics, &shutdown);
    let (ran, ()) = futures_util::future::join(ran, async {
        watcher.await;
        trigger.stop();
    })
    .await;
    ran.unwrap();
}

async fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came true");
}

#[tokio::test]
async fn the_rounds_publish_everything_within_reach_and_give_the_shard_back() {
    let (outbox, topics) = (Outbox::with(&[-5, 10, 20, 30, 40, 50, 60, 70, 80]), Topics::default());
    beside(&outbox, &topics, until(|| outbox.left().is_empty())).await;
    assert_eq!(topics.ids(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(*outbox.released.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_crowd_far_ahead_is_published_in_turn_with_what_is_near() {
    // Three batches each: far ahead in one minute, and within the lead.
    let far = 601..610;
    let near = 10..19;
    let offsets: Vec<i64> = far.chain(near).collect();
    let (outbox, topics) = (Outbox::with(&offsets), Topics::default());
    beside(&outbox, &topics, until(|| outbox.left().is_empty())).await;
    let order: Vec<bool> = topics.ids().chunks(3).map(|batch| batch[0] <= 9).collect();
    assert_eq!(order, [true, false, true, false, true, false], "far, near, far, near, …");
}

#[tokio::test]
async fn the_rounds_survive_lost_notices_lost_marks_and_a_stolen_shard() {
    let (outbox, topics) = (Outbox::with(&[10, 20, 30, 40, 50, 60]), Topics::default());
    topics.loses.lock().unwrap().extend([2, 5]);
    *outbox.mark_fails.lock().unwrap() = true;
    let thief = async {
        until(|| !topics.ids().is_empty()).await;
        *outbox.epoch.lock().unwrap() += 1;
        until(|| outbox.left().is_empty()).await;
    };
    beside(&outbox, &topics, thief).await;
    let seen: BTreeSet<i64> = topics.ids().into_iter().collect();
    assert_eq!(seen, (1..=6).collect());
}

#[tokio::test]
async fn a_relay_without_a_share_gives_its_shard_back_and_takes_it_again_when_it_is_alone() {
    let (outbox, topics) = (Outbox::with(&[10, 20, 30, 40]), Topics::default());
    let watcher = async {
        until(|| outbox.left().is_empty()).await;
        let epoch = *outbox.epoch.lock().unwrap();
        *outbox.standing.lock().unwrap() = (1, 1);
        until(|| *outbox.released.lock().unwrap() == 1).await;
        assert_eq!(*outbox.epoch.lock().unwrap(), epoch, "it takes nothing that is not its share");
        *outbox.standing.lock().unwrap() = (0, 0);
        until(|| *outbox.epoch.lock().unwrap() == epoch + 1).await;
    };
    beside(&outbox, &topics, watcher).await;
    assert_eq!(topics.ids(), [1, 2, 3, 4]);
    assert_eq!(*outbox.released.lock().unwrap(), 2, "and once more at its end");
}

#[tokio::test]
async fn a_relay_that_was_asked_to_stop_while_it_waited_takes_no_shard() {
    let (outbox, topics) = (Outbox::with(&[10]), Topics::default());
    let (trigger, shutdown) = Shutdown::manual();
    *outbox.stops.lock().unwrap() = Some(trigger);
    run(&relay(), &outbox, &topics, &shutdown).await.unwrap();
    assert_eq!((*outbox.epoch.lock().unwrap(), *outbox.released.lock().unwrap()), (1, 0));
    assert_eq!(outbox.left(), [1]);
}

/// Its first delivery report waits for a word.
#[derive(Default)]
struct Stuck {
    begun: Mutex<bool>,
    report: tokio::sync::Notify,
}

impl Publisher for Stuck {
    async fn publish(&self, _: &[Envelope]) -> Result<(), NotAcknowledged> {
        *self.begun.lock().unwrap() = true;
        self.report.notified().await;
        Ok(())
    }
}

#[tokio::test]
async fn a_relay_that_was_asked_to_stop_waits_for_its_publish_and_for_nothing_else() {
    let (outbox, stuck, time) = (Outbox::with(&[10]), Stuck::default(), Arc::new(Mutex::default()));
    let (trigger, shutdown) = Shutdown::manual();
    let relay = Relay { clock: Arc::new(Virtual(Arc::clone(&time))), ..relay() };
    let yields = async || {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    let watcher = async {
        until(|| *stuck.begun.lock().unwrap()).await;
        trigger.stop();
        // What it slept for when it was asked.
        yields().await;
        let before = *time.lock().unwrap();
        yields().await;
        assert_eq!(*time.lock().unwrap(), before, "it slept again");
        stuck.report.notify_one();
    };
    let (ran, ()) = futures_util::future::join(run(&relay, &outbox, &stuck, &shutdown), watcher).await;
    ran.unwrap();
    assert_eq!(outbox.left(), [] as [i64; 0], "marked, and then it went");
}
