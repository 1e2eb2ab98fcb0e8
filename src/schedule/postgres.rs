//! The schedule in Postgres: every verb by name, each in a file of its own.
//!
//! **Promises.** A verb, once begun, runs to its end even if its caller goes away ([`whole`]): a
//! transaction whose future is dropped half-way would leave its outcome to chance. **Relies on** the
//! database clock for every "due", "expired" and "late".

use super::bad_notices::BadRecord;
use super::cancel::Canceller;
use super::claim::{Ask, Terms};
use super::create_batch::{AskedKey, BatchAnswer, Together};
use super::failure::{before_commit, whole};
use super::history::{HistoryEntry, HistoryProof};
use super::key_acts::By;
use super::list::{ListFilter, ListOrder, ListPage, LookUp, Place};
use super::port::{
    ClaimTerms, OpenClaim, Reaped, Renewed, Schedule, ScheduleError, SettleFailed, ShardLease, Shards,
    Staged, StagedNotice, Standing,
};
use super::proof::{Answered, BadNoticeKept, ClaimAnswer, Claimed, Deferred, Settled};
use super::records::{CancelAnswer, CreateAnswer, NewPayment, PaymentView};
use super::witness::Witness;
use super::{
    audit, bad_notices, cancel, claim, claim_late, create, create_batch, defer, find, history, lineage, list,
    mark, partitions, reap, recover, renew, settle, shards, stage, statements,
};
use crate::domain::decision::Decision;
use crate::domain::declines::DestinationKeys;
use crate::domain::facts::VoidSupport;
use crate::domain::ids::{ActorId, ClaimId, GatewayName, PaymentId};
use crate::domain::intent::Secret;
use crate::domain::notice::Notice;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgPool, Row};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The schedule in Postgres. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Postgres {
    pool: PgPool,
    secret: Arc<Hidden>,
    witness: Witness,
}

/// The installation's secret, which no `Debug` shows.
struct Hidden(Secret);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Postgres {
    pub(super) fn new(pool: PgPool, secret: Secret) -> Self {
        Self { pool, secret: Arc::new(Hidden(secret)), witness: Witness::default() }
    }

    /// For verbs that live in files of their own.
    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    fn terms(&self, terms: &ClaimTerms) -> Terms {
        Terms {
            terms: terms.clone(),
            destinations: DestinationKeys::of(&self.secret.0),
            witness: self.witness.clone(),
        }
    }

    /// Ends every connection after its statement; verbs called later are `Unavailable`.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// The installation's secret (rules R17, R18), read once at connect.
    #[must_use]
    pub fn installation_secret(&self) -> &[u8; 32] {
        &self.secret.0
    }

    /// Creates a payment with its idempotency key, history and due notice in one transaction.
    ///
    /// # Errors
    /// `CommitUnknown` is first resolved inside by asking again under the same key; where that did
    /// not help it is answered, and repeating under the same key stays safe. `Unavailable` (nothing
    /// happened) or `Defect`.
    pub async fn create(&self, new: &NewPayment) -> Result<CreateAnswer, ScheduleError> {
        whole(create::create(self.pool.clone(), new.clone())).await
    }

    /// What this key created earlier, compared with this request; `None` if it created nothing. Never
    /// creates: intake asks it for a request that its rules refuse *now*, such as a due time that
    /// has passed since, which may have been accepted before under the same key. It waits for a
    /// create of this key that is in flight.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` (repeat it) or `Defect`.
    pub async fn replay(
        &self,
        actor: ActorId,
        idempotency_key: &str,
        request_hash: &[u8; 32],
        field_digests: &BTreeMap<String, String>,
    ) -> Result<Option<CreateAnswer>, ScheduleError> {
        let key = idempotency_key.to_owned();
        whole(create::replay(self.pool.clone(), actor, key, *request_hash, field_digests.clone())).await
    }

