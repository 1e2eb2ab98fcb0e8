//! What people did about the money, and what may be done now: by the client, and by operators.
//!
//! What operators may do is asked of the API, if the key that is at hand may see it; otherwise the command that
//! shows it is named.

use super::told::{Payment, Row, money, second};
use super::{at, reconciled};
use crate::domain::state::Status;
use chrono::{DateTime, Utc};
use serde_json::Value;

/// What only operators are shown; absent where the key may not see it.
#[derive(Debug, Default)]
pub struct Operators {
    /// `GET /v1/ops/parked/{id}`
    pub parked: Option<Value>,
    /// `GET /v1/ops/refunds?paymentId=`
    pub refunds: Vec<Value>,
    /// `GET /v1/ops/reconciliation-items?paymentId=`
    pub items: Vec<Value>,
}

/// An amount in an object of the API, in major units.
fn amount(of: &Value, name: &str) -> String {
    of.get(name).and_then(Value::as_i64).map_or_else(String::new, |minor| money(minor, &at(of, "/currency")))
}

/// Money given back, as a row of history tells it.
pub(super) fn given_back(row: &Row, by: &str, said: &str) -> String {
    let detail = &row.detail;
    let (how_much, sum) = (amount(detail, "amount"), amount(detail, "refundedInSum"));
    let name = at(detail, "/refundReference");
    let name = if name.is_empty() { name } else { format!(" (the gateway's {name})") };
    let second_person = at(detail, "/approvedBy");
    let all = if row.to == Status::Refunded && row.from != Some(Status::Refunded) {
        " With that all of the charge is given back."
    } else {
        ""
    };
    let in_sum = if sum.is_empty() { sum } else { format!(" In sum {sum} of this charge are given back.") };
    match row.says("resolved") {
        Some("refunded") => format!(
            "{by} found{} that a refund of {how_much}{name} was made, and {second_person} agreed.{in_sum}{all}{said}",
            seen(detail)
        ),
        Some(_) => format!(
            "{by} found{} that a refund of {how_much} was not made and never will be, and {second_person} \
             agreed.{said}",
            seen(detail)
        ),
        None => format!(
            "{by} had {how_much} given back{name}, asked for by {} and allowed by {second_person}.{in_sum}{all}{said}",
            at(detail, "/askedBy")
        ),
    }
}

fn seen(detail: &Value) -> String {
    let source = at(detail, "/evidence/source");
    if source.is_empty() { source } else { format!(" in {source}") }
}

/// Each refund as it stands, for those who may see them.
pub(super) fn refunds(operators: &Operators) -> Vec<String> {
    let told = |refund: &Value| {
        let of = |pointer: &str| at(refund, pointer);
        let allowed = of("/approvedBy");
        let allowed = if allowed.is_empty() { allowed } else { format!(", allowed by {allowed}") };
        let waits = if refund["needsHuman"] == true { " It waits for people." } else { "" };
        format!(
            "Refund {} of {}: {}. Asked for by {}{allowed} ({}). {}{waits}",
            of("/refundId"),
            amount(refund, "amount"),
            of("/status"),
            of("/askedBy"),
            of("/reason"),
            of("/explanation"),
        )
    };
    operators.refunds.iter().map(told).collect()
}

/// What may be done now, and by whom.
pub(super) fn now(payment: &Payment, operators: &Operators) -> Vec<String> {
    let id = payment.payment_id;
    let mut lines = match payment.status {
        Status::Pending => {
            vec![format!("Until it is claimed the client can cancel it: `punctual payment cancel {id}`.")]
        }
        Status::Processing => vec!["It cannot be cancelled now, and nobody has to do anything.".to_owned()],
        Status::Unknown if payment.cancel_requested_at.is_some() => {
            vec!["The wish to cancel is recorded; nobody has to do anything.".to_owned()]
        }
        Status::Unknown => vec![
            "It cannot be cancelled as if nothing had happened. Where its gateway voids, the client's cancel is \
             recorded as a wish; elsewhere it is refused."
                .to_owned(),
        ],
        Status::Completed => vec![give_back(payment)],
        Status::Refunded => vec!["Nothing is left to do.".to_owned()],
        Status::Failed | Status::Cancelled => {
            vec!["To pay after all, the client makes a new payment under a new key.".to_owned()]
        }
        Status::Parked => {
            let mut lines = parked(payment, operators.parked.as_ref());
            lines.extend(payment.gateway_reference.is_some().then(|| give_back(payment)));
            lines
        }
    };
    let waiting = operators.refunds.iter().filter(|refund| refund["needsHuman"] == true);
    lines.extend(waiting.map(|refund| {
        let id = at(refund, "/refundId");
        format!(
            "Two operators say with evidence what became of a refund: `punctual refund resolve {id} --as …`."
        )
    }));
    lines.extend(reconciled::now(operators));
    lines
}

