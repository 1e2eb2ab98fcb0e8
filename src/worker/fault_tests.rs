//! Random scripts of faults against two workers at once, seed by seed.
//!
//! Whatever the database, the gateway, the network and the clients do, no payment is charged twice,
//! no state lies about the gateway's own ledger, no offset is committed without evidence, and after
//! the last fault every payment comes to its end. The same seed gives the same run.

use super::lab::{Act, Hand, SeededDice, World, lease, sandbox_profile};
use super::*;
use crate::domain::ids::PaymentId;
use crate::domain::state::Status;
use crate::domain::verdict::{DeclineClass, NotSent};
use crate::gateway::Profile;
use crate::platform::clock::Clock;
use crate::platform::dice::Dice;
use crate::schedule::{Fault, Schedule};
use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use std::cell::Cell;
use std::time::Duration;

struct Chaos {
    dice: SeededDice,
    world: World,
    hands: [Hand; 2],
    ids: Vec<PaymentId>,
    waiting: Vec<(Record, DateTime<Utc>)>,
    may_crash: bool,
}

/// What one seed came to.
#[derive(Debug, PartialEq, Eq)]
struct Trace {
    histories: Vec<String>,
    ledger: Vec<lab::LedgerLine>,
    ends: Vec<Status>,
}

fn below(dice: &SeededDice, bound: u128) -> u64 {
    u64::try_from(dice.bits() % bound).unwrap()
}

fn random_act(dice: &SeededDice) -> Act {
    let class = [DeclineClass::Hard, DeclineClass::Soft, DeclineClass::Soft, DeclineClass::Ambiguous]
        [usize::try_from(below(dice, 4)).unwrap()];
    match below(dice, 10) {
        0 | 1 => Act::ChargeSilently,
        2 | 3 => Act::Lose,
        4 => Act::ChargeLate(u32::try_from(below(dice, 900)).unwrap()),
        5 => Act::DeclineSilently(class),
        6 | 7 => Act::Decline(class),
        8 => Act::NotSent(NotSent::Refused),
        _ => Act::Charge,
    }
}

