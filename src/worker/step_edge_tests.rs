//! Single steps at the edges: garbage, short leases, wrong clocks, changed accounts, two workers.

use super::lab::{self, Act, World, sandbox_profile};
use super::step_tests::{NOW, one, secs};
use super::*;
use crate::domain::guard::Lineage;
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::verdict::{Doubt, NotSent, Verdict};
use crate::gateway::Profile;
use crate::platform::clock::Clock;
use crate::schedule::{Fault, RefusedBecause, Verb};
use chrono::TimeDelta;

#[test]
fn notices_of_nothing_of_another_gateway_and_of_the_past_are_refused_with_proof() {
    let (mut world, mut hand, id) = one();
    world.round(&mut hand);
    let good = world.memory.notices().pop().unwrap();
    let unknown = PaymentId::new(world.now(), [99; 10]).unwrap();
    let nothing = crate::domain::notice::Notice { payment: unknown, ..good.clone() };
    let elsewhere = crate::domain::notice::Notice { gateway: GatewayName("other".into()), ..good.clone() };
    let records = [nothing, elsewhere, good].map(|notice| world.record(notice));
    world.present(&hand, records.into());
    assert!(hand.returned().is_empty());
    // What the database cannot explain waits until the loop has stopped all claiming (rule R17).
    assert_eq!(world.open(), 1);
    let (record, proof) = hand.lost.try_recv().unwrap();
    assert_eq!((record.notice.payment, proof.why()), (unknown, RefusedBecause::NoSuchPayment));
    assert!(hand.lost.try_recv().is_err(), "the others were explained");
    record.position.unwrap().complete(proof);
    assert_eq!((world.open(), world.gateway.charges(id)), (0, 1));
    world.check();
}

#[test]
fn a_record_that_nobody_can_read_is_complete_only_once_it_is_kept() {
    let mut world = World::new();
    let id = world.add(1, 0);
    let notice = world.memory.notices().pop().unwrap();
    let garbage = world.record(notice.clone());
    let good = world.record(notice);
    let hand = world.hand("w1", 1);
    world.present(&hand, vec![good]);
    assert_eq!((world.status(id), world.committed()), (Status::Completed, 0), "the partition goes on");
    garbage.position.unwrap().complete(world.memory.keep_bad_notice());
    assert_eq!(world.committed(), 2);
}

#[test]
fn a_lease_too_short_to_send_gives_the_claim_back() {
    let (mut world, mut hand, id) = one();
    world.memory.inject_next(Verb::Claim, [Fault::Slow(secs(5))]);
    world.round(&mut hand);
    assert!(world.gateway.ledger().is_empty());
    let payment = world.memory.payment(id).unwrap();
    assert_eq!((payment.status, payment.sends, payment.held_back), (Status::Pending, 0, 0));
    assert_eq!(world.open(), 0);
    world.check();
}

#[test]
fn a_draining_worker_starts_no_charge_and_gives_its_claims_back() {
    let (mut world, mut hand, id) = one();
    hand.step.brake.drain();
    world.round(&mut hand);
    assert!(world.gateway.ledger().is_empty());
    assert_eq!((world.status(id), world.open()), (Status::Pending, 0));
    world.check();
}

#[test]
fn a_host_whose_clock_is_behind_sends_nothing_and_one_too_far_off_stops() {
    let mut world = World::new();
    let mut behind = world.skewed_hand("w1", 1, TimeDelta::milliseconds(-300));
    let id = world.add(1, 0);
    world.round(&mut behind);
    assert!(world.gateway.ledger().is_empty(), "the host's clock does not say due yet");
    assert_eq!(world.status(id), Status::Pending);
    assert_eq!(behind.step.brake.thrown(), None);

    let mut far = world.skewed_hand("w2", 2, TimeDelta::milliseconds(900));
    world.until_next_attempt(id);
    world.round(&mut far);
    assert!(world.gateway.ledger().is_empty());
    assert_eq!(far.step.brake.thrown(), Some(NotSent::HostClockEarly));
    world.check();
}

#[test]
fn an_account_that_changed_while_a_send_is_open_parks() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::Lose, secs(20));
    world.round(&mut hand);
    let moved = Profile { account: "sandbox-2".into(), ..sandbox_profile() };
    hand.step.facts = facts(&moved);
    world.until_next_attempt(id);
    world.round(&mut hand);
    assert!(world.gateway.ledger().is_empty());
    assert_eq!((world.status(id), world.reason(id)), (Status::Parked, Some(Reason::AccountChanged)));
    world.check();
}

#[test]
fn bytes_that_would_differ_from_those_first_sent_are_not_sent() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::Lose, secs(20));
    world.round(&mut hand);
    assert!(world.memory.payment(id).unwrap().request_hash.is_some());
    world.memory.edit(id, |payment| payment.request_hash = Some([9; 32]));
    world.until_next_attempt(id);
    world.round(&mut hand);
    assert!(world.gateway.ledger().is_empty());
    assert_eq!(world.status(id), Status::Unknown, "asked about, without an answer");
    world.check();
}

#[test]
fn a_payment_that_cannot_be_rendered_parks_without_a_call() {
    let mut world = World::new();
    let mut hand = world.hand("w1", 1);
    let payment = lab::payment(1, world.now(), world.now());
    let id = payment.id;
    world.memory.add(payment, String::new().into());
    world.round(&mut hand);
    assert_eq!((world.status(id), world.reason(id)), (Status::Parked, Some(Reason::CannotRender)));
    assert!(world.gateway.ledger().is_empty());
    world.check();
}

