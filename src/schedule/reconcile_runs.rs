//! Reports: begun, loaded a batch at a time, then made to count, all of it or nothing.
//!
//! **Promises.** A report counts from the commit of [`Postgres::finish_report`] on, which counts its lines first; the
//! one whose place it takes ends in the same transaction. The same bytes for the same day count once, under whatever
//! name they come and however they are read; and not at all once people took them out (`reconcile_withdraw`), unless
//! somebody says otherwise. Of two that load the same bytes at once the second finds them counted. No report takes the
//! place of another while a comparison of its gateway reads.
//!
//! If this dies here, lines of a report that never counts are left; the next report of its day deletes them an hour
//! later, and their day's partition ends them anyhow.

use super::failure::{before_commit, transaction, whole};
use super::port::ScheduleError;
use super::reconcile::{
    Finished, LineSum, NewReport, Purpose, ReconciliationRun, ReconciliationRunFilter, ReportBegun,
    ReportStatus, Shorter, Withdrawn,
};
use super::row::{self, parsed};
use super::{Postgres, reconcile_lines, statements};
use crate::domain::ids::{GatewayName, Operator};
use crate::domain::settlement::Line;
use chrono::{DateTime, NaiveDate, Utc};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Lines changed by one transaction.
const CHANGED_AT_ONCE: i64 = 20_000;

impl Postgres {
    /// Begins to load a report, or says why that is not to be done.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn begin_report(
        &self,
        new: &NewReport,
        if_shorter: Shorter,
    ) -> Result<ReportBegun, ScheduleError> {
        let (pool, new) = (self.pool().clone(), new.clone());
        whole(async move { begin(&pool, &new, if_shorter).await }).await
    }

    /// Writes lines of a report that is loading; at most a few thousand at a time.
    ///
    /// # Errors
    /// Any; then the report has to be given up, since some may be there.
    pub async fn load_lines(&self, report: &NewReport, lines: Vec<Line>) -> Result<(), ScheduleError> {
        let report = report.clone();
        transaction(self.pool(), move |one| {
            Box::pin(async move { reconcile_lines::load(one, &report, &lines).await })
        })
        .await
    }

    /// Lets the report count, in the place of the one before it, once no comparison of the gateway goes on.
    ///
    /// # Errors
    /// `CommitUnknown`: look at the report ([`Self::reconciliation_run`]).
    pub async fn finish_report(&self, report: &NewReport) -> Result<Finished, ScheduleError> {
        let (pool, report) = (self.pool().clone(), report.clone());
        whole(async move { finish(&pool, &report).await }).await
    }

    /// Makes lines ready to be compared: those whose key is not ours find their payments by the names of charges that
    /// we know. A report that is to count has this done when it is finished.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn ready_lines(&self, report: &NewReport) -> Result<(), ScheduleError> {
        let (pool, report) = (self.pool().clone(), report.clone());
        whole(async move { ready_lines(&pool, &report).await }).await
    }

    /// Gives a report up: nothing of it counts, its lines are deleted.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn fail_report(&self, report: &NewReport, why: &str) -> Result<(), ScheduleError> {
        let (pool, id, day, why) = (self.pool().clone(), report.id, report.day, why.to_owned());
        whole(async move {
            sqlx::query(statements::FAIL_REPORT)
                .bind(id)
                .bind(why)
                .fetch_optional(&pool)
                .await
                .map_err(before_commit)?;
            delete_lines(&pool, id, day).await
        })
        .await
    }

    /// Forgets a report that was tried.
    ///
    /// # Errors
    /// Any; repeating it does no harm.
    pub async fn forget_trial(&self, report: &NewReport) -> Result<(), ScheduleError> {
        let (pool, id, day) = (self.pool().clone(), report.id, report.day);
        whole(async move {
            delete_lines(&pool, id, day).await?;
            sqlx::query(statements::FORGET_TRIAL).bind(id).execute(&pool).await.map_err(before_commit)?;
            Ok(())
        })
        .await
    }

    /// Reports, the newest day first, behind the one at `before`; at most `limit`.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn reconciliation_runs(
        &self,
        filter: &ReconciliationRunFilter,
        before: Option<(NaiveDate, DateTime<Utc>, Uuid)>,
        limit: u32,
    ) -> Result<Vec<ReconciliationRun>, ScheduleError> {
        let rows = sqlx::query(statements::LIST_REPORTS)
            .bind(filter.gateway.as_ref().map(|gateway| gateway.0.as_str()))
            .bind(filter.from.unwrap_or(OLDEST))
            .bind(filter.to.unwrap_or(NEWEST))
            .bind(filter.status.map(ReportStatus::as_str))
            .bind(before.map(|(day, ..)| day))
            .bind(before.map(|(_, at, _)| at))
            .bind(before.map(|(.., id)| id))
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await
            .map_err(before_commit)?;
        rows.iter().map(report).collect::<Result<_, _>>().map_err(before_commit)
    }

    /// One report.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn reconciliation_run(&self, id: Uuid) -> Result<Option<ReconciliationRun>, ScheduleError> {
        let found = sqlx::query(statements::FIND_REPORT).bind(id).fetch_optional(self.pool()).await;
        found.map_err(before_commit)?.as_ref().map(report).transpose().map_err(before_commit)
    }

    /// Drops the lines of reports more than `keep_days` days old; answers how many days.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn drop_old_settlements(&self, keep_days: u32) -> Result<u32, ScheduleError> {
        let keep = i32::try_from(keep_days).unwrap_or(i32::MAX);
        let pool = self.pool().clone();
        whole(async move {
            let dropped: i32 = sqlx::query_scalar(statements::DROP_OLD_SETTLEMENTS)
                .bind(keep)
                .fetch_one(&pool)
                .await
                .map_err(before_commit)?;
            Ok(u32::try_from(dropped).unwrap_or(0))
        })
        .await
    }
}

