//! Amounts: integers in minor units with an ISO 4217 currency whose exponent we know (rule R13).
//!
//! **Promise**: no float and no rounding anywhere. [`Minor::parse_major`] refuses what is not an
//! exact count of minor units, and [`Money`] of two currencies never meet in one sum.
//!
//! Two facts are apart on purpose. [`Currency::from_code`] knows every code of the table, so that an
//! old row stays readable after its currency was withdrawn; [`Currency::active_on`] says whether it
//! may be used for a payment due on a day, and intake asks it.

use super::currencies::{self, CurrencyFacts};
use chrono::NaiveDate;
use std::fmt;

/// Minor units, > 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(i64);

/// Why a decimal text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAmount {
    /// Not digits with at most one point and digits on both sides of it.
    #[error("not a decimal number")]
    NotDecimal,
    /// A part of a minor unit would be lost.
    #[error("more decimal places than the currency has")]
    TooPrecise,
    /// Zero.
    #[error("an amount must be greater than zero")]
    NotPositive,
    /// More minor units than 64 bits hold.
    #[error("too large")]
    TooLarge,
}

impl Minor {
    /// `None` unless `amount_minor > 0`.
    #[must_use]
    pub fn new(amount_minor: i64) -> Option<Self> {
        (amount_minor > 0).then_some(Self(amount_minor))
    }

    /// The count of minor units.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }

    /// Reads major units as written in settlement files: `12.34` of a two-digit currency is 1234.
    /// No sign, no grouping, no exponent. Zeros past the last minor digit lose nothing and are
    /// accepted; any other digit there is refused, never rounded.
    ///
    /// # Errors
    /// See [`BadAmount`].
    pub fn parse_major(text: &str, currency: Currency) -> Result<Self, BadAmount> {
        Self::new(unsigned(text, currency)?).ok_or(BadAmount::NotPositive)
    }
}

/// Reads major units that may be zero or, behind a minus, below it, as fees and balances are: `-0.40` of a two-digit
/// currency is -40. Otherwise as exact as [`Minor::parse_major`].
///
/// # Errors
/// See [`BadAmount`]; never [`BadAmount::NotPositive`].
pub fn parse_signed_major(text: &str, currency: Currency) -> Result<i64, BadAmount> {
    match text.strip_prefix('-') {
        Some(below) => unsigned(below, currency).map(|minor| -minor),
        None => unsigned(text, currency),
    }
}

/// Minor units from zero on.
fn unsigned(text: &str, currency: Currency) -> Result<i64, BadAmount> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(BadAmount::NotDecimal),
        None => (text, ""),
    };
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(BadAmount::NotDecimal);
    }
    let places = usize::from(currency.exponent());
    if fraction.bytes().skip(places).any(|digit| digit != b'0') {
        return Err(BadAmount::TooPrecise);
    }
    let minor_digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(places);
    let total = whole
        .bytes()
        .chain(minor_digits)
        .try_fold(0_i64, |total, digit| total.checked_mul(10)?.checked_add(i64::from(digit - b'0')));
    total.ok_or(BadAmount::TooLarge)
}

/// An ISO 4217 alpha-3 code from the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency(&'static str);

/// An amount of one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    /// How much.
    pub minor: Minor,
    /// Of what.
    pub currency: Currency,
}

impl Money {
    /// The amount in major units with exactly the currency's places, without the code: `12.34`,
    /// `500` (JPY), `1.234` (KWD). [`Minor::parse_major`] reads it back.
    #[must_use]
    pub fn to_major(&self) -> String {
        let places = usize::from(self.currency.exponent());
        let digits = format!("{:0width$}", self.minor.0, width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.to_major(), self.currency)
    }
}

