//! The outbox as the relay sees it: stage, mark, and the leases of its shards.
//!
//! Publishing a notice deletes its row. Rows are found by what they are (shard and instant), never
//! by a cursor on a sequence, which would skip what commits late.

use super::claim::interval;
use super::failure::{before_commit, commit};
use super::port::{ScheduleError, ShardLease, Staged, StagedNotice};
use super::{row, statements};
use crate::domain::bucket::SHARDS;
use crate::domain::ids::GatewayName;
use crate::domain::intent::notice_mac;
use crate::domain::notice::Notice;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use uuid::Uuid;

/// A notice this much past its instant is looked at before it is published: its payment may have
/// moved on while no relay ran.
const OLD: TimeDelta = TimeDelta::seconds(60);
/// How far beyond the lead the relay is told of the next notice; it looks again sooner anyway.
const LOOK_AHEAD: TimeDelta = TimeDelta::hours(1);

fn shards_of(lease: &ShardLease) -> Vec<i16> {
    (0..SHARDS).filter(|shard| i32::from(*shard) % lease.partitions == lease.residue).collect()
}

pub(super) async fn stage(
    pool: PgPool,
    secret: std::sync::Arc<[u8; 32]>,
    lease: ShardLease,
    lead: Duration,
    limit: u32,
) -> Result<Staged, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let staged = read(&mut transaction, &secret, &lease, lead, limit).await.map_err(before_commit)?;
    commit(transaction).await?;
    Ok(staged)
}

async fn read(
    connection: &mut PgConnection,
    secret: &[u8; 32],
    lease: &ShardLease,
    lead: Duration,
    limit: u32,
) -> Result<Staged, Error> {
    let window = sqlx::query(statements::STAGE_WINDOW).fetch_one(&mut *connection).await?;
    let database_now: DateTime<Utc> = window.try_get("database_now")?;
    let oldest: DateTime<Utc> = window.try_get("oldest")?;
    // A lead is minutes (checked at start); one that chrono cannot hold would read everything.
    let until = database_now + TimeDelta::from_std(lead).unwrap_or(TimeDelta::hours(1));
    let shards = shards_of(lease);
    let rows = sqlx::query(statements::STAGE)
        .bind(&shards)
        .bind(oldest)
        .bind(until)
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    let full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let mut notices = Vec::with_capacity(rows.len());
    for found in &rows {
        notices.push(notice(found, secret)?);
    }
    let notices = drop_dead(connection, lease, database_now, notices).await?;
    let next_due = if full {
        None
    } else {
        sqlx::query_scalar(statements::STAGE_NEXT)
            .bind(&shards)
            .bind(until)
            .bind(until + LOOK_AHEAD)
            .fetch_one(connection)
            .await?
    };
    Ok(Staged { notices, database_now, next_due })
}

fn notice(found: &PgRow, secret: &[u8; 32]) -> Result<StagedNotice, Error> {
    let notice = Notice {
        payment: row::payment_id(found, "payment_id")?,
        gateway: GatewayName(found.try_get("gateway")?),
        lane: found.try_get("lane")?,
        due_at: found.try_get("due_at")?,
        not_before: found.try_get("not_before")?,
        attempt: found.try_get("attempt")?,
    };
    Ok(StagedNotice {
        notice_id: found.try_get("notice_id")?,
        written_at: found.try_get("written_at")?,
        shard: found.try_get("shard")?,
        mac: notice_mac(secret, &notice),
        notice,
        traceparent: found.try_get("traceparent")?,
    })
}

/// Takes out, and deletes, old notices that no claim could use any more.
async fn drop_dead(
    connection: &mut PgConnection,
    lease: &ShardLease,
    database_now: DateTime<Utc>,
    notices: Vec<StagedNotice>,
) -> Result<Vec<StagedNotice>, Error> {
    let is_old = |staged: &StagedNotice| staged.notice.not_before < database_now - OLD;
    let mut days: BTreeMap<NaiveDate, (Vec<Uuid>, Vec<i32>)> = BTreeMap::new();
    for staged in notices.iter().filter(|staged| is_old(staged)) {
        let (ids, attempts) = days.entry(staged.notice.payment.due_day()).or_default();
        ids.push(staged.notice.payment.as_uuid());
        attempts.push(staged.notice.attempt);
    }
    if days.is_empty() {
        return Ok(notices);
    }
    let mut alive: HashSet<Uuid> = HashSet::new();
    for (day, (ids, attempts)) in days {
        let found: Vec<Uuid> = sqlx::query_scalar(statements::STILL_CLAIMABLE)
            .bind(day)
            .bind(ids)
            .bind(attempts)
            .fetch_all(&mut *connection)
            .await?;
        alive.extend(found);
    }
    let (keep, dead): (Vec<_>, Vec<_>) = notices
        .into_iter()
        .partition(|staged| !is_old(staged) || alive.contains(&staged.notice.payment.as_uuid()));
    if !dead.is_empty() {
        tracing::debug!(dropped = dead.len(), "old notices that nothing can claim");
        delete(connection, lease, &dead).await?;
    }
    Ok(keep)
}

