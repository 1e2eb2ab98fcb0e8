//! When calls to an account make no sense for a while, and who finds out whether they do again.
//!
//! **Promises.** It opens for 1 s, then 2 s, and so on up to a minute; then one worker at a time may start
//! one call, and its end decides. A call that began before says nothing about the probe. If the prober dies,
//! its lease runs out and another probes.

use super::{Beat, Pace, Terms, Window, after};
use crate::domain::ids::WorkerName;
use chrono::{DateTime, TimeDelta, Utc};

/// Calls within the window that can open it.
const ENOUGH_CALLS: u32 = 10;
/// The longest that it stays open without a probe.
const LONGEST: TimeDelta = TimeDelta::seconds(60);
/// Opening again so soon after it closed, it stays open for longer than before.
const REMEMBERS: TimeDelta = TimeDelta::seconds(60);

/// Whether calls make sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breaker {
    /// They do.
    Closed,
    /// They do not, until then.
    Open {
        /// From then on somebody may probe.
        until: DateTime<Utc>,
    },
    /// One worker finds out.
    Probing {
        /// Which.
        worker: WorkerName,
        /// Then it is taken to be dead.
        until: DateTime<Utc>,
    },
}

impl Breaker {
    /// The word for it, in the row and in metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::Probing { .. } => "half_open",
        }
    }

    /// Nothing is waited for longer than a minute, or a probe's lease.
    pub(super) fn follow_the_clock(&mut self, terms: &Terms, now: DateTime<Utc>) {
        match self {
            Self::Closed => {}
            Self::Open { until } => *until = (*until).min(now + LONGEST),
            Self::Probing { until, .. } => *until = (*until).min(after(now, terms.probe_lease)),
        }
    }

    pub(super) fn may_probe(&self, now: DateTime<Utc>) -> bool {
        match self {
            Self::Closed => false,
            Self::Open { until } | Self::Probing { until, .. } => *until <= now,
        }
    }
}

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed {
    /// The gateway answered, whatever it was.
    Answered,
    /// It did not.
    Failed,
    /// There was nothing to call it for.
    Unused,
}

impl Pace {
    /// What the calls of one beat do to the breaker.
    pub(super) fn judge(&mut self, beat: &Beat, now: DateTime<Utc>) {
        match self.breaker.clone() {
            Breaker::Closed => {
                if beat.seen.calls() > 0 {
                    self.window.count(&beat.seen, now);
                }
                let (calls, failed) = self.window.sums(now);
                let too_many = beat.seen.failed > 0 && calls >= ENOUGH_CALLS && failed * 2 >= calls;
                if too_many || beat.seen.unauthorised > 0 {
                    let is_soon = self.closed_at.is_some_and(|at| now - at < REMEMBERS);
                    self.trips = if is_soon { self.trips } else { 0 };
                    self.open(beat, now);
                }
            }
            // Late, and no less true.
            Breaker::Open { .. } => {
                if beat.probe == Some(Probed::Answered) {
                    self.close(now);
                }
            }
            Breaker::Probing { worker, .. } => match beat.probe {
                Some(Probed::Answered) => self.close(now),
                Some(Probed::Failed) if worker == beat.worker => self.open(beat, now),
                Some(Probed::Unused) if worker == beat.worker => self.breaker = Breaker::Open { until: now },
                Some(Probed::Failed | Probed::Unused) | None => {}
            },
        }
    }

    fn open(&mut self, beat: &Beat, now: DateTime<Utc>) {
        let length = TimeDelta::seconds(1 << self.trips.min(6)).min(LONGEST);
        self.trips = self.trips.saturating_add(1);
        self.breaker = Breaker::Open { until: now + length };
        if beat.cause.is_some() {
            self.cause.clone_from(&beat.cause);
        }
        self.window = Window::default();
    }

    fn close(&mut self, now: DateTime<Utc>) {
        self.breaker = Breaker::Closed;
        self.cause = None;
        self.closed_at = Some(now);
        self.window = Window::default();
    }
}
