//! The keeper's loops on virtual time, over the schedule in memory.

use super::*;
use crate::domain::ids::GatewayName;
use crate::domain::state::Status;
use crate::platform::clock::Clock;
use crate::platform::metrics;
use crate::schedule::{Backlog, Fault, OpenStates, ScheduleError, Verb};
use crate::worker::lab::{World, lease};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Answers from a list, and notes when it was asked.
struct Scripted {
    clock: Arc<dyn Clock>,
    answers: Vec<Result<Next, ScheduleError>>,
    asked_at: Arc<Mutex<Vec<Duration>>>,
}

impl Tick for Scripted {
    fn name(&self) -> &'static str {
        "backlog"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        self.asked_at.lock().unwrap().push(self.clock.mono().0);
        if self.answers.is_empty() { Ok(Next::Later) } else { self.answers.remove(0) }
    }
}

fn ticks(answers: Vec<Result<Next, ScheduleError>>, nudges: &[u64], stop_after: u64) -> Vec<u64> {
    let world = World::new();
    let clock: Arc<dyn Clock> = Arc::new(world.time.clone());
    let asked_at = Arc::new(Mutex::new(Vec::new()));
    let work = Scripted { clock: Arc::clone(&clock), answers, asked_at: Arc::clone(&asked_at) };
    let nudge = Nudge::default();
    let stop = clock.sleep(Duration::from_millis(stop_after));
    let looped = every(work, Duration::from_secs(10), nudge.clone(), Arc::clone(&clock), stop);
    let nudging = async {
        for at in nudges {
            let pause = Duration::from_millis(*at).saturating_sub(clock.mono().0);
            clock.sleep(pause).await;
            nudge.nudge();
        }
    };
    world.time.run(async { futures_util::join!(looped, nudging) });
    let asked = asked_at.lock().unwrap();
    asked.iter().map(|at| u64::try_from(at.as_millis()).unwrap()).collect()
}

#[test]
fn it_looks_at_once_and_then_each_period() {
    assert_eq!(ticks(Vec::new(), &[], 25_000), [0, 10_000, 20_000]);
}

#[test]
fn a_full_batch_is_followed_by_another_look_at_once() {
    assert_eq!(ticks(vec![Ok(Next::Now), Ok(Next::Now)], &[], 9_000), [0, 0, 0]);
}

#[test]
fn a_nudge_ends_the_pause() {
    assert_eq!(ticks(Vec::new(), &[3_000], 14_000), [0, 3_000, 13_000]);
}

#[test]
fn a_failure_waits_for_the_next_period() {
    let failed = || Err(ScheduleError::Unavailable("away".into()));
    assert_eq!(ticks(vec![failed(), failed()], &[], 25_000), [0, 10_000, 20_000]);
}

fn claimed_world() -> (World, crate::domain::ids::PaymentId) {
    let mut world = World::new();
    let id = world.add(1, 0);
    let hand = world.hand("w1", 1);
    // The claim's answer is lost and the database stays away, so nothing is settled.
    let mut first = true;
    world.memory.inject(move |verb| match verb {
        Verb::Claim if std::mem::take(&mut first) => Fault::PerformedThenLost,
        _ => Fault::ErrorBefore,
    });
    let records = world.deliver();
    world.present(&hand, records);
    world.memory.inject(|_| Fault::None);
    assert_eq!(world.status(id), Status::Processing);
    (world, id)
}

#[test]
fn the_reaper_makes_an_expired_claim_unknown_and_only_after_lease_and_margin() {
    let (world, id) = claimed_world();
    let mut reaper = Reaper { schedule: Arc::clone(&world.memory), margin: lease().margin, batch: 10 };
    let spent = world.time.mono().0;
    world.time.jump(Duration::from_millis(34_999).saturating_sub(spent));
    assert!(matches!(world.time.run(reaper.tick()), Ok(Next::Later)));
    assert_eq!(world.status(id), Status::Processing);
    world.time.jump(Duration::from_millis(1));
    assert!(matches!(world.time.run(reaper.tick()), Ok(Next::Later)));
    assert_eq!(world.status(id), Status::Unknown);
    let newest = world.memory.notices().pop().unwrap();
    assert_eq!((newest.payment, newest.attempt), (id, 1));
    world.memory.verify_histories();
}

#[test]
fn the_reaper_goes_on_while_its_batches_are_full_and_fails_what_missed_its_deadline() {
    let world = World::new();
    for number in 0..5 {
        let id = world.add(number, 0);
        let deadline = world.now() + Duration::from_secs(1);
        world.memory.edit(id, |payment| payment.execute_before = Some(deadline));
    }
    world.time.jump(Duration::from_secs(2));
    let mut reaper = Reaper { schedule: Arc::clone(&world.memory), margin: lease().margin, batch: 2 };
    let nexts: Vec<Next> = (0..3).map(|_| world.time.run(reaper.tick()).unwrap()).collect();
    assert_eq!(nexts, [Next::Now, Next::Now, Next::Later]);
    assert!(world.memory.payments().iter().all(|payment| payment.status == Status::Failed));
    world.memory.verify_histories();
}

