//! The schedule in memory: the same port, the same guards, virtual time, and faults on demand.
//!
//! **Promises.** Answers as Postgres would (one contract suite runs on both), checks what the
//! database checks (legal moves, `PENDING ⇒ unanswered = 0`, fences that grow, contiguous history
//! with its hash chain) and panics where a CHECK would refuse. **Relies on** the clock it is given
//! as the *database's*. Present only in tests and under the feature `faults`, since it makes proofs
//! that no database stands behind; a panic in here is a failed test.
//!
//! A fault is either *error before* (nothing happened) or *performed, then lost* (COMMIT happened,
//! its answer did not arrive); the caller sees [`ScheduleError`] in both cases and has to tell.

mod rows;

pub use rows::AttemptRow;

use super::port::{
    ClaimTerms, Reaped, Schedule, ScheduleError, SettleFailed, ShardLease, Staged, StagedNotice,
};
use super::proof::{Answered, BadNoticeKept, ClaimAnswer, Claimed, Deferred, Refused, Settled};
use crate::domain::decision::Decision;
use crate::domain::guard::{self, CancelGuard, ClaimGuard, Lineage};
use crate::domain::history::HistoryRow;
use crate::domain::ids::{ClaimId, PaymentId};
use crate::domain::notice::Notice;
use crate::domain::payment::Payment;
use crate::platform::clock::SharedClock;
use chrono::{DateTime, Utc};
use rows::{Outcome, Row};
use secrecy::SecretString;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Which verb is asked for, so that a fault can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// `Schedule::stage`.
    Stage,
    /// `Schedule::mark`.
    Mark,
    /// `Schedule::claim`.
    Claim,
    /// `Schedule::claim_late`.
    ClaimLate,
    /// `Schedule::recover`.
    Recover,
    /// `Schedule::settle`.
    Settle,
    /// `Schedule::defer`.
    Defer,
    /// `Schedule::reap`.
    Reap,
}

/// What goes wrong with one call of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It fails and nothing happened.
    ErrorBefore,
    /// It happens and its answer is lost.
    PerformedThenLost,
    /// COMMIT was sent, did not happen, and nobody was told.
    NeverArrived,
    /// It happens after so long.
    Slow(Duration),
    /// It is refused as a defect; nothing happened.
    Defect,
}

type Faults = Box<dyn FnMut(Verb) -> Fault + Send>;

/// The schedule in memory.
pub struct Memory {
    clock: SharedClock,
    faults: Mutex<Faults>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    rows: BTreeMap<PaymentId, Row>,
    outbox: Vec<Outgoing>,
    /// Rows that a batch cannot carry (SQLSTATE 22, 23), until they are parked.
    poisoned: BTreeSet<PaymentId>,
    lineage: Lineage,
    bad_notices: usize,
}

#[derive(Debug)]
struct Outgoing {
    notice: Notice,
    written_at: DateTime<Utc>,
    marked: bool,
}

fn unavailable() -> ScheduleError {
    ScheduleError::Unavailable("injected: error before".into())
}

fn lost() -> ScheduleError {
    ScheduleError::CommitUnknown("injected: performed, then lost".into())
}

