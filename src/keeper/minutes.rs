//! Adds up what happened in each minute, so that nobody who looks reads the history.
//!
//! **Promises.** Reads each row of the history once, a batch a tick, behind what is still being written; decides
//! nothing. **If this dies here**, the newest minutes are missing until a keeper goes on.

use super::runner::{Next, Tick};
use crate::schedule::{Postgres, ScheduleError, Summed};
use std::time::Duration;

/// Rows of one batch: its transaction has an id while it adds up, and the publisher waits behind every such id.
const MOST: u32 = 20_000;

/// The loop's work; run it each [`Minutes::EVERY`].
#[derive(Debug)]
pub struct Minutes {
    /// What is added up.
    pub schedule: Postgres,
}

impl Minutes {
    /// How old the newest minute that people see may be.
    pub const EVERY: Duration = Duration::from_secs(5);
}

impl Tick for Minutes {
    fn name(&self) -> &'static str {
        "minutes"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        Ok(match self.schedule.sum_minutes(MOST).await? {
            Summed::More => Next::Now,
            Summed::All => Next::Later,
        })
    }
}
