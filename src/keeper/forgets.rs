//! Deletes what was kept for a time and is looked at no more: old counts of declines, the names of old
//! callbacks, what actors with caps created on days long past, and what deleted endpoints of webhooks are owed.
//!
//! **Promises.** At most [`MOST`] rows a transaction, so that it never holds locks for long; no count that a
//! claim still adds up, and no callback that its sender may still repeat. **If this dies here**, three tables
//! grow, and days of webhooks that owe something to nobody stay; claims read only the hours of their windows and stay as fast and as right.

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
    /// Where the rows are.
    pub schedule: Arc<S>,
}

impl<S: Upkeep> Tick for Forgets<S> {
    fn name(&self) -> &'static str {
        "forget"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let declines = self.schedule.forget_declines(MOST).await?;
        metrics::FORGOTTEN.add(declines, ["declines"]);
        let callbacks = self.schedule.forget_callbacks(MOST).await?;
        metrics::FORGOTTEN.add(callbacks, ["callbacks"]);
        let days = self.schedule.forget_actor_days(MOST).await?;
        metrics::FORGOTTEN.add(days, ["actor_days"]);
        let owed = self.schedule.discard_deliveries(MOST).await?;
        metrics::FORGOTTEN.add(owed, ["webhook_deliveries"]);
        Ok(if declines.max(callbacks).max(days).max(owed) >= u64::from(MOST) {
            Next::Now
        } else {
            Next::Later
        })
    }
}
