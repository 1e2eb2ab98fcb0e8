//! The port's verbs over the rows in memory: each one transaction under the fault of the moment.

use super::super::port::{
    ClaimTerms, OpenClaim, Reaped, Renewed, Schedule, ScheduleError, SettleFailed, ShardLease, Staged,
    StagedNotice,
};
use super::super::proof::{Answered, ClaimAnswer, Claimed, Deferred, Early, Refused, Settled};
use super::super::stage::OLD;
use super::rows::{Outcome, Row};
use super::{Memory, State, Verb};
use crate::domain::bucket::whole_minutes;
use crate::domain::decision::Decision;
use crate::domain::guard::{self, ClaimGuard, Lineage, PAUSE, SettleGuard};
use crate::domain::ids::{ClaimId, PaymentId};
use crate::domain::notice::Notice;
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use crate::platform::faults::{Sabotage, sabotaged};
use crate::schedule::{Backlog, OpenStates};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

impl State {
    /// As the statements do it: all that can be won first, and only then the others' reasons.
    fn claim(
        &mut self,
        terms: &ClaimTerms,
        asks: &[(&Notice, ClaimId)],
        now: DateTime<Utc>,
    ) -> Vec<ClaimAnswer> {
        let won: Vec<Option<Claimed>> =
            asks.iter().map(|(notice, claim_id)| self.won(terms, notice, *claim_id, now)).collect();
        let answers = asks.iter().zip(won).map(|((notice, _), won)| match won {
            Some(claimed) => ClaimAnswer::Claimed(Box::new(claimed)),
            None => self.explain(terms, notice, now),
        });
        answers.collect()
    }

    fn won(
        &mut self,
        terms: &ClaimTerms,
        notice: &Notice,
        claim_id: ClaimId,
        now: DateTime<Utc>,
    ) -> Option<Claimed> {
        let id = notice.payment;
        if self.poisoned.remove(&id)
            && self.rows.get(&id).is_some_and(|row| row.payment.status.is_claimable())
        {
            self.change(id, |row| row.park_poisoned(now));
        }
        let payment = self.rows.get(&id).map(|row| &row.payment);
        let mut notice = notice.clone();
        if let (Some(row), true) = (payment, sabotaged(Sabotage::SpentNotice)) {
            notice.attempt = row.attempt;
        }
        let ahead =
            if sabotaged(Sabotage::DueByWorkerClock) { TimeDelta::days(1) } else { TimeDelta::zero() };
        let may = guard::claim(payment, &notice, &terms.gateway, now + ahead, self.lineage, &self.switches)
            == ClaimGuard::Win;
        may.then(|| {
            self.change(id, |row| row.claim(terms, claim_id, now));
            self.claimed(id, terms.asked_at)
        })
    }

    fn explain(&self, terms: &ClaimTerms, notice: &Notice, now: DateTime<Utc>) -> ClaimAnswer {
        let payment = self.rows.get(&notice.payment).map(|row| &row.payment);
        match guard::claim(payment, notice, &terms.gateway, now, self.lineage, &self.switches) {
            // Nothing moves between the two looks.
            ClaimGuard::Win => ClaimAnswer::Early { until: now + PAUSE, why: Early::Contended },
            ClaimGuard::Early { until, why } => ClaimAnswer::Early { until, why },
            ClaimGuard::Refused(why) => ClaimAnswer::Refused(Refused::new(why)),
        }
    }

    /// As the statements do it: first what is current, and then the late answers beside it.
    fn settle(&mut self, batch: &[(Answered, Decision)], now: DateTime<Utc>) -> Vec<Settled> {
        let mut settled: Vec<Option<Settled>> = batch.iter().map(|_| None).collect();
        for late in [false, true] {
            for (place, (answered, decision)) in batch.iter().enumerate() {
                if settled[place].is_none() && (late || self.is_current(answered)) {
                    settled[place] = Some(self.settle_one(answered, decision, now));
                }
            }
        }
        settled.into_iter().flatten().collect()
    }

    fn is_current(&self, answered: &Answered) -> bool {
        self.rows[&answered.claimed().payment().id].is_current(answered)
    }

    fn settle_one(&mut self, answered: &Answered, decision: &Decision, now: DateTime<Utc>) -> Settled {
        let id = answered.claimed().payment().id;
        if !self.rows[&id].is_answered(answered.claimed().claim_id()) {
            self.declines.count(answered, now);
        }
        let (result, outcome) = self.change(id, |row| row.settle(answered, decision, now));
        match outcome {
            Outcome::Again => self.notify(id, now),
            Outcome::Rests => {}
        }
        Settled::new(result)
    }

    /// Writes the due notice of a payment that may be claimed again.
    pub(super) fn notify(&mut self, id: PaymentId, now: DateTime<Utc>) {
        self.outbox.write(&self.rows[&id].payment, now);
    }

