//! Which partitions this relay writes: shards leased in Postgres with a fencing epoch.

use crate::schedule::{ScheduleError, ShardLease};
use std::future::Future;

/// The leases, as the schedule keeps them.
pub trait Shards: Send + Sync {
    /// Takes free or expired shards, at most `want`, for `holder`; each with a grown epoch.
    fn acquire_shards(
        &self,
        holder: &str,
        partitions: i32,
        want: usize,
    ) -> impl Future<Output = Result<Vec<ShardLease>, ScheduleError>> + Send;

    /// Prolongs those that are still ours; answers which.
    fn renew_shards(
        &self,
        held: &[ShardLease],
    ) -> impl Future<Output = Result<Vec<ShardLease>, ScheduleError>> + Send;

    /// Gives them back, so that another takes over without waiting for the lease to end.
    fn release_shards(&self, held: &[ShardLease]) -> impl Future<Output = Result<(), ScheduleError>> + Send;
}
