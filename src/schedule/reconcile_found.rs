//! Differences on their way into their rows, or, on trial, into a sample.
//!
//! **Promises.** They are written a few hundred at a time, each on the day of its line, so that whichever comparison finds
//! one finds the same row. What is counted is the compared day's.
//!
//! If this dies here, what was written stands; the next comparison writes all of it again.

use super::reconcile::{CompareOrder, Compared, Difference, ReconciliationRun};
use super::reconcile_compare::{Ground, had_its_time, is_whole};
use super::row::{parsed, payment_if_any, required_hash};
use super::statements;
use crate::domain::matching::{Class, ItemStatus};
use crate::domain::refund::RefundId;
use chrono::NaiveDate;
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::fmt::Write as _;
use uuid::Uuid;

/// Differences written by one statement.
const NOTED_AT_ONCE: usize = 500;
/// Differences that a trial shows.
const SAMPLE: usize = 1_000;

/// A difference, and which row it is.
pub(super) struct Found {
    /// On which day it shows.
    pub(super) day: NaiveDate,
    /// What tells it from others that look alike, and stays so whatever is found beside it.
    pub(super) apart: Option<String>,
    pub(super) difference: Difference,
    /// A line shows it; otherwise it is that there is none.
    pub(super) has_line: bool,
}

/// Where differences go.
pub(super) struct Sink<'a> {
    pool: &'a PgPool,
    order: &'a CompareOrder,
    reports: &'a [ReconciliationRun],
    /// The report that stands for the comparison in rows that have no line.
    run: Uuid,
    /// Of what has no line: there may be time left.
    of_ours: ItemStatus,
    waiting: Vec<Found>,
    compared: Compared,
    lines_that_differ: u64,
    /// Payments that the day's lines charge once more.
    second_charges: Vec<Uuid>,
}

fn open_if(is_open: bool) -> ItemStatus {
    if is_open { ItemStatus::Open } else { ItemStatus::Waiting }
}

impl<'a> Sink<'a> {
    pub(super) fn new(pool: &'a PgPool, ground: &'a Ground, of_day: &[Uuid]) -> Self {
        let (order, reports) = (&ground.order, ground.reports.as_slice());
        Self {
            pool,
            order,
            reports,
            run: of_day.last().copied().unwrap_or_default(),
            of_ours: open_if(had_its_time(reports, order.day, order.grace_days)),
            waiting: Vec::with_capacity(NOTED_AT_ONCE),
            compared: Compared::default(),
            lines_that_differ: 0,
            second_charges: Vec::new(),
        }
    }

    /// Where a difference stands that shows in no line.
    pub(super) fn of_ours(&self) -> ItemStatus {
        self.of_ours
    }

    /// Payments that the day's lines charge once more, of those that were looked at so far.
    pub(super) fn second_charges(&self) -> Vec<Uuid> {
        self.second_charges.clone()
    }

    /// Of a difference in a line: its day may go on. Days that nothing is known of here are over.
    fn of_line(&self, day: NaiveDate) -> ItemStatus {
        open_if(is_whole(self.reports, day) || !self.reports.iter().any(|report| report.day == day))
    }

    pub(super) async fn take_all(
        &mut self,
        reading: &mut PgConnection,
        query: Query<'_, sqlx::Postgres, PgArguments>,
    ) -> Result<(), Error> {
        let mut rows = query.fetch(reading);
        while let Some(row) = rows.try_next().await? {
            self.take(self.found(&row)?).await?;
        }
        Ok(())
    }

    pub(super) async fn take(&mut self, mut found: Found) -> Result<(), Error> {
        if found.has_line {
            found.difference.status = self.of_line(found.day);
        }
        if found.day == self.order.day {
            *self.compared.counts.entry(found.difference.class).or_default() += 1;
            if found.difference.class == Class::DuplicateCharge {
                self.second_charges.extend(found.difference.payment.map(|id| id.as_uuid()));
            }
            self.lines_that_differ += u64::from(found.has_line && found.difference.field != "chargeback");
        }
        self.waiting.push(found);
        if self.waiting.len() >= NOTED_AT_ONCE {
            self.flush().await?;
        }
        Ok(())
    }

