//! How late does a crowd get? The same worker, relay and keeper, on virtual time and without a fault.
//!
//! **Promises.** Nothing here is a formula: payments are created, staged, held, claimed and charged by
//! the code that does it in production, so slots, batches, scans and leases have their real effect.
//! What is assumed is said by [`Question`]: how long the gateway takes, how many requests it takes a
//! second, how far database and bus are. Processors and disks cost nothing here; what a machine can
//! do is measured, not simulated.

use super::clients::fresh;
use super::dials::{Chance, Dials, Faults, Truth};
use super::host::{Host, HostClock};
use super::kafka::Kafka;
use super::nodes::{Kind, Node, World};
use super::trace::{Texts, Trace};
use crate::domain::ids::{PaymentId, gateway_key};
use crate::domain::lease::SendGate;
use crate::domain::payment::Payment;
use crate::domain::retry::Ladders;
use crate::domain::verdict::{Doubt, Lookup, NotSent, Verdict};
use crate::gateway::{CannotRender, FrozenRequest, Gateway, Pacing, Profile};
use crate::platform::clock::{Clock, SharedClock};
use crate::platform::config;
use crate::relay::Terms;
use crate::schedule::{Answer, Answered, Claimed, How, Memory};
use crate::worker::lab::{BEGAN_MS, VirtualTime, sandbox_profile};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How payments become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// All at one instant.
    Burst,
    /// So many a second, evenly.
    PerSecond(u64),
}

/// What the gateway does with requests beyond its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It lets them wait for their turn.
    Waits,
    /// It refuses them with 429 and Retry-After: 1.
    Refused,
}

/// A capacity question.
#[derive(Debug, Clone)]
pub struct Question {
    /// How many payments.
    pub payments: u64,
    /// When they are due.
    pub arrivals: Arrivals,
    /// Requests that the gateway takes a second; `None`: as many as come.
    pub gateway_rate: Option<u64>,
    /// What happens beyond that.
    pub excess: Excess,
    /// From request to answer, as points of 0, 50, 99 and 100 per cent; between them evenly.
    pub latency: [Duration; 4],
    /// What the workers hold themselves to together, calls a second; 0: nothing (`gateway.rate`).
    pub pace: u32,
    /// Worker processes.
    pub workers: usize,
    /// Calls in flight from one of them.
    pub max_in_flight: usize,
    /// How long a claim holds.
    pub lease: Duration,
    /// Longest way to database and bus.
    pub network: Duration,
    /// Of all chance in it.
    pub seed: u64,
}

/// How many were due and not charged, at an instant since the first due one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Since the first due instant.
    pub after: Duration,
    /// Due and not charged.
    pub payments: u64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lateness {
    /// Charged.
    pub charged: u64,
    /// Not charged when the model was given up.
    pub left: u64,
    /// From due to the request that charged: median.
    pub p50: Duration,
    /// 99 of 100 were not later.
    pub p99: Duration,
    /// The latest.
    pub max: Duration,
    /// From the first due instant to the last charge.
    pub drained_after: Duration,
    /// Refused with 429.
    pub refused: u64,
    /// The backlog over time, in about twenty steps.
    pub backlog: Vec<Waiting>,
    /// The largest of all that was seen.
    pub most_waiting: u64,
}

/// From the start to the first due instant: time to stage what is ahead.
const AHEAD: Duration = Duration::from_secs(75);
/// The model gives up after so long.
const LONGEST: Duration = Duration::from_secs(6 * 3_600);
/// Between two looks at the backlog.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
struct Books {
    charged: Vec<(DateTime<Utc>, Duration)>,
    next_turn: Option<DateTime<Utc>>,
    refused: u64,
}

/// A gateway that takes so many a second and charges them all.
struct Till {
    profile: Profile,
    question: Arc<Question>,
    host: Arc<Host>,
    chance: Arc<Chance>,
    books: Arc<Mutex<Books>>,
}

