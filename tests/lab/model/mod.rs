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
//! Each exploration prints one line: `model holds name=… states=… depth=… seconds=…`, or
//! `model breaks name=… property=… trace=… states=… seconds=…`. `PUNCTUAL_MODEL=large` explores with
//! more workers, claims and hours; `PUNCTUAL_MODEL_TRACE=1` prints the counterexamples.

mod breaks;
mod explore;
mod gateway;
mod holds;
mod protocol;
mod row;
mod state;
mod terms;

use explore::Action;
use protocol::Protocol;
use state::State;
use stateright::{Checker, HasDiscoveries, Model, Path};
use std::collections::BTreeSet;
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

/// Explores everything and demands every property.
#[allow(clippy::disallowed_methods, reason = "measures itself, decides nothing")]
fn holds(terms: Terms) {
    let terms = if is_large() {
        Terms { workers: terms.workers + 1, claims: terms.claims + 1, horizon: terms.horizon + 1, ..terms }
    } else {
        terms
    };
    let started = Instant::now();
    let checker = Protocol::new(terms).checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    for (property, path) in checker.discoveries() {
        assert!(property.starts_with("met: "), "{}: {property} is broken by\n{}", terms.name, told(&path));
    }
    checker.assert_properties();
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

/// Explores until the named property is broken, and demands that it is.
#[allow(clippy::disallowed_methods, reason = "measures itself, decides nothing")]
fn breaks(terms: Terms, property: &'static str) {
    let started = Instant::now();
    let wanted = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let checker = Protocol::new(terms).checker().finish_when(wanted).spawn_bfs().join();
    let states = checker.unique_state_count();
    let discoveries = checker.discoveries();
    let Some(path) = discoveries.get(property) else {
        panic!("{}: {states} states and {property} holds; broken: {:?}", terms.name, discoveries.keys());
    };
    if std::env::var("PUNCTUAL_MODEL_TRACE").is_ok() {
        println!("{} breaks {property}:\n{}", terms.name, told(path));
    }
    println!(
        "model breaks name={} property={property} trace={} states={states} seconds={}",
        terms.name,
        path.clone().into_actions().len(),
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
