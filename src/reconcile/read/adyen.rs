//! Adyen's settlement details report: CSV, one row a movement of a batch, closed by the payout.
//!
//! Gross stands in the currency that the shopper paid (`GC`), net and fees in the account's (`NC`), each in a column
//! of debits and one of credits, of which one is filled. Which of them is a charge is configured. The clock of each
//! row is named beside it.
//!
//! **Promises**: gross, fees and net agree to the minor unit where they are of one currency; a zone's name that means
//! several clocks is refused, since it moves bookings to another day. As with Stripe, an unknown type under a key of
//! ours refuses the file.

use super::csv_rows::{Row, Rows};
use super::format::{AdyenColumns, Side};
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

/// What Adyen calls movements, and what they are here where charges are credited.
const TYPES: &[(&str, Kind)] = &[
    ("Settled", Kind::Charge),
    ("SettledBulk", Kind::Charge),
    ("SettledInInstallments", Kind::Charge),
    ("Refunded", Kind::Refund),
    ("RefundedBulk", Kind::Refund),
    ("RefundedReversed", Kind::Refund),
    ("Chargeback", Kind::Chargeback),
    ("SecondChargeback", Kind::Chargeback),
    ("ChargebackReversed", Kind::Chargeback),
    ("Fee", Kind::Fee),
    ("MiscCosts", Kind::Fee),
    ("PaymentCost", Kind::Fee),
    ("InvoiceDeduction", Kind::Fee),
    ("MerchantPayout", Kind::Payout),
    ("Balancetransfer", Kind::Payout),
    ("DepositCorrection", Kind::Other),
    ("MatchedStatement", Kind::Other),
    ("ManualCorrected", Kind::Other),
    ("BankInstructionReturned", Kind::Other),
    ("EpaPaid", Kind::Other),
    ("PaidOut", Kind::Other),
    ("PaidOutReversed", Kind::Other),
];

/// The same where charges are debited: money is paid out.
const TYPES_OF_DEBITS: &[(&str, Kind)] = &[
    ("PaidOut", Kind::Charge),
    ("PaidOutReversed", Kind::Chargeback),
    ("Settled", Kind::Other),
    ("SettledBulk", Kind::Other),
    ("SettledInInstallments", Kind::Other),
];

struct Places {
    key: usize,
    refund_key: Option<usize>,
    reference: usize,
    modification: Option<usize>,
    kind: usize,
    created: usize,
    zone: usize,
    booked: Option<usize>,
    booked_zone: Option<usize>,
    gross_currency: usize,
    /// Debit and credit.
    gross: (usize, usize),
    net_currency: usize,
    net: (usize, usize),
    fees: Vec<(usize, String)>,
}

pub(super) fn read<R: BufRead, E, F: FnMut(Line) -> Result<(), E>>(
    tap: Tap<R>,
    mut hand: Hand<F>,
    columns: &AdyenColumns,
) -> Result<Report, Stopped<E>> {
    let mut rows = Rows::open(tap)?;
    let at = places(&rows, columns)?;
    let name = |at: usize| (at, rows.name(at).to_owned());
    let mut totals = Columns::new(at.net_currency, vec![name(at.net.0), name(at.net.1)]);
    while let Some(row) = rows.next()? {
        if Columns::is_total(&row) {
            totals.hold(&row).at(row.at_line)?;
            continue;
        }
        let draft = draft(&row, &at, columns).at(row.at_line)?;
        let credited = by_side(draft.net_minor, columns.charges);
        let amounts = [(-credited).max(0), credited.max(0)];
        totals.add(draft.net_currency, &amounts).at(row.at_line)?;
        hand.give(draft, row.at_line, row.raw_hash)?;
    }
    totals.finish(columns.totals).at(rows.line())?;
    Ok(hand.finish(Known { is_complete: true, ..Known::default() }, rows.into_tap()))
}

fn places<R: BufRead, E>(rows: &Rows<R>, columns: &AdyenColumns) -> Result<Places, Stopped<E>> {
    Ok(Places {
        key: rows.column(&[&columns.key])?,
        refund_key: rows.optional(&[&columns.refund_key]),
        reference: rows.column(&["Psp Reference"])?,
        modification: rows.optional(&["Modification Reference"]),
        kind: rows.column(&["Type"])?,
        created: rows.column(&["Creation Date"])?,
        zone: rows.column(&["TimeZone"])?,
        booked: rows.optional(&["Booking Date"]),
        booked_zone: rows.optional(&["Booking Date TimeZone", "Booking Date Time Zone"]),
        gross_currency: rows.column(&["Gross Currency"])?,
        gross: (rows.column(&["Gross Debit (GC)"])?, rows.column(&["Gross Credit (GC)"])?),
        net_currency: rows.column(&["Net Currency"])?,
        net: (rows.column(&["Net Debit (NC)"])?, rows.column(&["Net Credit (NC)"])?),
        fees: columns.fees.iter().filter_map(|name| Some((rows.optional(&[name])?, name.clone()))).collect(),
    })
}

/// As credited to the account, or as debited; its own inverse.
fn by_side(amount: i64, charges: Side) -> i64 {
    match charges {
        Side::Credit => amount,
        Side::Debit => -amount,
    }
}