    /// Creates many payments of one actor, whose idempotency keys are all different, in few statements.
    ///
    /// # Errors
    /// As [`Self::create`]; some of them may have been created, and repeating all of them is safe.
    pub async fn create_batch(
        &self,
        new: Vec<NewPayment>,
        together: Together,
    ) -> Result<BatchAnswer, ScheduleError> {
        whole(create_batch::create_batch(self.pool.clone(), new, together)).await
    }

    /// What [`Self::replay`] answers, for many keys at once, in their order.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` (repeat it) or `Defect`.
    pub async fn replays(
        &self,
        actor: ActorId,
        asked: Vec<AskedKey>,
    ) -> Result<Vec<Option<CreateAnswer>>, ScheduleError> {
        whole(create_batch::replays(self.pool.clone(), actor, asked)).await
    }

    /// One payment of this actor with its attempts; `None` for another actor's.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn find(&self, actor: ActorId, id: PaymentId) -> Result<Option<PaymentView>, ScheduleError> {
        whole(find::find(self.pool.clone(), actor, id)).await
    }

    /// A page of this actor's payments: at most `limit`, from behind `after`; see [`ListPage`].
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn list(
        &self,
        actor: ActorId,
        filter: &ListFilter,
        order: ListOrder,
        after: Option<Place>,
        limit: usize,
    ) -> Result<ListPage, ScheduleError> {
        whole(list::list(self.pool.clone(), actor, filter.clone(), order, after, limit)).await
    }

    /// The payment of this actor with this name, if it passes the filter.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn look_up(
        &self,
        actor: ActorId,
        by: &LookUp,
        filter: &ListFilter,
    ) -> Result<Vec<PaymentView>, ScheduleError> {
        whole(list::look_up(self.pool.clone(), actor, by.clone(), filter.clone())).await
    }

    /// The whole history of one payment of this actor, oldest first; `None` for another actor's.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn history(
        &self,
        actor: ActorId,
        id: PaymentId,
    ) -> Result<Option<Vec<HistoryEntry>>, ScheduleError> {
        whole(history::history(self.pool.clone(), actor, id)).await
    }

    /// The same with the payment's own word on where its chain ends.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn history_proof(
        &self,
        actor: ActorId,
        id: PaymentId,
    ) -> Result<Option<HistoryProof>, ScheduleError> {
        whole(history::proof(self.pool.clone(), actor, id)).await
    }

    /// What the schedule holds. Needs [`super::Access::Owner`].
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn audit_extent(&self) -> Result<audit::Extent, ScheduleError> {
        audit::extent(self.pool.clone()).await
    }

    /// Everything that was written down of a window, in one snapshot. Needs [`super::Access::Owner`].
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; also for a row that cannot be read.
    pub async fn audit(&self, window: audit::Window) -> Result<audit::Written, ScheduleError> {
        whole(audit::audit(self.pool.clone(), window)).await
    }

    /// Cancels if the state allows it, or records the wish to, answered only after an acknowledged commit
    /// (rule R3).
    ///
    /// # Errors
    /// `Unavailable` (also under quarantine), `CommitUnknown` (repeat it: the same answer again) or
    /// `Defect`.
    pub async fn cancel(&self, actor: ActorId, id: PaymentId) -> Result<CancelAnswer, ScheduleError> {
        whole(cancel::cancel(self.pool.clone(), actor, id, Canceller::Client)).await
    }

    /// The same by an operator, in the name of whoever's payment it is: the history and the operators' audit say who
    /// did it and why.
    ///
    /// # Errors
    /// As [`Self::cancel`].
    pub async fn cancel_for(
        &self,
        actor: ActorId,
        id: PaymentId,
        by: By,
    ) -> Result<CancelAnswer, ScheduleError> {
        whole(cancel::cancel(self.pool.clone(), actor, id, Canceller::Operator(by))).await
    }

    /// Can this process serve? Cheap; asked by `/readyz`. It can if the database takes writes and
    /// today's partition is made.
    ///
    /// # Errors
    /// `Unavailable` with the reason.
    pub async fn ping(&self) -> Result<(), ScheduleError> {
        let row = sqlx::query(statements::PING).fetch_one(&self.pool).await.map_err(before_commit)?;
        if row.try_get("read_only").map_err(before_commit)? {
            return Err(ScheduleError::Unavailable("the database is read-only: a standby".into()));
        }
        if row.try_get("today_is_made").map_err(before_commit)? {
            return Ok(());
        }
        Err(ScheduleError::Unavailable("today's partition is missing".into()))
    }

    /// The database's clock.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn database_now(&self) -> Result<DateTime<Utc>, ScheduleError> {
        sqlx::query_scalar(statements::DATABASE_NOW).fetch_one(&self.pool).await.map_err(before_commit)
    }

    /// A worker of this slot goes away, and Kafka may keep its partitions for it for so long: until then
    /// the late scan of the others waits for nothing but two seconds.
    ///
    /// # Errors
    /// Any; then what becomes due in those partitions waits for the usual late scan.
    pub async fn worker_leaves(&self, slot: &str, length: Duration) -> Result<(), ScheduleError> {
        whole(claim_late::leave(self.pool.clone(), slot.to_owned(), length)).await
    }

    /// Writes down the account behind a gateway's name, once, and answers the one on record: where it
    /// differs from the configured one, nothing may be sent (rule R4). Whether the gateway voids by key is
    /// kept as said last, for the cancels that ask.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn register_gateway(
        &self,
        name: &GatewayName,
        account: &str,
        voids: VoidSupport,
    ) -> Result<String, ScheduleError> {
        sqlx::query_scalar(statements::REGISTER_GATEWAY)
            .bind(&name.0)
            .bind(account)
            .bind(voids == VoidSupport::ByKey)
            .fetch_one(&self.pool)
            .await
            .map_err(before_commit)
    }

    /// Keeps a record that no code can read; repeating it is harmless.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn keep_bad_notice(&self, bad: BadRecord) -> Result<BadNoticeKept, ScheduleError> {
        whole(bad_notices::keep(self.pool.clone(), bad)).await
    }

    /// The word of whoever owns the database: it may claim again, and nothing is asked. Needs [`super::Access::Owner`].
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn release_lineage(&self) -> Result<(), ScheduleError> {
        whole(lineage::release(self.pool.clone())).await
    }

    /// Makes the day partitions from `back` days before today to `ahead` days after it that are
    /// missing; answers how many tables it made.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn ensure_partitions(&self, back: u32, ahead: u32) -> Result<u32, ScheduleError> {
        whole(partitions::ensure(self.pool.clone(), back, ahead)).await
    }

    /// Whether the payments of this day are in the database; those of a detached day are not.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn is_attached(&self, day: NaiveDate) -> Result<bool, ScheduleError> {
        whole(partitions::is_attached(self.pool.clone(), day)).await
    }

    /// Drops outbox partitions more than `back` days old in which every notice is published; answers
    /// how many. With the `back` of [`Self::ensure_partitions`] they are not made again.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn drop_drained_notices(&self, back: u32) -> Result<u32, ScheduleError> {
        whole(partitions::drop_drained(self.pool.clone(), back)).await
    }

    /// Deletes at most `limit` counts of declines that no claim looks at any more; answers how many.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn forget_declines(&self, limit: u32) -> Result<u64, ScheduleError> {
        whole(partitions::forget_declines(self.pool.clone(), limit)).await
    }

    /// Moves the oldest open day as far on as no open row forbids; answers where it is.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn advance_oldest_open_day(&self) -> Result<NaiveDate, ScheduleError> {
        whole(partitions::advance_oldest_open_day(self.pool.clone())).await
    }
}

