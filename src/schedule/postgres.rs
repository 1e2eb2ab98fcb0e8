//! The schedule in Postgres: every verb in one list, each one transaction, each run to its end even
//! if its caller goes away.

use super::claim::Ask;
use super::failure::{before_commit, whole};
use super::keys::NewApiKey;
use super::port::{
    ClaimTerms, Reaped, Schedule, ScheduleError, SettleFailed, ShardLease, Staged, StagedNotice,
};
use super::proof::{Answered, BadNoticeKept, ClaimAnswer, Claimed, Deferred, Settled};
use super::records::{ApiKeyRecord, CancelAnswer, CreateAnswer, NewPayment, PaymentView};
use super::watch::BadRecord;
use super::{claim, connect, create, keys, outbox, read, settle, statements, watch};
use crate::domain::decision::Decision;
use crate::domain::ids::{ActorId, ClaimId, GatewayName, PaymentId};
use crate::domain::notice::Notice;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgPool, Row};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The schedule in Postgres. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Postgres {
    pool: PgPool,
    secret: Arc<[u8; 32]>,
}

impl Postgres {
    pub(super) fn new(pool: PgPool, secret: Arc<[u8; 32]>) -> Self {
        Self { pool, secret }
    }

    /// The installation's secret (rules R17, R18), read once at connect.
    #[must_use]
    pub fn installation_secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Creates a payment with its idempotency key, history and due notice in one transaction.
    ///
    /// # Errors
    /// Everything but `Defect` is safe to repeat under the same key.
    pub async fn create(&self, new: &NewPayment) -> Result<CreateAnswer, ScheduleError> {
        whole(create::create(self.pool.clone(), new.clone())).await
    }

    /// What this key created earlier, compared with this request; `None` if it created nothing. Never
    /// creates: intake asks it for a request that its rules refuse *now*, such as a due time that
    /// has passed since, which may have been accepted before under the same key. It waits for a
    /// create of this key that is in flight.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn replay(
        &self,
        actor: ActorId,
        idempotency_key: &str,
        request_hash: &[u8; 32],
        field_digests: &BTreeMap<String, String>,
    ) -> Result<Option<CreateAnswer>, ScheduleError> {
        let (key, digests) = (idempotency_key.to_owned(), field_digests.clone());
        whole(create::replay(self.pool.clone(), actor, key, *request_hash, digests)).await
    }

    /// One payment of this actor with its attempts.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn find(&self, actor: ActorId, id: PaymentId) -> Result<Option<PaymentView>, ScheduleError> {
        whole(read::find(self.pool.clone(), actor, id)).await
    }

    /// Cancels if the state allows it, answered only after an acknowledged commit (rule R3).
    ///
    /// # Errors
    /// All but `Defect` are safe to repeat.
    pub async fn cancel(&self, actor: ActorId, id: PaymentId) -> Result<CancelAnswer, ScheduleError> {
        whole(read::cancel(self.pool.clone(), actor, id)).await
    }

    /// A key that is neither revoked nor expired, by SHA-256 of its text.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn api_key(&self, hash: &[u8; 32]) -> Result<Option<ApiKeyRecord>, ScheduleError> {
        whole(keys::find(self.pool.clone(), *hash)).await
    }

    /// Stores a new key for an actor made (or found) by name.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` (make another key) or `Defect`.
    pub async fn add_api_key(&self, new: NewApiKey) -> Result<ActorId, ScheduleError> {
        whole(keys::add(self.pool.clone(), new)).await
    }

    /// Can this process serve? Asked by `/readyz`; the error says what is missing.
    ///
    /// # Errors
    /// `Unavailable`: not reachable, read-only, or today's partitions are missing.
    pub async fn ping(&self) -> Result<(), ScheduleError> {
        let answer = sqlx::query(statements::PING).fetch_one(&self.pool).await.map_err(before_commit)?;
        if answer.try_get("read_only").map_err(before_commit)? {
            return Err(ScheduleError::Unavailable("the database takes no writes".into()));
        }
        if !answer.try_get::<bool, _>("today_is_made").map_err(before_commit)? {
            return Err(ScheduleError::Unavailable("today's partitions are missing".into()));
        }
        Ok(())
    }

    /// The database's clock.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn database_now(&self) -> Result<DateTime<Utc>, ScheduleError> {
        sqlx::query_scalar(statements::DATABASE_NOW).fetch_one(&self.pool).await.map_err(before_commit)
    }

    /// Keeps a record that no code can read; repeating it is harmless.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` or `Defect`: repeat.
    pub async fn keep_bad_notice(&self, bad: BadRecord) -> Result<BadNoticeKept, ScheduleError> {
        whole(watch::keep_bad_notice(self.pool.clone(), bad)).await
    }

    /// Writes down which account a gateway's name stands for, once; answers the account on record,
    /// which must be the configured one (rule R4).
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn register_gateway(&self, name: &GatewayName, account: &str) -> Result<String, ScheduleError> {
        sqlx::query_scalar(statements::REGISTER_GATEWAY)
            .bind(&name.0)
            .bind(account)
            .fetch_one(&self.pool)
            .await
            .map_err(before_commit)
    }

    /// Takes free or expired shards, at most `want`, for `length`; each with a grown epoch.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` (the shards come free by themselves) or `Defect`.
    pub async fn acquire_shards(
        &self,
        holder: &str,
        partitions: i32,
        want: usize,
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        whole(outbox::acquire(self.pool.clone(), holder.to_owned(), partitions, want, length)).await
    }

    /// Prolongs those that are still ours; answers which. All of one holder and partition count.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn renew_shards(
        &self,
        held: &[ShardLease],
        length: Duration,
    ) -> Result<Vec<ShardLease>, ScheduleError> {
        whole(outbox::renew(self.pool.clone(), held.to_vec(), length)).await
    }

    /// Gives them back, so that another takes over at once.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; they come free by themselves.
    pub async fn release_shards(&self, held: &[ShardLease]) -> Result<(), ScheduleError> {
        whole(outbox::release(self.pool.clone(), held.to_vec())).await
    }

    /// Makes the missing partitions from `back` days ago to `ahead` days from now; answers how many.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn ensure_partitions(&self, back: u32, ahead: u32) -> Result<u32, ScheduleError> {
        let days = |days: u32| i32::try_from(days).unwrap_or(i32::MAX);
        let made: i32 = sqlx::query_scalar(statements::ENSURE_PARTITIONS)
            .bind(days(back))
            .bind(days(ahead))
            .fetch_one(&self.pool)
            .await
            .map_err(before_commit)?;
        Ok(u32::try_from(made).unwrap_or(0))
    }

    /// Moves the oldest day that can hold open rows forward; scans by time start there.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn advance_oldest_open_day(&self) -> Result<NaiveDate, ScheduleError> {
        sqlx::query_scalar(statements::ADVANCE_OLDEST_OPEN_DAY)
            .fetch_one(&self.pool)
            .await
            .map_err(before_commit)
    }

    /// Drops partitions of the outbox more than `back` days old that are empty; answers how many.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn drop_drained_notices(&self, back: u32) -> Result<u32, ScheduleError> {
        let dropped: i32 = sqlx::query_scalar(statements::DROP_DRAINED_NOTICES)
            .bind(i32::try_from(back).unwrap_or(i32::MAX))
            .fetch_one(&self.pool)
            .await
            .map_err(before_commit)?;
        Ok(u32::try_from(dropped).unwrap_or(0))
    }

    /// Closes every connection after what is under way.
    pub async fn close(&self) {
        connect::close(&self.pool).await;
    }
}

