//! Notices that a worker has work and slots and finishes nothing.
//!
//! **Promises.** Says so once, [`PATIENCE`] after the last finished record while work was there all
//! the time; forgets it when something is finished or no work is left. Longer than any gateway call
//! may take (rule R14), so a slow gateway alone is never mistaken for it. Pure.

use crate::domain::lease::Mono;
use std::time::Duration;

/// How long nothing may be finished.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The judgement over time.
#[derive(Debug)]
pub(super) struct Stuck {
    finished: u64,
    since: Mono,
    patience: Duration,
    is_stuck: bool,
}

impl Stuck {
    /// `patience` is [`PATIENCE`], or more where a gateway may be slower than a lease.
    pub(super) fn new(now: Mono, patience: Duration) -> Self {
        Self { finished: 0, since: now, patience, is_stuck: false }
    }

    /// Whether the worker is to be called unhealthy.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// One look; `true` at the moment at which it becomes stuck.
    pub(super) fn observe(&mut self, now: Mono, finished: u64, work: Work) -> bool {
        if finished != self.finished {
            self.is_stuck = false;
        }
        if finished != self.finished || work == Work::None {
            (self.finished, self.since) = (finished, now);
            return false;
        }
        let becomes = !self.is_stuck && now.0.saturating_sub(self.since.0) >= self.patience;
        self.is_stuck |= becomes;
        becomes
    }
}

/// Whether there is anything that a healthy worker would be finishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Due, with free slots.
    Waits,
    /// Nothing due, or no slot to do it in.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Mono {
        Mono(Duration::from_secs(second))
    }

    #[test]
    fn it_is_stuck_once_after_thirty_seconds_of_work_without_an_end() {
        let mut stuck = Stuck::new(at(0), PATIENCE);
        assert!(!stuck.observe(at(29), 0, Work::Waits));
        assert!(stuck.observe(at(30), 0, Work::Waits));
        assert!(!stuck.observe(at(31), 0, Work::Waits));
        assert!(stuck.is_stuck());
    }

    #[test]
    fn a_finished_record_or_an_idle_moment_starts_the_count_again() {
        let mut stuck = Stuck::new(at(0), PATIENCE);
        assert!(!stuck.observe(at(20), 1, Work::Waits));
        assert!(!stuck.observe(at(40), 1, Work::None));
        assert!(!stuck.observe(at(69), 1, Work::Waits));
        assert!(stuck.observe(at(70), 1, Work::Waits));
    }

    #[test]
    fn only_something_finished_makes_it_healthy_again() {
        let mut stuck = Stuck::new(at(0), PATIENCE);
        stuck.observe(at(30), 0, Work::Waits);
        stuck.observe(at(40), 0, Work::None);
        assert!(stuck.is_stuck());
        stuck.observe(at(41), 1, Work::None);
        assert!(!stuck.is_stuck());
    }
}
