//! The verbs that worker, relay and keeper use, as ports, so that the simulation can stand in.
//!
//! Lists, intake and operators talk to `schedule::Postgres` itself.

use super::proof::{Answered, ClaimAnswer, Claimed, Deferred, Settled};
use crate::domain::decision::Decision;
use crate::domain::ids::{ClaimId, Fence, GatewayName, PaymentId, WorkerName};
use crate::domain::lease::{Lease, Mono};
use crate::domain::notice::Notice;
use chrono::{DateTime, Utc};
use std::future::Future;
use std::time::Duration;

/// What a worker claims with; one gateway account a batch.
#[derive(Debug, Clone)]
pub struct ClaimTerms {
    /// Only rows of this gateway are won (rule R1).
    pub gateway: GatewayName,
    /// The account's identity, stored with an epoch that has none (rule R4).
    pub account: String,
    /// The renderer's version, stored with an epoch that has none (rule R4).
    pub renderer: i16,
    /// Who claims, for history and people.
    pub worker: WorkerName,
    /// How long.
    pub lease: Lease,
    /// The instant before this call, on the host's suspend-counting clock.
    pub asked_at: Mono,
}

/// What the caller can do about a verb that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// Nothing happened, for certain; try again after a pause.
    #[error("the database is not reachable: {0}")]
    Unavailable(#[source] BoxError),
    /// COMMIT was sent and its answer lost: it may have happened. Use the verb's own recovery.
    #[error("the answer to COMMIT was lost: {0}")]
    CommitUnknown(#[source] BoxError),
    /// A defect or a schema that does not fit; do not retry, stop and say so.
    #[error("the database refused: {0}")]
    Defect(#[source] BoxError),
}

/// For loops that try again: what was done, or `None` after a trouble that passes, which is logged as
/// trouble with `what`.
///
/// # Errors
/// [`ScheduleError::Defect`], which trying again does not mend.
pub fn unless_defect<T>(
    what: &'static str,
    result: Result<T, ScheduleError>,
) -> Result<Option<T>, ScheduleError> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(defect @ ScheduleError::Defect(_)) => Err(defect),
        Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::CommitUnknown(_))) => {
            tracing::warn!(%error, "{what}");
            Ok(None)
        }
    }
}

/// A claim whose worker waits for the gateway's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenClaim {
    /// Of which payment.
    pub payment: PaymentId,
    /// The claim's fence.
    pub fence: Fence,
    /// The claim's name.
    pub claim_id: ClaimId,
}

/// What a renewal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// The claim holds the row, for a whole lease from now on.
    Held,
    /// It does not: it expired and was taken away, or its outcome is written. Nothing was changed.
    Lost,
}

/// A kept source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A settle that wrote nothing for certain, with the whole batch handed back.
#[derive(Debug)]
pub struct SettleFailed {
    /// Everything that was given, in order.
    pub batch: Vec<(Answered, Decision)>,
    /// Why.
    pub error: ScheduleError,
}

/// A relay shard held by us until it is taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardLease {
    /// Shard mod partitions.
    pub residue: i32,
    /// Of how many partitions.
    pub partitions: i32,
    /// The holder's name.
    pub holder: String,
    /// Fencing epoch; grows with every change of holder and is checked by `mark`.
    pub epoch: i64,
}

/// Where one relay stands among those that live and write the same ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Relays that live beside it.
    pub others: usize,
    /// Of these, how many have been here for longer.
    pub older: usize,
}

/// One row of the outbox, ready to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedNotice {
    /// The row's own number, for `mark`.
    pub notice_id: i64,
    /// What partition of the outbox it lies in, for `mark`.
    pub written_at: DateTime<Utc>,
    /// murmur2(id text) mod 48.
    pub shard: i16,
    /// What to publish.
    pub notice: Notice,
    /// The trace of the request that made it, W3C form.
    pub traceparent: Option<String>,
    /// HMAC of the notice under the installation's secret (rule R17), lower-case hex.
    pub mac: String,
}

/// What one staging pass found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// In due order.
    pub notices: Vec<StagedNotice>,
    /// The database's clock at the read; decides ring or now.
    pub database_now: DateTime<Utc>,
    /// When the next row beyond the lead becomes stageable; `None` if there is none.
    pub next_due: Option<DateTime<Utc>>,
}

/// What a reaper pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reaped {
    /// Expired claims made UNKNOWN, each with its re-ask notice.
    pub expired: u32,
    /// Clean PENDING rows past `executeBefore`, made FAILED.
    pub deadline_failed: u32,
}

