//! The history as the publisher reads it: in an order that is every payment's own, behind a cursor
//! that only the holder of a fenced lease can move.
//!
//! **Why this order.** A history row carries `greatest(own xid, the payment's last xid)`. Below the
//! oldest transaction that still runs, nothing can appear any more, and there (xid, seq, payment) is
//! each payment's own order. A cursor on a sequence would skip what commits late; the order of
//! snapshots would show seq 5 before seq 4.
//!
//! **Why days.** The history is partitioned by its instant, and the cursor is not an instant. The
//! cursor's row keeps a floor under the instants that can still come (`sql/publish_advance.sql` says
//! why it holds), so that a pass reads a few days and not all of them. Rows of another server that wait for this one's
//! ids to reach them may be of any instant: while there are any, the floor stays.
//!
//! **If this dies** between Kafka's acknowledgement and the move of the cursor, the same events are
//! published again. A database restored from a dump has other transaction ids: its cursor starts over.

use super::failure::{at_commit, before_commit};
use super::length::interval;
use super::port::ScheduleError;
use super::postgres::Postgres;
use super::{row, statements};
pub use crate::domain::event::{Snapshot, Unpublished};
use crate::domain::history::HistoryRow;
use crate::domain::ids::{ActorId, GatewayName, PaymentId};
use crate::platform::faults::{Sabotage, sabotaged};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::{Error, PgExecutor, PgPool, Row};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// The lane of events; its row in `publisher_cursor`.
pub(super) const LANE: &str = Lane::Events.as_str();

/// Where the history goes, each with a cursor and a leader of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// To the topic of events.
    Events,
    /// To what is owed to endpoints (`fan_out.rs`).
    Webhooks,
}

impl Lane {
    /// Its key in `publisher_cursor`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Webhooks => "webhooks",
        }
    }
}

/// The right to move the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherLease {
    /// Of which lane.
    pub lane: Lane,
    /// The holder's name.
    pub holder: String,
    /// Fencing epoch; grows with every change of hands.
    pub epoch: i64,
    /// The database is another one than the cursor was made in: everything is published again.
    pub started_over: bool,
}

/// A place in the order of publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPlace {
    /// The row's transaction id, or that of an earlier row of its payment if that is higher.
    pub xid: u64,
    /// The row's number in its payment; 0 before the first.
    pub seq: i32,
    /// The payment; nil before the first.
    pub payment: Uuid,
}

/// What one pass found, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpublishedBatch {
    /// In the order of publication: per payment the order of `seq`.
    pub rows: Vec<Unpublished>,
    /// There may be more at once.
    pub is_full: bool,
    /// The cursor should be moved although nothing was found, so that its floor follows.
    pub floor_is_old: bool,
    /// Age of the oldest row that is not published when this batch is; zero if there is none. It grows
    /// while a transaction anywhere in the cluster stays open.
    pub oldest_age: Duration,
    /// That row carries a transaction id which this server has not given out yet: the database came
    /// from another one, and the row waits until the server's ids have passed it.
    pub is_ahead: bool,
    /// When it was read, by the database clock.
    pub database_now: DateTime<Utc>,
    /// Where the cursor goes.
    pub end: HistoryPlace,
    /// No row that is left has a lower transaction id, and none has one that is yet to be given out; `None`: not known,
    /// or not so.
    pub below: Option<u64>,
}

impl UnpublishedBatch {
    /// Age of the oldest row while this batch is not published yet.
    #[must_use]
    pub fn oldest_age_now(&self) -> Duration {
        let first = self.rows.first().map(|first| self.database_now - first.row.at);
        first.and_then(|age| age.to_std().ok()).unwrap_or_default().max(self.oldest_age)
    }
}

pub(super) fn xid(found: &PgRow, column: &str) -> Result<u64, Error> {
    let text: String = found.try_get(column)?;
    text.parse().map_err(|error| Error::ColumnDecode { index: column.into(), source: Box::new(error) })
}

pub(super) fn history_row(found: &PgRow) -> Result<HistoryRow, Error> {
    row::history(found, row::payment_id(found, "payment_id")?)
}

fn snapshot(found: &PgRow) -> Result<(PaymentId, Snapshot), Error> {
    let snapshot = Snapshot {
        actor: ActorId(found.try_get("actor_id")?),
        gateway: GatewayName(found.try_get("gateway")?),
        amount: row::money(found)?,
        due_at: found.try_get("due_at")?,
        execute_before: found.try_get("execute_before")?,
        traceparent: found.try_get("traceparent")?,
    };
    Ok((row::payment_id(found, "id")?, snapshot))
}

