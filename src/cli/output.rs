//! The one contract of everything that is printed.
//!
//! | promise | how it is kept |
//! |---|---|
//! | `-o table` (the default) is for people: aligned columns with a headline | only on a terminal; anywhere else the same columns are separated by tabs, without a headline, so that `cut` and `awk` need no flag |
//! | `-o json` is one document | a list is an array, `[]` when it is empty |
//! | `-o jsonl` is one object a line | an empty list is nothing |
//! | colour only on a terminal | and not with `NO_COLOR` set to anything, nor with `TERM=dumb` |
//! | what is printed is one line a row | control characters of the values are blanked, also so that no text from outside can drive the terminal |
//! | `\| head` ends quietly | a reader that closed its end is no failure: printing answers [`Reader::Left`] and the command stops asking |
//!
//! Answers go to standard output; what is said about them to standard error ([`say`]).
//!
//! Lists are printed as their pages come, whatever the form, so memory does not grow with them. On a
//! terminal the first page gives the widths of the columns.

pub(super) use crate::story::{at, plain};

use super::Ended;
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::state::Status;
use clap::ValueEnum;
use serde_json::Value;
use std::io::{ErrorKind, IsTerminal, Write};

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people on a terminal; columns separated by tabs anywhere else.
    #[default]
    Table,
    /// One JSON document; `[]` where a list is empty.
    Json,
    /// One JSON object a line.
    Jsonl,
}

impl Output {
    /// The answer as text: `table`, or the document in the form that was asked for.
    pub fn shown(self, table: impl FnOnce() -> String, document: impl FnOnce() -> Value) -> String {
        match self {
            Self::Table => table(),
            Self::Json => format!("{:#}\n", document()),
            Self::Jsonl => match document() {
                Value::Array(items) => items.iter().map(|item| format!("{item}\n")).collect(),
                one => format!("{one}\n"),
            },
        }
    }
}

/// Whether somebody still reads what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// Go on.
    Reads,
    /// It has seen enough (`| head`): stop asking, that is no failure.
    Left,
}

/// Prints a piece of an answer.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn put(answer: &str) -> Result<Reader, Ended> {
    let mut out = std::io::stdout().lock();
    match out.write_all(answer.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::Reads),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Left),
        Err(error) => Err(error.into()),
    }
}

/// Prints an answer; a reader that has seen enough is no failure.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(answer: &str) -> Result<(), Ended> {
    put(answer).map(|_| ())
}

/// Says something about the answer, each line under our name. Nobody listening is no failure either.
pub(crate) fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    for line in text.lines() {
        // Where standard error is closed there is nobody to tell that.
        let _ = writeln!(err, "punctual: {}", plain(line));
    }
}

/// What standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    /// A person looks at it.
    Terminal {
        /// Whether colours may be used.
        colour: Colour,
    },
    /// A pipe or a file.
    Pipe,
}

/// Whether colours may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    /// They may.
    Yes,
    /// NO_COLOR, or a terminal without.
    No,
}

impl Face {
    /// Of this process.
    pub(super) fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::Pipe;
        }
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self::Terminal { colour: if unwanted { Colour::No } else { Colour::Yes } }
    }
}

/// One column of a list: its headline, and the text of an item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// In capitals.
    pub(super) head: &'static str,
    /// Of one item of the list.
    pub(super) of: fn(&Value) -> String,
}

/// The amount of an item with its currency, in major units, as people write it; in minor units where the
/// currency is not known here.
pub(super) fn money(item: &Value) -> String {
    let code = at(item, "/currency");
    let minor = item.get("amount").and_then(Value::as_i64);
    let Some(amount) = minor else { return String::new() };
    match (Minor::new(amount), Currency::from_code(&code)) {
        (Some(minor), Some(currency)) => Money { minor, currency }.to_string(),
        _ => format!("{amount} minor units {code}").trim_end().to_owned(),
    }
}

/// An amount as it is typed.
///
/// # Errors
/// It is no whole number of at least 1: how to write it.
pub(super) fn minor_units(text: &str) -> Result<i64, &'static str> {
    let typed = text.parse().ok().filter(|minor| *minor > 0);
    typed.ok_or("whole minor units, at least 1: 1250 for 12.50")
}

/// A list that is printed as its pages come.
pub(super) struct List {
    output: Output,
    face: Face,
    columns: &'static [Column],
    widths: Option<Vec<usize>>,
    printed: usize,
}

