//! What watches the schedule: expired leases, deadlines, deferred notices, partitions, bad records.

use super::claim::interval;
use super::days::by_day;
use super::failure::{before_commit, commit};
use super::port::{Reaped, ScheduleError};
use super::proof::{BadNoticeKept, Deferred};
use super::statements;
use crate::domain::bucket::shard;
use crate::domain::ids::PaymentId;
use crate::domain::notice::Notice;
use chrono::NaiveDate;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::{BTreeMap, HashSet};
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
            .bind(ids)
            .bind(KEEPER)
            .fetch_one(&mut *connection)
            .await?;
        moved += u32::try_from(count).unwrap_or(u32::MAX);
    }
    Ok(moved)
}

pub(super) async fn defer(
    pool: PgPool,
    notices: Vec<Notice>,
) -> Result<Vec<Option<Deferred>>, ScheduleError> {
    let mut owned: HashSet<(Uuid, i32)> = HashSet::new();
    for (day, places) in by_day(&notices, |notice| notice.payment) {
        let ids: Vec<Uuid> = places.iter().map(|place| notices[*place].payment.as_uuid()).collect();
        let attempts: Vec<i32> = places.iter().map(|place| notices[*place].attempt).collect();
        let found: Vec<(Uuid, i32)> = sqlx::query_as(statements::DEFER)
            .bind(day)
            .bind(ids)
            .bind(attempts)
            .fetch_all(&pool)
            .await
            .map_err(before_commit)?;
        owned.extend(found);
    }
    let is_owned = |notice: &Notice| owned.contains(&(notice.payment.as_uuid(), notice.attempt));
    Ok(notices.iter().map(|notice| is_owned(notice).then(Deferred::new)).collect())
}

/// A record that no code can read, as it came.
#[derive(Debug, Clone)]
pub struct BadRecord {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// What is wrong with it, for people.
    pub reason: String,
    /// Its key, cut to 1 KiB.
    pub key: Option<Vec<u8>>,
    /// Its value, cut to 16 KiB.
    pub payload: Option<Vec<u8>>,
}

pub(super) async fn keep_bad_notice(pool: PgPool, bad: BadRecord) -> Result<BadNoticeKept, ScheduleError> {
    let cut = |bytes: Option<Vec<u8>>, most: usize| {
        bytes.map(|mut bytes| {
            bytes.truncate(most);
            bytes
        })
    };
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    sqlx::query(statements::KEEP_BAD_NOTICE)
        .bind(bad.topic)
        .bind(bad.partition)
        .bind(bad.offset)
        .bind(bad.reason)
        .bind(cut(bad.key, 1_024))
        .bind(cut(bad.payload, 16_384))
        .execute(&mut *transaction)
        .await
        .map_err(before_commit)?;
    commit(transaction).await?;
    Ok(BadNoticeKept::new())
}