pub(super) async fn acquire(
    pool: &PgPool,
    lane: Lane,
    holder: &str,
    length: Duration,
) -> Result<Option<PublisherLease>, ScheduleError> {
    let made = sqlx::query(statements::PUBLISH_MAKE_CURSOR).bind(lane.as_str());
    made.execute(pool).await.map_err(before_commit)?;
    let found = sqlx::query(statements::PUBLISH_ACQUIRE)
        .bind(lane.as_str())
        .bind(holder)
        .bind(interval(length))
        .fetch_optional(pool)
        .await
        .map_err(at_commit)?;
    let read = |found: PgRow| {
        Ok(PublisherLease {
            lane,
            holder: holder.to_owned(),
            epoch: found.try_get("epoch")?,
            started_over: found.try_get("started_over")?,
        })
    };
    found.map(read).transpose().map_err(before_commit)
}

async fn renew(pool: &PgPool, lease: &PublisherLease, length: PgInterval) -> Result<bool, ScheduleError> {
    let query = sqlx::query(statements::PUBLISH_RENEW);
    let query = query.bind(lease.lane.as_str()).bind(&lease.holder).bind(lease.epoch).bind(length);
    Ok(query.fetch_optional(pool).await.map_err(at_commit)?.is_some())
}

async fn read(pool: &PgPool, lease: &PublisherLease, limit: u32) -> Result<Option<UnpublishedBatch>, Error> {
    let window = sqlx::query(statements::PUBLISH_WINDOW);
    let window = window.bind(lease.lane.as_str()).bind(&lease.holder).bind(lease.epoch);
    let Some(window) = window.fetch_optional(pool).await? else { return Ok(None) };
    let mut below = xid(&window, "below_xid")?;
    if sabotaged(Sabotage::CursorWithoutSnapshot) {
        below = u64::MAX >> 1;
    }
    let from_at: DateTime<Utc> = window.try_get("from_at")?;
    let to_at: DateTime<Utc> = window.try_get("to_at")?;
    let start = HistoryPlace {
        xid: xid(&window, "xid")?,
        seq: window.try_get("seq")?,
        payment: window.try_get("payment_id")?,
    };
    let found = sqlx::query(statements::PUBLISH_ROWS)
        .bind(start.xid.to_string())
        .bind(start.seq)
        .bind(start.payment)
        .bind(below.to_string())
        .bind(from_at)
        .bind(to_at)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    let is_full = found.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let rows = found.iter().map(history_row).collect::<Result<Vec<_>, _>>()?;
    let end = match (found.last(), rows.last()) {
        (Some(found), Some(last)) => {
            HistoryPlace { xid: xid(found, "xid")?, seq: last.seq, payment: last.payment.as_uuid() }
        }
        _ => start,
    };
    let (oldest_at, is_ahead) = if is_full {
        (rows.last().map(|last| last.at), false)
    } else {
        waiting(pool, below, (from_at, to_at)).await?
    };
    let database_now: DateTime<Utc> = window.try_get("database_now")?;
    let oldest_age = oldest_at.map_or(TimeDelta::zero(), |at: DateTime<Utc>| database_now - at);
    let floor_is_old: bool = window.try_get("floor_is_old")?;
    Ok(Some(UnpublishedBatch {
        rows: with_payments(pool, rows).await?,
        is_full,
        floor_is_old: floor_is_old && !is_ahead,
        // Negative: written since, or by a clock that was ahead.
        oldest_age: oldest_age.to_std().unwrap_or_default(),
        is_ahead,
        database_now,
        below: Some(below).filter(|_| !is_full && !is_ahead),
        end,
    }))
}

/// The instant of the first row that may not be read yet, and whether one carries another server's id.
pub(super) async fn waiting(
    pool: &PgPool,
    below: u64,
    (from_at, to_at): (DateTime<Utc>, DateTime<Utc>),
) -> Result<(Option<DateTime<Utc>>, bool), Error> {
    let waiting =
        sqlx::query_scalar(statements::PUBLISH_WAITING).bind(below.to_string()).bind(from_at).bind(to_at);
    let Some(first) = waiting.fetch_optional(pool).await? else { return Ok((None, false)) };
    let ahead = sqlx::query(statements::PUBLISH_AHEAD).bind(from_at).bind(to_at);
    Ok((Some(first), ahead.fetch_optional(pool).await?.is_some()))
}

