//! Values as the formats write them: currencies, exact amounts, days, moments and the zones of clocks.
//!
//! **Promise**: read exactly or refused with the field's name. A moment becomes the UTC day that it lies in only
//! where the file says which clock it was read from.

use super::why::Why;
use crate::domain::money::{self, Currency};
use chrono::{FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

/// A code of the table, in either case.
pub(super) fn currency(field: &str, text: &str) -> Result<Currency, Why> {
    let known = Currency::from_code(&text.to_ascii_uppercase());
    known.ok_or_else(|| Why::NoSuchCurrency { field: field.to_owned(), value: Why::shown(text) })
}

/// Major units, perhaps below zero.
pub(super) fn amount(field: &str, text: &str, currency: Currency) -> Result<i64, Why> {
    let read = money::parse_signed_major(text, currency);
    read.map_err(|why| Why::BadAmount { field: field.to_owned(), value: Why::shown(text), why })
}

/// `YYYY-MM-DD`, and nothing else.
pub(super) fn day(text: &str) -> Option<NaiveDate> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text.as_bytes() else { return None };
    let year = i32::try_from(number(&[y1, y2, y3, y4])?).ok()?;
    NaiveDate::from_ymd_opt(year, number(&[m1, m2])?, number(&[d1, d2])?)
}

/// A day and a time behind a blank or a `T`: `HH:MM` or `HH:MM:SS`, perhaps with a fraction, perhaps with an offset.
pub(super) fn moment(text: &str) -> Option<(NaiveDateTime, Option<FixedOffset>)> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let rest = rest.strip_prefix([' ', 'T'])?;
    let zone_at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = (rest.get(..zone_at)?, rest.get(zone_at..)?);
    let offset = if zone.is_empty() { None } else { Some(offset(zone)?) };
    Some((day(date)?.and_time(time(clock)?), offset))
}

fn time(text: &str) -> Option<NaiveTime> {
    let (clock, fraction) = text.split_once('.').map_or((text, None), |(clock, rest)| (clock, Some(rest)));
    if fraction.is_some_and(|digits| digits.is_empty() || number(digits.as_bytes()).is_none()) {
        return None;
    }
    let parts: Vec<u32> = clock.split(':').map(two_digits).collect::<Option<_>>()?;
    match (parts.as_slice(), fraction) {
        ([hour, minute], None) => NaiveTime::from_hms_opt(*hour, *minute, 0),
        // 23:59:60 is a leap second; the day is all that is taken of it.
        ([hour, minute, second], _) => {
            NaiveTime::from_hms_opt(*hour, *minute, (*second).min(59)).filter(|_| *second <= 60)
        }
        _ => None,
    }
}

fn two_digits(text: &str) -> Option<u32> {
    if text.len() == 2 { number(text.as_bytes()) } else { None }
}

/// Digits only. Of a long fraction the value does not matter.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |sum, digit| {
        digit.is_ascii_digit().then(|| sum.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')))
    })
}

