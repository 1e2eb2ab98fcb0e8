//! How late first claims were, as counts below fixed bounds: counts can be added up, percentiles cannot.
//!
//! **Promise**: a percentile read from counts is never better than the true one; it is the upper bound of the span that
//! the true one lies in.

/// Upper bounds in milliseconds, ascending; the eighth is the promise of a minute.
pub const BOUNDS_MS: [i32; 10] = [50, 100, 250, 500, 1_000, 2_000, 5_000, 15_000, 60_000, 600_000];

/// The promise in milliseconds: claimed within a minute of its due time.
pub const PROMISE_MS: i32 = 60_000;

/// What a percentile is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Less than so many milliseconds.
    Below(i32),
    /// So many or more: it lies past the last bound.
    Beyond(i32),
}

/// The lateness that `per_mille` thousandths of what was counted do not exceed; `counts` has one more place than there
/// are bounds, for what lies beyond. `None`: nothing was counted.
#[must_use]
pub fn percentile(counts: &[i64], per_mille: i64) -> Option<Late> {
    let all: i64 = counts.iter().sum();
    if all <= 0 {
        return None;
    }
    // The rank of the last one inside, rounded up, from 1: a share of one claim is that claim.
    let rank = (i128::from(all) * i128::from(per_mille) + 999) / 1_000;
    let mut seen = 0_i128;
    for (place, count) in counts.iter().enumerate() {
        seen += i128::from(*count);
        if seen >= rank.max(1)
            && let Some(bound) = BOUNDS_MS.get(place)
        {
            return Some(Late::Below(*bound));
        }
    }
    Some(Late::Beyond(BOUNDS_MS[BOUNDS_MS.len() - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(usize, i64)]) -> Vec<i64> {
        let mut counts = vec![0; BOUNDS_MS.len() + 1];
        for (place, count) in of {
            counts[*place] = *count;
        }
        counts
    }

    #[test]
    fn a_percentile_is_the_upper_bound_of_the_span_it_lies_in() {
        let of = counts(&[(0, 98), (3, 1), (8, 1)]);
        assert_eq!(percentile(&of, 500), Some(Late::Below(50)));
        assert_eq!(percentile(&of, 980), Some(Late::Below(50)));
        assert_eq!(percentile(&of, 981), Some(Late::Below(500)));
        assert_eq!(percentile(&of, 990), Some(Late::Below(500)));
        assert_eq!(percentile(&of, 991), Some(Late::Below(60_000)));
        assert_eq!(percentile(&of, 1_000), Some(Late::Below(60_000)));
    }

    #[test]
    fn what_lies_past_the_last_bound_is_beyond_it_and_nothing_has_no_percentile() {
        assert_eq!(percentile(&counts(&[(10, 3)]), 500), Some(Late::Beyond(600_000)));
        assert_eq!(percentile(&counts(&[]), 500), None);
        assert_eq!(percentile(&[], 500), None);
        assert_eq!(percentile(&counts(&[(1, 1)]), 1), Some(Late::Below(100)));
    }
}
