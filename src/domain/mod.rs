//! The rules: no async, no I/O, no clock. Everything here is a value or a pure function, shared by
//! the code that runs, the model, the simulation and the checker.

pub mod bucket;
pub mod currencies;
pub mod decision;
pub mod declines;
pub mod effect;
pub mod event;
pub mod event_type;
pub mod facts;
pub mod filter;
pub mod forecast;
pub mod guard;
#[doc(hidden)]
pub mod guard_cases;
pub mod history;
pub mod ids;
pub mod intent;
pub mod invariants;
pub mod lateness;
pub mod lease;
pub mod matching;
#[doc(hidden)]
pub mod matching_cases;
pub mod matching_refunds;
pub mod money;
pub mod notice;
pub mod pace;
pub mod parked;
pub mod payment;
pub mod reason;
pub mod refund;
#[doc(hidden)]
pub mod refund_cases;
pub mod refund_repair;
#[doc(hidden)]
pub mod refund_repair_cases;
pub mod refund_resolution;
#[doc(hidden)]
pub mod refund_resolution_cases;
pub mod repair;
#[doc(hidden)]
pub mod repair_cases;
pub mod retry;
pub mod settlement;
pub mod state;
pub mod switches;
pub(crate) mod texts;
pub mod verdict;
pub mod webhook;
pub mod window;
