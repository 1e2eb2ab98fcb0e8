//! Daily caps: how much of a currency, and how many payments, an actor may create on one day of UTC.
//!
//! **Promise.** The sum of what was created on a day never exceeds the cap, whoever creates at once: `create.sql`
//! adds to the day's row, which the next create waits for, and is undone where that is too much. Only actors with
//! a cap have such a row, and so only their creates follow each other; the others pay one look into a small
//! table. A batch adds the sums of its payments; of one that is too much, [`Left`] tells which of them still fit,
//! and the statement decides about these again. **By the day of creation**, because a cap is there for a leaked key or a client that runs wild: by the
//! due day it could still commit a year's worth of caps at once. Cancelling gives nothing back.

use super::failure::{at_commit, before_commit, whole};
use super::key_acts::By;
use super::port::ScheduleError;
use super::{Postgres, statements};
use crate::domain::ids::ActorId;
use crate::domain::money::{Currency, Money};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};

/// Which cap a create met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DailyCap {
    /// The amount of its currency.
    Amount,
    /// The number of payments in its currency.
    Payments,
}

/// A cap of an actor in one currency; at least one of its two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// Of what.
    pub currency: Currency,
    /// Most in minor units a day.
    pub amount_minor: Option<i64>,
    /// Most payments a day.
    pub payments: Option<i32>,
}

/// A cap with what was created under it today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapEntry {
    /// As it was set.
    pub cap: Cap,
    /// Minor units created today since it is there.
    pub used_minor: i64,
    /// Payments created today since it is there.
    pub used_payments: i32,
    /// When.
    pub set_at: DateTime<Utc>,
}

impl Postgres {
    /// The caps of the actor of this name; `None`: there is no such actor.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn actor_caps(&self, name: &str) -> Result<Option<Vec<CapEntry>>, ScheduleError> {
        whole(list(self.pool().clone(), name.to_owned())).await
    }

    /// Sets the caps of an actor in one currency, or takes them away where both are `None`; `false`: there is no
    /// such actor. From the next create on; what was created before is not counted.
    ///
    /// # Errors
    /// Any; repeating it is safe.
    pub async fn set_actor_cap(&self, name: &str, cap: Cap, by: By) -> Result<bool, ScheduleError> {
        whole(set(self.pool().clone(), name.to_owned(), cap, by)).await
    }

    /// Deletes at most `limit` sums of days more than forty days ago; answers how many.
    ///
    /// # Errors
    /// Any; repeat it.
    pub async fn forget_actor_days(&self, limit: u32) -> Result<u64, ScheduleError> {
        whole(forget(self.pool().clone(), limit)).await
    }
}

async fn forget(pool: PgPool, limit: u32) -> Result<u64, ScheduleError> {
    let deleted = sqlx::query(statements::FORGET_ACTOR_DAYS).bind(i64::from(limit)).execute(&pool).await;
    deleted.map(|deleted| deleted.rows_affected()).map_err(at_commit)
}

async fn list(pool: PgPool, name: String) -> Result<Option<Vec<CapEntry>>, ScheduleError> {
    let found = sqlx::query(statements::LIST_ACTOR_CAPS).bind(name).fetch_all(&pool).await;
    let found = found.map_err(before_commit)?;
    if found.is_empty() {
        return Ok(None);
    }
    let caps: Result<Vec<_>, Error> = found.iter().filter_map(|row| entry(row).transpose()).collect();
    caps.map(Some).map_err(before_commit)
}

/// `None` for the row of an actor without caps.
fn entry(row: &PgRow) -> Result<Option<CapEntry>, Error> {
    let Some(code) = row.try_get::<Option<String>, _>("currency")? else { return Ok(None) };
    let unknown = || Error::Decode(format!("a cap of the currency {code:?}").into());
    Ok(Some(CapEntry {
        cap: Cap {
            currency: Currency::from_code(&code).ok_or_else(unknown)?,
            amount_minor: row.try_get("amount_minor")?,
            payments: row.try_get("payments")?,
        },
        used_minor: row.try_get("used_minor")?,
        used_payments: row.try_get("used_payments")?,
        set_at: row.try_get("set_at")?,
    }))
}

