//! What the keeper asks of the schedule beside `reap`: work on tables, not on payments.

use crate::schedule::{Backlog, Postgres, ScheduleError};
use chrono::NaiveDate;
use std::future::Future;

/// A schedule whose partitions are looked after. Each verb is safe to repeat, alone or at once with
/// another keeper's.
pub trait Upkeep: Send + Sync + 'static {
    /// Makes the day partitions from `back` days before today to `ahead` days after it that are
    /// missing; answers how many it made.
    fn ensure_partitions(
        &self,
        back: u32,
        ahead: u32,
    ) -> impl Future<Output = Result<u32, ScheduleError>> + Send;

    /// Drops outbox partitions more than `back` days old in which every notice is published; answers
    /// how many.
    fn drop_drained_notices(&self, back: u32) -> impl Future<Output = Result<u32, ScheduleError>> + Send;

    /// Deletes at most `limit` counts of declines that no claim looks at any more; answers how many.
    fn forget_declines(&self, limit: u32) -> impl Future<Output = Result<u64, ScheduleError>> + Send;

    /// Deletes at most `limit` callbacks that no sender repeats any more; answers how many.
    fn forget_callbacks(&self, limit: u32) -> impl Future<Output = Result<u64, ScheduleError>> + Send;

    /// Deletes at most `limit` sums of past days that no create adds to any more; answers how many.
    fn forget_actor_days(&self, limit: u32) -> impl Future<Output = Result<u64, ScheduleError>> + Send;

    /// Drops days of webhook deliveries more than `keep` days old that owe nothing, and forgets endpoints that were
    /// deleted before them; answers how many days.
    fn drop_webhook_days(&self, keep: u32) -> impl Future<Output = Result<u32, ScheduleError>> + Send;

    /// Discards at most `limit` deliveries that are owed to endpoints which were deleted, or have been disabled for a week;
    /// answers how many.
    fn discard_deliveries(&self, limit: u32) -> impl Future<Output = Result<u64, ScheduleError>> + Send;

    /// Moves the oldest open day as far on as no open row forbids; answers where it is.
    fn advance_oldest_open_day(&self) -> impl Future<Output = Result<NaiveDate, ScheduleError>> + Send;

    /// What waits, for gauges; counts no more than `most` notices.
    fn backlog(&self, most: u32) -> impl Future<Output = Result<Backlog, ScheduleError>> + Send;
}

impl Upkeep for Postgres {
    async fn ensure_partitions(&self, back: u32, ahead: u32) -> Result<u32, ScheduleError> {
        Self::ensure_partitions(self, back, ahead).await
    }

    async fn drop_drained_notices(&self, back: u32) -> Result<u32, ScheduleError> {
        Self::drop_drained_notices(self, back).await
    }

    async fn forget_declines(&self, limit: u32) -> Result<u64, ScheduleError> {
        Self::forget_declines(self, limit).await
    }

    async fn forget_callbacks(&self, limit: u32) -> Result<u64, ScheduleError> {
        Self::forget_callbacks(self, limit).await
    }

    async fn forget_actor_days(&self, limit: u32) -> Result<u64, ScheduleError> {
        Self::forget_actor_days(self, limit).await
    }

    async fn drop_webhook_days(&self, keep: u32) -> Result<u32, ScheduleError> {
        Self::drop_webhook_days(self, keep).await
    }

    async fn discard_deliveries(&self, limit: u32) -> Result<u64, ScheduleError> {
        Self::discard_deliveries(self, limit).await
    }

    async fn advance_oldest_open_day(&self) -> Result<NaiveDate, ScheduleError> {
        Self::advance_oldest_open_day(self).await
    }

    async fn backlog(&self, most: u32) -> Result<Backlog, ScheduleError> {
        Self::backlog(self, most).await
    }
}
