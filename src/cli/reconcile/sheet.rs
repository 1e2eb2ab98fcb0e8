//! Items of a reconciliation as CSV, for people who work in spreadsheets.
//!
//! **Promises.** A number stays a number: amounts are written without quotes, in whole minor units and as an
//! exact decimal of the currency. A text is always quoted, and never runs: one that a spreadsheet would take
//! for a formula (`=`, `+`, `-`, `@`, a tab or a line break at its start, also behind spaces or in their wide
//! forms) gets an apostrophe in front, which spreadsheets show as "this is text". Keys and references in it come
//! from a gateway's file, so they are not ours to trust.
//!
//! **Relies on** the items as the API has them. **Why columns by name**: what stands in a column never depends on
//! what is in the items, so that files of several days can be put under each other.
//!
//! If this dies here, a part of a file was printed; nothing was changed by printing.

use crate::cli::output::{at, plain};
use crate::domain::money::Currency;
use serde_json::Value;

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cell {
    /// As it is, without quotes.
    Number(String),
    /// Quoted, and made harmless.
    Text(String),
    /// Nothing.
    Empty,
}

/// What of an item stands in a column, by its name there.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// A text of ours.
    Text(&'static str),
    /// A text with its control characters, which decide whether it is dangerous.
    Raw(&'static str),
    /// Such a text, or the whole number that it is.
    Either(&'static str),
    /// A whole number.
    Whole(&'static str),
    /// The amount in major units.
    Major,
}

/// The columns, in the order of the file: the name in the first line, and what of an item stands there. New ones are added
/// at the end.
const COLUMNS: &[(&str, Of)] = &[
    ("item", Of::Whole("itemId")),
    ("reconciliation", Of::Text("reconciliationId")),
    ("gateway", Of::Text("gateway")),
    ("day", Of::Text("day")),
    ("class", Of::Text("class")),
    ("status", Of::Text("status")),
    ("payment", Of::Text("paymentId")),
    ("key", Of::Raw("key")),
    ("gateway_reference", Of::Raw("gatewayReference")),
    ("field", Of::Text("field")),
    ("ours", Of::Either("ours")),
    ("theirs", Of::Either("theirs")),
    ("amount_minor", Of::Whole("amount")),
    ("amount", Of::Major),
    ("currency", Of::Text("currency")),
    ("line", Of::Whole("line")),
    ("line_sha256", Of::Text("lineSha256")),
    ("first_seen_at", Of::Text("firstSeenAt")),
    ("last_seen_at", Of::Text("lastSeenAt")),
    ("not_repaired", Of::Raw("notRepaired")),
    ("decided_by", Of::Raw("decidedBy")),
    ("decided_at", Of::Text("decidedAt")),
    ("reason", Of::Raw("reason")),
];

/// The first line.
pub(crate) fn headline() -> String {
    line(COLUMNS.iter().map(|(name, _)| Cell::Text((*name).to_owned())))
}

/// One line an item.
pub(crate) fn rows(items: &[Value]) -> String {
    items.iter().map(|item| line(COLUMNS.iter().map(|(_, of)| cell(item, *of)))).collect()
}

fn cell(item: &Value, of: Of) -> Cell {
    match of {
        Of::Text(name) => text(at(item, &format!("/{name}"))),
        Of::Raw(name) => text(raw(item, name)),
        Of::Either(name) => either(raw(item, name)),
        Of::Whole(name) => number(item.get(name)),
        Of::Major => major(item),
    }
}

fn raw(item: &Value, name: &str) -> String {
    item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn text(text: String) -> Cell {
    if text.is_empty() { Cell::Empty } else { Cell::Text(text) }
}

/// What reads as one whole number is one.
fn either(value: String) -> Cell {
    match value.parse::<i64>() {
        Ok(number) => Cell::Number(number.to_string()),
        Err(_) => text(value),
    }
}

fn number(value: Option<&Value>) -> Cell {
    value.and_then(Value::as_i64).map_or(Cell::Empty, |number| Cell::Number(number.to_string()))
}

/// The amount in major units; nothing where the currency is none that we know.
fn major(item: &Value) -> Cell {
    let amount = item.get("amount").and_then(Value::as_i64);
    let currency = Currency::from_code(&at(item, "/currency"));
    amount.zip(currency).map_or(Cell::Empty, |(amount, currency)| Cell::Number(decimal(amount, currency)))
}

/// Exact, with as many digits behind the point as the currency has, of either sign.
pub(super) fn decimal(minor: i64, currency: Currency) -> String {
    let digits = usize::from(currency.exponent());
    let sign = if minor < 0 { "-" } else { "" };
    let all = format!("{:0>width$}", minor.unsigned_abs(), width = digits + 1);
    let (whole, part) = all.split_at(all.len() - digits);
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

fn line(cells: impl Iterator<Item = Cell>) -> String {
    let cells: Vec<String> = cells.map(written).collect();
    // RFC 4180 has CRLF; spreadsheets take both, and `cut` and `diff` want this one.
    cells.join(",") + "\n"
}

fn written(cell: Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Number(digits) => digits,
        Cell::Text(text) => format!("\"{}\"", harmless(&text).replace('"', "\"\"")),
    }
}

/// A text that no spreadsheet runs, on one line.
fn harmless(text: &str) -> String {
    let mark = if runs(text) { "'" } else { "" };
    format!("{mark}{}", plain(text))
}

/// Would a spreadsheet look for a formula in it?
fn runs(text: &str) -> bool {
    let starts =
        |c: char| matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | '\t' | '\r' | '\n');
    let blank = |c: &char| c.is_whitespace() || c.is_control() || matches!(c, '\u{200b}' | '\u{feff}');
    text.starts_with(starts) || text.chars().find(|c| !blank(c)).is_some_and(starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// What a reader of CSV finds in the only row.
    fn read(item: &Value) -> Vec<(String, String)> {
        let file = headline() + &rows(std::slice::from_ref(item));
        let mut reader = csv::Reader::from_reader(file.as_bytes());
        let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let row = reader.records().next().unwrap().unwrap();
        names.into_iter().zip(row.iter().map(str::to_owned)).collect()
    }

    fn shown(item: &Value, name: &str) -> String {
        read(item).into_iter().find(|(found, _)| found == name).unwrap().1
    }

    #[test]
    fn an_item_is_one_row_with_its_amount_as_a_number() {
        let item = json!({
            "itemId": 3, "class": "amount_mismatch", "field": "amount", "ours": "1250", "theirs": "-1249",
            "amount": -1, "currency": "EUR", "line": 17, "key": "a,\"b\"", "reason": null,
        });
        for (name, found) in [
            ("item", "3"),
            ("ours", "1250"),
            ("theirs", "-1249"),
            ("amount_minor", "-1"),
            ("amount", "-0.01"),
            ("line", "17"),
            ("key", "a,\"b\""),
            ("reason", ""),
            ("payment", ""),
        ] {
            assert_eq!(shown(&item, name), found, "{name}");
        }
        let row = rows(&[item]);
        assert!(row.contains(",1250,-1249,-1,-0.01,\"EUR\",17,"), "numbers without quotes: {row}");
    }

    #[test]
    fn what_would_run_as_a_formula_becomes_a_text() {
        for (given, found) in [
            ("=1+1", "'=1+1"),
            ("+49 30", "'+49 30"),
            ("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "' =1"),
            ("\r=1", "' =1"),
            ("\n=1", "' =1"),
            ("  =1", "'  =1"),
            ("\u{feff}=1", "'\u{feff}=1"),
            ("\u{a0}@x", "'\u{a0}@x"),
            ("＝1+1", "'＝1+1"),
            ("ch_7", "ch_7"),
            ("a=b", "a=b"),
            ("'=1", "'=1"),
        ] {
            for name in ["key", "gatewayReference", "reason", "decidedBy"] {
                let column = match name {
                    "gatewayReference" => "gateway_reference",
                    "decidedBy" => "decided_by",
                    same => same,
                };
                assert_eq!(shown(&json!({name: given}), column), found, "{given:?} in {name}");
            }
        }
    }

    #[test]
    fn values_of_both_sides_are_numbers_only_where_they_are_nothing_else() {
        for (given, row) in
            [("-7", "-7"), ("EUR", "\"EUR\""), ("-7+1", "\"'-7+1\""), ("+7", "7"), ("1e3", "\"1e3\"")]
        {
            assert_eq!(written(either(given.to_owned())), row, "{given}");
        }
    }

    #[test]
    fn decimals_have_the_digits_of_their_currency() {
        for (minor, code, text) in [
            (0, "EUR", "0.00"),
            (5, "EUR", "0.05"),
            (-5, "EUR", "-0.05"),
            (123_456, "EUR", "1234.56"),
            (500, "JPY", "500"),
            (1, "KWD", "0.001"),
            (i64::MIN, "EUR", "-92233720368547758.08"),
        ] {
            assert_eq!(decimal(minor, Currency::from_code(code).unwrap()), text);
        }
        assert_eq!(shown(&json!({"amount": 7, "currency": "ZZZ"}), "amount"), "");
    }

    proptest! {
        #[test]
        fn no_text_starts_a_formula_or_leaves_its_cell(key in "\\PC{0,12}|[=+@\\-\t\r\n \"',;]{0,6}.{0,6}") {
            let item = json!({"key": key, "itemId": 3});
            let found = shown(&item, "key");
            prop_assert!(!runs(&found) || key.is_empty(), "{found:?}");
            prop_assert_eq!(shown(&item, "item"), "3");
            prop_assert_eq!(rows(&[item]).lines().count(), 1);
        }
    }
}
