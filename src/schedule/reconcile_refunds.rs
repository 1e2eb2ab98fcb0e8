//! One day's lines of refunds against what we gave back, both ways, some hundred payments at a time.
//!
//! **Promises.** Every line and every refund of a payment is looked at, on whatever days they stand, and judged by
//! `domain/matching_refunds.rs`: a second line of one refund is named on its own day, whichever day is compared, and a
//! refund of the day that no line is waits for one. Reads only, but for what a line of today explains.
//!
//! If this dies here, nothing of it is lost; the next comparison looks at all of it again.

use super::reconcile::Difference;
use super::reconcile_compare::{Ground, begin_of, earlier, later};
use super::reconcile_found::{Found, Sink};
use super::row::{parsed, required_hash};
use super::statements;
use crate::domain::ids::PaymentId;
use crate::domain::matching::{Class, ItemStatus};
use crate::domain::matching_refunds::{Asked, Given, Judged, judge};
use crate::domain::refund::{RefundId, RefundStatus};
use chrono::{DateTime, NaiveDate, Utc};
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, Row};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Payments that are judged at once.
const AT_ONCE: usize = 500;

/// A refund of ours, with what items say of it.
struct OurRefund {
    asked: Asked,
    status: RefundStatus,
    finished_at: Option<DateTime<Utc>>,
}

/// A line, with what items say of it.
struct TheirLine {
    given: Given,
    key: Option<String>,
    /// Of the charge that it gives back, where that is known.
    payment: Option<Uuid>,
    net_expected: i64,
    net_minor: i64,
    evidence: Value,
}

/// Everything of some payments, by payment. What names no payment of ours is under the id that it names.
#[derive(Default)]
struct Books {
    refunds: BTreeMap<Uuid, Vec<OurRefund>>,
    lines: BTreeMap<Uuid, Vec<TheirLine>>,
}

/// What is to be read of some payments.
#[derive(Default)]
struct Names {
    /// Payments and their refunds: a key may be of either.
    ids: Vec<Uuid>,
    /// Of refunds, with the payment.
    payment_of: BTreeMap<Uuid, Uuid>,
    payment_of_name: BTreeMap<String, Uuid>,
    first_sent_on: Option<NaiveDate>,
}

/// Judges the refunds of the day; answers those that no line was before, with the line that is it now.
pub(super) async fn compare(
    reading: &mut PgConnection,
    ground: &Ground,
    of_day: &[Uuid],
    sink: &mut Sink<'_>,
) -> Result<Vec<(Uuid, Value)>, Error> {
    let order = &ground.order;
    let payments: Vec<Uuid> = sqlx::query_scalar(statements::REFUND_PAYMENTS)
        .bind(order.day)
        .bind(of_day)
        .bind(&order.gateway.0)
        .bind(begin_of(order.day))
        .bind(begin_of(later(order.day, 1)))
        .fetch_all(&mut *reading)
        .await?;
    let mut found = Vec::new();
    for some in payments.chunks(AT_ONCE) {
        let books = read(reading, ground, of_day, some).await?;
        for payment in some {
            let (refunds, lines) = (books.refunds.get(payment), books.lines.get(payment));
            let refunds = refunds.map_or(&[][..], Vec::as_slice);
            let lines = lines.map_or(&[][..], Vec::as_slice);
            found.extend(compare_one(order.day, refunds, lines, *payment, sink).await?);
        }
    }
    Ok(found)
}

async fn read(
    reading: &mut PgConnection,
    ground: &Ground,
    of_day: &[Uuid],
    payments: &[Uuid],
) -> Result<Books, Error> {
    let (day, gateway) = (ground.order.day, &ground.order.gateway.0);
    let mut books = Books::default();
    let mut names = Names { ids: payments.to_vec(), ..Names::default() };
    let refunds = sqlx::query(statements::REFUNDS_OF_PAYMENTS).bind(gateway).bind(payments);
    for row in refunds.fetch_all(&mut *reading).await? {
        let payment: Uuid = row.try_get("payment_id")?;
        let refund = refund(&row)?;
        names.ids.push(refund.asked.id);
        names.payment_of.insert(refund.asked.id, payment);
        if let Some(name) = &refund.asked.reference {
            names.payment_of_name.insert(name.clone(), payment);
        }
        let sent_on = row.try_get::<DateTime<Utc>, _>("sent_at")?.date_naive();
        names.first_sent_on = Some(names.first_sent_on.map_or(sent_on, |first| first.min(sent_on)));
        books.refunds.entry(payment).or_default().push(refund);
    }
    // A gateway's day may have begun before ours.
    let first = names.first_sent_on.map_or(day, |first| earlier(first, 1)).min(day);
    let lines = sqlx::query(statements::REFUND_LINES)
        .bind(day)
        .bind(of_day)
        .bind(gateway)
        .bind(first)
        .bind(&names.ids)
        .bind(payments)
        .bind(names.payment_of_name.keys().collect::<Vec<_>>());
    for row in lines.fetch_all(&mut *reading).await? {
        let line = line(&row)?;
        let by_key = line.given.named.and_then(|named| names.payment_of.get(&named).copied());
        // As domain/matching_refunds.rs: what a bank calls its entry is no refund's name.
        let name = line.given.reference.as_ref().filter(|_| line.given.has_own_name);
        let by_name = name.and_then(|name| names.payment_of_name.get(name).copied());
        if let Some(payment) = by_key.or(by_name).or(line.payment).or(line.given.named) {
            books.lines.entry(payment).or_default().push(line);
        }
    }
    Ok(books)
}

