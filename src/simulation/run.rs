//! One seed, from the first create to the last check.
//!
//! In *safety mode* faults go on to the end, and everything is cut off there: what must always hold,
//! holds then. In *liveness mode* faults stop at an instant; within a bounded time everything is final
//! or parked. In both, requests that are still under way arrive before anything is judged.

use super::account::Account;
use super::agenda::{self, act};
use super::checks::{Violation, check, check_end};
use super::clients::Clients;
use super::dials::{Chance, Dials, Faults, LONGEST_TRAVEL};
use super::gateway::{Bank, LedgerLine};
use super::kafka::Kafka;
use super::nodes::{Kind, Node, Opening, World};
use super::trace::{Met, Texts, Told, Trace};
use crate::domain::state::Status;
use crate::platform::clock::{Clock, SharedClock};
use crate::relay::Terms;
use crate::schedule::{Fault, Memory, Verb};
use crate::worker::lab::{BEGAN_MS, VirtualTime};
use chrono::{DateTime, TimeDelta};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Whether faults ever stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They go on to the end.
    Safety,
    /// They stop, and everything comes to its end.
    Liveness,
}

impl Mode {
    /// Every other seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        if seed.is_multiple_of(2) { Self::Safety } else { Self::Liveness }
    }
}

/// What one seed came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The running hash over every event, row and ledger line: equal for equal runs.
    pub hash: u64,
    /// Events counted.
    pub events: u64,
    /// Payments created.
    pub payments: u64,
    /// By [`Met::ALL`].
    pub met: Vec<u64>,
    /// How many payments ended in each state, by [`Status::ALL`].
    pub ended: Vec<u64>,
    /// How long it lasted in its own time.
    pub lasted: Duration,
    /// Promises broken.
    pub broken: Vec<Violation>,
    /// Events as text, of a run that keeps them.
    pub told: Vec<Told>,
}

/// Runs one world to its end.
#[must_use]
pub fn run(dials: Dials, mode: Mode, texts: Texts) -> Outcome {
    let time = VirtualTime::new(DateTime::from_timestamp_millis(BEGAN_MS).unwrap());
    let trace = Trace::new(time.clone(), texts);
    let dials = Arc::new(dials);
    time.block_on(live(time.clone(), trace, dials, mode))
}

async fn live(time: VirtualTime, trace: Trace, dials: Arc<Dials>, mode: Mode) -> Outcome {
    let (world, bank) = world(&time, &trace, &dials);
    let told = Arc::default();
    let mut nodes = nodes(&world);
    let agenda = agenda::drawn(&dials, &nodes, &world.chance);
    nodes.iter_mut().for_each(|node| node.start(&world));
    let clients = Arc::new(Clients {
        memory: Arc::clone(&world.memory),
        time: time.clone(),
        chance: Arc::clone(&world.chance),
        faults: Arc::clone(&world.faults),
        trace: trace.clone(),
        told: Arc::clone(&told),
    });
    let mut lives = Vec::new();
    for number in 0..dials.payments {
        lives.push(tokio::spawn(Arc::clone(&clients).live(number, Arc::clone(&dials))));
    }
    for (at, action) in agenda {
        if at > dials.troubled {
            break;
        }
        time.sleep(at.saturating_sub(time.elapsed())).await;
        act(&world, &mut nodes, action);
    }
    time.sleep(dials.troubled.saturating_sub(time.elapsed())).await;
    if mode == Mode::Liveness {
        heal(&world, &mut nodes);
        for life in lives.drain(..) {
            // Its panic is in the trace of panics; a client that is gone has nothing more to say.
            let _gone = life.await;
        }
        settle_down(&world).await;
    }
    lives.iter().for_each(|life| life.abort());
    for node in &mut nodes {
        node.end(&trace).await;
    }
    // What is still under way arrives, and what is open at the gateway is decided.
    time.sleep(LONGEST_TRAVEL + Duration::from_secs(150)).await;
    judge(&world, &bank, mode, &told)
}

