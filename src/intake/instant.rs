//! Times as clients write them: RFC 3339, always with an offset, to any number of digits.
//!
//! The schedule keeps microseconds. What lies below is never rounded to nearest: a due time goes up,
//! so that nothing is charged early, and a deadline goes down, so that nothing is sent late.
//!
//! A parser of its own, because the usual ones cut digits past the ninth without saying so, which
//! would turn "a tenth of a nanosecond after midnight" into midnight, and take a leap second.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

/// A time between two microseconds, or on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant {
    floor: DateTime<Utc>,
    past_floor: bool,
}

impl Instant {
    /// The first microsecond that is not before it; `None` past the end of the calendar.
    pub(super) fn rounded_up(self) -> Option<DateTime<Utc>> {
        if self.past_floor {
            self.floor.checked_add_signed(TimeDelta::microseconds(1))
        } else {
            Some(self.floor)
        }
    }

    /// The last microsecond that is not after it.
    pub(super) fn rounded_down(self) -> DateTime<Utc> {
        self.floor
    }

    /// Reads `2030-01-31T09:00:00[.digits](Z|±hh:mm)`; `T` and `Z` in either case (RFC 3339 §5.6).
    pub(super) fn read(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        // Longest sensible: 19 characters, a point, a fraction, an offset of 6.
        if !(20..=64).contains(&bytes.len()) {
            return None;
        }
        let (head, mut rest) = bytes.split_at(19);
        for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
            if head[at].to_ascii_uppercase() != mark {
                return None;
            }
        }
        let part = |from: usize, to: usize| number(&head[from..to]);
        let date = NaiveDate::from_ymd_opt(i32::try_from(part(0, 4)?).ok()?, part(5, 7)?, part(8, 10)?)?;
        // `and_hms_opt` refuses hour 24 and second 60.
        let local = date.and_hms_opt(part(11, 13)?, part(14, 16)?, part(17, 19)?)?;
        let mut micros = 0_u32;
        let mut past_floor = false;
        if let Some(after) = rest.strip_prefix(b".") {
            let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            let (fraction, offset) = after.split_at(digits);
            for at in 0..6 {
                micros = micros * 10 + fraction.get(at).map_or(0, |digit| u32::from(digit - b'0'));
            }
            past_floor = fraction.iter().skip(6).any(|digit| *digit != b'0');
            rest = offset;
        }
        let offset = offset_minutes(rest)?;
        let utc = local.checked_sub_signed(TimeDelta::minutes(offset))?;
        let floor = utc.and_utc().checked_add_signed(TimeDelta::microseconds(i64::from(micros)))?;
        Some(Self { floor, past_floor })
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0_u32, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0')))
}

fn offset_minutes(text: &[u8]) -> Option<i64> {
    match text {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            let ahead = i64::from(hours * 60 + minutes);
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -ahead } else { ahead })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(text: &str) -> Option<String> {
        let instant = Instant::read(text)?.rounded_up()?;
        Some(instant.to_rfc3339_opts(chrono::SecondsFormat::Micros, true))
    }

    #[test]
    fn offsets_are_taken_to_utc() {
        for (text, utc) in [
            ("2030-01-31T09:00:00Z", "2030-01-31T09:00:00.000000Z"),
            ("2030-01-31t09:00:00z", "2030-01-31T09:00:00.000000Z"),
            ("2030-01-31T09:00:00-00:00", "2030-01-31T09:00:00.000000Z"),
            ("2030-01-31T09:00:00+02:00", "2030-01-31T07:00:00.000000Z"),
            ("2030-01-01T00:30:00+05:45", "2029-12-31T18:45:00.000000Z"),
            ("2029-12-31T23:59:59.5-23:59", "2030-01-01T23:58:59.500000Z"),
            ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000000Z"),
        ] {
            assert_eq!(up(text).as_deref(), Some(utc), "{text}");
        }
    }

    #[test]
    fn the_hour_that_a_change_of_clocks_repeats_or_skips_is_whatever_its_offset_says() {
        for (berlin, utc) in [
            // In autumn 02:30 comes twice, in spring never; its offset still names one instant.
            ("2027-10-31T02:30:00+02:00", "2027-10-31T00:30:00.000000Z"),
            ("2027-10-31T02:30:00+01:00", "2027-10-31T01:30:00.000000Z"),
            ("2027-03-28T01:30:00+01:00", "2027-03-28T00:30:00.000000Z"),
            ("2027-03-28T02:30:00+01:00", "2027-03-28T01:30:00.000000Z"),
            ("2027-03-28T03:30:00+02:00", "2027-03-28T01:30:00.000000Z"),
        ] {
            assert_eq!(up(berlin).as_deref(), Some(utc), "{berlin}");
        }
    }

    #[test]
    fn digits_below_a_microsecond_move_a_due_time_up_and_a_deadline_down() {
        for (text, up_to) in [
            ("2030-01-31T09:00:00.123456Z", "2030-01-31T09:00:00.123456Z"),
            ("2030-01-31T09:00:00.1234560000000Z", "2030-01-31T09:00:00.123456Z"),
            ("2030-01-31T09:00:00.1234561Z", "2030-01-31T09:00:00.123457Z"),
            ("2030-01-31T09:00:00.00000000000001Z", "2030-01-31T09:00:00.000001Z"),
            ("2030-12-31T23:59:59.9999999Z", "2031-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(up(text).as_deref(), Some(up_to), "{text}");
        }
        let between = Instant::read("2030-01-31T09:00:00.1234569Z").unwrap();
        assert_eq!(between.rounded_down().timestamp_subsec_micros(), 123_456);
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "2030-01-31T09:00:00",
            "2030-01-31",
            "2030-01-31 09:00:00Z",
            "2030-01-31T09:00:60Z",
            "2016-12-31T23:59:60Z",
            "2030-01-31T24:00:00Z",
            "2030-02-30T09:00:00Z",
            "2029-02-29T09:00:00Z",
            "2030-13-01T09:00:00Z",
            "2030-00-01T09:00:00Z",
            "2030-01-31T09:60:00Z",
            "2030-01-31T09:00Z",
            "2030-01-31T09:00:00.Z",
            "2030-01-31T09:00:00,5Z",
            "2030-01-31T09:00:00+0200",
            "2030-01-31T09:00:00+02",
            "2030-01-31T09:00:00+24:00",
            "2030-01-31T09:00:00+01:60",
            "2030-01-31T09:00:00ZZ",
            " 2030-01-31T09:00:00Z",
            "2030-01-31T09:00:00Z ",
            "+2030-01-31T09:00:0Z",
            "20300131T090000Z0000",
            "1893484800",
            "tomorrow at nine in the",
            "２０３０-01-31T09:00:00Z",
            "2030-01-31T09:00:00\u{2212}02:00",
            "",
        ] {
            assert_eq!(up(text), None, "{text}");
        }
        assert_eq!(up(&format!("2030-01-31T09:00:00.{}Z", "0".repeat(100))), None);
    }
}