/// One statement a due day, so that each touches one partition.
pub(super) async fn with_payments(pool: &PgPool, rows: Vec<HistoryRow>) -> Result<Vec<Unpublished>, Error> {
    let mut days: BTreeMap<NaiveDate, Vec<Uuid>> = BTreeMap::new();
    for row in &rows {
        days.entry(row.payment.due_day()).or_default().push(row.payment.as_uuid());
    }
    let mut payments: BTreeMap<PaymentId, Snapshot> = BTreeMap::new();
    for (day, mut ids) in days {
        ids.sort_unstable();
        ids.dedup();
        let found = sqlx::query(statements::PUBLISH_SNAPSHOT).bind(day).bind(ids).fetch_all(pool).await?;
        for found in &found {
            let (id, snapshot) = snapshot(found)?;
            payments.insert(id, snapshot);
        }
    }
    let with = |row: HistoryRow| Unpublished { payment: payments.get(&row.payment).cloned(), row };
    Ok(rows.into_iter().map(with).collect())
}

/// Moves the cursor of the lease's lane; `false`: it is not ours any more.
pub(super) async fn advance<'a>(
    database: impl PgExecutor<'a>,
    lease: &PublisherLease,
    end: &HistoryPlace,
    below: Option<u64>,
) -> Result<bool, Error> {
    let moved = sqlx::query(statements::PUBLISH_ADVANCE)
        .bind(lease.lane.as_str())
        .bind(&lease.holder)
        .bind(lease.epoch)
        .bind(end.xid.to_string())
        .bind(end.seq)
        .bind(end.payment)
        .bind(below.map(|below| below.to_string()))
        .fetch_optional(database)
        .await?;
    Ok(moved.is_some())
}

impl Postgres {
    /// Takes the lane of events if nobody holds it, for `length`; `None` while another does.
    ///
    /// # Errors
    /// Any; what was taken unseen runs out by itself.
    pub async fn acquire_publisher(
        &self,
        holder: &str,
        length: Duration,
    ) -> Result<Option<PublisherLease>, ScheduleError> {
        let (pool, holder) = (self.pool().clone(), holder.to_owned());
        super::failure::whole(async move { acquire(&pool, Lane::Events, &holder, length).await }).await
    }

    /// Prolongs it to `length` from now; `false` if it is not ours any more.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn renew_publisher(
        &self,
        lease: &PublisherLease,
        length: Duration,
    ) -> Result<bool, ScheduleError> {
        let (pool, lease) = (self.pool().clone(), lease.clone());
        super::failure::whole(async move { renew(&pool, &lease, interval(length)).await }).await
    }

    /// Gives it back, so that another takes over at once.
    ///
    /// # Errors
    /// Any; it runs out by itself.
    pub async fn release_publisher(&self, lease: &PublisherLease) -> Result<(), ScheduleError> {
        let (pool, lease) = (self.pool().clone(), lease.clone());
        let over = PgInterval { months: 0, days: 0, microseconds: -1_000_000 };
        super::failure::whole(async move { renew(&pool, &lease, over).await.map(drop) }).await
    }

    /// The oldest history rows that are not published and cannot be overtaken any more, at most
    /// `limit`; `None` if the lane is not ours any more.
    ///
    /// # Errors
    /// `Unavailable`, or `Defect` for a row that this build cannot read.
    pub async fn unpublished(
        &self,
        lease: &PublisherLease,
        limit: u32,
    ) -> Result<Option<UnpublishedBatch>, ScheduleError> {
        let (pool, lease) = (self.pool().clone(), lease.clone());
        super::failure::whole(async move { read(&pool, &lease, limit).await.map_err(before_commit) }).await
    }

    /// Moves the cursor behind this batch, whose every event is acknowledged; `false` if the lane is
    /// not ours any more, and then nothing moved.
    ///
    /// # Errors
    /// Any; the same batch is found again, or was passed.
    pub async fn advance_publisher(
        &self,
        lease: &PublisherLease,
        published: &UnpublishedBatch,
    ) -> Result<bool, ScheduleError> {
        let (pool, lease) = (self.pool().clone(), lease.clone());
        let (end, below) = (published.end.clone(), published.below);
        let moved = async move { advance(&pool, &lease, &end, below).await.map_err(at_commit) };
        super::failure::whole(moved).await
    }
}
