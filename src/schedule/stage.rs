//! What the relay is to publish next, in due order.
//!
//! Rows are found by what they are (shard and instant), never by a cursor on a sequence, which would
//! skip what commits late. A minute far ahead is read only if counting says that it is crowded:
//! at most a batch of index entries a minute, whatever waits there. Notices that nothing can claim any more are deleted here instead of being
//! published. If this dies here, the same notices are staged again.

use super::failure::{before_commit, commit};
use super::mark::delete;
use super::port::{ScheduleError, ShardLease, Staged, StagedNotice};
use super::{row, statements};
use crate::domain::bucket::{SHARDS, whole_minutes};
use crate::domain::ids::GatewayName;
use crate::domain::intent::{Secret, notice_mac};
use crate::domain::notice::Notice;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use uuid::Uuid;

/// A notice this much past its instant is looked at before it is published: its payment may have moved on
/// while no relay ran or Kafka was away. Above the pace of a healthy relay, which then never looks; not far
/// above, or the return of Kafka is a storm of claims that are refused.
pub(super) const OLD: TimeDelta = TimeDelta::seconds(5);
/// How far beyond the lead the relay is told of the next notice; it looks again sooner anyway.
pub(super) const LOOK_AHEAD: TimeDelta = TimeDelta::hours(1);

/// Which notices a pass reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reach {
    /// What is due within this lead.
    Near(Duration),
    /// A minute between two leads, if one is crowded.
    Crowd { beyond: Duration, within: Duration },
}

fn shards_of(lease: &ShardLease) -> Vec<i16> {
    (0..SHARDS).filter(|shard| i32::from(*shard) % lease.partitions == lease.residue).collect()
}

pub(super) async fn stage(
    pool: PgPool,
    secret: Secret,
    lease: ShardLease,
    reach: Reach,
    limit: u32,
) -> Result<Staged, ScheduleError> {
    let mut transaction = pool.begin().await.map_err(before_commit)?;
    let staged = read(&mut transaction, &secret, &lease, reach, limit).await.map_err(before_commit)?;
    commit(transaction).await?;
    Ok(staged)
}

async fn read(
    connection: &mut PgConnection,
    secret: &Secret,
    lease: &ShardLease,
    reach: Reach,
    limit: u32,
) -> Result<Staged, Error> {
    let window = sqlx::query(statements::STAGE_WINDOW).fetch_one(&mut *connection).await?;
    let database_now: DateTime<Utc> = window.try_get("database_now")?;
    let oldest: DateTime<Utc> = window.try_get("oldest")?;
    let shards = shards_of(lease);
    let crowd = match reach {
        Reach::Near(_) => None,
        Reach::Crowd { beyond, within } => {
            let span = whole_minutes(database_now, signed(beyond), signed(within));
            let Some(minute) = crowded_minute(connection, &shards, span, limit).await? else {
                return Ok(Staged { notices: Vec::new(), database_now, next_due: None });
            };
            Some(minute)
        }
    };
    let (oldest, until) = match (reach, crowd) {
        (_, Some(minute)) => (minute, minute + TimeDelta::minutes(1) - TimeDelta::microseconds(1)),
        (Reach::Near(lead) | Reach::Crowd { beyond: lead, .. }, None) => {
            (oldest, database_now + signed(lead))
        }
    };
    let rows = sqlx::query(statements::STAGE)
        .bind(&shards)
        .bind(oldest)
        .bind(until)
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    let full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let mut notices = Vec::with_capacity(rows.len());
    for found in &rows {
        notices.push(notice(found, secret)?);
    }
    let notices = drop_dead(connection, lease, database_now, notices).await?;
    let next_due = if full || crowd.is_some() {
        None
    } else {
        sqlx::query_scalar(statements::STAGE_NEXT)
            .bind(&shards)
            .bind(until)
            .bind(until + LOOK_AHEAD)
            .fetch_one(connection)
            .await?
    };
    Ok(Staged { notices, database_now, next_due })
}

/// The earliest minute of the span in which so many notices of these shards wait.
async fn crowded_minute(
    connection: &mut PgConnection,
    shards: &[i16],
    span: Option<(DateTime<Utc>, DateTime<Utc>)>,
    limit: u32,
) -> Result<Option<DateTime<Utc>>, Error> {
    let Some((from, end)) = span else { return Ok(None) };
    sqlx::query_scalar(statements::STAGE_CROWD)
        .bind(shards)
        .bind(from)
        .bind(end)
        .bind(i64::from(limit))
        .fetch_optional(connection)
        .await
}

/// A lead is minutes (checked at start); one that chrono cannot hold would read everything.
fn signed(lead: Duration) -> TimeDelta {
    TimeDelta::from_std(lead).unwrap_or(TimeDelta::hours(1))
}

fn notice(found: &PgRow, secret: &Secret) -> Result<StagedNotice, Error> {
    let notice = Notice {
        payment: row::payment_id(found, "payment_id")?,
        gateway: GatewayName(found.try_get("gateway")?),
        lane: found.try_get("lane")?,
        due_at: found.try_get("due_at")?,
        not_before: found.try_get("not_before")?,
        attempt: found.try_get("attempt")?,
    };
    Ok(StagedNotice {
        notice_id: found.try_get("notice_id")?,
        written_at: found.try_get("written_at")?,
        shard: found.try_get("shard")?,
        mac: notice_mac(secret, &notice),
        notice,
        traceparent: found.try_get("traceparent")?,
    })
}

/// Takes out, and deletes, old notices that no claim could use any more.
async fn drop_dead(
    connection: &mut PgConnection,
    lease: &ShardLease,
    database_now: DateTime<Utc>,
    notices: Vec<StagedNotice>,
) -> Result<Vec<StagedNotice>, Error> {
    let is_old = |staged: &StagedNotice| staged.notice.not_before < database_now - OLD;
    let mut days: BTreeMap<NaiveDate, (Vec<Uuid>, Vec<i32>)> = BTreeMap::new();
    for staged in notices.iter().filter(|staged| is_old(staged)) {
        let (ids, attempts) = days.entry(staged.notice.payment.due_day()).or_default();
        ids.push(staged.notice.payment.as_uuid());
        attempts.push(staged.notice.attempt);
    }
    if days.is_empty() {
        return Ok(notices);
    }
    let mut alive: HashSet<(Uuid, i32)> = HashSet::new();
    for (day, (ids, attempts)) in days {
        let found: Vec<(Uuid, i32)> = sqlx::query_as(statements::STILL_CLAIMABLE)
            .bind(day)
            .bind(ids)
            .bind(attempts)
            .fetch_all(&mut *connection)
            .await?;
        alive.extend(found);
    }
    let is_alive =
        |staged: &StagedNotice| alive.contains(&(staged.notice.payment.as_uuid(), staged.notice.attempt));
    let (keep, dead): (Vec<_>, Vec<_>) =
        notices.into_iter().partition(|staged| !is_old(staged) || is_alive(staged));
    if !dead.is_empty() {
        tracing::debug!(dropped = dead.len(), "old notices that nothing can claim");
        delete(connection, lease, &dead).await?;
    }
    Ok(keep)
}
