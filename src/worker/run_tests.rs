//! The loop in direct mode on virtual time: no Kafka, a database in memory.
//!
//! A current-thread runtime polls the loop and its tasks; whenever all of them wait, virtual time
//! moves to the next sleeper.

use super::lab::{Act, SeededDice, World, payment};
use super::*;
use crate::bucket::{BadNotice, Position, Read};
use crate::domain::ids::{GatewayName, WorkerName};
use crate::domain::notice::Notice;
use crate::domain::pace::{Beat, Gate, Grant, Terms};
use crate::domain::retry::Ladders;
use crate::domain::state::Status;
use crate::domain::switches::Orders;
use crate::platform::clock::{Clock, SharedClock};
use crate::platform::config;
use crate::schedule::{BadNoticeKept, Fault, Memory, RefusedBecause, Schedule as _, ScheduleError, Verb};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Told {
    clock: SharedClock,
    ahead: Arc<Mutex<Option<TimeDelta>>>,
    memory: Arc<Memory>,
}

impl Store for Told {
    fn database_now(&self) -> BoxFuture<'_, Result<DateTime<Utc>, ScheduleError>> {
        let ahead = *self.ahead.lock().unwrap();
        let now = ahead.map(|ahead| self.clock.wall() + ahead);
        Box::pin(async move { now.ok_or(ScheduleError::Unavailable("away".into())) })
    }

    fn beat_gateway<'a>(
        &'a self,
        gateway: &'a GatewayName,
        terms: &'a Terms,
        beat: &'a Beat,
    ) -> BoxFuture<'a, Result<Grant, ScheduleError>> {
        Box::pin(self.memory.beat_gateway(gateway, terms, beat))
    }

    fn keep_bad_notice<'a>(
        &'a self,
        _at: Position,
        _bad: &'a BadNotice,
    ) -> BoxFuture<'a, Result<BadNoticeKept, ScheduleError>> {
        Box::pin(async { Ok(self.memory.keep_bad_notice()) })
    }

    fn vouch(&self, read: Read) -> Result<Read, BadNotice> {
        Ok(read)
    }

    fn commits_were_lost<'a>(
        &'a self,
        _notice: &'a Notice,
        _sent_at: Option<DateTime<Utc>>,
        _why: RefusedBecause,
    ) -> BoxFuture<'a, Result<(), ScheduleError>> {
        Box::pin(async { Ok(()) })
    }
}

pub(super) struct Rig {
    pub(super) world: World,
    /// Of the database's clock; `None` while it does not answer.
    ahead: Arc<Mutex<Option<TimeDelta>>>,
    joins: Arc<AtomicUsize>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::in_world(World::new())
    }

    pub(super) fn in_world(world: World) -> Self {
        let ahead = Arc::new(Mutex::new(Some(TimeDelta::zero())));
        Self { world, ahead, joins: Arc::default() }
    }

    pub(super) fn parts(&self, clock: &SharedClock) -> Parts<Memory> {
        let joins = Arc::clone(&self.joins);
        Parts {
            settings: config::Worker::default(),
            ladders: Ladders::default(),
            name: WorkerName("w1/1".into()),
            schedule: Arc::clone(&self.world.memory),
            store: Arc::new(Told {
                clock: Arc::clone(clock),
                ahead: Arc::clone(&self.ahead),
                memory: Arc::clone(&self.world.memory),
            }),
            gateways: vec![self.world.gateway.clone()],
            clock: Arc::clone(clock),
            dice: Arc::new(SeededDice::new(1)),
            join: Box::new(move || {
                joins.fetch_add(1, Ordering::Relaxed);
                Box::pin(async { Err("no broker in this test".to_owned()) })
            }),
        }
    }

    /// Runs a worker until `story` ends; answers how it ended and its last condition.
    pub(super) fn run<F: Future<Output = ()>>(
        &self,
        story: impl FnOnce(VirtualClock) -> F,
    ) -> (Ended, Condition, Arc<Progress>) {
        let clock: SharedClock = Arc::new(self.world.time.clone());
        self.run_with(self.parts(&clock), story)
    }

    /// The same, of these parts.
    pub(super) fn run_with<F: Future<Output = ()>>(
        &self,
        parts: Parts<Memory>,
        story: impl FnOnce(VirtualClock) -> F,
    ) -> (Ended, Condition, Arc<Progress>) {
        self.world.time.block_on(async {
            let (worker, told, progress) = Worker::new(parts);
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let work = worker.run(async move { drop(stopped.await) });
            let script = async {
                story(self.world.time.clone()).await;
                let condition = told.borrow().clone();
                let _sent = stop.send(());
                condition
            };
            let (ended, condition) = futures_util::join!(work, script);
            (ended, condition, progress)
        })
    }
}

pub(super) type VirtualClock = lab::VirtualTime;

