//! Calls a second: a token bucket, held as the one instant at which it is full again.
//!
//! **Promises**: over any span at most `burst` calls and `rate` a second pass; who is refused hears
//! after how many whole seconds one call would have passed. **Why an instant**: no timer refills
//! anything, and a bucket that nobody asks costs nothing (the generic cell rate algorithm, ITU-T
//! I.371).

use std::time::Duration;

/// The bucket of one account.
#[derive(Debug)]
pub(super) struct Quota {
    /// Between two calls at the full rate.
    interval: Duration,
    /// How far ahead of now the bucket may be owed.
    depth: Duration,
    full_at: Duration,
}

impl Quota {
    /// `None` without a limit; a burst of 0 is one second's worth.
    pub(super) fn new(rate: u32, burst: u32) -> Option<Self> {
        let interval = Duration::from_secs(1).checked_div(rate)?;
        let burst = if burst == 0 { rate } else { burst };
        Some(Self { interval, depth: interval.saturating_mul(burst), full_at: Duration::ZERO })
    }

    /// Takes one call at that monotonic instant, or says after how many seconds to come again.
    pub(super) fn take(&mut self, now: Duration) -> Result<(), u64> {
        let owed = self.full_at.max(now) + self.interval;
        let early = owed.saturating_sub(self.depth).saturating_sub(now);
        if early.is_zero() {
            self.full_at = owed;
            return Ok(());
        }
        Err(early.as_secs() + u64::from(early.subsec_nanos() > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(quota: &mut Quota, now_ms: u64, calls: u32) -> usize {
        (0..calls).filter(|_| quota.take(Duration::from_millis(now_ms)).is_ok()).count()
    }

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate() {
        let mut quota = Quota::new(10, 3).expect("a limit");
        assert_eq!(passed(&mut quota, 5_000, 9), 3);
        assert_eq!(passed(&mut quota, 5_099, 9), 0);
        assert_eq!(passed(&mut quota, 5_100, 9), 1);
        assert_eq!(passed(&mut quota, 5_300, 9), 2);
        assert_eq!(passed(&mut quota, 60_000, 9), 3, "a pause fills it to the burst and no further");
    }

    #[test]
    fn an_unset_burst_is_one_second_and_an_unset_rate_no_limit() {
        assert!(Quota::new(0, 0).is_none());
        assert_eq!(passed(&mut Quota::new(7, 0).expect("a limit"), 0, 20), 7);
    }

    #[test]
    fn whoever_is_refused_and_waits_as_told_passes() {
        let mut quota = Quota::new(2, 4).expect("a limit");
        assert_eq!(passed(&mut quota, 100, 9), 4);
        assert_eq!(quota.take(Duration::from_millis(100)), Err(1));
        assert_eq!(quota.take(Duration::from_millis(1_100)), Ok(()));
        let mut slow = Quota { interval: Duration::from_secs(30), ..Quota::new(1, 1).expect("a limit") };
        slow.depth = slow.interval;
        assert_eq!(passed(&mut slow, 0, 2), 1);
        assert_eq!(slow.take(Duration::from_millis(500)), Err(30));
        assert_eq!(slow.take(Duration::from_secs(30)), Ok(()));
    }
}