impl Currency {
    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.0
    }

    /// Looks the code up in the table, whatever its days of validity. Upper case only.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        currencies::find(code).map(|row| Self(row.code))
    }

    fn facts(self) -> Option<&'static CurrencyFacts> {
        currencies::find(self.0)
    }

    /// Digits after the point: 10^exponent minor units are one major unit.
    #[must_use]
    pub fn exponent(self) -> u8 {
        // Made only from rows of the table, so the row is there.
        self.facts().map_or(0, |row| row.exponent)
    }

    /// May a payment due on `day` (UTC) use it?
    #[must_use]
    pub fn active_on(self, day: NaiveDate) -> bool {
        self.facts().is_some_and(|row| {
            row.valid_from.is_none_or(|from| day >= from) && row.withdrawn_on.is_none_or(|gone| day < gone)
        })
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn currency(code: &str) -> Currency {
        Currency::from_code(code).expect("in the table")
    }

    fn money(minor: i64, code: &str) -> Money {
        Money { minor: Minor::new(minor).expect("positive"), currency: currency(code) }
    }

    fn day(year: i32, month: u32, day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(year, month, day).expect("a day of the calendar")
    }

    #[test]
    fn the_table_is_in_order_without_doubles_and_every_row_is_found() {
        let rows = currencies::CURRENCIES;
        assert!(rows.windows(2).all(|pair| pair[0].code < pair[1].code));
        assert_eq!(rows.len(), 184);
        for row in rows {
            assert!(row.code.len() == 3 && row.code.bytes().all(|b| b.is_ascii_uppercase()));
            assert!(row.exponent <= 4);
            assert_eq!(currency(row.code).as_str(), row.code);
        }
    }

    #[test]
    fn exponents_are_iso_s_also_where_gateways_differ() {
        for (code, exponent) in [
            ("EUR", 2),
            ("USD", 2),
            ("JPY", 0),
            ("KRW", 0),
            ("KWD", 3),
            ("BHD", 3),
            ("TND", 3),
            ("UGX", 0),
            ("ISK", 0),
            ("HUF", 2),
            ("TWD", 2),
            ("CLF", 4),
            ("CLP", 0),
            ("UYW", 4),
            ("XOF", 0),
            ("MGA", 2),
        ] {
            assert_eq!(currency(code).exponent(), exponent, "{code}");
        }
        let with = |n| currencies::CURRENCIES.iter().filter(|row| row.exponent == n).count();
        assert_eq!([with(0), with(1), with(3), with(4)], [18, 0, 7, 2]);
    }

    #[test]
    fn codes_without_an_exponent_and_unknown_codes_are_refused() {
        for code in
            ["XAU", "XAG", "XPT", "XPD", "XDR", "XSU", "XUA", "XBA", "XTS", "ABC", "eur", "EURO", "", "DEM"]
        {
            assert_eq!(Currency::from_code(code), None, "{code}");
        }
        assert_eq!(Currency::from_code(&"X".repeat(3)), None, "no currency");
    }

    #[test]
    fn withdrawn_currencies_stay_readable_and_end_on_their_day() {
        for (code, last) in [
            ("HRK", day(2022, 12, 31)),
            ("BGN", day(2025, 12, 31)),
            ("ANG", day(2025, 6, 30)),
            ("ZWL", day(2024, 8, 31)),
            ("SLL", day(2023, 12, 31)),
        ] {
            assert!(currency(code).active_on(last), "{code}");
            assert!(!currency(code).active_on(last.succ_opt().expect("a next day")), "{code}");
        }
        assert!(!currency("XCG").active_on(day(2025, 3, 30)));
        assert!(currency("XCG").active_on(day(2025, 3, 31)));
        assert!(currency("EUR").active_on(day(1999, 1, 1)) && currency("EUR").active_on(day(2100, 1, 1)));
    }

    #[test]
    fn major_units_are_exact_text() {
        for (minor, code, text) in [
            (1, "EUR", "0.01"),
            (1_234, "EUR", "12.34"),
            (100, "EUR", "1.00"),
            (500, "JPY", "500"),
            (1_234, "KWD", "1.234"),
            (5, "KWD", "0.005"),
            (12_345, "CLF", "1.2345"),
            (700, "UGX", "700"),
            (i64::MAX, "EUR", "92233720368547758.07"),
        ] {
            assert_eq!(money(minor, code).to_major(), text);
            assert_eq!(Minor::parse_major(text, currency(code)).map(Minor::get), Ok(minor));
        }
        assert_eq!(money(1_234, "EUR").to_string(), "12.34 EUR");
    }

    #[test]
    fn what_is_not_exact_is_refused_and_never_rounded() {
        use BadAmount::{NotDecimal, NotPositive, TooLarge, TooPrecise};
        for (text, code, expect) in [
            ("1.005", "EUR", Err(TooPrecise)),
            ("0.001", "EUR", Err(TooPrecise)),
            ("100.5", "JPY", Err(TooPrecise)),
            ("1.500", "EUR", Ok(150)),
            ("100.00", "JPY", Ok(100)),
            ("007", "EUR", Ok(700)),
            ("0", "EUR", Err(NotPositive)),
            ("0.00", "EUR", Err(NotPositive)),
            ("92233720368547758.08", "EUR", Err(TooLarge)),
            ("99999999999999999999999", "JPY", Err(TooLarge)),
            ("", "EUR", Err(NotDecimal)),
            (".5", "EUR", Err(NotDecimal)),
            ("5.", "EUR", Err(NotDecimal)),
            ("1.2.3", "EUR", Err(NotDecimal)),
            ("-1", "EUR", Err(NotDecimal)),
            ("+1", "EUR", Err(NotDecimal)),
            ("1,5", "EUR", Err(NotDecimal)),
            ("1e3", "EUR", Err(NotDecimal)),
            (" 1", "EUR", Err(NotDecimal)),
            ("١", "EUR", Err(NotDecimal)),
        ] {
            assert_eq!(Minor::parse_major(text, currency(code)).map(Minor::get), expect, "{text} {code}");
        }
        assert_eq!((Minor::new(0), Minor::new(-1)), (None, None));
    }

    #[test]
    fn a_sign_is_a_minus_in_front_and_nothing_else() {
        let read = |text| parse_signed_major(text, currency("EUR"));
        assert_eq!(
            [read("-0.40"), read("0"), read("-0.00"), read("12.5")],
            [Ok(-40), Ok(0), Ok(0), Ok(1_250)]
        );
        for text in ["--1", "-", "- 1", "1-", "(1.00)", "\u{2212}1", "-1.005", "-1,00"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("-92233720368547758.07"), Ok(-i64::MAX));
        assert_eq!(read("-92233720368547758.08"), Err(BadAmount::TooLarge));
    }

    proptest! {
        #[test]
        fn every_amount_of_every_currency_survives_its_text(
            minor in 1..=i64::MAX,
            row in 0..currencies::CURRENCIES.len(),
        ) {
            let amount = money(minor, currencies::CURRENCIES[row].code);
            prop_assert_eq!(Minor::parse_major(&amount.to_major(), amount.currency), Ok(amount.minor));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = Minor::parse_major(&text, currency("KWD"));
        }
    }
}
