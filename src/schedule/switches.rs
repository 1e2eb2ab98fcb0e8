//! Kill switches as people turn them: one statement turns a switch and writes down who did it and why.
//!
//! **Promises.** A switch that was answered as turned stops every claim that begins afterwards (`sql/claim.sql`
//! asks in its own statement), and every first byte that a worker's next beat comes before. Turned twice the
//! same way it is turned once; only what changed is in the operators' audit, but for a newer reason.
//!
//! If this dies here, the switch is turned or it is not; whoever repeats is answered the same.

use super::failure::{at_commit, before_commit, whole};
use super::port::ScheduleError;
use super::{Postgres, row, statements};
use crate::domain::ids::{GatewayName, Operator};
use crate::domain::switches::{Switch, SwitchKind, Turned};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Error, PgPool, Row};

/// A switch that is thrown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrownSwitch {
    /// Which.
    pub switch: Switch,
    /// The name of the actor that it names.
    pub actor_name: Option<String>,
    /// Who threw it, or gave the newest reason.
    pub by: Operator,
    /// Why.
    pub reason: String,
    /// Since when, by the database's clock.
    pub at: DateTime<Utc>,
}

/// One person's order about one switch.
#[derive(Debug, Clone)]
pub struct SwitchOrder {
    /// What it names.
    pub kind: SwitchKind,
    /// Which: as [`Switch::value`], or an actor's name.
    pub value: String,
    /// Which way.
    pub turned: Turned,
    /// Who.
    pub by: Operator,
    /// Why, 1 to 500 characters.
    pub reason: String,
    /// The gateways that are configured here; one that no worker has registered yet can be switched off too.
    pub configured: Vec<GatewayName>,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchAnswer {
    /// What it names is stopped.
    Thrown(ThrownSwitch),
    /// What it names goes on.
    Released,
    /// There is nothing of that name.
    NothingOfThatName,
}

impl Postgres {
    /// Every switch that is thrown, the widest first.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn kill_switches(&self) -> Result<Vec<ThrownSwitch>, ScheduleError> {
        whole(list(self.pool().clone())).await
    }

    /// Turns one switch.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn turn_switch(&self, order: &SwitchOrder) -> Result<SwitchAnswer, ScheduleError> {
        whole(turn(self.pool().clone(), order.clone())).await
    }
}

async fn list(pool: PgPool) -> Result<Vec<ThrownSwitch>, ScheduleError> {
    let rows = sqlx::query(statements::LIST_SWITCHES).fetch_all(&pool).await.map_err(before_commit)?;
    let read = |row: &PgRow| thrown(row, row.try_get("actor")?);
    rows.iter().map(read).collect::<Result<_, _>>().map_err(before_commit)
}

async fn turn(pool: PgPool, order: SwitchOrder) -> Result<SwitchAnswer, ScheduleError> {
    match order.turned {
        Turned::Off => {
            let configured: Vec<String> = order.configured.into_iter().map(|gateway| gateway.0).collect();
            let row = sqlx::query(statements::THROW_SWITCH)
                .bind(order.kind.as_str())
                .bind(&order.value)
                .bind(&order.by.0)
                .bind(&order.reason)
                .bind(configured)
                .fetch_optional(&pool)
                .await
                .map_err(at_commit)?;
            let thrown = row.map(|row| thrown(&row, None)).transpose().map_err(at_commit)?;
            Ok(thrown.map_or(SwitchAnswer::NothingOfThatName, SwitchAnswer::Thrown))
        }
        Turned::On => {
            sqlx::query(statements::RELEASE_SWITCH)
                .bind(order.kind.as_str())
                .bind(&order.value)
                .bind(&order.by.0)
                .bind(&order.reason)
                .execute(&pool)
                .await
                .map_err(at_commit)?;
            Ok(SwitchAnswer::Released)
        }
    }
}

fn thrown(row: &PgRow, actor_name: Option<String>) -> Result<ThrownSwitch, Error> {
    Ok(ThrownSwitch {
        switch: Switch {
            kind: row::parsed(row, "kind", SwitchKind::from_text)?,
            value: row.try_get("value")?,
        },
        actor_name,
        by: Operator(row.try_get("thrown_by")?),
        reason: row.try_get("reason")?,
        at: row.try_get("thrown_at")?,
    })
}
