//! Chance that can be repeated: a number made from the seed and from what it is for.
//!
//! **Why not a generator**: requests come in any order, and one that draws from a common stream gets
//! another number in every run. Here the request of line 7 draws the same whenever it runs.

/// What a number is for; each has numbers of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// The latency of the ledger's line of that number.
    Charge = 1,
    /// The latency of the look-up of that number.
    LookUp = 2,
    /// Whether the charge of that line gets a defect.
    Defect = 3,
    /// How wrong it gets.
    Damage = 4,
}

/// 64 bits for the `number`th of its purpose.
pub(super) fn draw(seed: u64, purpose: Purpose, number: u64) -> u64 {
    split_mix(split_mix(seed, purpose as u64), number)
}

/// The `number`th output of `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014) from that seed; from 1.
fn split_mix(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_split_mix() {
        // The first outputs from seed 0, as other implementations give them.
        let wanted = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([1, 2, 3].map(|number| split_mix(0, number)), wanted);
    }

    #[test]
    fn seeds_purposes_and_numbers_draw_apart() {
        let first = draw(1, Purpose::Charge, 1);
        assert_eq!(first, draw(1, Purpose::Charge, 1));
        assert_ne!(first, draw(2, Purpose::Charge, 1));
        assert_ne!(first, draw(1, Purpose::LookUp, 1));
        assert_ne!(first, draw(1, Purpose::Charge, 2));
    }
}
