//! Rules R17 and R18: a database that was restored, promoted, or proven to have lost commits claims nothing until two
//! people release it; and what was charged before is not charged again.
//!
//! **Promises.** Whoever proves a loss stops every claim before this answers. What a restore lost of a payment is known
//! by its intent bits, under whichever due time. What people are shown and what they say is in `quarantine.rs`.
//!
//! **Relies on** the functions of the migration `prove_lost_commits`: the row of the installation is locked first by
//! all of them, so that two who find the same open one quarantine. If this dies here, the database is quarantined or
//! not, released or not, whole; whoever repeats is told.

use super::failure::{at_commit, before_commit, transaction, whole};
use super::port::ScheduleError;
use super::{Postgres, row, statements};
use crate::domain::ids::PaymentId;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// What proved, or who said, that commits were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossKind {
    /// Another server, timeline or database than the released one, or tables that a dump made anew.
    Lineage,
    /// An authentic notice that the database cannot explain.
    Notice,
    /// An event in the topic whose history row is not there.
    Event,
    /// The server has less of a log than it said before.
    Log,
    /// A person said so.
    Person,
}

impl LossKind {
    const ALL: [Self; 5] = [Self::Lineage, Self::Notice, Self::Event, Self::Log, Self::Person];

    /// As stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lineage => "lineage",
            Self::Notice => "notice",
            Self::Event => "event",
            Self::Log => "log",
            Self::Person => "person",
        }
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One proof.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Of which kind.
    pub kind: LossKind,
    /// In words, for people.
    pub why: String,
    /// About this payment.
    pub payment: Option<PaymentId>,
    /// The instant of something that is missing, by the database's clock of then.
    pub seen_at: Option<DateTime<Utc>>,
}

/// A charge that the gateway shows of what a payment means, and that has no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostCharge {
    /// Under this id: the asked one, or the same intent at another due time.
    pub charged_as: PaymentId,
    /// A due time that has passed is still taken for that very payment.
    pub is_open: bool,
}

impl Postgres {
    /// Stops every claim of every worker at once; answers whether nobody had before.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn commits_lost(&self, loss: &Loss) -> Result<bool, ScheduleError> {
        note(self.pool(), loss.clone()).await
    }

    /// Gives the database's sign of life, or opens the quarantine of one that was restored or promoted; answers
    /// whether it may claim.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn observe_lineage(&self) -> Result<bool, ScheduleError> {
        let pool = self.pool().clone();
        whole(async move {
            sqlx::query_scalar(statements::OBSERVE_LINEAGE).fetch_one(&pool).await.map_err(at_commit)
        })
        .await
    }

    /// Whether this database may claim.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn lineage_is_released(&self) -> Result<bool, ScheduleError> {
        sqlx::query_scalar(statements::LINEAGE_IS_RELEASED)
            .fetch_one(self.pool())
            .await
            .map_err(before_commit)
    }

    /// What a restore lost of these payments, by place; what was lost of none is missing.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn lost_charges(
        &self,
        payments: &[PaymentId],
    ) -> Result<BTreeMap<PaymentId, LostCharge>, ScheduleError> {
        if payments.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (pool, payments) = (self.pool().clone(), payments.to_vec());
        whole(async move {
            let mut connection = pool.acquire().await.map_err(before_commit)?;
            lost_charges(&mut connection, &payments).await.map_err(before_commit)
        })
        .await
    }

    /// Those of these history rows, each with the instant at which it was written, that the database does not have,
    /// and that it did not lose in a time whose losses people have judged.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn missing_history(
        &self,
        rows: &[(DateTime<Utc>, PaymentId, i32)],
    ) -> Result<BTreeSet<(PaymentId, i32)>, ScheduleError> {
        let rows = rows.to_vec();
        let pool = self.pool().clone();
        whole(async move {
            let mut days: BTreeMap<NaiveDate, Written> = BTreeMap::new();
            for (at, payment, seq) in &rows {
                let (ids, numbers, instants) = days.entry(at.date_naive()).or_default();
                instants.push(*at);
                ids.push(payment.as_uuid());
                numbers.push(*seq);
            }
            let mut missing: BTreeSet<(PaymentId, i32)> =
                rows.iter().map(|(_, id, seq)| (*id, *seq)).collect();
            for (day, (ids, numbers, instants)) in days {
                let asked =
                    sqlx::query(statements::HAS_HISTORY).bind(day).bind(ids).bind(numbers).bind(instants);
                for found in &asked.fetch_all(&pool).await.map_err(before_commit)? {
                    let payment = row::payment_id(found, "payment_id").map_err(before_commit)?;
                    missing.remove(&(payment, found.try_get("seq").map_err(before_commit)?));
                }
            }
            Ok(missing)
        })
        .await
    }
}

/// History rows of one day: of which payments, their numbers and instants.
type Written = (Vec<Uuid>, Vec<i32>, Vec<DateTime<Utc>>);

/// In the caller's transaction.
pub(super) async fn enter(transaction: &mut PgConnection, loss: &Loss) -> Result<bool, Error> {
    let entered = sqlx::query_scalar(statements::ENTER_QUARANTINE)
        .bind(loss.kind.as_str())
        .bind(&loss.why)
        .bind(loss.payment.map(PaymentId::as_uuid))
        .bind(loss.seen_at)
        .fetch_one(transaction)
        .await;
    let (kind, payment, why) = (loss.kind.as_str(), loss.payment, &loss.why);
    if let Ok(false) = entered {
        tracing::warn!(kind, ?payment, why, "a trace of lost commits that a quarantine knows of already");
    } else {
        let told = "commits were lost: no worker claims until two people release the database";
        tracing::error!(kind, ?payment, why, "{told}");
    }
    entered
}

/// In a transaction of its own: whoever says so holds no payment.
pub(super) async fn note(pool: &PgPool, loss: Loss) -> Result<bool, ScheduleError> {
    transaction(pool, |one| Box::pin(async move { enter(one, &loss).await })).await
}

pub(super) async fn release(pool: PgPool) -> Result<(), ScheduleError> {
    sqlx::query(statements::RELEASE_LINEAGE).execute(&pool).await.map_err(at_commit)?;
    Ok(())
}

pub(super) async fn lost_charges(
    connection: &mut PgConnection,
    payments: &[PaymentId],
) -> Result<BTreeMap<PaymentId, LostCharge>, Error> {
    let ids: Vec<Uuid> = payments.iter().map(|payment| payment.as_uuid()).collect();
    let rows = sqlx::query(statements::LOST_CHARGES_OF).bind(ids).fetch_all(connection).await?;
    let read = |found: &PgRow| {
        let lost = LostCharge {
            charged_as: row::payment_id(found, "charged_as")?,
            is_open: found.try_get("is_open")?,
        };
        Ok((row::payment_id(found, "id")?, lost))
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_read_back_and_nothing_else_does() {
        for kind in LossKind::ALL {
            assert_eq!(LossKind::from_text(kind.as_str()), Some(kind));
        }
        assert_eq!(LossKind::from_text("wal"), None);
    }
}
