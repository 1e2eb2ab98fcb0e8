//! What is owed to endpoints and due, taken for sending: under a lease, with a fence, by any number of processes.
//!
//! **Promises.** What is taken is nobody else's until its lease ends, and then it is due again: no delivery is lost
//! with a process, and a row that exists is no proof that anything was sent. No endpoint has more under way than it
//! takes, over all processes: who takes for an endpoint holds its row, and counts after that. An endpoint with little
//! under way comes before one with much, so one that is slow keeps nobody from a place for longer than one request.
//! **Relies on** the database clock for "due" and "expired".
//!
//! **Why a walk.** Endpoints with something owed are found by stepping over the index from one to the next, some
//! hundred a look, and on from there with the next look: a million deliveries to a dead endpoint are one step.
//!
//! **If this dies** after COMMIT, leases run out, and the same events are sent again under the same id.

use super::failure::{before_commit, commit, whole};
use super::length::interval;
use super::port::ScheduleError;
use super::postgres::Postgres;
use super::publish::{history_row, with_payments};
use super::row::unfit;
use super::statements;
use crate::domain::event::Unpublished;
use crate::domain::webhook::WebhookSecret;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Most endpoints looked at by one taking.
const STEPS: i32 = 200;

/// Where requests go, and what signs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookReceiver {
    /// The endpoint.
    pub id: Uuid,
    /// As of which act of its owner or the sender.
    pub version: i32,
    /// Its address; may carry a secret of its owner.
    pub url: String,
    /// The present secret first; then the one before it, while that still signs.
    pub secrets: Vec<WebhookSecret>,
}

/// Which delivery: one event, owed to one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookPlace {
    /// To whom.
    pub endpoint: Uuid,
    /// When the event happened.
    pub event_at: DateTime<Utc>,
    /// Its payment; of a test message nobody's.
    pub payment: Uuid,
    /// Its number; 0: a test message.
    pub seq: i32,
}

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwedEvent {
    /// An event of a payment.
    Event(Box<Unpublished>),
    /// A test message, which the endpoint's owner asked for.
    Test,
    /// An event whose history is not kept here any more: it cannot be told.
    Gone,
}

/// A delivery that is ours to send now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenWebhook {
    /// Which.
    pub place: WebhookPlace,
    /// To whom.
    pub receiver: Arc<WebhookReceiver>,
    /// What.
    pub event: OwedEvent,
    /// Of this taking; what is noted under an older one changes nothing.
    pub fence: i64,
    /// Which try this is, from 1.
    pub number: i32,
    /// Tries that failed since it was made or was last sent again.
    pub rung: i32,
}

/// What one taking found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TakenWebhooks {
    /// Ours to send.
    pub taken: Vec<TakenWebhook>,
    /// Where the next taking goes on.
    pub after: Uuid,
}

/// What is owed in all, as far as it was counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WebhookBacklog {
    /// Deliveries owed to endpoints that can be called.
    pub owed: u64,
    /// How long the first of them waits for a sender although it is due; zero if none does.
    pub oldest_age: Duration,
}

/// The day of an instant, as statements name it.
pub(super) fn bounds(day: NaiveDate) -> (DateTime<Utc>, DateTime<Utc>) {
    let from = day.and_time(chrono::NaiveTime::MIN).and_utc();
    (from, from + TimeDelta::days(1))
}

fn place(found: &PgRow) -> Result<WebhookPlace, Error> {
    Ok(WebhookPlace {
        endpoint: found.try_get("endpoint_id")?,
        event_at: found.try_get("event_at")?,
        payment: found.try_get("payment_id")?,
        seq: found.try_get("seq")?,
    })
}

fn secret(found: &PgRow, column: &str) -> Result<Option<WebhookSecret>, Error> {
    let bytes: Option<Vec<u8>> = found.try_get(column)?;
    // The error shows the length, never the bytes.
    let read = |bytes: Vec<u8>| <[u8; 32]>::try_from(bytes).map_err(|bytes| unfit(column, &bytes.len()));
    Ok(bytes.map(read).transpose()?.map(WebhookSecret::new))
}

fn receiver(found: &PgRow) -> Result<(Uuid, Arc<WebhookReceiver>), Error> {
    let id = found.try_get("id")?;
    let secrets =
        [secret(found, "secret")?, secret(found, "previous_secret")?].into_iter().flatten().collect();
    let (version, url) = (found.try_get("version")?, found.try_get("url")?);
    Ok((id, Arc::new(WebhookReceiver { id, version, url, secrets })))
}

/// Places by the day of their events.
pub(super) fn by_day(places: impl Iterator<Item = WebhookPlace>) -> BTreeMap<NaiveDate, Vec<WebhookPlace>> {
    let mut days: BTreeMap<NaiveDate, Vec<WebhookPlace>> = BTreeMap::new();
    for place in places {
        days.entry(place.event_at.date_naive()).or_default().push(place);
    }
    days
}

/// The next endpoints to which anything is owed, and where to go on.
async fn walk(pool: &PgPool, after: Uuid) -> Result<(Vec<Uuid>, Uuid), Error> {
    let found: Vec<Uuid> =
        sqlx::query_scalar(statements::WEBHOOKS_WALK).bind(after).bind(STEPS).fetch_all(pool).await?;
    let is_full = found.len() >= usize::try_from(STEPS).unwrap_or(usize::MAX);
    let next = found.last().copied().filter(|_| is_full).unwrap_or_default();
    Ok((found, next))
}

