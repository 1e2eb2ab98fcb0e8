//! An actor's own events, in the order in which they are published to everybody.
//!
//! **Promises.** Walking from place to place meets every event of the actor, per payment in the order of
//! `sequence`, whatever is committed meanwhile and in whichever order: a place only passes what no
//! transaction can add to any more (`publish.rs` says why that is below the snapshot's oldest running
//! transaction). So an event shows when the transactions that were open beside its own are over.
//!
//! **Why an index of its own.** History names the payment's actor in each row (migration 202611301740), so
//! that a client that asks twice a second costs one look into an index and not the history of everybody;
//! by way of the actor's payments it would cost a look for each of them.
//!
//! **Another database.** Transaction ids mean something in one database's life only. A place from before a
//! failover or a restore is taken by its instant, a day early: nothing is skipped, and readers remove
//! what they meet twice by the event's id.

use super::failure::{before_commit, whole};
use super::port::ScheduleError;
use super::publish::{Unpublished, history_row, with_payments, xid};
use super::{Postgres, statements};
use crate::domain::ids::ActorId;
use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};
use sqlx::{Error, PgPool, Row};
use uuid::Uuid;

/// Where a reader of events stands: everything up to it has been passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPlace {
    /// Names the database's life in which `xid` means something.
    pub lineage: [u8; 8],
    /// The row's transaction id.
    pub xid: u64,
    /// The row's number in its payment; 0 before the first.
    pub seq: i32,
    /// The payment; nil before the first.
    pub payment: Uuid,
    /// About when: no event behind the place was written more than a day before.
    pub at: DateTime<Utc>,
}

impl EventPlace {
    /// Is this place behind the other one, of the same database's life?
    #[must_use]
    pub fn is_behind(&self, other: &Self) -> bool {
        (self.xid, self.seq, self.payment) > (other.xid, other.seq, other.payment)
    }
}

/// Some events of one actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// In the order of publication, each with the place that has passed it.
    pub events: Vec<(EventPlace, Unpublished)>,
    /// Where to go on.
    pub end: EventPlace,
    /// There may be more at once.
    pub is_full: bool,
}

/// What may be read now.
struct Window {
    lineage: [u8; 8],
    below: u64,
    database_now: DateTime<Utc>,
}

impl Window {
    async fn read(pool: &PgPool) -> Result<Self, Error> {
        let row = sqlx::query(statements::EVENTS_WINDOW).fetch_one(pool).await?;
        let lineage: String = row.try_get("lineage")?;
        let digest: [u8; 32] = Sha256::digest(lineage).into();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Ok(Self {
            lineage: first,
            below: xid(&row, "below_xid")?,
            database_now: row.try_get("database_now")?,
        })
    }

    /// Behind all that could be read in it.
    fn end(&self) -> EventPlace {
        // Rows that come later carry `below` or more, and a number from 1.
        EventPlace {
            lineage: self.lineage,
            xid: self.below,
            seq: 0,
            payment: Uuid::nil(),
            at: self.database_now,
        }
    }

    /// Where a reader who stands at `after` really stands in this database.
    fn start(&self, after: Option<EventPlace>) -> EventPlace {
        let beginning =
            EventPlace { xid: 0, seq: 0, payment: Uuid::nil(), at: DateTime::UNIX_EPOCH, ..self.end() };
        match after {
            None => beginning,
            Some(place) if place.lineage == self.lineage => place,
            Some(place) => EventPlace { at: place.at, ..beginning },
        }
    }
}

async fn page(
    pool: &PgPool,
    actor: ActorId,
    after: Option<EventPlace>,
    limit: usize,
) -> Result<EventPage, Error> {
    let window = Window::read(pool).await?;
    let start = window.start(after);
    // A statement's wait for its locks, and a database clock that is set back; the same day as the
    // publisher's floor has. A clock that once ran ahead must hide nothing, so the earlier of the two.
    let slack = TimeDelta::days(1);
    let from_at = start.at.min(window.database_now).checked_sub_signed(slack).unwrap_or(DateTime::UNIX_EPOCH);
    let to_at = start.at.max(window.database_now).checked_add_signed(slack).unwrap_or(start.at);
    let found = sqlx::query(statements::EVENTS)
        .bind(actor.0)
        .bind(start.xid.to_string())
        .bind(start.seq)
        .bind(start.payment)
        .bind(window.below.to_string())
        .bind(from_at)
        .bind(to_at)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(pool)
        .await?;
    let is_full = found.len() >= limit;
    let xids = found.iter().map(|row| xid(row, "xid")).collect::<Result<Vec<_>, _>>()?;
    let rows = found.iter().map(history_row).collect::<Result<Vec<_>, _>>()?;
    let events: Vec<_> = xids
        .into_iter()
        .zip(with_payments(pool, rows).await?)
        .map(|(xid, event)| {
            let row = &event.row;
            let place = EventPlace {
                lineage: window.lineage,
                xid,
                seq: row.seq,
                payment: row.payment.as_uuid(),
                at: row.at,
            };
            (place, event)
        })
        .collect();
    let last = events.last().map(|(place, _)| *place).filter(|_| is_full);
    Ok(EventPage { end: last.unwrap_or_else(|| window.end()), events, is_full })
}

impl Postgres {
    /// At most `limit` events of this actor behind a place; `None`: from the oldest that is kept.
    ///
    /// # Errors
    /// `Unavailable`, or `Defect` for a row that this build cannot read.
    pub async fn events(
        &self,
        actor: ActorId,
        after: Option<EventPlace>,
        limit: usize,
    ) -> Result<EventPage, ScheduleError> {
        let pool = self.pool().clone();
        whole(async move { page(&pool, actor, after, limit).await.map_err(before_commit) }).await
    }

    /// The place behind every event that can be read now, of whichever actor.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn events_end(&self) -> Result<EventPlace, ScheduleError> {
        let pool = self.pool().clone();
        whole(async move { Ok(Window::read(&pool).await.map_err(before_commit)?.end()) }).await
    }
}
