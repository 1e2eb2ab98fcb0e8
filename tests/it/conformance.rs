//! The two schedules are one: seeded sequences of every verb on memory and on Postgres, answer by answer
//! and row by row, hashes included.
//!
//! Both live by one logical clock that only the sequence moves: to the microsecond before, at and after
//! the ends of leases, deadlines and waits. So the instants are compared as they are, and nothing here
//! depends on how fast the machine is. What differs is a fault of one side.
//!
//! `PUNCTUAL_CONFORMANCE_SEQUENCES` raises the count; `PUNCTUAL_CONFORMANCE_SEED` plays one again.

mod chance;
mod compare;
mod found;
mod killed;
mod operations;
mod relays;
mod sequence;
mod stores;

use futures_util::FutureExt;
use punctual::platform::faults::{Sabotage, seeded};
use sequence::{Met, Sequence};
use std::panic::AssertUnwindSafe;
use stores::Stores;

/// Of one sequence.
const OPERATIONS: usize = 70;
const SEQUENCES: u64 = 24;
/// Within so many a broken memory must be found.
const SEQUENCES_TO_FIND: u64 = 30;
/// Longer ones: some bugs show only where a payment was claimed again and again.
const OPERATIONS_TO_FIND: usize = 420;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What memory is broken by.
const SEEDED: [Sabotage; 5] = [
    Sabotage::AgeTakenBack,
    Sabotage::NoFence,
    Sabotage::SpentNotice,
    Sabotage::LeaseToPending,
    Sabotage::WishForgotten,
];

/// What must have happened, or the run shows nothing.
const SITUATIONS: [&str; 41] = [
    "created",
    "replayed",
    "key reused",
    "external id taken",
    "claimed",
    "early",
    "stale",
    "held by another",
    "other gateway",
    "ahead of row",
    "no such payment",
    "refused: final",
    "refused: parked",
    "claimed late",
    "completed",
    "failed",
    "parked",
    "pending again",
    "unknown",
    "written earlier",
    "fenced",
    "fenced again",
    "recovered",
    "lease expired",
    "deadline passed",
    "cancelled",
    "wished",
    "wished already",
    "deferred",
    "staged",
    "a crowd",
    "marked",
    "shard lost",
    "shard changed hands",
    "renewal refused",
    "killed: create",
    "declined too often",
    "renewed",
    "not renewed",
    "declines older than a day",
    "switched off",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_postgres_give_equal_answers_to_every_sequence() {
    let mut stores = Stores::new().await;
    let mut met = Met::new();
    let one = setting("PUNCTUAL_CONFORMANCE_SEED");
    let count = setting("PUNCTUAL_CONFORMANCE_SEQUENCES").unwrap_or(SEQUENCES);
    let seeds = one.map_or(1..=count, |seed| seed..=seed);
    let mut sequences = 0;
    let started = std::time::Instant::now();
    for seed in seeds {
        let mut sequence = Sequence::new(&mut stores, &mut met, seed).await;
        if let Err(difference) = sequence.run(OPERATIONS).await {
            let told = sequence.told.join("\n");
            panic!("{told}\nPUNCTUAL_CONFORMANCE_SEED={seed} plays it again. {difference}");
        }
        sequences += 1;
        if one.is_none() && count > SEQUENCES && sequences % 50 == 0 {
            println!("conformance sequences={sequences} so far");
        }
    }
    let kills: u64 = met.iter().filter(|(what, _)| what.starts_with("killed: ")).map(|(_, n)| n).sum();
    let operations = sequences * OPERATIONS;
    println!("conformance sequences={sequences} operations={operations} kills={kills} differences=0");
    println!("in {:?}, met: {met:?}", started.elapsed());
    if one.is_none() {
        let kinds = ["killed: answer cut", "killed: before COMMIT", "killed: while waiting"];
        for situation in SITUATIONS.into_iter().chain(kinds) {
            assert!(met.contains_key(situation), "{situation} never happened: the run shows nothing of it");
        }
    }
}

/// On one thread, so that the bug is in memory alone: Postgres has its rules in SQL.
#[tokio::test]
async fn seeded_bug_a_memory_that_breaks_a_rule_differs_from_postgres() {
    let mut stores = Stores::new().await;
    for bug in SEEDED {
        let mut found = None;
        for seed in 1..=SEQUENCES_TO_FIND {
            let _seeded = seeded(Some(bug));
            let mut met = Met::new();
            let mut sequence = Sequence::new(&mut stores, &mut met, seed).await;
            // Memory's own checks may notice first.
            let ended = AssertUnwindSafe(sequence.run(OPERATIONS_TO_FIND)).catch_unwind().await;
            if !matches!(ended, Ok(Ok(()))) {
                let what = ended.map_or_else(|_| "a check of memory".to_owned(), |ended| ended.unwrap_err());
                found = Some((seed, what.lines().next().unwrap_or_default().chars().take(90).collect()));
                break;
            }
        }
        let (seed, what): (u64, String) = found
            .unwrap_or_else(|| panic!("{} gives the same answers: the suite compares nothing", bug.name()));
        assert!(!what.contains("Defect("), "{}: a wrong question is no difference: {what}", bug.name());
        println!("seeded bug name={} caught=difference seed={seed} worlds={seed}: {what}", bug.name());
    }
}