fn give_back(payment: &Payment) -> String {
    let reference = payment.gateway_reference.as_deref().unwrap_or("REFERENCE");
    let id = payment.payment_id;
    format!(
        "An operator can have it given back, whole or in part, with a second person: `punctual refund create {id} \
         --gateway-reference {reference}`."
    )
}

/// The acts on a parked payment, with the words for each, and what its command needs.
const ACTS: [(&str, &str, &str); 4] = [
    ("redrive", "release it for another try", "redrive ID --reason TEXT"),
    ("redrive_new_epoch", "release it under a new gateway key", "redrive ID --new-epoch --reason TEXT"),
    (
        "resolve_charged",
        "call it charged, with evidence",
        "resolve ID --as charged --gateway-reference REFERENCE --amount MINOR --currency CODE --source TEXT --reason TEXT",
    ),
    (
        "resolve_not_charged",
        "call it not charged, with evidence",
        "resolve ID --as not_charged --source TEXT --reason TEXT",
    ),
];

fn parked(payment: &Payment, record: Option<&Value>) -> Vec<String> {
    let id = payment.payment_id.to_string();
    let Some(record) = record else {
        return vec![format!("An operator decides: `punctual parked show {id}` says what may be done.")];
    };
    let mut lines: Vec<String> = ACTS
        .iter()
        .map(|(act, words, command)| {
            let command = command
                .replace("ID", &id)
                .replace("MINOR", &payment.amount.to_string())
                .replace("CODE", &payment.currency)
                .replace("REFERENCE", payment.gateway_reference.as_deref().unwrap_or("REFERENCE"));
            format!(
                "An operator may {words} (`punctual parked {command}`): {}.",
                may(record, act).trim_end_matches('.')
            )
        })
        .collect();
    if let Some(asked_at) = record.pointer("/approval/askedAt").and_then(Value::as_str) {
        let of = |pointer: &str| at(record, pointer);
        let asked_at = asked_at.parse::<DateTime<Utc>>().map_or(asked_at.to_owned(), second);
        lines.push(format!(
            "A second person is waited for: {} asked at {asked_at} for {} ({}); `punctual approvals show {}`.",
            of("/approval/askedBy"),
            of("/approval/kind"),
            of("/approval/reason"),
            of("/approval/approvalId"),
        ));
    }
    lines
}

/// The sentence for why an act is not possible, or nothing.
#[must_use]
pub fn why_not(may: &Value) -> String {
    let explanation = at(may, "/explanation");
    if explanation.is_empty() { at(may, "/whyNot") } else { explanation }
}

/// What the API says of an act: `yes`, whether it needs a second person, or why not.
#[must_use]
pub fn may(record: &Value, act: &str) -> String {
    let acts = record.get("may").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let Some(one) = acts.iter().find(|one| at(one, "/act") == act) else { return "no".to_owned() };
    match (one["possible"] == true, one["needsApproval"] == true) {
        (true, false) => "yes".to_owned(),
        (true, true) => "with a second person".to_owned(),
        (false, _) if is_charged_otherwise(record) && says_charged(one) => format!(
            "no: It was charged, and not as it was asked for, which nobody's word makes right: refund it: `{}`.",
            refund_command(record)
        ),
        (false, _) => format!("no: {}", why_not(one)),
    }
}

/// Whether money that the record shows can be asked back, with the command; the acts of `may` say that it was charged.
#[must_use]
pub fn refund(record: &Value) -> String {
    let mut acts = record.get("may").and_then(Value::as_array).into_iter().flatten();
    let is_charged = !at(record, "/gatewayReference").is_empty() || acts.any(says_charged);
    if is_charged {
        format!("yes, with a second person: `{}`", refund_command(record))
    } else {
        "no: No answer on record says that it was charged.".to_owned()
    }
}

fn refund_command(record: &Value) -> String {
    let reference = at(record, "/gatewayReference");
    let reference = if reference.is_empty() { "REFERENCE" } else { &reference };
    format!(
        "punctual refund create {} --gateway-reference {reference} --reason TEXT",
        at(record, "/paymentId")
    )
}

/// The charge took another amount than asked: then each act refers to another that is refused too.
fn is_charged_otherwise(record: &Value) -> bool {
    let mut acts = record.get("may").and_then(Value::as_array).into_iter().flatten();
    acts.any(|one| at(one, "/act") == "resolve_charged" && at(one, "/whyNot") == "amount_differs")
}

/// An act that is refused because of a charge.
fn says_charged(may: &Value) -> bool {
    ["charge_on_record", "amount_differs"].contains(&at(may, "/whyNot").as_str())
}

#[cfg(test)]
#[path = "people_tests.rs"]
mod tests;