/// The schedule as worker, relay and keeper see it.
pub trait Schedule: Send + Sync + 'static {
    /// Reads due notices of one residue up to `lead` ahead, at most `limit`, in due order.
    fn stage(
        &self,
        shard: &ShardLease,
        lead: Duration,
        limit: u32,
    ) -> impl Future<Output = Result<Staged, ScheduleError>> + Send;

    /// Reads due notices of one residue of the earliest whole minute between two leads in which at least
    /// `limit` of them wait, at most `limit`, in due order; none if no minute there is so crowded. Each
    /// minute has a topic of its own, so publishing one before an earlier one disturbs no order.
    fn stage_crowd(
        &self,
        shard: &ShardLease,
        beyond: Duration,
        within: Duration,
        limit: u32,
    ) -> impl Future<Output = Result<Staged, ScheduleError>> + Send;

    /// Records that these were acknowledged by Kafka. `false`: the shard is no longer ours, and
    /// nothing was marked.
    fn mark(
        &self,
        shard: &ShardLease,
        published: &[StagedNotice],
    ) -> impl Future<Output = Result<bool, ScheduleError>> + Send;

    /// Claims a batch of one gateway; one answer a notice, in input order (rule R1). `claim_ids`
    /// has one fresh id a notice.
    fn claim(
        &self,
        terms: &ClaimTerms,
        notices: &[Notice],
        claim_ids: &[ClaimId],
    ) -> impl Future<Output = Result<Vec<ClaimAnswer>, ScheduleError>> + Send;

    /// Claims up to `claim_ids.len()` rows at least `late_by` overdue, oldest first, skipping locked, and
    /// passing over the rows of the lanes in `but_lanes`.
    fn claim_late(
        &self,
        terms: &ClaimTerms,
        late_by: Duration,
        but_lanes: &[i16],
        claim_ids: &[ClaimId],
    ) -> impl Future<Output = Result<Vec<Claimed>, ScheduleError>> + Send;

    /// After `CommitUnknown` of a claim: writes by claim id and waits for that COMMIT (rule R3).
    /// Answers the claims that are ours.
    fn recover(
        &self,
        terms: &ClaimTerms,
        claimed: &[(PaymentId, ClaimId)],
    ) -> impl Future<Output = Result<Vec<Claimed>, ScheduleError>> + Send;

    /// Grants `length` anew to each of these claims that holds its row (rule R14), by the database's clock;
    /// one answer a claim, in input order. Repeating it is safe.
    fn renew(
        &self,
        claims: &[OpenClaim],
        length: Duration,
    ) -> impl Future<Output = Result<Vec<Renewed>, ScheduleError>> + Send;

    /// Writes a batch of outcomes under their fences; one `Settled` a row, in order (rule R2).
    /// Repeating it after any failure is safe.
    fn settle(
        &self,
        batch: Vec<(Answered, Decision)>,
    ) -> impl Future<Output = Result<Vec<Settled>, SettleFailed>> + Send;

    /// Confirms that a held notice's row is durable, claimable and overdue, so that the late scan
    /// owns it (rule R11); `None` where that is not so.
    fn defer(
        &self,
        notices: &[Notice],
    ) -> impl Future<Output = Result<Vec<Option<Deferred>>, ScheduleError>> + Send;

    /// Turns expired claims into UNKNOWN and clean overdue deadlines into FAILED, at most `limit`.
    fn reap(
        &self,
        margin: Duration,
        limit: u32,
    ) -> impl Future<Output = Result<Reaped, ScheduleError>> + Send;
}

/// The relay's shard leases. After any error repeating it is safe, and what was taken or given back
/// unseen runs out by itself.
pub trait Shards: Send + Sync {
    /// Says for `length` that this relay lives, and answers where it stands among the others that write
    /// a ring of `partitions`.
    fn enlist_relay(
        &self,
        holder: &str,
        partitions: i32,
        length: Duration,
    ) -> impl Future<Output = Result<Standing, ScheduleError>> + Send;

    /// Takes free or expired shards of a ring of `partitions`, at most `want`, for `length`; each with a
    /// grown epoch.
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

    /// Gives everything back and goes: the others share it.
    fn retire_relay(
        &self,
        holder: &str,
        partitions: i32,
        held: &[ShardLease],
    ) -> impl Future<Output = Result<(), ScheduleError>> + Send;
}
