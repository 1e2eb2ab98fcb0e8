//! The history once more: what was published already, for readers that lost it or came late.
//!
//! **Promises.** Only rows that the leading publisher's cursor has passed, as it stood when the replay began:
//! what is newer is the leader's, so that no event appears for the first time out of its order. Rows come in the
//! order of publication, per payment in that of `sequence`. Writes nothing, moves no cursor, holds no lease.
//!
//! **Places.** Transaction ids mean something in one server's life only, so a place names the server, and one
//! from elsewhere is refused instead of being misread.
//!
//! **If this dies**, whoever goes on from the last place that was told repeats a batch at most.

use super::failure::{before_commit, whole};
use super::port::ScheduleError;
use super::publish::{HistoryPlace, LANE, Unpublished, history_row, with_payments, xid};
use super::{Postgres, statements};
use crate::domain::ids::PaymentId;
use chrono::{DateTime, Days, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Which part of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaySpan {
    /// From this instant on; `None`: from the oldest row that is kept.
    pub from: Option<DateTime<Utc>>,
    /// Up to this instant, not included; `None`: all that was published.
    pub to: Option<DateTime<Utc>>,
    /// Of this payment alone.
    pub payment: Option<PaymentId>,
}

/// How far the publisher was when a replay began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayBound {
    /// The server in whose life the places mean something.
    pub system: String,
    /// Everything up to here was published.
    pub end: HistoryPlace,
    /// By the database clock.
    pub database_now: DateTime<Utc>,
}

/// Some rows of a replay, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayBatch {
    /// In the order of publication.
    pub rows: Vec<Unpublished>,
    /// Behind the last of them.
    pub end: HistoryPlace,
    /// There may be more.
    pub is_full: bool,
}

/// Where a replay can go on, as people hand it from one run to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayPlace {
    /// The server of the transaction id.
    pub system: String,
    /// Everything up to here went out.
    pub place: HistoryPlace,
}

impl fmt::Display for ReplayPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HistoryPlace { xid, seq, payment } = &self.place;
        write!(f, "{}/{xid}/{seq}/{payment}", self.system)
    }
}

/// It is not a place that was printed by a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a place; a replay prints the one to go on from, as 7311…/812/3/01a2…")]
pub struct BadPlace;

impl FromStr for ReplayPlace {
    type Err = BadPlace;
    fn from_str(text: &str) -> Result<Self, BadPlace> {
        let parts: Vec<&str> = text.split('/').collect();
        let [system, xid, seq, payment] = parts[..] else { return Err(BadPlace) };
        if system.is_empty() || !system.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadPlace);
        }
        let place = HistoryPlace {
            xid: xid.parse().map_err(|_| BadPlace)?,
            seq: seq.parse().map_err(|_| BadPlace)?,
            payment: Uuid::try_parse(payment).map_err(|_| BadPlace)?,
        };
        Ok(Self { system: system.to_owned(), place })
    }
}

impl HistoryPlace {
    /// Before the oldest row.
    pub const BEGINNING: Self = Self { xid: 0, seq: 0, payment: Uuid::nil() };
}

async fn bound(pool: &PgPool) -> Result<Option<ReplayBound>, Error> {
    let found = sqlx::query(statements::REPLAY_BOUND).bind(LANE).fetch_optional(pool).await?;
    let read = |found: PgRow| {
        Ok(ReplayBound {
            system: found.try_get("system_identifier")?,
            end: HistoryPlace {
                xid: xid(&found, "xid")?,
                seq: found.try_get("seq")?,
                payment: found.try_get("payment_id")?,
            },
            database_now: found.try_get("database_now")?,
        })
    };
    found.map(read).transpose()
}

async fn page(
    pool: &PgPool,
    span: &ReplaySpan,
    bound: &ReplayBound,
    after: HistoryPlace,
    limit: u32,
) -> Result<ReplayBatch, Error> {
    // A day more, since a database clock may have run ahead once; the bound cuts what is too new.
    let latest = bound.database_now.checked_add_days(Days::new(1)).unwrap_or(bound.database_now);
    let query = match span.payment {
        None => sqlx::query(statements::REPLAY_ROWS)
            .bind(after.xid.to_string())
            .bind(after.seq)
            .bind(after.payment),
        Some(payment) => sqlx::query(statements::REPLAY_PAYMENT)
            .bind(payment.as_uuid())
            .bind(after.xid.to_string())
            .bind(after.seq),
    };
    let found = query
        .bind(bound.end.xid.to_string())
        .bind(bound.end.seq)
        .bind(bound.end.payment)
        .bind(span.from.unwrap_or(DateTime::UNIX_EPOCH))
        .bind(span.to.unwrap_or(latest))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    let is_full = found.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let rows = found.iter().map(history_row).collect::<Result<Vec<_>, _>>()?;
    let end = match (found.last(), rows.last()) {
        (Some(found), Some(last)) => {
            HistoryPlace { xid: xid(found, "xid")?, seq: last.seq, payment: last.payment.as_uuid() }
        }
        _ => after,
    };
    Ok(ReplayBatch { rows: with_payments(pool, rows).await?, end, is_full })
}

impl Postgres {
    /// How far a replay that begins now may go; `None`: nothing was published from this server yet.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn replay_bound(&self) -> Result<Option<ReplayBound>, ScheduleError> {
        let pool = self.pool().clone();
        whole(async move { bound(&pool).await.map_err(before_commit) }).await
    }

    /// At most `limit` rows of a span behind a place.
    ///
    /// # Errors
    /// `Unavailable`, or `Defect` for a row that this build cannot read.
    pub async fn replay_rows(
        &self,
        span: &ReplaySpan,
        bound: &ReplayBound,
        after: HistoryPlace,
        limit: u32,
    ) -> Result<ReplayBatch, ScheduleError> {
        let (pool, span, bound) = (self.pool().clone(), span.clone(), bound.clone());
        whole(async move { page(&pool, &span, &bound, after, limit).await.map_err(before_commit) }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_printed_and_nothing_else_is_one() {
        let payment = Uuid::from_u128(0x01a2_27a1_6ba0_8102_8304_0506_0708_090a);
        let place = ReplayPlace { system: "7311".into(), place: HistoryPlace { xid: 812, seq: 3, payment } };
        assert_eq!(place.to_string(), "7311/812/3/01a227a1-6ba0-8102-8304-05060708090a");
        assert_eq!(place.to_string().parse(), Ok(place));
        for bad in ["", "812/3/x", "/812/3/01a227a1-6ba0-8102-8304-05060708090a", "7311/812/3/x", "7/8/9/0/1"]
        {
            assert_eq!(bad.parse::<ReplayPlace>(), Err(BadPlace), "{bad}");
        }
    }
}
