//! Differences between the books, as people see them: listed, looked at, closed with a reason.
//!
//! **Promises.** A page is in the order in which differences were first found, so walking it meets each once. To dismiss
//! one moves nothing, and its reason stays with it whatever later comparisons find.
//!
//! If this dies here, it was dismissed or not.

use super::failure::{before_commit, transaction};
use super::port::ScheduleError;
use super::reconcile::{
    Difference, OpenItemsTold, ReconciliationItem, ReconciliationItemFilter, ReconciliationStanding,
};
use super::row::{self, parsed, unfit};
use super::{Postgres, statements};
use crate::domain::ids::{GatewayName, Operator};
use crate::domain::matching::{Class, ItemStatus};
use crate::domain::refund::RefundId;
use crate::domain::repair::NotRepaired;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Error, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

impl Postgres {
    /// Differences, the oldest first, behind the one of this number; at most `limit`.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn reconciliation_items(
        &self,
        filter: &ReconciliationItemFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ReconciliationItem>, ScheduleError> {
        let rows = sqlx::query(statements::LIST_ITEMS)
            .bind(filter.gateway.as_ref().map(|gateway| gateway.0.as_str()))
            .bind(filter.day)
            .bind(filter.class.map(Class::as_str))
            .bind(filter.status.map(ItemStatus::as_str))
            .bind(filter.payment.map(|payment| payment.as_uuid()))
            .bind(after.unwrap_or(0))
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await
            .map_err(before_commit)?;
        rows.iter().map(item).collect::<Result<_, _>>().map_err(before_commit)
    }

    /// One difference.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn reconciliation_item(
        &self,
        number: i64,
    ) -> Result<Option<ReconciliationItem>, ScheduleError> {
        let found = sqlx::query(statements::FIND_ITEM).bind(number).fetch_optional(self.pool()).await;
        found.map_err(before_commit)?.as_ref().map(item).transpose().map_err(before_commit)
    }

    /// Closes one difference by a person's word.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn dismiss_item(
        &self,
        number: i64,
        by: &Operator,
        reason: &str,
    ) -> Result<Result<(), NotRepaired>, ScheduleError> {
        let (by, reason) = (by.clone(), reason.to_owned());
        transaction(self.pool(), move |one| {
            Box::pin(async move {
                let answer: String = sqlx::query_scalar(statements::DISMISS_ITEM)
                    .bind(number)
                    .bind(by.0)
                    .bind(reason)
                    .fetch_one(one)
                    .await?;
                match answer.as_str() {
                    "dismissed" => Ok(Ok(())),
                    other => Ok(Err(NotRepaired::from_text(other).ok_or_else(|| unfit("answer", &other))?)),
                }
            })
        })
        .await
    }

    /// Differences of a gateway that are open, each once when it is opened, and once again with each day that it stays
    /// so.
    ///
    /// # Errors
    /// Any; what was answered unseen is answered again a day later.
    pub async fn tell_open_items(&self, gateway: &GatewayName) -> Result<OpenItemsTold, ScheduleError> {
        let gateway = gateway.0.clone();
        transaction(self.pool(), move |one| {
            Box::pin(async move {
                let mut told = OpenItemsTold::default();
                for row in sqlx::query(statements::TELL_ITEMS).bind(gateway).fetch_all(one).await? {
                    let of = if row.try_get("is_first")? { &mut told.opened } else { &mut told.still_open };
                    *of.entry(parsed(&row, "class", Class::from_text)?).or_default() += 1;
                }
                Ok(told)
            })
        })
        .await
    }

    /// How each gateway's reconciliation stands.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn reconciliation_standing(&self) -> Result<Vec<ReconciliationStanding>, ScheduleError> {
        let rows = sqlx::query(statements::RECONCILIATION_STANDING).fetch_all(self.pool()).await;
        standings(&rows.map_err(before_commit)?).map_err(before_commit)
    }
}

/// One row for each gateway, class and state; a gateway's are together.
fn standings(rows: &[PgRow]) -> Result<Vec<ReconciliationStanding>, Error> {
    let mut standings: Vec<ReconciliationStanding> = Vec::new();
    for row in rows {
        let gateway = GatewayName(row.try_get("gateway")?);
        if standings.last().is_none_or(|last| last.gateway != gateway) {
            standings.push(ReconciliationStanding {
                gateway,
                last_success_at: row.try_get("last_success_at")?,
                last_day: row.try_get("last_day")?,
                open: BTreeMap::new(),
                waiting: 0,
                sums_apart: row.try_get("sums_apart")?,
            });
        }
        let Some(count) = row.try_get::<Option<i64>, _>("count")? else { continue };
        let Some(standing) = standings.last_mut() else { continue };
        match parsed(row, "status", ItemStatus::from_text)? {
            ItemStatus::Open => {
                standing.open.insert(parsed(row, "class", Class::from_text)?, count);
            }
            ItemStatus::Waiting
            | ItemStatus::Repaired
            | ItemStatus::Dismissed
            | ItemStatus::Explained
            | ItemStatus::Superseded => standing.waiting += count,
        }
    }
    Ok(standings)
}

/// A row of `reconciliation_items`.
pub(super) fn item(found: &PgRow) -> Result<ReconciliationItem, Error> {
    let evidence: Json<Value> = found.try_get("evidence")?;
    let decided_by: Option<String> = found.try_get("decided_by")?;
    Ok(ReconciliationItem {
        number: found.try_get("number")?,
        run: found.try_get("run_id")?,
        gateway: GatewayName(found.try_get("gateway")?),
        day: found.try_get("day")?,
        what: Difference {
            class: parsed(found, "class", Class::from_text)?,
            status: parsed(found, "status", ItemStatus::from_text)?,
            payment: row::payment_if_any(found, "payment_id")?,
            refund: found.try_get::<Option<Uuid>, _>("refund_id")?.map(RefundId),
            key: found.try_get("key")?,
            reference: found.try_get("reference")?,
            field: found.try_get("field")?,
            ours: found.try_get("ours")?,
            theirs: found.try_get("theirs")?,
            amount_minor: found.try_get("amount_minor")?,
            currency: found.try_get("currency")?,
            evidence: evidence.0,
        },
        first_seen_at: found.try_get("first_seen_at")?,
        last_seen_at: found.try_get("last_seen_at")?,
        not_repaired: found.try_get("not_repaired")?,
        decided_by: decided_by.map(Operator),
        decided_at: found.try_get("decided_at")?,
        decided_reason: found.try_get("decided_reason")?,
    })
}
