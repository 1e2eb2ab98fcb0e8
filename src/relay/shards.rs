//! Which partitions this relay writes: shards leased in Postgres with a fencing epoch, about equally
//! many for each relay that lives.
//!
//! Nobody coordinates: each relay says that it lives, counts the others, and knows its share from that
//! alone. Two that count differently for a moment cost nothing: only free shards are taken, one lease
//! each.

use crate::schedule::Standing;

/// How many of `partitions` shards are for a relay that stands there: the same number for each, and one
/// more for the oldest ones where it does not divide evenly. All shares together are all shards.
#[must_use]
pub(super) fn share(standing: Standing, partitions: i32) -> usize {
    let partitions = usize::try_from(partitions).unwrap_or(0);
    let relays = standing.others + 1;
    partitions / relays + usize::from(standing.older < partitions % relays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_differ_by_one_at_most_and_are_all_shards_together() {
        for partitions in [1_usize, 2, 3, 4, 6, 8, 12, 16, 24, 48] {
            for relays in 1..60 {
                let shares: Vec<usize> = (0..relays)
                    .map(|older| {
                        let standing = Standing { others: relays - 1, older };
                        share(standing, i32::try_from(partitions).unwrap())
                    })
                    .collect();
                assert_eq!(shares.iter().sum::<usize>(), partitions);
                assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
                assert!(shares.is_sorted_by(|older, younger| older >= younger), "{shares:?}");
            }
        }
    }
}
