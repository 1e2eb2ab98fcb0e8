//! What tries met: written under the lease's fence, with a line in the log, and what it says of the endpoint.
//!
//! **Promises.** A try whose lease was taken over, or whose delivery its owner sent again meanwhile, changes nothing.
//! An endpoint that failed for too long, or said that it is gone, is disabled with the reason in its acts; but nothing
//! that its former address says is held against the one that its owner gave it meanwhile. **Relies on** the database clock for how long an endpoint has failed.
//!
//! **If this dies** before COMMIT, the receiver has the event and we do not know: it is sent again under the same
//! id when the lease ends. Between COMMIT and the disabling, the next failure disables.

use super::failure::{before_commit, commit, whole};
use super::length::interval;
use super::port::ScheduleError;
use super::postgres::Postgres;
use super::statements;
use super::webhook_work::{WebhookPlace, WebhookReceiver, bounds};
use crate::domain::webhook::{DeliveryStatus, WhyDisabled};
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{Error, PgConnection, PgPool, Row};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Longest text of what was met, in characters.
const ERROR_MAX: usize = 200;
/// Longest beginning of an answer, in characters.
const EXCERPT_MAX: usize = 1_000;

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// The receiver has it.
    Delivered,
    /// It is tried again after this.
    Owed(Duration),
    /// It is not tried again, unless its owner has it sent again.
    Failed,
}

/// What a try says of its endpoint, beside whether it succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stops {
    /// Nothing.
    Nothing,
    /// It asked to be left alone for so long.
    For(Duration),
    /// It is gone.
    ForGood,
}

/// One try, and what it met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TryMet {
    /// Of which delivery.
    pub place: WebhookPlace,
    /// Who was called, as it was then.
    pub receiver: Arc<WebhookReceiver>,
    /// Under which taking.
    pub fence: i64,
    /// What becomes of it.
    pub became: Became,
    /// What it says of the endpoint; `None`: nothing at all was sent to it.
    pub endpoint: Option<Stops>,
    /// When it began, by this host.
    pub at: DateTime<Utc>,
    /// How long it took.
    pub took: Duration,
    /// The answer's status.
    pub status: Option<u16>,
    /// Why there was no answer, or no whole one.
    pub error: Option<String>,
    /// The beginning of the answer, printable.
    pub excerpt: String,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotedWebhooks {
    /// Those that counted.
    pub noted: BTreeSet<(Uuid, Uuid, i32)>,
    /// Endpoints disabled by it.
    pub disabled: Vec<(Uuid, WhyDisabled)>,
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn microseconds(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

fn becomes(became: Became) -> (&'static str, i64) {
    match became {
        Became::Delivered => (DeliveryStatus::Delivered.as_str(), 0),
        Became::Owed(wait) => (DeliveryStatus::Pending.as_str(), microseconds(wait)),
        Became::Failed => (DeliveryStatus::Failed.as_str(), 0),
    }
}

async fn note_day(
    database: &mut PgConnection,
    day: NaiveDate,
    holder: &str,
    met: &[&TryMet],
) -> Result<Vec<(Uuid, Uuid, i32)>, Error> {
    let (from, to) = bounds(day);
    let found = sqlx::query(statements::WEBHOOKS_NOTE)
        .bind(from)
        .bind(to)
        .bind(holder)
        .bind(column(met, |met| met.place.endpoint))
        .bind(column(met, |met| met.place.event_at))
        .bind(column(met, |met| met.place.payment))
        .bind(column(met, |met| met.place.seq))
        .bind(column(met, |met| met.fence))
        .bind(column(met, |met| becomes(met.became).0))
        .bind(column(met, |met| becomes(met.became).1))
        .bind(column(met, |met| met.at))
        .bind(column(met, |met| i32::try_from(met.took.as_millis()).unwrap_or(i32::MAX)))
        .bind(column(met, |met| met.status.and_then(|status| i16::try_from(status).ok())))
        .bind(column(met, |met| met.error.as_deref().map(|error| cut(error, ERROR_MAX))))
        .bind(column(met, |met| cut(&met.excerpt, EXCERPT_MAX)))
        .bind(column(met, |met| met.receiver.url.clone()))
        .fetch_all(database)
        .await?;
    let read = |found: &sqlx::postgres::PgRow| {
        Ok((found.try_get("endpoint_id")?, found.try_get("payment_id")?, found.try_get("seq")?))
    };
    found.iter().map(read).collect()
}

fn column<T>(met: &[&TryMet], value: impl Fn(&TryMet) -> T) -> Vec<T> {
    met.iter().map(|met| value(met)).collect()
}

/// What all of these tries say of one endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Said {
    /// As of which act; what older tries met says nothing of a newer one.
    version: i32,
    succeeded: bool,
    wait: Duration,
    is_gone: bool,
    /// What the last failure met, for its owner.
    met: String,
}

fn said<'a>(met: impl Iterator<Item = &'a TryMet>) -> BTreeMap<Uuid, Said> {
    let mut endpoints: BTreeMap<Uuid, Said> = BTreeMap::new();
    for met in met {
        let Some(stops) = met.endpoint else { continue };
        let said = endpoints.entry(met.place.endpoint).or_default();
        match met.receiver.version.cmp(&said.version) {
            Ordering::Less => continue,
            Ordering::Equal => {}
            Ordering::Greater => *said = Said { version: met.receiver.version, ..Said::default() },
        }
        match stops {
            Stops::Nothing => {}
            Stops::For(wait) => said.wait = said.wait.max(wait),
            Stops::ForGood => said.is_gone = true,
        }
        if met.became == Became::Delivered {
            said.succeeded = true;
        } else {
            let status = met.status.map(|status| format!("HTTP {status}"));
            said.met = met.error.clone().or(status).unwrap_or_default();
        }
    }
    endpoints
}

