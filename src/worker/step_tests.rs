//! Single steps, driven by hand: a scripted gateway, the schedule in memory, virtual time.

use super::lab::{Act, Hand, World};
use super::*;
use crate::bucket::Offsets;
use crate::domain::guard::CancelGuard;
use crate::domain::ids::PaymentId;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::domain::verdict::{DeclineClass, NotSent};
use crate::platform::clock::Clock;
use crate::schedule::{Fault, Schedule, Verb};
use std::time::Duration;

pub(super) const NOW: Duration = Duration::ZERO;

pub(super) fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A world with one payment due now, and one worker.
pub(super) fn one() -> (World, Hand, PaymentId) {
    let world = World::new();
    let hand = world.hand("w1", 1);
    let id = world.add(1, 0);
    (world, hand, id)
}

impl World {
    pub(super) fn reason(&self, id: PaymentId) -> Option<Reason> {
        self.memory.payment(id).unwrap().reason
    }

    pub(super) fn reap(&self) -> u32 {
        self.time.run(self.memory.reap(lab::lease().margin, 100)).unwrap().expired
    }

    pub(super) fn open(&self) -> usize {
        Offsets::open(&self.offsets.lock())
    }

    /// Moves on to the instant of the next attempt of this payment.
    pub(super) fn until_next_attempt(&self, id: PaymentId) {
        let next = self.memory.payment(id).unwrap().next_attempt_at;
        self.time.jump((next - self.now()).to_std().unwrap_or_default());
    }
}

#[test]
fn a_due_payment_is_charged_once_settled_and_its_offset_complete() {
    let (mut world, mut hand, id) = one();
    assert!(world.round(&mut hand).is_empty());
    assert_eq!(world.status(id), Status::Completed);
    assert_eq!((world.gateway.charges(id), world.open(), world.committed()), (1, 0, 1));
    let attempt = &world.memory.attempts(id)[0];
    let line = &world.gateway.ledger()[0];
    assert_eq!((line.claim, line.key.clone()), (attempt.claim_id, id.to_string()));
    assert_eq!(attempt.entered, Some(Status::Completed));
    world.check();
}

#[test]
fn a_hard_decline_fails_and_a_soft_one_waits_for_a_new_key() {
    let mut world = World::new();
    let mut hand = world.hand("w1", 1);
    let (hard, soft) = (world.add(1, 0), world.add(2, 0));
    world.gateway.will(Act::Decline(DeclineClass::Hard), NOW);
    world.gateway.will(Act::Decline(DeclineClass::Soft), NOW);
    world.round(&mut hand);
    assert_eq!((world.status(hard), world.status(soft)), (Status::Failed, Status::Pending));
    assert_eq!(world.open(), 0);
    world.check();

    world.until_next_attempt(soft);
    world.round(&mut hand);
    assert_eq!(world.status(soft), Status::Completed);
    assert_eq!(world.gateway.ledger().last().unwrap().key, format!("{soft}:1"));
    world.check();
}

#[test]
fn a_charge_whose_answer_was_lost_is_found_by_asking_and_not_sent_again() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::ChargeSilently, secs(20));
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Unknown);
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Refused(Status::Unknown)));
    world.check();

    world.until_next_attempt(id);
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Completed);
    assert_eq!(world.gateway.ledger().len(), 1, "found by the look-up, not by a second request");
    world.check();
}

#[test]
fn a_request_lost_on_its_way_is_sent_again_under_the_same_key() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::Lose, secs(20));
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Unknown);
    assert_eq!(hand.step.pacer.last_failure.told().as_deref(), Some("no answer in time"));
    world.until_next_attempt(id);
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Completed);
    assert_eq!(world.gateway.ledger()[0].key, id.to_string());
    world.check();
}

#[test]
fn a_request_that_arrives_after_its_resend_was_executed_moves_no_money_again() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::ChargeLate(300), secs(20));
    world.round(&mut hand);
    world.until_next_attempt(id);
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Completed);
    world.time.jump(secs(600));
    let lines = world.gateway.ledger();
    assert_eq!(lines.iter().map(|line| line.moved_money).collect::<Vec<_>>(), [true, false]);
    world.check();
}

#[test]
fn a_decline_with_an_earlier_send_still_open_parks_instead_of_failing() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::ChargeLate(300), secs(20));
    world.gateway.will(Act::Decline(DeclineClass::Hard), NOW);
    world.round(&mut hand);
    world.until_next_attempt(id);
    world.round(&mut hand);
    assert_eq!((world.status(id), world.reason(id)), (Status::Parked, Some(Reason::UnprovenDecline)));
    world.time.jump(secs(600));
    assert_eq!(world.gateway.charges(id), 1, "the first request was still under way, as feared");
    world.check();
}

