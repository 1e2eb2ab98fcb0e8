//! Endpoints of webhooks: made, changed, rotated, switched off and on, deleted, and tested by their owners.
//!
//! **Promises.** Every verb names the actor, and answers about another's endpoint exactly as about none. An act and its
//! line in `webhook_endpoint_acts` commit together, by functions of the owner role. Secrets go in and never come out
//! here: the interface's role cannot read them; only the sender's can. **Why functions**: how many endpoints an actor
//! may have, and that two have not one url, is judged under a lock of the actor. If this dies here, the answer is
//! lost: the endpoint is in the list, and a secret that nobody has seen is rotated.

use super::failure::{at_commit, before_commit, whole};
use super::length::interval;
use super::port::ScheduleError;
use super::row::{parsed, unfit};
use super::{Postgres, statements};
use crate::domain::ids::{ActorId, Operator, PaymentId};
use crate::domain::webhook::{EndpointAct, WebhookSecret, WhyDisabled};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};
use std::time::Duration;
use uuid::Uuid;

/// Most acts that are shown of one endpoint.
const MOST_ACTS: i64 = 50;

/// An endpoint as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// Names it.
    pub id: Uuid,
    /// Where requests go.
    pub url: String,
    /// The owner's own words.
    pub description: String,
    /// Types of events that it gets; empty: all.
    pub event_types: Vec<String>,
    /// Until then the secret before the present one signs too.
    pub previous_secret_until: Option<DateTime<Utc>>,
    /// Requests under way at one time.
    pub max_concurrency: i16,
    /// Since when and why nothing is sent.
    pub disabled: Option<(DateTime<Utc>, WhyDisabled)>,
    /// While it is disabled: later events are not owed to it.
    pub owed_until: Option<DateTime<Utc>>,
    /// Events that it missed for good by it, since it was last disabled.
    pub skipped: i64,
    /// It gets events from then on.
    pub created_at: DateTime<Utc>,
    /// Its last act.
    pub changed_at: DateTime<Utc>,
    /// Grows with each act.
    pub version: i32,
    /// No try has succeeded since then.
    pub failing_since: Option<DateTime<Utc>>,
    /// When one last did.
    pub last_success_at: Option<DateTime<Utc>>,
    /// It is not asked before then; `None` too when that is over.
    pub hold_until: Option<DateTime<Utc>>,
}

/// One line of what was done to an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointLine {
    /// The endpoint's version by it.
    pub version: i32,
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub act: EndpointAct,
    /// A key's actor, or the sender.
    pub done_by: String,
    /// What of it.
    pub detail: serde_json::Value,
}

/// An endpoint to be made.
#[derive(Debug, Clone)]
pub struct NewWebhookEndpoint {
    /// Fresh.
    pub id: Uuid,
    /// Whose.
    pub actor: ActorId,
    /// Judged before; at most 1000 characters.
    pub url: String,
    /// At most 500 characters.
    pub description: String,
    /// Known ones; empty: all.
    pub event_types: Vec<String>,
    /// 1 to 100.
    pub max_concurrency: i16,
    /// Fresh.
    pub secret: WebhookSecret,
    /// An actor has no more than so many.
    pub most: u32,
    /// Who makes it.
    pub by: Operator,
}

/// Whether anything is sent to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointSwitch {
    /// Yes, beginning with what it is owed.
    On,
    /// No: what it is owed, and what happens within a week, waits.
    Off,
}

/// What is to change; `None` leaves it.
#[derive(Debug, Clone, Default)]
pub struct EndpointChange {
    /// The version that it is made to.
    pub seen: Option<i32>,
    /// Judged before.
    pub url: Option<String>,
    /// May be empty.
    pub description: Option<String>,
    /// Empty: all.
    pub event_types: Option<Vec<String>>,
    /// 1 to 100.
    pub max_concurrency: Option<i16>,
}

/// What became of an act on an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointAnswer {
    /// Done.
    Done,
    /// It was so before.
    Before,
    /// The actor has no such endpoint.
    NotFound,
    /// Another endpoint of the actor has the url.
    UrlTaken,
    /// The actor has as many as it may.
    TooMany,
    /// Something was done to it since that version.
    ChangedSince,
}

/// What became of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretRotated {
    /// The old secret signs until then.
    Rotated(DateTime<Utc>),
    /// The one before the old one still signs until then, and there are never three.
    Rotating(DateTime<Utc>),
    /// The actor has no such endpoint.
    NotFound,
}

/// What became of a test message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestAsked {
    /// It is owed now: its id and its instant.
    Queued(PaymentId, DateTime<Utc>),
    /// The actor has no such endpoint.
    NotFound,
    /// Nothing is sent to it.
    Disabled,
    /// Ten wait already.
    TooMany,
}

impl Postgres {
    /// Makes an endpoint.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` (look into the list) or `Defect`.
    pub async fn make_webhook_endpoint(
        &self,
        new: NewWebhookEndpoint,
    ) -> Result<EndpointAnswer, ScheduleError> {
        whole(make(self.pool().clone(), new)).await
    }