/// Endpoints that have failed for too long now.
async fn note_endpoints(
    database: &mut PgConnection,
    said: &BTreeMap<Uuid, Said>,
    rest_cap: Duration,
    disable_after: Duration,
) -> Result<Vec<Uuid>, Error> {
    let found = sqlx::query(statements::WEBHOOKS_NOTE_ENDPOINTS)
        .bind(said.keys().copied().collect::<Vec<_>>())
        .bind(said.values().map(|said| said.succeeded).collect::<Vec<_>>())
        .bind(said.values().map(|said| microseconds(said.wait)).collect::<Vec<_>>())
        .bind(interval(rest_cap))
        .bind(interval(disable_after))
        .bind(said.values().map(|said| said.version).collect::<Vec<_>>())
        .fetch_all(database)
        .await?;
    let mut over = Vec::new();
    for found in found {
        if found.try_get("is_over")? {
            over.push(found.try_get("id")?);
        }
    }
    Ok(over)
}

async fn disable(
    pool: &PgPool,
    endpoint: Uuid,
    why: WhyDisabled,
    said: &Said,
    by: &str,
) -> Result<bool, Error> {
    let told: String = sqlx::query_scalar(statements::DISABLE_WEBHOOK_ENDPOINT)
        .bind(endpoint)
        .bind(None::<Uuid>)
        .bind(said.version)
        .bind(why.as_str())
        .bind(cut(&said.met, ERROR_MAX))
        .bind(by)
        .fetch_one(pool)
        .await?;
    Ok(told == "disabled")
}

async fn note(
    pool: PgPool,
    holder: String,
    met: Vec<TryMet>,
    rest_cap: Duration,
    disable_after: Duration,
) -> Result<NotedWebhooks, ScheduleError> {
    let mut days: BTreeMap<NaiveDate, Vec<&TryMet>> = BTreeMap::new();
    for met in &met {
        days.entry(met.place.event_at.date_naive()).or_default().push(met);
    }
    let mut noted = BTreeSet::new();
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    for (day, met) in days {
        noted.extend(note_day(&mut transaction, day, &holder, &met).await.map_err(before_commit)?);
    }
    // What did not count says nothing either: its endpoint may be another one by now.
    let counted = |met: &&TryMet| noted.contains(&(met.place.endpoint, met.place.payment, met.place.seq));
    let said = said(met.iter().filter(counted));
    let over =
        note_endpoints(&mut transaction, &said, rest_cap, disable_after).await.map_err(before_commit)?;
    commit(transaction).await?;
    let mut disabled = Vec::new();
    for (endpoint, said) in &said {
        let why = if said.is_gone {
            WhyDisabled::Gone
        } else if over.contains(endpoint) {
            WhyDisabled::Failing
        } else {
            continue;
        };
        if disable(&pool, *endpoint, why, said, &holder).await.map_err(before_commit)? {
            disabled.push((*endpoint, why));
        }
    }
    Ok(NotedWebhooks { noted, disabled })
}

impl Postgres {
    /// Writes what tries of this holder met. A try that is not among the answer's counted for nothing.
    ///
    /// # Errors
    /// Any; noting the same again does no harm.
    pub async fn note_webhooks(
        &self,
        holder: &str,
        met: &[TryMet],
        rest_cap: Duration,
        disable_after: Duration,
    ) -> Result<NotedWebhooks, ScheduleError> {
        let (pool, holder, met) = (self.pool().clone(), holder.to_owned(), met.to_vec());
        whole(note(pool, holder, met, rest_cap, disable_after)).await
    }
}
