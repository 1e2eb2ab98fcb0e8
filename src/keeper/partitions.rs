//! Keeps day partitions ahead, and drops those of the outbox and of webhooks that are drained.
//!
//! **Promises.** Days from `back` before to `ahead` after today exist before they are needed; intake
//! answers 503 for a day that is missing, so this loop is itself watched (its age is a metric).
//! **Relies on** the schedule making partitions apart and attaching them, which takes no lock that
//! stops work. **If this dies here**, the horizon shrinks by a day a day.

use super::runner::{Next, Tick};
use super::upkeep::Upkeep;
use crate::schedule::ScheduleError;
use std::sync::Arc;

/// The loop's work; run it each `keeper.partitions_every`, and once at start.
#[derive(Debug)]
pub struct Partitions<S> {
    /// Where they are.
    pub schedule: Arc<S>,
    /// Days kept before today.
    pub back: u32,
    /// Days kept ahead.
    pub ahead: u32,
    /// Days of webhook deliveries that are kept.
    pub webhook_days: u32,
}

impl<S: Upkeep> Tick for Partitions<S> {
    fn name(&self) -> &'static str {
        "partitions"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let made = self.schedule.ensure_partitions(self.back, self.ahead).await?;
        let webhooks = self.schedule.drop_webhook_days(self.webhook_days).await?;
        let dropped = self.schedule.drop_drained_notices(self.back).await? + webhooks;
        if made > 0 || dropped > 0 {
            tracing::info!(made, dropped, "partitions");
        }
        Ok(Next::Later)
    }
}
