//! When to try again: every wait, from ladders and jitter, and nothing else (rule R12).
//!
//! Pure: chance comes in as per mille, time as `now`. A wait is never shorter than its rung: jitter
//! only lengthens, and advice of the gateway (`Retry-After`) lengthens up to a cap. That keeps the
//! spacing of retries (invariant H8) a matter of reading the ladder.
//!
//! These are the payment's own retries. Reconnecting to a database or a broker is somebody else's.

use super::payment::Payment;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use std::time::Duration;

/// All ladders and limits; the default is the design's, tests scale it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladders {
    /// Waits between sends after a proven non-charge; rung 0 follows the first send.
    pub retry: Vec<Duration>,
    /// Waits between questions about an unknown outcome; the last one repeats.
    pub reask: Vec<Duration>,
    /// Waits between questions about a charge pending at the gateway; the last one repeats.
    pub pending: Vec<Duration>,
    /// Waits after a send that the gateway did not take; the last one repeats.
    pub held_back: Vec<Duration>,
    /// Each wait is lengthened by up to this much.
    pub jitter_percent: u32,
    /// Longest advice obeyed.
    pub retry_after_cap: Duration,
    /// Sends in a row that the gateway may refuse to take before the payment parks.
    pub held_back_limit: i16,
    /// How long that may last before the payment parks.
    pub held_back_for: Duration,
}

const fn secs<const N: usize>(rungs: &[u64; N]) -> [Duration; N] {
    let mut all = [Duration::ZERO; N];
    let mut at = 0;
    while at < N {
        all[at] = Duration::from_secs(rungs[at]);
        at += 1;
    }
    all
}

impl Default for Ladders {
    fn default() -> Self {
        Self {
            retry: secs(&[60, 300, 1_800, 7_200, 43_200]).to_vec(),
            reask: secs(&[5, 30, 120, 600, 3_600]).to_vec(),
            pending: secs(&[5, 30, 120, 600]).to_vec(),
            held_back: secs(&[1, 5, 15, 60, 300]).to_vec(),
            jitter_percent: 10,
            retry_after_cap: Duration::from_secs(3_600),
            held_back_limit: 50,
            held_back_for: Duration::from_secs(86_400),
        }
    }
}

/// Shortest wait: what is tried again lies in the future.
pub const SHORTEST: Duration = Duration::from_millis(1);

/// Longest wait, so that no setting can push an instant out of the calendar.
pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Stands in for a ladder without rungs.
const NO_RUNG: Duration = Duration::from_secs(60);

/// Jitter of one wait, 0 ≤ n < 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerMille(pub u32);

impl Ladders {
    /// The wait after a decline: by the sends made so far, this one included (from 1).
    #[must_use]
    pub fn after_decline(&self, sends: i16, advice: Option<Duration>, jitter: PerMille) -> Duration {
        self.wait(&self.retry, i32::from(sends) - 1, advice, jitter)
    }

    /// The wait before the next question about an unknown outcome: by the questions asked so far.
    #[must_use]
    pub fn before_ask(&self, asks: i16, advice: Option<Duration>, jitter: PerMille) -> Duration {
        self.wait(&self.reask, asks.into(), advice, jitter)
    }

    /// The wait before the next question about a pending charge: by the questions asked so far.
    #[must_use]
    pub fn while_pending(&self, asks: i16, advice: Option<Duration>, jitter: PerMille) -> Duration {
        self.wait(&self.pending, asks.into(), advice, jitter)
    }

    /// The wait after a send that was not taken: by those in a row before this one.
    #[must_use]
    pub fn after_held_back(&self, held_back: i16, advice: Option<Duration>, jitter: PerMille) -> Duration {
        self.wait(&self.held_back, held_back.into(), advice, jitter)
    }

    /// Is the send now being handed back one too many, by count or by time (50 or 24 h)?
    #[must_use]
    pub fn is_held_back_too_long(&self, row: &Payment, now: DateTime<Utc>) -> bool {
        let for_too_long = |since| now - since >= time_delta(self.held_back_for);
        row.held_back.saturating_add(1) >= self.held_back_limit
            || row.held_back_since.is_some_and(for_too_long)
    }

    fn wait(&self, ladder: &[Duration], rung: i32, advice: Option<Duration>, jitter: PerMille) -> Duration {
        let last = ladder.len().saturating_sub(1);
        // Below 0 is the first rung, past the end the last one.
        let at = usize::try_from(rung.max(0)).unwrap_or(last).min(last);
        let rung = ladder.get(at).copied().unwrap_or(NO_RUNG);
        let advised = advice.unwrap_or_default().min(self.retry_after_cap);
        let base = rung.max(advised).clamp(SHORTEST, LONGEST);
        let added =
            base.as_micros() * u128::from(self.jitter_percent) * u128::from(jitter.0.min(999)) / 100_000;
        // At most a year of microseconds times the jitter; what does not fit is longer than LONGEST.
        base.saturating_add(Duration::from_micros(u64::try_from(added).unwrap_or(u64::MAX))).min(LONGEST)
    }
}

