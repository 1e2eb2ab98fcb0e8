//! Records of a due topic that no code can read: kept, so that their partition can go on.

use super::failure::{before_commit, commit};
use super::port::ScheduleError;
use super::proof::BadNoticeKept;
use super::statements;
use sqlx::PgPool;

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

pub(super) async fn keep(pool: PgPool, bad: BadRecord) -> Result<BadNoticeKept, ScheduleError> {
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