/// What today has left of an actor's caps, to be used up payment by payment.
#[derive(Debug, Default)]
pub(super) struct Left(Vec<CapEntry>);

/// What today, by the database's clock, has left of this actor's caps. What is used never shrinks within a day, so
/// what does not fit now does not fit later today, unless the cap is raised.
pub(super) async fn left(pool: &PgPool, actor: ActorId) -> Result<Left, ScheduleError> {
    let found = sqlx::query(statements::ACTOR_CAPS_TODAY).bind(actor.0).fetch_all(pool).await;
    let found = found.map_err(before_commit)?;
    let caps: Result<Vec<_>, Error> = found.iter().filter_map(|row| entry(row).transpose()).collect();
    caps.map(Left).map_err(before_commit)
}

impl Left {
    /// Counts one payment more, if it fits.
    ///
    /// # Errors
    /// The cap that it does not fit into, as `create.sql` names it; it is not counted then.
    pub(super) fn take(&mut self, amount: Money) -> Result<(), DailyCap> {
        let Some(entry) = self.0.iter_mut().find(|entry| entry.cap.currency == amount.currency) else {
            return Ok(());
        };
        let minor = entry.used_minor.saturating_add(amount.minor.get());
        let payments = entry.used_payments.saturating_add(1);
        if entry.cap.amount_minor.is_some_and(|most| minor > most) {
            return Err(DailyCap::Amount);
        }
        if entry.cap.payments.is_some_and(|most| payments > most) {
            return Err(DailyCap::Payments);
        }
        (entry.used_minor, entry.used_payments) = (minor, payments);
        Ok(())
    }
}

async fn set(pool: PgPool, name: String, cap: Cap, by: By) -> Result<bool, ScheduleError> {
    sqlx::query_scalar(statements::SET_ACTOR_CAP)
        .bind(name)
        .bind(cap.currency.as_str())
        .bind(cap.amount_minor)
        .bind(cap.payments)
        .bind(by.operator.0)
        .bind(by.reason)
        .fetch_one(&pool)
        .await
        .map_err(at_commit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::money::Minor;

    fn money(minor: i64, code: &str) -> Money {
        Money { minor: Minor::new(minor).unwrap(), currency: Currency::from_code(code).unwrap() }
    }

    fn left(amount_minor: Option<i64>, payments: Option<i32>) -> Left {
        let cap = Cap { currency: Currency::from_code("EUR").unwrap(), amount_minor, payments };
        Left(vec![CapEntry { cap, used_minor: 40, used_payments: 1, set_at: DateTime::UNIX_EPOCH }])
    }

    #[test]
    fn each_payment_that_fits_leaves_less_and_one_that_does_not_leaves_as_much() {
        let mut caps = left(Some(100), Some(3));
        assert_eq!(caps.take(money(61, "EUR")), Err(DailyCap::Amount));
        assert_eq!(caps.take(money(60, "EUR")), Ok(()));
        assert_eq!(caps.take(money(1, "EUR")), Err(DailyCap::Amount));
        assert_eq!(caps.take(money(1_000_000, "USD")), Ok(()), "no cap in dollars");
        let mut caps = left(None, Some(2));
        assert_eq!(caps.take(money(i64::MAX, "EUR")), Ok(()));
        assert_eq!(caps.take(money(1, "EUR")), Err(DailyCap::Payments));
        let mut caps = left(Some(i64::MAX - 1), None);
        assert_eq!(caps.take(money(i64::MAX, "EUR")), Err(DailyCap::Amount), "no sum wraps");
        assert_eq!(left(Some(0), Some(0)).take(money(1, "EUR")), Err(DailyCap::Amount));
    }
}
