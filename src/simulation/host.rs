//! One process's machine: its clocks, its pauses and its line to the database.
//!
//! **A pause** stops everything that the process has with the outside: answers that arrive, sleeps that
//! end, requests about to leave. What it computes in between takes no time in any case, so this is what
//! a frozen process is. Its monotonic clock goes on, as `CLOCK_BOOTTIME` does.
//!
//! **The line** adds what a network does: time on the way there and back, commits that were performed
//! and not answered, errors before anything happened, and a claim that arrives long after its sender
//! gave it up.

use super::dials::{Chance, Faults};
use super::kafka::Kafka;
use super::trace::{Met, Trace};
use crate::bucket::{BadNotice, Position, Read};
use crate::domain::decision::{Decision, EpochChange};
use crate::domain::ids::{ClaimId, GatewayName, PaymentId};
use crate::domain::invariants::Invariant;
use crate::domain::lease::Mono;
use crate::domain::notice::Notice;
use crate::domain::pace::{Beat, Grant, Terms};
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::verdict::{NotSent, Verdict};
use crate::keeper::Upkeep;
use crate::platform::clock::Clock;
use crate::schedule::{
    Answered, Backlog, BadNoticeKept, ClaimAnswer, ClaimTerms, Claimed, Deferred, Memory, OpenClaim, Reaped,
    RefusedBecause, Renewed, Schedule, ScheduleError, SettleFailed, Settled, SettledAs, ShardLease, Shards,
    Staged, StagedNotice, Standing,
};
use crate::worker::Store;
use crate::worker::lab::VirtualTime;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A machine.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) time: VirtualTime,
    step_us: AtomicI64,
    paused_until_us: AtomicU64,
}

impl Host {
    pub(super) fn new(time: VirtualTime) -> Arc<Self> {
        Arc::new(Self { time, step_us: AtomicI64::new(0), paused_until_us: AtomicU64::new(0) })
    }

    /// From now on its wall clock is wrong by so much.
    pub(super) fn step_clock(&self, by: TimeDelta) {
        self.step_us.store(by.num_microseconds().unwrap_or(0), Ordering::Relaxed);
    }

    /// It stands still from now on for so long.
    pub(super) fn pause(&self, length: Duration) {
        let until = (self.time.elapsed() + length).as_micros() as u64;
        self.paused_until_us.fetch_max(until, Ordering::Relaxed);
    }

    /// Goes on once the process does.
    pub(super) async fn pass(&self) {
        loop {
            let until = Duration::from_micros(self.paused_until_us.load(Ordering::Relaxed));
            let left = until.saturating_sub(self.time.elapsed());
            if left.is_zero() {
                return;
            }
            self.time.sleep(left).await;
        }
    }

    /// So long on this machine, and until it goes on.
    pub(super) async fn take(&self, length: Duration) {
        if !length.is_zero() {
            self.time.sleep(length).await;
        }
        self.pass().await;
    }

    /// One way over the network. Never no time at all, so that every await is a place where a process
    /// can die.
    pub(super) async fn travel(&self, chance: &Chance, longest: Duration) {
        self.take(chance.between(Duration::from_micros(50), longest)).await;
    }
}

/// The clocks of a machine, as its process reads them.
#[derive(Debug, Clone)]
pub(super) struct HostClock(pub(super) Arc<Host>);

impl Clock for HostClock {
    fn wall(&self) -> DateTime<Utc> {
        self.0.time.wall() + TimeDelta::microseconds(self.0.step_us.load(Ordering::Relaxed))
    }

    fn mono(&self) -> Mono {
        self.0.time.mono()
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        let host = Arc::clone(&self.0);
        Box::pin(async move { host.take(length).await })
    }
}