    /// All of an actor, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn webhook_endpoints(&self, actor: ActorId) -> Result<Vec<WebhookEndpoint>, ScheduleError> {
        whole(list(self.pool().clone(), actor)).await
    }

    /// One of an actor's own, with what was done to it lately, newest first.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn webhook_endpoint(
        &self,
        actor: ActorId,
        endpoint: Uuid,
    ) -> Result<Option<(WebhookEndpoint, Vec<EndpointLine>)>, ScheduleError> {
        whole(find(self.pool().clone(), actor, endpoint)).await
    }

    /// Changes one.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn change_webhook_endpoint(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        change: EndpointChange,
        by: Operator,
    ) -> Result<EndpointAnswer, ScheduleError> {
        whole(change_one(self.pool().clone(), actor, endpoint, change, by)).await
    }

    /// Gives one another secret; the old one signs beside it for `overlap`.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` (it may be rotated to a secret that nobody saw: rotate again, without an
    /// overlap) or `Defect`.
    pub async fn rotate_webhook_secret(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        next: WebhookSecret,
        overlap: Duration,
        by: Operator,
    ) -> Result<SecretRotated, ScheduleError> {
        whole(rotate(self.pool().clone(), actor, endpoint, next, overlap, by)).await
    }

    /// Switches it for its owner.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn switch_webhook_endpoint(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        to: EndpointSwitch,
        by: Operator,
    ) -> Result<EndpointAnswer, ScheduleError> {
        whole(switch(self.pool().clone(), actor, endpoint, to, by)).await
    }

    /// Deletes it; what it is owed is discarded.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn delete_webhook_endpoint(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        by: Operator,
    ) -> Result<EndpointAnswer, ScheduleError> {
        whole(delete(self.pool().clone(), actor, endpoint, by)).await
    }

    /// Owes it a test message, sent like any event; `chance` is a random UUID.
    ///
    /// # Errors
    /// Any; repeating it sends another.
    pub async fn send_webhook_test(
        &self,
        actor: ActorId,
        endpoint: Uuid,
        chance: Uuid,
    ) -> Result<TestAsked, ScheduleError> {
        whole(test(self.pool().clone(), actor, endpoint, chance)).await
    }
}

async fn make(pool: PgPool, new: NewWebhookEndpoint) -> Result<EndpointAnswer, ScheduleError> {
    let told: String = sqlx::query_scalar(statements::MAKE_WEBHOOK_ENDPOINT)
        .bind(new.id)
        .bind(new.actor.0)
        .bind(new.url)
        .bind(new.description)
        .bind(new.event_types)
        .bind(new.max_concurrency)
        .bind(new.secret.bytes().as_slice())
        .bind(i32::try_from(new.most).unwrap_or(i32::MAX))
        .bind(new.by.0)
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    answer(&told)
}

async fn list(pool: PgPool, actor: ActorId) -> Result<Vec<WebhookEndpoint>, ScheduleError> {
    let found = sqlx::query(statements::LIST_WEBHOOK_ENDPOINTS).bind(actor.0).fetch_all(&pool).await;
    found.and_then(|rows| rows.iter().map(endpoint_of).collect()).map_err(before_commit)
}

async fn find(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
) -> Result<Option<(WebhookEndpoint, Vec<EndpointLine>)>, ScheduleError> {
    let Some(found) = one(&pool, actor, endpoint).await.map_err(before_commit)? else { return Ok(None) };
    let lines = sqlx::query(statements::LIST_WEBHOOK_ENDPOINT_ACTS)
        .bind(endpoint)
        .bind(MOST_ACTS)
        .fetch_all(&pool)
        .await
        .and_then(|rows| rows.iter().map(line).collect());
    Ok(Some((found, lines.map_err(before_commit)?)))
}

/// One of an actor's own.
pub(super) async fn one(
    pool: &PgPool,
    actor: ActorId,
    endpoint: Uuid,
) -> Result<Option<WebhookEndpoint>, Error> {
    let found = sqlx::query(statements::FIND_WEBHOOK_ENDPOINT).bind(endpoint).bind(actor.0);
    found.fetch_optional(pool).await?.map(|row| endpoint_of(&row)).transpose()
}

fn endpoint_of(row: &PgRow) -> Result<WebhookEndpoint, Error> {
    let now: DateTime<Utc> = row.try_get("database_now")?;
    let ahead = |column: &str| -> Result<Option<DateTime<Utc>>, Error> {
        Ok(row.try_get::<Option<DateTime<Utc>>, _>(column)?.filter(|until| *until > now))
    };
    let disabled = match row.try_get::<Option<DateTime<Utc>>, _>("disabled_at")? {
        None => None,
        Some(at) => Some((at, parsed(row, "disabled_reason", WhyDisabled::from_text)?)),
    };
    Ok(WebhookEndpoint {
        id: row.try_get("id")?,
        url: row.try_get("url")?,
        description: row.try_get("description")?,
        event_types: row.try_get("event_types")?,
        previous_secret_until: ahead("previous_secret_until")?,
        max_concurrency: row.try_get("max_concurrency")?,
        disabled,
        owed_until: row.try_get("owed_until")?,
        skipped: row.try_get("skipped")?,
        created_at: row.try_get("created_at")?,
        changed_at: row.try_get("changed_at")?,
        version: row.try_get("version")?,
        failing_since: row.try_get("failing_since")?,
        last_success_at: row.try_get("last_success_at")?,
        hold_until: ahead("hold_until")?,
    })
}

