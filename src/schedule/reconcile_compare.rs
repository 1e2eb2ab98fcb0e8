//! One day's reports against one day's charges, both ways.
//!
//! **Promises.** Sets are compared where they lie, a due day at a time, so that each statement touches one partition of
//! payments; only what differs comes out, and is written a few hundred at a time. A charge is looked for in the
//! neighbouring days' reports before it is called missing, and is called missing only when every report until the
//! end of its grace is there and whole. A comparison that is repeated writes the same rows.
//!
//! **Relies on** one comparison at a time for each gateway: its connection holds a lock, and ends with it. What moves
//! while it reads is found by the next one.
//!
//! If this dies here, some differences are noted and none is called gone; the next comparison finds the rest.

use super::failure::{before_commit, whole};
use super::port::ScheduleError;
use super::reconcile::{CompareOrder, Compared, ReconciliationRun};
use super::reconcile_found::Sink;
use super::reconcile_runs::live;
use super::{Postgres, reconcile_refunds, reconcile_settle, statements};
use crate::domain::ids::GatewayName;
use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use serde_json::{Value, json};
use sqlx::types::Json;
use sqlx::{Error, PgConnection, PgPool, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Payments of several lines that are put in order at once.
const OFTEN_AT_ONCE: usize = 500;

impl Postgres {
    /// Compares a gateway's day with the reports that count for it. One at a time for each gateway.
    ///
    /// # Errors
    /// `Unavailable`, also while another comparison of the gateway runs, or `Defect`; repeating it does no harm.
    pub async fn compare_day(&self, order: &CompareOrder) -> Result<Compared, ScheduleError> {
        let (pool, order) = (self.pool().clone(), order.clone());
        whole(async move {
            let mut reading = pool.acquire().await.map_err(before_commit)?;
            // Its settings and its lock are for this alone.
            reading.close_on_drop();
            compare(&pool, &mut reading, &order).await.map_err(before_commit)
        })
        .await
    }
}

/// Why a day cannot be compared any more: every charge of it would seem to be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forgotten {
    /// A report that counts has no lines left.
    #[error(
        "the lines of {0}'s report are no longer kept, and without them charges of the day would seem to be missing in it"
    )]
    Lines(NaiveDate),
    /// Our own side is not there.
    #[error("payments that were due before {0} are no longer in the database")]
    Payments(NaiveDate),
}

impl Postgres {
    /// Whether what a comparison of this day needs is still kept; `None`: all of it is.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn is_forgotten(
        &self,
        gateway: &GatewayName,
        day: NaiveDate,
        grace_days: u32,
    ) -> Result<Option<Forgotten>, ScheduleError> {
        let attached =
            sqlx::query(statements::ATTACHED_DAYS).fetch_one(self.pool()).await.map_err(before_commit)?;
        let first: Option<NaiveDate> = attached.try_get("first_day").map_err(before_commit)?;
        if let Some(first) = first.filter(|first| day < *first) {
            return Ok(Some(Forgotten::Payments(first)));
        }
        // Charges of the day are looked for in the report before it too.
        let gone = sqlx::query_scalar(statements::FORGOTTEN_REPORT)
            .bind(&gateway.0)
            .bind(earlier(day, 1))
            .bind(later(day, grace_days + 1))
            .fetch_optional(self.pool())
            .await;
        Ok(gone.map_err(before_commit)?.map(Forgotten::Lines))
    }
}

/// The first id of a payment due on this day.
pub(super) fn first_id(day: NaiveDate) -> Uuid {
    let ms = day.and_time(NaiveTime::MIN).and_utc().timestamp_millis();
    u128::try_from(ms).map_or(Uuid::nil(), |ms| Uuid::from_u128((ms & ((1 << 48) - 1)) << 80))
}

/// The due day that an id carries.
pub(super) fn day_of(id: Uuid) -> NaiveDate {
    let ms = i64::try_from(id.as_u128() >> 80).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(ms).map_or(NaiveDate::MAX, |at| at.date_naive())
}

pub(super) fn later(day: NaiveDate, days: u32) -> NaiveDate {
    day.checked_add_days(Days::new(u64::from(days))).unwrap_or(NaiveDate::MAX)
}

pub(super) fn earlier(day: NaiveDate, days: u32) -> NaiveDate {
    day.checked_sub_days(Days::new(u64::from(days))).unwrap_or(NaiveDate::MIN)
}

