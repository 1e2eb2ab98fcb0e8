//! The last hour, minute by minute, and what waits now: for people alone, nothing decides by it.
//!
//! **Promises.** Whoever looks reads sixty rows and the bounded counts of [`super::Backlog`]. The rows are kept by the
//! keeper ([`Postgres::sum_minutes`]), which reads each row of the history once, in the publisher's order and never
//! ahead of a transaction that is still open, so that none is missed and none is counted twice; a minute is whole a
//! few seconds after it has passed. What was due in a minute is a range of the payments' key, because ids begin with
//! the due time.
//!
//! **Why not from the metrics**: they live in each process until somebody scrapes it, and this is to work where nobody
//! does. **If this dies here**, the newest minutes are missing and say so by having no `due`; any keeper goes on from
//! the cursor.

use super::failure::{at_commit, before_commit};
use super::port::ScheduleError;
use super::{Backlog, Postgres, statements};
use crate::domain::bucket::minute_start;
use crate::domain::lateness::BOUNDS_MS;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

const MINUTES: i32 = 60;
/// Each gauge of what waits is counted no further.
const MOST_WAITING: u32 = 10_000;
/// A minute is counted when it has passed for so long: whoever paid in its last instant has written it down.
const SETTLES: TimeDelta = TimeDelta::seconds(2);
/// The history is read from the day on in which this long ago lies; what a keeper missed before that is not shown.
const LOOKS_BACK: TimeDelta = TimeDelta::hours(2);

/// What happened in one minute, by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minute {
    /// Its start.
    pub from: DateTime<Utc>,
    /// Payments due in it that were not cancelled; `None`: it has not passed, or nobody has counted them.
    pub due: Option<i64>,
    /// Claims.
    pub claimed: i64,
    /// Payments that became COMPLETED.
    pub completed: i64,
    /// FAILED.
    pub failed: i64,
    /// CANCELLED.
    pub cancelled: i64,
    /// PARKED.
    pub parked: i64,
    /// UNKNOWN after a claim.
    pub unknown: i64,
    /// PENDING again after a claim.
    pub retried: i64,
    /// First claims, by how late they were: below each of [`BOUNDS_MS`], and beyond.
    pub late: Vec<i64>,
}

impl Minute {
    fn empty(from: DateTime<Utc>) -> Self {
        let late = vec![0; BOUNDS_MS.len() + 1];
        Self {
            from,
            due: None,
            claimed: 0,
            completed: 0,
            failed: 0,
            cancelled: 0,
            parked: 0,
            unknown: 0,
            retried: 0,
            late,
        }
    }
}

/// The last hour and what waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    /// When it was read.
    pub taken_at: DateTime<Utc>,
    /// The last sixty minutes that have passed, and the one that runs, oldest first, without a gap.
    pub minutes: Vec<Minute>,
    /// What waits, each counted no further than ten thousand.
    pub waiting: Backlog,
}

impl Postgres {
    /// Reads.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; ask again later.
    pub async fn pulse(&self) -> Result<Pulse, ScheduleError> {
        let taken_at = self.database_now().await?;
        let first = minute_start(taken_at) - TimeDelta::minutes(i64::from(MINUTES));
        let mut minutes: BTreeMap<DateTime<Utc>, Minute> = (0..=MINUTES)
            .map(|n| first + TimeDelta::minutes(1) * n)
            .map(|from| (from, Minute::empty(from)))
            .collect();
        let rows = sqlx::query(statements::MINUTES).bind(first).fetch_all(self.pool()).await;
        for row in rows.map_err(before_commit)? {
            let minute = minute(&row).map_err(before_commit)?;
            if let Some(place) = minutes.get_mut(&minute.from) {
                *place = minute;
            }
        }
        let waiting = self.backlog(MOST_WAITING).await?;
        Ok(Pulse { taken_at, minutes: minutes.into_values().collect(), waiting })
    }

