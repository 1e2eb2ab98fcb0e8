//! What people switch off, on virtual time: nothing of it is sent, nothing else waits for it, and it goes on
//! where it stood.

use super::lab::{Hand, World, payment};
use super::run_tests::Rig;
use super::step_tests::one;
use crate::domain::ids::{ActorId, GatewayName, PaymentId};
use crate::domain::pace::{Gate, Grant};
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use crate::domain::switches::{EVERYTHING, Orders, Pause, Switch, SwitchKind, Switches, Turned};
use crate::domain::verdict::{NotSent, Verdict};
use crate::platform::clock::Clock;
use chrono::{DateTime, TimeDelta, Utc};
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const SHOP: ActorId = ActorId(Uuid::from_u128(8));

fn sandbox() -> GatewayName {
    GatewayName("sandbox".into())
}

fn switch(kind: SwitchKind, value: &str) -> Switch {
    Switch::of(kind, value).expect("a switch")
}

fn everything() -> Switch {
    switch(SwitchKind::Global, EVERYTHING)
}

/// The shop's payment of this number.
fn of_shop(world: &World, number: u8, due_at: DateTime<Utc>) -> PaymentId {
    let made = Payment { actor: SHOP, lane: 3, ..payment(number, due_at, world.now()) };
    let id = made.id;
    world.memory.add(made, SecretString::from("acct_1"));
    id
}

impl Hand {
    /// Tells the worker's copy what a beat would.
    fn hears(&self, world: &World, orders: Orders) {
        let now = self.step.clock.mono();
        let told = self.step.pacer.beat(&self.step.worker, 0, (0, 0), now);
        let grant = Grant {
            now: world.now(),
            gate: Gate::Open,
            charges: None,
            lookups: None,
            slots: None,
            rate: 0,
            became: None,
            orders,
        };
        self.step.pacer.answered(&told, &grant, now);
    }
}

#[test]
fn what_was_claimed_before_the_switch_is_not_written_after_it() {
    for texts in [["global:all"], ["gateway:sandbox"], ["currency:EUR"]] {
        let (mut world, mut hand, id) = one();
        let thrown = Switches::of(texts.iter().filter_map(|text| Switch::from_text(text)));
        // The database does not say so yet: the claim is won, and the copy stops the write.
        hand.hears(&world, Orders::of(&sandbox(), Pause::None, thrown));
        world.round(&mut hand);
        let attempt = world.memory.attempts(id).remove(0);
        let killed = Verdict::NotSent { why: NotSent::Killed, retry_after: None };
        assert_eq!(attempt.answer.map(|answer| answer.verdict), Some(killed), "{texts:?}");
        let row = world.memory.payment(id).expect("it was added");
        assert_eq!((row.status, row.sends, row.held_back), (Status::Pending, 0, 0));
        assert!(world.gateway.ledger().is_empty());
        hand.hears(&world, Orders::default());
        world.until_next_attempt(id);
        world.round(&mut hand);
        assert_eq!((world.status(id), world.gateway.charges(id)), (Status::Completed, 1));
        world.check();
    }
}

#[test]
fn a_pause_lets_what_was_claimed_end() {
    let (mut world, mut hand, id) = one();
    hand.hears(&world, Orders::of(&sandbox(), Pause::Held, Switches::default()));
    assert_eq!(hand.step.pacer.available(hand.step.clock.mono()), 0);
    world.round(&mut hand);
    assert_eq!((world.status(id), world.gateway.charges(id)), (Status::Completed, 1));
}

#[test]
fn the_notice_of_a_payment_that_is_switched_off_is_held_for_a_minute_and_then_the_late_scan_s() {
    let mut world = World::new();
    let mut hand = world.hand("w1", 1);
    let id = of_shop(&world, 1, world.now());
    let other = world.add(2, 0);
    world.memory.turn_switch(switch(SwitchKind::Actor, &SHOP.0.to_string()), Turned::Off);
    let held = world.round(&mut hand);
    assert_eq!((world.status(other), held.len(), world.open()), (Status::Completed, 1, 1));
    let (record, until) = held.into_iter().next().expect("one");
    assert_eq!((record.notice.payment, until - world.now()), (id, TimeDelta::seconds(60)));
    world.time.jump(Duration::from_secs(60));
    world.present(&hand, vec![record]);
    assert!(hand.returned().is_empty());
    assert_eq!((world.open(), world.committed()), (0, 2), "deferred");
    let row = world.memory.payment(id).expect("it was added");
    assert_eq!((row.status, row.attempt, row.sends), (Status::Pending, 0, 0));
    world.time.run(hand.step.present_late(Duration::ZERO, vec![None]));
    assert_eq!(world.status(id), Status::Pending, "nor does the late scan claim it");
    world.memory.turn_switch(switch(SwitchKind::Actor, &SHOP.0.to_string()), Turned::On);
    world.time.run(hand.step.present_late(Duration::ZERO, vec![None]));
    assert_eq!((world.status(id), world.gateway.charges(id)), (Status::Completed, 1));
    world.check();
}

