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
async fn at_a_gateway_that_forgets_declines_none_is_believed_while_another_send_is_open() {
    let chosen = [
        ("sim_lookup_404_charged", FirstTry),
        ("sim_pending_2_fail", FirstTry),
        ("sim_wrong_amount", FirstTry),
        ("sim_ok", ReAsk),
        ("sim_429_1", ReAsk),
        ("sim_decline_insufficient_funds", ReAsk),
        ("sim_decline_stolen_card", ReAsk),
    ];
    hold(Personality::ForgetsAndTells, KeyLife::Day, &chosen).await;
}

#[tokio::test]
async fn past_the_life_of_its_key_a_payment_is_looked_up_and_otherwise_held_for_a_human() {
    let chosen = [
        ("sim_ok", KeyExpired),
        ("sim_timeout_not_charged", KeyExpired),
        ("sim_500_sticky", KeyExpired),
        ("sim_decline_stolen_card", KeyExpired),
    ];
    let told = hold(Personality::ReplaysAndTells, KeyLife::Seconds, &chosen);
    let silent = hold(Personality::ForgetsSilently, KeyLife::Seconds, &chosen);
    tokio::join!(told, silent);
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

    use crate::support::zombies::{Declines, Haunting, haunt};

    const SOFT: &str = "sim_decline_insufficient_funds|sim_ok";

    #[tokio::test]
    async fn a_zombie_that_the_gateway_sees_is_told_the_stored_decline_and_the_next_epoch_pays_once() {
        let haunting =
            Haunting { place: "gate_passed", declines: Declines::Replayed, payee: SOFT, leases: 2 };
        let haunted = haunt(haunting).await;
        assert_eq!(
            (haunted.end.as_str(), haunted.requests, haunted.charges),
            ("completed", 3, 1),
            "{haunted:?}"
        );
        assert!(haunted.zombie_requests == 1 && haunted.fenced && haunted.audited.holds(), "{haunted:?}");
    }

    #[tokio::test]
    async fn where_declines_are_forgotten_the_zombie_s_is_the_only_charge_because_nobody_opened_an_epoch() {
        let haunting =
            Haunting { place: "gate_passed", declines: Declines::Forgotten, payee: SOFT, leases: 2 };
        let haunted = haunt(haunting).await;
        let wanted = ("parked unproven_decline", 2, 1);
        assert_eq!((haunted.end.as_str(), haunted.requests, haunted.charges), wanted, "{haunted:?}");
        assert!(haunted.zombie_requests == 1 && haunted.fenced && haunted.audited.holds(), "{haunted:?}");
    }

    #[tokio::test]
    async fn a_zombie_before_the_gate_sends_nothing_and_its_write_is_fenced() {
        let haunting =
            Haunting { place: "before_gate", declines: Declines::Forgotten, payee: "sim_ok", leases: 2 };
        let haunted = haunt(haunting).await;
        assert_eq!(
            (haunted.end.as_str(), haunted.requests, haunted.charges),
            ("completed", 1, 1),
            "{haunted:?}"
        );
        assert!(haunted.zombie_requests == 0 && haunted.fenced && haunted.audited.holds(), "{haunted:?}");
        assert_ne!(haunted.exit_code, 0, "it ends as a failure, so that it is started anew");
    }
}
