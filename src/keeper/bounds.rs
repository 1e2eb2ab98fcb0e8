//! Moves the oldest open day on, which bounds every scan by time.
//!
//! **Promises.** Only ever forward, and never past a day that has an open row. **If this dies
//! here**, scans look at more days than they need: slower, never wrong.

use super::runner::{Next, Tick};
use super::upkeep::Upkeep;
use crate::schedule::ScheduleError;
use std::sync::Arc;

/// The loop's work; run it each `keeper.partitions_every`.
#[derive(Debug)]
pub struct Bounds<S> {
    /// Where the rows are.
    pub schedule: Arc<S>,
}

impl<S: Upkeep> Tick for Bounds<S> {
    fn name(&self) -> &'static str {
        "oldest_open_day"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let day = self.schedule.advance_oldest_open_day().await?;
        tracing::debug!(oldest_open_day = %day, "bounds");
        Ok(Next::Later)
    }
}
