//! Watches whether this database is the one that people released (rule R17).
//!
//! **Promises.** Gives the database's sign of life, from which a quarantine knows how far back commits may be missing;
//! opens the quarantine of a database that was restored or promoted, so that it has a beginning, a reason and a row
//! that people see; and says it in metric and log. Claims do not wait for this: each asks for itself. **If this dies
//! here**, a quarantine begins when somebody looks at it, and is dated from the last sign that was given.

use super::runner::{Next, Tick};
use crate::platform::metrics;
use crate::schedule::{Postgres, ScheduleError};

/// The loop's work; run it each `keeper.reap_every`.
#[derive(Debug)]
pub struct Lineage {
    /// The database.
    pub schedule: Postgres,
    /// What was seen last, so that only a change is logged.
    pub last: Option<bool>,
}

impl Tick for Lineage {
    fn name(&self) -> &'static str {
        "lineage"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let released = self.schedule.observe_lineage().await?;
        metrics::QUARANTINE.set(if released { 0.0 } else { 1.0 }, []);
        match (self.last.replace(released), released) {
            (Some(false), true) => tracing::warn!("the database was released: claims go on"),
            (None | Some(true), false) => tracing::error!(
                "the database is quarantined: it was restored or promoted, or commits were lost; nothing is claimed \
                 until two people release it (`punctual quarantine show`)"
            ),
            (None | Some(true), true) | (Some(false), false) => {}
        }
        Ok(Next::Later)
    }
}
