//! The rows of a file, one at a time, each with its key and its place.
//!
//! A row that cannot be read is a row too: it has a place and is rejected there, and the file goes on. What
//! ends the import is only what concerns the whole file: an unknown column, a file that cannot be read.

use super::Format;
use super::lines::Lines;
use super::quotes::{self, Came};
use super::rejects::Why;
use super::strict::Strict;
use crate::cli::Ended;
use crate::platform::exit::Exit;
use csv::{ByteRecord, StringRecord};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line of NDJSON, four times what the API takes.
const LONGEST_LINE: u64 = 64 * 1024;

/// One row as it stands in the file.
#[derive(Debug)]
pub(super) struct Row {
    /// From 1, each row's own; for CSV the line on which the record begins.
    pub(super) line: u64,
    /// How far the file has been read with it, in bytes.
    pub(super) ends_at: u64,
    /// What is asked for, or why it cannot be.
    pub(super) draft: Result<Draft, Why>,
    /// As it came, for the file of rejects.
    pub(super) came_as: CameAs,
}

/// What one row asks for.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// Its idempotency key.
    pub(super) key: String,
    /// The request's body.
    pub(super) body: Map<String, Value>,
}

/// The row's own text.
#[derive(Debug)]
pub(super) enum CameAs {
    /// Cells of a CSV record, as bytes: they may be no UTF-8.
    Cells(ByteRecord),
    /// A line of NDJSON, without its end.
    Line(String),
    /// A line of NDJSON that is no UTF-8, without its end.
    Bytes(Vec<u8>),
}

/// SHA-256 of the whole file, in hexadecimal.
///
/// # Errors
/// It cannot be read.
pub(super) fn digest(file: &Path) -> Result<String, Ended> {
    let mut reader = open(file)?;
    let mut digest = Sha256::new();
    let mut chunk = [0; 64 * 1024];
    loop {
        match reader.read(&mut chunk).map_err(|error| unread(file, &error))? {
            0 => return Ok(hex::encode(digest.finalize())),
            read => digest.update(&chunk[..read]),
        }
    }
}

fn open(file: &Path) -> Result<File, Ended> {
    let opened = File::open(file).map_err(|error| unread(file, &error))?;
    let is_file = opened.metadata().is_ok_and(|about| about.is_file());
    // It is read twice, which a pipe cannot be.
    if is_file { Ok(opened) } else { Err(Ended::with(Exit::Usage, format!("{} is no file", file.display()))) }
}

/// A file that cannot be read.
pub(super) fn unread(file: &Path, error: &dyn std::fmt::Display) -> Ended {
    Ended::with(Exit::Usage, format!("{} cannot be read: {error}", file.display()))
}

fn no_headline(file: &Path, error: &csv::Error) -> Ended {
    let mut ended = unread(file, error);
    if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) {
        ended.message.push_str("; save it as UTF-8");
    }
    ended
}

/// What a column of a CSV file is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Column {
    /// A text of the request.
    Text(&'static str),
    /// A whole number of the request.
    Number(&'static str),
    /// A text of its retry object.
    RetryText(&'static str),
    /// A whole number of it.
    RetryNumber(&'static str),
    /// One pair.
    Metadata(String),
    /// Nothing of the request: the key's, or what a file of rejects says.
    Beside,
}

impl Column {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "payee" => Self::Text("payee"),
            "amount" => Self::Number("amount"),
            "currency" => Self::Text("currency"),
            "dueAt" => Self::Text("dueAt"),
            "executeBefore" => Self::Text("executeBefore"),
            "executeWithin" => Self::Number("executeWithin"),
            "gateway" => Self::Text("gateway"),
            "externalId" => Self::Text("externalId"),
            "description" => Self::Text("description"),
            "retry.maxSends" => Self::RetryNumber("maxSends"),
            "retry.onSoftDecline" => Self::RetryText("onSoftDecline"),
            "retry.onExhausted" => Self::RetryText("onExhausted"),
            "idempotencyKey" | "rejectedLine" | "rejectedCode" | "rejectedDetail" => Self::Beside,
            other => Self::Metadata(other.strip_prefix("metadata.")?.to_owned()),
        })
    }
}

/// The rows of a file.
pub(super) struct Source {
    keys: Keys,
    rows: Rows,
}

