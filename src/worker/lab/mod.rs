//! Stand-ins for a worker under test or in simulation: time, chance and a gateway with a ledger.
//!
//! **Promises.** No real time, no real chance, no threads: the same seed and script give the same
//! run, event for event. Present only in tests and under the feature `faults`; a release build has
//! none of it. A panic in here is a failed test, so `unwrap` is allowed.

mod gateway;
mod time;
mod world;

pub use gateway::{Act, LedgerLine, ScriptedGateway, sandbox_profile};
pub use time::{SeededDice, SkewedClock, VirtualTime};
pub use world::{BEGAN_MS, Hand, World, lease, payment};