pub(super) async fn mark(
    pool: PgPool,
    lease: ShardLease,
    published: Vec<StagedNotice>,
) -> Result<bool, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let held = delete(&mut transaction, &lease, &published).await.map_err(before_commit)?;
    commit(transaction).await?;
    Ok(held)
}

async fn delete(
    connection: &mut PgConnection,
    lease: &ShardLease,
    notices: &[StagedNotice],
) -> Result<bool, Error> {
    let instants: Vec<DateTime<Utc>> = notices.iter().map(|staged| staged.notice.not_before).collect();
    let (Some(first), Some(last)) = (instants.iter().min(), instants.iter().max()) else { return Ok(true) };
    sqlx::query_scalar(statements::MARK)
        .bind(first)
        .bind(last)
        .bind(notices.iter().map(|staged| staged.notice_id).collect::<Vec<_>>())
        .bind(notices.iter().map(|staged| staged.shard).collect::<Vec<_>>())
        .bind(&instants)
        .bind(lease.partitions)
        .bind(lease.residue)
        .bind(&lease.holder)
        .bind(lease.epoch)
        .fetch_one(connection)
        .await
}

fn lease(found: &PgRow) -> Result<ShardLease, Error> {
    Ok(ShardLease {
        residue: found.try_get("residue")?,
        partitions: found.try_get("partitions")?,
        holder: found.try_get("holder")?,
        epoch: found.try_get("epoch")?,
    })
}

pub(super) async fn acquire(
    pool: PgPool,
    holder: String,
    partitions: i32,
    want: usize,
    length: Duration,
) -> Result<Vec<ShardLease>, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let rows = async {
        sqlx::query(statements::MAKE_SHARDS).bind(partitions).execute(&mut *transaction).await?;
        sqlx::query(statements::ACQUIRE_SHARDS)
            .bind(partitions)
            .bind(holder)
            .bind(i64::try_from(want).unwrap_or(i64::MAX))
            .bind(interval(length))
            .fetch_all(&mut *transaction)
            .await
    };
    let rows = rows.await.map_err(before_commit)?;
    commit(transaction).await?;
    rows.iter().map(lease).collect::<Result<_, _>>().map_err(before_commit)
}

/// The leases of one holder and partition count, as two columns.
fn columns(held: &[ShardLease]) -> (Vec<i32>, Vec<i64>) {
    held.iter().map(|lease| (lease.residue, lease.epoch)).unzip()
}

pub(super) async fn renew(
    pool: PgPool,
    held: Vec<ShardLease>,
    length: Duration,
) -> Result<Vec<ShardLease>, ScheduleError> {
    let Some(first) = held.first() else { return Ok(Vec::new()) };
    let (residues, epochs) = columns(&held);
    let rows = sqlx::query(statements::RENEW_SHARDS)
        .bind(first.partitions)
        .bind(&first.holder)
        .bind(residues)
        .bind(epochs)
        .bind(interval(length))
        .fetch_all(&pool)
        .await
        .map_err(before_commit)?;
    rows.iter().map(lease).collect::<Result<_, _>>().map_err(before_commit)
}

pub(super) async fn release(pool: PgPool, held: Vec<ShardLease>) -> Result<(), ScheduleError> {
    let Some(first) = held.first() else { return Ok(()) };
    let (residues, epochs) = columns(&held);
    sqlx::query(statements::RELEASE_SHARDS)
        .bind(first.partitions)
        .bind(&first.holder)
        .bind(residues)
        .bind(epochs)
        .execute(&pool)
        .await
        .map_err(before_commit)?;
    Ok(())
}