    fn claim_late(
        &mut self,
        terms: &ClaimTerms,
        (late_by, but_lanes): (Duration, &[i16]),
        claim_ids: &[ClaimId],
        now: DateTime<Utc>,
    ) -> Vec<Claimed> {
        let wanted = |id: &PaymentId| {
            let row = &self.rows[id].payment;
            guard::claim_late(row, &terms.gateway, late_by, now, self.lineage, &self.switches)
                && !but_lanes.contains(&row.lane)
                && !self.poisoned.contains(id)
        };
        let late = self.index.claimable(&terms.gateway, now).filter(wanted).take(claim_ids.len());
        let late: Vec<PaymentId> = late.collect();
        let pairs = late.into_iter().zip(claim_ids);
        let claims = pairs.map(|(id, claim_id)| {
            self.change(id, |row| row.claim(terms, *claim_id, now));
            self.claimed(id, terms.asked_at)
        });
        claims.collect()
    }

    fn renew(&mut self, claim: &OpenClaim, length: Duration, now: DateTime<Utc>) -> Renewed {
        let Some(row) = self.rows.get(&claim.payment) else { return Renewed::Lost };
        match guard::settle(&row.payment, row.holding(), claim.fence, claim.claim_id) {
            SettleGuard::Current => {
                self.change(claim.payment, |row| row.renew(now + length));
                Renewed::Held
            }
            SettleGuard::Fenced if sabotaged(Sabotage::RenewalWithoutFence) && row.holding().is_some() => {
                self.change(claim.payment, |row| row.renew(now + length));
                Renewed::Held
            }
            SettleGuard::Fenced => Renewed::Lost,
        }
    }

    /// Claims whose lease is over, oldest first.
    fn expired(&self, margin: Duration, limit: usize, now: DateTime<Utc>) -> Vec<PaymentId> {
        let is_expired = |id: &PaymentId| {
            let row = &self.rows[id];
            guard::reap(&row.payment, row.holding(), margin, now)
        };
        let mut expired: Vec<_> = self.index.held().filter(is_expired).collect();
        expired.sort_by_key(|id| self.rows[id].holding().map(|held| held.lease_until));
        expired.truncate(limit);
        expired
    }

    fn reap(&mut self, margin: Duration, limit: usize, now: DateTime<Utc>) -> Reaped {
        let expired = self.expired(margin, limit, now);
        for id in &expired {
            self.change(*id, |row| row.expire(now));
            self.notify(*id, now);
        }
        let passed = |id: &PaymentId| guard::fail_by_deadline(&self.rows[id].payment, now, self.lineage);
        let passed: Vec<_> = self.index.past_deadline(now).filter(passed).take(limit).collect();
        for id in &passed {
            self.change(*id, |row| row.fail_by_deadline(now));
        }
        let count = |ids: &[PaymentId]| u32::try_from(ids.len()).unwrap();
        Reaped { expired: count(&expired), deadline_failed: count(&passed) }
    }
}

impl State {
    /// Of a seeded bug alone: whatever these are by now, they become UNKNOWN.
    fn reap_as_read(&mut self, read: &[PaymentId], now: DateTime<Utc>) {
        for id in read {
            self.change(*id, |row| match row.payment.status {
                Status::Processing => row.expire(now),
                _ => row.force(Status::Unknown, now),
            });
            self.notify(*id, now);
        }
    }

    /// What `schedule::stage` does: reads, and drops what is old and can claim nothing any more.
    fn stage_crowd(
        &mut self,
        shard: &ShardLease,
        beyond: Duration,
        within: Duration,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Staged {
        let signed = |lead| TimeDelta::from_std(lead).unwrap();
        match whole_minutes(now, signed(beyond), signed(within)) {
            Some(span) => self.outbox.stage_crowd(shard, span, limit, now),
            None => Staged { notices: Vec::new(), database_now: now, next_due: None },
        }
    }

    fn stage(&mut self, shard: &ShardLease, lead: Duration, limit: usize, now: DateTime<Utc>) -> Staged {
        let Staged { notices, database_now, next_due } = self.outbox.stage(shard, lead, limit, now);
        let is_dead = |staged: &StagedNotice| {
            let row = self.rows.get(&staged.notice.payment).map(|row| &row.payment);
            let is_its = |row: &Payment| row.status.is_claimable() && row.attempt == staged.notice.attempt;
            staged.notice.not_before < now - OLD && !row.is_some_and(is_its)
        };
        let (dead, notices): (Vec<_>, Vec<_>) = notices.into_iter().partition(is_dead);
        if self.is_held_by(shard) {
            self.outbox.mark(&dead);
        }
        Staged { notices, database_now, next_due }
    }
}

impl Memory {
    /// As `Postgres::backlog`; in memory every day is made, and nobody watches how many stand where.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        let now = self.clock.wall();
        let state = self.state();
        Backlog {
            oldest_due: state.index.oldest_due(now),
            unpublished_due: i64::try_from(state.outbox.open_until(now)).unwrap(),
            days_ahead: 1,
            oldest_open_day_age: 0,
            open: OpenStates::default(),
        }
    }

