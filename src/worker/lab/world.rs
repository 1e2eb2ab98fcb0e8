//! A whole small world: one database, one gateway, any number of workers' steps, one time.

use super::gateway::{ScriptedGateway, sandbox_profile};
use super::time::{SeededDice, SkewedClock, VirtualTime};
use crate::bucket::SharedOffsets;
use crate::domain::bucket::Channel;
use crate::domain::ids::{ActorId, GatewayName, PaymentId, WorkerName};
use crate::domain::lease::Lease;
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::notice::Notice;
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use crate::gateway::Profile;
use crate::platform::clock::{Clock, SharedClock};
use crate::schedule::{Memory, Refused};
use crate::worker::hold::Held;
use crate::worker::{Brake, Clocks, Pacer, Place, Progress, Record, Step};
use chrono::{DateTime, TimeDelta, Utc};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Where the world begins.
pub const BEGAN_MS: i64 = 1_800_000_000_000;

/// One database, one gateway, one time.
pub struct World {
    pub time: VirtualTime,
    pub memory: Arc<Memory>,
    pub gateway: Arc<ScriptedGateway>,
    pub offsets: SharedOffsets,
    /// Every record made, by offset, so that completed ones can be checked.
    pub made: BTreeMap<i64, Notice>,
    committed: i64,
    delivered: usize,
}

/// One worker's steps, with what they gave back.
pub struct Hand {
    pub step: Step<Memory>,
    pub again: UnboundedReceiver<(Record, DateTime<Utc>)>,
    /// Records that prove lost commits.
    pub lost: UnboundedReceiver<(Record, Refused)>,
}

impl World {
    #[must_use]
    pub fn new() -> Self {
        Self::with(sandbox_profile())
    }

