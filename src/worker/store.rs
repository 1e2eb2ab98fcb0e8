//! What the loop asks of the schedule beside the steps' verbs.
//!
//! **Promises.** An unreadable record is kept before its offset is complete, however often that must
//! be tried: the watermark of its partition waits for it, the records behind it do not. If this dies
//! here, the record is read again.

use crate::bucket::{BadNotice, Names, Position};
use crate::platform::clock::Clock;
use crate::schedule::{BadNoticeKept, BadRecord, Postgres, ScheduleError};
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use std::time::Duration;

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A database that tells its time and keeps what nobody can read.
pub trait Store: Send + Sync + 'static {
    /// The database's clock.
    fn database_now(&self) -> BoxFuture<'_, Result<DateTime<Utc>, ScheduleError>>;

    /// Keeps an unreadable record in `bad_notices`; repeating it is harmless.
    fn keep_bad_notice<'a>(
        &'a self,
        at: Position,
        bad: &'a BadNotice,
    ) -> BoxFuture<'a, Result<BadNoticeKept, ScheduleError>>;
}

/// Keeps it, with pauses, until that is durable.
pub(super) async fn keep(
    store: &dyn Store,
    clock: &dyn Clock,
    at: Position,
    bad: &BadNotice,
) -> BadNoticeKept {
    let mut pause = Duration::from_millis(500);
    loop {
        match store.keep_bad_notice(at, bad).await {
            Ok(kept) => return kept,
            Err(error) => {
                tracing::warn!(%error, ?at, "an unreadable record is not kept yet");
                clock.sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// The database of the schedule as the loop's store; topics are named by `names`.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    /// The truth.
    pub schedule: Postgres,
    /// Of the ring that the records come from.
    pub names: Names,
}

impl Store for PostgresStore {
    fn database_now(&self) -> BoxFuture<'_, Result<DateTime<Utc>, ScheduleError>> {
        Box::pin(self.schedule.database_now())
    }

    fn keep_bad_notice<'a>(
        &'a self,
        at: Position,
        bad: &'a BadNotice,
    ) -> BoxFuture<'a, Result<BadNoticeKept, ScheduleError>> {
        let record = BadRecord {
            topic: self.names.topic(at.channel()),
            partition: at.partition(),
            offset: at.offset(),
            reason: bad.reason.to_string(),
            key: bad.key.clone(),
            payload: bad.value.clone(),
        };
        Box::pin(self.schedule.keep_bad_notice(record))
    }
}
