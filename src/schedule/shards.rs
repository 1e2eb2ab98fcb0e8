//! Which relay writes which Kafka partitions: leases with a fencing epoch that grows with each change
//! of hands, judged by the database clock; and which relays there are to share them.
//!
//! A few statements a second and relay, each about all of its shards at once; none of them is on the way
//! of a notice.

use super::failure::{before_commit, commit};
use super::length::interval;
use super::port::{ScheduleError, ShardLease, Standing};
use super::statements;
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::time::Duration;

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

pub(super) async fn enlist(
    pool: PgPool,
    holder: String,
    partitions: i32,
    length: Duration,
) -> Result<Standing, ScheduleError> {
    let row = sqlx::query(statements::ENLIST_RELAY)
        .bind(partitions)
        .bind(holder)
        .bind(interval(length))
        .fetch_one(&pool)
        .await
        .map_err(before_commit)?;
    // A count is never negative, and nobody runs so many.
    let count = |column| row.try_get::<i64, _>(column).map(|count| usize::try_from(count).unwrap_or(0));
    let standing = || Ok::<_, Error>(Standing { others: count("others")?, older: count("older")? });
    standing().map_err(before_commit)
}

pub(super) async fn release(pool: PgPool, held: Vec<ShardLease>) -> Result<(), ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    free(&mut connection, &held).await.map_err(before_commit)
}

async fn free(connection: &mut PgConnection, held: &[ShardLease]) -> Result<(), Error> {
    let Some(first) = held.first() else { return Ok(()) };
    let (residues, epochs) = columns(held);
    sqlx::query(statements::RELEASE_SHARDS)
        .bind(first.partitions)
        .bind(&first.holder)
        .bind(residues)
        .bind(epochs)
        .execute(connection)
        .await?;
    Ok(())
}

pub(super) async fn retire(
    pool: PgPool,
    holder: String,
    partitions: i32,
    held: Vec<ShardLease>,
) -> Result<(), ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    free(&mut transaction, &held).await.map_err(before_commit)?;
    sqlx::query(statements::RETIRE_RELAY)
        .bind(partitions)
        .bind(holder)
        .execute(&mut *transaction)
        .await
        .map_err(before_commit)?;
    commit(transaction).await
}
