//! The money protocol on real services, in small: some cells of the matrix of unknown outcomes, zombies
//! whose request comes after another worker has finished, and cancels at the due instant with answers lost
//! on the way. `make evidence-money` runs all of it.

use crate::support::audit::audit;
use crate::support::cancels::{Plan, race, tally};
use crate::support::cells::When::{self, FirstTry, KeyExpired, ReAsk};
use crate::support::cells::{Cell, KeyLife, Personality, cells, live, rest};
use std::time::Duration;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Lets these cells live and holds each against the rules.
async fn hold(of: Personality, life: KeyLife, chosen: &[(&str, When)]) {
    let of_these = |cell: &Cell| chosen.contains(&(cell.behaviour, cell.when));
    let cells: Vec<Cell> = cells(of).into_iter().filter(of_these).collect();
    assert_eq!(cells.len(), chosen.len(), "each of these is a cell of the table");
    let lived = live(of, life, &cells, seconds(75)).await;
    let wrong: Vec<String> = cells
        .iter()
        .zip(&lived.outcomes)
        .filter(|(cell, seen)| !cell.expected.is_met_by(seen))
        .map(|(cell, seen)| format!("{:?} {}: {seen}, not {}", cell.when, cell.behaviour, cell.expected))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    let audited = audit(&lived.site, None);
    assert!(audited.holds(), "{audited:?}");
}

#[tokio::test]
async fn no_answer_is_believed_for_more_than_it_proves_and_past_its_key_s_life_nothing_is_sent() {
    let forgets = [
        ("sim_lookup_404_charged", FirstTry),
        ("sim_pending_2_fail", FirstTry),
        ("sim_wrong_amount", FirstTry),
        ("sim_ok", ReAsk),
        ("sim_429_1", ReAsk),
        ("sim_decline_insufficient_funds", ReAsk),
        ("sim_decline_stolen_card", ReAsk),
    ];
    let expired = [
        ("sim_ok", KeyExpired),
        ("sim_timeout_not_charged", KeyExpired),
        ("sim_500_sticky", KeyExpired),
        ("sim_decline_stolen_card", KeyExpired),
    ];
    tokio::join!(
        hold(Personality::ForgetsAndTells, KeyLife::Day, &forgets),
        hold(Personality::ReplaysAndTells, KeyLife::Seconds, &expired),
        hold(Personality::ForgetsSilently, KeyLife::Seconds, &expired),
    );
}

#[tokio::test]
async fn of_cancels_at_the_due_instant_with_answers_lost_no_granted_one_is_charged() {
    let plan = Plan { seed: 1, races: 240, side_by_side: 60, within: seconds(60) };
    let raced = race(&plan).await;
    let ids: Vec<String> = raced.races.iter().map(|race| race.id.clone()).collect();
    assert_eq!(ids.len(), plan.races, "there was time for all");
    let ends = rest(&raced.site, &ids, |_, end| end.is_at_rest(), seconds(60)).await;
    let tally = tally(&raced.races, &ends);
    assert!(tally.granted > 0 && tally.refused > 0 && tally.unknown > 0, "no race was run: {tally:?}");
    assert_eq!((tally.granted_and_charged, tally.refused_and_not_paid), (0, 0), "{tally:?}");
    assert_eq!(tally.unknown, tally.unknown_cancelled + tally.unknown_paid, "{tally:?}");
    assert_eq!((tally.doubles, tally.other), (0, 0), "{tally:?}");
}

#[cfg(feature = "faults")]
mod zombies {
    //! Only a test binary freezes itself.

    use crate::support::zombies::{Declines, Haunted, Haunting, haunt};

    const SOFT: &str = "sim_decline_insufficient_funds|sim_ok";

    fn came_to(haunted: &Haunted, end: &str, requests: usize, charges: usize, seen: usize) {
        let came_to = (haunted.end.as_str(), haunted.requests, haunted.charges, haunted.zombie_requests);
        assert_eq!(came_to, (end, requests, charges, seen), "{haunted:?}");
        assert!(haunted.fenced && haunted.claims_of_the_other > 0 && haunted.audited.holds(), "{haunted:?}");
        assert_ne!(haunted.exit_code, 0, "it ends as a failure, so that it is started anew");
    }

    #[tokio::test]
    async fn a_worker_that_wakes_too_late_charges_nothing_twice_whether_the_gateway_sees_it_or_not() {
        let of = |place, declines, payee| haunt(Haunting { place, declines, payee, leases: 2 });
        let (told, alone, held_back) = tokio::join!(
            of("gate_passed", Declines::Replayed, SOFT),
            of("gate_passed", Declines::Forgotten, SOFT),
            of("before_gate", Declines::Forgotten, "sim_ok"),
        );
        // The next epoch paid; the zombie, under the first key, is told the stored decline.
        came_to(&told, "completed", 3, 1, 1);
        // Nobody opened an epoch while its send was open: the zombie's is the only charge.
        came_to(&alone, "parked unproven_decline", 2, 1, 1);
        came_to(&held_back, "completed", 1, 1, 0);
    }
}
