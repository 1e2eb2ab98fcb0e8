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

/// The acts on a parked payment, with the words for each.
const ACTS: [(&str, &str, &str); 4] = [
    ("redrive", "release it for another try", "redrive ID"),
    ("redrive_new_epoch", "release it under a new gateway key", "redrive ID --new-epoch"),
    ("resolve_charged", "call it charged, with evidence", "resolve ID --as charged"),
    ("resolve_not_charged", "call it not charged, with evidence", "resolve ID --as not_charged"),
];

fn parked(payment: &Payment, record: Option<&Value>) -> Vec<String> {
    let id = payment.payment_id.to_string();
    let Some(record) = record else {
        return vec![format!("An operator decides: `punctual parked show {id}` says what may be done.")];
    };
    let mut lines: Vec<String> = ACTS
        .iter()
        .map(|(act, words, command)| {
            let command = command.replace("ID", &id);
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
        (false, _) => format!("no: {}", why_not(one)),
    }
}

#[cfg(test)]
#[path = "people_tests.rs"]
mod tests;
