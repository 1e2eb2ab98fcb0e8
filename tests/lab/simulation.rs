//! Worlds of the simulation, a bounded number of them on every run: each twice with equal traces, no
//! promise broken, and every situation of the table met by somebody.
//!
//! `SIMULATE_SEED=N cargo test --test lab simulation` runs one seed alone.

use punctual::simulation::{Broken, Met, Seeds, finds, sweep};

/// Payments of one world here.
const EACH: usize = 40;
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

/// The test above can fail: with any one of these rules left out it does.
#[test]
fn a_world_with_a_rule_left_out_is_found_out() {
    for (broken, by) in [
        (Broken::LeaseToPending, &["M1", "M7", "M8", "H6"][..]),
        (Broken::FalseReplay, &["M1", "M8", "H6"]),
        (Broken::AgelessKey, &["M1", "M5"]),
        (Broken::CancelFromUnknown, &["M7", "M8"]),
        (Broken::CommitAtPoll, &["K1"]),
        (Broken::KeyPerAttempt, &["M1", "M5"]),
    ] {
        let found = (0..60).find_map(|seed| {
            let found = finds(seed, EACH, broken);
            let said = found.iter().find(|violation| by.contains(&violation.invariant.id()));
            said.map(|violation| format!("seed {seed}: {}: {}", violation.invariant.id(), violation.what))
        });
        println!("{broken:?}: {found:?}");
        assert!(found.is_some(), "{broken:?} was not found in any of the worlds");
    }
}