/// Where keys come from.
struct Keys {
    /// The first half of the file's digest: 128 bits.
    digest: String,
    /// The column or field that holds them.
    named: Option<String>,
    /// 128 bits of the SHA-256 of each that came from there. An import that goes on reads the file from its
    /// beginning, so it knows those of the rows that are done. Some 20 to 40 bytes a row, and the only thing
    /// here that grows with the file.
    seen: HashSet<u128>,
}

/// A CSV file while it is being read.
struct Records {
    reader: csv::Reader<File>,
    lines: Lines,
    headline: StringRecord,
    columns: Vec<Column>,
    key_at: Option<usize>,
}

enum Rows {
    Csv(Box<Records>),
    Ndjson { reader: BufReader<File>, line: u64, read: u64 },
}

impl Source {
    /// Opens it; for CSV reads and checks the headline.
    ///
    /// # Errors
    /// [`Exit::Usage`]: it cannot be read, or a column is not known, is there twice, or is missing.
    pub(super) fn open(
        file: &Path,
        format: Format,
        key_column: Option<&str>,
        digest: &str,
    ) -> Result<Self, Ended> {
        let opened = open(file)?;
        let mut keys = Keys {
            digest: digest.chars().take(32).collect(),
            named: key_column.map(str::to_owned),
            seen: HashSet::new(),
        };
        let rows = match format {
            Format::Ndjson => Rows::Ndjson { reader: BufReader::new(opened), line: 0, read: 0 },
            Format::Csv => {
                quotes::whole(file, self::open(file)?)?;
                // A record of another length is that record's fault, told when it comes.
                let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(opened);
                let headline = reader.headers().map_err(|error| no_headline(file, &error))?.clone();
                if keys.named.is_none() && headline.iter().any(|name| name == "idempotencyKey") {
                    keys.named = Some("idempotencyKey".to_owned());
                }
                let columns = columns(&headline, keys.named.as_deref())?;
                let key_at =
                    keys.named.as_deref().and_then(|named| headline.iter().position(|it| it == named));
                let mut lines = Lines::of(self::open(file)?);
                lines.of_record(reader.position().byte()).map_err(|error| unread(file, &error))?;
                Rows::Csv(Box::new(Records { reader, lines, headline, columns, key_at }))
            }
        };
        Ok(Self { keys, rows })
    }

    /// The headline of a CSV file.
    pub(super) fn headline(&self) -> Option<StringRecord> {
        match &self.rows {
            Rows::Csv(records) => Some(records.headline.clone()),
            Rows::Ndjson { .. } => None,
        }
    }
}

fn columns(headline: &StringRecord, key: Option<&str>) -> Result<Vec<Column>, Ended> {
    let mut problems = Vec::new();
    let mut columns = Vec::new();
    for (at, name) in headline.iter().enumerate() {
        if headline.iter().take(at).any(|before| before == name) {
            problems.push(format!("the column {name:?} is there twice"));
        }
        match Column::named(name) {
            Some(column) => columns.push(column),
            None if key == Some(name) => columns.push(Column::Beside),
            None => problems.push(format!("the column {name:?} is not known")),
        }
    }
    for needed in ["payee", "amount", "dueAt"].into_iter().chain(key) {
        if !headline.iter().any(|name| name == needed) {
            problems.push(format!("the column {needed:?} is missing"));
        }
    }
    if problems.is_empty() { Ok(columns) } else { Err(Ended::with(Exit::Usage, problems.join("\n"))) }
}

impl Iterator for Source {
    type Item = Result<Row, Ended>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { keys, rows } = self;
        match rows {
            Rows::Csv(records) => next_record(records, keys),
            Rows::Ndjson { reader, line, read } => next_line(reader, line, read, keys),
        }
    }
}

