//! The schedule in memory: the same port, the same guards, virtual time, and faults on demand.
//!
//! **Promises.** Answers as Postgres would (one contract suite runs on both), checks what the
//! database checks (legal moves, `PENDING ⇒ unanswered = 0`, fences that grow, contiguous history
//! with its hash chain) and panics where a CHECK would refuse. **Relies on** the clock it is given
//! as the *database's*. Present only in tests and under the feature `simulation`, which the production
//! image is built without, since it makes proofs that no database stands behind; a panic in here is a
//! failed run.
//!
//! A fault is either *error before* (nothing happened) or *performed, then lost* (COMMIT happened,
//! its answer did not arrive); the caller sees [`ScheduleError`] in both cases and has to tell.

mod declines;
mod index;
mod intake;
mod outbox;
mod pace;
mod rows;
mod shards;
mod verbs;

pub use rows::AttemptRow;

use super::port::ScheduleError;
use super::proof::BadNoticeKept;
use crate::domain::facts::VoidSupport;
use crate::domain::guard::{self, CancelGuard, Holding, Lineage};
use crate::domain::history::HistoryRow;
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::notice::Notice;
use crate::domain::pace::Pace;
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use crate::domain::switches::{Pause, Switch, Switches, Turned};
use crate::platform::clock::SharedClock;
use crate::platform::faults::{Sabotage, sabotaged};
use chrono::{DateTime, Utc};
use declines::Counted;
use index::Index;
use intake::Desk;
use outbox::Outbox;
use rows::Row;
use secrecy::SecretString;
use shards::{Held, Living};
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
    /// `Schedule::renew`.
    Renew,
    /// `Schedule::settle`.
    Settle,
    /// `Schedule::defer`.
    Defer,
    /// `Schedule::reap`.
    Reap,
    /// [`Memory::beat_gateway`].
    Beat,
    /// Any verb of the relay's shard leases.
    Shards,
    /// [`Memory::request`].
    Create,
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
    index: Index,
    outbox: Outbox,
    shards: BTreeMap<(i32, i32), Held>,
    /// By partition count and name.
    relays: BTreeMap<(i32, String), Living>,
    /// Rows that a batch cannot carry (SQLSTATE 22, 23), until they are parked.
    poisoned: BTreeSet<PaymentId>,
    /// Idempotency keys and external ids.
    desk: Desk,
    /// Declines by destination and hour.
    declines: Counted,
    /// Gateways that void by key.
    voiding: BTreeSet<GatewayName>,
    /// What the workers of an account share.
    paces: BTreeMap<GatewayName, Pace>,
    lineage: Lineage,
    /// What is switched off.
    switches: Switches,
    /// Gateways that people have paused.
    held: BTreeSet<GatewayName>,
    bad_notices: usize,
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
            index: Index::default(),
            outbox: Outbox::default(),
            shards: BTreeMap::new(),
            relays: BTreeMap::new(),
            poisoned: BTreeSet::new(),
            desk: Desk::default(),
            declines: Counted::default(),
            voiding: BTreeSet::new(),
            paces: BTreeMap::new(),
            lineage: Lineage::Released,
            switches: Switches::default(),
            held: BTreeSet::new(),
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
        assert!(self.create(payment, payee), "this payment exists");
    }

    /// Adds a payment as intake would; `false` if its id is taken, and then nothing happens: the same
    /// actor and key named it before (rule R18).
    ///
    /// # Panics
    /// If it is not a fresh PENDING payment.
    pub fn create(&self, payment: Payment, payee: SecretString) -> bool {
        let now = self.clock.wall();
        let mut state = self.state();
        if state.rows.contains_key(&payment.id) {
            return false;
        }
        state.insert(payment, payee, now);
        true
    }

    /// Cancels as the API would.
    pub fn cancel(&self, id: PaymentId) -> Option<CancelGuard> {
        let now = self.clock.wall();
        let mut state = self.state();
        let row = &state.rows.get(&id)?.payment;
        let voids = if state.voiding.contains(&row.gateway) { VoidSupport::ByKey } else { VoidSupport::None };
        let answer = guard::cancel(row, voids, state.lineage);
        match answer {
            CancelGuard::Win => state.change(id, |row| row.cancel(now)),
            CancelGuard::Wish => {
                state.change(id, |row| row.wish(now));
                let row = &state.rows[&id].payment;
                // Where the row was overdue already, its notice is out or the late scan has it.
                if row.status == Status::Unknown && row.next_attempt_at >= now {
                    state.notify(id, now);
                }
            }
            CancelGuard::Already
            | CancelGuard::Wished
            | CancelGuard::Refused(_)
            | CancelGuard::Quarantined => {}
        }
        if answer == CancelGuard::Refused(Status::Unknown) && sabotaged(Sabotage::CancelFromUnknown) {
            state.change(id, |row| row.force(Status::Cancelled, now));
            return Some(CancelGuard::Win);
        }
        Some(answer)
    }

    /// As `Postgres::register_gateway`, but for the account.
    pub fn register_gateway(&self, name: &GatewayName, voids: VoidSupport) {
        let voiding = &mut self.state().voiding;
        match voids {
            VoidSupport::ByKey => drop(voiding.insert(name.clone())),
            VoidSupport::None => drop(voiding.remove(name)),
        }
    }

    /// From now on this row refuses to be part of any batch.
    pub fn poison(&self, id: PaymentId) {
        self.state().poisoned.insert(id);
    }

    /// Sets or ends the quarantine of rule R17.
    pub fn set_lineage(&self, lineage: Lineage) {
        self.state().lineage = lineage;
    }

    /// As `Postgres::turn_switch`, without the audit.
    pub fn turn_switch(&self, switch: Switch, turned: Turned) {
        self.state().switches.set(switch, turned);
    }

    /// As `Postgres::pause_gateway` and its end, without the audit.
    pub fn pause_gateway(&self, name: &GatewayName, pause: Pause) {
        let held = &mut self.state().held;
        match pause {
            Pause::Held => drop(held.insert(name.clone())),
            Pause::None => drop(held.remove(name)),
        }
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

    /// The hashes of its history, oldest first.
    pub fn history_hashes(&self, id: PaymentId) -> Vec<[u8; 32]> {
        self.state().rows.get(&id).map(|row| row.hashes().to_vec()).unwrap_or_default()
    }

    /// The claim that holds it.
    pub fn holding(&self, id: PaymentId) -> Option<Holding> {
        self.state().rows.get(&id).and_then(Row::holding)
    }

    /// Every notice not marked yet, in no order.
    pub fn open_notices(&self) -> Vec<Notice> {
        self.state().outbox.open().cloned().collect()
    }

    /// Every notice ever written, oldest first, published or not.
    pub fn notices(&self) -> Vec<Notice> {
        self.state().outbox.notices()
    }

    /// Histories whose chain does not verify, or does not end in the row's state.
    pub fn history_faults(&self) -> Vec<(PaymentId, String)> {
        let state = self.state();
        state.rows.iter().filter_map(|(id, row)| Some((*id, row.history_fault()?))).collect()
    }

    /// Verifies every history chain and that it ends in the row's state.
    ///
    /// # Panics
    /// If one does not.
    pub fn verify_histories(&self) {
        let faults = self.history_faults();
        assert!(faults.is_empty(), "{faults:?}");
    }

    /// Edits a row behind the rules' back, to build a test's starting point.
    pub fn edit(&self, id: PaymentId, edit: impl FnOnce(&mut Payment)) {
        self.state().change(id, |row| edit(&mut row.payment));
    }

    /// Breaks the rules on purpose: the reaper takes a claim away whose lease has not ended.
    pub fn take_away(&self, id: PaymentId) {
        let now = self.clock.wall();
        let mut state = self.state();
        state.change(id, |row| row.expire(now));
        state.notify(id, now);
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
    fn insert(&mut self, payment: Payment, payee: SecretString, now: DateTime<Utc>) {
        let row = Row::created(payment, payee, now);
        self.outbox.write(&row.payment, now);
        self.index.put(&row.payment);
        self.rows.insert(row.payment.id, row);
    }

    /// The only way to a row that may move: its places in the index follow it.
    fn change<T>(&mut self, id: PaymentId, work: impl FnOnce(&mut Row) -> T) -> T {
        let row = self.rows.get_mut(&id).unwrap();
        self.index.take(&row.payment);
        let done = work(row);
        self.index.put(&row.payment);
        done
    }
}
