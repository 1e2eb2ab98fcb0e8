//! Wishes to cancel and voids, step by step: the gateway's ledger says what became of the money.

use super::lab::{Act, Hand, World, sandbox_profile};
use super::step_tests::{NOW, secs};
use crate::domain::guard::CancelGuard;
use crate::domain::ids::PaymentId;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::gateway::Profile;
use crate::platform::clock::Clock;
use chrono::TimeDelta;

/// A gateway that voids by key, and a payment whose first request met `act` and was not answered.
fn unknown(act: Act) -> (World, Hand, PaymentId) {
    let mut world = World::with(Profile { voids_by_key: true, ..sandbox_profile() });
    let mut hand = world.hand("w1", 1);
    let id = world.add(1, 0);
    world.gateway.will(act, secs(20));
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Unknown);
    (world, hand, id)
}

#[test]
fn a_wish_for_a_payment_that_was_not_charged_cancels_it_and_its_late_request_is_refused() {
    let (mut world, mut hand, id) = unknown(Act::ChargeLate(3_600));
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Wish));
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Wished), "the same answer again");
    world.round(&mut hand);
    assert_eq!((world.status(id), world.reason(id)), (Status::Cancelled, Some(Reason::VoidProven)));
    assert_eq!(world.gateway.voids(), [id.to_string()]);
    world.time.jump(secs(3_601));
    assert_eq!(world.gateway.ledger().len(), 1, "it arrived");
    assert_eq!(world.gateway.charges(id), 0, "and was refused by the tombstone");
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Already));
    world.check();
}

#[test]
fn a_wish_for_a_payment_that_was_charged_completes_it() {
    let (mut world, mut hand, id) = unknown(Act::ChargeSilently);
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Wish));
    world.round(&mut hand);
    assert_eq!((world.status(id), world.gateway.charges(id)), (Status::Completed, 1));
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Refused(Status::Completed)));
    world.check();
}

#[test]
fn a_void_whose_answer_was_lost_is_asked_again_and_no_charge_is_sent_meanwhile() {
    let (mut world, mut hand, id) = unknown(Act::Lose);
    world.gateway.voids_lose_their_answer(2);
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Wish));
    // After each void without an answer a look-up, which at this gateway shows no tombstones.
    for _ in 0..4 {
        world.round(&mut hand);
        assert_eq!(world.status(id), Status::Unknown);
        world.check();
        world.until_next_attempt(id);
    }
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Cancelled);
    assert_eq!((world.gateway.voids().len(), world.gateway.ledger().len()), (3, 0));
    world.check();
}

#[test]
fn a_wish_after_the_key_s_cut_off_is_only_looked_up_and_parks_where_that_does_not_decide() {
    let (mut world, mut hand, id) = unknown(Act::Lose);
    world.time.jump(secs(23 * 3_600));
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Wish));
    for _ in 0..20 {
        world.round(&mut hand);
        world.until_next_attempt(id);
    }
    assert_eq!(world.reason(id), Some(Reason::KeyExpiredUndecided));
    assert!(world.gateway.voids().is_empty(), "a void of a forgotten key proves nothing");
    assert!(world.gateway.ledger().is_empty());
    world.check();
}

#[test]
fn a_deadline_that_passed_with_a_send_open_is_voided_and_fails() {
    let (mut world, mut hand, id) = unknown(Act::ChargeLate(600));
    world.memory.edit(id, |row| row.execute_before = Some(row.due_at + TimeDelta::seconds(1)));
    world.until_next_attempt(id);
    world.round(&mut hand);
    assert_eq!((world.status(id), world.reason(id)), (Status::Failed, Some(Reason::DeadlinePassed)));
    assert_eq!(world.gateway.voids().len(), 1);
    world.time.jump(secs(601));
    world.check();
}

#[test]
fn a_wish_that_comes_while_a_claim_asks_survives_its_settle_and_is_honoured_at_once() {
    let (mut world, hand, id) = unknown(Act::Lose);
    world.gateway.will(Act::Lose, secs(10));
    world.until_next_attempt(id);
    let records = world.deliver().into_iter().map(|record| (record, None)).collect();
    let (memory, time) = (world.memory.clone(), world.time.clone());
    let wished = world.time.run(async {
        let client = async {
            time.sleep(secs(4)).await;
            assert_eq!(memory.payment(id).unwrap().status, Status::Processing);
            memory.cancel(id)
        };
        futures_util::future::join(hand.step.present(records), client).await.1
    });
    assert_eq!(wished, Some(CancelGuard::Wish));
    let row = world.memory.payment(id).unwrap();
    assert_eq!((row.status, row.next_attempt_at), (Status::Unknown, world.now()), "not on its rung");
    let mut hand = hand;
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Cancelled);
    assert_eq!(world.gateway.charges(id), 0);
    world.check();
}

#[test]
fn a_first_send_takes_no_wish_and_a_gateway_without_voids_none_at_all() {
    let mut world = World::new();
    let mut hand = world.hand("w1", 1);
    let id = world.add(1, 0);
    world.gateway.will(Act::Lose, NOW);
    world.round(&mut hand);
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Refused(Status::Unknown)));
    assert_eq!(world.memory.payment(id).unwrap().cancel_wish_at, None);
}
