//! The keeper's days: which are not compared, and what is open, from the database; the reports from the gateway.

use super::{Day, NotReconciled, Source, reconciled, source_of, terms};
use crate::cli::Ended;
use crate::domain::ids::{GatewayName, Operator};
use crate::domain::state::{Cause, Status};
use crate::gateway::HttpGateway;
use crate::keeper::{Daily, DayEnded, DaysToCompare};
use crate::platform::clock::SharedClock;
use crate::platform::config::Config;
use crate::platform::metrics;
use crate::reconcile::{ReconcileError, Terms, forget_lines, look_again, tell_open, tell_standing};
use crate::schedule::{
    Postgres, Purpose, RECONCILIATION, ReconciliationRunFilter, ReconciliationStanding, RepairsOrder,
    ReportStatus, ScheduleError, Shorter, Withdrawn,
};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Between two comparisons that no report asks for.
const PAUSE: TimeDelta = TimeDelta::hours(1);

/// Whoever loads a report has compared it by then.
const LOADING: TimeDelta = TimeDelta::minutes(30);

/// Reports read at once.
const PAGE: u32 = 500;

/// The days of the gateway that is configured here.
pub(in crate::roles) struct Days {
    schedule: Postgres,
    gateway: GatewayName,
    /// None: reports are brought as files, and no day is wanted by itself.
    source: Option<HttpGateway>,
    terms: Terms,
    keep_days: u32,
    /// When a day of each gateway was last compared without a new report.
    looked_at: LookedAt,
}

/// The keeper's loop.
///
/// # Errors
/// Settings of the gateway that are wrong.
pub(in crate::roles) fn daily(
    config: &Config,
    clock: SharedClock,
    schedule: Postgres,
) -> Result<Daily<Days>, Ended> {
    let is_reported = !config.gateway.settlement_url.is_empty() && !config.gateway.url.is_empty();
    let source = is_reported.then(|| source_of(config, clock, &config.gateway.name)).transpose()?;
    let gateway = GatewayName(config.gateway.name.clone());
    let keep_days = config.reconcile.keep_days;
    let days =
        Days { schedule, gateway, source, terms: terms(config)?, keep_days, looked_at: LookedAt::default() };
    Ok(Daily::new(days, config.reconcile.hour, config.reconcile.catch_up_days))
}

impl Days {
    /// The days of this span of which any report was begun, and those that were compared with a whole one.
    async fn seen(
        &self,
        first: NaiveDate,
        last: NaiveDate,
    ) -> Result<(BTreeSet<NaiveDate>, BTreeSet<NaiveDate>), ScheduleError> {
        let filter = ReconciliationRunFilter {
            gateway: Some(self.gateway.clone()),
            from: Some(first),
            to: Some(last),
            status: None,
        };
        let (mut begun, mut done) = (BTreeSet::new(), BTreeSet::new());
        let mut before = None;
        loop {
            let page = self.schedule.reconciliation_runs(&filter, before, PAGE).await?;
            before = page.last().map(|run| (run.day, run.started_at, run.id));
            for run in &page {
                begun.insert(run.day);
                if run.status == ReportStatus::Compared && run.is_complete {
                    done.insert(run.day);
                }
            }
            if page.len() < PAGE as usize {
                return Ok((begun, done));
            }
        }
    }

    async fn was_charged(&self, day: NaiveDate) -> Result<bool, ScheduleError> {
        let sums = self.schedule.day_sums(&self.gateway, day).await?;
        Ok(sums.iter().any(|sum| sum.ledger.count > 0))
    }
}

impl DaysToCompare for Days {
    async fn now(&self) -> Result<DateTime<Utc>, ScheduleError> {
        self.schedule.database_now().await
    }

    async fn undone(&self, first: NaiveDate, last: NaiveDate) -> Result<Vec<NaiveDate>, ScheduleError> {
        if self.source.is_none() {
            return Ok(Vec::new());
        }
        let (begun, done) = self.seen(first, last).await?;
        let mut undone = Vec::new();
        for day in first.iter_days().take_while(|day| *day <= last).filter(|day| !done.contains(day)) {
            let since = begun.first().is_some_and(|begun| *begun <= day);
            if day == last || since || self.was_charged(day).await? {
                undone.push(day);
            }
        }
        Ok(undone)
    }

    async fn compare(&self, day: NaiveDate) -> Result<DayEnded, ScheduleError> {
        let Some(source) = &self.source else { return Ok(DayEnded::Done) };
        let asked = Day {
            gateway: self.gateway.clone(),
            day,
            source: None,
            by: Operator(RECONCILIATION.to_owned()),
            if_shorter: Shorter::Refuse,
            if_withdrawn: Withdrawn::Refuse,
            purpose: Purpose::Count,
        };
        match reconciled(&self.schedule, &asked, Source::Gateway(source), self.terms).await {
            Ok(done) if done.compared.is_complete => Ok(DayEnded::Done),
            Ok(_) => Ok(DayEnded::Incomplete),
            Err(NotReconciled::Reconcile(ReconcileError::Schedule(error))) => Err(error),
            Err(why) => Ok(DayEnded::Failed(why.to_string())),
        }
    }

    async fn standings(&self) -> Result<Vec<ReconciliationStanding>, ScheduleError> {
        tell_standing(&self.schedule).await
    }

