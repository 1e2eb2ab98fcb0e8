//! One payment against an adversary: the real guards, effects, plans and decisions, over a gateway
//! that keeps only the promises its profile makes.
//!
//! The adversary chooses every step: workers freeze and wake after their lease, requests travel for
//! up to 50 minutes, answers are lost, look-ups lag, clients wish to cancel, deadlines pass, days go
//! by. The gateway charges once per living key and forgets keys after a day; whether it remembers
//! declines is its profile. What must hold is said in the words of the invariants: M1 (one charge),
//! M8 (no charge after FAILED or CANCELLED, not even by a request still under way), H6.
//!
//! Requests travel less than the key's margin (an hour): a freeze between check and write that
//! outlives the key is the one hole that no check can close.

use super::world::{Broken, Heard, Reply, Step, World};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use punctual::domain::declines::DeclineCaps;
use punctual::domain::facts::{Declines, Facts, LookupSupport, VoidSupport};
use punctual::domain::state::Status;
use punctual::domain::verdict::DeclineClass;
use std::cell::Cell;
use std::time::Duration;

/// Reads a step from 32 bits: far cheaper to make than a tree of strategies, so that thousands of
/// runs take seconds, and proptest still shrinks both the bits and their number.
fn step(bits: u32) -> Step {
    const REPLIES: [Reply; 10] = [
        Reply::Charge,
        Reply::Charge,
        Reply::Charge,
        Reply::Decline(DeclineClass::Soft),
        Reply::Decline(DeclineClass::Soft),
        Reply::Decline(DeclineClass::Soft),
        Reply::Decline(DeclineClass::Hard),
        Reply::Decline(DeclineClass::Ambiguous),
        Reply::RateLimited,
        Reply::ChargeAndFail,
    ];
    let [kind, which, choice, amount] = bits.to_le_bytes();
    let which = usize::from(which % 4);
    let amount = u32::from(amount);
    match kind % 30 {
        0..=1 => Step::Wait(match choice % 7 {
            0..=3 => amount % 40,
            4..=5 => 40 + amount * 12,
            _ => 3_000 + amount * 341,
        }),
        2..=3 => Step::WaitUntilClaimable,
        4..=8 => Step::Claim,
        9..=13 => Step::Act(which),
        14..=18 => Step::Arrive(which, REPLIES[usize::from(choice) % REPLIES.len()]),
        19..=24 => Step::Hear(which, if choice % 3 < 2 { Heard::Answer } else { Heard::Nothing }),
        25..=27 => Step::Reap,
        28 => Step::Deadline,
        _ => Step::Cancel,
    }
}

fn steps() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(any::<u32>(), 1..120)
}

prop_compose! {
    fn profiles()(replays in any::<bool>(), lookup in any::<bool>()) -> Facts {
        Facts {
            account: "sandbox-1".into(),
            renderer: 1,
            key_ttl: Duration::from_secs(86_400),
            key_margin: Duration::from_secs(3_600),
            declines: if replays { Declines::Replayed } else { Declines::Forgotten },
            lookup: if lookup { LookupSupport::ByKey } else { LookupSupport::None },
            voids: VoidSupport::None,
            async_final_within: None,
            caps: DeclineCaps::default(),
        }
    }
}

/// Interesting situations that a run met; a suite that never met one has shown nothing about it.
#[derive(Default)]
struct Met {
    completed: Cell<u32>,
    failed: Cell<u32>,
    cancelled: Cell<u32>,
    parked: Cell<u32>,
    unknown: Cell<u32>,
    new_key: Cell<u32>,
    two_under_way: Cell<u32>,
}

fn count(cell: &Cell<u32>, happened: bool) {
    cell.set(cell.get() + u32::from(happened));
}

type Runs = (Facts, Vec<u32>, Option<i64>, i16);

/// Runs the adversary until it finds something, at most `cases` times.
fn adversary(
    cases: u32,
    broken: Broken,
    watch: impl Fn(&World, bool, bool),
) -> Result<(), Box<TestError<Runs>>> {
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let mut runner = if broken == Broken::Nothing {
        TestRunner::new(config)
    } else {
        // What is to be found is found the same way each time, and nobody reads the shortest run.
        let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        TestRunner::new_with_rng(ProptestConfig { max_shrink_iters: 0, ..config }, seed)
    };
    let runs = (profiles(), steps(), proptest::option::of(0..600_i64), 1..7_i16);
    let found = runner.run(&runs, |(facts, steps, deadline, max_sends)| {
        let mut world = World::new(facts, deadline, max_sends, broken);
        let (mut unknown, mut two) = (false, false);
        for bits in &steps {
            world.step(&step(*bits))?;
            unknown |= world.row.status == Status::Unknown;
            two |= world.travelling.len() > 1;
        }
        watch(&world, unknown, two);
        Ok(())
    });
    found.map_err(Box::new)
}

#[test]
fn whatever_the_adversary_does_a_payment_is_charged_at_most_once() {
    let met = Met::default();
    let outcome = adversary(4_000, Broken::Nothing, |world, unknown, two| {
        count(&met.completed, world.row.status == Status::Completed);
        count(&met.failed, world.row.status == Status::Failed);
        count(&met.cancelled, world.row.status == Status::Cancelled);
        count(&met.parked, world.row.status == Status::Parked);
        count(&met.unknown, unknown);
        count(&met.new_key, world.row.epoch.0 > 0);
        count(&met.two_under_way, two);
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    for (name, cell) in [
        ("completed", &met.completed),
        ("failed", &met.failed),
        ("cancelled", &met.cancelled),
        ("parked", &met.parked),
        ("unknown", &met.unknown),
        ("a new key", &met.new_key),
        ("two requests under way", &met.two_under_way),
    ] {
        println!("{name}: {}", cell.get());
        assert!(cell.get() > 20, "the adversary met {name} only {} times", cell.get());
    }
}

/// The test above can fail: without any one of these rules it does, by the invariant named.
#[test]
fn the_adversary_finds_every_rule_that_is_left_out() {
    for broken in [
        Broken::LeaseToPending,
        Broken::CancelFromUnknown,
        Broken::KeyPerAttempt,
        Broken::AgelessKey,
        Broken::FalseReplay,
        Broken::NoFence,
        Broken::OpenSendsForgotten,
        Broken::NotFoundIsClean,
    ] {
        match adversary(60_000, broken, |_, _, _| {}).map_err(|found| *found) {
            Err(TestError::Fail(why, _)) => {
                println!("{broken:?}: {why}");
                let why = why.to_string();
                assert!(why.contains("M1") || why.contains("M8") || why.contains("H6"), "{broken:?}: {why}");
            }
            Err(TestError::Abort(why)) => panic!("{broken:?}: {why}"),
            Ok(()) => panic!("{broken:?} was not found"),
        }
    }
}