async fn compare_one(
    day: NaiveDate,
    refunds: &[OurRefund],
    lines: &[TheirLine],
    payment: Uuid,
    sink: &mut Sink<'_>,
) -> Result<Vec<(Uuid, Value)>, Error> {
    let asked: Vec<Asked> = refunds.iter().map(|refund| refund.asked.clone()).collect();
    let given: Vec<Given> = lines.iter().map(|line| line.given.clone()).collect();
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for judged in judge(&given, &asked) {
        let Some(line) = lines.get(judged.line) else { continue };
        let refund = judged.refund.and_then(|at| refunds.get(at));
        if let Some(refund) = refund.filter(|_| line.given.gross_minor < 0)
            && seen.insert(refund.asked.id)
        {
            found.push((refund.asked.id, line.evidence.clone()));
        }
        // Of other days' lines only what these lines make of them.
        let is_told = line.given.day == day || judged.field == Some("times");
        if let Some(field) = judged.field.filter(|_| is_told) {
            // A key of nobody's may name anything.
            let payment = line.payment.or_else(|| (!refunds.is_empty()).then_some(payment));
            sink.take(of_line(field, &judged, line, refund, payment)).await?;
        }
    }
    for refund in refunds {
        let is_of_day = refund.finished_at.is_some_and(|at| at.date_naive() == day);
        if is_of_day && refund.asked.is_done && !seen.contains(&refund.asked.id) {
            sink.take(without_line(day, refund, payment, sink.of_ours())).await?;
        }
    }
    Ok(found)
}

fn of_line(
    field: &'static str,
    judged: &Judged,
    line: &TheirLine,
    refund: Option<&OurRefund>,
    payment: Option<Uuid>,
) -> Found {
    let given = &line.given;
    let ours = match field {
        "times" => Some("1".to_owned()),
        "status" => refund.map(|refund| refund.status.as_str().to_owned()),
        "currency" => refund.map(|refund| refund.asked.currency.clone()),
        "amount" => refund.map(|refund| format!("-{}", refund.asked.given_minor)),
        "net" => Some(line.net_expected.to_string()),
        _ => None,
    };
    let theirs = match field {
        "times" => judged.nth.to_string(),
        "currency" => given.currency.clone(),
        "amount" => given.gross_minor.to_string(),
        "net" => line.net_minor.to_string(),
        "returned" => "returned".to_owned(),
        _ => "refunded".to_owned(),
    };
    let is_alike = field == "times" || judged.copy > 1;
    let difference = Difference {
        class: Class::RefundMismatch,
        // As its day stands.
        status: ItemStatus::Open,
        payment: payment.and_then(named),
        refund: refund.map(|refund| RefundId(refund.asked.id)),
        key: line.key.clone(),
        reference: given.reference.clone(),
        field: field.to_owned(),
        ours,
        theirs: Some(theirs),
        amount_minor: Some(given.gross_minor),
        currency: Some(given.currency.clone()),
        evidence: line.evidence.clone(),
    };
    let apart = is_alike.then(|| format!("{} {}", given.booked_on, judged.copy));
    Found { day: given.day, apart, difference, has_line: true }
}

/// Lines and refunds name no others: both were read as ids of payments.
fn named(payment: Uuid) -> Option<PaymentId> {
    PaymentId::from_uuid(payment).ok()
}

fn without_line(day: NaiveDate, refund: &OurRefund, payment: Uuid, status: ItemStatus) -> Found {
    let asked = &refund.asked;
    let difference = Difference {
        class: Class::RefundMismatch,
        status,
        payment: named(payment),
        refund: Some(RefundId(asked.id)),
        key: None,
        reference: asked.reference.clone(),
        field: "line".to_owned(),
        ours: Some("refunded".to_owned()),
        theirs: None,
        amount_minor: asked.given_minor.checked_neg(),
        currency: Some(asked.currency.clone()),
        evidence: Value::Object(serde_json::Map::new()),
    };
    Found { day, apart: None, difference, has_line: false }
}

fn refund(row: &PgRow) -> Result<OurRefund, Error> {
    let status = parsed(row, "status", RefundStatus::from_text)?;
    Ok(OurRefund {
        asked: Asked {
            id: row.try_get("id")?,
            is_done: status == RefundStatus::Refunded,
            reference: row.try_get("gateway_ref")?,
            given_minor: row.try_get("given_minor")?,
            currency: row.try_get("currency")?,
        },
        status,
        finished_at: row.try_get("finished_at")?,
    })
}

fn line(row: &PgRow) -> Result<TheirLine, Error> {
    let (run, day, number) = (row.try_get("run_id")?, row.try_get("report_day")?, row.try_get("number")?);
    let evidence = super::reconcile_found::evidence(
        run,
        day,
        number,
        row.try_get("at_line")?,
        &required_hash(row, "raw_hash")?,
    );
    Ok(TheirLine {
        given: Given {
            format: row.try_get("format")?,
            run,
            day,
            number,
            named: row.try_get("named_id")?,
            reference: row.try_get("reference")?,
            has_own_name: row.try_get("own_name")?,
            row_name: row.try_get("name")?,
            gross_minor: row.try_get("gross_minor")?,
            currency: row.try_get("currency")?,
            booked_on: row.try_get("booked_on")?,
            adds_up: row.try_get("adds_up")?,
        },
        key: row.try_get("key")?,
        payment: row.try_get("payment_id")?,
        net_expected: row.try_get("net_expected")?,
        net_minor: row.try_get("net_minor")?,
        evidence,
    })
}
