//! Workers frozen at ten places between claim and offset, and what their return is worth.

use crate::figures::{Figures, Holds};
use crate::support::zombies::{Declines, Haunted, Haunting, PLACES, haunt};
use futures_util::StreamExt;

/// Installations side by side.
const SIDE_BY_SIDE: usize = 5;

/// What the rules say of one.
struct Expected {
    end: &'static str,
    requests: usize,
    charges: usize,
    /// It comes to the gateway after it woke.
    is_seen: bool,
    write: Write,
}

/// What becomes of the zombie's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    /// R2: kept as evidence, never as the status.
    Fenced,
    /// It was in a transaction that the server ended; nothing of it is there.
    Gone,
    /// It had been written before the worker froze.
    WrittenBefore,
}

/// What one request that succeeds comes to, wherever its worker freezes.
fn of_a_charge(place: &str) -> Expected {
    let (requests, is_seen, write) = match place {
        // The gate asks for the lease again right before the write (R14).
        "after_claim" | "before_prepare" | "before_gate" => (1, false, Write::Fenced),
        // No check can see a freeze between check and write: the key collapses it (R4).
        "gate_passed" => (2, true, Write::Fenced),
        // The other worker looks up what the first one sent (R7).
        "after_send" | "after_answer" | "before_settle" => (1, false, Write::Fenced),
        "mid_settle" => (1, false, Write::Gone),
        _ => (1, false, Write::WrittenBefore),
    };
    Expected { end: "completed", requests, charges: 1, is_seen, write }
}

/// What a zombie that passed the gate comes to where the other worker was declined meanwhile.
fn of_a_decline(payee: &str, declines: Declines) -> Expected {
    let (end, requests, charges) = match (declines, payee) {
        // The decline answers for every send (R4): the next epoch pays, the zombie is told the decline.
        (Declines::Replayed, SOFT) => ("completed", 3, 1),
        // Nothing is proven while its send is open (R4, R8): held for a human, and the zombie pays.
        (Declines::Forgotten, SOFT) => ("parked unproven_decline", 2, 1),
        (Declines::Replayed, _) => ("failed declined_hard", 2, 0),
        (Declines::Forgotten, _) => ("parked unproven_decline", 2, 0),
    };
    Expected { end, requests, charges, is_seen: true, write: Write::Fenced }
}

const SOFT: &str = "sim_decline_insufficient_funds|sim_ok";
const HARD: &str = "sim_decline_stolen_card";

/// Ten places, two kinds of gateway; and at the gate, what a decline meanwhile makes of it.
pub async fn what_wakes_too_late_pays_nothing_again(figures: &mut Figures) {
    figures.part("Zombies: frozen for three leases at an exact place, while another worker finishes");
    let kinds = [Declines::Replayed, Declines::Forgotten];
    let mut all: Vec<(Haunting, Expected)> = Vec::new();
    for declines in kinds {
        for place in PLACES {
            let payee = if place == "after_send" { "sim_slow_1500" } else { "sim_ok" };
            all.push((Haunting { place, declines, payee, leases: 3 }, of_a_charge(place)));
        }
        for payee in [SOFT, HARD] {
            all.push((
                Haunting { place: "gate_passed", declines, payee, leases: 3 },
                of_a_decline(payee, declines),
            ));
        }
    }
    let runs = all.into_iter().map(|(haunting, expected)| async move {
        let haunted = haunt(haunting).await;
        (haunting, expected, haunted)
    });
    let all: Vec<_> = futures_util::stream::iter(runs).buffered(SIDE_BY_SIDE).collect().await;
    let (mut seen, mut fenced) = (0, 0);
    for (haunting, expected, haunted) in &all {
        seen += haunted.zombie_requests;
        fenced += usize::from(haunted.fenced);
        one(figures, haunting, expected, haunted);
    }
    figures.met("requests of zombies that the gateway saw", seen);
    figures.met("answers of zombies that were fenced", fenced);
    let charges: usize = all.iter().map(|(_, _, haunted)| haunted.charges.saturating_sub(1)).sum();
    figures.holds("second charges", charges, "0", Holds(charges == 0));
}

fn one(figures: &mut Figures, haunting: &Haunting, expected: &Expected, haunted: &Haunted) {
    let name = format!("{} {:?} {}", haunting.place, haunting.declines, haunting.payee);
    let write = match (haunted.fenced, haunted.written) {
        (true, _) => Write::Fenced,
        (false, true) => Write::WrittenBefore,
        (false, false) => Write::Gone,
    };
    let shown = format!(
        "{} {}/{}, seen {}, {write:?}, others' claims {}, exit {}",
        haunted.end,
        haunted.requests,
        haunted.charges,
        haunted.zombie_requests,
        haunted.claims_of_the_other,
        haunted.exit_code
    );
    let bound = format!(
        "{} {}/{}, seen {}, {:?}",
        expected.end,
        expected.requests,
        expected.charges,
        usize::from(expected.is_seen),
        expected.write
    );
    let finished_by_another = (haunted.claims_of_the_other > 0) == (expected.write != Write::WrittenBefore);
    let holds = haunted.end == expected.end
        && (haunted.requests, haunted.charges) == (expected.requests, expected.charges)
        && haunted.zombie_requests == usize::from(expected.is_seen)
        && write == expected.write
        && finished_by_another
        && haunted.exit_code != 0
        && haunted.audited.holds();
    figures.holds(&name, shown, &bound, Holds(holds));
    haunted.audited.broken.iter().for_each(|broken| println!("      {broken}"));
}
