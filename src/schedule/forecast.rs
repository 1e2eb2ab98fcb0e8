//! What falls due when, counted from an index, for people and for who scales workers: nothing decides
//! by it.
//!
//! **Bounded.** The next hour is counted when somebody asks, a minute up to [`MOST_A_MINUTE`] rows, entries of one
//! index and no row of the table; what is more is said to be more. The days of the next month are counted by the
//! keeper (`forecast_days.rs`), however many rows they hold, and only read here: each says when that was. A day that no
//! keeper has counted yet is counted here, up to [`MOST_A_DAY`]. A view that is looked at often keeps the answer for a
//! moment, so that looking costs nothing.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{Postgres, forecast_days, statements};
use crate::domain::bucket::minute_start;
use crate::domain::forecast::{Due, Precision};
use crate::domain::ids::GatewayName;
use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use sqlx::{PgPool, Row};
use std::collections::BTreeMap;

/// Counted of one minute and gateway, at most.
const MOST_A_MINUTE: i64 = 1_000_000;
/// Counted here of one day and gateway, at most.
const MOST_A_DAY: i64 = 5_000;
const MINUTES: usize = 60;
const DAYS: u64 = 31;

/// What falls due, by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// When it was counted.
    pub taken_at: DateTime<Utc>,
    /// Each gateway that is on record or was asked for, by name.
    pub gateways: Vec<GatewayForecast>,
}

/// What falls due at one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayForecast {
    /// Which.
    pub gateway: GatewayName,
    /// Calls a second that a person holds it to; `None`: as configured.
    pub rate_limit: Option<u32>,
    /// Claimable now.
    pub overdue: Due,
    /// The next hour: what is left of this minute, and whole ones.
    pub minutes: Vec<Due>,
    /// The days from today (what is left of it) on, a month of them.
    pub days: Vec<Due>,
}

impl Postgres {
    /// Counts, also for gateways of these names that nobody has put on record yet.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; ask again later.
    pub async fn forecast(&self, also: &[GatewayName]) -> Result<Forecast, ScheduleError> {
        let pool = self.pool();
        let window = sqlx::query(statements::FORECAST_WINDOW).fetch_one(pool).await.map_err(before_commit)?;
        let taken_at: DateTime<Utc> = window.try_get("database_now").map_err(before_commit)?;
        let oldest: NaiveDate = window.try_get("oldest_open_day").map_err(before_commit)?;
        let names: Vec<String> = window.try_get("gateways").map_err(before_commit)?;
        let limits: Vec<Option<i32>> = window.try_get("rate_limits").map_err(before_commit)?;
        let mut asked: BTreeMap<String, Option<u32>> =
            also.iter().map(|gateway| (gateway.0.clone(), None)).collect();
        let limit = |limit: Option<i32>| limit.and_then(|most| u32::try_from(most).ok());
        asked.extend(names.into_iter().zip(limits.into_iter().map(limit)));
        let mut gateways = Vec::new();
        let near = near_spans(taken_at);
        for (name, rate_limit) in asked {
            // Beside each other: to plan the one takes as long as the other.
            let (mut near, days) = tokio::try_join!(
                count(pool, oldest, &name, &near, MOST_A_MINUTE),
                days(pool, oldest, &name, taken_at)
            )?;
            let overdue = near.remove(0).0;
            let minutes = near.into_iter().map(|(due, _)| due).collect();
            gateways.push(GatewayForecast { gateway: GatewayName(name), rate_limit, overdue, minutes, days });
        }
        Ok(Forecast { taken_at, gateways })
    }
}

/// Each day as the keeper counted it, or as far as it is counted now.
async fn days(
    pool: &PgPool,
    oldest: NaiveDate,
    gateway: &str,
    now: DateTime<Utc>,
) -> Result<Vec<Due>, ScheduleError> {
    let spans = day_spans(now);
    let mut kept = forecast_days::kept(pool, gateway, &spans).await?;
    let uncounted = |(from, _): &&Span| !kept.contains_key(&from.date_naive());
    let missing: Vec<Span> = spans.iter().filter(uncounted).copied().collect();
    for (due, live) in count(pool, oldest, gateway, &missing, MOST_A_DAY).await? {
        kept.insert(due.from.date_naive(), estimated(due, live));
    }
    Ok(kept.into_values().collect())
}