#[test]
fn a_failed_look_up_sends_nothing() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::Lose, secs(20));
    world.round(&mut hand);
    world.until_next_attempt(id);
    world.gateway.lookups_fail(1);
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Unknown);
    assert!(world.gateway.ledger().is_empty());
    world.check();
}

#[test]
fn what_was_proven_unsent_is_pending_again_and_has_spent_no_budget() {
    let (mut world, mut hand, id) = one();
    world.gateway.will(Act::NotSent(NotSent::Refused), NOW);
    world.round(&mut hand);
    let payment = world.memory.payment(id).unwrap();
    assert_eq!((payment.status, payment.sends, payment.unanswered), (Status::Pending, 0, 0));
    assert_eq!((payment.held_back, payment.epoch_first_sent_at), (1, None));
    assert_eq!(world.open(), 0);
    world.until_next_attempt(id);
    world.round(&mut hand);
    assert_eq!(world.status(id), Status::Completed);
    world.check();
}

#[test]
fn a_claim_whose_commit_answer_was_lost_is_recovered_and_charged_once() {
    let (mut world, mut hand, id) = one();
    let mut claims = 0;
    let mut recovers = 0;
    world.memory.inject(move |verb| match verb {
        Verb::Claim => {
            claims += 1;
            if claims == 1 { Fault::PerformedThenLost } else { Fault::None }
        }
        Verb::Recover => {
            recovers += 1;
            [Fault::ErrorBefore, Fault::PerformedThenLost, Fault::None][usize::min(recovers, 3) - 1]
        }
        _ => Fault::None,
    });
    assert!(world.round(&mut hand).is_empty());
    assert_eq!(world.status(id), Status::Completed);
    assert_eq!(world.memory.attempts(id).len(), 1);
    world.check();
}

#[test]
fn a_claim_that_did_not_happen_is_presented_again_whether_that_was_known_or_not() {
    for fault in [Fault::ErrorBefore, Fault::NeverArrived] {
        let (mut world, mut hand, id) = one();
        world.memory.inject_next(Verb::Claim, [fault]);
        let again = world.round(&mut hand);
        assert_eq!((again.len(), world.open(), world.committed()), (1, 1, 0));
        assert_eq!(world.status(id), Status::Pending);
        world.present(&hand, again.into_iter().map(|(record, _)| record).collect());
        assert_eq!((world.status(id), world.open()), (Status::Completed, 0));
        world.check();
    }
}

#[test]
fn a_claim_recovered_too_late_to_send_is_given_back() {
    let (mut world, mut hand, id) = one();
    let mut first = true;
    let time = world.time.clone();
    let until = time.mono().0 + secs(6);
    world.memory.inject(move |verb| match verb {
        Verb::Claim if std::mem::take(&mut first) => Fault::PerformedThenLost,
        Verb::Recover if time.mono().0 < until => Fault::ErrorBefore,
        _ => Fault::None,
    });
    world.round(&mut hand);
    assert!(world.gateway.ledger().is_empty(), "30 s − 5 s − 20 s leave 5 s to begin");
    assert_eq!(world.status(id), Status::Pending);
    world.check();
}

#[test]
fn a_settle_whose_commit_answer_was_lost_is_repeated_and_written_once() {
    let (mut world, mut hand, id) = one();
    world
        .memory
        .inject_next(Verb::Settle, [Fault::ErrorBefore, Fault::PerformedThenLost, Fault::ErrorBefore]);
    assert!(world.round(&mut hand).is_empty());
    assert_eq!((world.status(id), world.open()), (Status::Completed, 0));
    assert_eq!(world.memory.history(id).len(), 3, "created, claimed, settled");
    assert_eq!(hand.step.progress.settled(), 1);
    world.check();
}

#[test]
fn a_record_whose_settle_never_succeeds_is_not_complete_and_the_charge_is_found_by_asking() {
    let (mut world, mut hand, id) = one();
    world.memory.inject(|verb| if verb == Verb::Settle { Fault::ErrorBefore } else { Fault::None });
    let again = world.round(&mut hand);
    assert_eq!((again.len(), world.open(), hand.step.progress.abandoned()), (1, 1, 1));
    assert_eq!(world.status(id), Status::Processing);
    assert!(world.time.mono().0 < secs(30), "given up before the lease ended");
    world.memory.inject(|_| Fault::None);

    // Presented again while its own claim still holds: refused with proof, so complete.
    world.present(&hand, again.into_iter().map(|(record, _)| record).collect());
    assert_eq!(world.open(), 0);
    world.time.jump(secs(40));
    assert_eq!(world.reap(), 1);
    world.round(&mut hand);
    assert_eq!((world.status(id), world.gateway.ledger().len()), (Status::Completed, 1));
    world.check();
}

