//! Expired claims become UNKNOWN, and clean payments past their deadline FAILED.
//!
//! **Promises.** Never back to PENDING: a worker that died may have called the gateway. The scan skips
//! locked rows, so a settle that comes at the same instant wins. Two transactions, since a failure of
//! the second must not undo the first. If this dies here, the next pass finds the rest.

use super::claim::park_charged_before;
use super::failure::{before_commit, commit};
use super::length::interval;
use super::port::{Reaped, ScheduleError};
use super::statements;
use crate::domain::bucket::shard;
use crate::domain::ids::PaymentId;
use chrono::NaiveDate;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// Who is named in history for what no worker and no client did.
const KEEPER: &str = "keeper";

pub(super) async fn reap(pool: PgPool, margin: Duration, limit: u32) -> Result<Reaped, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let expired = expire(&mut transaction, margin, limit).await.map_err(before_commit)?;
    commit(transaction).await?;
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let deadline_failed = fail_by_deadline(&mut transaction, limit).await.map_err(before_commit)?;
    commit(transaction).await?;
    Ok(Reaped { expired, deadline_failed })
}

async fn open_days(connection: &mut PgConnection) -> Result<(NaiveDate, NaiveDate), Error> {
    let row = sqlx::query(statements::OPEN_DAYS).fetch_one(connection).await?;
    Ok((row.try_get("oldest_open_day")?, row.try_get("today")?))
}

fn grouped(candidates: Vec<(NaiveDate, Uuid)>) -> BTreeMap<NaiveDate, Vec<Uuid>> {
    let mut days: BTreeMap<NaiveDate, Vec<Uuid>> = BTreeMap::new();
    for (day, id) in candidates {
        days.entry(day).or_default().push(id);
    }
    days
}

async fn expire(connection: &mut PgConnection, margin: Duration, limit: u32) -> Result<u32, Error> {
    let (oldest, today) = open_days(connection).await?;
    let candidates = sqlx::query_as(statements::REAP_CANDIDATES)
        .bind(oldest)
        .bind(today)
        .bind(interval(margin))
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    let mut moved = 0;
    for (day, ids) in grouped(candidates) {
        let shards: Vec<i16> =
            ids.iter().map(|id| PaymentId::from_uuid(*id).map(shard).unwrap_or_default()).collect();
        let count: i64 = sqlx::query_scalar(statements::REAP)
            .bind(day)
            .bind(ids)
            .bind(shards)
            .bind(KEEPER)
            .fetch_one(&mut *connection)
            .await?;
        moved += u32::try_from(count).unwrap_or(u32::MAX);
    }
    Ok(moved)
}

async fn fail_by_deadline(connection: &mut PgConnection, limit: u32) -> Result<u32, Error> {
    let (oldest, today) = open_days(connection).await?;
    let candidates = sqlx::query_as(statements::DEADLINE_CANDIDATES)
        .bind(oldest)
        .bind(today)
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    let mut moved = 0;
    for (day, ids) in grouped(candidates) {
        let count: i64 = sqlx::query_scalar(statements::FAIL_BY_DEADLINE)
            .bind(day)
            .bind(&ids)
            .bind(KEEPER)
            .fetch_one(&mut *connection)
            .await?;
        moved += u32::try_from(count).unwrap_or(u32::MAX);
        if count < i64::try_from(ids.len()).unwrap_or(i64::MAX) {
            // Without this, those charged before a restore (R18) would be the first of every pass.
            park_charged_before(&mut *connection, day, ids, KEEPER).await?;
        }
    }
    Ok(moved)
}