/// A process's line to the database.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) memory: Arc<Memory>,
    pub(super) host: Arc<Host>,
    pub(super) chance: Arc<Chance>,
    pub(super) trace: Trace,
    pub(super) faults: Arc<Mutex<Faults>>,
    pub(super) kafka: Arc<Kafka>,
    /// Times on the way are drawn up to this.
    pub(super) latency: Duration,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Line {
    async fn travel(&self) {
        self.host.travel(&self.chance, self.latency).await;
    }

    async fn call<T>(&self, work: impl Future<Output = T>) -> T {
        self.travel().await;
        let done = work.await;
        self.travel().await;
        done
    }

    /// A claim that its sender gives up now and that is performed later.
    fn goes_astray(&self, terms: &ClaimTerms, notices: &[Notice], claim_ids: &[ClaimId]) -> bool {
        let per_mille = self.faults.lock().unwrap().db_stray;
        if !self.chance.hits(per_mille) {
            return false;
        }
        let (terms, notices, claim_ids) = (terms.clone(), notices.to_vec(), claim_ids.to_vec());
        let (memory, trace, time) = (Arc::clone(&self.memory), self.trace.clone(), self.host.time.clone());
        // Before the record is presented again, mostly: later it finds its notice stale.
        let longest = Duration::from_millis(self.chance.pick(&[400, 400, 20_000]));
        let after = self.chance.between(Duration::from_millis(10), longest);
        tokio::spawn(async move {
            time.sleep(after).await;
            let answers = memory.claim(&terms, &notices, &claim_ids).await.unwrap_or_default();
            for answer in answers {
                if let ClaimAnswer::Claimed(claimed) = answer {
                    trace.met(Met::StrayClaim, Some(claimed.payment().id), after.as_micros() as u64);
                }
            }
        });
        true
    }

    fn tell_claim(&self, claimed: &Claimed, how: Met) {
        let payment = claimed.payment();
        self.trace.met(how, Some(payment.id), payment.fence.0 as u64);
        if claimed.was() == Status::Unknown {
            self.trace.met(Met::Reasked, Some(payment.id), payment.attempt as u64);
        }
    }

    fn tell_written(&self, id: PaymentId, verdict: &Verdict, decision: &Decision) {
        let met = |what| self.trace.met(what, Some(id), decision.to as u64);
        met(Met::Settled);
        match decision.to {
            Status::Completed => met(Met::Completed),
            Status::Failed => met(Met::Failed),
            Status::Parked => met(Met::Parked),
            Status::Pending => met(Met::Retried),
            Status::Unknown => met(Met::StaysUnknown),
            Status::Cancelled | Status::Processing | Status::Refunded => {}
        }
        if decision.epoch == EpochChange::Next {
            met(Met::EpochGrew);
        }
        if decision.reason == Some(Reason::KeyExpiredUndecided) {
            met(Met::KeyExpired);
        }
        let Verdict::NotSent { why, .. } = verdict else { return };
        match why {
            NotSent::LeaseTooShort => met(Met::GateClosed),
            NotSent::HostClockEarly => met(Met::TooEarly),
            NotSent::DeadlinePassed => met(Met::TooLate),
            NotSent::KeyExpired => met(Met::KeyExpired),
            NotSent::OnlyAsked => met(Met::OnlyAsked),
            NotSent::Dns
            | NotSent::Refused
            | NotSent::Tls
            | NotSent::NotAuthorised
            | NotSent::RateLimited
            | NotSent::Rejected
            | NotSent::BreakerOpen
            | NotSent::Paced
            | NotSent::Killed
            | NotSent::CancelWished
            | NotSent::NotStarted => {}
        }
    }

    fn tell_answers(&self, notices: &[Notice], answers: &[ClaimAnswer]) {
        for (notice, answer) in notices.iter().zip(answers) {
            let id = Some(notice.payment);
            match answer {
                ClaimAnswer::Claimed(claimed) => self.tell_claim(claimed, Met::Claimed),
                ClaimAnswer::Early { .. } => self.trace.met(Met::Early, id, notice.attempt as u64),
                ClaimAnswer::Refused(why) => {
                    self.trace.met(Met::Refused, id, notice.attempt as u64);
                    if matches!(why.why(), RefusedBecause::AheadOfRow | RefusedBecause::NoSuchPayment) {
                        self.trace.broke(Invariant::K3, id, format!("{notice:?}: {:?}", why.why()));
                    }
                }
            }
        }
    }
}

impl Schedule for Line {
    async fn stage(&self, shard: &ShardLease, lead: Duration, limit: u32) -> Result<Staged, ScheduleError> {
        self.call(self.memory.stage(shard, lead, limit)).await
    }

    async fn stage_crowd(
        &self,
        shard: &ShardLease,
        beyond: Duration,
        within: Duration,
        limit: u32,
    ) -> Result<Staged, ScheduleError> {
        self.call(self.memory.stage_crowd(shard, beyond, within, limit)).await
    }

