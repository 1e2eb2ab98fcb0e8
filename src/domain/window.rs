//! Smearing a crowd: a payment that may be executed within a window after it is due is first tried at
//! an instant of that window which its id alone chooses.
//!
//! **Promise**: never before the due instant, always before the window's end, and the same instant
//! however often it is asked for, by whoever holds the row. The id keeps naming the due time; only
//! `next_attempt_at` moves, and with it the bucket of the first notice.
//!
//! **Why from the id**: its last 62 bits are a keyed digest of actor and idempotency key (rule R18), so
//! they spread evenly, no client can aim them, and a create that a restore lost and the client repeats
//! is planned for the same instant again.

use super::ids::PaymentId;
use chrono::{DateTime, TimeDelta, Utc};

/// How long after its due time a payment's first try may come: 1 second to a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window(i32);

impl Window {
    /// The longest, in seconds: a day.
    pub const LONGEST_S: i32 = 86_400;

    /// Of so many seconds; `None` outside 1..=[`Self::LONGEST_S`].
    #[must_use]
    pub fn of_seconds(seconds: i64) -> Option<Self> {
        i32::try_from(seconds).ok().filter(|seconds| (1..=Self::LONGEST_S).contains(seconds)).map(Self)
    }

    /// Its length in whole seconds.
    #[must_use]
    pub fn seconds(self) -> i32 {
        self.0
    }

    /// Its length.
    #[must_use]
    pub fn length(self) -> TimeDelta {
        TimeDelta::seconds(self.0.into())
    }
}

/// When a payment is first tried (microseconds): when it is due, or at its own instant of the window.
#[must_use]
pub fn first_attempt_at(id: PaymentId, due_at: DateTime<Utc>, window: Option<Window>) -> DateTime<Utc> {
    let Some(window) = window else { return due_at };
    // The 62 bits after the UUID's variant, as a fraction of 2^64: below one, so the product is below
    // the window's length.
    let fraction = u128::from(id.as_uuid().as_u64_pair().1 << 2);
    let length_us = u128::from(window.0.unsigned_abs()) * 1_000_000;
    let offset_us = (fraction * length_us) >> 64;
    // Less than a day of microseconds, and a due time that an id can carry: neither step can fail.
    due_at + TimeDelta::microseconds(i64::try_from(offset_us).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::ActorId;
    use crate::domain::intent::intent;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn due() -> DateTime<Utc> {
        DateTime::from_timestamp_micros(1_893_484_800_123_456).unwrap()
    }

    #[test]
    fn a_window_is_one_second_to_a_day() {
        for (seconds, is_one) in
            [(0, false), (1, true), (86_400, true), (86_401, false), (-1, false), (i64::MAX, false)]
        {
            assert_eq!(Window::of_seconds(seconds).is_some(), is_one, "{seconds}");
        }
    }

    #[test]
    fn without_a_window_a_payment_is_tried_when_it_is_due() {
        let id = PaymentId::new(due(), [0xff; 10]).unwrap();
        assert_eq!(first_attempt_at(id, due(), None), due());
    }

    #[test]
    fn an_id_names_this_instant_for_ever() {
        // A row keeps its window and not its first instant: another answer would change its lateness.
        let window = Window::of_seconds(3_600);
        for (bits, offset_us) in
            [([0; 10], 0), ([0xff; 10], 3_599_999_999), ([0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0], 1_800_000_000)]
        {
            let id = PaymentId::new(due(), bits).unwrap();
            assert_eq!(first_attempt_at(id, due(), window), due() + TimeDelta::microseconds(offset_us));
        }
    }

    #[test]
    fn a_crowd_is_spread_evenly_over_its_window() {
        let window = Window::of_seconds(600);
        let mut minutes = [0_u32; 10];
        for number in 0..20_000 {
            let bits = intent(&[7; 32], ActorId(Uuid::from_u128(1)), &format!("invoice-{number}"));
            let at = first_attempt_at(PaymentId::new(due(), bits).unwrap(), due(), window);
            minutes[usize::try_from((at - due()).num_minutes()).unwrap()] += 1;
        }
        // 2,000 each by expectation, with a deviation of 42: six of those.
        assert!(minutes.iter().all(|count| (1_750..2_250).contains(count)), "{minutes:?}");
    }

    proptest! {
        #[test]
        fn the_first_try_is_never_early_and_never_at_the_end(bits in any::<[u8; 10]>(), seconds in 1_i64..=86_400) {
            let window = Window::of_seconds(seconds);
            let id = PaymentId::new(due(), bits).unwrap();
            let at = first_attempt_at(id, due(), window);
            prop_assert!(due() <= at && at < due() + TimeDelta::seconds(seconds));
            prop_assert_eq!(at, first_attempt_at(id, due(), window));
        }
    }
}
