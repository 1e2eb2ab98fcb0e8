//! The sandbox's report: a JSON line for each movement, and one at the end that counts them.
//!
//! ```text
//! {"key":"<id>:1","gatewayRef":"ch_7","kind":"charge","gross":1000,"fee":40,"net":960,"currency":"EUR","executedOn":"2026-11-28","bookedOn":"2026-11-28"}
//! {"key":"<refund id>","gatewayRef":"re_9","chargeRef":"ch_7","kind":"refund","gross":-1000,…}
//! {"end":{"day":"2026-11-28","lines":2,"complete":true}}
//! ```
//! Amounts are whole minor units already. **Promise**: without its `end`, with another count, or with a line of
//! another day it is refused; a field that we do not know is too, since it might change what a line means.

use super::hand::{Draft, Hand, Known};
use super::report::{Report, Stopped};
use super::tap::{Ended, Tap};
use super::why::{At, Why};
use crate::domain::money::Currency;
use crate::domain::settlement::{Kind, Line, payment_of};
use chrono::NaiveDate;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::io::BufRead;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Row {
    key: Option<String>,
    gateway_ref: Option<String>,
    charge_ref: Option<String>,
    kind: String,
    gross: i64,
    fee: i64,
    net: i64,
    currency: String,
    executed_on: NaiveDate,
    booked_on: NaiveDate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    end: End,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    day: NaiveDate,
    lines: u64,
    complete: bool,
}

/// How the last line begins; no other does.
const END: &[u8] = b"{\"end\":";

pub(super) fn read<R: BufRead, E, F: FnMut(Line) -> Result<(), E>>(
    mut tap: Tap<R>,
    mut hand: Hand<F>,
) -> Result<Report, Stopped<E>> {
    let mut record = Vec::new();
    // The day of the lines, and the first line of that day.
    let mut booked: Option<NaiveDate> = None;
    let end = loop {
        let at_line = tap.line();
        record.clear();
        let ended = tap.line_into(&mut record, at_line)?;
        if ended == Ended::File {
            let missing =
                if record.is_empty() { "its last line, the end, is missing" } else { "in this line" };
            return Err(Stopped::refused(at_line, Why::cut_short(missing)));
        }
        let text = without_line_end(&record);
        if std::str::from_utf8(text).is_err() {
            return Err(Stopped::refused(at_line, Why::NotUtf8));
        }
        if text.starts_with(END) {
            let last: Last = json(text).at(at_line)?;
            break (at_line, last.end);
        }
        let draft = json(text).and_then(draft).at(at_line)?;
        let day = *booked.get_or_insert(draft.booked_on);
        if draft.booked_on != day {
            return Err(Stopped::refused(at_line, wrong_day(draft.booked_on, day)));
        }
        hand.give(draft, at_line, Sha256::digest(text).into())?;
    };
    let (at_line, end) = end;
    if end.lines != hand.lines() {
        return Err(Stopped::refused(
            at_line,
            Why::differs("the number of lines", &end.lines, &hand.lines()),
        ));
    }
    if let Some(day) = booked.filter(|day| *day != end.day) {
        return Err(Stopped::refused(at_line, wrong_day(day, end.day)));
    }
    record.clear();
    if tap.line_into(&mut record, at_line + 1)? != Ended::File || !record.is_empty() {
        return Err(Stopped::refused(at_line + 1, Why::AfterEnd));
    }
    let known = Known { day: Some(end.day), is_complete: end.complete, ..Known::default() };
    Ok(hand.finish(known, tap))
}

fn wrong_day(booked: NaiveDate, day: NaiveDate) -> Why {
    Why::WrongDay { booked: booked.to_string(), day: day.to_string() }
}

fn without_line_end(record: &[u8]) -> &[u8] {
    let text = record.strip_suffix(b"\n").unwrap_or(record);
    text.strip_suffix(b"\r").unwrap_or(text)
}

/// The library's own words for what is wrong, without its place: there is one line.
fn json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Why> {
    serde_json::from_slice(text).map_err(|error| {
        let told = error.to_string();
        let told = told.rsplit_once(" at line ").map_or(told.as_str(), |(told, _)| told);
        Why::Json(Why::shown(told))
    })
}

fn draft(row: Row) -> Result<Draft, Why> {
    let currency = Currency::from_code(&row.currency);
    let currency = currency
        .ok_or_else(|| Why::NoSuchCurrency { field: "currency".into(), value: Why::shown(&row.currency) })?;
    let kind = match Kind::from_text(&row.kind) {
        Some(kind) => kind,
        None if row.key.as_deref().and_then(payment_of).is_some() => {
            return Err(Why::UnknownKind { value: Why::shown(&row.kind) });
        }
        None => Kind::Other,
    };
    if kind == Kind::Charge && row.key.is_none() {
        return Err(Why::missing("key"));
    }
    Ok(Draft {
        key: row.key,
        gateway_ref: row.gateway_ref,
        charge_ref: row.charge_ref,
        kind,
        gross_minor: row.gross,
        currency,
        fee_minor: row.fee,
        net_minor: row.net,
        net_currency: currency,
        booked_on: row.booked_on,
        executed_on: Some(row.executed_on),
    })
}
