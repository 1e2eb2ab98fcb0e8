//! What an endpoint was and is owed: looked at, and sent again, by its owner; days made and dropped by the keeper.
//!
//! **Promises.** Only the actor's own; every verb looks for the endpoint under its actor first, or in the same
//! statement. A resend owes an event again with the whole ladder before it, under a new fence: what a sender that was
//! given up on still notes changes nothing. **Why two looks for one delivery.** Deliveries are partitioned by the
//! event's instant, and an event is named by payment and number; a test message's id says its instant, an event's is in
//! the payment's history. If this dies in the middle of a bulk resend, the rest is still failed: ask again.

use super::failure::{at_commit, before_commit, whole};
use super::history::HistoryEntry;
use super::port::ScheduleError;
use super::row::{parsed, payment_id};
use super::{Postgres, history, statements, webhook_endpoints};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::webhook::DeliveryStatus;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};
use uuid::Uuid;

/// Most deliveries that one page looks at to find those of a state.
const MOST_LOOKED_AT: usize = 2_000;
/// Most deliveries that are shown of one payment.
const MOST_OF_PAYMENT: i64 = 200;
/// Most tries that are shown of one delivery.
const MOST_TRIES: i64 = 100;

/// A place among the deliveries of an endpoint, newest event first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryPlace {
    /// Instant of the event.
    pub at: DateTime<Utc>,
    /// Its payment.
    pub payment: PaymentId,
    /// Its number in its payment; 0 for a test message.
    pub seq: i32,
}

/// One event that an endpoint was or is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// Which event.
    pub place: DeliveryPlace,
    /// Its type.
    pub event_type: String,
    /// When it was found to be owed.
    pub made_at: DateTime<Utc>,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// When it is tried next, if it is pending.
    pub next_try_at: DateTime<Utc>,
    /// How often it was tried.
    pub tries: i32,
    /// What the last try was answered.
    pub last_status: Option<i16>,
    /// Why the last try was not answered.
    pub last_error: Option<String>,
    /// When it arrived.
    pub delivered_at: Option<DateTime<Utc>>,
    /// A sender holds it at this moment.
    pub is_under_way: bool,
}

/// What one try met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookTry {
    /// From 1.
    pub number: i32,
    /// When it began.
    pub at: DateTime<Utc>,
    /// How long it took.
    pub took_ms: i32,
    /// The answer's status.
    pub status: Option<i16>,
    /// Why there was none.
    pub error: Option<String>,
    /// The beginning of the answer, what of it can be printed.
    pub excerpt: String,
}

/// One event of a payment that one endpoint was or is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryOfPayment {
    /// To which endpoint.
    pub endpoint: Uuid,
    /// Where that is.
    pub url: String,
    /// How it stands.
    pub delivery: WebhookDelivery,
}

/// Some deliveries of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPage {
    /// Newest event first.
    pub deliveries: Vec<WebhookDelivery>,
    /// Where to go on; `None` at the end.
    pub next: Option<DeliveryPlace>,
}

/// What became of a resend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// It is owed again.
    Owed,
    /// It is being sent at this moment.
    UnderWay,
    /// The actor has no such endpoint, or that was never owed such an event.
    NotFound,
}

/// What became of a bulk resend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManyResent {
    /// So many are owed again.
    pub count: u64,
    /// There may be more: ask again.
    pub is_full: bool,
}

