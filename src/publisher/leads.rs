//! Who leads: the lease on the lane of events, and what this process knows of itself.

use crate::schedule::{Postgres, PublisherLease, ScheduleError};
use std::future::Future;
use std::time::Duration;

/// The lease, as the schedule keeps it.
pub trait Leads: Send + Sync {
    /// Takes the lead if nobody has it, with a grown epoch; `None` while another leads.
    fn acquire(
        &self,
        holder: &str,
        length: Duration,
    ) -> impl Future<Output = Result<Option<PublisherLease>, ScheduleError>> + Send;

    /// Prolongs it to `length` from now; `false`: it is not ours any more.
    fn renew(
        &self,
        lease: &PublisherLease,
        length: Duration,
    ) -> impl Future<Output = Result<bool, ScheduleError>> + Send;

    /// Gives it back, so that another takes over without waiting for its end.
    fn release(&self, lease: &PublisherLease) -> impl Future<Output = Result<(), ScheduleError>> + Send;
}

impl Leads for Postgres {
    async fn acquire(&self, holder: &str, length: Duration) -> Result<Option<PublisherLease>, ScheduleError> {
        self.acquire_publisher(holder, length).await
    }

    async fn renew(&self, lease: &PublisherLease, length: Duration) -> Result<bool, ScheduleError> {
        self.renew_publisher(lease, length).await
    }

    async fn release(&self, lease: &PublisherLease) -> Result<(), ScheduleError> {
        self.release_publisher(lease).await
    }
}

/// What a publisher tells about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Condition {
    /// It moves the cursor; the others stand by, which is just as healthy.
    pub leads: bool,
    /// Rows came from another server and wait for this one's transaction ids: an operator raises the
    /// epoch of the ids (`pg_resetwal -e`) while the server is stopped.
    pub is_ahead: bool,
}
