//! One seeded sequence: what it knows, how its time passes, and which operation comes next.

use super::chance::{MARGIN, one_of};
use super::compare::{self, Difference};
use super::stores::{Logical, Stores};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::decision::Decision;
use punctual::domain::declines::DeclineCounts;
use punctual::domain::facts::VoidSupport;
use punctual::domain::ids::{ClaimId, GatewayName, PaymentId};
use punctual::domain::lease::Mono;
use punctual::domain::notice::Notice;
use punctual::domain::payment::Payment;
use punctual::domain::state::Status;
use punctual::domain::switches::Switches;
use punctual::platform::clock::Clock;
use punctual::schedule::{Answer, Answered, Claimed, Memory, NewPayment, ShardLease, StagedNotice};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often each situation was met, over all sequences.
pub type Met = BTreeMap<&'static str, u64>;

/// A claim that was granted, kept so that its outcome can be presented more than once.
pub struct Ticket {
    payment: Payment,
    payee: String,
    pub claim_id: ClaimId,
    pub was: Status,
    asked_at: Mono,
    pub key_age: Option<Duration>,
    pub declines: DeclineCounts,
    /// Learned once, and the same ever after.
    pub outcome: Option<(Answer, Decision)>,
}

impl Ticket {
    pub fn of(claimed: &Claimed) -> Self {
        Self {
            payment: claimed.payment().clone(),
            payee: claimed.payee().expose_secret().to_owned(),
            claim_id: claimed.claim_id(),
            was: claimed.was(),
            asked_at: claimed.asked_at(),
            key_age: claimed.key_age(),
            declines: claimed.declines(),
            outcome: None,
        }
    }

    pub fn payment(&self) -> &Payment {
        &self.payment
    }

    /// # Panics
    /// Without an outcome.
    pub fn answered(&self) -> (Answered, Decision) {
        let (answer, decision) = self.outcome.clone().unwrap();
        let payee = SecretString::from(self.payee.as_str());
        let claimed = Claimed::for_tests(
            self.payment.clone(),
            payee,
            self.claim_id,
            self.was,
            self.asked_at,
            self.key_age,
        );
        (claimed.answered(answer), decision)
    }
}

/// What one `stage` gave to one holder, in one order on both sides.
pub struct Batch {
    pub lease: ShardLease,
    pub postgres: Vec<StagedNotice>,
    pub memory: Vec<StagedNotice>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Time,
    Create,
    Claim,
    ClaimLate,
    Settle,
    Renew,
    Recover,
    Reap,
    Cancel,
    Defer,
    Stage,
    Mark,
    Shards,
    Relays,
    Quarantine,
    Switch,
    Killed,
}

const OPERATIONS: [(Operation, u32); 17] = [
    (Operation::Time, 16),
    (Operation::Create, 9),
    (Operation::Claim, 18),
    (Operation::ClaimLate, 6),
    (Operation::Settle, 18),
    (Operation::Renew, 4),
    (Operation::Recover, 3),
    (Operation::Reap, 5),
    (Operation::Cancel, 5),
    (Operation::Defer, 3),
    (Operation::Stage, 7),
    (Operation::Mark, 6),
    (Operation::Shards, 6),
    (Operation::Relays, 3),
    (Operation::Quarantine, 1),
    (Operation::Switch, 2),
    (Operation::Killed, 4),
];

pub struct Sequence<'a> {
    pub stores: &'a mut Stores,
    pub met: &'a mut Met,
    pub memory: Memory,
    clock: Arc<Logical>,
    pub chance: StdRng,
    start: DateTime<Utc>,
    /// Instants at which something of a relay ends.
    pub ends: Vec<DateTime<Utc>>,
    pub quarantined: bool,
    /// What is switched off.
    pub switches: Switches,
    pub requests: Vec<NewPayment>,
    pub notices: Vec<Notice>,
    pub tickets: Vec<Ticket>,
    pub leases: BTreeMap<&'static str, Vec<ShardLease>>,
    pub staged: Vec<Batch>,
    next: Option<Operation>,
    /// For people, should it fail.
    pub told: Vec<String>,
}

