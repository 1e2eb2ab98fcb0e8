//! Tells what waits: rows that are due, notices that nobody publishes, days that are made.
//!
//! **Promises.** Reads only, and decides nothing. The gauges say what stands in the tables, so they
//! stay true when every worker or every relay is dead, which is when they are needed. **If this dies
//! here**, they keep their last values; the age of this task's last success tells that.

use super::runner::{Next, Tick};
use super::upkeep::Upkeep;
use crate::platform::metrics;
use crate::schedule::ScheduleError;
use std::sync::Arc;

/// Most notices counted; more is the same alarm.
const MOST: u32 = 10_000;

/// The loop's work; run it each `keeper.backlog_every`.
#[derive(Debug)]
pub struct Watch<S> {
    /// Where the rows are.
    pub schedule: Arc<S>,
}

impl<S: Upkeep> Tick for Watch<S> {
    fn name(&self) -> &'static str {
        "backlog"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let backlog = self.schedule.backlog(MOST).await?;
        for (gateway, overdue) in &backlog.oldest_due {
            metrics::PAYMENTS_DUE_OLDEST_AGE.set(overdue.as_secs_f64(), [&gateway.0]);
        }
        let open = backlog.open;
        for (state, count) in [
            ("due", open.due),
            ("processing", open.processing),
            ("unknown", open.unknown),
            ("parked", open.parked),
        ] {
            metrics::PAYMENTS.set(whole(count), [state]);
        }
        metrics::PAYMENTS_UNKNOWN_OLDEST_AGE.set(open.oldest_unknown.as_secs_f64(), []);
        metrics::PAYMENTS_LEASE_OVERDUE.set(open.lease_overdue.as_secs_f64(), []);
        metrics::RELAY_UNPUBLISHED_DUE.set(whole(backlog.unpublished_due), []);
        metrics::PARTITIONS_AHEAD.set(whole(backlog.days_ahead), []);
        metrics::OLDEST_OPEN_DAY_AGE.set(whole(backlog.oldest_open_day_age), []);
        Ok(Next::Later)
    }
}

/// Exact within two billion, and held there beyond.
fn whole(count: i64) -> f64 {
    let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
    // Within i32 after the clamp.
    f64::from(i32::try_from(count.clamp(least, most)).unwrap_or(i32::MAX))
}