#[test]
fn a_payment_that_cannot_be_rendered_any_more_is_asked_about_while_a_send_is_open() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::ChargeSilently, secs(20));
    world.round(&mut hand);
    world.gateway.cannot_render();
    world.until_next_attempt(id);
    world.round(&mut hand);
    assert_eq!((world.status(id), world.gateway.ledger().len()), (Status::Completed, 1));
    world.check();
}

#[test]
fn two_workers_with_the_same_notice_make_one_charge() {
    let mut world = World::new();
    let (first, second) = (world.hand("w1", 1), world.hand("w2", 2));
    let id = world.add(1, 0);
    let notice = world.memory.notices().pop().unwrap();
    world.gateway.will(Act::Charge, secs(3));
    let batches = [world.record(notice.clone()), world.record(notice)].map(|record| vec![(record, None)]);
    let [left, right] = batches;
    world.time.run(async { futures_util::join!(first.step.present(left), second.step.present(right)) });
    assert_eq!((world.status(id), world.gateway.ledger().len(), world.open()), (Status::Completed, 1, 0));
    world.check();
}

#[test]
fn a_slow_call_does_not_hold_up_the_other_outcomes_of_its_batch() {
    let mut world = World::new();
    let hand = world.hand("w1", 1);
    let ids: Vec<_> = (0..4).map(|number| world.add(number, 0)).collect();
    world.gateway.will(Act::Charge, secs(15));
    let batch = world.deliver().into_iter().map(|record| (record, None)).collect();
    let time = world.time.clone();
    let look = async {
        time.sleep(secs(1)).await;
        ids.iter().map(|id| world.status(*id)).collect::<Vec<_>>()
    };
    let ((), states) = world.time.run(async { futures_util::join!(hand.step.present(batch), look) });
    assert_eq!(states, [Status::Processing, Status::Completed, Status::Completed, Status::Completed]);
    assert!(ids.iter().all(|id| world.status(*id) == Status::Completed));
    world.check();
}

#[test]
fn one_poisoned_row_is_parked_by_itself_and_its_batch_goes_on() {
    let mut world = World::new();
    let mut hand = world.hand("w1", 1);
    let ids: Vec<_> = (0..3).map(|number| world.add(number, 0)).collect();
    world.memory.poison(ids[1]);
    world.round(&mut hand);
    let states: Vec<_> = ids.iter().map(|id| world.status(*id)).collect();
    assert_eq!(states, [Status::Completed, Status::Parked, Status::Completed]);
    assert_eq!(world.open(), 0);
    world.check();
}

#[test]
fn in_quarantine_every_notice_waits_and_nothing_is_claimed() {
    let (mut world, mut hand, id) = one();
    world.memory.set_lineage(Lineage::Quarantined);
    let again = world.round(&mut hand);
    assert_eq!((again.len(), world.open(), world.status(id)), (1, 1, Status::Pending));
    world.check();
}

#[test]
fn the_late_scan_charges_what_kafka_never_brought_and_not_what_is_too_young() {
    let (mut world, hand, id) = one();
    let scan = |world: &World| world.time.run(hand.step.present_late(secs(15), vec![None, None]));
    world.time.jump(secs(14));
    scan(&world);
    assert_eq!(world.status(id), Status::Pending);
    world.time.jump(secs(1));
    scan(&world);
    assert_eq!((world.status(id), world.gateway.charges(id)), (Status::Completed, 1));
    world.check();
}

#[test]
fn a_held_record_is_deferred_only_with_proof_that_the_late_scan_owns_its_row() {
    let (mut world, hand, id) = one();
    let records = world.deliver();
    world.memory.inject_next(Verb::Defer, [Fault::ErrorBefore]);
    world.time.run(hand.step.defer(records));
    let mut hand = hand;
    let again = hand.returned();
    assert_eq!((again.len(), world.open()), (1, 1));
    let records = again.into_iter().map(|(record, _)| record).collect();
    world.time.run(hand.step.defer(records));
    assert_eq!((world.open(), world.status(id)), (0, Status::Pending));
    world.time.run(hand.step.present_late(NOW, vec![None]));
    assert_eq!(world.status(id), Status::Completed);
}

#[test]
fn a_nonsense_answer_parks_with_its_send_left_open() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::Nonsense, NOW);
    world.round(&mut hand);
    let payment = world.memory.payment(id).unwrap();
    assert_eq!((payment.status, payment.unanswered), (Status::Parked, 1));
    let answer = world.memory.attempts(id)[0].answer.clone().unwrap();
    assert!(matches!(answer.verdict, Verdict::ContractViolation { .. }));
    world.check();
}

#[test]
fn the_scripted_gateway_executes_a_key_once_and_refuses_other_bytes_under_it() {
    let (mut world, mut hand, id) = one();
    world.round(&mut hand);
    assert_eq!(world.gateway.charges(id), 1);
    let other = world.add(2, 0);
    world.gateway.spoil_key(other);
    world.round(&mut hand);
    let answer = world.memory.attempts(other)[0].answer.clone().unwrap();
    assert_eq!(answer.verdict, Verdict::Unknown(Doubt::KeyMismatch));
    assert_eq!(world.gateway.charges(other), 0);
}
