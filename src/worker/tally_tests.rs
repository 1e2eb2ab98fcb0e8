//! What a step counts: each outcome once, when it is durable, under the labels of what it was.

use super::lab::{Act, World};
use super::step_tests::{NOW, secs};
use super::tally::contradiction;
use crate::domain::guard_cases::payment;
use crate::domain::ids::PaymentId;
use crate::domain::invariants::Invariant;
use crate::domain::money::{Minor, Money};
use crate::domain::notice::Notice;
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use crate::domain::verdict::{DeclineClass, NotSent, Verdict};
use crate::platform::metrics;

/// What `/metrics` would say after `work`; gauges and counters only.
fn told(work: impl FnOnce()) -> Vec<String> {
    let recorder = metrics::recorder().unwrap();
    let exposition = metrics::Exposition::of(&recorder);
    ::metrics::with_local_recorder(&recorder, work);
    exposition.render().lines().map(str::to_owned).collect()
}

fn holds(told: &[String], wanted: &[&str]) {
    for line in wanted {
        assert!(told.iter().any(|found| found == line), "{line} is not in\n{}", told.join("\n"));
    }
}

#[test]
fn outcomes_are_counted_by_verdict_ladder_and_reason() {
    let told = told(|| {
        let mut world = World::new();
        let mut hand = world.hand("w1", 1);
        for number in 1..=6 {
            world.add(number, 0);
        }
        world.gateway.will(Act::Charge, NOW);
        world.gateway.will(Act::Decline(DeclineClass::Unmapped), NOW);
        world.gateway.will(Act::Decline(DeclineClass::Soft), NOW);
        world.gateway.will(Act::ChargeSilently, secs(20));
        world.gateway.will(Act::NotSent(NotSent::Refused), NOW);
        world.gateway.will(Act::Nonsense, NOW);
        world.round(&mut hand);
        world.check();
    });
    holds(
        &told,
        &[
            "punctual_attempts_total{gateway=\"sandbox\",verdict=\"charged\"} 1",
            "punctual_attempts_total{gateway=\"sandbox\",verdict=\"declined\"} 2",
            "punctual_attempts_total{gateway=\"sandbox\",verdict=\"unknown\"} 1",
            "punctual_attempts_total{gateway=\"sandbox\",verdict=\"not_sent\"} 1",
            "punctual_declines_unmapped_total{gateway=\"sandbox\"} 1",
            "punctual_retry_scheduled_total{ladder=\"retry\",step=\"1\"} 1",
            "punctual_retry_scheduled_total{ladder=\"reask\",step=\"1\"} 1",
            "punctual_retry_scheduled_total{ladder=\"held_back\",step=\"1\"} 1",
            "punctual_parked_total{reason=\"contract_violation\"} 1",
            "punctual_payment_lateness_seconds_count 6",
            "punctual_payment_transitions_total{to=\"PROCESSING\",cause=\"claimed\"} 6",
        ],
    );
    assert!(!told.iter().any(|line| line.starts_with("punctual_payment_early_total ")), "none was early");
}

#[test]
fn a_second_claim_is_no_lateness_and_the_rungs_go_up() {
    let told = told(|| {
        let mut world = World::new();
        let mut hand = world.hand("w1", 1);
        let id = world.add(1, 0);
        for _ in 0..2 {
            world.gateway.will(Act::Decline(DeclineClass::Soft), NOW);
            world.until_next_attempt(id);
            world.round(&mut hand);
        }
    });
    holds(
        &told,
        &[
            "punctual_payment_lateness_seconds_count 1",
            "punctual_retry_scheduled_total{ladder=\"retry\",step=\"1\"} 1",
            "punctual_retry_scheduled_total{ladder=\"retry\",step=\"2\"} 1",
        ],
    );
}

#[test]
fn a_notice_that_knows_more_than_the_database_is_a_broken_promise_by_its_number() {
    let told = told(|| {
        let mut world = World::new();
        let hand = world.hand("w1", 1);
        let id = world.add(1, 0);
        let good = world.memory.notices().pop().unwrap();
        let unknown = PaymentId::new(world.now(), [99; 10]).unwrap();
        let unknown = Notice { payment: unknown, ..good.clone() };
        let ahead = Notice { attempt: 7, ..good.clone() };
        let records = [unknown, ahead, good].map(|notice| world.record(notice));
        world.present(&hand, records.into());
        assert_eq!(world.gateway.charges(id), 1);
    });
    holds(
        &told,
        &[
            "punctual_invariant_violations_total{invariant=\"K3\"} 1",
            "punctual_invariant_violations_total{invariant=\"H3\"} 1",
        ],
    );
    let others = told.iter().filter(|line| line.starts_with("punctual_invariant_violations_total{"));
    assert_eq!(others.count(), 2, "the good one broke none");
}

#[test]
fn a_charge_of_another_amount_and_a_second_one_are_broken_promises() {
    let asked =
        Payment { gateway_ref: Some("ch_1".into()), ..payment(World::new().now(), 1, Status::Processing) };
    let charged = |reference: &str, more: i64| {
        let minor = Minor::new(asked.amount.minor.get() + more).unwrap();
        let amount = Money { minor, currency: asked.amount.currency };
        let verdict = Verdict::Charged { reference: reference.into(), amount };
        contradiction(&asked, &verdict).map(|(broken, _)| broken)
    };
    assert_eq!(charged("ch_1", 0), None);
    assert_eq!(charged("ch_1", 1), Some(Invariant::M4));
    assert_eq!(charged("ch_2", 0), Some(Invariant::M1));
}