/// The instant of the next attempt: after `wait`, never before the payment is due (rule R9), in the
/// database's microseconds.
#[must_use]
pub fn next_at(row: &Payment, now: DateTime<Utc>, wait: Duration) -> DateTime<Utc> {
    let next = now.checked_add_signed(time_delta(wait)).unwrap_or(DateTime::<Utc>::MAX_UTC);
    next.trunc_subsecs(6).max(row.due_at)
}

/// Settings are far below what chrono holds; beyond that a wait never ends.
fn time_delta(length: Duration) -> TimeDelta {
    TimeDelta::from_std(length).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::guard_cases::payment;
    use crate::domain::state::Status;
    use proptest::prelude::*;

    const NONE: PerMille = PerMille(0);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_960_020, 0).expect("in range")
    }

    #[test]
    fn the_ladders_are_the_design_s() {
        let ladders = Ladders::default();
        let retry: Vec<_> = (1..=7).map(|n| ladders.after_decline(n, None, NONE).as_secs()).collect();
        assert_eq!(retry, [60, 300, 1_800, 7_200, 43_200, 43_200, 43_200]);
        let asks: Vec<_> = (0..7).map(|n| ladders.before_ask(n, None, NONE).as_secs()).collect();
        assert_eq!(asks, [5, 30, 120, 600, 3_600, 3_600, 3_600]);
        let pending: Vec<_> = (0..6).map(|n| ladders.while_pending(n, None, NONE).as_secs()).collect();
        assert_eq!(pending, [5, 30, 120, 600, 600, 600]);
        let held: Vec<_> = (0..6).map(|n| ladders.after_held_back(n, None, NONE).as_secs()).collect();
        assert_eq!(held, [1, 5, 15, 60, 300, 300]);
    }

    #[test]
    fn jitter_only_lengthens_and_by_at_most_its_percentage() {
        let ladders = Ladders::default();
        assert_eq!(ladders.after_decline(1, None, PerMille(500)), seconds(63));
        assert_eq!(ladders.after_decline(1, None, PerMille(999)), Duration::from_micros(65_994_000));
        assert_eq!(ladders.after_decline(1, None, PerMille(5_000)), Duration::from_micros(65_994_000));
    }

    #[test]
    fn advice_is_obeyed_up_to_its_cap_and_never_shortens() {
        let ladders = Ladders::default();
        assert_eq!(ladders.after_decline(1, Some(seconds(600)), NONE), seconds(600));
        assert_eq!(ladders.after_decline(1, Some(seconds(5)), NONE), seconds(60));
        assert_eq!(ladders.after_decline(1, Some(Duration::MAX), NONE), seconds(3_600));
        assert_eq!(ladders.after_held_back(0, Some(seconds(30)), NONE), seconds(30));
    }

    #[test]
    fn fifty_in_a_row_or_a_day_is_too_long() {
        let ladders = Ladders::default();
        let row = |held_back, since: Option<TimeDelta>| {
            let mut row = payment(now(), 1, Status::Pending);
            (row.held_back, row.held_back_since) = (held_back, since.map(|ago| now() - ago));
            ladders.is_held_back_too_long(&row, now())
        };
        assert!(!row(0, None));
        assert!(!row(48, Some(TimeDelta::hours(1))));
        assert!(row(49, Some(TimeDelta::hours(1))));
        assert!(!row(3, Some(TimeDelta::hours(24) - TimeDelta::microseconds(1))));
        assert!(row(3, Some(TimeDelta::hours(24))));
    }

    #[test]
    fn an_empty_ladder_waits_a_minute_and_a_zero_rung_still_lies_ahead() {
        let empty = Ladders { retry: Vec::new(), reask: vec![Duration::ZERO], ..Ladders::default() };
        assert_eq!(empty.after_decline(3, None, NONE), seconds(60));
        assert_eq!(empty.before_ask(0, None, NONE), SHORTEST);
    }

    #[test]
    fn the_next_attempt_is_never_before_the_due_instant() {
        let row = payment(now(), 1, Status::Pending);
        let early = row.due_at - TimeDelta::days(3);
        assert_eq!(next_at(&row, early, seconds(60)), row.due_at);
        assert_eq!(next_at(&row, now(), seconds(60)), now() + TimeDelta::seconds(60));
    }

    proptest! {
        #[test]
        fn no_setting_makes_a_wait_overflow_or_stand_still(
            rungs in proptest::collection::vec(any::<u64>().prop_map(Duration::from_secs), 0..4),
            rung in any::<i16>(), jitter in any::<u32>(), percent in any::<u32>(), advice in any::<Option<u64>>(),
        ) {
            let ladders = Ladders {
                retry: rungs, jitter_percent: percent, retry_after_cap: Duration::MAX, ..Ladders::default()
            };
            let wait = ladders.after_decline(rung, advice.map(Duration::from_secs), PerMille(jitter));
            prop_assert!((SHORTEST..=LONGEST).contains(&wait));
            let row = payment(now(), 1, Status::Pending);
            prop_assert!(next_at(&row, now(), wait) > now());
        }
    }
}
