//! Worlds of the simulation, a bounded number of them on every run: each twice with equal traces, no
//! promise broken, and every situation of the table met by somebody.
//!
//! `SIMULATE_SEED=N cargo test --test lab simulation` runs one seed alone.

use punctual::simulation::{Arrivals, Excess, Lateness, Met, Question, Seeds, capacity, sweep};
use std::time::Duration;

/// Payments of one world here.
const EACH: usize = 60;
/// Worlds of every run.
const WORLDS: u64 = 40;

fn seeds() -> Seeds {
    let one = std::env::var("SIMULATE_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let payments = if one.is_some() { 1 } else { WORLDS * EACH as u64 };
    Seeds { first: one.unwrap_or(0), payments, each: EACH, twice: true, threads: 1 }
}

#[test]
fn no_world_breaks_a_promise_and_every_situation_is_met() {
    let seeds = seeds();
    let sum = sweep(&seeds, |_| {});
    for (what, count) in Met::ALL.iter().zip(&sum.met) {
        println!("{count:>8} {}", what.text());
    }
    println!("{} payments, {} events in {:?} of their time", sum.payments, sum.events, sum.lasted);
    let stories: Vec<_> = sum.failures.iter().map(|failure| failure.story.as_str()).collect();
    assert!(stories.is_empty(), "{} violations\n{}", sum.violations, stories.join("\n"));
    if seeds.payments > 1 {
        assert!(sum.payments >= WORLDS * EACH as u64 * 9 / 10, "{} payments", sum.payments);
        assert_eq!(sum.never_met(), Vec::new(), "UNKNOWN: about these the run says nothing");
    }
}

fn question() -> Question {
    Question {
        payments: 2_000,
        arrivals: Arrivals::Burst,
        gateway_rate: None,
        excess: Excess::Waits,
        latency: [Duration::from_millis(100); 4],
        pace: 0,
        workers: 2,
        max_in_flight: 64,
        lease: Duration::from_secs(30),
        network: Duration::from_micros(100),
        seed: 0,
    }
}

fn answered(question: &Question) -> Lateness {
    let answer = capacity(question, |_| {});
    println!("{answer:?}");
    assert_eq!((answer.charged, answer.left), (question.payments, 0));
    assert!(answer.p50 <= answer.p99 && answer.p99 <= answer.max && answer.max <= answer.drained_after);
    answer
}

/// Within so many per cent.
fn is_about(found: Duration, expected: Duration, per_cent: u32) -> bool {
    found.abs_diff(expected) * 100 <= expected * per_cent
}

#[test]
fn a_crowd_drains_at_the_rate_that_the_gateway_takes() {
    let answer = answered(&Question { gateway_rate: Some(200), ..question() });
    let closed_form = Duration::from_secs(10);
    assert!(is_about(answer.drained_after, closed_form, 4), "{:?}", answer.drained_after);
    assert!(is_about(answer.p50, closed_form / 2, 4), "{:?}", answer.p50);
}

#[test]
fn workers_that_hold_the_agreed_rate_are_never_refused_and_leave_none_of_it() {
    for workers in [1, 4] {
        let paced =
            Question { gateway_rate: Some(200), excess: Excess::Refused, pace: 200, workers, ..question() };
        let answer = answered(&paced);
        assert_eq!(answer.refused, 0, "{workers} workers");
        assert!(is_about(answer.drained_after, Duration::from_secs(10), 5), "{:?}", answer.drained_after);
    }
}

#[test]
fn without_a_rate_a_crowd_drains_at_slots_by_latency() {
    let few = answered(&Question { max_in_flight: 10, ..question() });
    // 100 rounds of 20 calls; the last round's requests arrive before their answers' 100 ms.
    assert!(is_about(few.drained_after, Duration::from_millis(9_900), 6), "{:?}", few.drained_after);
    let many = answered(&Question { max_in_flight: 40, ..question() });
    assert!(is_about(many.drained_after, Duration::from_millis(2_400), 12), "{:?}", many.drained_after);
}

#[test]
fn what_comes_slower_than_the_gateway_takes_is_hardly_late() {
    let calm =
        answered(&Question { arrivals: Arrivals::PerSecond(100), gateway_rate: Some(200), ..question() });
    assert!(calm.p99 <= Duration::from_millis(50), "{:?}", calm.p99);
    assert!(calm.most_waiting <= 60, "{}", calm.most_waiting);
}

#[test]
fn a_capacity_question_has_one_answer() {
    let question = Question {
        payments: 300,
        latency: [20, 60, 400, 900].map(Duration::from_millis),
        network: Duration::from_millis(5),
        max_in_flight: 8,
        seed: 3,
        ..question()
    };
    assert_eq!(answered(&question), answered(&question));
    assert_ne!(answered(&question), answered(&Question { seed: 4, ..question.clone() }));
}