#[derive(Default)]
struct Tables {
    made: AtomicUsize,
    dropped: AtomicUsize,
    webhook_days: AtomicUsize,
    old_counts: AtomicU64,
}

impl Upkeep for Tables {
    async fn ensure_partitions(&self, back: u32, ahead: u32) -> Result<u32, ScheduleError> {
        assert_eq!((back, ahead), (2, 370));
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(1)
    }

    async fn drop_drained_notices(&self, _: u32) -> Result<u32, ScheduleError> {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        Err(ScheduleError::Unavailable("away".into()))
    }

    async fn forget_declines(&self, limit: u32) -> Result<u64, ScheduleError> {
        let left = self.old_counts.load(Ordering::Relaxed);
        let gone = left.min(u64::from(limit));
        self.old_counts.store(left - gone, Ordering::Relaxed);
        Ok(gone)
    }

    async fn forget_callbacks(&self, limit: u32) -> Result<u64, ScheduleError> {
        Ok(u64::from(limit) / 2)
    }

    async fn forget_actor_days(&self, limit: u32) -> Result<u64, ScheduleError> {
        Ok(u64::from(limit) / 4)
    }

    async fn drop_webhook_days(&self, keep: u32) -> Result<u32, ScheduleError> {
        assert_eq!(keep, 30);
        self.webhook_days.fetch_add(1, Ordering::Relaxed);
        Ok(1)
    }

    async fn discard_deliveries(&self, limit: u32) -> Result<u64, ScheduleError> {
        Ok(u64::from(limit) / 8)
    }

    async fn advance_oldest_open_day(&self) -> Result<chrono::NaiveDate, ScheduleError> {
        Ok(chrono::NaiveDate::default())
    }

    async fn backlog(&self, most: u32) -> Result<Backlog, ScheduleError> {
        let sandbox = GatewayName("sandbox".into());
        Ok(Backlog {
            oldest_due: vec![(sandbox, Duration::from_millis(61_500))],
            unpublished_due: i64::from(most),
            days_ahead: -1,
            oldest_open_day_age: 3,
            open: OpenStates {
                due: 4,
                processing: 5,
                unknown: 6,
                parked: 7,
                oldest_unknown: Duration::from_secs(901),
                lease_overdue: Duration::from_millis(1_500),
            },
        })
    }
}

#[test]
fn partitions_are_made_even_if_dropping_fails_and_the_failure_is_told() {
    let world = World::new();
    let tables = Arc::new(Tables::default());
    let mut partitions = Partitions { schedule: Arc::clone(&tables), back: 2, ahead: 370, webhook_days: 30 };
    assert!(world.time.run(partitions.tick()).is_err());
    assert_eq!((tables.made.load(Ordering::Relaxed), tables.dropped.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(tables.webhook_days.load(Ordering::Relaxed), 1);
    let mut bounds = Bounds { schedule: tables };
    assert_eq!(world.time.run(bounds.tick()).unwrap(), Next::Later);
}

#[test]
fn old_counts_of_declines_go_batch_by_batch_until_none_is_left() {
    let world = World::new();
    let tables = Arc::new(Tables { old_counts: AtomicU64::new(2_500), ..Tables::default() });
    let mut forgets = Forgets { schedule: Arc::clone(&tables) };
    let nexts: Vec<Next> = (0..3).map(|_| world.time.run(forgets.tick()).unwrap()).collect();
    assert_eq!(nexts, [Next::Now, Next::Now, Next::Later]);
    assert_eq!(tables.old_counts.load(Ordering::Relaxed), 0);
}

#[test]
fn the_backlog_is_told_as_the_tables_have_it() {
    let recorder = metrics::recorder().unwrap();
    let exposition = metrics::Exposition::of(&recorder);
    let world = World::new();
    let mut watch = Watch { schedule: Arc::new(Tables::default()) };
    ::metrics::with_local_recorder(&recorder, || world.time.run(watch.tick()).unwrap());
    let said = exposition.render();
    for line in [
        "punctual_payments_due_oldest_age_seconds{gateway=\"sandbox\"} 61.5",
        "punctual_relay_unpublished_due 10000",
        "punctual_partitions_ahead_days -1",
        "punctual_oldest_open_day_age_days 3",
        "punctual_payments{state=\"due\"} 4",
        "punctual_payments{state=\"processing\"} 5",
        "punctual_payments{state=\"unknown\"} 6",
        "punctual_payments{state=\"parked\"} 7",
        "punctual_payments_unknown_oldest_age_seconds 901",
        "punctual_payments_lease_overdue_seconds 1.5",
    ] {
        assert!(said.lines().any(|found| found == line), "{line} is not in:\n{said}");
    }
}
