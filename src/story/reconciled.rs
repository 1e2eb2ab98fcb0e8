//! What the gateway's own report says of a payment: as its history tells it, and as items that stand beside it.
//!
//! Items are for operators: where the key may not see them nothing is said, and nothing is guessed.

use super::at;
use super::people::Operators;
use super::told::{Payment, Row, money, second};
use chrono::{DateTime, Utc};
use serde_json::Value;

/// The line of the report, as the history of a repair has it; empty where it names none.
pub(super) fn line(row: &Row) -> String {
    let of = |name: &str| {
        let nested = at(&row.detail, &format!("/evidence/{name}"));
        if nested.is_empty() { at(&row.detail, &format!("/{name}")) } else { nested }
    };
    // Where a person looks in the file; else the number of the movement.
    let number = if of("atLine").is_empty() { of("line") } else { of("atLine") };
    let (day, reference) = (of("day"), of("gatewayReference"));
    let reference = if reference.is_empty() { at(&row.detail, "/reference") } else { reference };
    let bank = at(&row.detail, "/bankReference");
    let parts = [("of ", day), ("line ", number), ("reference ", reference), ("the bank's reference ", bank)];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}{value}"))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" It is the report {}.", parts.join(", ")) }
}

/// Each item of the payment as it stands, the newest last.
pub(super) fn items(operators: &Operators) -> Vec<String> {
    operators.items.iter().map(item).collect()
}

fn item(item: &Value) -> String {
    let of = |name: &str| at(item, &format!("/{name}"));
    let values = match (of("field"), of("ours"), of("theirs")) {
        (field, _, _) if field.is_empty() => String::new(),
        (field, ours, theirs) => format!(", {field} ours {}, theirs {}", or_none(ours), or_none(theirs)),
    };
    let line = of("line");
    let line = if line.is_empty() { line } else { format!(" (line {line})") };
    let stake = item.get("amount").and_then(Value::as_i64).filter(|minor| *minor != 0);
    let stake = stake
        .map_or_else(String::new, |minor| format!(", {} at stake", of_either_sign(minor, &of("currency"))));
    let decided = match (of("decidedBy"), of("reason")) {
        (by, _) if by.is_empty() => String::new(),
        (by, reason) => {
            let when = of("decidedAt")
                .parse::<DateTime<Utc>>()
                .map_or_else(|_| String::new(), |at| format!(" at {}", second(at)));
            format!(
                " Decided by {by}{when}{}.",
                if reason.is_empty() { reason } else { format!(" ({reason})") }
            )
        }
    };
    format!(
        "The gateway's report of {}{line} does not agree: {}{values}{stake}. It is {}.{decided}",
        of("day"),
        of("class"),
        of("status")
    )
}

fn or_none(value: String) -> String {
    if value.is_empty() { "nothing".to_owned() } else { value }
}

fn of_either_sign(minor: i64, currency: &str) -> String {
    if minor < 0 { format!("-{}", money(minor.saturating_neg(), currency)) } else { money(minor, currency) }
}

/// What an operator may do about those that are open.
pub(super) fn now(operators: &Operators) -> Vec<String> {
    let open = operators.items.iter().filter(|item| item["status"] == "open");
    open.map(|item| {
        let id = at(item, "/itemId");
        format!(
            "An operator decides what the report shows: `punctual reconcile item {id}` says what may be done."
        )
    })
    .collect()
}

/// Whether a report can speak of it yet: nothing was sent before it was due.
pub fn may_be_reported(payment: &Payment) -> bool {
    !payment.attempts.is_empty() || payment.status.is_final()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(items: Vec<Value>) -> Operators {
        Operators { items, ..Operators::default() }
    }

    #[test]
    fn an_item_is_told_with_both_values_its_line_and_where_it_stands() {
        let open = json!({"itemId": 1, "day": "2030-01-31", "class": "amount_mismatch", "status": "open",
            "field": "amount", "ours": "1250", "theirs": "1249", "amount": -1, "currency": "EUR", "line": 17});
        let done = json!({"itemId": 2, "day": "2030-01-31", "class": "missing_there", "status": "dismissed",
            "decidedBy": "key:alice", "decidedAt": "2030-02-01T08:00:00.5Z", "reason": "paid by hand",
            "amount": 1_250, "currency": "EUR"});
        let both = told(vec![open, done]);
        assert_eq!(
            items(&both),
            [
                "The gateway's report of 2030-01-31 (line 17) does not agree: amount_mismatch, amount ours 1250, theirs \
                 1249, -0.01 EUR at stake. It is open.",
                "The gateway's report of 2030-01-31 does not agree: missing_there, 12.50 EUR at stake. It is dismissed. \
                 Decided by key:alice at 2030-02-01T08:00:00Z (paid by hand).",
            ]
        );
        let may = now(&both);
        assert!(may.len() == 1 && may[0].contains("`punctual reconcile item 1`"), "{may:?}");
    }

    #[test]
    fn a_repair_names_the_line_that_proves_it() {
        let row = |detail: Value| -> Row {
            serde_json::from_value(json!({
                "seq": 4, "from": "UNKNOWN", "to": "COMPLETED", "cause": "reconciled", "by": "keeper", "fence": 1,
                "attempt": 1, "epoch": 0, "at": "2030-02-01T04:00:00Z", "detail": detail,
            }))
            .unwrap()
        };
        let whole = json!({"evidence": {"day": "2030-01-31", "line": 16, "atLine": 17}, "reference": "ch_7"});
        assert_eq!(line(&row(whole)), " It is the report of 2030-01-31, line 17, reference ch_7.");
        assert_eq!(
            line(&row(json!({"line": 3, "reference": "ch_8"}))),
            " It is the report line 3, reference ch_8."
        );
        let bank = json!({"evidence": {"day": "2030-01-31", "line": 16}, "bankReference": "B-7"});
        assert_eq!(line(&row(bank)), " It is the report of 2030-01-31, line 16, the bank's reference B-7.");
        assert_eq!(line(&row(json!({}))), "");
    }
}