impl List {
    /// An empty one.
    pub(super) fn new(output: Output, face: Face, columns: &'static [Column]) -> Self {
        Self { output, face, columns, widths: None, printed: 0 }
    }

    /// Prints these items.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(super) fn page(&mut self, items: &[Value]) -> Result<Reader, Ended> {
        let text = self.text_of(items);
        put(&text)
    }

    /// Ends the list; an empty one is said, so that nobody waits for more.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(super) fn end(self) -> Result<(), Ended> {
        match (self.output, self.printed) {
            (Output::Json, 0) => print("[]\n"),
            (Output::Json, _) => print("\n]\n"),
            (Output::Table, 0) if self.face != Face::Pipe => {
                say("nothing found");
                Ok(())
            }
            (Output::Table | Output::Jsonl, _) => Ok(()),
        }
    }

    fn text_of(&mut self, items: &[Value]) -> String {
        let mut text = String::new();
        if self.output == Output::Table && self.widths.is_none() && !items.is_empty() {
            text = self.headline(items);
        }
        for item in items {
            match self.output {
                Output::Json => {
                    text.push_str(if self.printed == 0 { "[\n" } else { ",\n" });
                    text.push_str(&item.to_string());
                }
                Output::Jsonl => text.push_str(&format!("{item}\n")),
                Output::Table => text.push_str(&self.row(item)),
            }
            self.printed += 1;
        }
        text
    }

    /// Chooses the widths; the headline is for people only.
    fn headline(&mut self, items: &[Value]) -> String {
        let width = |column: &Column| {
            let cells = items.iter().map(|item| (column.of)(item).chars().count());
            cells.chain([column.head.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = self.columns.iter().map(width).collect();
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.to_owned()).collect();
        let line = match self.face {
            Face::Pipe => String::new(),
            Face::Terminal { colour } => {
                let line = aligned(&heads, &widths, Colour::No);
                if colour == Colour::Yes { format!("\u{1b}[1m{line}\u{1b}[0m\n") } else { line + "\n" }
            }
        };
        self.widths = Some(widths);
        line
    }

    fn row(&self, item: &Value) -> String {
        let cells: Vec<String> = self.columns.iter().map(|column| (column.of)(item)).collect();
        match (self.face, &self.widths) {
            (Face::Terminal { colour }, Some(widths)) => aligned(&cells, widths, colour) + "\n",
            (Face::Terminal { .. }, None) | (Face::Pipe, _) => cells.join("\t") + "\n",
        }
    }
}

/// Cells at their places; nothing after the last one.
fn aligned(cells: &[String], widths: &[usize], colour: Colour) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(&tinted(cell, colour));
        let missing = width.saturating_sub(cell.chars().count());
        line.push_str(&" ".repeat(missing + 2));
    }
    line.trim_end().to_owned()
}

/// A state in its colour; any other text as it is.
fn tinted(cell: &str, colour: Colour) -> String {
    let code = match Status::from_text(cell) {
        Some(Status::Completed) => 32,
        Some(Status::Failed) => 31,
        Some(Status::Unknown | Status::Parked) => 33,
        Some(Status::Pending | Status::Processing | Status::Cancelled | Status::Refunded) | None => 0,
    };
    if colour == Colour::No || code == 0 { cell.to_owned() } else { format!("\u{1b}[{code}m{cell}\u{1b}[0m") }
}

/// One object: a line a field on a terminal, `name<TAB>value` elsewhere; fields without a value are left
/// out.
pub(super) fn record(output: Output, face: Face, fields: &[(&str, String)], document: &Value) -> String {
    let table = || {
        let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) + 2;
        let line = |(name, value): &(&str, String)| match face {
            Face::Pipe => format!("{name}\t{}\n", plain(value)),
            Face::Terminal { colour } => format!("{name:<width$}{}\n", tinted(&plain(value), colour)),
        };
        fields.iter().filter(|(_, value)| !value.is_empty()).map(line).collect()
    };
    output.shown(table, || document.clone())
}

/// Any object: each of its own fields under the API's name for it, with what is nested left as JSON.
pub(super) fn object(output: Output, face: Face, document: &Value) -> String {
    let pairs = document.as_object();
    let fields: Vec<(&str, String)> =
        pairs.into_iter().flatten().map(|(name, value)| (name.as_str(), at(value, ""))).collect();
    record(output, face, &fields, document)
}

