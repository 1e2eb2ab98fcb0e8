//! Differences of any day that a later report or a later outcome settles, and those whose grace is over.
//!
//! **Promises.** What both sides agree on by now is explained, with the line where a report came later; what waited for
//! a line until every report of its grace was there is open from then on. Nothing here compares: it looks at what is
//! unsettled, which is little.
//!
//! If this dies here, the next comparison of the gateway does the rest.

use super::reconcile::{CompareOrder, Compared};
use super::reconcile_compare::{day_of, earlier, first_id, had_its_time, later};
use super::reconcile_runs::live;
use super::row::parsed;
use super::statements;
use crate::domain::matching::Class;
use chrono::NaiveDate;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Error, PgPool};
use uuid::Uuid;

/// Refunds that one statement is told of.
const EXPLAINED_AT_ONCE: usize = 500;

/// Refunds that stand in a report by now, with their lines.
pub(super) async fn explain_refunds(
    pool: &PgPool,
    order: &CompareOrder,
    given_back: &[(Uuid, Value)],
    compared: &mut Compared,
) -> Result<(), Error> {
    for some in given_back.chunks(EXPLAINED_AT_ONCE) {
        let explained = sqlx::query(statements::EXPLAIN_REFUNDS)
            .bind(&order.gateway.0)
            .bind(some.iter().map(|(refund, _)| *refund).collect::<Vec<_>>())
            .bind(some.iter().map(|(_, line)| Json(line)).collect::<Vec<_>>())
            .execute(pool)
            .await?;
        compared.explained += explained.rows_affected();
    }
    Ok(())
}

/// Of the order's gateway; what it found is added to `compared`.
pub(super) async fn settle(
    pool: &PgPool,
    order: &CompareOrder,
    compared: &mut Compared,
) -> Result<(), Error> {
    let gateway = &order.gateway.0;
    let mut from = Uuid::nil();
    loop {
        let next: Option<Uuid> = sqlx::query_scalar(statements::OPEN_ITEM_DAYS)
            .bind(gateway)
            .bind(from)
            .fetch_optional(pool)
            .await?;
        let Some(next) = next else { break };
        let due_day = day_of(next);
        let end = first_id(later(due_day, 1));
        let explained = sqlx::query(statements::EXPLAIN_HERE)
            .bind(gateway)
            .bind(due_day)
            .bind(first_id(due_day))
            .bind(end)
            .fetch_all(pool)
            .await?;
        for row in &explained {
            // The others are second charges now, and are told of.
            if parsed(row, "class", Class::from_text)? == Class::MissingHere {
                compared.explained += 1;
            }
        }
        if end <= next {
            break;
        }
        from = end;
    }
    let waiting: Vec<(NaiveDate, NaiveDate)> =
        sqlx::query_as(statements::WAITING_DAYS).bind(gateway).fetch_all(pool).await?;
    let (Some(first), Some((last, _))) = (waiting.iter().map(|(_, first)| *first).min(), waiting.last())
    else {
        return Ok(());
    };
    let (first, last) = (earlier(first, 1), later(*last, order.grace_days + 1).max(order.day));
    let mut connection = pool.acquire().await?;
    let reports = live(&mut connection, &order.gateway, (first, last), None).await?;
    drop(connection);
    let explained = sqlx::query(statements::EXPLAIN_THERE)
        .bind(gateway)
        .bind(first)
        .bind(last)
        .bind(reports.iter().map(|report| report.id).collect::<Vec<_>>())
        .fetch_all(pool)
        .await?;
    compared.explained += u64::try_from(explained.len()).unwrap_or(u64::MAX);
    for (day, _) in waiting.into_iter().filter(|(day, _)| had_its_time(&reports, *day, order.grace_days)) {
        let ended = sqlx::query(statements::END_GRACE).bind(gateway).bind(day).fetch_all(pool).await?;
        for row in &ended {
            *compared.ended.entry(parsed(row, "class", Class::from_text)?).or_default() += 1;
        }
    }
    Ok(())
}
