//! Has each day reconciled with its gateway's report, once the report can be expected.
//!
//! **Promises.** A day is wanted from [`Daily::hour`] UTC on the day after it, and until a complete report of it was
//! compared; days that were missed are caught up, the oldest first, at most [`Daily::catch_up`] of them. One day a
//! tick. A day that fails, or whose report is not complete, holds up no other: it is tried again with the next
//! period, and until then the others have their turn. A tick that begins anew, in another process or after a
//! restart, wants the same days.
//!
//! **Relies on** loading being idempotent: two keepers that work on one day do it twice and change it once.
//!
//! **If this dies here**, nothing is compared; the age of the last success tells that, and any keeper goes on.

use super::runner::{Next, Tick};
use crate::platform::metrics;
use crate::schedule::{ReconciliationStanding, ScheduleError};
use chrono::{DateTime, Days, NaiveDate, Timelike, Utc};
use std::collections::BTreeSet;
use std::future::Future;

/// What became of a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DayEnded {
    /// A complete report was compared.
    Done,
    /// The report has not ended; what it has was compared.
    Incomplete,
    /// There was none, or none that could be used. Logged and counted here.
    Failed(String),
}

/// A gateway whose days can be compared. Each verb is safe to repeat, alone or at once with another keeper's.
pub trait DaysToCompare: Send + Sync + 'static {
    /// The database's clock.
    fn now(&self) -> impl Future<Output = Result<DateTime<Utc>, ScheduleError>> + Send;

    /// The days of this span, both ends in it, of which no complete report was compared yet, the oldest first. Days
    /// before the first that anybody ever reconciled are not wanted: before it there is only the last.
    fn undone(
        &self,
        first: NaiveDate,
        last: NaiveDate,
    ) -> impl Future<Output = Result<Vec<NaiveDate>, ScheduleError>> + Send;

    /// Gets the day's report, loads it, compares, repairs what may be repaired.
    fn compare(&self, day: NaiveDate) -> impl Future<Output = Result<DayEnded, ScheduleError>> + Send;

    /// How each gateway stands that was ever reconciled.
    fn standings(&self) -> impl Future<Output = Result<Vec<ReconciliationStanding>, ScheduleError>> + Send;

    /// Looks again at what waits at one of them: for its grace to end, or for a payment that was being claimed.
    fn look_again(
        &self,
        standing: &ReconciliationStanding,
    ) -> impl Future<Output = Result<(), ScheduleError>> + Send;

    /// Tells what is open now, for gauges, and forgets what was kept long enough.
    fn end_round(&self) -> impl Future<Output = Result<(), ScheduleError>> + Send;
}

/// The loop's work; run it each `reconcile.retry_every`.
#[derive(Debug)]
pub struct Daily<D> {
    /// Whose days.
    pub days: D,
    /// Hour of UTC from which the day before can be asked for.
    pub hour: u32,
    /// Most days that are looked back.
    pub catch_up: u32,
    /// Tried in this round, whatever became of them.
    pub tried: BTreeSet<NaiveDate>,
}

impl<D: DaysToCompare> Daily<D> {
    /// Nothing was tried yet.
    pub fn new(days: D, hour: u32, catch_up: u32) -> Self {
        Self { days, hour, catch_up, tried: BTreeSet::new() }
    }

    /// The days that can be wanted now, both ends in it.
    fn span(&self, now: DateTime<Utc>) -> (NaiveDate, NaiveDate) {
        let back = if now.hour() >= self.hour { 1 } else { 2 };
        let before = |day: NaiveDate, days: u32| day.checked_sub_days(Days::new(days.into())).unwrap_or(day);
        let last = before(now.date_naive(), back);
        (before(last, self.catch_up.saturating_sub(1)), last)
    }
}

impl<D: DaysToCompare> Daily<D> {
    /// Each gateway by itself: one that cannot be looked at is told of, once, and keeps no other waiting.
    async fn end_round(&self) -> Result<(), ScheduleError> {
        for standing in self.days.standings().await? {
            if let Err(error) = self.days.look_again(&standing).await {
                metrics::KEEPER_FAILURES.add(1, [self.name()]);
                tracing::warn!(gateway = %standing.gateway, %error, "a gateway could not be looked at again");
            }
        }
        self.days.end_round().await
    }
}

