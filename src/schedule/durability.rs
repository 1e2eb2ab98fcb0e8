//! What a COMMIT is worth on this server, for people: nothing decides by it.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::guard::Lineage;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};

/// What the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durability {
    /// Its clock.
    pub database_now: DateTime<Utc>,
    /// `synchronous_commit` of our connections.
    pub synchronous_commit: String,
    /// `fsync`.
    pub fsync: String,
    /// `full_page_writes`.
    pub full_page_writes: String,
    /// `synchronous_standby_names`; empty: no commit waits for another machine.
    pub standbys: String,
    /// The keeper's last sign of life; `None`: none was given yet.
    pub keeper_seen_at: Option<DateTime<Utc>>,
    /// It is a standby: nothing can be written.
    pub is_standby: bool,
    /// Whether it may be worked on (rule R17).
    pub lineage: Lineage,
    /// Since when and why it is in quarantine, where that was said.
    pub quarantine: Option<(DateTime<Utc>, String)>,
}

fn read(row: &PgRow) -> Result<Durability, Error> {
    let (since, why): (Option<DateTime<Utc>>, Option<String>) =
        (row.try_get("quarantined_at")?, row.try_get("quarantine_reason")?);
    Ok(Durability {
        database_now: row.try_get("database_now")?,
        synchronous_commit: row.try_get("synchronous_commit")?,
        fsync: row.try_get("fsync")?,
        full_page_writes: row.try_get("full_page_writes")?,
        standbys: row.try_get("standbys")?,
        keeper_seen_at: row.try_get("keeper_seen_at")?,
        is_standby: row.try_get("is_standby")?,
        lineage: if row.try_get("is_released")? { Lineage::Released } else { Lineage::Quarantined },
        quarantine: since.map(|since| (since, why.unwrap_or_default())),
    })
}

impl Postgres {
    /// Asks the server.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; ask again later.
    pub async fn durability(&self) -> Result<Durability, ScheduleError> {
        let row = sqlx::query(statements::DURABILITY).fetch_one(self.pool()).await.map_err(before_commit)?;
        read(&row).map_err(before_commit)
    }

    /// Which of the days from today to `ahead` days after it lack a partition, in order.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; ask again later.
    pub async fn missing_days(&self, ahead: u32) -> Result<Vec<NaiveDate>, ScheduleError> {
        let ahead = i32::try_from(ahead).unwrap_or(i32::MAX);
        let query = sqlx::query_scalar(statements::MISSING_DAYS).bind(0_i32).bind(ahead);
        query.fetch_all(self.pool()).await.map_err(before_commit)
    }
}