fn draft(row: &Row, at: &Places, columns: &AdyenColumns) -> Result<Draft, Why> {
    let net_currency = values::currency("Net Currency", row.cell(at.net_currency))?;
    let net_minor = one_of(row, at.net, "net", net_currency)?.map(|net| by_side(net, columns.charges));
    let gross = match row.optional(Some(at.gross_currency)) {
        Some(code) => {
            let currency = values::currency("Gross Currency", code)?;
            one_of(row, at.gross, "gross", currency)?.map(|gross| (currency, by_side(gross, columns.charges)))
        }
        None => None,
    };
    // What is left of an amount that its fees ate up may stand there as nothing.
    let net_minor = net_minor.or(gross.map(|_| 0)).ok_or_else(|| Why::missing("the net amount"))?;
    let fee_minor = fee(row, at, columns.charges, gross, (net_currency, net_minor))?;
    // Fees, payouts and corrections of the account have no gross.
    let (currency, gross_minor) = gross.unwrap_or((net_currency, net_minor));
    let own = row.optional(Some(at.key));
    let refund = row.optional(at.refund_key).filter(|key| refund_of(key).is_some());
    let kind = kind(row.cell(at.kind), own, columns.charges)?;
    let (psp, modification) = (row.optional(Some(at.reference)), row.optional(at.modification));
    let (key, gateway_ref, charge_ref) = match kind {
        Kind::Charge => (own, psp, None),
        Kind::Refund => (refund.or(own), modification.or(psp), psp),
        Kind::Chargeback => (own, modification.or(psp), psp),
        Kind::Fee | Kind::Payout | Kind::Other => (own, modification.or(psp), None),
    };
    let executed_on = on(row, at.created, Some(at.zone))?;
    let booked_on = match at.booked.filter(|at| !row.cell(*at).is_empty()) {
        Some(booked) => on(row, booked, at.booked_zone.or(Some(at.zone)))?,
        None => executed_on,
    };
    Ok(Draft {
        key: key.map(str::to_owned),
        gateway_ref: gateway_ref.map(str::to_owned),
        charge_ref: charge_ref.map(str::to_owned),
        kind,
        gross_minor,
        currency,
        fee_minor,
        net_minor,
        net_currency,
        booked_on,
        executed_on: Some(executed_on),
    })
}

/// Credit less debit; `None` if neither is filled.
fn one_of(
    row: &Row,
    (debit, credit): (usize, usize),
    what: &str,
    currency: Currency,
) -> Result<Option<i64>, Why> {
    let field = |side: &str| format!("the {what} {side}");
    let read = |at: usize, side: &str| match row.optional(Some(at)) {
        None => Ok(None),
        Some(text) if text.starts_with('-') => Err(Why::bad(&field(side), text)),
        Some(text) => values::amount(&field(side), text, currency).map(Some),
    };
    match (read(debit, "debit")?, read(credit, "credit")?) {
        (Some(debit), Some(credit)) if debit != 0 && credit != 0 => {
            Err(Why::Twice { field: format!("the {what} amount, as debit and as credit,") })
        }
        (None, None) => Ok(None),
        (debit, credit) => Ok(Some(credit.unwrap_or(0) - debit.unwrap_or(0))),
    }
}

/// What the columns of fees come to, held against gross and net where those are of one currency.
fn fee(
    row: &Row,
    at: &Places,
    charges: Side,
    gross: Option<(Currency, i64)>,
    (net_currency, net_minor): (Currency, i64),
) -> Result<i64, Why> {
    // Where there is no gross, the net is the fee, and its columns may say so once more.
    let Some((currency, gross_minor)) = gross else { return Ok(0) };
    let mut told = None;
    for (at, name) in &at.fees {
        let Some(text) = row.optional(Some(*at)) else { continue };
        let fee = values::amount(name, text, net_currency)?;
        let sum = told.unwrap_or(0_i64).checked_add(fee);
        told = Some(sum.ok_or_else(|| Why::TooLarge { what: "the sum of the fees".into() })?);
    }
    let told = told.map(|fees| by_side(fees, charges));
    if currency != net_currency {
        return Ok(told.unwrap_or(0));
    }
    let between = gross_minor.checked_sub(net_minor);
    let between = between.ok_or_else(|| Why::TooLarge { what: "what lies between gross and net".into() })?;
    match told {
        Some(told) if told != between => Err(Why::differs("the fees", &told, &between)),
        _ => Ok(between),
    }
}

fn on(row: &Row, at: usize, zone_at: Option<usize>) -> Result<NaiveDate, Why> {
    let text = row.cell(at);
    let bad = || Why::bad("the date", text);
    let (clock, written) = values::moment(text).ok_or_else(bad)?;
    let zone = match (written, row.optional(zone_at)) {
        (Some(zone), _) => zone,
        (None, Some(name)) => values::zone("TimeZone", name)?,
        (None, None) => return Err(Why::missing("the zone of the date")),
    };
    values::utc_day(clock, zone).ok_or_else(bad)
}

fn kind(name: &str, key: Option<&str>, charges: Side) -> Result<Kind, Why> {
    let find = |types: &[(&str, Kind)]| types.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
    let known = match charges {
        Side::Credit => find(TYPES),
        Side::Debit => find(TYPES_OF_DEBITS).or_else(|| find(TYPES)),
    };
    match known {
        Some(kind) => Ok(kind),
        None if name.is_empty() => Err(Why::missing("the type")),
        None if key.is_some_and(|key| payment_of(key).is_some()) => {
            Err(Why::UnknownKind { value: Why::shown(name) })
        }
        None => Ok(Kind::Other),
    }
}
