//! The schedule on real Postgres: every verb, its races, its rights, its plans.

mod backlog;
mod claims;
mod create;
#[cfg(feature = "faults")]
mod declines;
mod forecast;
mod guards;
mod history;
mod indexes;
mod lost;
mod outbox;
pub mod pace;
mod plans;
mod pulse;
mod rights;
mod settles;
mod sharing;
mod storm;
pub mod switches;
pub mod violations;
mod windows;
pub mod world;
