//! The counts of the next month's days, which the keeper makes anew and everybody else reads.
//!
//! **Promises.** A count is what one index said at the instant that stands beside it; it decides nothing. Counting
//! again takes a twentieth of the time of one connection at most, however full the month is: a day whose counting took
//! long rests for long (`forecast_stalest.sql`). A day is counted in one statement if it holds fewer than a piece, and
//! otherwise hour by hour, and a crowded hour minute by minute, so that no statement reads for longer than a few
//! seconds; its sum is then of as many instants.
//!
//! **Why not a counter that every create raises**: the creates of a minute would wait for one row, and cancels,
//! retries, re-drives and claims would all have to remember it. An index knows it already. **If this dies here**, the
//! counts grow old and say so.

use super::failure::{at_commit, before_commit};
use super::forecast::{Span, count, day_spans};
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::forecast::{Due, Precision};
use crate::domain::ids::GatewayName;
use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use sqlx::{PgPool, Row};
use std::collections::BTreeMap;

/// What a span is cut into that holds more than one statement counts.
const PIECES: [TimeDelta; 2] = [TimeDelta::hours(1), TimeDelta::minutes(1)];

impl Postgres {
    /// Counts the day that waits for it longest, of the gateways on record and of these; no statement counts `piece`
    /// rows or more. Answers which; `None`: all are fresh.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; repeating it does no harm.
    pub async fn recount_forecast(
        &self,
        also: &[GatewayName],
        piece: i64,
    ) -> Result<Option<(GatewayName, NaiveDate)>, ScheduleError> {
        let pool = self.pool();
        let also: Vec<&str> = also.iter().map(|gateway| gateway.0.as_str()).collect();
        let stalest = sqlx::query(statements::FORECAST_STALEST).bind(also).fetch_optional(pool).await;
        let Some(row) = stalest.map_err(before_commit)? else { return Ok(None) };
        let gateway: String = row.try_get("gateway").map_err(before_commit)?;
        let day: NaiveDate = row.try_get("day").map_err(before_commit)?;
        let oldest: NaiveDate = row.try_get("oldest_open_day").map_err(before_commit)?;
        let counted_at: DateTime<Utc> = row.try_get("database_now").map_err(before_commit)?;
        // Midnight passed since: the next look names another day.
        let Some(span) = day_spans(counted_at).into_iter().find(|span| span.0.date_naive() == day) else {
            return Ok(None);
        };
        let due = whole_span(pool, oldest, &gateway, span, piece).await?;
        let kept = sqlx::query(statements::KEEP_FORECAST_DAY)
            .bind(&gateway)
            .bind(day)
            .bind(span.0)
            .bind(due.count)
            .bind(due.precision == Precision::Exact)
            .bind(due.first_at)
            .bind(counted_at);
        kept.execute(pool).await.map_err(at_commit)?;
        Ok(Some((GatewayName(gateway), day)))
    }
}

/// All of a span, however many statements it takes.
async fn whole_span(
    pool: &PgPool,
    oldest: NaiveDate,
    gateway: &str,
    span: Span,
    piece: i64,
) -> Result<Due, ScheduleError> {
    let mut left = vec![(span, 0)];
    let mut sum: Option<Due> = None;
    while let Some((span, cuts)) = left.pop() {
        for (due, _) in count(pool, oldest, gateway, &[span], piece).await? {
            match PIECES.get(cuts) {
                Some(width) if due.precision != Precision::Exact => {
                    left.extend(cut(span, *width).into_iter().map(|part| (part, cuts + 1)));
                }
                Some(_) | None => sum = Some(added(sum, due)),
            }
        }
    }
    // One span at least was counted to its end.
    sum.ok_or_else(|| ScheduleError::Defect("a span of no pieces".into()))
}

fn added(sum: Option<Due>, due: Due) -> Due {
    let Some(sum) = sum else { return due };
    let precision = if sum.precision == Precision::Exact { due.precision } else { sum.precision };
    let first_at = [sum.first_at, due.first_at].into_iter().flatten().min();
    Due { count: sum.count.saturating_add(due.count), precision, first_at, ..sum }
}

/// A span in parts of this width, the first and the last of them shorter if they must be.
fn cut((from, until): Span, width: TimeDelta) -> Vec<Span> {
    let us = width.num_microseconds().unwrap_or(1).max(1);
    let next = |at: DateTime<Utc>| {
        let into = at.timestamp_micros().rem_euclid(us);
        at + TimeDelta::microseconds(us - into)
    };
    let mut parts = Vec::new();
    let mut at = from;
    while at < until {
        let end = next(at).min(until);
        parts.push((at, end));
        at = end;
    }
    parts
}

/// What was counted of the days of these spans.
pub(super) async fn kept(
    pool: &PgPool,
    gateway: &str,
    spans: &[Span],
) -> Result<BTreeMap<NaiveDate, Due>, ScheduleError> {
    let day = |span: Option<&Span>| span.map(|(from, _)| from.date_naive());
    let rows = sqlx::query(statements::FORECAST_DAYS)
        .bind(gateway)
        .bind(day(spans.first()))
        .bind(day(spans.last()))
        .fetch_all(pool)
        .await;
    let read = |row: &sqlx::postgres::PgRow| -> Result<(NaiveDate, Due), sqlx::Error> {
        let day: NaiveDate = row.try_get("day")?;
        let next = day.checked_add_days(Days::new(1)).unwrap_or(day);
        let is_exact: bool = row.try_get("is_exact")?;
        let due = Due {
            from: row.try_get("from_at")?,
            until: next.and_time(chrono::NaiveTime::MIN).and_utc(),
            count: row.try_get("due")?,
            precision: if is_exact { Precision::Exact } else { Precision::AtLeast },
            first_at: row.try_get("first_at")?,
            counted_at: row.try_get("counted_at")?,
        };
        Ok((day, due))
    };
    rows.map_err(before_commit)?.iter().map(read).collect::<Result<_, _>>().map_err(before_commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_span_is_cut_at_whole_hours_and_minutes_without_a_gap() {
        let day = (at("2030-01-31T21:40:12.5Z"), at("2030-02-01T00:00:00Z"));
        let hours = cut(day, TimeDelta::hours(1));
        let starts: Vec<_> = hours.iter().map(|(from, _)| *from).collect();
        assert_eq!(starts, [day.0, at("2030-01-31T22:00:00Z"), at("2030-01-31T23:00:00Z")]);
        assert!(hours.windows(2).all(|two| two[0].1 == two[1].0));
        assert_eq!(hours[2].1, day.1);
        let minutes = cut(hours[0], TimeDelta::minutes(1));
        assert_eq!((minutes.len(), minutes[0].1), (20, at("2030-01-31T21:41:00Z")));
        assert_eq!(minutes[19].1, at("2030-01-31T22:00:00Z"));
    }

    #[test]
    fn a_sum_is_no_more_exact_than_its_least_exact_piece() {
        let now = DateTime::UNIX_EPOCH;
        let due = |count, precision, first_at| Due {
            from: now,
            until: now,
            count,
            precision,
            first_at,
            counted_at: now,
        };
        let later = now + TimeDelta::seconds(9);
        let sum = added(Some(due(5, Precision::Exact, Some(later))), due(7, Precision::AtLeast, Some(now)));
        assert_eq!((sum.count, sum.precision, sum.first_at), (12, Precision::AtLeast, Some(now)));
        let sum = added(Some(sum), due(0, Precision::Exact, None));
        assert_eq!((sum.count, sum.precision, sum.first_at), (12, Precision::AtLeast, Some(now)));
    }
}
