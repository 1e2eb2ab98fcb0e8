//! Which process meets what, and when: drawn before the run begins, so that nothing in the run can
//! change it.

use super::dials::{Chance, Dials, LONGEST_PAUSE};
use super::nodes::{Kind, Node, World};
use super::trace::Met;
use chrono::TimeDelta;
use std::sync::Arc;
use std::time::Duration;

/// One thing that happens to a process or the bus.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    /// The process of this place is gone.
    Crash(usize),
    /// It is started (again).
    Start(usize),
    /// It is asked to drain.
    Stop(usize),
    /// It stands still.
    Pause(usize, Duration),
    /// Its wall clock is wrong by so much from now on.
    Step(usize, TimeDelta),
    /// The group agrees anew.
    Rebalance,
    /// The bus answers nobody.
    Silence(Duration),
    /// The bus loses everything.
    Erase,
}

/// All actions of a world, in order of time.
pub(super) fn drawn(dials: &Dials, nodes: &[Node], chance: &Chance) -> Vec<(Duration, Action)> {
    let mut agenda = Agenda { dials, chance, actions: Vec::new() };
    let faults = &dials.faults;
    for (place, node) in nodes.iter().enumerate() {
        let crashes = match node.kind {
            Kind::Worker => faults.worker_crashes,
            Kind::Relay => faults.relay_crashes,
            Kind::Keeper => faults.keeper_crashes,
        };
        agenda.often(crashes, |chance| {
            let back = chance.between(Duration::from_millis(200), Duration::from_secs(20));
            vec![(Duration::ZERO, Action::Crash(place)), (back, Action::Start(place))]
        });
        agenda.often(faults.pauses, |chance| {
            let length = chance.between(Duration::from_millis(100), LONGEST_PAUSE);
            vec![(Duration::ZERO, Action::Pause(place, length))]
        });
        if node.kind == Kind::Worker {
            agenda.often(faults.worker_stops, |chance| {
                let back = chance.between(Duration::from_secs(10), Duration::from_secs(15));
                vec![(Duration::ZERO, Action::Stop(place)), (back, Action::Start(place))]
            });
            agenda.often(faults.clock_steps, |chance| {
                let by = TimeDelta::milliseconds(chance.below(40_000) as i64 - 20_000);
                let back = chance.between(Duration::from_secs(2), Duration::from_secs(40));
                vec![
                    (Duration::ZERO, Action::Step(place, by)),
                    (back, Action::Step(place, TimeDelta::zero())),
                ]
            });
        }
    }
    agenda.often(faults.rebalances, |_| vec![(Duration::ZERO, Action::Rebalance)]);
    agenda.often(faults.silences, |chance| {
        vec![(
            Duration::ZERO,
            Action::Silence(chance.between(Duration::from_secs(1), Duration::from_secs(60))),
        )]
    });
    agenda.often(faults.erasures, |_| vec![(Duration::ZERO, Action::Erase)]);
    let mut actions = agenda.actions;
    // Stable: what was drawn first comes first among equals.
    actions.sort_by_key(|(at, _)| *at);
    actions
}

struct Agenda<'a> {
    dials: &'a Dials,
    chance: &'a Chance,
    actions: Vec<(Duration, Action)>,
}

impl Agenda<'_> {
    /// So many times in a thousand seconds, at any time of the trouble.
    fn often(&mut self, per_1000_s: u64, make: impl Fn(&Chance) -> Vec<(Duration, Action)>) {
        let troubled = self.dials.troubled;
        let expected = per_1000_s * troubled.as_millis() as u64 / 1_000;
        // The rest counts by chance.
        let count = expected / 1_000 + u64::from(self.chance.below(1_000) < expected % 1_000);
        for _ in 0..count {
            let at = self.chance.between(Duration::ZERO, troubled);
            self.actions.extend(make(self.chance).into_iter().map(|(after, action)| (at + after, action)));
        }
    }
}

/// Makes it happen.
pub(super) fn act(world: &Arc<World>, nodes: &mut [Node], action: Action) {
    let trace = &world.trace;
    match action {
        Action::Crash(place) => {
            let met = match nodes[place].kind {
                Kind::Worker => Met::WorkerCrashed,
                Kind::Relay => Met::RelayCrashed,
                Kind::Keeper => Met::KeeperCrashed,
            };
            trace.met(met, None, place as u64);
            nodes[place].crash();
        }
        Action::Start(place) => nodes[place].start(world),
        Action::Stop(place) => nodes[place].ask_to_stop(),
        Action::Pause(place, length) => {
            let met = if length > world.dials.settings.lease { Met::Paused } else { Met::PausedShortly };
            trace.met(met, None, length.as_micros() as u64);
            nodes[place].pause(world, length);
        }
        Action::Step(place, by) => {
            if !by.is_zero() {
                trace.met(Met::ClockStepped, None, by.num_milliseconds().unsigned_abs());
            }
            nodes[place].host.step_clock(by);
        }
        Action::Rebalance => world.kafka.rebalance(),
        Action::Silence(length) => world.kafka.silence(length),
        Action::Erase => world.kafka.erase(),
    }
}