/// Turns a switch off after two seconds and on again after 92, while payments fall due.
fn switched_off_for_90_s(thrown: Switch, add: impl Fn(&Rig, u8) -> PaymentId) -> (Rig, Vec<PaymentId>) {
    let rig = Rig::new();
    let ids: Vec<_> = (0..60).map(|number| add(&rig, number)).collect();
    let memory = Arc::clone(&rig.world.memory);
    rig.run(|time| async move {
        time.sleep(Duration::from_secs(2)).await;
        memory.turn_switch(thrown.clone(), Turned::Off);
        time.sleep(Duration::from_secs(90)).await;
        memory.turn_switch(thrown, Turned::On);
        time.sleep(Duration::from_secs(20)).await;
    });
    (rig, ids)
}

#[test]
fn a_switch_stops_within_a_second_and_switching_on_drains_oldest_first_with_no_budget_spent() {
    for thrown in [everything(), switch(SwitchKind::Gateway, "sandbox"), switch(SwitchKind::Currency, "EUR")]
    {
        let (rig, ids) = switched_off_for_90_s(thrown.clone(), |rig, number| {
            rig.world.add(number, 500 + 500 * i64::from(number))
        });
        let began = rig.world.memory.payment(ids[0]).expect("added").due_at - TimeDelta::milliseconds(500);
        let ledger = rig.world.gateway.ledger();
        let (off, on) = (began + TimeDelta::seconds(3), began + TimeDelta::seconds(92));
        let meanwhile = ledger.iter().filter(|line| line.at > off && line.at < on).count();
        assert_eq!(meanwhile, 0, "{thrown:?}");
        assert!(ledger.iter().any(|line| line.at < off), "it stopped something that was going on");
        for id in &ids {
            let row = rig.world.memory.payment(*id).expect("added");
            assert_eq!((row.status, row.sends), (Status::Completed, 1), "{thrown:?}");
            assert_eq!(rig.world.gateway.charges(*id), 1);
        }
        let turn = |id: &PaymentId| ledger.iter().position(|line| line.payment == *id).expect("charged");
        let turns: Vec<_> = ids.iter().map(turn).collect();
        let late = |place: usize| turns[..place].iter().filter(|other| **other > turns[place]).count();
        // Sixteen slots work side by side.
        assert!((0..turns.len()).all(|place| late(place) <= 16), "{thrown:?}: {turns:?}");
    }
}

#[test]
fn an_actor_that_is_switched_off_keeps_nobody_else_waiting() {
    let thrown = switch(SwitchKind::Actor, &SHOP.0.to_string());
    let (rig, ids) = switched_off_for_90_s(thrown, |rig, number| {
        let due_at = rig.world.now() + TimeDelta::milliseconds(500 + 500 * i64::from(number));
        if number.is_multiple_of(2) {
            of_shop(&rig.world, number, due_at)
        } else {
            rig.world.add(number, 500 + 500 * i64::from(number))
        }
    });
    for (number, id) in ids.iter().enumerate() {
        let row = rig.world.memory.payment(*id).expect("added");
        let late = rig.world.memory.attempts(*id)[0].claimed_at - row.due_at;
        assert_eq!((row.status, row.sends), (Status::Completed, 1));
        if number % 2 == 1 {
            assert!(late <= TimeDelta::seconds(2), "another actor's, {late} late");
        }
        let due = row.due_at - rig.world.memory.payment(ids[0]).expect("added").due_at;
        if number % 2 == 0 && due > TimeDelta::seconds(3) {
            assert!(late > TimeDelta::seconds(55), "the shop's, {late} late");
        }
    }
}

#[test]
fn what_people_close_is_told_by_health() {
    let rig = Rig::new();
    let memory = Arc::clone(&rig.world.memory);
    let (_, condition, _) = rig.run(|time| async move {
        memory.pause_gateway(&sandbox(), Pause::Held);
        time.sleep(Duration::from_secs(3)).await;
    });
    assert_eq!(condition.closed.get(&sandbox()), Some(&"an operator has paused it"));
    rig.world.memory.pause_gateway(&sandbox(), Pause::None);
    let memory = Arc::clone(&rig.world.memory);
    let (_, condition, _) = rig.run(|time| async move {
        memory.turn_switch(everything(), Turned::Off);
        time.sleep(Duration::from_secs(3)).await;
    });
    assert_eq!(condition.closed.get(&sandbox()), Some(&"a kill switch is thrown"));
}
