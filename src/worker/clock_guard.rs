//! How far the host's clock is from the database's, from samples (rule R9).
//!
//! **Promises.** Says that the clocks are apart only when no instant inside the sample's round trip
//! explains the difference, and keeps saying so until a sample agrees again. Gives the smaller of
//! both clocks' "now", so that nothing is presented before both say that it is due.
//!
//! **Relies on** samples being fed in: a claim's own instant between the host's readings before and
//! after it, or a question made for the purpose. While claiming is stopped only the latter come.
//!
//! **Why the round trip counts.** A slow answer is not a wrong clock: a sample taken between `before`
//! and `after` bounds the offset from both sides, and only the part outside the bounds is a fault.

use super::brake::{Brake, ClocksApart};
use crate::platform::faults::{Sabotage, sabotaged};
use crate::platform::metrics;
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One reading of the database's clock, between two of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The host's wall clock before the question.
    pub before: DateTime<Utc>,
    /// The database's answer.
    pub database: DateTime<Utc>,
    /// The host's wall clock after the answer.
    pub after: DateTime<Utc>,
}

/// The newest knowledge of the offset.
#[derive(Debug)]
pub struct ClockGuard {
    tolerance: TimeDelta,
    /// How much the database is certainly ahead of the host (negative: behind), from the newest
    /// sample; zero inside its bounds.
    offset: TimeDelta,
}

impl ClockGuard {
    /// Tolerates offsets up to `tolerance`.
    #[must_use]
    pub fn new(tolerance: Duration) -> Self {
        // A tolerance beyond chrono's range tolerates everything.
        Self {
            tolerance: TimeDelta::from_std(tolerance).unwrap_or(TimeDelta::MAX),
            offset: TimeDelta::zero(),
        }
    }

    /// Takes a sample in and judges.
    pub fn observe(&mut self, sample: Sample) -> ClocksApart {
        if sabotaged(Sabotage::DueByWorkerClock) {
            return self.apart();
        }
        let at_least = sample.database - sample.after;
        let at_most = sample.database - sample.before;
        // A host clock stepped back between the readings turns the bounds around; both then tell
        // of a step, and the outer one counts.
        self.offset = if at_least > TimeDelta::zero() {
            at_least
        } else if at_most < TimeDelta::zero() {
            at_most
        } else {
            TimeDelta::zero()
        };
        self.apart()
    }

    /// The judgement on the newest sample.
    #[must_use]
    pub fn apart(&self) -> ClocksApart {
        if self.offset.abs() > self.tolerance { ClocksApart::Yes } else { ClocksApart::No }
    }

    /// How much the database is certainly ahead of the host (negative: behind).
    #[must_use]
    pub fn offset(&self) -> TimeDelta {
        self.offset
    }

    /// The earlier of both clocks: an instant that has come when this has reached it is due by both.
    #[must_use]
    pub fn due_now(&self, wall: DateTime<Utc>) -> DateTime<Utc> {
        wall + self.offset.min(TimeDelta::zero())
    }
}

/// One worker's guard, fed by its steps and its loop.
#[derive(Debug)]
pub struct Clocks(Mutex<ClockGuard>);

impl Clocks {
    /// See [`ClockGuard::new`].
    #[must_use]
    pub fn new(tolerance: Duration) -> Self {
        Self(Mutex::new(ClockGuard::new(tolerance)))
    }

    /// Takes a sample in; throws the brake while the clocks are apart and releases it after.
    pub fn observe(&self, sample: Sample, brake: &Brake) {
        let mut guard = self.lock();
        let before = guard.apart();
        let apart = guard.observe(sample);
        brake.set_clocks_apart(apart);
        let offset_ms = guard.offset().num_milliseconds();
        metrics::CLOCK_OFFSET.set(guard.offset().as_seconds_f64(), []);
        if apart == ClocksApart::Yes {
            metrics::CLOCKS_APART.add(1, []);
        }
        match (before, apart) {
            (ClocksApart::No, ClocksApart::Yes) => {
                tracing::error!(offset_ms, "host and database clock are too far apart: claiming stops");
            }
            (ClocksApart::Yes, ClocksApart::No) => {
                tracing::info!(offset_ms, "host and database clock agree again: claiming goes on");
            }
            (ClocksApart::Yes, ClocksApart::Yes) | (ClocksApart::No, ClocksApart::No) => {}
        }
    }

    /// See [`ClockGuard::due_now`].
    pub fn due_now(&self, wall: DateTime<Utc>) -> DateTime<Utc> {
        self.lock().due_now(wall)
    }

    fn lock(&self) -> MutexGuard<'_, ClockGuard> {
        // One assignment of a plain value; a panic cannot leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_800_000_000_000 + ms).unwrap()
    }

    fn sample(before: i64, database: i64, after: i64) -> Sample {
        Sample { before: at(before), database: at(database), after: at(after) }
    }

    #[test]
    fn a_slow_answer_is_not_a_wrong_clock() {
        let mut guard = ClockGuard::new(Duration::from_millis(500));
        assert_eq!(guard.observe(sample(0, 2_900, 3_000)), ClocksApart::No);
        assert_eq!(guard.offset(), TimeDelta::zero());
    }

    #[test]
    fn more_than_the_tolerance_outside_the_round_trip_is_apart_on_either_side() {
        let mut guard = ClockGuard::new(Duration::from_millis(500));
        assert_eq!(guard.observe(sample(0, 520, 20)), ClocksApart::No);
        assert_eq!(guard.observe(sample(0, 521, 20)), ClocksApart::Yes);
        assert_eq!(guard.observe(sample(1_000, 500, 1_020)), ClocksApart::No);
        assert_eq!(guard.observe(sample(1_000, 499, 1_020)), ClocksApart::Yes);
    }

    #[test]
    fn a_sample_that_agrees_again_ends_the_alarm() {
        let mut guard = ClockGuard::new(Duration::from_millis(500));
        guard.observe(sample(0, 90_000, 10));
        assert_eq!(guard.apart(), ClocksApart::Yes);
        assert_eq!(guard.observe(sample(0, 5, 10)), ClocksApart::No);
    }

    #[test]
    fn due_needs_both_clocks() {
        let mut guard = ClockGuard::new(Duration::from_millis(500));
        guard.observe(sample(1_000, 700, 1_010));
        assert_eq!(guard.due_now(at(2_000)), at(1_700));
        guard.observe(sample(1_000, 1_400, 1_010));
        assert_eq!(guard.due_now(at(2_000)), at(2_000));
    }
}
