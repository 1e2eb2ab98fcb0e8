//! Reports, differences and sums as JSON: what the API answers, and what `punctual reconcile run` prints.

use crate::domain::ids::GatewayName;
use crate::domain::matching::Class;
use crate::intake::utc;
use crate::schedule::{
    BookSum, DaySum, Difference, ReconciliationItem, ReconciliationRun, ReconciliationStanding,
};
use chrono::NaiveDate;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One report, with what comparing its day counted last.
#[must_use]
pub fn run(run: &ReconciliationRun) -> Value {
    json!({
        "reconciliationId": run.id,
        "gateway": run.gateway,
        "day": run.day.to_string(),
        "format": run.format,
        "options": run.options,
        "source": run.source,
        "sha256": hex::encode(run.sha256),
        "status": run.status.as_str(),
        "complete": run.is_complete,
        "lines": run.lines,
        "counts": run.counts,
        "sums": run.sums,
        "askedBy": run.asked_by,
        "seenAt": utc(run.seen_at),
        "startedAt": utc(run.started_at),
        "finishedAt": run.finished_at.map(utc),
        "supersededBy": run.superseded_by,
        "withdrawnAt": run.withdrawn_at.map(utc),
        "note": run.note,
    })
}

/// One difference, as it is kept.
#[must_use]
pub fn item(item: &ReconciliationItem) -> Value {
    let kept = json!({
        "itemId": item.number,
        "reconciliationId": item.run,
        "explanation": item.what.class.explanation(),
        "advice": advice(item.what.class),
        "firstSeenAt": utc(item.first_seen_at),
        "lastSeenAt": utc(item.last_seen_at),
        "notRepaired": item.not_repaired,
        "decidedBy": item.decided_by,
        "decidedAt": item.decided_at.map(utc),
        "reason": item.decided_reason,
    });
    joined(found(&item.gateway, item.day, &item.what), kept)
}

/// One difference that a trial found: it has no number, since nothing of it is kept.
#[must_use]
pub fn found(gateway: &GatewayName, day: NaiveDate, what: &Difference) -> Value {
    json!({
        "gateway": gateway,
        "day": day.to_string(),
        "class": what.class.as_str(),
        "status": what.status.as_str(),
        "paymentId": what.payment,
        "refundId": what.refund,
        "key": what.key,
        "gatewayReference": what.reference,
        "field": what.field,
        "ours": what.ours,
        "theirs": what.theirs,
        "amount": what.amount_minor,
        "currency": what.currency,
        "line": line(&what.evidence),
        "lineSha256": hash(&what.evidence),
    })
}

/// The members of both objects.
fn joined(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

/// Where a person looks in the file: its line, or the number of the movement.
fn line(evidence: &Value) -> Option<i64> {
    ["atLine", "line"].iter().find_map(|name| evidence.get(name).and_then(Value::as_i64))
}

/// The digest of the line's own bytes.
fn hash(evidence: &Value) -> Option<&str> {
    ["rawHash", "hash"].iter().find_map(|name| evidence.get(name).and_then(Value::as_str))
}

/// What people do about a difference of this class first; the README has more of it.
pub(super) fn advice(class: Class) -> &'static str {
    match class {
        Class::MissingHere => {
            "Repair it: the gateway's line is the evidence. If the client must not pay, repair first and refund then."
        }
        Class::MissingThere => {
            "Look the reference up at the gateway. Charged there: ask for a new report. Not charged there: stop the \
             gateway and call them."
        }
        Class::AmountMismatch | Class::CurrencyMismatch => {
            "Talk to the gateway, and give back what was taken too much. Many by one factor: stop the gateway, a \
             currency's exponent is wrong."
        }
        Class::DuplicateCharge => {
            "Stop the gateway, refund the second reference, and run `punctual audit check` with the gateway's ledger."
        }
        Class::Late => "Nothing: there is time left.",
        Class::RefundMismatch => {
            "Find out who gave or took it back. Given back there and unknown here: repair it, by two people, so that it is \
             not given back again. A chargeback: handle the case, then dismiss this."
        }
        Class::Foreign => "Find out who else uses the account; a system that you know: dismiss it.",
    }
}

/// How one gateway's reconciliation stands.
pub(super) fn standing(standing: &ReconciliationStanding) -> Value {
    json!({
        "gateway": standing.gateway,
        "lastDay": standing.last_day.map(|day| day.to_string()),
        "lastSuccessAt": standing.last_success_at.map(utc),
        "open": by_class(&standing.open),
        "waiting": standing.waiting,
    })
}

/// Numbers under the names of their classes.
pub(crate) fn by_class<N: Copy + Into<Value>>(counts: &BTreeMap<Class, N>) -> Value {
    let pairs = counts.iter().map(|(class, count)| (class.as_str().to_owned(), (*count).into()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// How the payments that are due on a day add up in every book.
#[must_use]
pub fn sum(gateway: &GatewayName, day: NaiveDate, sum: &DaySum) -> Value {
    json!({
        "day": day.to_string(),
        "gateway": gateway,
        "currency": sum.currency,
        "payments": book(sum.payments),
        "attempts": book(sum.attempts),
        "byWord": book(sum.by_word),
        "ledger": book(sum.ledger),
        "settlement": book(sum.settlement),
        "givenBack": book(sum.given_back),
        "late": book(sum.late),
        "apart": !sum.is_even(),
    })
}

fn book(sum: BookSum) -> Value {
    json!({"count": sum.count, "amount": sum.minor})
}
