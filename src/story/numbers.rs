//! How counts and lengths of time are written for people, on pages and on a terminal alike.

use chrono::{DateTime, TimeDelta, Utc};

/// `in 3 min`, `2 h ago`, `now`.
#[must_use]
pub fn distance(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let apart = at - now;
    let length = length(apart.abs());
    if apart.abs() < TimeDelta::seconds(1) {
        "now".to_owned()
    } else if apart > TimeDelta::zero() {
        format!("in {length}")
    } else {
        format!("{length} ago")
    }
}

/// `45 s`, `3 min`, `2 h 5 min`, `12 d`.
#[must_use]
pub fn length(length: TimeDelta) -> String {
    let (seconds, minutes, hours, days) =
        (length.num_seconds(), length.num_minutes(), length.num_hours(), length.num_days());
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) if minutes % 60 == 0 => format!("{hours} h"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d"),
    }
}

/// A length in milliseconds: `85 ms`, `1.2 s`, `3 min`.
#[must_use]
pub fn milliseconds(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => length(TimeDelta::milliseconds(ms)),
    }
}

/// A whole number, grouped by three.
#[must_use]
pub fn count(count: i64) -> String {
    let sign = if count < 0 { "−" } else { "" };
    format!("{sign}{}", grouped(&count.unsigned_abs().to_string()))
}

/// A count with the name of what is counted: `1 relay`, `1,200 relays`. `many` is the name of several.
#[must_use]
pub fn counted(number: i64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Digits, grouped by three.
pub(crate) fn grouped(digits: &str) -> String {
    let mut written = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_largest_units_that_say_enough() {
        for (ms, text) in
            [(85, "85 ms"), (1_250, "1.2 s"), (59_999, "59.9 s"), (60_000, "1 min"), (7_500_000, "2 h 5 min")]
        {
            assert_eq!(milliseconds(ms), text);
        }
        assert_eq!(
            (
                counted(1, "relay", "relays"),
                counted(0, "relay", "relays"),
                counted(1_200, "entry", "entries")
            ),
            ("1 relay".into(), "0 relays".into(), "1,200 entries".into())
        );
        assert_eq!((count(0), count(999), count(-1_000)), ("0".into(), "999".into(), "−1,000".into()));
    }
}
