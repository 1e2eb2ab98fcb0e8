//! Many seeds, one sum: what all of them met, and every promise that any of them broke.
//!
//! Seeds share nothing, so they may run on several threads; each of them is still one thread's alone,
//! and the sums do not depend on who ran what.

use super::checks::Violation;
use super::dials::Dials;
use super::run::{Mode, Outcome, run};
use super::trace::{Met, Texts};
use crate::domain::invariants::Invariant;
use crate::domain::state::Status;
#[cfg(feature = "faults")]
use crate::platform::faults::{Sabotage, seeded};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What to run.
#[derive(Debug, Clone)]
pub struct Seeds {
    /// The first one.
    pub first: u64,
    /// Until so many payments were created (and at least one seed has run).
    pub payments: u64,
    /// Payments of one world.
    pub each: usize,
    /// Whether each seed runs twice and must give the same trace.
    pub twice: bool,
    /// Threads, each with seeds of its own.
    pub threads: usize,
}

/// A seed that broke a promise, with the story of the payment.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What broke, the last events of the payment, and how to see it again.
    pub story: String,
}

/// The sum over seeds.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    /// Seeds run.
    pub seeds: u64,
    /// Payments created.
    pub payments: u64,
    /// Events of all traces.
    pub events: u64,
    /// Time that passed in all worlds.
    pub lasted: Duration,
    /// How often each situation was met, by [`Met::ALL`].
    pub met: Vec<u64>,
    /// How many payments ended in each state, by [`Status::ALL`].
    pub ended: Vec<u64>,
    /// Seeds that broke a promise; the first few.
    pub failures: Vec<Failure>,
    /// Promises broken, over all seeds.
    pub violations: u64,
}

/// Most failures whose story is told.
const TOLD: usize = 3;
/// Last events of a broken payment.
const LAST_EVENTS: usize = 60;

impl Sweep {
    fn new() -> Self {
        Self { met: vec![0; Met::ALL.len()], ended: vec![0; Status::ALL.len()], ..Self::default() }
    }

    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.payments += outcome.payments;
        self.events += outcome.events;
        self.lasted += outcome.lasted;
        self.violations += outcome.broken.len() as u64;
        self.met.iter_mut().zip(&outcome.met).for_each(|(sum, count)| *sum += count);
        self.ended.iter_mut().zip(&outcome.ended).for_each(|(sum, count)| *sum += count);
    }

    /// Situations that no seed has met: about them the run says nothing.
    #[must_use]
    pub fn never_met(&self) -> Vec<Met> {
        Met::ALL.iter().zip(&self.met).filter(|(_, count)| **count == 0).map(|(met, _)| *met).collect()
    }
}

/// Runs a world; where the schedule in memory has a CHECK it panics, and that is a violation too.
fn caught(dials: Dials, mode: Mode, texts: Texts) -> Outcome {
    let seed = dials.seed;
    let run = std::panic::AssertUnwindSafe(|| run(dials, mode, texts));
    std::panic::catch_unwind(run).unwrap_or_else(|_| Outcome {
        seed,
        hash: 0,
        events: 0,
        payments: 0,
        met: vec![0; Met::ALL.len()],
        ended: vec![0; Status::ALL.len()],
        lasted: Duration::ZERO,
        broken: vec![Violation {
            invariant: Invariant::H1,
            payment: None,
            what: "it panicked; its own words stand above".to_owned(),
        }],
        told: Vec::new(),
    })
}

/// One seed.
fn one(seeds: &Seeds, seed: u64) -> (Outcome, Option<Failure>) {
    let dials = || Dials::of(seed, seeds.each);
    let outcome = caught(dials(), Mode::of(seed), Texts::Left);
    let differs = seeds.twice.then(|| caught(dials(), Mode::of(seed), Texts::Left)).and_then(|again| {
        let same = (again.hash, again.events, &again.met) == (outcome.hash, outcome.events, &outcome.met);
        (!same).then(|| format!("trace {:x} and then {:x}: not one run\n", outcome.hash, again.hash))
    });
    if outcome.broken.is_empty() && differs.is_none() {
        return (outcome, None);
    }
    let story = differs.unwrap_or_default() + &story(seed, seeds.each);
    (outcome, Some(Failure { seed, story }))
}

/// What broke in this seed, told by running it again with its texts kept.
#[must_use]
pub fn story(seed: u64, payments: usize) -> String {
    let outcome = caught(Dials::of(seed, payments), Mode::of(seed), Texts::Kept);
    let mut story = format!(
        "seed {seed}, {:?} mode. To see it again: punctual simulate --check --seed {seed} --each {payments}\n",
        Mode::of(seed)
    );
    // Writing to a text does not fail.
    for broken in outcome.broken.iter().take(8) {
        let id = broken.payment.map(|id| id.to_string()).unwrap_or_default();
        let _written = writeln!(
            story,
            "{} {id}: {}\n   ({})",
            broken.invariant.id(),
            broken.what,
            broken.invariant.statement()
        );
    }
    let of = outcome.broken.iter().find_map(|broken| broken.payment);
    let events: Vec<_> = outcome.told.iter().filter(|told| told.payment == of).collect();
    let _written = writeln!(story, "the last events of {of:?}:");
    for told in &events[events.len().saturating_sub(LAST_EVENTS)..] {
        let _written = writeln!(story, "  {}", told.text);
    }
    story
}

/// Runs them; `progress` hears the sum now and then, from any thread.
#[must_use]
pub fn sweep(seeds: &Seeds, progress: impl Fn(&Sweep) + Sync) -> Sweep {
    let (next, sum) = (AtomicU64::new(seeds.first), Mutex::new(Sweep::new()));
    std::thread::scope(|scope| {
        for _ in 0..seeds.threads.max(1) {
            scope.spawn(|| {
                // Whatever a world's processes say of themselves is not about this process.
                let quiet = tracing::subscriber::NoSubscriber::default();
                tracing::subscriber::with_default(quiet, || work(seeds, &next, &sum, &progress));
            });
        }
    });
    sum.into_inner().unwrap()
}

fn work(seeds: &Seeds, next: &AtomicU64, sum: &Mutex<Sweep>, progress: &(impl Fn(&Sweep) + Sync)) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let planned = (seed - seeds.first) * seeds.each as u64;
        if planned >= seeds.payments.max(1) {
            return;
        }
        let (outcome, failure) = one(seeds, seed);
        let mut sum = sum.lock().unwrap();
        sum.add(&outcome);
        sum.failures.extend(failure);
        sum.failures.truncate(TOLD);
        progress(&sum);
    }
}

/// What is found in the world of this seed with a rule left out of the product; and, with `None` seeded,
/// whether the same world is sound.
#[cfg(feature = "faults")]
#[must_use]
pub fn finds(seed: u64, payments: usize, world_for: Sabotage, bug: Option<Sabotage>) -> Vec<Violation> {
    let _seeded = seeded(bug);
    let quiet = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::with_default(quiet, || {
        caught(Dials::of(seed, payments).that_shows(world_for), Mode::Safety, Texts::Left).broken
    })
}
