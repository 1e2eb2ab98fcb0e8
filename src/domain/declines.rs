//! How often one destination was declined, and how often is too often.
//!
//! Card networks count tries per *card* and fine whoever goes on after refusals; our retry budget counts
//! per payment, and two payments of one payee do not know of each other. So every decline that is learned
//! counts for its destination, of whatever actor and payment, and once a cap is reached a refusal that
//! might pass later is taken for final.
//!
//! **Promise**: at no time are more declines of a window forgotten than lie outside of it: the counts are
//! kept by the hour, and an hour counts as a whole while any part of it lies in the window. **What it
//! cannot see** is what is under way: payments of one destination that are claimed at the same time know
//! only of the declines before their claims.
//!
//! A destination is named by a keyed digest of account and payee, so that the counts tell nobody whom
//! they are about. Pure; if this dies here, nothing was written.

use super::intent::{Secret, keyed, pads};
use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use secrecy::{ExposeSecret, SecretString};

const LABEL: &str = "punctual-destination-digest-1";

const DAY: TimeDelta = TimeDelta::hours(24);
const THIRTY_DAYS: TimeDelta = TimeDelta::days(30);

/// Declines of one destination before a claim, as the claim saw them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeclineCounts {
    /// Within 24 hours.
    pub day: u32,
    /// Within 30 days.
    pub thirty_days: u32,
}

impl DeclineCounts {
    /// From counts by the hour, as kept, at the instant of a claim.
    #[must_use]
    pub fn of(by_hour: impl IntoIterator<Item = (DateTime<Utc>, u32)>, now: DateTime<Utc>) -> Self {
        let (since_day, since_thirty) = (hour(now - DAY), hour(now - THIRTY_DAYS));
        let mut counts = Self::default();
        for (hour, declines) in by_hour {
            if hour >= since_day {
                counts.day = counts.day.saturating_add(declines);
            }
            if hour >= since_thirty {
                counts.thirty_days = counts.thirty_days.saturating_add(declines);
            }
        }
        counts
    }
}

/// The hour that counts a decline at this instant, by its beginning.
#[must_use]
pub fn hour(at: DateTime<Utc>) -> DateTime<Utc> {
    // Only instants outside of the years 1677 to 2262 have none.
    at.duration_trunc(TimeDelta::hours(1)).unwrap_or(at)
}

/// How many declines of one destination are enough; 0 is no cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeclineCaps {
    /// Within 24 hours.
    pub per_day: u32,
    /// Within 30 days.
    pub per_30_days: u32,
}

impl DeclineCaps {
    /// Is one more decline after `before` the last that may be?
    #[must_use]
    pub fn are_reached(self, before: DeclineCounts) -> bool {
        let reached = |cap: u32, before: u32| cap > 0 && before.saturating_add(1) >= cap;
        reached(self.per_day, before.day) || reached(self.per_30_days, before.thirty_days)
    }
}

/// The key that names destinations. Its pads go to the database with every claim, where a log of slow
/// statements may show them: they must tell nothing of the secret that ids and notices rest on.
fn own_key(secret: &Secret) -> Secret {
    keyed(secret, &[LABEL.as_bytes()])
}

/// The name of a destination: 16 bytes of HMAC-SHA256(own key, label ‖ account ‖ payee), the account with
/// its length in front.
#[must_use]
pub fn destination(secret: &Secret, account: &str, payee: &SecretString) -> [u8; 16] {
    let account = format!("{}:{account}", account.len());
    let parts = [LABEL.as_bytes(), account.as_bytes(), payee.expose_secret().as_bytes()];
    let mut first = [0; 16];
    first.copy_from_slice(&keyed(&own_key(secret), &parts)[..16]);
    first
}

/// The two keys that a destination is named with, for the statements that look for the counts of a payee
/// which only they have read. Whoever has them can name destinations, and nothing else.
pub struct DestinationKeys {
    /// Stands before account and payee in the inner hash.
    pub inner: Vec<u8>,
    /// Stands before the inner hash in the outer one.
    pub outer: Vec<u8>,
}

impl DestinationKeys {
    /// Of an installation.
    #[must_use]
    pub fn of(secret: &Secret) -> Self {
        let (inner, outer) = pads(&own_key(secret));
        Self { inner: [&inner[..], LABEL.as_bytes()].concat(), outer: outer.to_vec() }
    }
}

impl std::fmt::Debug for DestinationKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_961_820, 0).expect("in range")
    }

    #[test]
    fn an_hour_counts_until_its_end_has_left_the_window() {
        let this = hour(now());
        assert_eq!((this.timestamp() % 3_600, now() - this < TimeDelta::hours(1)), (0, true));
        let at = |hours_ago: i64| {
            let counts = DeclineCounts::of([(this - TimeDelta::hours(hours_ago), 3)], now());
            (counts.day, counts.thirty_days)
        };
        assert_eq!((at(0), at(24), at(25)), ((3, 3), (3, 3), (0, 3)));
        assert_eq!((at(720), at(721)), ((0, 3), (0, 0)));
        let two = DeclineCounts::of([(this, u32::MAX), (this - TimeDelta::hours(1), 1)], now());
        assert_eq!(two, DeclineCounts { day: u32::MAX, thirty_days: u32::MAX });
    }

    #[test]
    fn the_decline_that_reaches_a_cap_is_the_last_and_none_has_no_cap() {
        let before = |day, thirty_days| DeclineCounts { day, thirty_days };
        let caps = DeclineCaps { per_day: 3, per_30_days: 5 };
        assert!(!caps.are_reached(before(1, 3)));
        assert!(caps.are_reached(before(2, 2)));
        assert!(caps.are_reached(before(0, 4)));
        assert!(DeclineCaps { per_day: 1, per_30_days: 0 }.are_reached(before(0, 0)));
        assert!(!DeclineCaps::default().are_reached(before(u32::MAX, u32::MAX)));
    }

    #[test]
    fn the_name_is_of_secret_account_and_payee_and_the_two_ways_to_it_agree() {
        let payee = |text: &str| SecretString::from(text);
        let name = destination(&[7; 32], "acct", &payee("tok_1"));
        for other in [
            destination(&[8; 32], "acct", &payee("tok_1")),
            destination(&[7; 32], "acctt", &payee("ok_1")),
            destination(&[7; 32], "acct", &payee("tok_2")),
        ] {
            assert_ne!(name, other);
        }
        let DestinationKeys { inner, outer } = DestinationKeys::of(&[7; 32]);
        assert!(inner[..32] != [7 ^ 0x36; 32] && outer[..32] != [7 ^ 0x5c; 32], "the secret itself");
        let inside = Sha256::digest([inner, b"4:accttok_1".to_vec()].concat());
        assert_eq!(Sha256::digest([&outer[..], &inside].concat())[..16], name);
    }
}
