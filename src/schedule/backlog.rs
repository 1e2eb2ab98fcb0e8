//! What waits in the tables, for gauges alone: nothing decides by it.
//!
//! Three statements on three snapshots: each number is true at its own instant, which is enough for a
//! gauge, and no transaction is held for it.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::bucket::SHARDS;
use crate::domain::ids::GatewayName;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgPool, Row};
use std::time::Duration;

/// What waits, by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// How overdue each gateway's oldest claimable row is; zero where none is due.
    pub oldest_due: Vec<(GatewayName, Duration)>,
    /// Due notices that no relay has published, at most what was asked for and one a shard more.
    pub unpublished_due: i64,
    /// Days from today that have partitions; negative if today has none.
    pub days_ahead: i64,
    /// How many days before today the oldest day with open rows lies.
    pub oldest_open_day_age: i64,
    /// Where payments stand.
    pub open: OpenStates,
}

/// Payments where somebody should look, each counted up to what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenStates {
    /// Claimable now, of each gateway on record.
    pub due: i64,
    /// Under a claim.
    pub processing: i64,
    /// Of unknown outcome.
    pub unknown: i64,
    /// Waiting for a person.
    pub parked: i64,
    /// How long ago the oldest unknown outcome was first sent; zero if there is none.
    pub oldest_unknown: Duration,
    /// How long ago the lease ended that ended first; zero if none has ended.
    pub lease_overdue: Duration,
}

impl Postgres {
    /// Looks; counts no more than `most` notices.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; look again later.
    pub async fn backlog(&self, most: u32) -> Result<Backlog, ScheduleError> {
        let shards: Vec<i16> = (0..SHARDS).collect();
        let a_shard = i64::from(most) / i64::from(SHARDS) + 1;
        let pool = self.pool();
        let extent = sqlx::query(statements::EXTENT).bind(shards).bind(a_shard).fetch_one(pool).await;
        let extent = extent.map_err(before_commit)?;
        let days = |column| extent.try_get::<NaiveDate, _>(column).map_err(before_commit);
        let (today, first, last) = (days("today")?, days("oldest_open_day")?, days("last_day")?);
        let now: DateTime<Utc> = extent.try_get("database_now").map_err(before_commit)?;
        let rows = sqlx::query(statements::OLDEST_DUE).bind(first).bind(today).fetch_all(pool).await;
        let mut oldest_due = Vec::new();
        for row in rows.map_err(before_commit)? {
            let gateway = GatewayName(row.try_get("gateway").map_err(before_commit)?);
            let since: Option<DateTime<Utc>> = row.try_get("since").map_err(before_commit)?;
            // Negative by the moment between the two statements: it is due now.
            let overdue = since.map_or(Duration::ZERO, |since| (now - since).to_std().unwrap_or_default());
            oldest_due.push((gateway, overdue));
        }
        let open = open_states(pool, (first, today), i64::from(most)).await?;
        Ok(Backlog {
            open,
            oldest_due,
            unpublished_due: extent.try_get("unpublished").map_err(before_commit)?,
            days_ahead: (last - today).num_days(),
            oldest_open_day_age: (today - first).num_days().max(0),
        })
    }
}

async fn open_states(
    pool: &PgPool,
    (first, today): (NaiveDate, NaiveDate),
    most: i64,
) -> Result<OpenStates, ScheduleError> {
    let query = sqlx::query(statements::OPEN_STATES).bind(first).bind(today).bind(most);
    let row = query.fetch_one(pool).await.map_err(before_commit)?;
    let now: DateTime<Utc> = row.try_get("database_now").map_err(before_commit)?;
    let count = |column| row.try_get::<i64, _>(column).map_err(before_commit);
    let since = |column| {
        let instant: Option<DateTime<Utc>> = row.try_get(column).map_err(before_commit)?;
        // A lease that still runs lies ahead: nothing is overdue.
        Ok(instant.map_or(Duration::ZERO, |instant| (now - instant).to_std().unwrap_or_default()))
    };
    Ok(OpenStates {
        due: count("due")?,
        processing: count("processing")?,
        unknown: count("unknown")?,
        parked: count("parked")?,
        oldest_unknown: since("oldest_unknown")?,
        lease_overdue: since("oldest_lease")?,
    })
}
