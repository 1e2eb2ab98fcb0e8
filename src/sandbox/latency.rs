//! How long one answer takes, from the distribution and a drawn number. Whole nanoseconds, no float.

use crate::platform::config::{ALL, Latency};
use std::time::Duration;

/// The length at that drawn number: 0 draws the shortest, `u64::MAX` the longest.
pub(super) fn length(latency: &Latency, drawn: u64) -> Duration {
    match latency {
        Latency::Fixed(length) => *length,
        Latency::Uniform(from, to) => between(*from, *to, drawn, u64::MAX),
        Latency::Percentiles(points) => {
            // In 2^-32 of the table's unit, so that the tail of a tail is still hit.
            let at = (drawn >> 32) * u64::from(ALL);
            let place = |share: u32| u64::from(share) << 32;
            let above = points.iter().position(|(share, _)| place(*share) > at);
            match above.map(|index| (index.checked_sub(1).and_then(|before| points.get(before)), index)) {
                Some((Some((share, shorter)), index)) => {
                    let (next, longer) = points[index];
                    between(*shorter, longer, at - place(*share), place(next) - place(*share))
                }
                Some((None, index)) => points[index].1,
                None => points.last().map_or(Duration::ZERO, |(_, longest)| *longest),
            }
        }
    }
}

/// `from` plus the part `at / of` of the way to `to`.
fn between(from: Duration, to: Duration, at: u64, of: u64) -> Duration {
    let way = to.saturating_sub(from).as_nanos() * u128::from(at) / u128::from(of.max(1));
    // At most the distance itself, which the settings bound to an hour.
    from + Duration::from_nanos(u64::try_from(way).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::draw::{Purpose, draw};
    use super::*;
    use crate::platform::config::Value;

    const MS: Duration = Duration::from_millis(1);

    fn drawn(text: &str) -> Vec<Duration> {
        let latency = Latency::read(text).expect("readable");
        let mut lengths: Vec<_> =
            (1..=10_000).map(|n| length(&latency, draw(7, Purpose::Charge, n))).collect();
        lengths.sort();
        lengths
    }

    #[test]
    fn a_fixed_latency_is_always_the_same_and_a_range_is_filled_evenly() {
        assert!(drawn("20ms").iter().all(|length| *length == 20 * MS));
        let lengths = drawn("10ms..50ms");
        assert!(lengths[0] >= 10 * MS && lengths[9_999] <= 50 * MS);
        for (index, wanted) in [(100, 10), (2_500, 20), (5_000, 30), (7_500, 40), (9_900, 50)] {
            let off = lengths[index].abs_diff(wanted * MS);
            assert!(off < 2 * MS, "{index}: {:?}", lengths[index]);
        }
        let range = Latency::Uniform(10 * MS, 50 * MS);
        assert_eq!((length(&range, 0), length(&range, u64::MAX)), (10 * MS, 50 * MS));
    }

    #[test]
    fn a_table_of_percentiles_is_met_at_its_points_and_never_left() {
        let lengths = drawn("p10=5ms,p50=20ms,p99=300ms,p99.9=2s");
        assert_eq!((lengths[0], lengths[9_999]), (5 * MS, 2_000 * MS));
        for (index, low, high) in [(900, 5, 5), (5_000, 19, 21), (9_900, 270, 400), (7_450, 145, 175)] {
            let length = lengths[index];
            assert!(low * MS <= length && length <= high * MS, "{index}: {length:?}");
        }
    }
}
