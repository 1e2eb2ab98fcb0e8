//! What the keeper does to tables: partitions ahead, drained ones dropped, old counts deleted, the bound of
//! the scans moved.
//!
//! Each verb may run in several keepers at once: the functions take a lock or a row first.

use super::failure::{at_commit, before_commit};
use super::port::ScheduleError;
use super::{migrate, statements};
use chrono::NaiveDate;
use sqlx::PgPool;

pub(super) async fn ensure(pool: PgPool, back: u32, ahead: u32) -> Result<u32, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    migrate::ensure(&mut connection, back, ahead).await
}

pub(super) async fn drop_drained(pool: PgPool, back: u32) -> Result<u32, ScheduleError> {
    let dropped: i32 = sqlx::query_scalar(statements::DROP_DRAINED_NOTICES)
        .bind(i32::try_from(back).unwrap_or(i32::MAX))
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    Ok(u32::try_from(dropped).unwrap_or(0))
}

pub(super) async fn forget_declines(pool: PgPool, limit: u32) -> Result<u64, ScheduleError> {
    let deleted = sqlx::query(statements::FORGET_DECLINES).bind(i64::from(limit)).execute(&pool).await;
    deleted.map(|deleted| deleted.rows_affected()).map_err(at_commit)
}

pub(super) async fn advance_oldest_open_day(pool: PgPool) -> Result<NaiveDate, ScheduleError> {
    sqlx::query_scalar(statements::ADVANCE_OLDEST_OPEN_DAY).fetch_one(&pool).await.map_err(at_commit)
}

pub(super) async fn is_attached(pool: PgPool, day: NaiveDate) -> Result<bool, ScheduleError> {
    sqlx::query_scalar(statements::DAY_IS_ATTACHED).bind(day).fetch_one(&pool).await.map_err(before_commit)
}
