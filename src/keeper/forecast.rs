//! Counts what falls due on each day of the next month, so that nobody who looks has to.
//!
//! **Promises.** Reads one index and writes a row a day and gateway; a day a tick, the one that waits longest, and
//! about a twentieth of the time at most, however full the month is. **If this dies here**, the counts grow old; each
//! says how old it is.

use super::runner::{Next, Tick};
use crate::domain::ids::GatewayName;
use crate::schedule::{Postgres, ScheduleError};

/// Most rows that one statement counts: a second or two of an index.
const PIECE: i64 = 5_000_000;

/// The loop's work; run it each `keeper.backlog_every`.
#[derive(Debug)]
pub struct Forecasts {
    /// What is counted.
    pub schedule: Postgres,
    /// A gateway that no worker may have put on record yet.
    pub gateway: GatewayName,
}

impl Tick for Forecasts {
    fn name(&self) -> &'static str {
        "forecast"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let counted = self.schedule.recount_forecast(std::slice::from_ref(&self.gateway), PIECE).await?;
        Ok(if counted.is_some() { Next::Now } else { Next::Later })
    }
}
