//! Stage 7, the judgement: before the call, what may be asked of the gateway ([`plan()`]); after it,
//! what the answer does to the payment ([`decide()`]).
//!
//! **Promise**: pure and exhaustive. Every verdict meets every context in a `match` without
//! wildcard, so a new verdict or state does not compile until it has been thought about; the same
//! functions run in the worker, the simulation and the model.
//!
//! **It relies on** the claim's view of the row: [`View::payment`] is the row *after* the claim, so
//! `unanswered` includes this claim's own possible send. Others may lower the count meanwhile (late
//! answers that were fenced), never raise it, so what is proven here stays proven when it is written.
//!
//! **If this dies here** nothing has happened: no answer of these functions is durable until the
//! schedule has settled it, and the lease turns a claim without a settle into UNKNOWN.
//!
//! The three questions behind every cell:
//! 1. *Is it proven that no request of ours charged or still can?* Only then PENDING, FAILED or
//!    CANCELLED (rules R7, R8).
//! 2. *May anything be sent again, and under which key?* The same key while it lives; a new one only
//!    with that proof (rules R4, R6).
//! 3. *If neither, can asking still decide?* Then UNKNOWN; else a human does (PARKED).

mod decide;
mod plan;

pub use decide::{decide, parked};
pub use plan::{AfterLookup, Plan, View, after_lookup, gate, plan, void_gate, with_request};

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod redriven_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod void_tests;