fn next_record(records: &mut Records, keys: &mut Keys) -> Option<Result<Row, Ended>> {
    let Records { reader, lines, headline, columns, key_at } = records;
    let failed = |error: &dyn std::fmt::Display| {
        Some(Err(Ended::with(Exit::Failed, format!("the file cannot be read on: {error}"))))
    };
    let mut bytes = ByteRecord::new();
    let read = reader.read_byte_record(&mut bytes);
    let ends_at = reader.position().byte();
    let came = match lines.of_record(ends_at) {
        Ok(came) => came,
        Err(error) => return failed(&error),
    };
    match read {
        Ok(false) => None,
        Ok(true) => {
            let draft = match StringRecord::from_byte_record(bytes.clone()) {
                _ if !came.broken.is_empty() => Err(torn(&came, headline)),
                Ok(record) => of_record(&record, columns, *key_at, keys, came.line),
                Err(_) => Err(not_utf8()),
            };
            // The reader has dropped quotes of broken cells.
            let as_came = |(at, cell)| {
                let broken = came.broken.iter().find(|(broken, _)| *broken == at);
                broken.map_or(cell, |(_, raw)| raw.as_slice())
            };
            let cells =
                if came.broken.is_empty() { bytes } else { bytes.iter().enumerate().map(as_came).collect() };
            Some(Ok(Row { line: came.line, ends_at, draft, came_as: CameAs::Cells(cells) }))
        }
        Err(error) => failed(&error),
    }
}

fn not_utf8() -> Why {
    Why::new("malformed_text", "The line is not UTF-8: save the file as UTF-8.")
}

fn torn(came: &Came, headline: &StringRecord) -> Why {
    let name = came.broken.first().and_then(|(at, _)| headline.get(*at)).unwrap_or("");
    let why = format!(
        "Text follows the quote that closes the cell {name:?}; write a quote inside a cell twice, with quotes \
         around the cell: \"17\"\" pipe\"."
    );
    Why::new("malformed_csv", why)
}

/// A quote that was not closed takes what follows for text, up to the next one. Where that ends a cell too, the
/// file is in order as CSV, and a payment is in a text: as a line of its own, or as the end of one that the cell
/// begins in and the beginning of one that it ends in.
fn swallows_a_row(record: &StringRecord, columns: &[Column]) -> bool {
    let amount = columns.iter().position(|column| *column == Column::Number("amount"));
    let is_row = |cells: &[&str]| {
        let amount = amount.and_then(|at| cells.get(at)).map(|cell| cell.trim().trim_matches('"'));
        cells.len() == columns.len() && amount.is_some_and(|amount| amount.parse::<i64>().is_ok())
    };
    let cells: Vec<&str> = record.iter().collect();
    cells.iter().enumerate().any(|(at, cell)| {
        let lines: Vec<Vec<&str>> = cell.split(['\n', '\r']).map(|line| line.split(',').collect()).collect();
        let [first, .., last] = lines.as_slice() else { return false };
        let opened = [&cells[..at], first].concat();
        let closed = [last, &cells[at + 1..]].concat();
        lines[1..].iter().any(|line| is_row(line)) || (is_row(&opened) && is_row(&closed))
    })
}

fn of_record(
    record: &StringRecord,
    columns: &[Column],
    key_at: Option<usize>,
    keys: &mut Keys,
    line: u64,
) -> Result<Draft, Why> {
    if swallows_a_row(record, columns) {
        let why = "A cell of it holds what looks like a row: a quote before that is not closed.";
        return Err(Why::new("malformed_csv", why));
    }
    if record.len() != columns.len() {
        let why = format!("The line has {} cells, and the headline has {}.", record.len(), columns.len());
        return Err(Why::new("wrong_length", why));
    }
    let mut body = Map::new();
    let (mut metadata, mut retry) = (Map::new(), Map::new());
    for (cell, column) in record.iter().zip(columns).filter(|(cell, _)| !cell.is_empty()) {
        match column {
            Column::Text(name) => drop(body.insert((*name).to_owned(), json!(cell))),
            Column::Number(name) => drop(body.insert((*name).to_owned(), number(name, cell)?)),
            Column::RetryText(name) => drop(retry.insert((*name).to_owned(), json!(cell))),
            Column::RetryNumber(name) => drop(retry.insert((*name).to_owned(), number(name, cell)?)),
            Column::Metadata(name) => drop(metadata.insert(name.clone(), json!(cell))),
            Column::Beside => {}
        }
    }
    for (name, object) in [("metadata", metadata), ("retry", retry)] {
        if !object.is_empty() {
            body.insert(name.to_owned(), Value::Object(object));
        }
    }
    let named = key_at.and_then(|at| record.get(at));
    Ok(Draft { key: keys.key(named, line)?, body })
}

