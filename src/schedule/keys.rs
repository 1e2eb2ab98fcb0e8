//! API keys: found by the hash of their text, which is all that is stored of them. Acts on them are in
//! `key_acts`.

use super::failure::{at_commit, before_commit, whole};
use super::port::ScheduleError;
use super::records::{Actor, ApiKeyRecord};
use super::{Postgres, statements};
use crate::domain::ids::{ActorId, GatewayName};
use crate::domain::money::Currency;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};
use uuid::Uuid;

/// What a token with a good signature says.
#[derive(Debug, Clone)]
pub struct TokenActor {
    /// The id of the actor, if one must be made; fresh.
    pub new_actor: Uuid,
    /// Its name, 1–100 characters.
    pub name: String,
    /// It holds from then on.
    pub not_before: DateTime<Utc>,
    /// It holds until then.
    pub ends_at: DateTime<Utc>,
}

/// A key as it is listed; nothing of it lets anybody in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyEntry {
    /// Names it.
    pub key_id: Uuid,
    /// The name of whose it is.
    pub actor: String,
    /// What people call it; a key that takes over has the name of the one before.
    pub name: String,
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
    /// Within a minute or two; `None`: never.
    pub last_used_at: Option<DateTime<Utc>>,
}

impl Postgres {
    /// A key that is neither revoked nor expired, by SHA-256 of its text.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn api_key(&self, hash: &[u8; 32]) -> Result<Option<ApiKeyRecord>, ScheduleError> {
        whole(find(self.pool().clone(), *hash)).await
    }

    /// The actor that a token names, made if it is new, with the database's clock; `None` while that does not lie
    /// between the token's two ends.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn actor_of_token(
        &self,
        asked: TokenActor,
    ) -> Result<Option<(Actor, DateTime<Utc>)>, ScheduleError> {
        whole(of_token(self.pool().clone(), asked)).await
    }

    /// At most `limit` keys, everybody's or this actor's, behind `after` in the order of names and age.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn api_keys(
        &self,
        actor: Option<&str>,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<ApiKeyEntry>, ScheduleError> {
        whole(list(self.pool().clone(), actor.map(str::to_owned), after, limit)).await
    }

    /// Writes down that these keys were used, those of the last minute apart. Nobody waits for it.
    ///
    /// # Errors
    /// Any; the next use is written again.
    pub async fn note_key_uses(&self, keys: Vec<Uuid>) -> Result<(), ScheduleError> {
        whole(note_uses(self.pool().clone(), keys)).await
    }
}

async fn find(pool: PgPool, hash: [u8; 32]) -> Result<Option<ApiKeyRecord>, ScheduleError> {
    let found = sqlx::query(statements::FIND_API_KEY)
        .bind(hash.as_slice())
        .fetch_optional(&pool)
        .await
        .map_err(before_commit)?;
    found.map(|found| record(&found)).transpose().map_err(before_commit)
}

async fn of_token(pool: PgPool, asked: TokenActor) -> Result<Option<(Actor, DateTime<Utc>)>, ScheduleError> {
    let found = sqlx::query(statements::ACTOR_OF_TOKEN)
        .bind(asked.new_actor)
        .bind(asked.name)
        .bind(asked.not_before)
        .bind(asked.ends_at)
        .fetch_optional(&pool)
        .await
        .map_err(before_commit)?;
    let read = |row: PgRow| Ok((actor(&row)?, row.try_get("database_now")?));
    found.map(read).transpose().map_err(before_commit)
}

/// The actor in a row that names its three columns.
fn actor(found: &PgRow) -> Result<Actor, Error> {
    let currency: Option<String> = found.try_get("default_currency")?;
    let gateway: Option<String> = found.try_get("default_gateway")?;
    Ok(Actor {
        id: ActorId(found.try_get("actor_id")?),
        default_currency: currency.as_deref().and_then(Currency::from_code),
        default_gateway: gateway.map(GatewayName),
    })
}

fn record(found: &PgRow) -> Result<ApiKeyRecord, Error> {
    Ok(ApiKeyRecord {
        key_id: found.try_get("key_id")?,
        actor: actor(found)?,
        actor_name: found.try_get("actor_name")?,
        scopes: found.try_get("scopes")?,
        expires_at: found.try_get("expires_at")?,
        database_now: found.try_get("database_now")?,
    })
}

async fn list(
    pool: PgPool,
    actor: Option<String>,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<ApiKeyEntry>, ScheduleError> {
    let found = sqlx::query(statements::LIST_API_KEYS)
        .bind(actor)
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(&pool)
        .await;
    let entry = |row: &PgRow| {
        Ok(ApiKeyEntry {
            key_id: row.try_get("key_id")?,
            actor: row.try_get("actor")?,
            name: row.try_get("name")?,
            hint: row.try_get("hint")?,
            scopes: row.try_get("scopes")?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            revoked_at: row.try_get("revoked_at")?,
            last_used_at: row.try_get("last_used_at")?,
        })
    };
    found.and_then(|rows| rows.iter().map(entry).collect()).map_err(before_commit)
}

async fn note_uses(pool: PgPool, keys: Vec<Uuid>) -> Result<(), ScheduleError> {
    sqlx::query(statements::NOTE_API_KEY_USES).bind(keys).execute(&pool).await.map_err(at_commit)?;
    Ok(())
}