impl Till {
    /// When this request's turn is; `None`: it is refused.
    fn turn(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let Some(rate) = self.question.gateway_rate else { return Some(now) };
        let mut books = self.books.lock().unwrap();
        let turn = books.next_turn.map_or(now, |next| next.max(now));
        if self.question.excess == Excess::Refused && turn > now + TimeDelta::seconds(1) {
            books.refused += 1;
            return None;
        }
        let each = TimeDelta::nanoseconds(i64::try_from(1_000_000_000 / rate.max(1)).unwrap());
        books.next_turn = Some(turn + each);
        Some(turn)
    }

    fn latency(&self) -> Duration {
        let [least, half, most, worst] = self.question.latency;
        match self.chance.below(100) {
            0..50 => self.chance.between(least, half),
            50..99 => self.chance.between(half, most),
            _ => self.chance.between(most, worst),
        }
    }
}

impl Gateway for Till {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn prepare(&self, claimed: &Claimed) -> Result<FrozenRequest, CannotRender> {
        let payment = claimed.payment();
        let key = gateway_key(payment.id, payment.epoch);
        Ok(FrozenRequest { body: SecretString::from(key.clone()), key, hash: [0; 32] })
    }

    fn charge(&self, claimed: Claimed, request: FrozenRequest, gate: SendGate) -> BoxFuture<'_, Answered> {
        Box::pin(async move {
            let clock = HostClock(Arc::clone(&self.host));
            let began = clock.mono();
            if let Err(why) = gate.check(clock.wall(), began) {
                return claimed.not_started(why);
            }
            let now = clock.wall();
            let Some(turn) = self.turn(now) else {
                let retry_after = Some(Duration::from_secs(1));
                let verdict = Verdict::NotSent { why: NotSent::RateLimited, retry_after };
                return claimed.answered(Answer::silent(verdict, How::NotStarted));
            };
            let payment = claimed.payment();
            let (late, amount) = ((turn - payment.due_at).to_std().unwrap_or_default(), payment.amount);
            self.host.take((turn - now).to_std().unwrap_or_default()).await;
            self.books.lock().unwrap().charged.push((turn, late));
            self.host.take(self.latency()).await;
            let verdict = Verdict::Charged { reference: format!("ch_{}", request.key), amount };
            let took = Some(clock.mono().0.saturating_sub(began.0));
            claimed.answered(Answer { took, ..Answer::silent(verdict, How::Sent) })
        })
    }

    /// Without faults nobody asks, but for a lease that was too short: what is not settled is not known.
    fn lookup<'a>(&'a self, _payment: &'a Payment) -> BoxFuture<'a, Lookup> {
        Box::pin(async { Lookup::NotFound { visible_after: None } })
    }

    /// Nobody wishes to cancel and no deadline passes.
    fn void<'a>(&'a self, _claimed: &'a Claimed, _gate: SendGate) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::silent(Verdict::Unknown(Doubt::ServerError), How::Voided) })
    }
}

/// Answers it; `progress` hears how many are charged.
#[must_use]
pub fn capacity(question: &Question, progress: impl Fn(u64)) -> Lateness {
    let time = VirtualTime::new(DateTime::from_timestamp_millis(BEGAN_MS).unwrap());
    let quiet = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::with_default(quiet, || {
        time.block_on(live(time.clone(), Arc::new(question.clone()), progress))
    })
}

async fn live(time: VirtualTime, question: Arc<Question>, progress: impl Fn(u64)) -> Lateness {
    let books = Arc::new(Mutex::new(Books::default()));
    let world = world(&time, &question, &books);
    let first_due = (time.wall() + TimeDelta::from_std(AHEAD).unwrap()).trunc_subsecs(3);
    for number in 0..question.payments {
        let after = match question.arrivals {
            Arrivals::Burst => TimeDelta::zero(),
            Arrivals::PerSecond(rate) => {
                TimeDelta::microseconds(i64::try_from(number * 1_000_000 / rate.max(1)).unwrap())
            }
        };
        world.memory.add(payment(number, first_due + after, &time), SecretString::from("acct"));
    }
    let kinds = std::iter::repeat_n(Kind::Worker, question.workers).chain([Kind::Relay, Kind::Keeper]);
    let mut nodes: Vec<Node> =
        (1..).zip(kinds).map(|(number, kind)| Node::new(&world, kind, number)).collect();
    nodes.iter_mut().for_each(|node| node.start(&world));
    let mut seen = Vec::new();
    time.sleep(AHEAD).await;
    while time.elapsed() < LONGEST {
        let charged = books.lock().unwrap().charged.len() as u64;
        progress(charged);
        seen.push(Waiting { after: time.elapsed() - AHEAD, payments: world.memory.due() as u64 });
        if charged >= question.payments {
            break;
        }
        time.sleep(LOOK).await;
    }
    nodes.iter_mut().for_each(Node::crash);
    let books = std::mem::take(&mut *books.lock().unwrap());
    told(&question, books, first_due, seen)
}

