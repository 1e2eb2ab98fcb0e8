//! From the history to what is owed to endpoints: the second lane of the publisher's cursor.
//!
//! **Promises.** Each event is owed once to each endpoint of its payment's actor that wants its type, from the
//! endpoint's making on: what a pass owes and the move of the cursor are one transaction, and a key over endpoint
//! and event holds against every repetition, also after a cursor that starts over. **Relies on** the order and the
//! bounds that `publish.rs` explains; no event of an actor can appear behind the cursor.
//!
//! **Why a disabled endpoint is owed too, for a week.** It is sent what it missed once it is enabled, and nobody has to
//! ask for days again. One that nobody enables for longer costs a count: what it was not owed, or what the keeper
//! discards of it, is told with the endpoint and by the act that enables it, and is in the list of events.
//!
//! **If this dies** before COMMIT, nothing was owed and nothing passed.

use super::failure::{before_commit, commit, whole};
use super::port::ScheduleError;
use super::postgres::Postgres;
use super::publish::{HistoryPlace, Lane, PublisherLease, acquire, advance, waiting, xid};
use super::{row, statements};
use crate::domain::event_type::event_type;
use crate::domain::history::Event;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};
use std::time::Duration;
use uuid::Uuid;

/// What one pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FannedOut {
    /// Events passed.
    pub events: usize,
    /// Deliveries that are owed since.
    pub owed: u64,
    /// Events that are not owed to endpoints which have been disabled for too long.
    pub skipped: u64,
    /// There may be more at once.
    pub is_full: bool,
    /// Age of the oldest event that is not passed yet; zero if there is none. It grows while a transaction anywhere in
    /// the cluster stays open.
    pub oldest_age: Duration,
    /// Events carry transaction ids which this server has not given out yet: the database came from another one, and
    /// they wait until the server's ids have passed them.
    pub is_ahead: bool,
}

/// The window of one pass.
struct Window {
    start: HistoryPlace,
    below: u64,
    database_now: DateTime<Utc>,
    from_at: DateTime<Utc>,
    to_at: DateTime<Utc>,
    is_any: bool,
    is_behind: bool,
}

impl Window {
    async fn read(pool: &PgPool, lease: &PublisherLease) -> Result<Option<Self>, Error> {
        let window = sqlx::query(statements::FAN_OUT_WINDOW);
        let window = window.bind(lease.lane.as_str()).bind(&lease.holder).bind(lease.epoch);
        let Some(found) = window.fetch_optional(pool).await? else { return Ok(None) };
        Ok(Some(Self {
            start: HistoryPlace {
                xid: xid(&found, "xid")?,
                seq: found.try_get("seq")?,
                payment: found.try_get("payment_id")?,
            },
            below: xid(&found, "below_xid")?,
            database_now: found.try_get("database_now")?,
            from_at: found.try_get("from_at")?,
            to_at: found.try_get("to_at")?,
            is_any: found.try_get("is_any")?,
            is_behind: found.try_get("is_behind")?,
        }))
    }

    async fn rows(&self, pool: &PgPool, limit: u32) -> Result<Vec<PgRow>, Error> {
        let rows = sqlx::query(statements::FAN_OUT_ROWS)
            .bind(self.start.xid.to_string())
            .bind(self.start.seq)
            .bind(self.start.payment)
            .bind(self.below.to_string())
            .bind(self.from_at)
            .bind(self.to_at)
            .bind(i64::from(limit));
        rows.fetch_all(pool).await
    }

    /// The instant of the first event that may not be read yet, and whether one carries another server's id.
    async fn waiting(&self, pool: &PgPool) -> Result<(Option<DateTime<Utc>>, bool), Error> {
        waiting(pool, self.below, (self.from_at, self.to_at)).await
    }

    /// Behind everything that may be read: rows that come later carry `below` or more, and a number from 1.
    fn end(&self) -> HistoryPlace {
        HistoryPlace { xid: self.below, seq: 0, payment: Uuid::nil() }
    }
}

/// Events as columns, those that are somebody's.
#[derive(Default)]
struct Events {
    payments: Vec<Uuid>,
    seqs: Vec<i32>,
    instants: Vec<DateTime<Utc>>,
    actors: Vec<Uuid>,
    types: Vec<&'static str>,
}

