//! Stand-ins for a worker under test or in simulation: time, chance and a gateway with a ledger.
//!
//! **Promises.** No real time, no real chance, no threads: the same seed and script give the same
//! run, event for event. Present only in tests and under the feature `simulation`; the production image is
//! built without it. A panic in here is a failed run, so `unwrap` is allowed.

mod gateway;
mod time;
mod world;

pub use gateway::{Act, LedgerLine, ScriptedGateway, sandbox_profile};
pub use time::{SeededDice, SkewedClock, VirtualTime};
pub use world::{BEGAN_MS, Hand, World, lease, payment};
