//! What every stage stands on: clock, chance, configuration, metrics, telemetry, health, shutdown, and the rule for
//! addresses that others may name to us.
//!
//! The only folder that may ask the machine for the time, for chance or for a pause; everybody else
//! is handed a [`clock::Clock`] or [`dice::Dice`], so that the simulation can hand in its own.

#![allow(clippy::disallowed_methods, reason = "this folder is where time and chance come from")]

pub mod addresses;
pub mod alerts;
pub mod boards;
pub mod clock;
pub mod config;
pub mod dice;
pub mod exit;
pub mod failpoints;
pub mod faults;
pub mod health;
pub mod kept;
pub mod metrics;
pub mod reconnect;
pub mod shutdown;
pub mod telemetry;
pub mod trace;
pub mod violation;
