//! Acts on API keys: made, rotated, revoked, each with the line that says who did it and why.
//!
//! **Promises.** Act and line commit together, by functions of the owner, so that nobody can make or end a
//! key without one. Of one actor's keys at most two of one name are live, and two only while one takes over
//! from the other. **Why functions**: the interface's role may not write keys; these three are all it can do.
//! If this dies here, the answer is lost: a key that nobody has seen is listed, and can be revoked.

use super::failure::{at_commit, whole};
use super::length::interval;
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::ids::{ActorId, Operator};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};
use std::time::Duration;
use uuid::Uuid;

/// Who acts, and why: what the line in the operators' audit says.
#[derive(Debug, Clone)]
pub struct By {
    /// The person.
    pub operator: Operator,
    /// 1 to 500 characters.
    pub reason: String,
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
    /// Its own name, 1–100 characters; `None`: its id.
    pub name: Option<String>,
    /// SHA-256 of its text.
    pub hash: [u8; 32],
    /// Its first characters, for people.
    pub hint: String,
    /// `payments:read`, …
    pub scopes: Vec<String>,
    /// Refused from then on.
    pub expires_at: Option<DateTime<Utc>>,
    /// Who makes it.
    pub by: By,
}

/// What became of a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMade {
    /// It is live, and this actor's.
    Made(ActorId),
    /// A live key of this actor has the name: rotate or revoke that one.
    NameTaken,
}

/// A key that is to take over from another.
#[derive(Debug, Clone)]
pub struct NextApiKey {
    /// Its public id, fresh.
    pub id: Uuid,
    /// SHA-256 of its text.
    pub hash: [u8; 32],
    /// Its first characters, for people.
    pub hint: String,
    /// How long the old one lives on, at most.
    pub overlap: Duration,
    /// Its end; `None`: it lives as long as the old one was made for.
    pub expires_at: Option<DateTime<Utc>>,
    /// Who does it.
    pub by: By,
}

/// What became of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRotated {
    /// Both are live until the old one ends.
    Rotated(Box<Succession>),
    /// There is no such key.
    NotFound,
    /// It is revoked or expired: make a new one.
    NotLive,
    /// Two of its name are live already: revoke one, or wait for its end.
    Rotating,
}

/// The new key of a rotation, and the end of the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Succession {
    /// Whose they are.
    pub actor: ActorId,
    /// Its name.
    pub actor_name: String,
    /// The name of both keys.
    pub name: String,
    /// What both may do.
    pub scopes: Vec<String>,
    /// The end of the new one.
    pub expires_at: Option<DateTime<Utc>>,
    /// The end of the old one.
    pub old_ends_at: DateTime<Utc>,
}

/// What became of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRevoked {
    /// Now.
    Revoked(DateTime<Utc>),
    /// It was, since then.
    Before(DateTime<Utc>),
    /// There is no such key.
    NotFound,
}

impl Postgres {
    /// Stores a new key for an actor made (or found) by name.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` (make another key) or `Defect`.
    pub async fn make_api_key(&self, new: NewApiKey) -> Result<KeyMade, ScheduleError> {
        whole(make(self.pool().clone(), new)).await
    }

    /// Makes a second key with the name and scopes of this one, which ends after the overlap.
    ///
    /// # Errors
    /// `Unavailable`, `CommitUnknown` (it may be made: revoke it and rotate again) or `Defect`.
    pub async fn rotate_api_key(&self, old: Uuid, next: NextApiKey) -> Result<KeyRotated, ScheduleError> {
        whole(rotate(self.pool().clone(), old, next)).await
    }

    /// Revokes a key; caches of keys believe it for a few seconds more.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn revoke_api_key(&self, key: Uuid, by: By) -> Result<KeyRevoked, ScheduleError> {
        whole(revoke(self.pool().clone(), key, by)).await
    }
}

async fn make(pool: PgPool, new: NewApiKey) -> Result<KeyMade, ScheduleError> {
    let made = sqlx::query(statements::MAKE_API_KEY)
        .bind(new.id)
        .bind(new.new_actor)
        .bind(&new.actor_name)
        .bind(new.name.unwrap_or_else(|| new.id.to_string()))
        .bind(new.hash.as_slice())
        .bind(&new.hint)
        .bind(&new.scopes)
        .bind(new.expires_at)
        .bind(&new.by.operator.0)
        .bind(&new.by.reason)
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    match told(&made)?.as_str() {
        "made" => Ok(KeyMade::Made(ActorId(made.try_get("owner_id").map_err(at_commit)?))),
        "name_taken" => Ok(KeyMade::NameTaken),
        other => Err(unheard(other)),
    }
}

async fn rotate(pool: PgPool, old: Uuid, next: NextApiKey) -> Result<KeyRotated, ScheduleError> {
    let row = sqlx::query(statements::ROTATE_API_KEY)
        .bind(old)
        .bind(next.id)
        .bind(next.hash.as_slice())
        .bind(&next.hint)
        .bind(interval(next.overlap))
        .bind(next.expires_at)
        .bind(&next.by.operator.0)
        .bind(&next.by.reason)
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    match told(&row)?.as_str() {
        "rotated" => Ok(KeyRotated::Rotated(Box::new(succession(&row).map_err(at_commit)?))),
        "not_found" => Ok(KeyRotated::NotFound),
        "not_live" => Ok(KeyRotated::NotLive),
        "rotating" => Ok(KeyRotated::Rotating),
        other => Err(unheard(other)),
    }
}

fn succession(row: &PgRow) -> Result<Succession, sqlx::Error> {
    Ok(Succession {
        actor: ActorId(row.try_get("owner_id")?),
        actor_name: row.try_get("owner_name")?,
        name: row.try_get("key_name")?,
        scopes: row.try_get("key_scopes")?,
        expires_at: row.try_get("new_ends_at")?,
        old_ends_at: row.try_get("old_ends_at")?,
    })
}

async fn revoke(pool: PgPool, key: Uuid, by: By) -> Result<KeyRevoked, ScheduleError> {
    let row = sqlx::query(statements::REVOKE_API_KEY)
        .bind(key)
        .bind(&by.operator.0)
        .bind(&by.reason)
        .fetch_one(&pool)
        .await
        .map_err(at_commit)?;
    let ended_at = || row.try_get("ended_at").map_err(at_commit);
    match told(&row)?.as_str() {
        "revoked" => Ok(KeyRevoked::Revoked(ended_at()?)),
        "revoked_before" => Ok(KeyRevoked::Before(ended_at()?)),
        "not_found" => Ok(KeyRevoked::NotFound),
        other => Err(unheard(other)),
    }
}

fn told(row: &PgRow) -> Result<String, ScheduleError> {
    row.try_get("told").map_err(at_commit)
}

fn unheard(word: &str) -> ScheduleError {
    ScheduleError::Defect(format!("an act on keys was answered {word:?}").into())
}
