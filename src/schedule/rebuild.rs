//! What Kafka held, from what the database knows: for the day on which its topics are gone.
//!
//! **Promises.** Notices are written into the outbox again, so that relays publish them as they publish all
//! others: one writer a partition, in due order. Nothing is claimed, moved or charged here; a notice too many
//! is refused by the claim. The lane of events is taken with a grown epoch and its cursor put before the oldest
//! row; the former leader is fenced.
//!
//! **Why only what falls due soon.** A notice leaves the outbox when it is published, at most
//! [`LONGEST_LEAD`] ahead; everything later is still there, and what is late is the late scan's.
//!
//! **If this dies here**: what was written again is published; the lane is free when its lease ends, and the
//! next publisher goes on from the cursor.

use super::days::by_day;
use super::failure::{at_commit, before_commit, whole};
use super::length::interval;
use super::port::ScheduleError;
use super::publish::{LANE, Lane, PublisherLease, Unpublished, history_row, with_payments};
use super::{Postgres, row, statements};
use crate::domain::bucket::{LONGEST_LEAD, shard};
use crate::domain::ids::{GatewayName, PaymentId};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sqlx::{Error, PgPool, Row};
use std::time::Duration;
use uuid::Uuid;

/// Beyond the longest lead, for payments whose instant comes while the rebuild runs.
const SPARE: TimeDelta = TimeDelta::minutes(5);

/// A place in the order in which open payments fall due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenPlace {
    /// Their instant.
    pub at: DateTime<Utc>,
    /// The payment; nil before the first.
    pub payment: Uuid,
}

/// Open payments that fall due soon, as far as one page goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unnoticed {
    /// Those without a notice in the outbox.
    pub payments: Vec<PaymentId>,
    /// Where to go on; `None`: that was all.
    pub next: Option<OpenPlace>,
}

/// Parked payments, as far as one page goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillParked {
    /// The row that parked each.
    pub rows: Vec<Unpublished>,
    /// Where to go on; `None`: that was all.
    pub next: Option<Uuid>,
}

async fn unnoticed(
    pool: &PgPool,
    gateway: &GatewayName,
    after: Option<OpenPlace>,
    limit: u32,
) -> Result<Unnoticed, Error> {
    let bounds = sqlx::query(statements::OPEN_DAYS).fetch_one(pool).await?;
    let now: DateTime<Utc> =
        sqlx::query(statements::STAGE_WINDOW).fetch_one(pool).await?.try_get("database_now")?;
    let until = now + LONGEST_LEAD + SPARE;
    let after = after.unwrap_or(OpenPlace { at: now, payment: Uuid::nil() });
    let found = sqlx::query(statements::OPEN_SOON)
        .bind(bounds.try_get::<NaiveDate, _>("oldest_open_day")?)
        .bind(until.date_naive())
        .bind(&gateway.0)
        .bind(after.at)
        .bind(after.payment)
        .bind(until)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    let (mut ids, mut shards, mut instants) = (Vec::new(), Vec::new(), Vec::new());
    for found in &found {
        let id = row::payment_id(found, "id")?;
        ids.push(id.as_uuid());
        shards.push(shard(id));
        instants.push(found.try_get::<DateTime<Utc>, _>("next_attempt_at")?);
    }
    let (Some(first), Some(last), Some(payment)) = (instants.first(), instants.last(), ids.last()) else {
        return Ok(Unnoticed { payments: Vec::new(), next: None });
    };
    let is_full = found.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let next = is_full.then_some(OpenPlace { at: *last, payment: *payment });
    let missing = sqlx::query(statements::UNNOTICED)
        .bind(&ids)
        .bind(&shards)
        .bind(&instants)
        .bind(first)
        .bind(last)
        .fetch_all(pool)
        .await?;
    let payments = missing.iter().map(|found| row::payment_id(found, "id")).collect::<Result<_, _>>()?;
    Ok(Unnoticed { payments, next })
}

async fn notice_again(pool: &PgPool, payments: &[PaymentId]) -> Result<u64, ScheduleError> {
    let mut written = 0;
    for (day, places) in by_day(payments, |id| *id) {
        let ids: Vec<Uuid> = places.iter().map(|place| payments[*place].as_uuid()).collect();
        let shards: Vec<i16> = places.iter().map(|place| shard(payments[*place])).collect();
        let query = sqlx::query(statements::NOTICE_AGAIN).bind(day).bind(ids).bind(shards);
        written += query.execute(pool).await.map_err(at_commit)?.rows_affected();
    }
    Ok(written)
}

async fn still_parked(pool: &PgPool, after: Option<Uuid>, limit: u32) -> Result<StillParked, Error> {
    let found = sqlx::query(statements::PARKED_ROWS)
        .bind(after.unwrap_or_default())
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    let is_full = found.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let last = found.last().map(|found| found.try_get("listed")).transpose()?;
    let mut rows = Vec::with_capacity(found.len());
    for found in &found {
        if found.try_get::<Option<i32>, _>("seq")?.is_some() {
            rows.push(history_row(found)?);
        }
    }
    Ok(StillParked { rows: with_payments(pool, rows).await?, next: last.filter(|_| is_full) })
}

async fn start_over(pool: &PgPool, holder: &str, length: Duration) -> Result<PublisherLease, ScheduleError> {
    sqlx::query(statements::PUBLISH_MAKE_CURSOR).bind(LANE).execute(pool).await.map_err(at_commit)?;
    let query = sqlx::query(statements::PUBLISH_START_OVER).bind(LANE).bind(holder).bind(interval(length));
    let found = query.fetch_one(pool).await.map_err(at_commit)?;
    let epoch = found.try_get("epoch").map_err(before_commit)?;
    Ok(PublisherLease { lane: Lane::Events, holder: holder.to_owned(), epoch, started_over: true })
}

impl Postgres {
    /// Open payments of a gateway that fall due within the longest lead and have no notice in the outbox.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn unnoticed(
        &self,
        gateway: &GatewayName,
        after: Option<OpenPlace>,
        limit: u32,
    ) -> Result<Unnoticed, ScheduleError> {
        let (pool, gateway) = (self.pool().clone(), gateway.clone());
        whole(async move { unnoticed(&pool, &gateway, after, limit).await.map_err(before_commit) }).await
    }

    /// Writes the notices of these payments again, where they are open and not late; answers how many.
    ///
    /// # Errors
    /// Any; what was written before stays, and a repetition writes it twice, which does no harm.
    pub async fn notice_again(&self, payments: &[PaymentId]) -> Result<u64, ScheduleError> {
        let (pool, payments) = (self.pool().clone(), payments.to_vec());
        whole(async move { notice_again(&pool, &payments).await }).await
    }

    /// The rows that parked what is parked still, at most `limit` payments.
    ///
    /// # Errors
    /// `Unavailable`, or `Defect` for a row that this build cannot read.
    pub async fn still_parked(&self, after: Option<Uuid>, limit: u32) -> Result<StillParked, ScheduleError> {
        let pool = self.pool().clone();
        whole(async move { still_parked(&pool, after, limit).await.map_err(before_commit) }).await
    }

    /// Takes the lane of events from whoever has it and puts its cursor before the oldest row.
    ///
    /// # Errors
    /// Any; taken unseen, it runs out by itself and the next publisher goes on.
    pub async fn start_over(&self, holder: &str, length: Duration) -> Result<PublisherLease, ScheduleError> {
        let (pool, holder) = (self.pool().clone(), holder.to_owned());
        whole(async move { start_over(&pool, &holder, length).await }).await
    }
}