fn random_fault(dice: &SeededDice) -> Fault {
    match below(dice, 24) {
        0 | 1 => Fault::ErrorBefore,
        2 | 3 => Fault::PerformedThenLost,
        4 => Fault::NeverArrived,
        5 => Fault::Slow(Duration::from_millis(below(dice, 45_000))),
        6 => Fault::Defect,
        _ => Fault::None,
    }
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let dice = SeededDice::new(seed);
        let replays_declines = below(&dice, 2) == 0;
        let lookup = below(&dice, 4) > 0;
        let world = World::with(Profile { replays_declines, lookup, ..sandbox_profile() });
        let skew = TimeDelta::milliseconds(i64::try_from(below(&dice, 400)).unwrap() - 200);
        let hands = [world.hand("w1", seed ^ 1), world.skewed_hand("w2", seed ^ 2, skew)];
        let ids =
            (0..4).map(|n| world.add(n, i64::try_from(below(&dice, 60_000)).unwrap())).collect::<Vec<_>>();
        for id in &ids {
            if below(&dice, 4) == 0 {
                let deadline = world.now() + Duration::from_secs(120 + below(&dice, 300));
                world.memory.edit(*id, |payment| payment.execute_before = Some(deadline));
            }
        }
        for _ in 0..below(&dice, 20) {
            world.gateway.will(random_act(&dice), Duration::from_millis(below(&dice, 20_000)));
        }
        let faults = SeededDice::new(seed ^ 3);
        world.memory.inject(move |_| random_fault(&faults));
        Self { dice, world, hands, ids, waiting: Vec::new(), may_crash: true }
    }

    /// Everything due, some of it twice, dealt to both workers at once; then reaper, client, time.
    fn round(&mut self) {
        let now = self.world.now();
        let fresh = self.world.deliver();
        let mut due = Vec::new();
        for record in fresh {
            if below(&self.dice, 5) == 0 {
                due.push(self.world.record(record.notice.clone()));
            }
            due.push(record);
        }
        let (back, later) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, until)| *until <= now);
        self.waiting = later;
        due.extend(Vec::into_iter(back).map(|(record, _)| record));
        let (left, right): (Vec<_>, Vec<_>) = due.into_iter().partition(|_| below(&self.dice, 2) == 0);
        let seat = |records: Vec<Record>| records.into_iter().map(|record| (record, None)).collect();
        let [one, two] = &self.hands;
        let scans = below(&self.dice, 3) == 0;
        let scan = async {
            if scans {
                one.step.present_late(Duration::from_secs(15), vec![None, None]).await;
            }
        };
        let done = Cell::new(false);
        let both = async {
            futures_util::join!(one.step.present(seat(left)), two.step.present(seat(right)), scan);
            done.set(true);
        };
        // While they work, expired claims are reaped and asked about by the other worker: a step
        // whose settle takes longer than its lease is a zombie.
        let meanwhile = async {
            loop {
                drop(self.world.memory.reap(lease().margin, 10).await);
                if done.get() {
                    return;
                }
                two.step.present_late(Duration::ZERO, vec![None]).await;
                self.world.time.sleep(Duration::from_secs(7)).await;
            }
        };
        if self.may_crash && below(&self.dice, 8) == 0 {
            // The process dies: every future is dropped where it stands.
            let dies = self.world.time.sleep(Duration::from_millis(below(&self.dice, 10_000)));
            self.world.time.run(async {
                tokio::select! {
                    biased;
                    _ = async { futures_util::join!(both, meanwhile) } => {}
                    () = dies => {}
                }
            });
        } else {
            self.world.time.run(async { futures_util::join!(both, meanwhile) });
        }
        for hand in &mut self.hands {
            self.waiting.extend(hand.returned());
        }
        if below(&self.dice, 6) == 0 {
            let pick = usize::try_from(below(&self.dice, 4)).unwrap();
            self.world.memory.cancel(self.ids[pick]);
        }
        self.world.time.jump(Duration::from_millis(below(&self.dice, 40_000)));
        self.world.check();
    }

    fn heal(&mut self) {
        self.world.memory.inject(|_| Fault::None);
        self.world.gateway.heal();
        self.may_crash = false;
        for _ in 0..200 {
            self.round();
            let ended = |id: &PaymentId| {
                let status = self.world.status(*id);
                status.is_final() || status == Status::Parked
            };
            if self.ids.iter().all(ended) {
                break;
            }
            let next = self.ids.iter().map(|id| self.world.memory.payment(*id).unwrap().next_attempt_at);
            let soonest = next.filter(|at| *at > self.world.now()).min();
            let pause = soonest.map_or(TimeDelta::zero(), |at| at - self.world.now());
            self.world.time.jump(pause.to_std().unwrap().min(Duration::from_secs(3_600)));
        }
    }

    fn run(seed: u64) -> Trace {
        let mut chaos = Self::new(seed);
        for _ in 0..15 {
            chaos.round();
        }
        chaos.heal();
        // What was still under way arrives.
        chaos.world.time.jump(Duration::from_secs(1_000));
        chaos.world.check();
        let histories = chaos.ids.iter().flat_map(|id| chaos.world.memory.history(*id));
        let trace = Trace {
            histories: histories.map(|row| row.form()).collect(),
            ledger: chaos.world.gateway.ledger(),
            ends: chaos.ids.iter().map(|id| chaos.world.status(*id)).collect(),
        };
        for end in &trace.ends {
            assert!(
                end.is_final() || *end == Status::Parked,
                "seed {seed}: still {end:?}\n{}",
                trace.histories[trace.histories.len().saturating_sub(30)..].join("\n")
            );
        }
        trace
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_script_of_faults_charges_twice_or_completes_an_offset_without_evidence(seed in any::<u64>()) {
        let trace = Chaos::run(seed);
        prop_assert_eq!(trace.ends.len(), 4);
    }
}

/// A run in which nothing interesting happened proves nothing: over these seeds each of the
/// situations that the rules are about must have come up, and each seed must repeat exactly.
#[test]
fn the_same_seed_gives_the_same_run_and_the_seeds_meet_every_situation() {
    let traces: Vec<Trace> = (0..120).map(Chaos::run).collect();
    for (seed, trace) in (0..).zip(&traces).take(40) {
        assert_eq!(Chaos::run(seed), *trace, "seed {seed}");
    }
    let told = |what: &str| traces.iter().flat_map(|t| &t.histories).filter(|row| row.contains(what)).count();
    for what in [
        "lease_expired",
        "fenced",
        "cancelled",
        "deadline_passed",
        "COMPLETED",
        "FAILED",
        "PARKED",
        "UNKNOWN",
    ] {
        assert!(told(what) > 0, "never seen: {what}");
    }
    let resent = traces.iter().flat_map(|t| &t.ledger).filter(|line| !line.moved_money).count();
    let new_keys = traces.iter().flat_map(|t| &t.ledger).filter(|line| line.key.contains(':')).count();
    assert!(resent > 0 && new_keys > 0, "resends {resent}, new keys {new_keys}");
}