fn line(row: &PgRow) -> Result<EndpointLine, Error> {
    Ok(EndpointLine {
        version: row.try_get("version")?,
        at: row.try_get("at")?,
        act: parsed(row, "act", EndpointAct::from_text)?,
        done_by: row.try_get("done_by")?,
        detail: row.try_get("detail")?,
    })
}

async fn change_one(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
    change: EndpointChange,
    by: Operator,
) -> Result<EndpointAnswer, ScheduleError> {
    let told: String = sqlx::query_scalar(statements::CHANGE_WEBHOOK_ENDPOINT)
        .bind(endpoint)
        .bind(actor.0)
        .bind(change.seen)
        .bind(change.url)
        .bind(change.description)
        .bind(change.event_types)
        .bind(change.max_concurrency)
        .bind(by.0)
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    answer(&told)
}

async fn rotate(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
    next: WebhookSecret,
    overlap: Duration,
    by: Operator,
) -> Result<SecretRotated, ScheduleError> {
    let row = sqlx::query(statements::ROTATE_WEBHOOK_SECRET)
        .bind(endpoint)
        .bind(actor.0)
        .bind(next.bytes().as_slice())
        .bind(interval(overlap))
        .bind(by.0)
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    let told: String = row.try_get("told").map_err(at_commit)?;
    let ends_at = || row.try_get("ends_at").map_err(at_commit);
    match told.as_str() {
        "rotated" => Ok(SecretRotated::Rotated(ends_at()?)),
        "rotating" => Ok(SecretRotated::Rotating(ends_at()?)),
        "not_found" => Ok(SecretRotated::NotFound),
        other => Err(unheard(other)),
    }
}

async fn switch(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
    to: EndpointSwitch,
    by: Operator,
) -> Result<EndpointAnswer, ScheduleError> {
    let asked = match to {
        EndpointSwitch::On => {
            sqlx::query_scalar(statements::ENABLE_WEBHOOK_ENDPOINT).bind(endpoint).bind(actor.0).bind(by.0)
        }
        EndpointSwitch::Off => sqlx::query_scalar(statements::DISABLE_WEBHOOK_ENDPOINT)
            .bind(endpoint)
            .bind(actor.0)
            // However it stands, and nothing was met.
            .bind(None::<i32>)
            .bind(WhyDisabled::Asked.as_str())
            .bind(None::<String>)
            .bind(by.0),
    };
    let told: String = asked.fetch_one(&pool).await.map_err(at_commit)?;
    answer(&told)
}

async fn delete(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
    by: Operator,
) -> Result<EndpointAnswer, ScheduleError> {
    let asked =
        sqlx::query_scalar(statements::DELETE_WEBHOOK_ENDPOINT).bind(endpoint).bind(actor.0).bind(by.0);
    let told: String = asked.fetch_one(&pool).await.map_err(at_commit)?;
    answer(&told)
}

async fn test(
    pool: PgPool,
    actor: ActorId,
    endpoint: Uuid,
    chance: Uuid,
) -> Result<TestAsked, ScheduleError> {
    let asked = sqlx::query(statements::SEND_WEBHOOK_TEST).bind(endpoint).bind(actor.0).bind(chance);
    let row = asked.fetch_one(&pool).await.map_err(at_commit)?;
    let told: String = row.try_get("told").map_err(at_commit)?;
    match told.as_str() {
        "queued" => queued(&row).map_err(at_commit),
        "not_found" => Ok(TestAsked::NotFound),
        "disabled" => Ok(TestAsked::Disabled),
        "too_many" => Ok(TestAsked::TooMany),
        other => Err(unheard(other)),
    }
}

fn queued(row: &PgRow) -> Result<TestAsked, Error> {
    let id: Uuid = row.try_get("test_id")?;
    let id = PaymentId::from_uuid(id).map_err(|_| unfit("test_id", &id))?;
    Ok(TestAsked::Queued(id, row.try_get("test_at")?))
}

fn answer(told: &str) -> Result<EndpointAnswer, ScheduleError> {
    match told {
        "made" | "changed" | "disabled" | "enabled" | "deleted" => Ok(EndpointAnswer::Done),
        "disabled_before" | "enabled_before" => Ok(EndpointAnswer::Before),
        "not_found" => Ok(EndpointAnswer::NotFound),
        "url_taken" => Ok(EndpointAnswer::UrlTaken),
        "too_many" => Ok(EndpointAnswer::TooMany),
        "changed_since" => Ok(EndpointAnswer::ChangedSince),
        other => Err(unheard(other)),
    }
}

fn unheard(word: &str) -> ScheduleError {
    ScheduleError::Defect(format!("an act on an endpoint of webhooks was answered {word:?}").into())
}
