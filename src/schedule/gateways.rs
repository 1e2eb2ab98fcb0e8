//! Gateway accounts as people see them and what people say about them: pause, resume, a lower rate.
//!
//! **Promises.** One statement does what was ordered and writes down who ordered it and why. Workers learn it with
//! their next beat, a second later at most: a pause keeps them from claiming, and lets what was claimed end; a
//! rate holds them all together, never above what is configured.
//!
//! If this dies here, it was ordered or it was not; whoever repeats is answered the same.

use super::failure::{at_commit, before_commit, whole};
use super::port::ScheduleError;
use super::{Postgres, pace, row, statements};
use crate::domain::ids::{GatewayName, Operator};
use crate::domain::pace::Pace;
use crate::domain::switches::Switches;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};
use std::collections::BTreeMap;

/// A pause that a person ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedBy {
    /// Who.
    pub by: Operator,
    /// Why, as said last.
    pub reason: String,
    /// Since when, by the database's clock.
    pub at: DateTime<Utc>,
}

/// One account with what its workers share.
#[derive(Debug, Clone)]
pub struct GatewayStanding {
    /// Its name.
    pub name: GatewayName,
    /// The account on record (R4).
    pub account: String,
    /// Whether its newest worker voids by key.
    pub voids_by_key: bool,
    /// Whether its newest worker refunds.
    pub offers_refunds: bool,
    /// Paused by a person.
    pub paused: Option<PausedBy>,
    /// Calls a second that a person allows at most.
    pub rate_limit: Option<u32>,
    /// Permits, breaker and lanes; `None` before the first beat.
    pub pace: Option<Pace>,
    /// Everything that is switched off.
    pub switches: Switches,
    /// Claims whose outcome is not written yet.
    pub in_flight: u64,
    /// The database's clock.
    pub now: DateTime<Utc>,
}

/// One person's order about one account.
#[derive(Debug, Clone)]
pub struct GatewayOrder {
    /// Which.
    pub name: GatewayName,
    /// What.
    pub what: GatewayChange,
    /// Who.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
}

/// What is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayChange {
    /// Claim nothing of it.
    Pause,
    /// Claim again.
    Resume,
    /// At most so many calls a second; `None`: as configured.
    Limit(Option<u32>),
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayAnswer {
    /// It is so now.
    Done,
    /// No worker has registered one of this name.
    NotFound,
}

impl Postgres {
    /// Every account that a worker ever registered, by name.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn gateways(&self) -> Result<Vec<GatewayStanding>, ScheduleError> {
        whole(list(self.pool().clone())).await
    }

    /// Carries out an order.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn order_gateway(&self, order: &GatewayOrder) -> Result<GatewayAnswer, ScheduleError> {
        whole(carry_out(self.pool().clone(), order.clone())).await
    }

    /// Writes down whether this account's workers refund, for those who ask for refunds.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn register_refunds(&self, name: &GatewayName, offers: bool) -> Result<(), ScheduleError> {
        let written = sqlx::query(statements::REGISTER_REFUNDS).bind(&name.0).bind(offers);
        written.execute(self.pool()).await.map(drop).map_err(at_commit)
    }
}

async fn list(pool: PgPool) -> Result<Vec<GatewayStanding>, ScheduleError> {
    let days = sqlx::query(statements::OPEN_DAYS).fetch_one(&pool).await.map_err(before_commit)?;
    let from: NaiveDate = days.try_get("oldest_open_day").map_err(before_commit)?;
    let to: NaiveDate = days.try_get("today").map_err(before_commit)?;
    let counted = sqlx::query(statements::CLAIMS_IN_FLIGHT).bind(from).bind(to).fetch_all(&pool).await;
    let mut in_flight = BTreeMap::new();
    for row in counted.map_err(before_commit)? {
        let name: String = row.try_get("gateway").map_err(before_commit)?;
        let claims: i64 = row.try_get("in_flight").map_err(before_commit)?;
        in_flight.insert(name, u64::try_from(claims).unwrap_or(0));
    }
    let rows = sqlx::query(statements::LIST_GATEWAYS).fetch_all(&pool).await.map_err(before_commit)?;
    rows.iter().map(|row| standing(row, &in_flight)).collect::<Result<_, _>>().map_err(before_commit)
}

fn standing(row: &PgRow, in_flight: &BTreeMap<String, u64>) -> Result<GatewayStanding, Error> {
    let name: String = row.try_get("name")?;
    let paused: (Option<String>, Option<String>, Option<DateTime<Utc>>) =
        (row.try_get("paused_by")?, row.try_get("pause_reason")?, row.try_get("paused_at")?);
    let paused = match paused {
        (Some(by), Some(reason), Some(at)) => Some(PausedBy { by: Operator(by), reason, at }),
        // The table holds no other combination.
        _ => None,
    };
    let is_paced: bool = row.try_get("is_paced")?;
    Ok(GatewayStanding {
        account: row.try_get("account")?,
        voids_by_key: row.try_get("voids_by_key")?,
        offers_refunds: row.try_get("offers_refunds")?,
        paused,
        rate_limit: row.try_get::<Option<i32>, _>("rate_limit")?.and_then(|most| u32::try_from(most).ok()),
        pace: if is_paced { Some(pace::pace(row)?) } else { None },
        switches: row::switches(row)?,
        in_flight: in_flight.get(&name).copied().unwrap_or(0),
        now: row.try_get("now")?,
        name: GatewayName(name),
    })
}

async fn carry_out(pool: PgPool, order: GatewayOrder) -> Result<GatewayAnswer, ScheduleError> {
    let order_as = |statement| sqlx::query(statement).bind(order.name.0.as_str());
    let query = match order.what {
        GatewayChange::Pause => order_as(statements::PAUSE_GATEWAY),
        GatewayChange::Resume => order_as(statements::RESUME_GATEWAY),
        GatewayChange::Limit(most) => {
            let most = most.map(|most| i32::try_from(most).unwrap_or(i32::MAX));
            order_as(statements::LIMIT_GATEWAY_RATE).bind(most)
        }
    };
    let found = query.bind(&order.by.0).bind(&order.reason).fetch_optional(&pool).await.map_err(at_commit)?;
    Ok(if found.is_some() { GatewayAnswer::Done } else { GatewayAnswer::NotFound })
}