impl Memory {
    /// Empty, without faults; `clock` is the database's.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        let state = State {
            rows: BTreeMap::new(),
            outbox: Vec::new(),
            poisoned: BTreeSet::new(),
            lineage: Lineage::Released,
            bad_notices: 0,
        };
        Self { clock, faults: Mutex::new(Box::new(|_| Fault::None)), state: Mutex::new(state) }
    }

    /// From now on `faults` decides what each call meets.
    pub fn inject(&self, faults: impl FnMut(Verb) -> Fault + Send + 'static) {
        *self.faults.lock().unwrap() = Box::new(faults);
    }

    /// The next calls of `verb` meet these, in order; all others meet nothing.
    pub fn inject_next(&self, verb: Verb, next: impl IntoIterator<Item = Fault>) {
        let mut next: std::collections::VecDeque<Fault> = next.into_iter().collect();
        self.inject(
            move |asked| if asked == verb { next.pop_front().unwrap_or(Fault::None) } else { Fault::None },
        );
    }

    /// Adds a payment as intake would: PENDING, with its first history row and its due notice.
    ///
    /// # Panics
    /// If it is not a fresh PENDING payment, or its id is taken.
    pub fn add(&self, payment: Payment, payee: SecretString) {
        let now = self.clock.wall();
        let mut state = self.state();
        let id = payment.id;
        let row = Row::created(payment, payee, now);
        state.notify(&row.payment, now);
        assert!(state.rows.insert(id, row).is_none(), "{id} exists");
    }

    /// Cancels as the API would.
    pub fn cancel(&self, id: PaymentId) -> Option<CancelGuard> {
        let now = self.clock.wall();
        let mut state = self.state();
        let lineage = state.lineage;
        let row = state.rows.get_mut(&id)?;
        let answer = guard::cancel(&row.payment, lineage);
        if answer == CancelGuard::Win {
            row.cancel(now);
        }
        Some(answer)
    }

    /// From now on this row refuses to be part of any batch.
    pub fn poison(&self, id: PaymentId) {
        self.state().poisoned.insert(id);
    }

    /// Sets or ends the quarantine of rule R17.
    pub fn set_lineage(&self, lineage: Lineage) {
        self.state().lineage = lineage;
    }

    /// Keeps a record that nobody can read.
    pub fn keep_bad_notice(&self) -> BadNoticeKept {
        self.state().bad_notices += 1;
        BadNoticeKept::new()
    }

    /// The payment as it stands.
    pub fn payment(&self, id: PaymentId) -> Option<Payment> {
        self.state().rows.get(&id).map(|row| row.payment.clone())
    }

    /// Every payment as it stands, in order of id.
    pub fn payments(&self) -> Vec<Payment> {
        self.state().rows.values().map(|row| row.payment.clone()).collect()
    }

    /// Its history, oldest first.
    pub fn history(&self, id: PaymentId) -> Vec<HistoryRow> {
        self.state().rows.get(&id).map(|row| row.history.clone()).unwrap_or_default()
    }

    /// Its attempts, oldest first.
    pub fn attempts(&self, id: PaymentId) -> Vec<AttemptRow> {
        self.state().rows.get(&id).map(|row| row.attempts.clone()).unwrap_or_default()
    }

    /// Every notice ever written, oldest first, published or not.
    pub fn notices(&self) -> Vec<Notice> {
        self.state().outbox.iter().map(|outgoing| outgoing.notice.clone()).collect()
    }

    /// Verifies every history chain and that it ends in the row's state.
    ///
    /// # Panics
    /// If one does not.
    pub fn verify_histories(&self) {
        self.state().rows.values().for_each(Row::verify);
    }

    /// Edits a row behind the rules' back, to build a test's starting point.
    pub fn edit(&self, id: PaymentId, edit: impl FnOnce(&mut Payment)) {
        edit(&mut self.state().rows.get_mut(&id).unwrap().payment);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Performs one transaction under the fault of the moment.
    async fn transact<T>(
        &self,
        verb: Verb,
        work: impl FnOnce(&mut State, DateTime<Utc>) -> T,
    ) -> Result<T, ScheduleError> {
        let fault = (self.faults.lock().unwrap())(verb);
        match fault {
            Fault::ErrorBefore => return Err(unavailable()),
            Fault::NeverArrived => return Err(lost()),
            Fault::Defect => return Err(ScheduleError::Defect("injected: defect".into())),
            Fault::Slow(length) => self.clock.sleep(length).await,
            Fault::None | Fault::PerformedThenLost => {}
        }
        let done = work(&mut self.state(), self.clock.wall());
        if fault == Fault::PerformedThenLost { Err(lost()) } else { Ok(done) }
    }
}

impl State {
    /// Writes the due notice of a payment that may be claimed again.
    fn notify(&mut self, payment: &Payment, now: DateTime<Utc>) {
        let notice = Notice {
            payment: payment.id,
            gateway: payment.gateway.clone(),
            lane: payment.lane,
            due_at: payment.due_at,
            not_before: payment.next_attempt_at,
            attempt: payment.attempt,
        };
        self.outbox.push(Outgoing { notice, written_at: now, marked: false });
    }

    fn claim_one(
        &mut self,
        terms: &ClaimTerms,
        notice: &Notice,
        claim_id: ClaimId,
        now: DateTime<Utc>,
    ) -> ClaimAnswer {
        if self.poisoned.remove(&notice.payment)
            && let Some(row) = self.rows.get_mut(&notice.payment)
            && row.payment.status.is_claimable()
        {
            row.park_poisoned(now);
        }
        let row = self.rows.get_mut(&notice.payment);
        let payment = row.as_ref().map(|row| &row.payment);
        match (guard::claim(payment, notice, &terms.gateway, now, self.lineage), row) {
            (ClaimGuard::Win, Some(row)) => ClaimAnswer::Claimed(Box::new(row.claim(terms, claim_id, now))),
            (ClaimGuard::Win, None) => unreachable!("a row that does not exist is never won"),
            (ClaimGuard::Early { until, why }, _) => ClaimAnswer::Early { until, why },
            (ClaimGuard::Refused(why), _) => ClaimAnswer::Refused(Refused::new(why)),
        }
    }