/// As JSON has it: digits, perhaps with a minus. 12.50 is refused and never read as something else.
fn number(name: &str, cell: &str) -> Result<Value, Why> {
    let whole = cell.parse::<i64>().ok().filter(|_| !cell.starts_with('+'));
    whole.map(Value::from).ok_or_else(|| {
        Why::new(
            "wrong_type",
            format!("{name} is a whole number; amounts count minor units: 1250 is 12.50 EUR."),
        )
    })
}

fn next_line(
    reader: &mut BufReader<File>,
    line: &mut u64,
    read: &mut u64,
    keys: &mut Keys,
) -> Option<Result<Row, Ended>> {
    loop {
        let mut bytes = Vec::new();
        let failed = |error: std::io::Error| {
            Some(Err(Ended::with(Exit::Failed, format!("the file cannot be read on: {error}"))))
        };
        match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return failed(error),
        }
        *line += 1;
        *read += bytes.len() as u64;
        let is_cut = bytes.len() as u64 == LONGEST_LINE && bytes.last() != Some(&b'\n');
        if is_cut {
            match skip_line(reader) {
                Ok(skipped) => *read += skipped,
                Err(error) => return failed(error),
            }
        }
        let text = String::from_utf8(bytes);
        let draft = match &text {
            _ if is_cut => Err(Why::new("body_too_large", "The line is longer than 64 KiB.")),
            Err(_) => Err(not_utf8()),
            // Blank lines are no rows, but they count.
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => of_line(text, keys, *line),
        };
        let came_as = match text {
            _ if is_cut => CameAs::Line(String::new()),
            Ok(text) => CameAs::Line(text.trim_end().to_owned()),
            Err(no_text) => CameAs::Bytes(no_text.into_bytes().trim_ascii_end().to_vec()),
        };
        return Some(Ok(Row { line: *line, ends_at: *read, draft, came_as }));
    }
}

/// To the end of a line that is too long, a piece at a time.
fn skip_line(reader: &mut BufReader<File>) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let mut piece = Vec::new();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut piece)? as u64;
        skipped += read;
        if read == 0 || piece.last() == Some(&b'\n') {
            return Ok(skipped);
        }
    }
}

fn of_line(text: &str, keys: &mut Keys, line: u64) -> Result<Draft, Why> {
    let Strict(document) = serde_json::from_str(text)
        .map_err(|error| Why::new("malformed_json", format!("The line is not one JSON value: {error}.")))?;
    let Value::Object(mut body) = document else {
        return Err(Why::new("wrong_type", "The line is not an object."));
    };
    // A file of rejects says so in a field of its own.
    body.remove("rejected");
    let own = body.remove("idempotencyKey");
    let named = match keys.named.as_deref() {
        Some(name) if name != "idempotencyKey" => body.get(name).cloned(),
        _ => own,
    };
    if keys.named.is_some() && named.is_none() {
        return Err(Why::new("missing_idempotency_key", "The line has no value for its key."));
    }
    let key = keys.key(named.as_ref().map(|value| value.as_str().unwrap_or("")), line)?;
    Ok(Draft { key, body })
}

impl Keys {
    fn key(&mut self, named: Option<&str>, line: u64) -> Result<String, Why> {
        match named {
            // The line's own, so none has it besides.
            None => Ok(format!("import-{}-{line}", self.digest)),
            Some(key)
                if (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) =>
            {
                self.only_once(key)?;
                Ok(key.to_owned())
            }
            Some(_) => Err(Why::new(
                "invalid_idempotency_key",
                "A key is a text of 1 to 255 visible ASCII characters.",
            )),
        }
    }

    /// The API would answer the second row of a key with the payment of the first, and it would count as paid.
    fn only_once(&mut self, key: &str) -> Result<(), Why> {
        // Quotes around a key are not part of it, nor is what escapes one within them.
        let bare = match key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\\\"", "\"").replace("\\\\", "\\"),
            None => key.to_owned(),
        };
        let mut short = [0; 16];
        short.copy_from_slice(&Sha256::digest(bare)[..16]);
        if self.seen.insert(u128::from_le_bytes(short)) {
            return Ok(());
        }
        // The key is not repeated: nothing has said yet that it is no card number.
        Err(Why::new("duplicate_item_key", "A row before it in the file has its key too."))
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