    /// Adds at most `most` rows of the history to their minutes, and counts what was due in those that have passed;
    /// answers whether fewer were left than that.
    ///
    /// # Errors
    /// Any; repeating it adds nothing twice.
    pub async fn sum_minutes(&self, most: u32) -> Result<Summed, ScheduleError> {
        let pool = self.pool();
        let place = sqlx::query(statements::MINUTES_PLACE).fetch_one(pool).await.map_err(before_commit)?;
        let now: DateTime<Utc> = place.try_get("database_now").map_err(before_commit)?;
        let read = add(pool, &place, now, most).await?;
        if read >= i64::from(most) {
            return Ok(Summed::More);
        }
        let last = minute_start(now - SETTLES) - TimeDelta::minutes(1);
        let first = last - TimeDelta::minutes(i64::from(MINUTES) - 1);
        let uncounted = sqlx::query_scalar(statements::MINUTE_UNCOUNTED).bind(first).bind(last);
        let uncounted: Option<DateTime<Utc>> = uncounted.fetch_optional(pool).await.map_err(before_commit)?;
        let Some(minute) = uncounted else { return Ok(Summed::All) };
        let due: i64 = sqlx::query_scalar(statements::MINUTE_DUE)
            .bind(minute.date_naive())
            .bind(least_id(minute))
            .bind(least_id(minute + TimeDelta::minutes(1)))
            .fetch_one(pool)
            .await
            .map_err(before_commit)?;
        let kept = sqlx::query(statements::KEEP_MINUTE_DUE).bind(minute).bind(due).execute(pool).await;
        kept.map_err(at_commit)?;
        Ok(Summed::More)
    }
}

/// How much is left to add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summed {
    /// There may be more.
    More,
    /// Nothing for now.
    All,
}

async fn add(pool: &PgPool, place: &PgRow, now: DateTime<Utc>, most: u32) -> Result<i64, ScheduleError> {
    let text = |column| place.try_get::<String, _>(column).map_err(before_commit);
    let seq = |column| place.try_get::<i32, _>(column).map_err(before_commit);
    let id = |column| place.try_get::<Uuid, _>(column).map_err(before_commit);
    // Whole days, as the history is divided; a clock that is set back writes a little into tomorrow.
    let from = (now - LOOKS_BACK).date_naive().and_time(chrono::NaiveTime::MIN).and_utc();
    let bounds: Vec<i32> = BOUNDS_MS.to_vec();
    sqlx::query_scalar(statements::SUM_MINUTES)
        .bind(text("was_xid")?)
        .bind(seq("was_seq")?)
        .bind(id("was_id")?)
        .bind(text("xid")?)
        .bind(seq("seq")?)
        .bind(id("payment_id")?)
        .bind(text("below")?)
        .bind(from)
        .bind(now + TimeDelta::days(1))
        .bind(i64::from(most))
        .bind(bounds)
        .fetch_one(pool)
        .await
        .map_err(at_commit)
}

/// Less than every id of a payment that is due then or later, and more than every other.
fn least_id(at: DateTime<Utc>) -> Uuid {
    // Instants before 1970 are no payment's.
    Uuid::from_u128(u128::try_from(at.timestamp_millis()).unwrap_or(0) << 80)
}

fn minute(row: &PgRow) -> Result<Minute, sqlx::Error> {
    let mut late: Vec<i64> = row.try_get("late")?;
    // A minute in which nothing was claimed has none.
    late.resize(BOUNDS_MS.len() + 1, 0);
    Ok(Minute {
        from: row.try_get("minute")?,
        due: row.try_get("due")?,
        claimed: row.try_get("claimed")?,
        completed: row.try_get("completed")?,
        failed: row.try_get("failed")?,
        cancelled: row.try_get("cancelled")?,
        parked: row.try_get("parked")?,
        unknown: row.try_get("unknown")?,
        retried: row.try_get("retried")?,
        late,
    })
}
