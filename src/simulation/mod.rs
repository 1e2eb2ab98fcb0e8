//! The whole money path on virtual time: the real worker, relay, keeper and rules over a database, a
//! bus and a gateway in memory, with everything that goes wrong in the world.
//!
//! **Promises.** One thread, one time, one source of chance: a seed gives the same run, event for
//! event, however often. What is real: `worker::Worker` with its loop, hold, steps and drain,
//! `relay::run`, the keeper's loops, `outcome::decide`, the guards and effects of `domain`, the bus's
//! offsets and their proofs. What is played: Postgres (`schedule::Memory`), Kafka (`kafka`, `member`),
//! the gateway (`gateway`, `account`), clients, networks, clocks.
//!
//! **Relies on** those parts taking time and chance as parameters, spawning on the runtime they run on,
//! and going over no hash map. **Why this way**: a race that needs a frozen worker, a lost COMMIT and
//! an expired key at once is met here in thousands of worlds a minute, and again from its seed alone.
//!
//! `dials` says what a seed's world is like, `agenda` what happens to whom, `run` runs it, `checks`
//! judges it by the invariants' numbers, `trace` counts what it met. `capacity` asks the same parts
//! another question, without faults: how late does a crowd get?
//!
//! Present only in tests and under the feature `simulation`; a panic in here is a failed run.

mod account;
mod agenda;
mod capacity;
mod checks;
mod clients;
mod dials;
mod gateway;
mod host;
mod kafka;
mod member;
mod nodes;
mod run;
mod sweep;
mod trace;

pub use capacity::{Arrivals, Excess, Lateness, Question, Waiting, capacity};
pub use checks::Violation;
pub use dials::{Dials, Faults};
pub use run::{Mode, Outcome, run};
#[cfg(feature = "faults")]
pub use sweep::finds;
pub use sweep::{Failure, Seeds, Sweep, story, sweep};
pub use trace::{Met, Texts, Told};
