//! Values as ISO 20022 writes them.

use super::camt_fields::Field;
use super::format::Side;
use super::values;
use super::why::Why;
use crate::domain::money::Currency;
use chrono::NaiveDate;
use std::borrow::Cow;

/// An amount of an account, not below zero.
pub(super) type Amount = (i64, Currency);

/// A value that is set once.
pub(super) fn once<T>(place: &mut Option<T>, value: T, field: Field) -> Result<(), Why> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Why::Twice { field: field.name().to_owned() }),
    }
}

/// With its attribute.
pub(super) fn amount(field: Field, text: &str, code: Option<&str>) -> Result<Amount, Why> {
    let code = code.ok_or_else(|| Why::missing(&format!("the Ccy of {}", field.name())))?;
    let currency = values::currency(field.name(), code)?;
    Ok((decimal(field, text, currency)?, currency))
}

/// A schema's decimal may have a plus in front and nothing on one side of its point. Amounts have no minus.
pub(super) fn decimal(field: Field, text: &str, currency: Currency) -> Result<i64, Why> {
    let plain = text.strip_prefix('+').unwrap_or(text);
    let plain = match (plain.strip_prefix('.'), plain.strip_suffix('.')) {
        (Some(fraction), None) => Cow::Owned(format!("0.{fraction}")),
        (None, Some(whole)) => Cow::Borrowed(whole),
        _ => Cow::Borrowed(plain),
    };
    if plain.starts_with('-') {
        return Err(Why::bad(field.name(), text));
    }
    values::amount(field.name(), &plain, currency)
}

pub(super) fn count(field: Field, text: &str) -> Result<u64, Why> {
    let digits = (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().ok_or_else(|| Why::bad(field.name(), text))
}

pub(super) fn side(field: Field, text: &str) -> Result<Side, Why> {
    match text {
        "CRDT" => Ok(Side::Credit),
        "DBIT" => Ok(Side::Debit),
        _ => Err(Why::bad(field.name(), text)),
    }
}

pub(super) fn truth(field: Field, text: &str) -> Result<bool, Why> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Why::bad(field.name(), text)),
    }
}

/// A day of the bank's own calendar: the day as written, whatever zone stands behind the time.
pub(super) fn bank_day(field: Field, text: &str) -> Result<NaiveDate, Why> {
    // A date may carry a zone too, which moves no booking.
    let written = text.get(..10).and_then(values::day).filter(|_| match text.get(10..11) {
        None | Some("Z" | "+" | "-") => true,
        Some(_) => values::moment(text).is_some(),
    });
    written.ok_or_else(|| Why::bad(field.name(), text))
}

/// The UTC day of a moment; without a zone, the day as written.
pub(super) fn utc_day(field: Field, text: &str) -> Result<NaiveDate, Why> {
    let day = values::moment(text).and_then(|(clock, zone)| match zone {
        None => Some(clock.date()),
        Some(zone) => values::utc_day(clock, zone),
    });
    day.ok_or_else(|| Why::bad(field.name(), text))
}

/// Credit above zero.
pub(super) fn signed(minor: i64, side: Side) -> i64 {
    match side {
        Side::Credit => minor,
        Side::Debit => -minor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_what_the_schema_allows_and_no_more() {
        let eur = Currency::from_code("EUR").expect("in the table");
        let read = |text| decimal(Field::Amount, text, eur).ok();
        assert_eq!(
            [read("1.50"), read("+1.5"), read(".5"), read("5."), read("0")].map(Option::unwrap),
            [150, 150, 50, 500, 0]
        );
        for text in ["-1", "1,5", "1.505", "", ".", "+", "++1", "1e2", "NaN", "+-1", ". 5"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_booking_s_day_is_the_bank_s() {
        let day = |text| bank_day(Field::EntryBookedOn, text).map(|day| day.to_string()).ok();
        for text in [
            "2026-11-28",
            "2026-11-28Z",
            "2026-11-28+01:00",
            "2026-11-28T00:10:00+02:00",
            "2026-11-28T23:59:59",
        ] {
            assert_eq!(day(text).as_deref(), Some("2026-11-28"), "{text}");
        }
        for text in ["2026-11-31", "28.11.2026", "2026-11-28x", "2026-11-28T25:00:00", "202é-11-28"] {
            assert_eq!(day(text), None, "{text}");
        }
        assert_eq!(
            utc_day(Field::ExecutedAt, "2026-11-28T00:10:00+02:00").expect("a day").to_string(),
            "2026-11-27"
        );
    }
}
