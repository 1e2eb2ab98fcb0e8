//! The history of one payment of one actor: every row, oldest first, as it was written.
//!
//! **Promises.** All rows up to the version that the payment had when it was asked, in order.
//! The rows are handed on with their stored hashes whatever they are; a chain that does not verify is
//! counted as a broken promise.
//!
//! **Why two looks.** History is partitioned by the time of writing, and a year may lie between a
//! payment's creation and its charge. Nearly always its rows lie on the day of its creation and
//! between its due day and its last move, so those days are asked first; the number of the newest
//! row tells whether something was written elsewhere (a remark, a late answer that was fenced off),
//! and only then is the whole time looked through.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::{row, statements};
use crate::domain::history::{self, BrokenChain, FIRST_PREV, HistoryRow};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::invariants::Invariant;
use crate::platform::violation;
use chrono::{DateTime, Days, NaiveTime, Utc};
use sqlx::{Error, PgConnection, PgPool, Row};

/// One row of a payment's history with its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// What was written.
    pub row: HistoryRow,
    /// The hash of the row before it; [`FIRST_PREV`] for the first.
    pub prev: [u8; 32],
    /// Its own hash, as stored.
    pub hash: [u8; 32],
}

/// A payment's history up to one version of it, with what verifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryProof {
    /// Oldest first.
    pub entries: Vec<HistoryEntry>,
    /// The last hash of that version, as the payment has it: without it a chain that was cut at its end
    /// would look whole.
    pub head: [u8; 32],
    /// The first thing that is wrong with the rows themselves.
    pub broken: Option<BrokenChain>,
}

pub(super) async fn history(
    pool: PgPool,
    actor: ActorId,
    id: PaymentId,
) -> Result<Option<Vec<HistoryEntry>>, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    let found = entries(&mut connection, actor, id).await.map_err(before_commit)?;
    Ok(found.map(|found| found.entries))
}

pub(super) async fn proof(
    pool: PgPool,
    actor: ActorId,
    id: PaymentId,
) -> Result<Option<HistoryProof>, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    let found = entries(&mut connection, actor, id).await.map_err(before_commit)?;
    Ok(found.map(|Found { mut entries, newest, head, broken }| {
        entries.retain(|entry| entry.row.seq <= newest);
        HistoryProof { entries, head, broken }
    }))
}

/// What was read: of the version that the payment had when it was asked, and what came meanwhile.
struct Found {
    entries: Vec<HistoryEntry>,
    newest: i32,
    head: [u8; 32],
    broken: Option<BrokenChain>,
}

async fn entries(
    connection: &mut PgConnection,
    actor: ActorId,
    id: PaymentId,
) -> Result<Option<Found>, Error> {
    let bounds = sqlx::query(statements::HISTORY_BOUNDS)
        .bind(id.due_day())
        .bind(id.as_uuid())
        .bind(actor.0)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(bounds) = bounds else { return Ok(None) };
    let created_at: DateTime<Utc> = bounds.try_get("created_at")?;
    let due_at: DateTime<Utc> = bounds.try_get("due_at")?;
    let last_moved_at: DateTime<Utc> = bounds.try_get("last_moved_at")?;
    let now: DateTime<Utc> = bounds.try_get("now")?;
    let newest: i32 = bounds.try_get("history_seq")?;
    let head = row::required_hash(&bounds, "history_hash")?;

    let likely = [
        (day(created_at), day_after(created_at)),
        (day(due_at.min(last_moved_at)), day_after(last_moved_at)),
    ];
    let mut found = between(connection, id, likely).await?;
    // Rows newer than the version asked for may have come meanwhile; they stand for no missing one.
    let up_to_newest = found.iter().filter(|entry| entry.row.seq <= newest).count();
    if i32::try_from(up_to_newest).is_ok_and(|count| count < newest) {
        let whole = (day(created_at), day_after(now.max(last_moved_at)));
        found = between(connection, id, [whole, whole]).await?;
    }
    let broken = history::verify(found.iter().map(|entry| (&entry.row, entry.hash))).err();
    if let Some(broken) = broken {
        violation::seen(promise_of(broken), Some(id), &broken.to_string());
    }
    Ok(Some(Found { entries: found, newest, head, broken }))
}

/// H1 says which moves there may be, H2 that nobody changed them.
fn promise_of(broken: BrokenChain) -> Invariant {
    match broken {
        BrokenChain::Changed { .. } | BrokenChain::Foreign { .. } => Invariant::H2,
        BrokenChain::Gap { .. }
        | BrokenChain::Torn { .. }
        | BrokenChain::Smuggled { .. }
        | BrokenChain::Illegal { .. } => Invariant::H1,
    }
}

/// 00:00 UTC of this instant's day.
fn day(at: DateTime<Utc>) -> DateTime<Utc> {
    at.date_naive().and_time(NaiveTime::MIN).and_utc()
}

/// 00:00 UTC of the day after, where the calendar has one.
fn day_after(at: DateTime<Utc>) -> DateTime<Utc> {
    day(at).checked_add_days(Days::new(1)).unwrap_or(at)
}

async fn between(
    connection: &mut PgConnection,
    id: PaymentId,
    spans: [(DateTime<Utc>, DateTime<Utc>); 2],
) -> Result<Vec<HistoryEntry>, Error> {
    let [one, other] = spans;
    let rows = sqlx::query(statements::HISTORY)
        .bind(id.as_uuid())
        .bind(one.0)
        .bind(one.1)
        .bind(other.0)
        .bind(other.1)
        .fetch_all(connection)
        .await?;
    let mut prev = FIRST_PREV;
    let mut entries = Vec::with_capacity(rows.len());
    for row in &rows {
        let hash = row::history_hash(row)?;
        entries.push(HistoryEntry { row: row::history(row, id)?, prev, hash });
        prev = hash;
    }
    Ok(entries)
}