/// Before the first report.
const OLDEST: NaiveDate = match NaiveDate::from_ymd_opt(1970, 1, 1) {
    Some(day) => day,
    None => NaiveDate::MIN,
};
/// Behind the last, and within what Postgres calls a date.
const NEWEST: NaiveDate = match NaiveDate::from_ymd_opt(9999, 12, 31) {
    Some(day) => day,
    None => NaiveDate::MAX,
};

async fn begin(pool: &PgPool, new: &NewReport, if_shorter: Shorter) -> Result<ReportBegun, ScheduleError> {
    let mut connection = pool.acquire().await.map_err(before_commit)?;
    let live = live(&mut connection, &new.gateway, (new.day, new.day), None).await.map_err(before_commit)?;
    match (live.iter().find(|it| is_same(it, new)), new.purpose) {
        (Some(same), Purpose::Count) => {
            drop(connection);
            return Ok(ReportBegun::Same(seen_again(pool, same, new).await?));
        }
        // A trial looks at it again, and must not end where what counts is compared and repaired.
        (Some(_), Purpose::Trial) | (None, _) => {}
    }
    match (new.if_withdrawn, new.purpose) {
        (Withdrawn::Refuse, Purpose::Count) => {
            if let Some(gone) = withdrawn(&mut connection, new).await.map_err(before_commit)? {
                return Ok(ReportBegun::Withdrawn(gone));
            }
        }
        (Withdrawn::Refuse | Withdrawn::Accept, Purpose::Trial) | (Withdrawn::Accept, Purpose::Count) => {}
    }
    let lines = i64::try_from(new.lines).unwrap_or(i64::MAX);
    // As supersede_reports.sql finds them.
    let mut replaced = live
        .into_iter()
        .filter(|it| it.format == new.format && (it.source == new.source || it.sha256 == new.sha256));
    match if_shorter {
        Shorter::Refuse => {
            if let Some(before) = replaced.find(|before| lines < before.lines) {
                return Ok(ReportBegun::Shorter(before));
            }
        }
        Shorter::Accept => {}
    }
    let stale = sqlx::query(statements::STALE_REPORTS).bind(&new.gateway.0).bind(new.day);
    let stale = stale.fetch_all(&mut *connection).await.map_err(before_commit)?;
    for stale in stale {
        delete_lines(pool, stale.try_get("id").map_err(before_commit)?, new.day).await?;
    }
    let begun = write_down(&mut connection, new).await.map_err(before_commit)?;
    if begun.is_none() {
        return Ok(ReportBegun::DayOutOfRange);
    }
    sqlx::query(statements::ENSURE_SETTLEMENT_DAY)
        .bind(new.day)
        .fetch_one(&mut *connection)
        .await
        .map_err(before_commit)?;
    Ok(ReportBegun::Begun)
}

