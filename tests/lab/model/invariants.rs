//! The promises, read from one state, under the numbers of `domain/invariants.rs`; and the situations
//! that an exploration must have met, or it has shown nothing about them.
//!
//! What only a step can show (a send before the due instant, a fence that did not grow) is asked by
//! the step and remembered in the state's ghost; everything else is read here.

use super::gateway::{Held, Wants};
use super::state::State;
use super::terms::Terms;
use punctual::domain::invariants::Invariant::{
    self, H1, H3, H4, H5, H6, H8, H9, M1, M2, M3, M4, M5, M6, M7, M8, M11,
};
use punctual::domain::state::Status;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is demanded of every state.
pub const CHECKED: [Invariant; 16] = [M1, M2, M3, M4, M5, M6, M7, M8, M11, H1, H3, H4, H5, H6, H8, H9];

/// Does `state` keep the promise?
pub fn holds(invariant: Invariant, state: &State) -> bool {
    let ghost = &state.ghost;
    let by_state = match invariant {
        M1 => ghost.charges <= 1,
        M7 => !(ghost.cancelled && ghost.charges > 0),
        M8 => ghost.charges == 0 || !matches!(state.row.status, Status::Failed | Status::Cancelled),
        H6 => match state.row.status {
            Status::Completed => ghost.charges >= 1,
            Status::Pending | Status::Failed | Status::Cancelled => ghost.charges == 0,
            Status::Processing | Status::Unknown | Status::Parked | Status::Refunded => true,
        },
        _ => true,
    };
    by_state && ghost.holds(invariant)
}

/// What an exploration met, one bit each; the checker shows its states by reference only.
#[derive(Debug, Default)]
pub struct Met(AtomicU32);

/// One situation: where it can be met, and how it shows.
struct Situation {
    name: &'static str,
    allowed: fn(&Terms) -> bool,
    seen: fn(&State) -> bool,
}

const fn situation(name: &'static str, allowed: fn(&Terms) -> bool, seen: fn(&State) -> bool) -> Situation {
    Situation { name, allowed, seen }
}

const SITUATIONS: [Situation; 18] = [
    situation("completed", |_| true, |state| state.row.status == Status::Completed),
    situation("failed", |_| true, |state| state.row.status == Status::Failed),
    situation("parked", |_| true, |state| state.row.status == Status::Parked),
    situation(
        "unknown and charged",
        |_| true,
        |state| state.row.status == Status::Unknown && state.ghost.charges > 0,
    ),
    situation("a new key", |_| true, |state| state.row.epoch > 0),
    situation("two requests under way", |_| true, |state| state.travelling.len() > 1),
    situation(
        "a forgotten key",
        |_| true,
        |state| state.keys.iter().flatten().any(|kept| !kept.is_known(state.now)),
    ),
    situation(
        "a worker whose claim is not current",
        |_| true,
        |state: &State| {
            state.workers.iter().any(|worker| state.holding.is_none_or(|held| held.claim != worker.claim))
        },
    ),
    situation("cancelled", |terms| terms.cancels, |state| state.ghost.cancelled),
    situation("a wish", |terms| terms.cancels && terms.voids, |state| state.row.wish),
    situation("voided", |terms| terms.voids, |state| state.row.status == Status::Cancelled && state.row.wish),
    situation(
        "a charge on its way to a tombstone",
        |terms| terms.voids,
        |state| {
            state.travelling.iter().any(|request| {
                let kept = state.keys[usize::from(request.key)];
                request.wants == Wants::Charge && kept.is_some_and(|kept| kept.held == Held::Voided)
            })
        },
    ),
    situation(
        "charged before its void",
        |terms| terms.voids,
        |state| {
            state.ghost.charges > 0 && state.travelling.iter().any(|request| request.wants == Wants::Void)
        },
    ),
    situation("pending at the gateway", |terms| terms.pends, |state| state.row.pending_at_gateway),
    situation("a release", |terms| terms.redrives > 0, |state| state.redrives > 0 && state.row.redriven),
    situation(
        "a charge after a release",
        |terms| terms.redrives > 0,
        |state| state.redrives > 0 && state.row.status == Status::Completed,
    ),
    situation("quarantine", |terms| terms.failover, |state| state.quarantined),
    situation("an end after faults", |terms| terms.heals, |state| state.healed && state.is_at_end()),
];

impl Met {
    pub fn look_at(&self, state: &State) {
        let before = self.0.load(Ordering::Relaxed);
        let new = SITUATIONS
            .iter()
            .enumerate()
            .filter(|(at, situation)| before & 1 << at == 0 && (situation.seen)(state));
        let bits = new.fold(0, |bits, (at, _)| bits | 1 << at);
        if bits != 0 {
            self.0.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Situations that `terms` allow and that were not met.
    pub fn missing(&self, terms: &Terms) -> Vec<&'static str> {
        let met = self.0.load(Ordering::Relaxed);
        let missing = |(at, situation): (usize, &Situation)| {
            (met & 1 << at == 0 && (situation.allowed)(terms)).then_some(situation.name)
        };
        SITUATIONS.iter().enumerate().filter_map(missing).collect()
    }
}
