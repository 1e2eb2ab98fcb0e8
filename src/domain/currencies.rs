//! The currencies that money may have: ISO 4217 as a table of facts.
//!
//! Sources: ISO 4217 lists one (current) and three (historic) of the maintenance agency, with the
//! days on which a changeover law took effect where a list names only the month. Facts, not policy:
//! whether a currency may be used on a day is asked of [`super::money::Currency::active_on`].
//!
//! **Not accepted**, because an amount in minor units has no meaning without an exponent: the codes
//! for metals (`XAU` `XAG` `XPT` `XPD`), bond-market and other units (`XBA`–`XBD`, `XDR`, `XSU`,
//! `XUA`), for tests (`XTS`) and for no currency at all. Funds and supranational units *with* an exponent are in the table.
//! **Not in the table**: what was withdrawn before 2008; it is refused like any unknown code.

use chrono::NaiveDate;

/// One currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrencyFacts {
    /// ISO 4217 alpha-3.
    pub code: &'static str,
    /// Digits after the point: 10^exponent minor units are one major unit.
    pub exponent: u8,
    /// First day of use, where it matters; `None`: for longer than any payment lives.
    pub valid_from: Option<NaiveDate>,
    /// First day on which it can no longer be used; `None`: current.
    pub withdrawn_on: Option<NaiveDate>,
}

const fn kept(code: &'static str, exponent: u8) -> CurrencyFacts {
    CurrencyFacts { code, exponent, valid_from: None, withdrawn_on: None }
}

const fn new(code: &'static str, exponent: u8, from: (i32, u32, u32)) -> CurrencyFacts {
    CurrencyFacts { valid_from: day(from), ..kept(code, exponent) }
}

const fn gone(code: &'static str, exponent: u8, on: (i32, u32, u32)) -> CurrencyFacts {
    CurrencyFacts { withdrawn_on: day(on), ..kept(code, exponent) }
}

/// Evaluated by the compiler: a day that is not in the calendar does not compile.
const fn day((year, month, day): (i32, u32, u32)) -> Option<NaiveDate> {
    match NaiveDate::from_ymd_opt(year, month, day) {
        Some(day) => Some(day),
        None => panic!("not a day of the calendar"),
    }
}

