//! Stripe's itemised reports of the balance and of payouts, and the export of the balance's history: CSV.
//!
//! Amounts are decimals in major units of the account's currency. What the customer paid stands beside them where it
//! was another currency; that is what a payment asked for, so it is the line's gross, and fee and net stay in the
//! account's. Zero decimals, three and Stripe's own exceptions (`5.00` UGX) are all read by our table, exactly.
//!
//! **Promise**: a kind of movement that we do not know is nobody's business, unless it carries a key of ours: then
//! the file is refused, since leaving it out could hide a charge. **Relies on** the column of metadata that carries
//! our key; a file without that column is refused, or every payment would look lost.

use super::csv_rows::{Row, Rows};
use super::format::StripeColumns;
use super::hand::{Draft, Hand, Known};
use super::report::{Report, Stopped};
use super::tap::Tap;
use super::totals::Columns;
use super::values;
use super::why::{At, Why};
use crate::domain::money::Currency;
use crate::domain::settlement::{Kind, Line, payment_of, refund_of};
use chrono::NaiveDate;
use std::io::BufRead;

/// What Stripe calls movements (`reporting_category`, or the older `type`), and what they are here.
const CATEGORIES: &[(&str, Kind)] = &[
    ("charge", Kind::Charge),
    ("payment", Kind::Charge),
    ("refund", Kind::Refund),
    ("payment_refund", Kind::Refund),
    ("partial_capture_reversal", Kind::Refund),
    ("refund_failure", Kind::Refund),
    ("payment_failure_refund", Kind::Refund),
    ("charge_failure", Kind::Chargeback),
    ("payment_reversal", Kind::Chargeback),
    ("dispute", Kind::Chargeback),
    ("dispute_reversal", Kind::Chargeback),
    ("fee", Kind::Fee),
    ("stripe_fee", Kind::Fee),
    ("stripe_fx_fee", Kind::Fee),
    ("network_cost", Kind::Fee),
    ("tax_fee", Kind::Fee),
    ("payout", Kind::Payout),
    ("payout_reversal", Kind::Payout),
    ("payout_cancel", Kind::Payout),
    ("payout_failure", Kind::Payout),
    ("topup", Kind::Payout),
    ("topup_reversal", Kind::Payout),
];

struct Places {
    key: usize,
    category: usize,
    currency: usize,
    gross: usize,
    fee: usize,
    net: usize,
    created: usize,
    source: usize,
    charge: Option<usize>,
    intent: Option<usize>,
    paid: Option<usize>,
    paid_currency: Option<usize>,
}

/// What a row comes to.
struct Read {
    draft: Draft,
    /// Gross as the account counts it.
    gross_minor: i64,
}

pub(super) fn read<R: BufRead, E, F: FnMut(Line) -> Result<(), E>>(
    tap: Tap<R>,
    mut hand: Hand<F>,
    columns: &StripeColumns,
) -> Result<Report, Stopped<E>> {
    let mut rows = Rows::open(tap)?;
    let at = places(&rows, columns)?;
    let name = |at: usize| (at, rows.name(at).to_owned());
    let mut totals = Columns::new(at.currency, vec![name(at.gross), name(at.fee), name(at.net)]);
    while let Some(row) = rows.next()? {
        if Columns::is_total(&row) {
            totals.hold(&row).at(row.at_line)?;
            continue;
        }
        let Read { draft, gross_minor } = draft(&row, &at).at(row.at_line)?;
        let amounts = [gross_minor, draft.fee_minor, draft.net_minor];
        totals.add(draft.net_currency, &amounts).at(row.at_line)?;
        hand.give(draft, row.at_line, row.raw_hash)?;
    }
    totals.finish(columns.totals).at(rows.line())?;
    Ok(hand.finish(Known { is_complete: true, ..Known::default() }, rows.into_tap()))
}