    async fn mark(&self, shard: &ShardLease, published: &[StagedNotice]) -> Result<bool, ScheduleError> {
        for staged in published.iter().filter(|staged| !self.kafka.has_acknowledged(staged.notice_id)) {
            self.trace.broke(
                Invariant::K6,
                Some(staged.notice.payment),
                format!("marked: {:?}", staged.notice),
            );
        }
        let marked = self.call(self.memory.mark(shard, published)).await;
        if let Ok(false) = marked {
            self.trace.met(Met::ShardLost, None, shard.epoch as u64);
        }
        marked
    }

    async fn claim(
        &self,
        terms: &ClaimTerms,
        notices: &[Notice],
        claim_ids: &[ClaimId],
    ) -> Result<Vec<ClaimAnswer>, ScheduleError> {
        if self.goes_astray(terms, notices, claim_ids) {
            self.travel().await;
            return Err(ScheduleError::CommitUnknown("injected: on its way".into()));
        }
        let answers = self.call(self.memory.claim(terms, notices, claim_ids)).await?;
        self.tell_answers(notices, &answers);
        Ok(answers)
    }

    async fn claim_late(
        &self,
        terms: &ClaimTerms,
        late_by: Duration,
        but_lanes: &[i16],
        claim_ids: &[ClaimId],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        let ours = self.call(self.memory.claim_late(terms, late_by, but_lanes, claim_ids)).await?;
        ours.iter().for_each(|claimed| self.tell_claim(claimed, Met::ClaimedLate));
        Ok(ours)
    }

    async fn recover(
        &self,
        terms: &ClaimTerms,
        claimed: &[(PaymentId, ClaimId)],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        self.call(self.memory.recover(terms, claimed)).await
    }

    async fn renew(&self, claims: &[OpenClaim], length: Duration) -> Result<Vec<Renewed>, ScheduleError> {
        // Looked at by the names of the claims alone, before anything else can happen.
        let answers = self.call(async {
            let answers = self.memory.renew(claims, length).await?;
            for (claim, answer) in claims.iter().zip(&answers) {
                let id = Some(claim.payment);
                let holds =
                    self.memory.holding(claim.payment).is_some_and(|it| it.claim_id == claim.claim_id);
                match answer {
                    Renewed::Held if !holds => {
                        let what = format!("a lease was renewed for {claim:?}, which does not hold the row");
                        self.trace.broke(Invariant::H4, id, what);
                    }
                    Renewed::Held => self.trace.met(Met::Renewed, id, claim.fence.0 as u64),
                    Renewed::Lost => self.trace.met(Met::RenewedTooLate, id, claim.fence.0 as u64),
                }
            }
            Ok(answers)
        });
        answers.await
    }

    async fn settle(&self, batch: Vec<(Answered, Decision)>) -> Result<Vec<Settled>, SettleFailed> {
        let told: Vec<_> = batch
            .iter()
            .map(|(answered, decision)| {
                let verdict = answered.answer().verdict.clone();
                (answered.claimed().payment().id, verdict, decision.clone())
            })
            .collect();
        let settled = self.call(self.memory.settle(batch)).await?;
        for ((id, verdict, decision), proof) in told.iter().zip(&settled) {
            match proof.result() {
                SettledAs::Written(_) => self.tell_written(*id, verdict, decision),
                SettledAs::Fenced => self.trace.met(Met::FencedSettle, Some(*id), decision.to as u64),
            }
        }
        Ok(settled)
    }

    async fn defer(&self, notices: &[Notice]) -> Result<Vec<Option<Deferred>>, ScheduleError> {
        let deferred = self.call(self.memory.defer(notices)).await?;
        for (notice, proof) in notices.iter().zip(&deferred) {
            if proof.is_some() {
                self.trace.met(Met::Deferred, Some(notice.payment), notice.attempt as u64);
            }
        }
        Ok(deferred)
    }

    async fn reap(&self, margin: Duration, limit: u32) -> Result<Reaped, ScheduleError> {
        let reaped = self.call(self.memory.reap(margin, limit)).await?;
        (0..reaped.expired).for_each(|_| self.trace.met(Met::LeaseExpired, None, 0));
        (0..reaped.deadline_failed).for_each(|_| self.trace.met(Met::DeadlineFailed, None, 0));
        Ok(reaped)
    }
}

