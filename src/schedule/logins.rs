//! Logins to the dashboard that were ended before their time.
//!
//! A login is a sealed cookie and stands in no table; only its end before its time has to be remembered, until that
//! time. A backup that is restored does not know the ends of the time it lost: such a login lives until its time is
//! over, or until its key is revoked.

use super::failure::{at_commit, before_commit, whole};
use super::port::ScheduleError;
use super::{Postgres, statements};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::collections::BTreeSet;
use uuid::Uuid;

impl Postgres {
    /// Ends a login that would go on until then.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn end_login(&self, login: Uuid, until: DateTime<Utc>) -> Result<(), ScheduleError> {
        whole(end(self.pool().clone(), login, until)).await
    }

    /// Those that were ended and would still go on.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn ended_logins(&self) -> Result<BTreeSet<Uuid>, ScheduleError> {
        whole(ended(self.pool().clone())).await
    }
}

async fn end(pool: PgPool, login: Uuid, until: DateTime<Utc>) -> Result<(), ScheduleError> {
    let ended = sqlx::query(statements::END_LOGIN).bind(login).bind(until).execute(&pool).await;
    ended.map(drop).map_err(at_commit)
}

async fn ended(pool: PgPool) -> Result<BTreeSet<Uuid>, ScheduleError> {
    let found: Result<Vec<Uuid>, _> = sqlx::query_scalar(statements::ENDED_LOGINS).fetch_all(&pool).await;
    found.map(BTreeSet::from_iter).map_err(before_commit)
}
