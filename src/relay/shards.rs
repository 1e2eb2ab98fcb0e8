//! Which partitions this relay writes: shards leased in Postgres with a fencing epoch.

use crate::schedule::{Postgres, ScheduleError, ShardLease};
use std::future::Future;
use std::time::Duration;

/// The leases, as the schedule keeps them.
pub trait Shards: Send + Sync {
    /// Takes free or expired shards, at most `want`, for `length`; each with a grown epoch.
    fn acquire_shards(
        &self,
        holder: &str,
        partitions: i32,
        want: usize,
        length: Duration,
    ) -> impl Future<Output = Result<Vec<ShardLease>, ScheduleError>> + Send;

    /// Prolongs those that are still ours to `length` from now; answers which.
    fn renew_shards(
        &self,
        held: &[ShardLease],
        length: Duration,
    ) -> impl Future<Output = Result<Vec<ShardLease>, ScheduleError>> + Send;

    /// Gives them back, so that another takes over without waiting for the lease to end.
    fn release_shards(&self, held: &[ShardLease]) -> impl Future<Output = Result<(), ScheduleError>> + Send;
}

impl Shards for Postgres {
    async fn acquire_shards(
        &self,
        holder: &str,
        partitions: i32,
        want: usize,
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        Self::acquire_shards(self, holder, partitions, want, length).await
    }

    async fn renew_shards(
        &self,
        held: &[ShardLease],
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        Self::renew_shards(self, held, length).await
    }

    async fn release_shards(&self, held: &[ShardLease]) -> Result<(), ScheduleError> {
        Self::release_shards(self, held).await
    }
}