#[test]
fn without_kafka_every_due_payment_is_charged_within_a_poll_and_joining_is_tried_again() {
    let rig = Rig::new();
    let ids: Vec<_> = (0..20).map(|n| rig.world.add(n, i64::from(n) * 100)).collect();
    let (ended, condition, _) = rig.run(|time| async move { time.sleep(Duration::from_secs(12)).await });
    for id in &ids {
        assert_eq!((rig.world.status(*id), rig.world.gateway.charges(*id)), (Status::Completed, 1));
        let claimed_at = rig.world.memory.attempts(*id)[0].claimed_at;
        let late = claimed_at - rig.world.memory.payment(*id).unwrap().due_at;
        assert!(late >= TimeDelta::zero() && late <= TimeDelta::seconds(1), "{late}");
    }
    assert_eq!(ended, Ended::Stopped(Drained { drained: 0, abandoned: 0 }));
    assert!(!condition.kafka_is_up && !condition.is_stuck);
    assert_eq!(rig.joins.load(Ordering::Relaxed), 3, "at 0, 5 and 10 s");
}

#[test]
fn no_more_claims_are_open_at_a_gateway_than_it_has_slots() {
    let rig = Rig::new();
    for n in 0..40 {
        rig.world.add(n, 0);
        rig.world.gateway.will(Act::Charge, Duration::from_secs(3));
    }
    let memory = Arc::clone(&rig.world.memory);
    rig.run(|time| async move {
        let mut most = 0;
        for _ in 0..120 {
            let open = memory.payments().iter().filter(|p| p.status == Status::Processing).count();
            most = most.max(open);
            time.sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(most, 16, "the profile's max_in_flight");
    });
    assert!(rig.world.memory.payments().iter().all(|p| p.status == Status::Completed));
}

#[test]
fn a_slow_call_does_not_keep_the_late_scan_from_the_next_payment() {
    let rig = Rig::new();
    rig.world.add(1, 0);
    rig.world.gateway.will(Act::Charge, Duration::from_secs(18));
    let next = rig.world.add(2, 2_000);
    let memory = Arc::clone(&rig.world.memory);
    rig.run(|time| async move {
        time.sleep(Duration::from_secs(4)).await;
        assert_eq!(memory.payment(next).unwrap().status, Status::Completed);
    });
}

#[test]
fn a_backlog_goes_oldest_first_and_as_fast_as_slots_are_free_not_a_scan_a_poll() {
    let rig = Rig::new();
    // Twenty times the slots, added newest first.
    let ids: Vec<_> = (0..250).rev().map(|n| rig.world.add(n, i64::from(n) * 100 - 60_000)).collect();
    for _ in &ids {
        rig.world.gateway.will(Act::Charge, Duration::from_millis(100));
    }
    rig.run(|time| async move { time.sleep(Duration::from_secs(4)).await });
    assert!(ids.iter().all(|id| rig.world.gateway.charges(*id) == 1), "in four polls");
    let order: Vec<_> = rig.world.gateway.ledger().iter().map(|line| line.payment).collect();
    for (place, id) in ids.iter().rev().enumerate() {
        let turn = order.iter().position(|one| one == id).expect("it was asked for");
        assert!(turn.abs_diff(place) < 16, "number {place} had turn {turn}: more than a batch away");
    }
}

#[test]
fn what_is_behind_lets_notices_and_scans_take_turns_and_catches_up_between_polls() {
    let rig = Rig::new();
    let clock: SharedClock = Arc::new(rig.world.time.clone());
    let (worker, ..) = Worker::new(rig.parts(&clock));
    let (_, mut lane) = worker.lanes.into_iter().next().expect("one gateway");
    let now = clock.mono();
    assert_eq!(lane.takes(now, 5), 0, "no beat was answered yet");
    let grant = Grant {
        now: clock.wall(),
        gate: Gate::Open,
        charges: None,
        lookups: None,
        slots: None,
        rate: 0,
        became: None,
        orders: Orders::default(),
    };
    lane.pacer().answered(&lane.pacer().beat(&lane.step.worker, 0, (0, 0), now), &grant, now);
    assert_eq!((lane.takes(now, 5), lane.until_catch_up(now)), (5, None));
    lane.behind = true;
    assert_eq!((lane.takes(now, 5), lane.until_catch_up(now)), (5, Some(Duration::ZERO)));
    lane.turns.notices_went();
    assert_eq!((lane.takes(now, 5), lane.until_catch_up(now)), (0, Some(Duration::ZERO)), "a scan is next");
    let _all = lane.take(16, now);
    assert_eq!(lane.until_catch_up(now), None, "a step must end before");
}

#[test]
fn a_drain_lets_calls_in_flight_end_and_abandons_none() {
    let rig = Rig::new();
    let id = rig.world.add(1, 0);
    rig.world.gateway.will(Act::Charge, Duration::from_secs(15));
    let (ended, ..) = rig.run(|time| async move { time.sleep(Duration::from_secs(2)).await });
    assert_eq!(ended, Ended::Stopped(Drained { drained: 1, abandoned: 0 }));
    assert_eq!(rig.world.status(id), Status::Completed);
}

#[test]
fn a_drain_says_what_it_had_to_abandon() {
    let rig = Rig::new();
    rig.world.add(1, 0);
    rig.world.gateway.will(Act::Charge, Duration::from_secs(100));
    let (ended, ..) = rig.run(|time| async move { time.sleep(Duration::from_secs(2)).await });
    assert_eq!(ended, Ended::Stopped(Drained { drained: 0, abandoned: 1 }));
}

#[test]
fn a_drain_does_not_say_again_what_was_given_up_long_before() {
    let rig = Rig::new();
    rig.world.add(1, 0);
    rig.world.memory.inject(|verb| if verb == Verb::Settle { Fault::ErrorBefore } else { Fault::None });
    let (ended, _, progress) = rig.run(|time| async move { time.sleep(Duration::from_secs(40)).await });
    assert_eq!((progress.abandoned(), progress.open()), (1, 1));
    assert_eq!(ended, Ended::Stopped(Drained { drained: 0, abandoned: 0 }), "it is idle");
}

#[test]
fn a_process_that_did_not_run_for_half_a_lease_stops_itself() {
    let rig = Rig::new();
    let (ended, ..) = rig.run(|time| async move {
        time.sleep(Duration::from_secs(2)).await;
        time.jump(Duration::from_secs(17));
        time.sleep(Duration::from_secs(5)).await;
    });
    assert!(matches!(ended, Ended::Frozen(_)), "{ended:?}");
}

#[test]
fn clocks_apart_stop_claiming_until_a_sample_agrees_again() {
    let rig = Rig::new();
    let ahead = Arc::clone(&rig.ahead);
    *ahead.lock().unwrap() = Some(TimeDelta::seconds(2));
    let (memory, gateway) = (Arc::clone(&rig.world.memory), Arc::clone(&rig.world.gateway));
    rig.run(|time| async move {
        time.sleep(Duration::from_secs(1)).await;
        let due = payment(1, time.wall() + TimeDelta::seconds(1), time.wall());
        memory.add(due, "acct_1".into());
        time.sleep(Duration::from_secs(8)).await;
        assert!(gateway.ledger().is_empty());
        *ahead.lock().unwrap() = Some(TimeDelta::zero());
        time.sleep(Duration::from_secs(8)).await;
    });
    assert_eq!(rig.world.gateway.ledger().len(), 1);
}

#[test]
fn until_the_clocks_are_known_to_agree_nothing_is_claimed_or_joined() {
    for wrong in [None, Some(TimeDelta::seconds(2)), Some(TimeDelta::seconds(-2))] {
        let rig = Rig::new();
        *rig.ahead.lock().unwrap() = wrong;
        let id = rig.world.add(1, -60_000);
        let (ahead, joins) = (Arc::clone(&rig.ahead), Arc::clone(&rig.joins));
        let memory = Arc::clone(&rig.world.memory);
        rig.run(|time| async move {
            time.sleep(Duration::from_secs(9)).await;
            assert_eq!((memory.attempts(id).len(), joins.load(Ordering::Relaxed)), (0, 0), "{wrong:?}");
            *ahead.lock().unwrap() = Some(TimeDelta::zero());
            time.sleep(Duration::from_secs(6)).await;
            assert!(joins.load(Ordering::Relaxed) > 0, "{wrong:?}");
        });
        assert_eq!((rig.world.status(id), rig.world.gateway.charges(id)), (Status::Completed, 1));
    }
}

#[test]
fn work_that_never_ends_makes_it_unhealthy_and_something_finished_makes_it_well() {
    let rig = Rig::new();
    rig.world.add(1, 0);
    rig.world.memory.inject(|verb| if verb == Verb::Settle { Fault::ErrorBefore } else { Fault::None });
    let (_, condition, progress) = rig.run(|time| async move { time.sleep(Duration::from_secs(40)).await });
    assert_eq!((progress.claims(), progress.abandoned(), progress.finished()), (1, 1, 0));
    assert!(condition.is_stuck);
}

#[test]
fn a_claim_given_up_once_does_not_make_an_idle_worker_stuck_for_ever() {
    let rig = Rig::new();
    let id = rig.world.add(1, 0);
    rig.world.memory.inject(|verb| if verb == Verb::Settle { Fault::ErrorBefore } else { Fault::None });
    let memory = Arc::clone(&rig.world.memory);
    let (_, condition, progress) = rig.run(|time| async move {
        time.sleep(Duration::from_secs(36)).await;
        memory.inject(|_| Fault::None);
        memory.reap(Duration::from_secs(5), 10).await.unwrap();
        // It is asked about and ends; then nothing is due for longer than the patience.
        time.sleep(Duration::from_secs(50)).await;
    });
    assert_eq!((rig.world.status(id), rig.world.gateway.charges(id)), (Status::Completed, 1));
    assert_eq!((progress.abandoned(), progress.finished()), (1, 1));
    assert!(!condition.is_stuck, "nothing is due and nothing is in flight");
}

#[test]
fn another_gateway_s_payments_are_left_alone() {
    let rig = Rig::new();
    let id = rig.world.add(1, 0);
    rig.world.memory.edit(id, |payment| payment.gateway = GatewayName("other".into()));
    rig.run(|time| async move { time.sleep(Duration::from_secs(5)).await });
    assert_eq!(rig.world.status(id), Status::Pending);
}
