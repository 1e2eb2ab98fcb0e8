//! Our books against a gateway's reports, on real Postgres: what is found, what is repaired, and what nothing changes.

mod bounded;
pub mod desk;
mod held;
mod matching;
mod repairs;
mod reports;
mod sums;
mod twice;
mod withdrawn;