impl Schedule for Postgres {
    async fn stage(&self, shard: &ShardLease, lead: Duration, limit: u32) -> Result<Staged, ScheduleError> {
        whole(outbox::stage(self.pool.clone(), self.secret.clone(), shard.clone(), lead, limit)).await
    }

    async fn mark(&self, shard: &ShardLease, published: &[StagedNotice]) -> Result<bool, ScheduleError> {
        whole(outbox::mark(self.pool.clone(), shard.clone(), published.to_vec())).await
    }

    async fn claim(
        &self,
        terms: &ClaimTerms,
        notices: &[Notice],
        claim_ids: &[ClaimId],
    ) -> Result<Vec<ClaimAnswer>, ScheduleError> {
        let asks = notices.iter().cloned().zip(claim_ids.iter().copied());
        let asks = asks.map(|(notice, claim_id)| Ask { notice, claim_id }).collect();
        whole(claim::claim(self.pool.clone(), terms.clone(), asks)).await
    }

    async fn claim_late(
        &self,
        terms: &ClaimTerms,
        late_by: Duration,
        claim_ids: &[ClaimId],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        whole(claim::claim_late(self.pool.clone(), terms.clone(), late_by, claim_ids.to_vec())).await
    }

    async fn recover(
        &self,
        terms: &ClaimTerms,
        claimed: &[(PaymentId, ClaimId)],
    ) -> Result<Vec<Claimed>, ScheduleError> {
        whole(claim::recover(self.pool.clone(), terms.clone(), claimed.to_vec())).await
    }

    async fn settle(&self, batch: Vec<(Answered, Decision)>) -> Result<Vec<Settled>, SettleFailed> {
        // Not through `whole`: a batch must come back whatever happens. The caller runs this in a
        // task that is never dropped half-way.
        settle::settle(self.pool.clone(), batch).await
    }

    async fn defer(&self, notices: &[Notice]) -> Result<Vec<Option<Deferred>>, ScheduleError> {
        whole(watch::defer(self.pool.clone(), notices.to_vec())).await
    }

    async fn reap(&self, margin: Duration, limit: u32) -> Result<Reaped, ScheduleError> {
        whole(watch::reap(self.pool.clone(), margin, limit)).await
    }
}
