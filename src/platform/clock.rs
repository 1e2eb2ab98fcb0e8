//! Time as a parameter. The simulation hands in virtual time; everything else hands in [`Host`].

use crate::domain::lease::Mono;
use chrono::TimeDelta;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The only source of time for stages, workers, relays and keepers.
pub trait Clock: Send + Sync + 'static {
    /// The host's wall clock.
    fn wall(&self) -> DateTime<Utc>;
    /// The host's suspend-counting monotonic clock.
    fn mono(&self) -> Mono;
    /// Sleeps on the monotonic clock.
    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()>;
}

/// A clock that can be shared.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

impl Clock for Host {
    fn wall(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn mono(&self) -> Mono {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        Mono(Duration::new(seconds, nanos))
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(length))
    }
}

/// How far the database's clock was from ours, as sampled last. Cheap to clone; all clones share it.
///
/// It serves to *hold*: relay and worker aim at the database's instants with it. It never decides
/// that a payment is due; only the database does (rule R1), and the host's own clock must agree
/// (rule R9).
#[derive(Debug, Clone, Default)]
pub struct DatabaseOffset(Arc<Mutex<Option<OffsetSample>>>);

/// One comparison of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetSample {
    /// Database clock minus host clock.
    pub offset: TimeDelta,
    /// The true offset lies this far from `offset` at most: half the round trip.
    pub uncertainty: TimeDelta,
    /// When it was taken, on the suspend-counting clock.
    pub taken_at: Mono,
}

impl OffsetSample {
    /// From the database's `clock_timestamp()` and the host's wall clock right before and after the
    /// question. A wall clock that was set back in between makes the sample worthless: `None`.
    #[must_use]
    pub fn between(
        before: DateTime<Utc>,
        database: DateTime<Utc>,
        after: DateTime<Utc>,
        taken_at: Mono,
    ) -> Option<Self> {
        let round_trip = after - before;
        if round_trip < TimeDelta::zero() {
            return None;
        }
        let uncertainty = round_trip / 2;
        Some(Self { offset: database - (before + uncertainty), uncertainty, taken_at })
    }

    /// Are the clocks apart by more than `tolerance`, whatever the round trip hides? Then claiming
    /// stops (rule R9).
    #[must_use]
    pub fn is_beyond(&self, tolerance: Duration) -> bool {
        // A tolerance past chrono's range tolerates everything.
        let tolerance = TimeDelta::from_std(tolerance).unwrap_or(TimeDelta::MAX);
        self.offset.abs() > tolerance.checked_add(&self.uncertainty).unwrap_or(TimeDelta::MAX)
    }
}

impl DatabaseOffset {
    /// Keeps a sample; the newest wins.
    pub fn keep(&self, sample: OffsetSample) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sample);
    }

    /// The newest sample; `None` before the first.
    #[must_use]
    pub fn sample(&self) -> Option<OffsetSample> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the database's clock most likely shows while the host's shows `wall`.
    #[must_use]
    pub fn database_at(&self, wall: DateTime<Utc>) -> DateTime<Utc> {
        let offset = self.sample().map_or_else(TimeDelta::zero, |sample| sample.offset);
        wall.checked_add_signed(offset).unwrap_or(wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    #[test]
    fn the_offset_is_measured_against_the_middle_of_the_round_trip() {
        let sample = OffsetSample::between(at(1_000), at(1_750), at(1_100), Mono(Duration::ZERO)).unwrap();
        assert_eq!(sample.offset, TimeDelta::milliseconds(700));
        assert_eq!(sample.uncertainty, TimeDelta::milliseconds(50));
        let offset = DatabaseOffset::default();
        assert_eq!(offset.database_at(at(5)), at(5), "without a sample the host is believed");
        offset.clone().keep(sample);
        assert_eq!(offset.database_at(at(5)), at(705));
    }

    #[test]
    fn a_slow_round_trip_is_no_proof_that_clocks_are_apart() {
        let tolerance = Duration::from_millis(500);
        let beyond = |before, database, after| {
            OffsetSample::between(at(before), at(database), at(after), Mono(Duration::ZERO))
                .unwrap()
                .is_beyond(tolerance)
        };
        assert!(!beyond(0, 500, 0));
        assert!(beyond(0, 501, 0));
        assert!(beyond(1_000, 499, 1_000), "behind counts like ahead");
        assert!(!beyond(0, 1_400, 2_000), "half a second off, and the answer took two");
        assert!(OffsetSample::between(at(10), at(10), at(9), Mono(Duration::ZERO)).is_none());
    }
}