#[test]
fn a_defect_is_not_repeated_and_completes_nothing() {
    let (mut world, mut hand, id) = one();
    world.memory.inject_next(Verb::Settle, [Fault::Defect]);
    let again = world.round(&mut hand);
    assert_eq!((again.len(), world.open()), (1, 1));
    assert_eq!(world.status(id), Status::Processing);
    world.check();
}

#[test]
fn a_worker_that_slept_through_its_lease_is_fenced_and_the_charge_stays_one() {
    let (mut world, zombie, id) = one();
    let mut other = world.hand("w2", 2);
    // Its settle is on the way for a minute.
    let mut first = true;
    world.memory.inject(move |verb| match verb {
        Verb::Settle if std::mem::take(&mut first) => Fault::Slow(secs(60)),
        _ => Fault::None,
    });
    let records = world.deliver();
    let batch = records.into_iter().map(|record| (record, None)).collect();
    let time = world.time.clone();
    let rescue = async {
        time.sleep(secs(40)).await;
        assert_eq!(world.memory.reap(lab::lease().margin, 10).await.unwrap().expired, 1);
        let notice = world.memory.notices().pop().unwrap();
        let record = hold::Held { notice, position: None };
        other.step.present(vec![(record, None)]).await;
    };
    world.time.run(async { futures_util::join!(zombie.step.present(batch), rescue) });
    assert!(other.returned().is_empty());
    assert_eq!(world.status(id), Status::Completed);
    assert_eq!(world.gateway.ledger().len(), 1);
    let attempts = world.memory.attempts(id);
    assert_eq!(attempts.iter().map(|attempt| attempt.fenced).collect::<Vec<_>>(), [true, false]);
    assert_eq!(world.open(), 0, "a fenced outcome is a proof too");
    world.check();
}

#[test]
fn a_zombie_s_outcome_is_kept_off_a_payment_that_another_worker_is_charging() {
    let (mut world, zombie, id) = one();
    let other = world.hand("w2", 2);
    world.gateway.will(Act::Lose, secs(1));
    world.gateway.will(Act::Charge, secs(18));
    let mut first = true;
    world.memory.inject(move |verb| match verb {
        Verb::Settle if std::mem::take(&mut first) => Fault::Slow(secs(50)),
        _ => Fault::None,
    });
    let batch = world.deliver().into_iter().map(|record| (record, None)).collect();
    let time = world.time.clone();
    let rescue = async {
        time.sleep(secs(40)).await;
        assert_eq!(world.memory.reap(lab::lease().margin, 10).await.unwrap().expired, 1);
        other.step.present_late(NOW, vec![None]).await;
    };
    let look = async {
        time.sleep(secs(52)).await;
        world.status(id)
    };
    let story = async { futures_util::join!(zombie.step.present(batch), rescue, look) };
    let ((), (), while_charging) = world.time.run(story);
    assert_eq!(while_charging, Status::Processing, "the zombie's settle at 51 s changed nothing");
    assert_eq!(world.status(id), Status::Completed);
    let attempts = world.memory.attempts(id);
    assert_eq!(attempts.iter().map(|attempt| attempt.fenced).collect::<Vec<_>>(), [true, false]);
    world.check();
}

#[test]
fn an_early_notice_goes_back_to_the_hold_until_it_is_due() {
    let mut world = World::new();
    let mut hand = world.hand("w1", 1);
    let id = world.add(1, 5_000);
    let again = world.round(&mut hand);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1, world.memory.payment(id).unwrap().due_at);
    assert_eq!((world.status(id), world.open()), (Status::Pending, 1));
    world.time.jump(secs(5));
    world.present(&hand, again.into_iter().map(|(record, _)| record).collect());
    assert_eq!(world.status(id), Status::Completed);
    world.check();
}

#[test]
fn a_cancelled_payment_is_refused_and_its_notice_done_with() {
    let (mut world, mut hand, id) = one();
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Win));
    assert!(world.round(&mut hand).is_empty());
    assert!(world.gateway.ledger().is_empty());
    assert_eq!((world.status(id), world.open()), (Status::Cancelled, 0));
    world.check();
}