impl Postgres {
    /// At most `limit` of an endpoint's deliveries behind `after`, perhaps of one state only; a page of a state may be
    /// short and go on. `None`: the actor has no such endpoint.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn webhook_deliveries(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        of: Option<DeliveryStatus>,
        after: Option<DeliveryPlace>,
        limit: usize,
    ) -> Result<Option<DeliveryPage>, ScheduleError> {
        let pool = self.pool().clone();
        whole(async move { page(&pool, actor, endpoint, of, after, limit).await.map_err(before_commit) })
            .await
    }

    /// One delivery with its last tries, newest first; `None`: no such endpoint of the actor, or no such delivery.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn webhook_delivery(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        payment: PaymentId,
        seq: i32,
    ) -> Result<Option<(WebhookDelivery, Vec<WebhookTry>)>, ScheduleError> {
        whole(one(self.pool().clone(), actor, endpoint, payment, seq)).await
    }

    /// Owes one event to an endpoint again.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn resend_webhook_delivery(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        payment: PaymentId,
        seq: i32,
    ) -> Result<Resent, ScheduleError> {
        whole(resend(self.pool().clone(), actor, endpoint, payment, seq)).await
    }

    /// What this actor's endpoints were and are owed of one of its payments, in the order of its events, as far as
    /// `MOST_OF_PAYMENT`; `events` are the instants of its history.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn deliveries_of(
        &self,
        actor: ActorId,
        payment: PaymentId,
        events: Vec<DateTime<Utc>>,
    ) -> Result<Vec<DeliveryOfPayment>, ScheduleError> {
        let rows = sqlx::query(statements::DELIVERIES_OF_PAYMENT)
            .bind(actor.0)
            .bind(payment.as_uuid())
            .bind(events)
            .bind(MOST_OF_PAYMENT)
            .fetch_all(self.pool())
            .await;
        let one = |row: &PgRow| {
            let (endpoint, url) = (row.try_get("endpoint_id")?, row.try_get("url")?);
            Ok(DeliveryOfPayment { endpoint, url, delivery: delivery(row)? })
        };
        rows.and_then(|rows| rows.iter().map(one).collect()).map_err(before_commit)
    }

    /// Owes an endpoint again what failed of the events from `from` (included) to `to` (not included), at most
    /// `limit` of them, oldest first. The span lies within one day of UTC, so that one partition is touched.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn resend_failed_webhooks(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        limit: u32,
    ) -> Result<ManyResent, ScheduleError> {
        whole(resend_failed(self.pool().clone(), actor, endpoint, (from, to), limit)).await
    }

    /// Drops days of deliveries more than `keep` days old that owe nothing, and forgets endpoints that were deleted
    /// before them; answers how many days.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn drop_webhook_days(&self, keep: u32) -> Result<u32, ScheduleError> {
        whole(drop_days(self.pool().clone(), keep)).await
    }

    /// Discards at most `limit` deliveries that are owed to endpoints which were deleted, or have been disabled for a week;
    /// answers how many.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn discard_deliveries(&self, limit: u32) -> Result<u64, ScheduleError> {
        whole(discard(self.pool().clone(), limit)).await
    }
}

async fn page(
    pool: &PgPool,
    actor: ActorId,
    endpoint: Uuid,
    of: Option<DeliveryStatus>,
    after: Option<DeliveryPlace>,
    limit: usize,
) -> Result<Option<DeliveryPage>, Error> {
    if webhook_endpoints::one(pool, actor, endpoint).await?.is_none() {
        return Ok(None);
    }
    // What failed has an index of its own; in the others a state is looked for, as far as one page may look.
    let (statement, looked_at) = match of {
        None => (statements::LIST_WEBHOOK_DELIVERIES, limit),
        Some(DeliveryStatus::Failed) => (statements::LIST_FAILED_WEBHOOK_DELIVERIES, limit),
        Some(DeliveryStatus::Pending | DeliveryStatus::Delivered | DeliveryStatus::Discarded) => {
            (statements::LIST_WEBHOOK_DELIVERIES, MOST_LOOKED_AT.max(limit))
        }
    };
    let (at, payment, seq) = match after {
        Some(place) => (place.at, place.payment.as_uuid(), place.seq),
        None => (far(), Uuid::max(), i32::MAX),
    };
    // One more tells whether there are more.
    let most = i64::try_from(looked_at).unwrap_or(i64::MAX).saturating_add(1);
    let found = sqlx::query(statement).bind(endpoint).bind(at).bind(payment).bind(seq).bind(most);
    let mut rows = found.fetch_all(pool).await?.iter().map(delivery).collect::<Result<Vec<_>, _>>()?;
    let mut next = (rows.len() > looked_at).then(|| rows.get(looked_at - 1).map(|last| last.place)).flatten();
    rows.truncate(looked_at);
    rows.retain(|row| of.is_none_or(|of| row.status == of));
    if rows.len() > limit {
        rows.truncate(limit);
        next = rows.last().map(|last| last.place);
    }
    Ok(Some(DeliveryPage { deliveries: rows, next }))
}

/// Behind every event: the end of year 9999, which Postgres knows too.
fn far() -> DateTime<Utc> {
    DateTime::from_timestamp(253_402_300_799, 0).unwrap_or(DateTime::UNIX_EPOCH)
}

fn delivery(row: &PgRow) -> Result<WebhookDelivery, Error> {
    Ok(WebhookDelivery {
        place: DeliveryPlace {
            at: row.try_get("event_at")?,
            payment: payment_id(row, "payment_id")?,
            seq: row.try_get("seq")?,
        },
        event_type: row.try_get("event_type")?,
        made_at: row.try_get("made_at")?,
        status: parsed(row, "status", DeliveryStatus::from_text)?,
        next_try_at: row.try_get("next_try_at")?,
        tries: row.try_get("tries")?,
        last_status: row.try_get("last_status")?,
        last_error: row.try_get("last_error")?,
        delivered_at: row.try_get("delivered_at")?,
        is_under_way: row.try_get::<Option<bool>, _>("is_under_way")?.unwrap_or(false),
    })
}