fn world(time: &VirtualTime, trace: &Trace, dials: &Arc<Dials>) -> (Arc<World>, Arc<Bank>) {
    let clock: SharedClock = Arc::new(time.clone());
    let memory = Arc::new(Memory::new(clock));
    let chance = Arc::new(Chance::new(dials.seed));
    let faults = Arc::new(Mutex::new(dials.faults.clone()));
    memory.inject(database_faults(&chance, &faults, trace));
    let bank = Arc::new(Bank {
        truth: dials.truth,
        declines: dials.declines,
        lookup_lag: dials.lookup_lag,
        work: (Duration::from_millis(1), Duration::from_millis(400)),
        slowest: dials.profile.total_timeout + Duration::from_secs(5),
        time: time.clone(),
        chance: Arc::clone(&chance),
        faults: Arc::clone(&faults),
        trace: trace.clone(),
        memory: Arc::clone(&memory),
        books: Mutex::default(),
    });
    memory.register_gateway(&dials.profile.name, dials.profile.void_support());
    let kafka = Kafka::new(dials.partitions, time.clone(), trace.clone(), Arc::clone(&memory));
    let account = opening(dials, &bank, &chance);
    let world = World {
        dials: Arc::clone(dials),
        time: time.clone(),
        trace: trace.clone(),
        chance,
        faults,
        memory,
        account,
        kafka: Arc::new(kafka),
        latency: Duration::from_millis(8),
        buffer: 64,
        relay: Terms {
            lead: Duration::from_secs(90),
            guard: Duration::from_secs(5),
            batch: 50,
            poll: Duration::from_millis(500),
        },
    };
    (Arc::new(world), bank)
}

fn opening(dials: &Arc<Dials>, bank: &Arc<Bank>, chance: &Arc<Chance>) -> Opening {
    let (dials, bank, chance) = (Arc::clone(dials), Arc::clone(bank), Arc::clone(chance));
    Box::new(move |host| {
        Arc::new(Account {
            profile: dials.profile.clone(),
            bank: Arc::clone(&bank),
            host: Arc::clone(host),
            chance: Arc::clone(&chance),
        })
    })
}

fn database_faults(
    chance: &Arc<Chance>,
    faults: &Arc<Mutex<Faults>>,
    trace: &Trace,
) -> impl FnMut(Verb) -> Fault + Send + 'static {
    let (chance, faults, trace) = (Arc::clone(chance), Arc::clone(faults), trace.clone());
    move |verb| {
        let faults = faults.lock().unwrap().clone();
        if chance.hits(faults.db_error) {
            trace.met(Met::FailedBefore, None, verb as u64);
            return Fault::ErrorBefore;
        }
        if verb == Verb::Renew && chance.hits(faults.unrenewed) {
            trace.met(Met::FailedBefore, None, verb as u64);
            return Fault::ErrorBefore;
        }
        // A read has no COMMIT whose answer could be lost.
        let writes = !matches!(verb, Verb::Stage | Verb::Defer);
        if writes && chance.hits(faults.db_lost) {
            match verb {
                Verb::Claim | Verb::ClaimLate => trace.met(Met::LostClaim, None, verb as u64),
                Verb::Settle => trace.met(Met::LostSettle, None, 0),
                Verb::Mark => trace.met(Met::LostMark, None, 0),
                Verb::Create
                | Verb::Stage
                | Verb::Recover
                | Verb::Renew
                | Verb::Defer
                | Verb::Reap
                | Verb::Beat
                | Verb::Shards => {}
            }
            return Fault::PerformedThenLost;
        }
        if writes && chance.hits(faults.db_never) {
            trace.met(Met::NeverArrived, None, verb as u64);
            return Fault::NeverArrived;
        }
        if chance.hits(faults.db_slow) {
            return Fault::Slow(chance.between(Duration::from_millis(50), Duration::from_secs(6)));
        }
        Fault::None
    }
}

