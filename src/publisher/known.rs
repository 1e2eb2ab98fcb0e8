//! An age as it was last known, which goes on growing while nothing new is learned.
//!
//! **Promise**: a gauge that is told from here never stands still at a good value because whoever measures it has
//! trouble: what was seen then has grown older at least in the worst case, and that is what is told. If this dies, its
//! process does, and its gauges are gone.

use crate::domain::lease::Mono;
use std::time::Duration;

/// The age of the oldest of something, and when that was known.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastKnown {
    age: Duration,
    at: Mono,
}

impl LastKnown {
    /// Nothing was older than this process when it began.
    pub(super) fn from(now: Mono) -> Self {
        Self { age: Duration::ZERO, at: now }
    }

    /// It is of this age now.
    pub(super) fn learn(&mut self, age: Duration, now: Mono) {
        *self = Self { age, at: now };
    }

    /// How long nothing was learned.
    pub(super) fn silence(&self, now: Mono) -> Duration {
        now.0.saturating_sub(self.at.0)
    }

    /// What it may be by now.
    pub(super) fn age(&self, now: Mono) -> Duration {
        self.age.saturating_add(self.silence(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_grows_until_something_is_learned() {
        let at = |s| Mono(Duration::from_secs(s));
        let secs = Duration::from_secs;
        let mut known = LastKnown::from(at(100));
        assert_eq!(known.age(at(100)), Duration::ZERO);
        assert_eq!(known.age(at(400)), secs(300), "nobody could look since");
        known.learn(secs(7), at(400));
        assert_eq!(
            (known.age(at(400)), known.age(at(410)), known.silence(at(410))),
            (secs(7), secs(17), secs(10))
        );
        known.learn(Duration::ZERO, at(411));
        assert_eq!(known.age(at(411)), Duration::ZERO);
        assert_eq!(known.age(at(5)), Duration::ZERO, "no clock goes back, and nothing is subtracted twice");
    }
}