impl Schedule for Postgres {
    async fn stage(&self, shard: &ShardLease, lead: Duration, limit: u32) -> Result<Staged, ScheduleError> {
        whole(stage::stage(self.pool.clone(), self.secret.0, shard.clone(), stage::Reach::Near(lead), limit))
            .await
    }

    async fn stage_crowd(
        &self,
        shard: &ShardLease,
        beyond: Duration,
        within: Duration,
        limit: u32,
    ) -> Result<Staged, ScheduleError> {
        let reach = stage::Reach::Crowd { beyond, within };
        whole(stage::stage(self.pool.clone(), self.secret.0, shard.clone(), reach, limit)).await
    }

    async fn mark(&self, shard: &ShardLease, published: &[StagedNotice]) -> Result<bool, ScheduleError> {
        whole(mark::mark(self.pool.clone(), shard.clone(), published.to_vec())).await
    }

    async fn claim(
        &self,
        terms: &ClaimTerms,
        notices: &[Notice],
        claim_ids: &[ClaimId],
    ) -> Result<Vec<ClaimAnswer>, ScheduleError> {
        if notices.len() != claim_ids.len() {
            return Err(ScheduleError::Defect("one fresh claim id a notice".into()));
        }
        let asks = notices.iter().zip(claim_ids);
        let asks = asks.map(|(notice, claim_id)| Ask { notice: notice.clone(), claim_id: *claim_id });
        whole(claim::claim(self.pool.clone(), self.terms(terms), asks.collect())).await
    }