    /// What was in flight when its report was compared may not be now, and what was open may be explained. Repairs look
    /// at single payments and are tried each time; a comparison reads whole days, so it has its own pause.
    async fn look_again(&self, standing: &ReconciliationStanding) -> Result<(), ScheduleError> {
        self.compare_what_counts(&standing.gateway).await?;
        if standing.open.values().all(|open| *open == 0) {
            return Ok(());
        }
        let Some(day) = standing.last_day else {
            return tell_open(&self.schedule, &standing.gateway).await;
        };
        let mut moved = 0;
        if let Some(power) = self.terms.power {
            let order = RepairsOrder { gateway: standing.gateway.clone(), day: None, power };
            let repairs = self.schedule.repair_day(&order).await?;
            for (to, cause, count) in [
                (Status::Completed, Cause::Reconciled, repairs.completed),
                (Status::Parked, Cause::Reconciled, repairs.parked),
                (Status::Refunded, Cause::Refunded, repairs.refunded),
            ] {
                metrics::PAYMENT_TRANSITIONS.add(count, [to.as_str(), cause.as_str()]);
                moved += count;
            }
        }
        let now = self.schedule.database_now().await?;
        let has_lines = is_kept(day, now, self.keep_days);
        if has_lines && (moved > 0 || self.looked_at.has_rested(&standing.gateway, now)) {
            self.compare_again(&standing.gateway, day).await?;
        }
        tell_open(&self.schedule, &standing.gateway).await
    }

    async fn end_round(&self) -> Result<(), ScheduleError> {
        tell_standing(&self.schedule).await?;
        forget_lines(&self.schedule, self.keep_days).await?;
        Ok(())
    }
}

impl Days {
    /// Reports that count and that no comparison has seen: whoever loaded one died, or another was withdrawn beside it.
    /// One that was begun a moment ago is compared by whoever loads it.
    async fn compare_what_counts(&self, gateway: &GatewayName) -> Result<(), ScheduleError> {
        let now = self.schedule.database_now().await?;
        let filter = ReconciliationRunFilter {
            gateway: Some(gateway.clone()),
            from: now.date_naive().checked_sub_days(chrono::Days::new(self.keep_days.into())),
            status: Some(ReportStatus::Loaded),
            to: None,
        };
        // What is beyond one page has its turn later: what was compared is not listed any more.
        let found = self.schedule.reconciliation_runs(&filter, None, PAGE).await?;
        let left = found.into_iter().filter(|run| now - run.started_at > LOADING);
        let days: BTreeSet<_> = left.map(|run| run.day).collect();
        for day in days.into_iter().filter(|day| is_kept(*day, now, self.keep_days)) {
            self.compare_again(gateway, day).await?;
        }
        Ok(())
    }

    /// With the reports that count; a day that cannot be compared any more holds up no other.
    async fn compare_again(&self, gateway: &GatewayName, day: NaiveDate) -> Result<(), ScheduleError> {
        match look_again(&self.schedule, gateway, day, self.terms).await {
            Ok(_) => Ok(()),
            Err(ReconcileError::Schedule(error)) => Err(error),
            Err(why) => {
                tracing::warn!(%gateway, %day, %why, "not looked at again");
                Ok(())
            }
        }
    }
}

/// Are the lines of the day, and of the one before it, still there? Without them every charge of the day would be missing
/// in its report.
fn is_kept(day: NaiveDate, now: DateTime<Utc>, keep_days: u32) -> bool {
    (now.date_naive() - day).num_days() < i64::from(keep_days)
}

/// Comparisons that no report asked for, by gateway: one that always has something open keeps no other waiting.
#[derive(Debug, Default)]
struct LookedAt(Mutex<BTreeMap<GatewayName, DateTime<Utc>>>);

impl LookedAt {
    /// Is the gateway's last one long enough ago? Then this is the next one.
    fn has_rested(&self, gateway: &GatewayName, now: DateTime<Utc>) -> bool {
        // A panic while the lock was held leaves instants that are still some.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = last.get(gateway).is_none_or(|last| now - *last >= PAUSE);
        if rested {
            last.insert(gateway.clone(), now);
        }
        rested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gateway_is_looked_at_again_after_its_own_pause() {
        let (one, other) = (GatewayName("bank".into()), GatewayName("sandbox".into()));
        let (looked_at, now) = (LookedAt::default(), DateTime::UNIX_EPOCH);
        assert!(looked_at.has_rested(&one, now));
        assert!(looked_at.has_rested(&other, now), "another one's turn takes nothing from it");
        assert!(!looked_at.has_rested(&one, now + PAUSE - TimeDelta::seconds(1)));
        assert!(looked_at.has_rested(&one, now + PAUSE));
    }

    #[test]
    fn a_day_whose_lines_are_dropped_is_not_compared_again() {
        let day = NaiveDate::from_ymd_opt(2030, 1, 31).expect("a date");
        let after = |days| day.and_hms_opt(23, 0, 0).expect("a time").and_utc() + TimeDelta::days(days);
        assert!(is_kept(day, after(0), 30) && is_kept(day, after(29), 30));
        assert!(!is_kept(day, after(30), 30), "the day before it is dropped the day after");
    }
}