pub(super) fn begin_of(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// Is there a whole report of each day from `day` to the end of its grace?
pub(super) fn had_its_time(reports: &[ReconciliationRun], day: NaiveDate, grace_days: u32) -> bool {
    (0..=grace_days).all(|days| is_whole(reports, later(day, days)))
}

/// Are there reports of the day, each of them whole?
pub(super) fn is_whole(reports: &[ReconciliationRun], day: NaiveDate) -> bool {
    let mut of_day = reports.iter().filter(|report| report.day == day).peekable();
    of_day.peek().is_some() && of_day.all(|report| report.is_complete)
}

fn ids(reports: &[ReconciliationRun], days: impl Fn(NaiveDate) -> bool) -> Vec<Uuid> {
    reports.iter().filter(|report| days(report.day)).map(|report| report.id).collect()
}

/// Payments by id, from the first to behind the last, and the day that all are due on, if that is attached.
struct Group {
    first: Uuid,
    end: Uuid,
    due_day: Option<NaiveDate>,
}

/// What is known before anything is compared.
pub(super) struct Ground {
    pub(super) order: CompareOrder,
    /// Every report that counts, from the day before the oldest due day to the end of the grace.
    pub(super) reports: Vec<ReconciliationRun>,
    groups: Vec<Group>,
    first_attached: NaiveDate,
    /// The first day whose lines are kept.
    first_kept: NaiveDate,
    began_at: DateTime<Utc>,
}

impl Ground {
    fn of_day(&self) -> Vec<Uuid> {
        ids(&self.reports, |day| day == self.order.day)
    }
    fn last(&self) -> NaiveDate {
        later(self.order.day, self.order.grace_days + 1)
    }
}

async fn compare(pool: &PgPool, reading: &mut PgConnection, order: &CompareOrder) -> Result<Compared, Error> {
    sqlx::query(statements::RECONCILE_SESSION).bind(&order.gateway.0).fetch_one(&mut *reading).await?;
    let ground = ground(reading, order).await?;
    let of_day = ground.of_day();
    let mut sink = Sink::new(pool, &ground, &of_day);
    let mut given_back = Vec::new();
    if !of_day.is_empty() {
        given_back = differences(reading, &ground, &of_day, &mut sink).await?;
    }
    let (mut compared, lines_that_differ) = sink.end().await?;
    let lines: u64 = ground
        .reports
        .iter()
        .filter(|report| report.day == order.day)
        .flat_map(|report| &report.sums)
        .filter(|sum| sum.kind == "charge" || sum.kind == "refund")
        .map(|sum| sum.lines)
        .sum();
    compared.matched = lines.saturating_sub(lines_that_differ);
    compared.is_complete = is_whole(&ground.reports, order.day);
    if order.trial.is_none() {
        reconcile_settle::explain_refunds(pool, &ground.order, &given_back, &mut compared).await?;
        reconcile_settle::settle(pool, &ground.order, &mut compared).await?;
        close(pool, &ground, &of_day, &mut compared).await?;
    }
    Ok(compared)
}

async fn ground(reading: &mut PgConnection, order: &CompareOrder) -> Result<Ground, Error> {
    let attached = sqlx::query(statements::ATTACHED_DAYS).fetch_one(&mut *reading).await?;
    let first_attached: NaiveDate = attached.try_get::<Option<_>, _>("first_day")?.unwrap_or(NaiveDate::MAX);
    let last_attached: NaiveDate = attached.try_get::<Option<_>, _>("last_day")?.unwrap_or(NaiveDate::MIN);
    let mut groups = Vec::new();
    let mut from = Uuid::nil();
    loop {
        let next: Option<Uuid> = sqlx::query_scalar(statements::ID_DAYS)
            .bind(order.day)
            .bind(begin_of(order.day))
            .bind(begin_of(later(order.day, 1)))
            .bind(from)
            .fetch_one(&mut *reading)
            .await?;
        let Some(next) = next else { break };
        let day = day_of(next);
        // Ids of days that are not attached are of nobody here, however many days they name.
        let (end, due_day) = if day < first_attached {
            (first_id(first_attached), None)
        } else if day > last_attached {
            (Uuid::max(), None)
        } else {
            (first_id(later(day, 1)), Some(day))
        };
        groups.push(Group { first: from, end, due_day });
        from = end;
        if end == Uuid::max() {
            break;
        }
    }
    let oldest = groups.iter().filter_map(|group| group.due_day).next().unwrap_or(order.day).min(order.day);
    let first = earlier(oldest, order.grace_days + 1);
    let last = later(order.day, order.grace_days + 1);
    let mut reports = live(reading, &order.gateway, (first, last), order.trial).await?;
    // On trial it takes the place that it would have, and that of the same bytes under another name.
    let tried = reports.iter().find(|report| Some(report.id) == order.trial).cloned();
    if let Some(tried) = tried {
        reports.retain(|report| {
            report.id == tried.id
                || (report.day, &report.format) != (tried.day, &tried.format)
                || report.source != tried.source && report.sha256 != tried.sha256
        });
    }
    let began_at = attached.try_get("now")?;
    let kept: Option<NaiveDate> = sqlx::query_scalar(statements::KEPT_LINES).fetch_one(reading).await?;
    let first_kept = kept.unwrap_or(order.day);
    Ok(Ground { order: order.clone(), reports, groups, first_attached, first_kept, began_at })
}

async fn differences(
    reading: &mut PgConnection,
    ground: &Ground,
    of_day: &[Uuid],
    sink: &mut Sink<'_>,
) -> Result<Vec<(Uuid, Value)>, Error> {
    let order = &ground.order;
    for group in &ground.groups {
        let often = often_charged(reading, ground, of_day, group).await?;
        let lines = sqlx::query(statements::COMPARE_LINES)
            .bind(order.day)
            .bind(of_day)
            .bind(group.first)
            .bind(group.end)
            .bind(group.due_day)
            .bind(&order.gateway.0)
            .bind(often.iter().map(|it| it.payment).collect::<Vec<_>>());
        sink.take_all(reading, lines).await?;
        for some in often.chunks(OFTEN_AT_ONCE) {
            let days = |of: fn(&Often) -> NaiveDate| some.iter().map(of);
            let seen_before = some.iter().filter(|it| it.was_seen_before).map(|it| it.payment);
            let lines = sqlx::query(statements::COMPARE_OFTEN)
                .bind(order.day)
                .bind(of_day)
                .bind(days(|it| it.first_day).min().map_or(order.day, |first| first.min(order.day)))
                .bind(days(|it| it.last_day).max().map_or(order.day, |last| last.max(order.day)))
                .bind(group.due_day)
                .bind(&order.gateway.0)
                .bind(some.iter().map(|it| it.payment).collect::<Vec<_>>())
                .bind(seen_before.collect::<Vec<_>>());
            sink.take_all(reading, lines).await?;
        }
        if let Some(due_day) = group.due_day.filter(|due_day| *due_day <= later(order.day, 1)) {
            let first = earlier(due_day.min(order.day), 1);
            let around = ids(&ground.reports, |day| day >= first);
            let of_group = |statement| {
                sqlx::query(statement)
                    .bind(begin_of(order.day))
                    .bind(begin_of(later(order.day, 1)))
                    .bind(first)
                    .bind(ground.last())
                    .bind(&around)
                    .bind(group.first)
                    .bind(group.end)
                    .bind(due_day)
                    .bind(&order.gateway.0)
            };
            sink.take_all(reading, of_group(statements::COMPARE_OURS)).await?;
            let named = of_group(statements::COMPARE_NAMED).bind(order.day).bind(sink.second_charges());
            sink.take_all(reading, named).await?;
        }
    }
    let nobody = sqlx::query(statements::COMPARE_NOBODY).bind(order.day).bind(of_day).bind(&order.gateway.0);
    sink.take_all(reading, nobody).await?;
    let back = sqlx::query(statements::COMPARE_CHARGEBACKS).bind(order.day).bind(of_day);
    sink.take_all(reading, back).await?;
    reconcile_refunds::compare(reading, ground, of_day, sink).await
}

/// A payment with more than one charge, and the days between which its other lines lie.
struct Often {
    payment: Uuid,
    first_day: NaiveDate,
    last_day: NaiveDate,
    /// Its charge stood in a report whose lines are forgotten.
    was_seen_before: bool,
}

/// Of a group; those first whose other lines are the oldest, so that few days are looked at for most.
async fn often_charged(
    reading: &mut PgConnection,
    ground: &Ground,
    of_day: &[Uuid],
    group: &Group,
) -> Result<Vec<Often>, Error> {
    let order = &ground.order;
    let rows = sqlx::query(statements::OFTEN_CHARGED)
        .bind(order.day)
        .bind(of_day)
        .bind(&order.gateway.0)
        .bind(group.first)
        .bind(group.end)
        .fetch_all(&mut *reading)
        .await?;
    let mut often = Vec::with_capacity(rows.len());
    for row in rows {
        often.push(Often {
            payment: row.try_get("payment_id")?,
            first_day: row.try_get("first_day")?,
            last_day: row.try_get("last_day")?,
            was_seen_before: false,
        });
    }
    let Some(due_day) = group.due_day.filter(|due_day| *due_day < ground.first_kept) else {
        return Ok(often);
    };
    let seen: Vec<Uuid> = sqlx::query_scalar(statements::SEEN_BEFORE)
        .bind(order.day)
        .bind(of_day)
        .bind(group.first)
        .bind(group.end)
        .bind(begin_of(due_day))
        .bind(&order.gateway.0)
        .bind(ground.first_kept)
        .bind(i32::try_from(order.grace_days).unwrap_or(i32::MAX).saturating_add(1))
        .fetch_all(reading)
        .await?;
    // A file that repeats what is long forgotten has as many of them as it has lines.
    let known: BTreeMap<Uuid, usize> = often.iter().enumerate().map(|(at, it)| (it.payment, at)).collect();
    for payment in seen {
        match known.get(&payment).and_then(|at| often.get_mut(*at)) {
            Some(known) => known.was_seen_before = true,
            None => often.push(Often {
                payment,
                first_day: order.day,
                last_day: order.day,
                was_seen_before: true,
            }),
        }
    }
    Ok(often)
}

/// What was not found again is gone; charges of nobody's ids are kept apart; the reports are compared.
async fn close(
    pool: &PgPool,
    ground: &Ground,
    of_day: &[Uuid],
    compared: &mut Compared,
) -> Result<(), Error> {
    let (gateway, day) = (&ground.order.gateway.0, ground.order.day);
    let gone = sqlx::query(statements::SUPERSEDE_ITEMS).bind(gateway).bind(day).bind(ground.began_at);
    compared.gone = u64::try_from(gone.fetch_all(pool).await?.len()).unwrap_or(u64::MAX);
    let lost: i64 = sqlx::query_scalar(statements::NOTE_LOST)
        .bind(gateway)
        .bind(day)
        .bind(ground.first_attached)
        .fetch_one(pool)
        .await?;
    compared.lost = lost.unsigned_abs();
    sqlx::query(statements::FORGET_LOST).bind(gateway).bind(day).execute(pool).await?;
    let standing = sqlx::query(statements::DAY_STANDING).bind(gateway).bind(day).fetch_one(pool).await?;
    compared.open = standing.try_get::<i64, _>("open")?.unsigned_abs();
    compared.waiting = standing.try_get::<i64, _>("waiting")?.unsigned_abs();
    let mut counts = json!({"matched": compared.matched});
    for (class, count) in &compared.counts {
        counts[class.as_str()] = json!(count);
    }
    let marked =
        sqlx::query(statements::COMPARED_REPORT).bind(of_day).bind(Json(counts)).bind(ground.began_at);
    marked.execute(pool).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::PaymentId;

    #[test]
    fn a_day_s_ids_lie_between_its_first_and_the_next_day_s() {
        let at = DateTime::from_timestamp(1_795_960_020, 0).expect("in range");
        let (least, most) = (PaymentId::new(at, [0; 10]), PaymentId::new(at, [0xff; 10]));
        let day = at.date_naive();
        for id in [least, most] {
            let id = id.expect("in range").as_uuid();
            assert!(first_id(day) < id && id < first_id(later(day, 1)));
            assert_eq!(day_of(id), day);
        }
        assert_eq!(day_of(first_id(day)), day);
        assert_eq!(day_of(Uuid::max()).to_string(), "+10889-08-02", "the last that 48 bits name");
    }

    #[test]
    fn a_charge_had_its_time_when_every_report_of_its_grace_is_whole() {
        let day = |n| NaiveDate::from_ymd_opt(2026, 11, n).expect("a date");
        let report = |n, is_complete| ReconciliationRun { day: day(n), is_complete, ..a_report() };
        let whole = [report(28, true), report(29, true), report(30, true)];
        assert!(had_its_time(&whole, day(28), 2));
        assert!(had_its_time(&whole, day(30), 0));
        assert!(!had_its_time(&whole, day(29), 2), "the third day is not there");
        let cut = [report(28, true), report(29, true), report(29, false), report(30, true)];
        assert!(!had_its_time(&cut, day(28), 2), "one of two reports of a day goes on");
        let gap = [report(28, true), report(30, true)];
        assert!(!had_its_time(&gap, day(28), 2), "it may stand in the report that is missing");
    }

    fn a_report() -> ReconciliationRun {
        ReconciliationRun {
            id: Uuid::nil(),
            gateway: crate::domain::ids::GatewayName("sandbox".into()),
            day: NaiveDate::MIN,
            format: "sandbox".into(),
            options: String::new(),
            source: String::new(),
            sha256: [0; 32],
            asked_by: crate::domain::ids::Operator("nobody".into()),
            status: super::super::reconcile::ReportStatus::Loaded,
            lines: 0,
            is_complete: true,
            seen_at: DateTime::UNIX_EPOCH,
            started_at: DateTime::UNIX_EPOCH,
            finished_at: None,
            sums: Vec::new(),
            counts: std::collections::BTreeMap::new(),
            superseded_by: None,
            withdrawn_at: None,
            note: None,
        }
    }
}