impl Shards for Line {
    async fn enlist_relay(
        &self,
        holder: &str,
        partitions: i32,
        length: Duration,
    ) -> Result<Standing, ScheduleError> {
        self.call(self.memory.enlist_relay(holder, partitions, length)).await
    }

    async fn retire_relay(
        &self,
        holder: &str,
        partitions: i32,
        held: &[ShardLease],
    ) -> Result<(), ScheduleError> {
        self.call(self.memory.retire_relay(holder, partitions, held)).await
    }

    async fn acquire_shards(
        &self,
        holder: &str,
        partitions: i32,
        want: usize,
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        self.call(self.memory.acquire_shards(holder, partitions, want, length)).await
    }

    async fn renew_shards(
        &self,
        held: &[ShardLease],
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        self.call(self.memory.renew_shards(held, length)).await
    }

    async fn release_shards(&self, held: &[ShardLease]) -> Result<(), ScheduleError> {
        self.call(self.memory.release_shards(held)).await
    }
}

/// In memory there are no partitions to look after.
impl Upkeep for Line {
    async fn ensure_partitions(&self, _back: u32, _ahead: u32) -> Result<u32, ScheduleError> {
        Ok(0)
    }

    async fn drop_drained_notices(&self, _back: u32) -> Result<u32, ScheduleError> {
        Ok(0)
    }

    async fn forget_declines(&self, _limit: u32) -> Result<u64, ScheduleError> {
        Ok(0)
    }

    async fn forget_callbacks(&self, _limit: u32) -> Result<u64, ScheduleError> {
        Ok(0)
    }

    async fn forget_actor_days(&self, _limit: u32) -> Result<u64, ScheduleError> {
        Ok(0)
    }

    async fn drop_webhook_days(&self, _keep: u32) -> Result<u32, ScheduleError> {
        Ok(0)
    }

    async fn discard_deliveries(&self, _limit: u32) -> Result<u64, ScheduleError> {
        Ok(0)
    }

    async fn advance_oldest_open_day(&self) -> Result<NaiveDate, ScheduleError> {
        Ok(self.host.time.wall().date_naive())
    }

    async fn backlog(&self, _most: u32) -> Result<Backlog, ScheduleError> {
        self.call(async { Ok(self.memory.backlog()) }).await
    }
}

impl Store for Line {
    fn database_now(&self) -> BoxFuture<'_, Result<DateTime<Utc>, ScheduleError>> {
        Box::pin(async {
            let clock = HostClock(Arc::clone(&self.host));
            let (database, apart) = self
                .call(async {
                    let database = self.host.time.wall();
                    (database, database - clock.wall())
                })
                .await;
            if apart.abs() > TimeDelta::milliseconds(500) {
                self.trace.met(Met::ClocksApart, None, apart.num_milliseconds().unsigned_abs());
            }
            Ok(database)
        })
    }

    fn beat_gateway<'a>(
        &'a self,
        gateway: &'a GatewayName,
        terms: &'a Terms,
        beat: &'a Beat,
    ) -> BoxFuture<'a, Result<Grant, ScheduleError>> {
        Box::pin(self.call(self.memory.beat_gateway(gateway, terms, beat)))
    }

    fn keep_bad_notice<'a>(
        &'a self,
        _at: Position,
        _bad: &'a BadNotice,
    ) -> BoxFuture<'a, Result<BadNoticeKept, ScheduleError>> {
        Box::pin(self.call(async { Ok(self.memory.keep_bad_notice()) }))
    }

    fn vouch(&self, read: Read) -> Result<Read, BadNotice> {
        Ok(read)
    }

    /// No commit is ever lost in memory, so whoever says so is wrong.
    fn commits_were_lost<'a>(
        &'a self,
        notice: &'a Notice,
        _sent_at: Option<DateTime<Utc>>,
        why: RefusedBecause,
    ) -> BoxFuture<'a, Result<(), ScheduleError>> {
        self.trace.broke(Invariant::K3, Some(notice.payment), format!("{notice:?}: {why:?}"));
        Box::pin(async { Ok(()) })
    }
}