fn told(question: &Question, books: Books, first_due: DateTime<Utc>, seen: Vec<Waiting>) -> Lateness {
    let mut late: Vec<Duration> = books.charged.iter().map(|(_, late)| *late).collect();
    late.sort_unstable();
    let at = |per_cent: usize| {
        late.get((late.len() * per_cent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
    };
    let last = books.charged.iter().map(|(at, _)| *at).max().unwrap_or(first_due);
    let charged = books.charged.len() as u64;
    let every = seen.len().div_ceil(20).max(1);
    Lateness {
        charged,
        left: question.payments.saturating_sub(charged),
        p50: at(50),
        p99: at(99),
        max: at(100),
        drained_after: (last - first_due).to_std().unwrap_or_default(),
        refused: books.refused,
        most_waiting: seen.iter().map(|waiting| waiting.payments).max().unwrap_or(0),
        backlog: seen.into_iter().step_by(every).collect(),
    }
}

fn payment(number: u64, due_at: DateTime<Utc>, time: &VirtualTime) -> Payment {
    let mut intent = [0; 10];
    intent[2..].copy_from_slice(&number.to_be_bytes());
    fresh(PaymentId::new(due_at, intent).unwrap(), due_at, time.wall())
}

fn world(time: &VirtualTime, question: &Arc<Question>, books: &Arc<Mutex<Books>>) -> Arc<World> {
    let clock: SharedClock = Arc::new(time.clone());
    let memory = Arc::new(Memory::new(clock));
    let trace = Trace::new(time.clone(), Texts::Left);
    let chance = Arc::new(Chance::new(question.seed));
    let dials = Arc::new(dials(question));
    let account = {
        let (question, chance, books) = (Arc::clone(question), Arc::clone(&chance), Arc::clone(books));
        let profile = dials.profile.clone();
        Box::new(move |host: &Arc<Host>| -> Arc<dyn Gateway> {
            Arc::new(Till {
                profile: profile.clone(),
                question: Arc::clone(&question),
                host: Arc::clone(host),
                chance: Arc::clone(&chance),
                books: Arc::clone(&books),
            })
        })
    };
    Arc::new(World {
        time: time.clone(),
        faults: Arc::default(),
        kafka: Arc::new(Kafka::new(dials.partitions, time.clone(), trace.clone(), Arc::clone(&memory))),
        dials,
        trace,
        chance,
        memory,
        account,
        latency: question.network,
        buffer: 4_096,
        // The relay's own defaults.
        relay: Terms {
            lead: Duration::from_secs(120),
            guard: Duration::from_secs(15),
            batch: 2_000,
            poll: Duration::from_millis(500),
        },
    })
}

fn dials(question: &Question) -> Dials {
    let margin = question.lease / 6;
    let total_timeout = question.lease - margin - question.lease / 6;
    Dials {
        seed: question.seed,
        faults: Faults::default(),
        payments: 0,
        workers: question.workers,
        relays: 1,
        keepers: 1,
        partitions: 12,
        spread: Duration::ZERO,
        troubled: Duration::ZERO,
        deadlines: 0,
        declines: 0,
        truth: Truth { replays_declines: false, key_ttl: Duration::from_secs(86_400), voids: false },
        lookup_lag: Duration::ZERO,
        ladders: Ladders::default(),
        settings: config::Worker {
            lease: question.lease,
            margin,
            max_in_flight: question.max_in_flight,
            ..config::Worker::default()
        },
        profile: Profile {
            total_timeout,
            max_in_flight: question.max_in_flight,
            pacing: Pacing { rate: question.pace, ..Pacing::default() },
            ..sandbox_profile()
        },
    }
}
