//! Takes published notices out of the outbox, while the shard is still ours.
//!
//! If this dies between Kafka's acknowledgement and COMMIT, they are published again: claims refuse
//! duplicates.

use super::failure::{before_commit, commit};
use super::port::{ScheduleError, ShardLease, StagedNotice};
use super::statements;
use chrono::{DateTime, Utc};
use sqlx::{Error, PgConnection, PgPool};

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

/// Deletes them if the shard is still ours; answers whether it is.
pub(super) async fn delete(
    connection: &mut PgConnection,
    lease: &ShardLease,
    notices: &[StagedNotice],
) -> Result<bool, Error> {
    let instants: Vec<DateTime<Utc>> = notices.iter().map(|staged| staged.notice.not_before).collect();
    // Of no notice at all nothing is deleted, and whether the shard is ours is answered all the same.
    sqlx::query_scalar(statements::MARK)
        .bind(instants.iter().min())
        .bind(instants.iter().max())
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
