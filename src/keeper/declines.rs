//! Deletes counts of declines that are older than any window that a cap looks at.
//!
//! **Promises.** At most [`MOST`] rows a transaction, so that it never holds locks for long, and none that a
//! claim still adds up. **If this dies here**, the table grows by a row for each destination and hour with a
//! decline; claims read only the hours of their windows and stay as fast and as right.

use super::runner::{Next, Tick};
use super::upkeep::Upkeep;
use crate::platform::metrics;
use crate::schedule::ScheduleError;
use std::sync::Arc;

/// Rows of one transaction.
const MOST: u32 = 1_000;

/// The loop's work; run it each `keeper.partitions_every`.
#[derive(Debug)]
pub struct Forgets<S> {
    /// Where the counts are.
    pub schedule: Arc<S>,
}

impl<S: Upkeep> Tick for Forgets<S> {
    fn name(&self) -> &'static str {
        "declines"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let gone = self.schedule.forget_declines(MOST).await?;
        metrics::DECLINE_COUNTS_FORGOTTEN.add(gone, []);
        Ok(if gone >= u64::from(MOST) { Next::Now } else { Next::Later })
    }
}
