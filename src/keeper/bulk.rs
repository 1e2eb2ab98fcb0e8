//! Works off bulk re-drives, a batch at a time, at the rate that each was given.
//!
//! **Promises.** Each payment's own guard decides; a batch is one transaction of the schedule; two keepers never
//! work on one bulk re-drive at once. **If this dies here**, the batch did not happen, and any keeper goes on.

use super::runner::{Next, Tick};
use crate::platform::metrics;
use crate::schedule::{BulkStep, BulkTerms, Postgres, ScheduleError};

/// The loop's work; run it each `operations.bulk_every`.
#[derive(Debug)]
pub struct BulkRedrives {
    /// Where the payments are.
    pub schedule: Postgres,
    /// What one person may release.
    pub terms: BulkTerms,
}

impl Tick for BulkRedrives {
    fn name(&self) -> &'static str {
        "bulk_redrive"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        match self.schedule.step_bulk(&self.terms).await? {
            BulkStep::Nothing => Ok(Next::Later),
            BulkStep::Batch { redriven, left } => {
                metrics::OPERATOR_ACTS.add(redriven.unsigned_abs(), ["bulk_redrive", "done"]);
                metrics::OPERATOR_ACTS.add(left.unsigned_abs(), ["bulk_redrive", "refused"]);
                // Another one may be waiting; of this one the next batch is not due yet.
                Ok(Next::Now)
            }
        }
    }
}