/// Bytes are the same or not, whatever the file is called. One that was cut by the clock, and is whole now, is not, nor
/// is one that is read with other options.
fn is_same(counts: &ReconciliationRun, new: &NewReport) -> bool {
    (&counts.format, &counts.options, counts.sha256) == (&new.format, &new.options, new.sha256)
        && (counts.is_complete || !new.is_complete)
}

/// A report that counts, whose bytes came again. Seen later than before it has to be compared again.
async fn seen_again(
    pool: &PgPool,
    same: &ReconciliationRun,
    new: &NewReport,
) -> Result<ReconciliationRun, ScheduleError> {
    let mut seen = pool.begin().await.map_err(before_commit)?;
    between_comparisons(&mut seen, &new.gateway).await.map_err(before_commit)?;
    let again = sqlx::query(statements::SEE_REPORT_AGAIN).bind(same.id).bind(new.seen_at);
    let again = again.fetch_optional(&mut *seen).await.map_err(before_commit)?;
    let again = again.as_ref().map(report).transpose().map_err(before_commit)?;
    super::failure::commit(seen).await?;
    Ok(again.unwrap_or_else(|| same.clone()))
}

/// Waits for the end of a comparison of the gateway; the next one waits for the end of this transaction.
async fn between_comparisons(transaction: &mut PgConnection, gateway: &GatewayName) -> Result<(), Error> {
    sqlx::query(statements::WAIT_FOR_COMPARISON).execute(&mut *transaction).await?;
    sqlx::query(statements::BETWEEN_COMPARISONS).bind(&gateway.0).execute(transaction).await?;
    Ok(())
}

/// The report's own row; `None`: its day is out of range.
async fn write_down(connection: &mut PgConnection, new: &NewReport) -> Result<Option<PgRow>, Error> {
    let status = match new.purpose {
        Purpose::Count => ReportStatus::Loading,
        Purpose::Trial => ReportStatus::Trial,
    };
    sqlx::query(statements::BEGIN_REPORT)
        .bind(new.id)
        .bind(&new.gateway.0)
        .bind(new.day)
        .bind(&new.format)
        .bind(&new.source)
        .bind(new.sha256.to_vec())
        .bind(&new.asked_by.0)
        .bind(status.as_str())
        .bind(i64::try_from(new.lines).unwrap_or(i64::MAX))
        .bind(new.is_complete)
        .bind(new.seen_at)
        .bind(Json(&new.sums))
        .bind(&new.options)
        .fetch_optional(connection)
        .await
}

/// The last report of the same bytes, if people took it out.
async fn withdrawn(
    connection: &mut PgConnection,
    new: &NewReport,
) -> Result<Option<ReconciliationRun>, Error> {
    let last = sqlx::query(statements::WITHDRAWN_REPORT)
        .bind(&new.gateway.0)
        .bind(new.day)
        .bind(new.sha256.to_vec());
    last.fetch_optional(connection).await?.as_ref().map(report).transpose()
}

/// The reports that count for these days, both included, and the one on trial.
pub(super) async fn live(
    connection: &mut PgConnection,
    gateway: &GatewayName,
    days: (NaiveDate, NaiveDate),
    trial: Option<Uuid>,
) -> Result<Vec<ReconciliationRun>, Error> {
    let rows = sqlx::query(statements::LIVE_REPORTS)
        .bind(&gateway.0)
        .bind(days.0)
        .bind(days.1)
        .bind(trial)
        .fetch_all(connection)
        .await?;
    rows.iter().map(report).collect()
}

