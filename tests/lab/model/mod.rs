//! The protocol of one payment, explored exhaustively within bounds: every order of steps, every
//! pause, crash, loss and delay, against a gateway that keeps only the promises of its profile.
//!
//! **Promise**: for every personality of a gateway the invariants of `domain/invariants.rs` hold in
//! every state that can be reached, and once faults end, every payment comes to its end (L1). Each
//! rule left out breaks the invariant named beside it, by a shortest counterexample.
//!
//! The rules are not written again here: guards, effects, plans and decisions are the product's own
//! functions (`protocol` says what is restated and why, `row` what a state stands for), so a change
//! of the product is a change of the model.
//!
//! **Left out**, and held elsewhere or by nobody: resolve, refund and reconciliation (people act on
//! PARKED with evidence), a second payment, a host whose clock differs from the database's, another
//! gateway account, the limits of R12 on sends that were not taken, and packets that travel longer
//! than the key's margin (which no check can see).
//!
//! Each exploration prints one line: `model holds name=… states=… depth=… seconds=…`, or
//! `model breaks name=… property=… trace=… states=… seconds=…`. `PUNCTUAL_MODEL=large` explores with
//! more workers, claims and hours; `PUNCTUAL_MODEL_TRACE=1` prints the counterexamples.

mod breaks;
mod explore;
mod gateway;
mod holds;
mod invariants;
mod people;
mod protocol;
mod row;
mod state;
mod terms;

use explore::Action;
use invariants::CHECKED;
use protocol::Protocol;
use punctual::domain::invariants::Invariant;
use state::State;
use stateright::{Checker, Model, Path};
use std::time::Instant;
use terms::Terms;

/// More of everything, for a run that has minutes.
fn is_large() -> bool {
    std::env::var("PUNCTUAL_MODEL").is_ok_and(|size| size == "large")
}

fn seconds(since: Instant) -> String {
    let taken = since.elapsed().as_millis();
    format!("{}.{:02}", taken / 1_000, taken % 1_000 / 10)
}

/// Explores everything and demands every promise, and that there was something to promise.
#[allow(clippy::disallowed_methods, reason = "measures itself, decides nothing")]
fn holds(terms: Terms) {
    let terms = if is_large() {
        Terms { workers: terms.workers + 1, claims: terms.claims + 1, horizon: terms.horizon + 1, ..terms }
    } else {
        terms
    };
    let started = Instant::now();
    let checker = Protocol::new(terms, None).checker().spawn_bfs().join();
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let last = path.last_state();
        let broken = CHECKED.iter().filter(|invariant| !invariants::holds(**invariant, last));
        let broken: Vec<_> = broken.map(|invariant| invariant.id()).collect();
        panic!("{}: not \"{property}\": {broken:?}\n{}", terms.name, told(&path));
    }
    let missing = checker.model().met.missing(&terms);
    assert!(missing.is_empty(), "{}: never met {missing:?}", terms.name);
    println!(
        "model holds name={} workers={} claims={} states={} transitions={} depth={} seconds={}",
        terms.name,
        terms.workers,
        terms.claims,
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        seconds(started),
    );
}

/// Explores until the named invariant is broken, and demands that it is.
#[allow(clippy::disallowed_methods, reason = "measures itself, decides nothing")]
fn breaks(terms: Terms, wanted: Invariant) {
    let (name, id) = (terms.name, wanted.id());
    let started = Instant::now();
    let checker = Protocol::new(terms, Some(wanted)).checker().spawn_bfs().join();
    let states = checker.unique_state_count();
    let Some((_, path)) = checker.discoveries().into_iter().next() else {
        panic!("{name}: {id} holds in all of {states} states");
    };
    if std::env::var("PUNCTUAL_MODEL_TRACE").is_ok() {
        println!("{name} breaks {id}:\n{}", told(&path));
    }
    println!(
        "model breaks name={name} property={id} trace={} states={states} seconds={}",
        path.into_actions().len(),
        seconds(started),
    );
}

/// One line a step: what happened, and the row after it.
fn told(path: &Path<State, Action>) -> String {
    let steps = path.clone().into_vec();
    let mut lines = Vec::new();
    for window in steps.windows(2) {
        let [(_, Some(action)), (after, _)] = window else { continue };
        let row = &after.row;
        lines.push(format!(
            "  {:>2}h {action:?} → {:?} fence {} epoch {} unanswered {} charges {} under way {}",
            after.now,
            row.status,
            row.fence,
            row.epoch,
            row.unanswered,
            after.ghost.charges,
            after.travelling.len(),
        ));
    }
    lines.join("\n")
}