/// Taken, without what is told.
struct Leased {
    place: WebhookPlace,
    fence: i64,
    number: i32,
    rung: i32,
}

async fn lease(
    database: &mut PgConnection,
    endpoints: &[Uuid],
    holder: &str,
    length: Duration,
    most: usize,
) -> Result<(BTreeMap<Uuid, Arc<WebhookReceiver>>, Vec<Leased>), Error> {
    let locked = sqlx::query(statements::WEBHOOKS_LOCK).bind(endpoints).fetch_all(&mut *database).await?;
    let receivers = locked.iter().map(receiver).collect::<Result<BTreeMap<_, _>, _>>()?;
    if receivers.is_empty() {
        return Ok((receivers, Vec::new()));
    }
    let ids: Vec<Uuid> = receivers.keys().copied().collect();
    let due = sqlx::query(statements::WEBHOOKS_DUE).bind(ids).bind(i64::try_from(most).unwrap_or(i64::MAX));
    let due = due.fetch_all(&mut *database).await?;
    let due = due.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let mut leased = Vec::new();
    for (day, places) in by_day(due.into_iter()) {
        let (from, to) = bounds(day);
        let found = sqlx::query(statements::WEBHOOKS_TAKE)
            .bind(from)
            .bind(to)
            .bind(places.iter().map(|place| place.endpoint).collect::<Vec<_>>())
            .bind(places.iter().map(|place| place.event_at).collect::<Vec<_>>())
            .bind(places.iter().map(|place| place.payment).collect::<Vec<_>>())
            .bind(places.iter().map(|place| place.seq).collect::<Vec<_>>())
            .bind(holder)
            .bind(interval(length))
            .fetch_all(&mut *database)
            .await?;
        for found in &found {
            leased.push(Leased {
                place: place(found)?,
                fence: found.try_get("fence")?,
                number: found.try_get("tries")?,
                rung: found.try_get("rung")?,
            });
        }
    }
    Ok((receivers, leased))
}

/// What these places tell, by payment and number.
async fn events(pool: &PgPool, leased: &[Leased]) -> Result<BTreeMap<(Uuid, i32), Unpublished>, Error> {
    let mut told = Vec::new();
    let real = leased.iter().map(|leased| leased.place).filter(|place| place.seq > 0);
    for (day, places) in by_day(real) {
        let (from, to) = bounds(day);
        let mut wanted: Vec<(Uuid, i32)> = places.iter().map(|place| (place.payment, place.seq)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let (payments, seqs): (Vec<Uuid>, Vec<i32>) = wanted.into_iter().unzip();
        let rows = sqlx::query(statements::WEBHOOKS_EVENTS).bind(from).bind(to).bind(payments).bind(seqs);
        for found in &rows.fetch_all(pool).await? {
            told.push(history_row(found)?);
        }
    }
    let told = with_payments(pool, told).await?;
    Ok(told.into_iter().map(|told| ((told.row.payment.as_uuid(), told.row.seq), told)).collect())
}

async fn take(
    pool: PgPool,
    holder: String,
    length: Duration,
    most: usize,
    after: Uuid,
) -> Result<TakenWebhooks, ScheduleError> {
    let (endpoints, after) = walk(&pool, after).await.map_err(before_commit)?;
    if endpoints.is_empty() || most == 0 {
        return Ok(TakenWebhooks { taken: Vec::new(), after });
    }
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let leased = lease(&mut transaction, &endpoints, &holder, length, most).await;
    let (receivers, leased) = leased.map_err(before_commit)?;
    commit(transaction).await?;
    // Outside of it: the rows of endpoints are held no longer than needed. If this fails, leases run out.
    let events = events(&pool, &leased).await.map_err(before_commit)?;
    let with = |leased: Leased| {
        let place = leased.place;
        let event = match events.get(&(place.payment, place.seq)) {
            Some(event) => OwedEvent::Event(Box::new(event.clone())),
            None if place.seq == 0 => OwedEvent::Test,
            None => OwedEvent::Gone,
        };
        let receiver = Arc::clone(receivers.get(&place.endpoint)?);
        let Leased { fence, number, rung, .. } = leased;
        Some(TakenWebhook { place, receiver, event, fence, number, rung })
    };
    Ok(TakenWebhooks { taken: leased.into_iter().filter_map(with).collect(), after })
}

impl Postgres {
    /// Takes at most `most` deliveries that are due, for `length`, of endpoints behind `after`.
    ///
    /// # Errors
    /// Any; what was taken unseen is due again when its lease ends.
    pub async fn take_webhooks(
        &self,
        holder: &str,
        length: Duration,
        most: usize,
        after: Uuid,
    ) -> Result<TakenWebhooks, ScheduleError> {
        whole(take(self.pool().clone(), holder.to_owned(), length, most, after)).await
    }

    /// Counts what is owed, up to `most`.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn webhook_backlog(&self, most: u32) -> Result<WebhookBacklog, ScheduleError> {
        let pool = self.pool().clone();
        whole(async move {
            let counted = sqlx::query(statements::WEBHOOKS_BACKLOG).bind(i64::from(most));
            let found = counted.fetch_one(&pool).await.map_err(before_commit)?;
            let owed: i64 = found.try_get("owed").map_err(before_commit)?;
            let oldest: f64 = found.try_get("oldest_s").map_err(before_commit)?;
            Ok(WebhookBacklog {
                owed: u64::try_from(owed).unwrap_or(0),
                oldest_age: Duration::try_from_secs_f64(oldest).unwrap_or_default(),
            })
        })
        .await
    }
}