/// The items of a list that comes whole: `{"data": […]}`.
pub(super) fn items(page: &Value) -> &[Value] {
    page.get("data").and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: &[Column] = &[
        Column { head: "ID", of: |item| at(item, "/id") },
        Column { head: "STATUS", of: |item| at(item, "/status") },
        Column { head: "AMOUNT", of: money },
    ];
    const SEEN: Face = Face::Terminal { colour: Colour::No };

    fn items() -> Vec<Value> {
        vec![
            json!({"id": "a\tb\n", "status": "COMPLETED", "amount": 1_250, "currency": "EUR"}),
            json!({"id": "long-one", "status": null, "amount": 7, "currency": "ZZZ"}),
        ]
    }

    fn text(output: Output, face: Face, items: &[Value]) -> String {
        List::new(output, face, COLUMNS).text_of(items)
    }

    #[test]
    fn a_table_is_aligned_on_a_terminal_and_separated_by_tabs_in_a_pipe() {
        let seen = "ID        STATUS     AMOUNT\n\
                    a b       COMPLETED  12.50 EUR\n\
                    long-one             7 minor units ZZZ\n";
        assert_eq!(text(Output::Table, SEEN, &items()), seen);
        let piped = "a b \tCOMPLETED\t12.50 EUR\nlong-one\t\t7 minor units ZZZ\n";
        assert_eq!(text(Output::Table, Face::Pipe, &items()), piped);
    }

    #[test]
    fn a_state_is_coloured_where_colours_are_wanted_and_stays_in_its_column() {
        let text = text(Output::Table, Face::Terminal { colour: Colour::Yes }, &items());
        assert!(text.contains("\u{1b}[32mCOMPLETED\u{1b}[0m  12.50"), "{text:?}");
        assert!(text.starts_with("\u{1b}[1mID"), "{text:?}");
    }

    #[test]
    fn pages_of_a_json_list_make_one_document() {
        let mut list = List::new(Output::Json, Face::Pipe, COLUMNS);
        let both = list.text_of(&items()[..1]) + &list.text_of(&[]) + &list.text_of(&items()[1..]) + "\n]\n";
        assert_eq!(serde_json::from_str::<Value>(&both).unwrap(), Value::Array(items()));
    }

    #[test]
    fn json_lines_are_one_object_a_line_for_lists_and_records() {
        let lines = text(Output::Jsonl, SEEN, &items());
        assert_eq!(lines.lines().count(), 2);
        let shown = Output::Jsonl.shown(String::new, || Value::Array(items()));
        assert_eq!(shown, lines);
        assert_eq!(Output::Jsonl.shown(String::new, || json!({"a": [1]})), "{\"a\":[1]}\n");
        assert_eq!(Output::Json.shown(String::new, || json!([])), "[]\n");
    }

    #[test]
    fn widths_stay_those_of_the_first_page() {
        let mut list = List::new(Output::Table, SEEN, COLUMNS);
        list.text_of(&items()[1..]);
        let second = list.text_of(&[json!({"id": "x", "status": "PENDING"})]);
        assert_eq!(second, "x         PENDING\n");
    }

    #[test]
    fn a_record_leaves_out_what_is_not_there_and_blanks_what_drives_terminals() {
        let fields = [("payment", "x\u{1b}[2J".to_owned()), ("reason", String::new())];
        assert_eq!(record(Output::Table, SEEN, &fields, &Value::Null), "payment  x [2J\n");
        assert_eq!(record(Output::Table, Face::Pipe, &fields, &Value::Null), "payment\tx [2J\n");
        assert_eq!(record(Output::Json, SEEN, &fields, &json!({})), "{}\n");
    }

    #[test]
    fn amounts_are_written_as_people_write_them() {
        for (amount, currency, text) in
            [(1, "EUR", "0.01 EUR"), (500, "JPY", "500 JPY"), (0, "EUR", "0 minor units EUR")]
        {
            assert_eq!(money(&json!({"amount": amount, "currency": currency})), text);
        }
        assert_eq!(money(&json!({})), "");
        assert_eq!(minor_units("1250"), Ok(1_250));
        for bad in ["12.50", "12,50", "0", "-1", "", "12 EUR", "9223372036854775808"] {
            assert!(minor_units(bad).unwrap_err().contains("1250 for 12.50"), "{bad}");
        }
    }
}