/// The instant of an event, if it can be one of this actor's.
async fn instant(
    pool: &PgPool,
    actor: ActorId,
    payment: PaymentId,
    seq: i32,
) -> Result<Option<DateTime<Utc>>, ScheduleError> {
    if seq == 0 {
        // A test message.
        return Ok(DateTime::from_timestamp_millis(payment.due_ms()));
    }
    let of_seq = |entries: Vec<HistoryEntry>| entries.iter().find(|it| it.row.seq == seq).map(|it| it.row.at);
    Ok(history::history(pool.clone(), actor, payment).await?.and_then(of_seq))
}

async fn found(
    pool: &PgPool,
    actor: ActorId,
    endpoint: Uuid,
    payment: PaymentId,
    seq: i32,
) -> Result<Option<WebhookDelivery>, ScheduleError> {
    if webhook_endpoints::one(pool, actor, endpoint).await.map_err(before_commit)?.is_none() {
        return Ok(None);
    }
    let Some(at) = instant(pool, actor, payment, seq).await? else { return Ok(None) };
    let found = sqlx::query(statements::FIND_WEBHOOK_DELIVERY)
        .bind(endpoint)
        .bind(at)
        .bind(payment.as_uuid())
        .bind(seq)
        .fetch_optional(pool)
        .await;
    found.and_then(|row| row.map(|row| delivery(&row)).transpose()).map_err(before_commit)
}

async fn one(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
    payment: PaymentId,
    seq: i32,
) -> Result<Option<(WebhookDelivery, Vec<WebhookTry>)>, ScheduleError> {
    let Some(delivery) = found(&pool, actor, endpoint, payment, seq).await? else { return Ok(None) };
    let tries = sqlx::query(statements::LIST_WEBHOOK_TRIES)
        .bind(endpoint)
        .bind(delivery.place.at)
        .bind(payment.as_uuid())
        .bind(seq)
        .bind(MOST_TRIES)
        .fetch_all(&pool)
        .await
        .and_then(|rows| rows.iter().map(try_of).collect());
    Ok(Some((delivery, tries.map_err(before_commit)?)))
}

fn try_of(row: &PgRow) -> Result<WebhookTry, Error> {
    Ok(WebhookTry {
        number: row.try_get("number")?,
        at: row.try_get("at")?,
        took_ms: row.try_get("took_ms")?,
        status: row.try_get("status")?,
        error: row.try_get("error")?,
        excerpt: row.try_get("excerpt")?,
    })
}

async fn resend(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
    payment: PaymentId,
    seq: i32,
) -> Result<Resent, ScheduleError> {
    let Some(delivery) = found(&pool, actor, endpoint, payment, seq).await? else {
        return Ok(Resent::NotFound);
    };
    let owed = sqlx::query(statements::RESEND_WEBHOOK_DELIVERY)
        .bind(endpoint)
        .bind(delivery.place.at)
        .bind(payment.as_uuid())
        .bind(seq)
        .bind(actor.0)
        .fetch_optional(&pool)
        .await
        .map_err(at_commit)?;
    // It was there a moment ago: what stood in the way is a sender, or that the endpoint was deleted meanwhile.
    Ok(if owed.is_some() { Resent::Owed } else { Resent::UnderWay })
}

async fn resend_failed(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
    (from, to): (DateTime<Utc>, DateTime<Utc>),
    limit: u32,
) -> Result<ManyResent, ScheduleError> {
    let owed = sqlx::query(statements::RESEND_FAILED_WEBHOOK_DELIVERIES)
        .bind(endpoint)
        .bind(from)
        .bind(to)
        .bind(i64::from(limit))
        .bind(actor.0)
        .execute(&pool)
        .await
        .map_err(at_commit)?;
    let count = owed.rows_affected();
    Ok(ManyResent { count, is_full: count >= u64::from(limit) })
}

async fn drop_days(pool: PgPool, keep: u32) -> Result<u32, ScheduleError> {
    let dropped: i32 = sqlx::query_scalar(statements::DROP_WEBHOOK_DAYS)
        .bind(i32::try_from(keep).unwrap_or(i32::MAX))
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    Ok(u32::try_from(dropped).unwrap_or(0))
}

async fn discard(pool: PgPool, limit: u32) -> Result<u64, ScheduleError> {
    let asked = sqlx::query_scalar(statements::DISCARD_WEBHOOK_DELIVERIES).bind(i64::from(limit));
    let discarded: i64 = asked.fetch_one(&pool).await.map_err(at_commit)?;
    Ok(discarded.unsigned_abs())
}
