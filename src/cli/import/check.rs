//! `import --dry-run`: every row read and checked as far as that can be done without the API.
//!
//! It finds what is wrong with a file before anything is sent: shapes, instants without an offset, amounts
//! that are no whole minor units, currencies that do not exist. The rules of the installation (horizon,
//! largest amount, gateways) and of other payments (keys, external ids) only the API knows.

use super::rejects::Why;
use super::source::{Draft, Source};
use crate::cli::Ended;
use crate::cli::output::{Column, Face, List, Output, Reader, at, say};
use crate::domain::money::Currency;
use crate::platform::exit::Exit;
use chrono::{DateTime, FixedOffset};
use serde_json::{Value, json};

const COLUMNS: &[Column] = &[
    Column { head: "LINE", of: |item| at(item, "/line") },
    Column { head: "CODE", of: |item| at(item, "/code") },
    Column { head: "DETAIL", of: |item| at(item, "/detail") },
];

/// Names of the request, of any place.
const NAMES: [&str; 11] = [
    "payee",
    "amount",
    "currency",
    "dueAt",
    "executeBefore",
    "executeWithin",
    "gateway",
    "externalId",
    "description",
    "metadata",
    "retry",
];

/// Reads all rows and prints those that would be rejected.
///
/// # Errors
/// [`Exit::Failed`] if there are any.
pub(super) fn dry_run(source: Source, output: Output) -> Result<(), Ended> {
    let mut list = List::new(output, Face::of_stdout(), COLUMNS);
    let (mut rows, mut rejected) = (0_u64, 0_u64);
    let mut reader = Reader::Reads;
    for row in source {
        let row = row?;
        rows += 1;
        let why = match &row.draft {
            Ok(draft) => wrong(draft),
            Err(why) => Some(why.clone()),
        };
        let Some(why) = why else { continue };
        rejected += 1;
        if reader == Reader::Reads {
            reader = list.page(&[json!({"line": row.line, "code": why.code, "detail": why.detail})])?;
        }
    }
    if reader == Reader::Reads {
        list.end()?;
    }
    say(&format!("dry run: {rows} rows, {} would be sent, {rejected} would be rejected", rows - rejected));
    if rejected == 0 { Ok(()) } else { Err(Ended::told(Exit::Failed)) }
}

/// The first thing that is wrong with a request.
fn wrong(draft: &Draft) -> Option<Why> {
    let body = &draft.body;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let wrong = |code: &str, detail: String| Some(Why::new(code, detail));
    if let Some(name) = body.keys().find(|name| !NAMES.contains(&name.as_str())) {
        return wrong("unknown_field", format!("{name} is not known."));
    }
    for name in ["payee", "amount", "dueAt"] {
        if !body.contains_key(name) {
            return wrong("missing_field", format!("{name} is required."));
        }
    }
    for name in ["payee", "currency", "dueAt", "executeBefore", "gateway", "externalId", "description"] {
        if body.get(name).is_some_and(|value| value.as_str().is_none_or(str::is_empty)) {
            return wrong("wrong_type", format!("{name} is a text of one character at least."));
        }
    }
    match body.get("amount").and_then(Value::as_i64) {
        None => return wrong("wrong_type", "amount is a whole number of minor units.".to_owned()),
        Some(..=0) => return wrong("amount_not_positive", "amount is at least 1.".to_owned()),
        Some(1..) => {}
    }
    let due = match instant("dueAt", text("dueAt")) {
        Ok(due) => due,
        Err(why) => return Some(why),
    };
    let before = match instant("executeBefore", text("executeBefore")) {
        Ok(before) => before,
        Err(why) => return Some(why),
    };
    if due.zip(before).is_some_and(|(due, before)| before <= due) {
        return wrong("execute_before_not_after_due", "executeBefore must be later than dueAt.".to_owned());
    }
    let day = due.map(|due| due.to_utc().date_naive());
    let is_usable =
        |code: &str| Currency::from_code(code).is_some_and(|it| day.is_none_or(|day| it.active_on(day)));
    match text("currency") {
        Some(code) if !is_usable(code) => {
            wrong("unsupported_currency", format!("{code} is no ISO 4217 code in use on the due day."))
        }
        Some(_) | None => None,
    }
}

fn instant(name: &str, text: Option<&str>) -> Result<Option<DateTime<FixedOffset>>, Why> {
    let Some(text) = text else { return Ok(None) };
    DateTime::parse_from_rfc3339(text).map(Some).map_err(|_| {
        Why::new(
            "invalid_time",
            format!("{name} is an RFC 3339 time with an offset, like 2030-01-31T09:00:00Z."),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: Value) -> Option<String> {
        let Value::Object(body) = body else { panic!("an object") };
        wrong(&Draft { key: "k".to_owned(), body }).map(|why| why.code)
    }

    #[test]
    fn what_the_api_would_take_is_not_called_wrong() {
        for more in [json!({}), json!({"currency": "EUR", "executeBefore": "2030-02-01T00:00:00+01:00"})] {
            let mut body = json!({"payee": "a", "amount": 1, "dueAt": "2030-01-31T09:00:00Z"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(code(body), None);
        }
    }

    #[test]
    fn what_is_wrong_for_ever_is_found_without_the_api() {
        for (name, value, wanted) in [
            ("payee", Value::Null, "wrong_type"),
            ("amount", json!("1"), "wrong_type"),
            ("amount", json!(1.5), "wrong_type"),
            ("amount", json!(0), "amount_not_positive"),
            ("dueAt", json!("2030-01-31T09:00:00"), "invalid_time"),
            ("executeBefore", json!("2030-01-31T09:00:00Z"), "execute_before_not_after_due"),
            ("currency", json!("EURO"), "unsupported_currency"),
            ("currency", json!("HRK"), "unsupported_currency"),
            ("amonut", json!(1), "unknown_field"),
        ] {
            let mut body = json!({"payee": "a", "amount": 1, "dueAt": "2030-01-31T09:00:00Z"});
            body[name] = value;
            assert_eq!(code(body).as_deref(), Some(wanted), "{name}");
        }
        assert_eq!(code(json!({"payee": "a", "amount": 1})).as_deref(), Some("missing_field"));
    }
}
