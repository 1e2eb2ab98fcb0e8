//! The same money in every book: payments, answers on record, the history, the reports.
//!
//! **Promise**: the payments due on one day, whatever day they were charged on, since the id carries the due day into each
//! book. Where the books differ somebody has to look: no line and no row explains it.

use super::failure::before_commit;
use super::port::ScheduleError;
use super::reconcile::{BookSum, DaySum};
use super::reconcile_compare::first_id;
use super::row::unfit;
use super::{Postgres, statements};
use crate::domain::ids::GatewayName;
use chrono::NaiveDate;
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};

impl Postgres {
    /// How the payments due on a day at a gateway add up in every book, by currency.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`.
    pub async fn day_sums(
        &self,
        gateway: &GatewayName,
        due_day: NaiveDate,
    ) -> Result<Vec<DaySum>, ScheduleError> {
        let next = due_day.succ_opt().unwrap_or(NaiveDate::MAX);
        let rows = sqlx::query(statements::DAY_SUMS)
            .bind(due_day)
            .bind(first_id(due_day))
            .bind(first_id(next))
            .bind(&gateway.0)
            .fetch_all(self.pool())
            .await
            .map_err(before_commit)?;
        sums(&rows).map_err(before_commit)
    }
}

impl Postgres {
    /// Keeps in how many currencies the books of a due day differ, so that whoever watches knows it after a restart.
    ///
    /// # Errors
    /// `Unavailable` or `Defect`; repeating it does no harm.
    pub async fn note_books(
        &self,
        gateway: &GatewayName,
        due_day: NaiveDate,
        apart: usize,
    ) -> Result<(), ScheduleError> {
        sqlx::query(statements::NOTE_BOOKS)
            .bind(&gateway.0)
            .bind(due_day)
            .bind(i32::try_from(apart).unwrap_or(i32::MAX))
            .execute(self.pool())
            .await
            .map_err(before_commit)?;
        Ok(())
    }
}

/// One row for each currency and book; a currency's are together.
fn sums(rows: &[PgRow]) -> Result<Vec<DaySum>, Error> {
    let mut sums: Vec<DaySum> = Vec::new();
    for row in rows {
        let currency: String = row.try_get("currency")?;
        if sums.last().is_none_or(|last| last.currency != currency) {
            sums.push(DaySum { currency, ..DaySum::default() });
        }
        let Some(sum) = sums.last_mut() else { continue };
        let book: String = row.try_get("book")?;
        let of = match book.as_str() {
            "payments" => &mut sum.payments,
            "attempts" => &mut sum.attempts,
            "by_word" => &mut sum.by_word,
            "ledger" => &mut sum.ledger,
            "settlement" => &mut sum.settlement,
            "given_back" => &mut sum.given_back,
            "late" => &mut sum.late,
            other => return Err(unfit("book", &other)),
        };
        *of = BookSum { count: row.try_get("count")?, minor: row.try_get("minor")? };
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_are_even_when_what_is_late_makes_up_for_what_no_report_has() {
        let of = |count, minor| BookSum { count, minor };
        let even = DaySum {
            payments: of(3, 300),
            attempts: of(2, 200),
            by_word: of(1, 100),
            ledger: of(3, 300),
            settlement: of(2, 200),
            late: of(1, 100),
            ..DaySum::default()
        };
        assert!(even.is_even());
        assert!(!DaySum { late: of(0, 0), ..even.clone() }.is_even(), "a charge is in no report");
        assert!(!DaySum { settlement: of(2, 201), ..even.clone() }.is_even(), "one cent more was taken");
        assert!(!DaySum { payments: of(2, 200), ..even }.is_even(), "the history has one more");
    }
}