/// From when, until when; the end is not part of it.
pub(super) type Span = (DateTime<Utc>, DateTime<Utc>);

/// Everything that is overdue, the rest of this minute, and those that follow.
fn near_spans(now: DateTime<Utc>) -> Vec<Span> {
    let next = minute_start(now) + TimeDelta::minutes(1);
    let mut spans = vec![(DateTime::UNIX_EPOCH, now), (now, next)];
    let follows = |(_, end): &Span| Some((*end, *end + TimeDelta::minutes(1)));
    spans
        .extend(std::iter::successors(Some((next, next + TimeDelta::minutes(1))), follows).take(MINUTES - 1));
    spans
}

/// The rest of today, and the days that follow.
pub(super) fn day_spans(now: DateTime<Utc>) -> Vec<Span> {
    let midnight = |day: NaiveDate| day.and_time(chrono::NaiveTime::MIN).and_utc();
    let days = (0..DAYS).filter_map(|n| now.date_naive().checked_add_days(Days::new(n)));
    days.map(|day| (midnight(day).max(now), midnight(day.succ_opt().unwrap_or(day)))).collect()
}

/// A count that stopped says what the database believes to lie there, if that is more.
fn estimated(due: Due, live: i64) -> Due {
    if due.precision == Precision::AtLeast && live > due.count {
        Due { count: live, precision: Precision::About, ..due }
    } else {
        due
    }
}

/// Each span with its count, and what its day's partition is believed to hold.
pub(super) async fn count(
    pool: &PgPool,
    oldest: NaiveDate,
    gateway: &str,
    spans: &[Span],
    most: i64,
) -> Result<Vec<(Due, i64)>, ScheduleError> {
    if spans.is_empty() {
        return Ok(Vec::new());
    }
    let (starts, ends): (Vec<_>, Vec<_>) = spans.iter().copied().unzip();
    // No row is tried before it is due, so none of a later day falls into these spans.
    let last = ends.last().map_or(oldest, |end| end.date_naive());
    let counted = sqlx::query(statements::FORECAST)
        .bind(oldest)
        .bind(last)
        .bind(gateway)
        .bind(&starts)
        .bind(&ends)
        .bind(most)
        .fetch_all(pool)
        .await
        .map_err(before_commit)?;
    let read = |(row, (from, until)): (&sqlx::postgres::PgRow, &Span)| {
        let count: i64 = row.try_get("due").map_err(before_commit)?;
        let precision = if count < most { Precision::Exact } else { Precision::AtLeast };
        let live = row.try_get("live").map_err(before_commit)?;
        let first_at = row.try_get("first_at").map_err(before_commit)?;
        let counted_at = row.try_get("counted_at").map_err(before_commit)?;
        Ok((Due { from: *from, until: *until, count, precision, first_at, counted_at }, live))
    };
    counted.iter().zip(spans).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spans_leave_no_gap_and_end_at_whole_minutes_and_days() {
        let now: DateTime<Utc> = "2030-01-31T23:40:12.5Z".parse().unwrap();
        let near = near_spans(now);
        assert_eq!(near.len(), 61);
        assert!(near.windows(2).all(|two| two[0].1 == two[1].0));
        assert_eq!(near[1], (now, "2030-01-31T23:41:00Z".parse().unwrap()));
        assert_eq!(near[60].1, "2030-02-01T00:40:00Z".parse::<DateTime<Utc>>().unwrap());
        let days = day_spans(now);
        assert_eq!(days.len(), 31);
        assert_eq!(days[0], (now, "2030-02-01T00:00:00Z".parse().unwrap()));
        assert!(days.windows(2).all(|two| two[0].1 == two[1].0));
    }

    #[test]
    fn a_count_that_stopped_becomes_an_estimate_only_where_that_says_more() {
        let now = DateTime::UNIX_EPOCH;
        let due = |count, precision| Due {
            from: now,
            until: now,
            count,
            precision,
            first_at: None,
            counted_at: now,
        };
        let stopped = due(100_000, Precision::AtLeast);
        assert_eq!(estimated(stopped, 3_000_000), due(3_000_000, Precision::About));
        assert_eq!(estimated(stopped, 7), stopped);
        let counted = due(5, Precision::Exact);
        assert_eq!(estimated(counted, 3_000_000), counted);
    }
}
