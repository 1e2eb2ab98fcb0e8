//! Lengths of time as Postgres wants them.

use sqlx::postgres::types::PgInterval;
use std::time::Duration;

/// A length as Postgres wants it; longer than 292,000 years is cut.
pub(super) fn interval(length: Duration) -> PgInterval {
    let microseconds = i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds }
}
