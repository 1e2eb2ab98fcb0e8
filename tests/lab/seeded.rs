//! The simulation has teeth: each bug that is seeded in the product's own code breaks a promise, by its
//! number, in one of a bounded number of worlds; and the very same world without the bug breaks none.
//!
//! Each bug prints one line, `seeded bug name=… caught=… seed=… worlds=… seconds=…: what`. Those that
//! need a real database or a real client are found in `tests/it`, with lines of the same form.

use punctual::platform::faults::Sabotage;

/// Whether the binary carries seeded bugs, exactly if it was built for them.
#[test]
fn the_binary_that_is_released_carries_no_seeded_bug() {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_punctual")).expect("the binary can be read");
    let marker = b"PUNCTUAL_SEEDED_BUG";
    let carries = binary.windows(marker.len()).any(|window| window == marker);
    assert_eq!(carries, cfg!(feature = "faults"));
    assert!(Sabotage::ALL.len() > 1);
}

#[cfg(feature = "faults")]
mod worlds {
    use super::Sabotage;
    use punctual::domain::invariants::Invariant::{self, H4, H5, H6, K1, K6, M1, M3, M5, M7, M8, M11};
    use punctual::simulation::finds;
    use std::time::Instant;

    /// Payments of one world.
    const EACH: usize = 60;
    /// Worlds that are looked at for one bug.
    const WORLDS: u64 = 60;

    /// What the simulation finds, and the promises of which one must break.
    const CAUGHT: [(Sabotage, &[Invariant]); 18] = [
        (Sabotage::NoFence, &[H4, M8]),
        (Sabotage::OffsetAtPoll, &[K1]),
        (Sabotage::CancelFromUnknown, &[M7, M8]),
        (Sabotage::LeaseToPending, &[M1, M7, M8, H6]),
        (Sabotage::KeyPerAttempt, &[M1, M5]),
        (Sabotage::EpochAfterUnknown, &[M1, M5]),
        (Sabotage::UnknownIsFailed, &[M8]),
        (Sabotage::DueByWorkerClock, &[M3]),
        (Sabotage::MarkBeforeAck, &[K6]),
        (Sabotage::ReaperWithoutCas, &[H5]),
        (Sabotage::KeyAgeAtClaimOnly, &[M5]),
        (Sabotage::NotFoundIsProof, &[M1, M5, M7, M8]),
        (Sabotage::RenewalWithoutFence, &[H4]),
        (Sabotage::FalseVoid, &[M7, M8]),
        (Sabotage::VoidPastKey, &[M7, M8]),
        (Sabotage::ChargeAfterWish, &[M11]),
        (Sabotage::FalseReplay, &[M1, M8, H6]),
        (Sabotage::AgelessKey, &[M1, M5]),
    ];
    /// Found by `tests/it`, which has what it takes: transactions in flight, a client on a real network, and
    /// Postgres to compare with.
    const ELSEWHERE: [Sabotage; 5] = [
        Sabotage::CursorWithoutSnapshot,
        Sabotage::HiddenRetry,
        Sabotage::AgeTakenBack,
        Sabotage::SpentNotice,
        Sabotage::WishForgotten,
    ];

    #[allow(clippy::disallowed_methods, reason = "measures itself, decides nothing")]
    fn catch(bug: Sabotage, by: &[Invariant]) -> Result<(), String> {
        let began = Instant::now();
        let caught = (0..WORLDS).find_map(|seed| {
            let found = finds(seed, EACH, bug, Some(bug));
            found.into_iter().find(|violation| by.contains(&violation.invariant)).map(|it| (seed, it))
        });
        let Some((seed, violation)) = caught else {
            return Err(format!("{}: none of {by:?} broke in {WORLDS} worlds", bug.name()));
        };
        println!(
            "seeded bug name={} caught={} seed={seed} worlds={} seconds={:.2}: {}",
            bug.name(),
            violation.invariant.id(),
            seed + 1,
            began.elapsed().as_secs_f32(),
            violation.what,
        );
        let sound = finds(seed, EACH, bug, None);
        if sound.is_empty() { Ok(()) } else { Err(format!("{}: without it too: {sound:?}", bug.name())) }
    }

    #[test]
    fn every_bug_seeded_in_the_product_is_caught_by_name() {
        let missed: Vec<String> = CAUGHT.iter().filter_map(|(bug, by)| catch(*bug, by).err()).collect();
        assert!(missed.is_empty(), "{missed:#?}");
    }

    #[test]
    fn every_bug_of_the_table_is_looked_for_somewhere() {
        let mut looked_for: Vec<_> = CAUGHT.iter().map(|(bug, _)| *bug).chain(ELSEWHERE).collect();
        looked_for.sort_unstable();
        assert_eq!(looked_for, Sabotage::ALL);
    }
}