impl Events {
    fn of(rows: &[PgRow]) -> Result<Self, Error> {
        let mut events = Self::default();
        for found in rows {
            // A row from before history named its actor, or of a payment whose day is detached.
            let Some(actor) = found.try_get("actor_id")? else { continue };
            let event = row::parsed(found, "cause", Event::from_text)?;
            events.payments.push(found.try_get("payment_id")?);
            events.seqs.push(found.try_get("seq")?);
            events.instants.push(found.try_get("at")?);
            events.actors.push(actor);
            events.types.push(event_type(event, row::status(found, "became")?).as_str());
        }
        Ok(events)
    }

    /// First and last day.
    fn days(&self) -> Option<(NaiveDate, NaiveDate)> {
        let first = self.instants.iter().min()?;
        let last = self.instants.iter().max()?;
        Some((first.date_naive(), last.date_naive()))
    }
}

async fn fan_out(
    pool: PgPool,
    lease: PublisherLease,
    limit: u32,
) -> Result<Option<FannedOut>, ScheduleError> {
    let Some(window) = Window::read(&pool, &lease).await.map_err(before_commit)? else { return Ok(None) };
    let rows =
        if window.is_any { window.rows(&pool, limit).await.map_err(before_commit)? } else { Vec::new() };
    let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let (oldest_at, is_ahead) = match rows.last().filter(|_| is_full) {
        Some(last) => (Some(last.try_get("at").map_err(before_commit)?), false),
        None if window.is_any => window.waiting(&pool).await.map_err(before_commit)?,
        None => (None, false),
    };
    let oldest_age = oldest_at.map_or(TimeDelta::zero(), |at: DateTime<Utc>| window.database_now - at);
    let oldest_age = oldest_age.to_std().unwrap_or_default();
    if rows.is_empty() && !window.is_behind {
        return Ok(Some(FannedOut { oldest_age, is_ahead, ..FannedOut::default() }));
    }
    let end = match rows.last().filter(|_| is_full) {
        Some(last) => place(last).map_err(before_commit)?,
        None => window.end(),
    };
    let below = Some(window.below).filter(|_| !is_full && !is_ahead);
    let events = Events::of(&rows).map_err(before_commit)?;
    if let Some((first, last)) = events.days() {
        let made = sqlx::query(statements::FAN_OUT_DAYS).bind(first).bind(last);
        made.execute(&pool).await.map_err(before_commit)?;
    }

    let mut transaction = pool.begin().await.map_err(before_commit)?;
    // First: it locks the cursor, so that a leader who lost the lane owes nothing.
    if !advance(&mut *transaction, &lease, &end, below).await.map_err(before_commit)? {
        return Ok(None);
    }
    let (mut owed, mut skipped) = (0, 0);
    if !events.payments.is_empty() {
        let insert = sqlx::query(statements::FAN_OUT)
            .bind(&events.payments)
            .bind(&events.seqs)
            .bind(&events.instants)
            .bind(&events.actors)
            .bind(&events.types);
        let counts = insert.fetch_one(&mut *transaction).await;
        (owed, skipped) = counts.and_then(|row| count(&row)).map_err(before_commit)?;
    }
    commit(transaction).await?;
    Ok(Some(FannedOut { events: rows.len(), owed, skipped, is_full, oldest_age, is_ahead }))
}

/// Owed, and skipped.
fn count(row: &PgRow) -> Result<(u64, u64), Error> {
    let of = |column| row.try_get::<i64, _>(column).map(i64::unsigned_abs);
    Ok((of("owed")?, of("skipped")?))
}

fn place(found: &PgRow) -> Result<HistoryPlace, Error> {
    Ok(HistoryPlace {
        xid: xid(found, "xid")?,
        seq: found.try_get("seq")?,
        payment: found.try_get("payment_id")?,
    })
}

impl Postgres {
    /// Takes the lane of webhooks if nobody holds it, for `length`; `None` while another does. Renewed and given
    /// back as the lane of events is.
    ///
    /// # Errors
    /// Any; what was taken unseen runs out by itself.
    pub async fn acquire_fan_out(
        &self,
        holder: &str,
        length: Duration,
    ) -> Result<Option<PublisherLease>, ScheduleError> {
        let (pool, holder) = (self.pool().clone(), holder.to_owned());
        whole(async move { acquire(&pool, Lane::Webhooks, &holder, length).await }).await
    }

    /// One pass over at most `limit` events; `None` if the lane is not ours any more, and then nothing is owed.
    ///
    /// # Errors
    /// Any; the same events are found again, or were passed.
    pub async fn fan_out(
        &self,
        lease: &PublisherLease,
        limit: u32,
    ) -> Result<Option<FannedOut>, ScheduleError> {
        whole(fan_out(self.pool().clone(), lease.clone(), limit)).await
    }
}