/// Each line has its payment, and the planner knows them all: lines that came a moment ago count for none there, and
/// each charge of ours would be looked for in all of them.
async fn ready_lines(pool: &PgPool, report: &NewReport) -> Result<(), ScheduleError> {
    name_payments(pool, report).await?;
    let analysed = sqlx::query(statements::ANALYSE_SETTLEMENT_DAY).bind(report.day);
    analysed.fetch_one(pool).await.map_err(before_commit)?;
    Ok(())
}

/// Lines whose key is not ours, by the names of charges that we know.
async fn name_payments(pool: &PgPool, report: &NewReport) -> Result<(), ScheduleError> {
    let lines = i64::try_from(report.lines).unwrap_or(i64::MAX);
    let mut behind = 0;
    while behind < lines {
        let last = behind.saturating_add(CHANGED_AT_ONCE);
        sqlx::query(statements::NAME_PAYMENTS)
            .bind(report.id)
            .bind(report.day)
            .bind(&report.gateway.0)
            .bind(behind)
            .bind(last)
            .execute(pool)
            .await
            .map_err(before_commit)?;
        behind = last;
    }
    Ok(())
}

async fn finish(pool: &PgPool, new: &NewReport) -> Result<Finished, ScheduleError> {
    ready_lines(pool, new).await?;
    let mut both = pool.begin().await.map_err(before_commit)?;
    between_comparisons(&mut both, &new.gateway).await.map_err(before_commit)?;
    // Somebody else may have loaded the same bytes meanwhile, and may be about to compare them.
    let live = live(&mut both, &new.gateway, (new.day, new.day), None).await.map_err(before_commit)?;
    if let Some(same) = live.into_iter().find(|it| is_same(it, new)) {
        both.rollback().await.map_err(before_commit)?;
        return Ok(Finished::Same(same));
    }
    let before = sqlx::query(statements::SUPERSEDE_REPORTS).bind(new.id).fetch_all(&mut *both).await;
    let before = before.map_err(before_commit)?;
    let finished = sqlx::query(statements::FINISH_REPORT).bind(new.id).bind(new.day);
    let finished = finished.fetch_optional(&mut *both).await.map_err(before_commit)?;
    let Some(finished) = finished else {
        both.rollback().await.map_err(before_commit)?;
        return Ok(Finished::NotWhole);
    };
    let finished = report(&finished).map_err(before_commit)?;
    super::failure::commit(both).await?;
    // Whoever reads asks for the reports that count: what is left of the others only costs room.
    for gone in before {
        delete_lines(pool, gone.try_get("id").map_err(before_commit)?, new.day).await?;
    }
    Ok(Finished::Counts(finished))
}

async fn delete_lines(pool: &PgPool, report: Uuid, day: NaiveDate) -> Result<(), ScheduleError> {
    loop {
        let deleted = sqlx::query(statements::DELETE_LINES)
            .bind(report)
            .bind(day)
            .bind(CHANGED_AT_ONCE)
            .execute(pool)
            .await
            .map_err(before_commit)?
            .rows_affected();
        if deleted < CHANGED_AT_ONCE.unsigned_abs() {
            return Ok(());
        }
    }
}

/// A row of `reconciliation_runs`.
pub(super) fn report(found: &PgRow) -> Result<ReconciliationRun, Error> {
    let sums: Json<Vec<LineSum>> = found.try_get("sums")?;
    let counts: Json<BTreeMap<String, i64>> = found.try_get("counts")?;
    Ok(ReconciliationRun {
        id: found.try_get("id")?,
        gateway: GatewayName(found.try_get("gateway")?),
        day: found.try_get("day")?,
        format: found.try_get("format")?,
        options: found.try_get("options")?,
        source: found.try_get("source")?,
        sha256: row::required_hash(found, "sha256")?,
        asked_by: Operator(found.try_get("asked_by")?),
        status: parsed(found, "status", ReportStatus::from_text)?,
        lines: found.try_get("lines")?,
        is_complete: found.try_get("is_complete")?,
        seen_at: found.try_get("seen_at")?,
        started_at: found.try_get("started_at")?,
        finished_at: found.try_get("finished_at")?,
        sums: sums.0,
        counts: counts.0,
        superseded_by: found.try_get("superseded_by")?,
        withdrawn_at: found.try_get("withdrawn_at")?,
        note: found.try_get("note")?,
    })
}