    /// How many claimable rows are due.
    #[must_use]
    pub fn due(&self) -> usize {
        self.state().index.due(self.clock.wall())
    }

    /// Whether a notice has left its mark on its payment, so that its record may be complete: the
    /// payment has moved on from it, or is so overdue that the late scan owns it (invariant K1).
    #[must_use]
    pub fn has_evidence(&self, notice: &Notice) -> bool {
        let now = self.clock.wall();
        let state = self.state();
        let row = state.rows.get(&notice.payment).map(|row| &row.payment);
        let moved_on = row.is_some_and(|row| row.attempt > notice.attempt || !row.status.is_claimable());
        moved_on || guard::defer(row, notice, now)
    }
}

impl Schedule for Memory {
    async fn stage(&self, shard: &ShardLease, lead: Duration, limit: u32) -> Result<Staged, ScheduleError> {
        let limit = usize::try_from(limit).unwrap();
        self.transact(Verb::Stage, |state, now| state.stage(shard, lead, limit, now)).await
    }

    async fn stage_crowd(
        &self,
        shard: &ShardLease,
        beyond: Duration,
        within: Duration,
        limit: u32,
    ) -> Result<Staged, ScheduleError> {
        let limit = usize::try_from(limit).unwrap();
        self.transact(Verb::Stage, |state, now| state.stage_crowd(shard, beyond, within, limit, now)).await
    }

    async fn mark(&self, shard: &ShardLease, published: &[StagedNotice]) -> Result<bool, ScheduleError> {
        self.transact(Verb::Mark, |state, _| {
            let ours = state.is_held_by(shard);
            if ours {
                state.outbox.mark(published);
            }
            ours
        })
        .await
    }

    async fn claim(
        &self,
        terms: &ClaimTerms,
        notices: &[Notice],
        claim_ids: &[ClaimId],
    ) -> Result<Vec<ClaimAnswer>, ScheduleError> {
        assert_eq!(notices.len(), claim_ids.len(), "one fresh id a notice");
        self.transact(Verb::Claim, |state, now| {
            let asks: Vec<_> = notices.iter().zip(claim_ids.iter().copied()).collect();
            state.claim(terms, &asks, now)
        })
        .await
    }

    async fn claim_late(
        &self,
        terms: &ClaimTerms,
        late_by: Duration,
        but_lanes: &[i16],
        claim_ids: &[ClaimId],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        let wanted = (late_by, but_lanes);
        self.transact(Verb::ClaimLate, |state, now| state.claim_late(terms, wanted, claim_ids, now)).await
    }

    async fn recover(
        &self,
        terms: &ClaimTerms,
        claimed: &[(PaymentId, ClaimId)],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        self.transact(Verb::Recover, |state, _| {
            let ours = claimed.iter().filter_map(|(id, claim_id)| {
                let row: &Row = state.rows.get(id)?;
                (row.is_held_by(*claim_id) && state.lineage == Lineage::Released)
                    .then(|| state.claimed(*id, terms.asked_at))
            });
            ours.collect()
        })
        .await
    }

    async fn renew(&self, claims: &[OpenClaim], length: Duration) -> Result<Vec<Renewed>, ScheduleError> {
        self.transact(Verb::Renew, |state, now| {
            claims.iter().map(|claim| state.renew(claim, length, now)).collect()
        })
        .await
    }

    async fn settle(&self, batch: Vec<(Answered, Decision)>) -> Result<Vec<Settled>, SettleFailed> {
        let written = self.transact(Verb::Settle, |state, now| state.settle(&batch, now)).await;
        written.map_err(|error| SettleFailed { batch, error })
    }

    async fn defer(&self, notices: &[Notice]) -> Result<Vec<Option<Deferred>>, ScheduleError> {
        self.transact(Verb::Defer, |state, now| {
            let owned = |notice: &Notice| {
                guard::defer(state.rows.get(&notice.payment).map(|row| &row.payment), notice, now)
            };
            notices.iter().map(|notice| owned(notice).then(Deferred::new)).collect()
        })
        .await
    }

    async fn reap(&self, margin: Duration, limit: u32) -> Result<Reaped, ScheduleError> {
        let limit = usize::try_from(limit).unwrap();
        if sabotaged(Sabotage::ReaperWithoutCas) {
            let read = self.transact(Verb::Reap, |state, now| state.expired(margin, limit, now)).await?;
            self.clock.sleep(Duration::from_secs(2)).await;
            self.transact(Verb::Reap, |state, now| state.reap_as_read(&read, now)).await?;
        }
        self.transact(Verb::Reap, |state, now| state.reap(margin, limit, now)).await
    }
}
