//! Stage 5: one due notice → one settled payment.
//!
//! Read [`step`] first: it is the whole story of a batch, and says why a charge happens at most
//! once. Around it: [`hold`] keeps notices until their instant; `run` is the loop that feeds steps
//! and never waits; `claiming` and `returns` are the step's first and last act in detail; `brake`,
//! `clock_guard` and `stuck` are the reasons to stop; `beat`, `pacer` and `permits` keep the account's rate and
//! its breaker; `bus` is Kafka, joined or away; `keep` is what
//! comes from it and is no work.
//!
//! **Relies on** [`Schedule`](crate::schedule::Schedule) for every guarantee about rows and on
//! [`Gateway`](crate::gateway::Gateway) for at most one money-moving request a claim. **If a worker
//! dies**, others get its notices within seconds, and its open claims are asked about.

mod beat;
mod brake;
mod bus;
mod claiming;
mod clock_guard;
mod course;
mod crowd;
mod drain;
mod failure;
mod gauges;
pub mod hold;
mod keep;
mod lane;
mod late_scan;
#[cfg(any(test, feature = "simulation"))]
#[allow(missing_docs, clippy::unwrap_used)]
pub mod lab;
mod pacer;
mod patience;
mod permits;
mod place;
mod progress;
mod refunds;
mod renewal;
mod returns;
mod run;
mod seat;
mod start;
pub mod step;
mod store;
mod stuck;
mod tally;
mod traced;
#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod pacing_tests;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod step_edge_tests;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod switch_tests;
#[cfg(test)]
mod tally_tests;
#[cfg(test)]
mod void_tests;

pub use brake::{Brake, ClocksApart};
pub use bus::Join;
pub use clock_guard::{ClockGuard, Clocks, Sample};
pub use course::facts;
pub use pacer::Pacer;
pub use permits::Ticket;
pub use place::{Place, Record};
pub use progress::Progress;
pub use refunds::{RefundParts, Refunder};
pub use renewal::Renewals;
pub use run::{Condition, Drained, Ended, Worker};
pub use seat::{Permit, Seat, Slot};
pub use start::Parts;
pub use step::Step;
pub use store::{PostgresStore, Store};
