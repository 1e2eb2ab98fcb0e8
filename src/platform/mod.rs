//! What every stage stands on: clock, chance, configuration, metrics, telemetry, health, shutdown.

pub mod clock;
pub mod config;
pub mod dice;
