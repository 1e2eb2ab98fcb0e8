//! When is what falls due worked off? From counts and a permitted rate, by arithmetic alone.
//!
//! **Promise**: the answer errs to the late side. All work of a span is taken to fall due at its start,
//! and what was left of the spans before it is done first. It knows of no retries to come and of no
//! payment that is not created yet, and says nothing where no rate is set: then the gateway's own speed
//! decides, which nobody here knows.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

/// How far a count may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Precision {
    /// Counted.
    Exact,
    /// Counting stopped there.
    AtLeast,
    /// Counting would have taken too long: what the database believes to lie there, of every gateway and
    /// in every state.
    About,
}

/// What falls due within a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Start of the span.
    pub from: DateTime<Utc>,
    /// End of the span, not part of it.
    pub until: DateTime<Utc>,
    /// Claims to come, ≥ 0.
    pub count: i64,
    /// Of `count`.
    pub precision: Precision,
    /// The first of them that was met; `None`: there is none.
    pub first_at: Option<DateTime<Utc>>,
    /// When that was so, by the database's clock.
    pub counted_at: DateTime<Utc>,
}

/// A span with what becomes of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// What falls due.
    pub due: Due,
    /// When all of it and of what came before is worked off at the permitted rate; `None`: no rate is set,
    /// or it lies past the calendar.
    pub drained_at: Option<DateTime<Utc>>,
    /// What is left of it and of what came before when the span ends; 0 where no rate is set.
    pub left_at_end: i64,
}

/// Works the spans off in order, after what is `overdue` now. `rate`: requests a second, `None` for no
/// limit; one request a payment.
#[must_use]
pub fn drain(now: DateTime<Utc>, overdue: i64, spans: &[Due], rate: Option<u32>) -> Vec<Drained> {
    // A rate of nothing works nothing off, like one that is not known.
    let Some(rate) = rate.filter(|rate| *rate > 0).map(i64::from) else {
        let unknown = |due: &Due| Drained { due: *due, drained_at: None, left_at_end: 0 };
        return spans.iter().map(unknown).collect();
    };
    let after = |from: DateTime<Utc>, work: i64| {
        // Rounded up. A count times a million fits in 128 bits, and an end past the calendar is none.
        let us = (i128::from(work) * 1_000_000 + i128::from(rate) - 1) / i128::from(rate);
        from.checked_add_signed(TimeDelta::microseconds(i64::try_from(us).ok()?))
    };
    let mut free_at = after(now, overdue);
    spans
        .iter()
        .map(|due| {
            free_at = free_at.and_then(|free| after(free.max(due.from), due.count));
            let behind = free_at.map(|at| at - due.until).filter(|behind| *behind > TimeDelta::zero());
            let left = behind.and_then(|it| it.num_microseconds()).map_or(0, |us| {
                i64::try_from(i128::from(us) * i128::from(rate) / 1_000_000).unwrap_or(i64::MAX)
            });
            Drained { due: *due, drained_at: free_at, left_at_end: left }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn start() -> DateTime<Utc> {
        "2030-01-31T09:00:00Z".parse().unwrap()
    }

    fn minutes(counts: &[i64]) -> Vec<Due> {
        (0..)
            .zip(counts)
            .map(|(n, count)| {
                let from = start() + TimeDelta::minutes(n);
                Due {
                    from,
                    until: from + TimeDelta::minutes(1),
                    count: *count,
                    precision: Precision::Exact,
                    first_at: None,
                    counted_at: start(),
                }
            })
            .collect()
    }

    fn seconds(drained: &[Drained]) -> Vec<(i64, i64)> {
        let at = |it: &Drained| ((it.drained_at.unwrap() - start()).num_seconds(), it.left_at_end);
        drained.iter().map(at).collect()
    }

    #[test]
    fn a_spike_is_carried_into_the_minutes_after_it() {
        let drained = drain(start(), 0, &minutes(&[600, 12_000, 600, 0]), Some(100));
        assert_eq!(seconds(&drained), [(6, 0), (180, 6_000), (186, 600), (186, 0)]);
    }

    #[test]
    fn what_is_overdue_is_worked_off_first() {
        let now = start() + TimeDelta::seconds(30);
        let drained = drain(now, 9_000, &minutes(&[100, 100]), Some(100));
        assert_eq!(seconds(&drained), [(121, 6_100), (122, 200)]);
    }

    #[test]
    fn without_a_rate_nothing_is_foretold() {
        for rate in [None, Some(0)] {
            let drained = drain(start(), 5, &minutes(&[600]), rate);
            assert_eq!((drained[0].drained_at, drained[0].left_at_end), (None, 0));
        }
    }

    proptest! {
        #[test]
        fn nothing_is_drained_before_it_could_be(
            counts in prop::collection::vec(0_i64..1_000_000_000, 1..60),
            overdue in 0_i64..1_000_000_000,
            rate in 1_u32..100_000,
        ) {
            let drained = drain(start(), overdue, &minutes(&counts), Some(rate));
            let mut work = overdue;
            let mut before = start();
            for one in drained {
                work += one.due.count;
                let at = one.drained_at.unwrap();
                prop_assert!(at >= before && (one.due.count == 0 || at > one.due.from));
                // Never sooner than all of the work so far takes at that rate.
                prop_assert!((at - start()).num_microseconds().unwrap() >= work / i64::from(rate) * 1_000_000);
                prop_assert_eq!(one.left_at_end > 0, (at - one.due.until).num_microseconds().unwrap() * i64::from(rate) >= 1_000_000);
                before = at;
            }
        }
    }
}