/// `Z`, `+01:00`, `+0100`, `+01`.
fn offset(text: &str) -> Option<FixedOffset> {
    if text == "Z" {
        return FixedOffset::east_opt(0);
    }
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = match rest.len() {
        2 => (rest, "00"),
        4 => rest.split_at_checked(2)?,
        5 => rest.split_once(':')?,
        _ => return None,
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
    (hours <= 14 && minutes < 60).then(|| FixedOffset::east_opt(sign * seconds)).flatten()
}

/// Names of zones that mean one clock, with its minutes east of Greenwich. CST, IST, AST and their like are not
/// here: they are the names of several.
const ZONES: &[(&str, i32)] = &[
    ("UTC", 0),
    ("GMT", 0),
    ("WET", 0),
    ("WEST", 60),
    ("CET", 60),
    ("MET", 60),
    ("CEST", 120),
    ("MEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("EST", -300),
    ("EDT", -240),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
    ("AKST", -540),
    ("AKDT", -480),
    ("HST", -600),
    ("BRT", -180),
    ("SAST", 120),
    ("HKT", 480),
    ("SGT", 480),
    ("MYT", 480),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
];

/// The zone of a clock, by a name that means one only, or by an offset, alone or behind `UTC` or `GMT`.
pub(super) fn zone(field: &str, text: &str) -> Result<FixedOffset, Why> {
    let minutes = ZONES.iter().find(|(name, _)| *name == text).map(|(_, minutes)| *minutes);
    let named = minutes.and_then(|minutes| FixedOffset::east_opt(minutes * 60));
    let written = || offset(text.strip_prefix("UTC").or_else(|| text.strip_prefix("GMT")).unwrap_or(text));
    let known = named.or_else(written);
    known.ok_or_else(|| Why::NoSuchZone { field: field.to_owned(), value: Why::shown(text) })
}

/// The UTC day of a clock's reading.
pub(super) fn utc_day(clock: NaiveDateTime, zone: FixedOffset) -> Option<NaiveDate> {
    Some(clock.with_nanosecond(0)?.checked_sub_offset(zone)?.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_ten_characters_of_the_calendar() {
        assert_eq!(day("2024-02-29"), NaiveDate::from_ymd_opt(2024, 2, 29));
        for text in [
            "2023-02-29",
            "24-02-29",
            "2024-2-29",
            "+2024-02-29",
            "2024/02/29",
            "2024-02-29 ",
            "2024-13-01",
            "",
        ] {
            assert_eq!(day(text), None, "{text}");
        }
    }

    #[test]
    fn a_clock_s_reading_becomes_the_day_of_its_zone() {
        let day_of = |text: &str, named: &str| {
            let (clock, written) = moment(text).expect(text);
            utc_day(clock, written.map_or_else(|| zone("z", named), Ok).expect(named))
                .expect("a day")
                .to_string()
        };
        assert_eq!(day_of("2026-11-28 00:30:00", "UTC"), "2026-11-28");
        assert_eq!(day_of("2026-11-28 00:30:00", "CET"), "2026-11-27");
        assert_eq!(day_of("2026-11-28T00:30", "CEST"), "2026-11-27");
        assert_eq!(day_of("2026-11-28 20:00:00.123456", "PST"), "2026-11-29");
        assert_eq!(day_of("2026-11-28 09:00:00", "AEST"), "2026-11-27");
        assert_eq!(day_of("2026-11-28 18:31:00", "UTC+05:30"), "2026-11-28");
        assert_eq!(day_of("2026-11-28 00:29:59", "GMT+0530"), "2026-11-27");
        assert_eq!(
            day_of("2026-11-28T23:30:00-01:00", "CET"),
            "2026-11-29",
            "what is written beside it counts"
        );
        assert_eq!(day_of("2026-12-31T23:59:60Z", "UTC"), "2026-12-31");
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "2026-11-28",
            "2026-11-28 ",
            "2026-11-28 1:00",
            "2026-11-28 24:00:00",
            "2026-11-28 12:60:00",
            "2026-11-28 12:00:61",
            "2026-11-28 12:00:00.",
            "2026-11-28 12:00:00 CET",
            "2026-11-28 12:00:00+25:00",
            "2026-11-28 12:00:00+0a",
            "28.11.2026 12:00",
            "é026-11-28 12:00",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn a_zone_s_name_that_means_several_is_refused() {
        for text in ["CST", "IST", "AST", "BST", "", "Europe/Amsterdam", "cet", "UTC+", "+1"] {
            assert!(zone("TimeZone", text).is_err(), "{text}");
        }
    }

    #[test]
    fn zones_stand_there_once() {
        for (at, (name, _)) in ZONES.iter().enumerate() {
            assert!(ZONES[..at].iter().all(|(before, _)| before != name), "{name}");
        }
    }
}