    fn settle_one(&mut self, answered: &Answered, decision: &Decision, now: DateTime<Utc>) -> Settled {
        let id = answered.claimed().payment().id;
        let row = self.rows.get_mut(&id).unwrap();
        let (result, outcome) = row.settle(answered, decision, now);
        let payment = row.payment.clone();
        match outcome {
            Outcome::Again => self.notify(&payment, now),
            Outcome::Rests => {}
        }
        Settled::new(result)
    }
}

impl Schedule for Memory {
    async fn stage(&self, shard: &ShardLease, lead: Duration, limit: u32) -> Result<Staged, ScheduleError> {
        let limit = usize::try_from(limit).unwrap();
        let _one_shard_here = shard;
        self.transact(Verb::Stage, |state, now| {
            let horizon = now + lead;
            let mut open: Vec<(usize, &Outgoing)> =
                state.outbox.iter().enumerate().filter(|(_, o)| !o.marked).collect();
            open.sort_by_key(|(number, o)| (o.notice.not_before, *number));
            let next_due = open.iter().map(|(_, o)| o.notice.not_before).find(|at| *at > horizon);
            let due = open.into_iter().filter(|(_, o)| o.notice.not_before <= horizon).take(limit);
            let notices = due
                .map(|(number, o)| StagedNotice {
                    notice_id: i64::try_from(number).unwrap(),
                    written_at: o.written_at,
                    shard: 0,
                    notice: o.notice.clone(),
                    traceparent: None,
                    mac: String::new(),
                })
                .collect();
            Staged { notices, database_now: now, next_due }
        })
        .await
    }

    async fn mark(&self, shard: &ShardLease, published: &[StagedNotice]) -> Result<bool, ScheduleError> {
        let _one_shard_here = shard;
        self.transact(Verb::Mark, |state, _| {
            for staged in published {
                state.outbox[usize::try_from(staged.notice_id).unwrap()].marked = true;
            }
            true
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
            let pairs = notices.iter().zip(claim_ids);
            pairs.map(|(notice, claim_id)| state.claim_one(terms, notice, *claim_id, now)).collect()
        })
        .await
    }

    async fn claim_late(
        &self,
        terms: &ClaimTerms,
        late_by: Duration,
        claim_ids: &[ClaimId],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        self.transact(Verb::ClaimLate, |state, now| {
            let State { rows, poisoned, lineage, .. } = state;
            let mut late: Vec<&mut Row> = rows
                .values_mut()
                .filter(|row| guard::claim_late(&row.payment, &terms.gateway, late_by, now, *lineage))
                .filter(|row| !poisoned.contains(&row.payment.id))
                .collect();
            late.sort_by_key(|row| (row.payment.next_attempt_at, row.payment.id));
            late.into_iter().zip(claim_ids).map(|(row, id)| row.claim(terms, *id, now)).collect()
        })
        .await
    }

    async fn recover(
        &self,
        terms: &ClaimTerms,
        claimed: &[(PaymentId, ClaimId)],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        self.transact(Verb::Recover, |state, _| {
            let ours = claimed.iter().filter_map(|(id, claim_id)| {
                let row = state.rows.get(id)?;
                row.is_held_by(*claim_id).then(|| row.claimed(terms.asked_at))
            });
            ours.collect()
        })
        .await
    }

    async fn settle(&self, batch: Vec<(Answered, Decision)>) -> Result<Vec<Settled>, SettleFailed> {
        let written = self
            .transact(Verb::Settle, |state, now| {
                batch.iter().map(|(answered, decision)| state.settle_one(answered, decision, now)).collect()
            })
            .await;
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
        self.transact(Verb::Reap, |state, now| {
            let mut reaped = Reaped::default();
            let State { rows, lineage, .. } = state;
            let mut again = Vec::new();
            let expired =
                rows.values_mut().filter(|row| guard::reap(&row.payment, row.holding(), margin, now));
            for row in expired.take(limit) {
                row.expire(now);
                again.push(row.payment.clone());
                reaped.expired += 1;
            }
            let passed = rows.values_mut().filter(|row| guard::fail_by_deadline(&row.payment, now, *lineage));
            for row in passed.take(limit) {
                row.fail_by_deadline(now);
                reaped.deadline_failed += 1;
            }
            for payment in &again {
                state.notify(payment, now);
            }
            reaped
        })
        .await
    }
}