/// The table, in order of the code.
#[rustfmt::skip]
pub const CURRENCIES: &[CurrencyFacts] = &[
    kept("AED", 2),
    kept("AFN", 2),
    kept("ALL", 2),
    kept("AMD", 2),
    gone("ANG", 2, (2025, 7, 1)),
    kept("AOA", 2),
    kept("ARS", 2),
    kept("AUD", 2),
    kept("AWG", 2),
    kept("AZN", 2),
    kept("BAM", 2),
    kept("BBD", 2),
    kept("BDT", 2),
    gone("BGN", 2, (2026, 1, 1)),
    kept("BHD", 3),
    kept("BIF", 0),
    kept("BMD", 2),
    kept("BND", 2),
    kept("BOB", 2),
    kept("BOV", 2),
    kept("BRL", 2),
    kept("BSD", 2),
    kept("BTN", 2),
    kept("BWP", 2),
    new("BYN", 2, (2016, 7, 1)),
    gone("BYR", 0, (2017, 1, 1)),
    kept("BZD", 2),
    kept("CAD", 2),
    kept("CDF", 2),
    kept("CHE", 2),
    kept("CHF", 2),
    kept("CHW", 2),
    kept("CLF", 4),
    kept("CLP", 0),
    kept("CNY", 2),
    kept("COP", 2),
    kept("COU", 2),
    kept("CRC", 2),
    gone("CUC", 2, (2021, 7, 1)),
    kept("CUP", 2),
    kept("CVE", 2),
    gone("CYP", 2, (2008, 1, 1)),
    kept("CZK", 2),
    kept("DJF", 0),
    kept("DKK", 2),
    kept("DOP", 2),
    kept("DZD", 2),
    gone("EEK", 2, (2011, 1, 1)),
    kept("EGP", 2),
    kept("ERN", 2),
    kept("ETB", 2),
    kept("EUR", 2),
    kept("FJD", 2),
    kept("FKP", 2),
    kept("GBP", 2),
    kept("GEL", 2),
    kept("GHS", 2),
    kept("GIP", 2),
    kept("GMD", 2),
    kept("GNF", 0),
    kept("GTQ", 2),
    kept("GYD", 2),
    kept("HKD", 2),
    kept("HNL", 2),
    gone("HRK", 2, (2023, 1, 1)),
    kept("HTG", 2),
    kept("HUF", 2),
    kept("IDR", 2),
    kept("ILS", 2),
    kept("INR", 2),
    kept("IQD", 3),
    kept("IRR", 2),
    kept("ISK", 0),
    kept("JMD", 2),
    kept("JOD", 3),
    kept("JPY", 0),
    kept("KES", 2),
    kept("KGS", 2),
    kept("KHR", 2),
    kept("KMF", 0),
    kept("KPW", 2),
    kept("KRW", 0),
    kept("KWD", 3),
    kept("KYD", 2),
    kept("KZT", 2),
    kept("LAK", 2),
    kept("LBP", 2),
    kept("LKR", 2),
    kept("LRD", 2),
    kept("LSL", 2),
    gone("LTL", 2, (2015, 1, 1)),
    gone("LVL", 2, (2014, 1, 1)),
    kept("LYD", 3),
    kept("MAD", 2),
    kept("MDL", 2),
    kept("MGA", 2),
    kept("MKD", 2),
    kept("MMK", 2),
    kept("MNT", 2),
    kept("MOP", 2),
    gone("MRO", 2, (2018, 1, 1)),
    new("MRU", 2, (2018, 1, 1)),
    gone("MTL", 2, (2008, 1, 1)),
    kept("MUR", 2),
    kept("MVR", 2),
    kept("MWK", 2),
    kept("MXN", 2),
    kept("MXV", 2),
    kept("MYR", 2),
    kept("MZN", 2),
    kept("NAD", 2),
    kept("NGN", 2),
    kept("NIO", 2),
    kept("NOK", 2),
    kept("NPR", 2),
    kept("NZD", 2),
    kept("OMR", 3),
    kept("PAB", 2),
    kept("PEN", 2),
    kept("PGK", 2),
    kept("PHP", 2),
    kept("PKR", 2),
    kept("PLN", 2),
    kept("PYG", 0),
    kept("QAR", 2),
    kept("RON", 2),
    kept("RSD", 2),
    kept("RUB", 2),
    kept("RWF", 0),
    kept("SAR", 2),
    kept("SBD", 2),
    kept("SCR", 2),
    kept("SDG", 2),
    kept("SEK", 2),
    kept("SGD", 2),
    kept("SHP", 2),
    gone("SKK", 2, (2009, 1, 1)),
    new("SLE", 2, (2022, 4, 1)),
    gone("SLL", 2, (2024, 1, 1)),
    kept("SOS", 2),
    kept("SRD", 2),
    kept("SSP", 2),
    gone("STD", 2, (2018, 1, 1)),
    new("STN", 2, (2018, 1, 1)),
    kept("SVC", 2),
    kept("SYP", 2),
    kept("SZL", 2),
    kept("THB", 2),
    kept("TJS", 2),
    gone("TMM", 2, (2009, 1, 1)),
    kept("TMT", 2),
    kept("TND", 3),
    kept("TOP", 2),
    kept("TRY", 2),
    kept("TTD", 2),
    kept("TWD", 2),
    kept("TZS", 2),
    kept("UAH", 2),
    kept("UGX", 0),
    kept("USD", 2),
    kept("USN", 2),
    kept("UYI", 0),
    kept("UYU", 2),
    kept("UYW", 4),
    kept("UZS", 2),
    gone("VEB", 2, (2008, 1, 1)),
    new("VED", 2, (2021, 10, 1)),
    gone("VEF", 2, (2018, 8, 20)),
    new("VES", 2, (2018, 8, 20)),
    kept("VND", 0),
    kept("VUV", 0),
    kept("WST", 2),
    kept("XAD", 2),
    kept("XAF", 0),
    kept("XCD", 2),
    new("XCG", 2, (2025, 3, 31)),
    kept("XOF", 0),
    kept("XPF", 0),
    kept("YER", 2),
    kept("ZAR", 2),
    gone("ZMK", 2, (2013, 1, 1)),
    new("ZMW", 2, (2013, 1, 1)),
    new("ZWG", 2, (2024, 6, 25)),
    gone("ZWL", 2, (2024, 9, 1)),
];

/// Finds a code in the table.
#[must_use]
pub fn find(code: &str) -> Option<&'static CurrencyFacts> {
    CURRENCIES.binary_search_by(|row| row.code.cmp(code)).ok().map(|at| &CURRENCIES[at])
}
