//! The last hour in one: the minutes of a [`super::Pulse`] added up, for people's screens.
//!
//! Counts are added, and percentiles are read from the sums: the percentile of an hour is none of its minutes'. A pure
//! function of what was read; if it is wrong, nothing decides by it.

use super::Minute;
use crate::domain::lateness::{BOUNDS_MS, Late, PROMISE_MS, percentile};

/// What happened in all of these minutes together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hour {
    /// Payments that became COMPLETED.
    pub completed: i64,
    /// PENDING again after a claim.
    pub retried: i64,
    /// UNKNOWN after a claim.
    pub unknown: i64,
    /// PARKED.
    pub parked: i64,
    /// FAILED.
    pub failed: i64,
    /// CANCELLED.
    pub cancelled: i64,
    /// First claims, by how late they were: below each of [`BOUNDS_MS`], and beyond.
    pub late: Vec<i64>,
}

impl Hour {
    /// The sum.
    #[must_use]
    pub fn of(minutes: &[Minute]) -> Self {
        let mut hour = Self { late: vec![0; BOUNDS_MS.len() + 1], ..Self::default() };
        for minute in minutes {
            hour.completed += minute.completed;
            hour.retried += minute.retried;
            hour.unknown += minute.unknown;
            hour.parked += minute.parked;
            hour.failed += minute.failed;
            hour.cancelled += minute.cancelled;
            for (sum, count) in hour.late.iter_mut().zip(&minute.late) {
                *sum += count;
            }
        }
        hour
    }

    /// The lateness that so many thousandths of the first claims do not exceed; `None`: there was none.
    #[must_use]
    pub fn percentile(&self, per_mille: i64) -> Option<Late> {
        percentile(&self.late, per_mille)
    }

    /// First claims later than the promise.
    #[must_use]
    pub fn broken(&self) -> i64 {
        let kept = BOUNDS_MS.iter().filter(|bound| **bound <= PROMISE_MS).count();
        self.late.iter().skip(kept).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    #[test]
    fn an_hour_is_the_sum_of_its_minutes_and_its_percentiles_are_read_from_the_sum() {
        let minute = |completed, late: [i64; 11]| {
            let (failed, cancelled, parked, unknown, retried) = (1, 2, 3, 4, 5);
            let (from, due, claimed) = (DateTime::UNIX_EPOCH, None, 0);
            let late = late.to_vec();
            Minute { from, due, claimed, completed, failed, cancelled, parked, unknown, retried, late }
        };
        let calm = minute(98, [98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let late = minute(2, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        let hour = Hour::of(&[calm, late]);
        assert_eq!((hour.completed, hour.failed, hour.cancelled), (100, 2, 4));
        assert_eq!((hour.parked, hour.unknown, hour.retried), (6, 8, 10));
        assert_eq!(
            (hour.percentile(500), hour.percentile(990)),
            (Some(Late::Below(50)), Some(Late::Below(600_000)))
        );
        assert_eq!((hour.broken(), Hour::of(&[]).broken(), Hour::of(&[]).percentile(500)), (2, 0, None));
    }
}