    #[must_use]
    pub fn with(profile: Profile) -> Self {
        let time = VirtualTime::new(DateTime::from_timestamp_millis(BEGAN_MS).unwrap());
        let clock: SharedClock = Arc::new(time.clone());
        let memory = Arc::new(Memory::new(Arc::clone(&clock)));
        memory.register_gateway(&profile.name, profile.void_support());
        let gateway = Arc::new(ScriptedGateway::new(profile, Arc::clone(&clock), clock));
        let offsets = SharedOffsets::new();
        offsets.lock().assigned(Channel::Now, 0);
        Self { time, memory, gateway, offsets, made: BTreeMap::new(), committed: 0, delivered: 0 }
    }

    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.time.wall()
    }

    /// A worker with a right clock.
    #[must_use]
    pub fn hand(&self, name: &str, seed: u64) -> Hand {
        self.skewed_hand(name, seed, TimeDelta::zero())
    }

    /// A worker whose wall clock is wrong.
    #[must_use]
    pub fn skewed_hand(&self, name: &str, seed: u64, skew: TimeDelta) -> Hand {
        let (again_in, again) = unbounded_channel();
        let (lost_in, lost) = unbounded_channel();
        let step = Step {
            schedule: Arc::clone(&self.memory),
            facts: crate::worker::facts(crate::gateway::Gateway::profile(self.gateway.as_ref())),
            gateway: self.gateway.clone(),
            ladders: Arc::new(crate::domain::retry::Ladders::default()),
            clock: Arc::new(SkewedClock { time: self.time.clone(), skew }),
            dice: Arc::new(SeededDice::new(seed)),
            worker: WorkerName(name.into()),
            lease: lease(),
            renewals: None,
            brake: Arc::new(Brake::default()),
            clocks: Arc::new(Clocks::new(Duration::from_millis(500))),
            progress: Arc::new(Progress::default()),
            pacer: Arc::new(Pacer::unlimited()),
            again: again_in,
            lost: lost_in,
        };
        Hand { step, again, lost }
    }

    /// Adds a payment due `after_ms` from now.
    pub fn add(&self, number: u8, after_ms: i64) -> PaymentId {
        let payment = payment(number, self.now() + TimeDelta::milliseconds(after_ms), self.now());
        let id = payment.id;
        self.memory.add(payment, SecretString::from(format!("acct_{number}")));
        id
    }

    /// A record of this notice, as Kafka would hand it out.
    pub fn record(&mut self, notice: Notice) -> Record {
        let offset = i64::try_from(self.made.len()).unwrap();
        self.made.insert(offset, notice.clone());
        let position = self.offsets.lock().taken(Channel::Now, 0, offset).unwrap();
        Held { notice, position: Some(Place::new(position, self.offsets.clone())) }
    }

    /// Records of all notices written since the last call and due by now.
    pub fn deliver(&mut self) -> Vec<Record> {
        let now = self.now();
        let notices = self.memory.notices();
        let (due, later): (Vec<_>, Vec<_>) =
            notices.into_iter().skip(self.delivered).partition(|notice| notice.not_before <= now);
        // Simple on purpose: what lies ahead of a later one is delivered early, and waits.
        self.delivered += due.len() + later.len();
        due.into_iter().chain(later).map(|notice| self.record(notice)).collect()
    }

    /// Lets `hand` present these to its end.
    pub fn present(&self, hand: &Hand, records: Vec<Record>) {
        let batch = records.into_iter().map(|record| (record, None)).collect();
        self.time.run(hand.step.present(batch));
    }

    /// Delivers everything, presents it, and hands out what came back.
    pub fn round(&mut self, hand: &mut Hand) -> Vec<(Record, DateTime<Utc>)> {
        let records = self.deliver();
        self.present(hand, records);
        hand.returned()
    }

    /// The payment's state.
    #[must_use]
    pub fn status(&self, id: PaymentId) -> Status {
        self.memory.payment(id).unwrap().status
    }

    /// The offset below which every record is complete.
    pub fn committed(&mut self) -> i64 {
        for mark in self.offsets.lock().stored() {
            self.committed = mark.next_offset;
        }
        self.committed
    }

    /// Below a committed offset everything has evidence in the database (invariant K1).
    pub fn check_evidence(&mut self) {
        let committed = self.committed();
        for (offset, notice) in self.made.range(..committed) {
            let Some(payment) = self.memory.payment(notice.payment) else { continue };
            let moved_on = payment.attempt > notice.attempt || !payment.status.is_claimable();
            assert!(moved_on, "offset {offset} is complete and {payment:?} still waits for its notice");
        }
    }

    /// What must hold at every instant: at most one charge a payment, states that the gateway's own
    /// ledger bears out, histories that verify, and evidence below every committed offset.
    ///
    /// # Panics
    /// If it does not.
    pub fn check(&mut self) {
        self.memory.verify_histories();
        self.check_evidence();
        for payment in self.memory.payments() {
            let charges = self.gateway.charges(payment.id);
            assert!(charges <= 1, "{} was charged {charges} times", payment.id);
            match payment.status {
                Status::Completed => assert_eq!(charges, 1, "{payment:?}"),
                Status::Failed | Status::Cancelled | Status::Pending => assert_eq!(charges, 0, "{payment:?}"),
                Status::Processing | Status::Unknown | Status::Parked | Status::Refunded => {}
            }
        }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Hand {
    /// What was given back so far.
    pub fn returned(&mut self) -> Vec<(Record, DateTime<Utc>)> {
        std::iter::from_fn(|| self.again.try_recv().ok()).collect()
    }
}

/// 30 s, 5 s kept free, calls of at most 20 s.
#[must_use]
pub fn lease() -> Lease {
    let secs = Duration::from_secs;
    Lease { length: secs(30), margin: secs(5), gateway_total: secs(20) }
}

/// A fresh payment of 12.34 EUR.
#[must_use]
pub fn payment(number: u8, due_at: DateTime<Utc>, created_at: DateTime<Utc>) -> Payment {
    let amount = Money { minor: Minor::new(1_234).unwrap(), currency: Currency::from_code("EUR").unwrap() };
    let (actor, gateway) = (ActorId(uuid::Uuid::from_u128(7)), GatewayName("sandbox".into()));
    let id = PaymentId::new(due_at, [number; 10]).unwrap();
    Payment::created(id, actor, gateway, amount, due_at, created_at)
}