impl<D: DaysToCompare> Tick for Daily<D> {
    fn name(&self) -> &'static str {
        "reconcile"
    }

    async fn tick(&mut self) -> Result<Next, ScheduleError> {
        let (first, last) = self.span(self.days.now().await?);
        let undone = self.days.undone(first, last).await?;
        let Some(day) = undone.into_iter().find(|day| !self.tried.contains(day)) else {
            self.tried.clear();
            self.end_round().await?;
            return Ok(Next::Later);
        };
        self.tried.insert(day);
        match self.days.compare(day).await? {
            DayEnded::Done => tracing::info!(%day, "reconciled"),
            DayEnded::Incomplete => {
                tracing::info!(%day, "the day's report has not ended; it is asked for again")
            }
            DayEnded::Failed(why) => {
                metrics::KEEPER_FAILURES.add(1, [self.name()]);
                tracing::warn!(%day, why, "a day could not be reconciled; it is tried again");
            }
        }
        Ok(Next::Now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::GatewayName;
    use crate::worker::lab::World;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// Answers by day, and notes what was asked.
    #[derive(Default)]
    struct Book {
        now: Mutex<DateTime<Utc>>,
        done: Mutex<BTreeSet<NaiveDate>>,
        broken: Mutex<BTreeSet<NaiveDate>>,
        asked: Mutex<Vec<NaiveDate>>,
        looked_again: Mutex<Vec<String>>,
        fails: Mutex<BTreeSet<String>>,
        rounds: Mutex<u32>,
    }

    impl DaysToCompare for std::sync::Arc<Book> {
        async fn now(&self) -> Result<DateTime<Utc>, ScheduleError> {
            Ok(*self.now.lock().unwrap())
        }

        async fn undone(&self, first: NaiveDate, last: NaiveDate) -> Result<Vec<NaiveDate>, ScheduleError> {
            let done = self.done.lock().unwrap();
            Ok(first.iter_days().take_while(|day| *day <= last).filter(|day| !done.contains(day)).collect())
        }

        async fn compare(&self, day: NaiveDate) -> Result<DayEnded, ScheduleError> {
            self.asked.lock().unwrap().push(day);
            if self.broken.lock().unwrap().contains(&day) {
                return Ok(DayEnded::Failed("cut short at line 7".to_owned()));
            }
            self.done.lock().unwrap().insert(day);
            Ok(DayEnded::Done)
        }

        async fn standings(&self) -> Result<Vec<ReconciliationStanding>, ScheduleError> {
            let standing = |name: &str| ReconciliationStanding {
                gateway: GatewayName(name.to_owned()),
                last_success_at: None,
                last_day: None,
                open: BTreeMap::new(),
                waiting: 0,
                sums_apart: 0,
            };
            Ok(["bank", "sandbox", "third"].map(standing).to_vec())
        }

        async fn look_again(&self, standing: &ReconciliationStanding) -> Result<(), ScheduleError> {
            let name = standing.gateway.0.clone();
            let fails = self.fails.lock().unwrap().contains(&name);
            self.looked_again.lock().unwrap().push(name);
            if fails { Err(ScheduleError::Defect("no".into())) } else { Ok(()) }
        }

        async fn end_round(&self) -> Result<(), ScheduleError> {
            *self.rounds.lock().unwrap() += 1;
            Ok(())
        }
    }

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn book(now: &str) -> std::sync::Arc<Book> {
        let book = std::sync::Arc::new(Book::default());
        *book.now.lock().unwrap() = now.parse().unwrap();
        book
    }

    /// Ticks until it wants to pause, and answers the days that were asked for.
    fn round(daily: &mut Daily<std::sync::Arc<Book>>) -> Vec<String> {
        let world = World::new();
        daily.days.asked.lock().unwrap().clear();
        while world.time.run(daily.tick()).unwrap() == Next::Now {}
        daily.days.asked.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_day_is_wanted_from_its_hour_on_and_only_until_it_is_done() {
        let book = book("2030-02-01T03:59:59Z");
        let mut daily = Daily::new(book.clone(), 4, 1);
        assert_eq!(round(&mut daily), ["2030-01-30"]);
        assert_eq!(round(&mut daily), [""; 0]);
        *book.now.lock().unwrap() = "2030-02-01T04:00:00Z".parse().unwrap();
        assert_eq!(round(&mut daily), ["2030-01-31"]);
        assert_eq!(round(&mut daily), [""; 0]);
        assert_eq!(*book.rounds.lock().unwrap(), 4, "each round looks again at what waits");
    }

    #[test]
    fn a_gateway_that_cannot_be_looked_at_keeps_no_other_waiting() {
        let book = book("2030-01-31T02:00:00Z");
        book.fails.lock().unwrap().insert("bank".to_owned());
        let mut daily = Daily::new(book.clone(), 4, 1);
        book.done.lock().unwrap().insert(day("2030-01-29"));
        assert_eq!(round(&mut daily), [""; 0], "and the round ends well: it was told of where it failed");
        assert_eq!(*book.looked_again.lock().unwrap(), ["bank", "sandbox", "third"]);
        assert_eq!(*book.rounds.lock().unwrap(), 1, "what was kept long enough is forgotten all the same");
    }

    #[test]
    fn missed_days_are_caught_up_the_oldest_first_and_not_without_end() {
        let book = book("2030-02-01T12:00:00Z");
        book.done.lock().unwrap().insert(day("2030-01-30"));
        let mut daily = Daily::new(book, 4, 3);
        assert_eq!(round(&mut daily), ["2030-01-29", "2030-01-31"]);
    }

    #[test]
    fn a_day_that_fails_holds_up_no_other_and_is_tried_again_with_the_next_round() {
        let book = book("2030-02-01T12:00:00Z");
        book.broken.lock().unwrap().insert(day("2030-01-29"));
        let mut daily = Daily::new(book.clone(), 4, 3);
        assert_eq!(round(&mut daily), ["2030-01-29", "2030-01-30", "2030-01-31"]);
        assert_eq!(round(&mut daily), ["2030-01-29"]);
        book.broken.lock().unwrap().clear();
        assert_eq!(round(&mut daily), ["2030-01-29"]);
        assert_eq!(round(&mut daily), [""; 0]);
    }
}