fn places<R: BufRead, E>(rows: &Rows<R>, columns: &StripeColumns) -> Result<Places, Stopped<E>> {
    Ok(Places {
        key: rows.column(&[&columns.key])?,
        category: rows.column(&["reporting_category", "Type"])?,
        currency: rows.column(&["currency", "Currency"])?,
        gross: rows.column(&["gross", "Amount"])?,
        fee: rows.column(&["fee", "Fee"])?,
        net: rows.column(&["net", "Net"])?,
        created: rows.column(&["created_utc", "Created (UTC)"])?,
        source: rows.column(&["source_id", "Source"])?,
        charge: rows.optional(&["charge_id"]),
        intent: rows.optional(&["payment_intent_id"]),
        paid: rows.optional(&["customer_facing_amount", "Customer Facing Amount"]),
        paid_currency: rows.optional(&["customer_facing_currency", "Customer Facing Currency"]),
    })
}

fn draft(row: &Row, at: &Places) -> Result<Read, Why> {
    let net_currency = values::currency("currency", row.cell(at.currency))?;
    let amount = |field: &str, at: usize| values::amount(field, row.cell(at), net_currency);
    let (gross_minor, fee_minor, net_minor) =
        (amount("gross", at.gross)?, amount("fee", at.fee)?, amount("net", at.net)?);
    if fee_minor.checked_add(net_minor) != Some(gross_minor) {
        return Err(Why::differs("fee and net together", &gross_minor, &fee_minor.saturating_add(net_minor)));
    }
    let key = row.optional(Some(at.key)).map(str::to_owned);
    let kind = kind(row.cell(at.category), key.as_deref())?;
    let (currency, asked_minor) = asked(row, at, (net_currency, gross_minor))?;
    let booked_on = created(row.cell(at.created))?;
    let source = row.optional(Some(at.source));
    let charge = row.optional(at.intent).or_else(|| row.optional(at.charge));
    let (gateway_ref, charge_ref) = match kind {
        // Whoever charges knows the intent's name or the charge's.
        Kind::Charge => {
            let other = row.optional(at.charge).or(source).filter(|other| Some(*other) != charge.or(source));
            (charge.or(source), other)
        }
        Kind::Refund | Kind::Chargeback => (source, charge),
        Kind::Fee | Kind::Payout | Kind::Other => (source, None),
    };
    let draft = Draft {
        key,
        gateway_ref: gateway_ref.map(str::to_owned),
        charge_ref: charge_ref.map(str::to_owned),
        kind,
        gross_minor: asked_minor,
        currency,
        fee_minor,
        net_minor,
        net_currency,
        booked_on,
        executed_on: Some(booked_on),
    };
    Ok(Read { draft, gross_minor })
}

/// What the customer paid, with the sign of what reached the account.
fn asked(
    row: &Row,
    at: &Places,
    (net_currency, gross_minor): (Currency, i64),
) -> Result<(Currency, i64), Why> {
    let (Some(paid), Some(code)) = (row.optional(at.paid), row.optional(at.paid_currency)) else {
        return Ok((net_currency, gross_minor));
    };
    let currency = values::currency("the customer's currency", code)?;
    if currency == net_currency {
        return Ok((net_currency, gross_minor));
    }
    let paid_minor = values::amount("the customer's amount", paid, currency)?;
    Ok((currency, paid_minor.abs() * gross_minor.signum()))
}

/// Without a zone beside it, it is UTC, as the column's name says.
fn created(text: &str) -> Result<NaiveDate, Why> {
    let moment = values::moment(text).and_then(|(clock, zone)| match zone {
        None => Some(clock.date()),
        Some(zone) => values::utc_day(clock, zone),
    });
    moment.or_else(|| values::day(text)).ok_or_else(|| Why::bad("the time of creation", text))
}

fn kind(category: &str, key: Option<&str>) -> Result<Kind, Why> {
    let known = CATEGORIES.iter().find(|(name, _)| *name == category).map(|(_, kind)| *kind);
    let is_ours = key.is_some_and(|key| payment_of(key).is_some() || refund_of(key).is_some());
    match known {
        Some(kind) => Ok(kind),
        None if category.is_empty() => Err(Why::missing("the kind of movement")),
        None if is_ours => Err(Why::UnknownKind { value: Why::shown(category) }),
        None => Ok(Kind::Other),
    }
}
