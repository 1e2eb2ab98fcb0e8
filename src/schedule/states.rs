//! Where payments stand, for people who look at notices: nothing decides by it.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{Postgres, row, statements};
use crate::domain::ids::PaymentId;
use crate::domain::state::Status;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::Row;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Where one payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentState {
    /// Its state.
    pub status: Status,
    /// Claims made so far: a notice of fewer is spent.
    pub attempt: i32,
    /// When it may be claimed next, where it may.
    pub next_attempt_at: DateTime<Utc>,
}

impl Postgres {
    /// Where these payments stand; one that is missing is not there. One statement a due day.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; ask again later.
    pub async fn states(
        &self,
        of: impl Iterator<Item = PaymentId>,
    ) -> Result<BTreeMap<PaymentId, PaymentState>, ScheduleError> {
        let mut days: BTreeMap<NaiveDate, Vec<Uuid>> = BTreeMap::new();
        for id in of {
            days.entry(id.due_day()).or_default().push(id.as_uuid());
        }
        let mut found = BTreeMap::new();
        for (day, ids) in days {
            let query = sqlx::query(statements::STATES).bind(day).bind(ids);
            for row in query.fetch_all(self.pool()).await.map_err(before_commit)? {
                let state = || {
                    Ok::<_, sqlx::Error>(PaymentState {
                        status: row::status(&row, "status")?,
                        attempt: row.try_get("attempt")?,
                        next_attempt_at: row.try_get("next_attempt_at")?,
                    })
                };
                let id = row::payment_id(&row, "id").map_err(before_commit)?;
                found.insert(id, state().map_err(before_commit)?);
            }
        }
        Ok(found)
    }
}