    async fn claim_late(
        &self,
        terms: &ClaimTerms,
        late_by: Duration,
        but_lanes: &[i16],
        claim_ids: &[ClaimId],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        let wanted = claim_late::Wanted { late_by, but_lanes: but_lanes.to_vec() };
        whole(claim_late::claim_late(self.pool.clone(), self.terms(terms), wanted, claim_ids.to_vec())).await
    }

    async fn recover(
        &self,
        terms: &ClaimTerms,
        claimed: &[(PaymentId, ClaimId)],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        whole(recover::recover(self.pool.clone(), self.terms(terms), claimed.to_vec())).await
    }

    async fn renew(&self, claims: &[OpenClaim], length: Duration) -> Result<Vec<Renewed>, ScheduleError> {
        whole(renew::renew(self.pool.clone(), claims.to_vec(), length)).await
    }

    async fn settle(&self, batch: Vec<(Answered, Decision)>) -> Result<Vec<Settled>, SettleFailed> {
        match tokio::spawn(settle::settle(self.pool.clone(), self.secret.0, batch).in_current_span()).await {
            Ok(settled) => settled,
            // A panic inside loses the batch; the leases run out and the payments are asked about.
            Err(error) => {
                Err(SettleFailed { batch: Vec::new(), error: ScheduleError::Defect(Box::new(error)) })
            }
        }
    }

    async fn defer(&self, notices: &[Notice]) -> Result<Vec<Option<Deferred>>, ScheduleError> {
        whole(defer::defer(self.pool.clone(), notices.to_vec())).await
    }

    async fn reap(&self, margin: Duration, limit: u32) -> Result<Reaped, ScheduleError> {
        whole(reap::reap(self.pool.clone(), margin, limit)).await
    }
}

impl Shards for Postgres {
    async fn enlist_relay(
        &self,
        holder: &str,
        partitions: i32,
        length: Duration,
    ) -> Result<Standing, ScheduleError> {
        whole(shards::enlist(self.pool.clone(), holder.to_owned(), partitions, length)).await
    }

    async fn acquire_shards(
        &self,
        holder: &str,
        partitions: i32,
        want: usize,
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        whole(shards::acquire(self.pool.clone(), holder.to_owned(), partitions, want, length)).await
    }

    async fn renew_shards(
        &self,
        held: &[ShardLease],
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        whole(shards::renew(self.pool.clone(), held.to_vec(), length)).await
    }

    async fn release_shards(&self, held: &[ShardLease]) -> Result<(), ScheduleError> {
        whole(shards::release(self.pool.clone(), held.to_vec())).await
    }

    async fn retire_relay(
        &self,
        holder: &str,
        partitions: i32,
        held: &[ShardLease],
    ) -> Result<(), ScheduleError> {
        whole(shards::retire(self.pool.clone(), holder.to_owned(), partitions, held.to_vec())).await
    }
}
