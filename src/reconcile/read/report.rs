//! What is known of a report once it was read to its end, and why one is refused.

use super::why::Why;
use crate::domain::money::Currency;
use crate::domain::settlement::{Kind, Line};
use chrono::NaiveDate;
use std::collections::BTreeMap;

/// A report that was read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What the report calls itself: the id of a statement or notification. `None` where the format has none. Two
    /// reports of one day and format with different ids add up; with the same one the later replaces the earlier.
    pub source_id: Option<String>,
    /// The day it is of, where it says so or where all of its lines were booked on one.
    pub day: Option<NaiveDate>,
    /// The first and the last day on which a line was booked.
    pub booked: Option<(NaiveDate, NaiveDate)>,
    /// Is the day over, and is this all of it? `true` also where a format cannot say: then whoever fetched it has
    /// to know that it was made after the day.
    pub is_complete: bool,
    /// How many lines were handed out.
    pub lines: u64,
    /// How many records of it moved no money yet and were passed over: entries of a bank that are not booked.
    pub passed_over: u64,
    /// SHA-256 of all bytes of the file.
    pub sha256: [u8; 32],
    /// The bytes of the file.
    pub size_bytes: u64,
    /// What its lines come to, by kind and currencies, in that order.
    pub sums: Vec<Sum>,
}

/// What lines of one kind and of the same currencies come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// Of which kind.
    pub kind: Kind,
    /// The currency of `gross_minor`.
    pub currency: Currency,
    /// The currency of `fee_minor` and `net_minor`.
    pub net_currency: Currency,
    /// How many lines.
    pub lines: u64,
    /// Their gross amounts.
    pub gross_minor: i64,
    /// Their fees.
    pub fee_minor: i64,
    /// Their net amounts.
    pub net_minor: i64,
}

/// Sums while a report is being read.
#[derive(Debug, Default)]
pub(super) struct Sums(BTreeMap<(Kind, Currency, Currency), Sum>);

impl Sums {
    /// # Errors
    /// [`Why::TooLarge`]: 64 bits do not hold it.
    pub(super) fn add(&mut self, line: &Line) -> Result<(), Why> {
        let Line { kind, currency, net_currency, .. } = *line;
        let empty =
            Sum { kind, currency, net_currency, lines: 0, gross_minor: 0, fee_minor: 0, net_minor: 0 };
        let sum = self.0.entry((kind, currency, net_currency)).or_insert(empty);
        let plus = |sum: i64, more: i64| {
            sum.checked_add(more).ok_or(Why::TooLarge { what: "the sum of the lines".into() })
        };
        sum.gross_minor = plus(sum.gross_minor, line.gross_minor)?;
        sum.fee_minor = plus(sum.fee_minor, line.fee_minor)?;
        sum.net_minor = plus(sum.net_minor, line.net_minor)?;
        sum.lines += 1;
        Ok(())
    }

    pub(super) fn all(self) -> Vec<Sum> {
        self.0.into_values().collect()
    }
}

/// Why reading stopped before the end.
#[derive(Debug, thiserror::Error)]
pub enum Stopped<E> {
    /// The file's fault: nothing of it may be used, and reading it again changes nothing.
    #[error("{0}")]
    Refused(Refused),
    /// It could not be read: a broken connection or disk. Fetch it again.
    #[error("cannot be read: {0}")]
    Unread(#[source] std::io::Error),
    /// Whoever takes the lines.
    #[error("{0}")]
    By(E),
}

impl<E> Stopped<E> {
    pub(super) fn refused(line: u64, why: Why) -> Self {
        Self::Refused(Refused { line, why })
    }
}

/// Nothing of this file may be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Refused {
    /// Where, from 1.
    pub line: u64,
    /// What is wrong there.
    pub why: Why,
}
