//! API keys: found by the hash of their text, which is all that is stored of them.

use super::failure::{at_commit, before_commit, commit};
use super::port::ScheduleError;
use super::records::{Actor, ApiKeyRecord};
use super::statements;
use crate::domain::ids::{ActorId, GatewayName};
use crate::domain::money::Currency;
use chrono::{DateTime, Utc};
use sqlx::{Error, PgPool, Row};
use uuid::Uuid;

pub(super) async fn find(pool: PgPool, hash: [u8; 32]) -> Result<Option<ApiKeyRecord>, ScheduleError> {
    let found = sqlx::query(statements::FIND_API_KEY)
        .bind(hash.as_slice())
        .fetch_optional(&pool)
        .await
        .map_err(before_commit)?;
    found.map(|found| record(&found)).transpose().map_err(before_commit)
}

fn record(found: &sqlx::postgres::PgRow) -> Result<ApiKeyRecord, Error> {
    let currency: Option<String> = found.try_get("default_currency")?;
    let gateway: Option<String> = found.try_get("default_gateway")?;
    Ok(ApiKeyRecord {
        key_id: found.try_get("key_id")?,
        actor: Actor {
            id: ActorId(found.try_get("actor_id")?),
            default_currency: currency.as_deref().and_then(Currency::from_code),
            default_gateway: gateway.map(GatewayName),
        },
        actor_name: found.try_get("actor_name")?,
        scopes: found.try_get("scopes")?,
        expires_at: found.try_get("expires_at")?,
        database_now: found.try_get("database_now")?,
    })
}

/// A key to be stored.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Its public id, fresh.
    pub id: Uuid,
    /// The id of the actor, if one must be made; fresh.
    pub new_actor: Uuid,
    /// The actor's name, 1–100 characters.
    pub actor_name: String,
    /// SHA-256 of its text.
    pub hash: [u8; 32],
    /// Its first characters, for people.
    pub hint: String,
    /// `payments:read`, …
    pub scopes: Vec<String>,
}

pub(super) async fn add(pool: PgPool, new: NewApiKey) -> Result<ActorId, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let actor: Uuid = sqlx::query_scalar(statements::ADD_ACTOR)
        .bind(new.new_actor)
        .bind(&new.actor_name)
        .fetch_one(&mut *transaction)
        .await
        .map_err(before_commit)?;
    sqlx::query(statements::ADD_API_KEY)
        .bind(new.id)
        .bind(actor)
        .bind(new.hash.as_slice())
        .bind(&new.hint)
        .bind(&new.scopes)
        .execute(&mut *transaction)
        .await
        .map_err(before_commit)?;
    commit(transaction).await?;
    Ok(ActorId(actor))
}

/// A key as it is listed; nothing of it lets anybody in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyEntry {
    /// Names it.
    pub key_id: Uuid,
    /// The name of whose it is.
    pub actor: String,
    /// Its first characters.
    pub hint: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Refused from then on.
    pub expires_at: Option<DateTime<Utc>>,
    /// Refused since then.
    pub revoked_at: Option<DateTime<Utc>>,
}

pub(super) async fn list(pool: PgPool, actor: Option<String>) -> Result<Vec<ApiKeyEntry>, ScheduleError> {
    let found = sqlx::query(statements::LIST_API_KEYS).bind(actor).fetch_all(&pool).await;
    let entry = |row: &sqlx::postgres::PgRow| {
        Ok(ApiKeyEntry {
            key_id: row.try_get("key_id")?,
            actor: row.try_get("actor")?,
            hint: row.try_get("hint")?,
            scopes: row.try_get("scopes")?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            revoked_at: row.try_get("revoked_at")?,
        })
    };
    found.and_then(|rows| rows.iter().map(entry).collect()).map_err(before_commit)
}

pub(super) async fn revoke(pool: PgPool, key_id: Uuid) -> Result<bool, ScheduleError> {
    let done =
        sqlx::query(statements::REVOKE_API_KEY).bind(key_id).execute(&pool).await.map_err(at_commit)?;
    Ok(done.rows_affected() == 1)
}