impl<'a> Sequence<'a> {
    pub async fn new(stores: &'a mut Stores, met: &'a mut Met, seed: u64) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        // Today, because the partitions around it are made; midnights come by themselves.
        let today = Utc::now().date_naive().and_time(chrono::NaiveTime::MIN).and_utc();
        let start = today + TimeDelta::microseconds(chance.random_range(0..86_400_000_000));
        let clock = Logical::at(start);
        stores.reset(start).await;
        let memory = Memory::new(clock.clone());
        // One that voids and one that does not: the seed says which.
        let other_voids = seed.is_multiple_of(3);
        for (name, voids) in [("sandbox", !other_voids), ("other", other_voids)] {
            let (name, voids) =
                (GatewayName(name.into()), if voids { VoidSupport::ByKey } else { VoidSupport::None });
            stores.worker.register_gateway(&name, "account-1", voids).await.expect("registered");
            memory.register_gateway(&name, voids);
        }
        Self {
            memory,
            stores,
            met,
            clock,
            chance,
            start,
            ends: Vec::new(),
            quarantined: false,
            switches: Switches::default(),
            requests: Vec::new(),
            notices: Vec::new(),
            tickets: Vec::new(),
            leases: BTreeMap::new(),
            staged: Vec::new(),
            next: None,
            told: Vec::new(),
        }
    }

    pub fn now(&self) -> DateTime<Utc> {
        self.clock.wall()
    }

    pub fn saw(&mut self, situation: &'static str) {
        *self.met.entry(situation).or_default() += 1;
    }

    pub fn tell(&mut self, what: impl Into<String>) {
        let now = self.now();
        self.told.push(format!("{now} {}", what.into()));
    }

    /// # Errors
    /// The first difference.
    pub async fn run(&mut self, operations: usize) -> Result<(), Difference> {
        for number in 0..operations {
            let operation = self.choose();
            self.perform(operation).await?;
            match operation {
                // They write nothing; the next comparison looks all the same.
                Operation::Time | Operation::Defer => {}
                _ if number % 8 == 7 => compare::whole(self.stores, &self.memory).await?,
                _ => compare::rows(self.stores, &self.memory).await?,
            }
            self.remember_notices();
        }
        compare::whole(self.stores, &self.memory).await
    }

    fn choose(&mut self) -> Operation {
        if let Some(next) = self.next.take() {
            return next;
        }
        if self.requests.len() < 2 {
            return Operation::Create;
        }
        if self.quarantined && self.chance.random_bool(0.3) {
            return Operation::Quarantine;
        }
        if !self.switches.is_empty() && self.chance.random_bool(0.2) {
            return Operation::Switch;
        }
        let mut left = self.chance.random_range(0..OPERATIONS.iter().map(|(_, weight)| weight).sum());
        for (operation, weight) in OPERATIONS {
            if left < weight {
                return operation;
            }
            left -= weight;
        }
        unreachable!("the weights were summed");
    }

    async fn perform(&mut self, operation: Operation) -> Result<(), Difference> {
        match operation {
            Operation::Time => {
                self.pass_time().await;
                Ok(())
            }
            Operation::Create => self.create().await,
            Operation::Claim => self.claim().await,
            Operation::ClaimLate => self.claim_late().await,
            Operation::Settle => self.settle().await,
            Operation::Renew => self.renew().await,
            Operation::Recover => self.recover().await,
            Operation::Reap => self.reap().await,
            Operation::Cancel => self.cancel().await,
            Operation::Defer => self.defer().await,
            Operation::Stage => self.stage().await,
            Operation::Mark => self.mark().await,
            Operation::Shards => self.shards().await,
            Operation::Relays => self.relays().await,
            Operation::Quarantine => self.quarantine().await,
            Operation::Switch => self.switch().await,
            Operation::Killed => self.killed().await,
        }
    }

    /// Moves to an instant at which something ends or begins, a microsecond before or after it, or just on.
    async fn pass_time(&mut self) {
        let now = self.now();
        let until = self.start + TimeDelta::days(8);
        let mut edges: Vec<(DateTime<Utc>, Operation)> =
            self.ends.iter().map(|at| (*at, Operation::Shards)).collect();
        for row in self.memory.payments() {
            if row.status.is_claimable() {
                edges.push((row.next_attempt_at, Operation::Claim));
                edges.push((row.next_attempt_at + TimeDelta::seconds(15), Operation::ClaimLate));
                edges.push((row.next_attempt_at + TimeDelta::seconds(60), Operation::Stage));
            }
            edges.extend(row.execute_before.map(|at| (at, Operation::Reap)));
            let held = self.memory.holding(row.id);
            edges.extend(held.map(|held| (held.lease_until, Operation::Settle)));
            edges.extend(held.map(|held| (held.lease_until + MARGIN, Operation::Reap)));
        }
        edges.retain(|(at, _)| *at > now && *at < until);
        edges.sort_by_key(|(at, _)| *at);
        let mut to = now + TimeDelta::microseconds(self.chance.random_range(1..20_000_000));
        if !edges.is_empty() && self.chance.random_bool(0.75) {
            let near = if self.chance.random_bool(0.8) { edges.len().min(4) } else { edges.len() };
            let (at, operation) = edges[self.chance.random_range(0..near)];
            let beside = TimeDelta::microseconds(self.chance.random_range(-1..=1));
            to = (at + beside).max(now + TimeDelta::microseconds(1));
            self.next = self.chance.random_bool(0.7).then_some(operation);
        }
        // A count of declines leaves the window of a day.
        let counted = self.memory.declines().into_iter().map(|(_, _, hour, _)| hour + TimeDelta::hours(25));
        let leaving: Vec<DateTime<Utc>> = counted.filter(|at| *at > now).collect();
        if let Some(at) = pick(&mut self.chance, &leaving)
            && self.chance.random_bool(0.15)
        {
            to = at + TimeDelta::microseconds(self.chance.random_range(-1..=1));
            self.next = Some(one_of(&mut self.chance, &[Operation::ClaimLate, Operation::Reap]));
        }
        if to < until {
            self.move_to(to).await;
        }
    }

    pub async fn move_to(&mut self, instant: DateTime<Utc>) {
        self.clock.set(instant);
        self.stores.set_clock(instant).await;
        self.tell("time has passed");
    }

    /// Every notice that was ever open may be presented at any time later.
    fn remember_notices(&mut self) {
        for notice in self.memory.open_notices() {
            if !self.notices.contains(&notice) {
                self.notices.push(notice);
            }
        }
    }

    /// Some notices: fresh and old ones, and now and then one that cannot be right.
    pub fn pick_notices(&mut self, most: usize) -> Vec<Notice> {
        let count = self.chance.random_range(1..=most);
        let mut picked = Vec::with_capacity(count);
        for _ in 0..count {
            let now = self.now();
            let mut claimable: Vec<Payment> =
                self.memory.payments().into_iter().filter(|row| row.status.is_claimable()).collect();
            if claimable.iter().any(|row| row.next_attempt_at <= now) && self.chance.random_bool(0.8) {
                claimable.retain(|row| row.next_attempt_at <= now);
            }
            let fresh = !claimable.is_empty() && self.chance.random_bool(0.65);
            let mut notice = if fresh {
                crate::schedule::world::notice(&one_of(&mut self.chance, &claimable))
            } else if let Some(old) = pick(&mut self.chance, &self.notices) {
                old
            } else {
                continue;
            };
            match self.chance.random_range(0..20) {
                0 => notice.attempt += 1,
                1 => {
                    let another = uuid::Uuid::from_u128(notice.payment.as_uuid().as_u128() ^ 0xff);
                    notice.payment = PaymentId::from_uuid(another).unwrap_or(notice.payment);
                }
                _ => {}
            }
            picked.push(notice);
        }
        picked
    }
}

/// One of them, if there is one.
pub fn pick<T: Clone>(chance: &mut StdRng, choices: &[T]) -> Option<T> {
    (!choices.is_empty()).then(|| one_of(chance, choices))
}

/// How many of these, sorted, may be asked for so that no two equal ones are separated: which of them a
/// store takes first is its own affair.
pub fn whole_ties<K: PartialEq>(keys: &[K], wanted: usize) -> usize {
    let mut count = wanted.min(keys.len()).max(1);
    while count < keys.len() && keys[count] == keys[count - 1] {
        count += 1;
    }
    count
}
