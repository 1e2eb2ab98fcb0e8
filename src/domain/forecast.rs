//! When is what falls due worked off? From counts and a permitted rate, by arithmetic alone.
//!
//! **Promise**: the answer is the earliest, and the truth comes at most the length of a span after it. All work of a
//! span is taken to fall due with the first of it (at its start, where that is not known), and what was left of the
//! spans before it is done first. It knows of no retries to come and of no payment that is not created yet, and says
//! nothing where no rate is set: then the gateway's own speed decides, which nobody here knows.

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
    /// When all of it and of what came before is worked off at the permitted rate, at the earliest; `None`: no
    /// rate is set, or it lies past the calendar.
    pub drained_at: Option<DateTime<Utc>>,
    /// What is left of it and of what came before when the span ends, at least; 0 where no rate is set.
    pub left_at_end: i64,
}

impl Due {
    /// Before this instant nothing of it can be worked off.
    fn begins_at(&self) -> DateTime<Utc> {
        let first = self.first_at.filter(|_| self.precision == Precision::Exact);
        first.map_or(self.from, |at| at.max(self.from))
    }
}

impl Drained {
    /// Is there anything to be worked off, of it or of what came before?
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.due.count > 0 || self.left_at_end > 0
    }
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
            free_at = free_at.and_then(|free| after(free.max(due.begins_at()), due.count));
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
    fn nothing_is_worked_off_before_the_first_of_it_falls_due() {
        let mut spans = minutes(&[3, 60]);
        spans[0].first_at = Some(start() + TimeDelta::seconds(42));
        assert_eq!(seconds(&drain(start(), 0, &spans, Some(1))), [(45, 0), (120, 0)]);
        assert_eq!(
            seconds(&drain(start(), 50, &spans, Some(1))),
            [(53, 0), (120, 0)],
            "what is overdue is done by then"
        );
        // The first of a part of it need not be the first of all.
        spans[0].precision = Precision::AtLeast;
        assert_eq!(seconds(&drain(start(), 0, &spans, Some(1)))[0], (3, 0));
    }

    #[test]
    fn a_span_without_work_of_its_own_has_some_while_it_is_left_from_before() {
        let has_work = |counts: &[i64]| -> Vec<bool> {
            drain(start(), 0, &minutes(counts), Some(1)).iter().map(Drained::has_work).collect()
        };
        assert_eq!(has_work(&[0, 130, 0, 0]), [false, true, true, false]);
    }

    #[test]
    fn without_a_rate_nothing_is_foretold() {
        for rate in [None, Some(0)] {
            let drained = drain(start(), 5, &minutes(&[600]), rate);
            assert_eq!((drained[0].drained_at, drained[0].left_at_end), (None, 0));
        }
    }

    /// When the last of each span is done by a gateway that takes one at a time, each as it falls due.
    fn one_by_one(arrivals: &[Vec<i64>], us_each: i64) -> Vec<i64> {
        let mut free = 0;
        let of_span = |span: &Vec<i64>| {
            span.iter().for_each(|at| free = free.max(*at) + us_each);
            free
        };
        arrivals.iter().map(of_span).collect()
    }

    proptest! {
        #[test]
        fn the_truth_is_never_earlier_and_at_most_a_span_later(
            mut spans in prop::collection::vec(prop::collection::vec(0_i64..60_000_000, 0..40), 1..6),
            rate in 1_u32..20,
            is_first_known: bool,
        ) {
            let mut due = minutes(&spans.iter().map(|span| i64::try_from(span.len()).unwrap()).collect::<Vec<_>>());
            for (nth, span) in (0..).zip(&mut spans) {
                span.sort_unstable();
                span.iter_mut().for_each(|at| *at += 60_000_000 * nth);
            }
            for (one, span) in due.iter_mut().zip(&spans).filter(|_| is_first_known) {
                one.first_at = span.first().map(|at| start() + TimeDelta::microseconds(*at));
            }
            let told = drain(start(), 0, &due, Some(rate));
            let each = 1_000_000 / i64::from(rate);
            for ((told, done), span) in told.iter().zip(one_by_one(&spans, each)).zip(&spans) {
                let told = (told.drained_at.unwrap() - start()).num_microseconds().unwrap();
                // Each is rounded to a microsecond at most.
                prop_assert!(span.is_empty() || (-200..=60_000_200).contains(&(done - told)), "{} for {}", told, done);
            }
        }

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
