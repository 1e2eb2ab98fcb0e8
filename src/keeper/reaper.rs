//! Ends claims whose worker recorded no outcome, and payments whose deadline passed untried.
//!
//! **Promises.** A claim that outlived lease + margin becomes UNKNOWN with a re-ask notice, never
//! PENDING: its worker may have called the gateway (see `domain::state`). The schedule judges by the database
//! clock and swaps under the row's own state, so a settle that comes at the same moment wins or is
//! fenced. **If this dies here**, the next pass finds the same rows.

use super::runner::{Next, Tick};
use crate::domain::state::{Cause, Status};
use crate::platform::metrics;
use crate::schedule::{Schedule, ScheduleError};
use std::sync::Arc;
use std::time::Duration;

/// The loop's work; run it each `keeper.reap_every`.
#[derive(Debug)]
pub struct Reaper<S> {
    /// Where the rows are.
    pub schedule: Arc<S>,
    /// Added to each lease before it counts as expired; the workers' own margin.
    pub margin: Duration,
    /// Rows moved by one pass.
    pub batch: u32,
}

impl<S: Schedule> Tick for Reaper<S> {
    fn name(&self) -> &'static str {
        "reap"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let reaped = self.schedule.reap(self.margin, self.batch).await?;
        if reaped.expired > 0 {
            let expired = u64::from(reaped.expired);
            metrics::LEASE_EXPIRED.add(expired, []);
            let labels = [Status::Unknown.as_str(), Cause::LeaseExpired.as_str()];
            metrics::PAYMENT_TRANSITIONS.add(expired, labels);
            tracing::warn!(
                expired = reaped.expired,
                "claims expired without an outcome; they are UNKNOWN now"
            );
        }
        if reaped.deadline_failed > 0 {
            let failed = u64::from(reaped.deadline_failed);
            metrics::DEADLINES_FAILED.add(failed, []);
            let labels = [Status::Failed.as_str(), Cause::DeadlinePassed.as_str()];
            metrics::PAYMENT_TRANSITIONS.add(failed, labels);
            tracing::info!(failed = reaped.deadline_failed, "deadlines passed before any charge");
        }
        // Each kind has its own limit, and either one that met it has left some behind.
        let full = reaped.expired >= self.batch || reaped.deadline_failed >= self.batch;
        Ok(if full { Next::Now } else { Next::Later })
    }
}