fn nodes(world: &World) -> Vec<Node> {
    let dials = &world.dials;
    let counts = [(Kind::Worker, dials.workers), (Kind::Relay, dials.relays), (Kind::Keeper, dials.keepers)];
    let kinds = counts.into_iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, count));
    (1..).zip(kinds).map(|(number, kind)| Node::new(world, kind, number)).collect()
}

/// Every fault stops, and every process runs.
fn heal(world: &Arc<World>, nodes: &mut [Node]) {
    *world.faults.lock().unwrap() = Faults::default();
    world.kafka.heal();
    for node in nodes {
        node.host.step_clock(TimeDelta::zero());
        node.start(world);
    }
}

/// Waits until everything is final or parked, for as long as that may take.
async fn settle_down(world: &World) {
    let until = world.time.elapsed() + world.dials.bound();
    while world.time.elapsed() < until {
        let open =
            world.memory.payments().iter().any(|row| !row.status.is_final() && row.status != Status::Parked);
        if !open {
            return;
        }
        world.time.sleep(Duration::from_secs(2)).await;
    }
}

fn judge(
    world: &World,
    bank: &Bank,
    mode: Mode,
    told: &Arc<Mutex<BTreeMap<crate::domain::ids::PaymentId, super::clients::Told>>>,
) -> Outcome {
    let (trace, memory) = (&world.trace, &world.memory);
    let ledger = bank.ledger();
    let mut broken = trace.broken();
    broken.extend(check(memory, &ledger, &told.lock().unwrap(), &world.dials));
    if mode == Mode::Liveness {
        broken.extend(check_end(memory, world.time.wall()));
    }
    let payments = memory.payments();
    let count = |status: &Status| payments.iter().filter(|row| row.status == *status).count() as u64;
    let ended = Status::ALL.iter().map(count).collect();
    mix_in(trace, memory, &ledger);
    let (hash, events, met, mut told) = trace.end();
    if !told.is_empty() {
        told.extend(stories(memory, &ledger, &broken));
    }
    Outcome {
        seed: world.dials.seed,
        hash,
        events,
        payments: payments.len() as u64,
        met,
        ended,
        lasted: world.time.elapsed(),
        broken,
        told,
    }
}

/// What is left of each payment that broke a promise.
fn stories(memory: &Memory, ledger: &[LedgerLine], broken: &[Violation]) -> Vec<Told> {
    let ids: std::collections::BTreeSet<_> = broken.iter().filter_map(|it| it.payment).collect();
    let mut told = Vec::new();
    for id in ids {
        let mut tell = |text: String| told.push(Told { payment: Some(id), text });
        for row in memory.history(id) {
            tell(format!(
                "history {:?} -{:?}-> {:?} by {} at {}",
                row.from, row.event, row.to, row.by, row.at
            ));
        }
        memory.attempts(id).iter().for_each(|attempt| tell(format!("attempt {attempt:?}")));
        ledger.iter().filter(|line| line.payment == id).for_each(|line| tell(format!("ledger {line:?}")));
        memory.payment(id).iter().for_each(|row| tell(format!("row {row:?}")));
    }
    told
}

/// Rows, histories and ledger too must be equal in equal runs.
fn mix_in(trace: &Trace, memory: &Memory, ledger: &[LedgerLine]) {
    for row in memory.payments() {
        trace.mix(row.status as u64);
        trace.mix(row.history_seq as u64);
        trace.mix(row.fence.0 as u64);
        for told in memory.history(row.id) {
            trace.mix(told.at.timestamp_micros() as u64);
            trace.mix(told.to as u64);
        }
    }
    for line in ledger {
        trace.mix(line.at.timestamp_micros() as u64);
        trace.mix(line.fence.0 as u64);
        trace.mix(u64::from(line.moved_at.is_some()));
    }
}
