//! Who is at work, for operators: nothing decides by it.
//!
//! A few statements on a few snapshots: each row is true at its own instant.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::ids::{GatewayName, WorkerName};
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{Error, PgPool, Row};

/// A worker with what it has of one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSeen {
    /// Slot and incarnation.
    pub worker: WorkerName,
    /// Of this gateway.
    pub gateway: GatewayName,
    /// Payments that it holds under a claim.
    pub claims: i64,
    /// Since when it holds the oldest of them.
    pub oldest_claim_at: Option<DateTime<Utc>>,
    /// When it last said what it wants of the account; `None`: the account shares nothing with it.
    pub heard_at: Option<DateTime<Utc>>,
    /// Calls that it wanted then.
    pub demand: Option<i32>,
    /// Calls that it may have in flight.
    pub slots: Option<i32>,
}

/// A relay that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelaySeen {
    /// Its name.
    pub holder: String,
    /// Partitions of a topic of its ring.
    pub partitions: i32,
    /// Those of them that it writes.
    pub residues: Vec<i32>,
    /// Here without a gap since then.
    pub since: DateTime<Utc>,
    /// Alive until then, unless it says so again.
    pub until: DateTime<Utc>,
}

/// The publisher that leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherSeen {
    /// Its name.
    pub holder: String,
    /// Fencing epoch.
    pub epoch: i64,
    /// Leads until then, unless it says so again.
    pub until: DateTime<Utc>,
}

/// Everybody at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crew {
    /// By the database's clock.
    pub taken_at: DateTime<Utc>,
    /// By name and gateway.
    pub workers: Vec<WorkerSeen>,
    /// By name.
    pub relays: Vec<RelaySeen>,
    /// At most one.
    pub publishers: Vec<PublisherSeen>,
}

async fn crew(pool: &PgPool) -> Result<Crew, Error> {
    let taken_at = sqlx::query_scalar(statements::DATABASE_NOW).fetch_one(pool).await?;
    let open = sqlx::query(statements::OPEN_DAYS).fetch_one(pool).await?;
    let (oldest, today): (NaiveDate, NaiveDate) = (open.try_get("oldest_open_day")?, open.try_get("today")?);
    let mut workers = Vec::new();
    for row in &sqlx::query(statements::LIST_WORKERS).bind(oldest).bind(today).fetch_all(pool).await? {
        workers.push(WorkerSeen {
            worker: WorkerName(row.try_get("worker")?),
            gateway: GatewayName(row.try_get("gateway")?),
            claims: row.try_get("claims")?,
            oldest_claim_at: row.try_get("oldest_at")?,
            heard_at: row.try_get("heard_at")?,
            demand: row.try_get("demand")?,
            slots: row.try_get("slots")?,
        });
    }
    let mut relays = Vec::new();
    for row in &sqlx::query(statements::LIST_RELAYS).fetch_all(pool).await? {
        relays.push(RelaySeen {
            holder: row.try_get("holder")?,
            partitions: row.try_get("partitions")?,
            residues: row.try_get("residues")?,
            since: row.try_get("since")?,
            until: row.try_get("until")?,
        });
    }
    let mut publishers = Vec::new();
    for row in &sqlx::query(statements::LIST_PUBLISHERS).fetch_all(pool).await? {
        let (holder, epoch, until) = (row.try_get("holder")?, row.try_get("epoch")?, row.try_get("until")?);
        publishers.push(PublisherSeen { holder, epoch, until });
    }
    Ok(Crew { taken_at, workers, relays, publishers })
}

impl Postgres {
    /// Looks who is at work.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; look again later.
    pub async fn crew(&self) -> Result<Crew, ScheduleError> {
        crew(self.pool()).await.map_err(before_commit)
    }
}
