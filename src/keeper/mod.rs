//! Stage 8: loops that watch the schedule and bring it back to where it should be.
//!
//! **Promises.** Each loop looks at the database, does a bounded amount of work and sleeps; it takes
//! no input but a nudge ("look now"), so that a restart, a tick and a nudge are the same code, and
//! running a loop twice at once is only waste: every move it makes is a compare-and-swap.
//!
//! **Relies on** the schedule's verbs being one transaction each, and on the database clock for
//! every judgement. **If this dies here**, expired claims stay PROCESSING and deadlines wait until
//! any keeper runs again; nothing is charged that would not be.

mod backlog;
mod bounds;
mod bulk;
mod daily;
mod forecast;
mod forgets;
mod lineage;
mod minutes;
mod partitions;
mod reaper;
mod runner;
mod upkeep;
#[cfg(test)]
mod tests;

pub use backlog::Watch;
pub use bounds::Bounds;
pub use bulk::BulkRedrives;
pub use daily::{Daily, DayEnded, DaysToCompare};
pub use forecast::Forecasts;
pub use forgets::Forgets;
pub use lineage::Lineage;
pub use minutes::Minutes;
pub use partitions::Partitions;
pub use reaper::Reaper;
pub use runner::{Next, Nudge, Tick, every};
pub use upkeep::Upkeep;