    fn found(&self, row: &PgRow) -> Result<Found, Error> {
        let class = parsed(row, "class", Class::from_text)?;
        let run: Option<Uuid> = row.try_get("run_id")?;
        let (class, status) = match class {
            Class::Late if self.of_ours == ItemStatus::Open => (Class::MissingThere, ItemStatus::Open),
            other => (other, self.of_ours),
        };
        let (day, evidence) = match run {
            Some(run) => {
                let day = row.try_get("report_day")?;
                let (number, at_line) = (row.try_get("number")?, row.try_get("at_line")?);
                (day, evidence(run, day, number, at_line, &required_hash(row, "raw_hash")?))
            }
            None => (self.order.day, json!({})),
        };
        let difference = Difference {
            class,
            status,
            payment: payment_if_any(row, "payment_id")?,
            refund: row.try_get::<Option<_>, _>("refund_id")?.map(RefundId),
            key: row.try_get("key")?,
            reference: row.try_get("reference")?,
            field: row.try_get("field")?,
            ours: row.try_get("ours")?,
            theirs: row.try_get("theirs")?,
            amount_minor: row.try_get("amount_minor")?,
            currency: row.try_get("currency")?,
            evidence,
        };
        Ok(Found { day, apart: row.try_get("apart")?, difference, has_line: run.is_some() })
    }

    /// Writes what is left; answers what was found, and how many lines of the day differ.
    pub(super) async fn end(mut self) -> Result<(Compared, u64), Error> {
        self.flush().await?;
        Ok((self.compared, self.lines_that_differ))
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let found = std::mem::take(&mut self.waiting);
        if self.order.trial.is_some() {
            self.show(found);
            return Ok(());
        }
        if found.is_empty() {
            return Ok(());
        }
        let of = |it: fn(&Difference) -> Option<String>| {
            found.iter().map(|found| it(&found.difference)).collect::<Vec<_>>()
        };
        let each = || found.iter().map(|found| &found.difference);
        let rows = sqlx::query(statements::NOTE_ITEMS)
            .bind(self.run)
            .bind(&self.order.gateway.0)
            .bind(found.iter().map(|it| it.day).collect::<Vec<_>>())
            .bind(each().map(|it| it.class.as_str()).collect::<Vec<_>>())
            .bind(each().map(|it| it.status.as_str()).collect::<Vec<_>>())
            .bind(each().map(|it| it.payment.map(|id| id.as_uuid())).collect::<Vec<_>>())
            .bind(each().map(|it| it.refund.map(|id| id.0)).collect::<Vec<_>>())
            .bind(of(|it| it.key.clone()))
            .bind(of(|it| it.reference.clone()))
            .bind(of(|it| Some(it.field.clone())))
            .bind(of(|it| it.ours.clone()))
            .bind(of(|it| it.theirs.clone()))
            .bind(each().map(|it| it.amount_minor).collect::<Vec<_>>())
            .bind(of(|it| it.currency.clone()))
            .bind(each().map(|it| Json(it.evidence.clone())).collect::<Vec<_>>())
            .bind(found.iter().map(|it| it.apart.clone()).collect::<Vec<_>>())
            .fetch_all(self.pool)
            .await?;
        for row in &rows {
            let is_open = parsed(row, "status", ItemStatus::from_text)? == ItemStatus::Open;
            if is_open && row.try_get("is_new")? {
                *self.compared.new.entry(parsed(row, "class", Class::from_text)?).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Nothing is kept of a trial, so what it would leave open is counted as it is found.
    fn show(&mut self, found: Vec<Found>) {
        for it in &found {
            match it.difference.status {
                ItemStatus::Open => self.compared.open += 1,
                ItemStatus::Waiting => self.compared.waiting += 1,
                ItemStatus::Repaired
                | ItemStatus::Dismissed
                | ItemStatus::Explained
                | ItemStatus::Superseded => {}
            }
        }
        let room = SAMPLE.saturating_sub(self.compared.sample.len());
        self.compared.sample.extend(found.into_iter().take(room).map(|it| it.difference));
    }
}

/// The line that shows a difference.
pub(super) fn evidence(run: Uuid, day: NaiveDate, number: i64, at_line: i64, hash: &[u8; 32]) -> Value {
    let hash = hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing into a text does not fail.
        let _never = write!(text, "{byte:02x}");
        text
    });
    json!({"run": run, "day": day, "line": number, "atLine": at_line, "rawHash": hash})
}
