//! Rows of a CSV file, more strictly than a spreadsheet takes them.
//!
//! **Promises**: a row is handed out only when its line end was read, has as many cells as the headline, and its
//! quotes stand where RFC 4180 has them. **Why this way**: the library reads cells, and reads leniently: text behind a
//! closing quote goes on as part of the cell, and one that is missing takes the rows after it for text. So each row's
//! bytes are cut off the file here, by the quotes, looked at, hashed, and only then handed to the library.

use super::report::Stopped;
use super::tap::{Ended, Tap};
use super::why::{At, Why};
use csv::{ByteRecord, Reader, ReaderBuilder, StringRecord};
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, Read};

/// Hands the library one row's bytes, and the end of the file before the next row is there.
#[derive(Default)]
struct OneRow {
    bytes: Vec<u8>,
    at: usize,
}

impl Read for OneRow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = &self.bytes[self.at..];
        let taken = left.len().min(into.len());
        into[..taken].copy_from_slice(&left[..taken]);
        self.at += taken;
        Ok(taken)
    }
}

/// A file of rows while it is being read.
pub(super) struct Rows<R> {
    tap: Tap<R>,
    reader: Reader<OneRow>,
    cells: ByteRecord,
    names: Vec<String>,
}

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    /// On which line it begins.
    pub(super) at_line: u64,
    /// As many as the headline has names.
    pub(super) cells: StringRecord,
    pub(super) raw_hash: [u8; 32],
}

impl Row {
    /// A cell without the blanks around it.
    pub(super) fn cell(&self, at: usize) -> &str {
        self.cells.get(at).unwrap_or("").trim()
    }

    /// One that is not empty.
    pub(super) fn optional(&self, at: Option<usize>) -> Option<&str> {
        at.map(|at| self.cell(at)).filter(|cell| !cell.is_empty())
    }
}

impl<R: BufRead> Rows<R> {
    /// Reads the headline.
    pub(super) fn open<E>(tap: Tap<R>) -> Result<Self, Stopped<E>> {
        let reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(OneRow::default());
        let mut rows = Self { tap, reader, cells: ByteRecord::new(), names: Vec::new() };
        let Some(headline) = rows.any()? else { return Err(Stopped::refused(1, Why::Empty)) };
        for name in &headline.cells {
            let name = name.trim().to_owned();
            if !name.is_empty() && rows.names.contains(&name) {
                let field = format!("the column {:?}", Why::shown(&name));
                return Err(Stopped::refused(headline.at_line, Why::Twice { field }));
            }
            rows.names.push(name);
        }
        Ok(rows)
    }

    /// The column of any of these names.
    pub(super) fn optional(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|wanted| self.names.iter().position(|name| name == wanted))
    }

    /// The same; it must be there.
    pub(super) fn column<E>(&self, names: &[&str]) -> Result<usize, Stopped<E>> {
        let field = || {
            format!(
                "the column {}",
                names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" or ")
            )
        };
        self.optional(names).ok_or_else(|| Why::Missing { field: field() }).at(1)
    }

    /// The name of a column, for a sentence.
    pub(super) fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("", String::as_str)
    }

    /// The line of the next row.
    pub(super) fn line(&self) -> u64 {
        self.tap.line()
    }

    /// The next row; `None` at the end of the file.
    pub(super) fn next<E>(&mut self) -> Result<Option<Row>, Stopped<E>> {
        let Some(row) = self.any()? else { return Ok(None) };
        let (cells, columns) = (row.cells.len(), self.names.len());
        if cells != columns {
            return Err(Stopped::refused(row.at_line, Why::RowLength { cells, columns }));
        }
        if swallows_a_row(&row.cells, columns) {
            return Err(Stopped::refused(row.at_line, Why::SwallowsRow));
        }
        Ok(Some(row))
    }

    /// All bytes were read.
    pub(super) fn into_tap(self) -> Tap<R> {
        self.tap
    }

    fn any<E>(&mut self) -> Result<Option<Row>, Stopped<E>> {
        let at_line = self.tap.line();
        let mut raw = std::mem::take(&mut self.reader.get_mut().bytes);
        raw.clear();
        let mut quotes = Quotes::AtCell;
        loop {
            let seen = raw.len();
            let ended = self.tap.line_into(&mut raw, at_line)?;
            if raw.is_empty() {
                return Ok(None);
            }
            if ended == Ended::File {
                let missing = match quotes.over(&raw[seen..]) {
                    Ok(Quotes::Quoted) => "no quote closes the one in this row",
                    _ => "this row does not end with a line end",
                };
                return Err(Stopped::refused(at_line, Why::cut_short(missing)));
            }
            quotes = quotes.over(&raw[seen..]).at(at_line)?;
            if quotes != Quotes::Quoted {
                break;
            }
        }
        let text = raw.strip_suffix(b"\n").unwrap_or(&raw);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.is_empty() {
            // The library would pass over it.
            return Err(Stopped::refused(at_line, Why::RowLength { cells: 0, columns: self.names.len() }));
        }
        let raw_hash = Sha256::digest(text).into();
        *self.reader.get_mut() = OneRow { bytes: raw, at: 0 };
        let read = self.reader.read_byte_record(&mut self.cells);
        match read {
            Ok(true) => {}
            Ok(false) => return Err(Stopped::refused(at_line, Why::cut_short("a row has no cells"))),
            Err(error) => return Err(Stopped::Unread(io::Error::other(error))),
        }
        let cells = StringRecord::from_byte_record(std::mem::take(&mut self.cells)).map_err(|_| Why::NotUtf8);
        let cells = cells.at(at_line)?;
        if cells.iter().any(|cell| cell.contains('\0')) {
            return Err(Stopped::refused(at_line, Why::ControlCharacter { what: "a cell" }));
        }
        Ok(Some(Row { at_line, cells, raw_hash }))
    }
}

/// Where the last byte of a row left us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// At the beginning of a cell.
    AtCell,
    /// In a cell without quotes.
    Plain,
    /// Between quotes.
    Quoted,
    /// Behind a quote that closes, unless another follows.
    Closed,
    /// Behind a carriage return outside quotes: the line must end.
    Return,
}

impl Quotes {
    fn over(self, bytes: &[u8]) -> Result<Self, Why> {
        bytes.iter().try_fold(self, |stands, byte| stands.next(*byte))
    }

    fn next(self, byte: u8) -> Result<Self, Why> {
        Ok(match (self, byte) {
            (Self::Quoted, b'"') => Self::Closed,
            (Self::Quoted, _) => Self::Quoted,
            (Self::AtCell | Self::Closed, b'"') => Self::Quoted,
            (Self::Return, b'\n') => Self::AtCell,
            (Self::Return, _) => return Err(Why::ControlCharacter { what: "a row" }),
            (_, b',' | b'\n') => Self::AtCell,
            (_, b'\r') => Self::Return,
            (Self::Plain, b'"') | (Self::Closed, _) => return Err(Why::Quote),
            (Self::AtCell | Self::Plain, _) => Self::Plain,
        })
    }
}

/// A quote that was not closed takes what follows for text, up to the next one. Where that ends a cell too, all is in
/// order as CSV, and a row is in a text: as a line of its own, or as the end of the one that the cell begins in and the
/// beginning of the one that it ends in.
fn swallows_a_row(cells: &StringRecord, columns: usize) -> bool {
    cells.iter().enumerate().any(|(at, cell)| {
        let lines: Vec<usize> = cell.split('\n').map(|line| line.split(',').count()).collect();
        let [first, between @ .., last] = lines.as_slice() else { return false };
        between.contains(&columns) || (at + first == columns && last + (columns - at - 1) == columns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8]) -> Result<Vec<Vec<String>>, String> {
        let told = |stopped: Stopped<std::convert::Infallible>| stopped.to_string();
        let mut rows = Rows::open(Tap::new(text).map_err(told)?).map_err(told)?;
        let mut all = vec![rows.names.clone()];
        while let Some(row) = rows.next().map_err(told)? {
            all.push(row.cells.iter().map(str::to_owned).collect());
        }
        Ok(all)
    }

    #[test]
    fn cells_are_read_as_they_were_written() {
        let text = b"\xef\xbb\xbfa,b,c\r\n1,\"x, \"\"y\"\"\",3\r\n,,\r\n\"1\",\"two\nlines\",\"3\"\r\n";
        let read = rows(text).expect("in order");
        assert_eq!(read[0], ["a", "b", "c"]);
        assert_eq!(read[1], ["1", "x, \"y\"", "3"]);
        assert_eq!(read[2], ["", "", ""]);
        assert_eq!(read[3], ["1", "two\nlines", "3"]);
        assert_eq!(read.len(), 4);
    }

    #[test]
    fn a_row_longer_than_the_library_s_buffer_is_read_whole() {
        let long = "x".repeat(30_000);
        let read = rows(format!("a,b\n{long},1\n\"{long}\",2\n").as_bytes()).expect("in order");
        assert_eq!((read[1][0].len(), read[2][0].len(), read[2][1].as_str()), (30_000, 30_000, "2"));
    }

    #[test]
    fn what_is_not_csv_is_refused_on_its_line() {
        for (text, told) in [
            ("a,b\n1,2", "line 2: the file is cut short: this row does not end with a line end"),
            ("a,b\n1,\"2\n3,4\n", "line 2: the file is cut short: no quote closes the one in this row"),
            ("a,b\n1,2\n1\n", "line 3: it has 1 cells, and the headline has 2"),
            ("a,b\n1,2,3\n", "line 2: it has 3 cells, and the headline has 2"),
            ("a,b\n1,2\n\n", "line 3: it has 0 cells, and the headline has 2"),
            ("a,a\n", "line 1: the column \"a\" is there twice"),
            ("a,b\r1,2\r", "line 1: the file is cut short: this row does not end with a line end"),
            ("a,b\n1\r,2\n", "line 2: a control character stands in a row"),
            ("a,b\n1,\0\n", "line 2: a control character stands in a cell"),
        ] {
            assert_eq!(rows(text.as_bytes()).expect_err(text), told);
        }
        for text in ["a,b\n1\"2,3\n", "a,b\n\"1\"2,3\n", "a,b\n\"1\" ,3\n"] {
            assert!(
                rows(text.as_bytes()).expect_err(text).starts_with("line 2: a quote stands where none can")
            );
        }
        assert_eq!(
            rows(b"a,b\n1,\xff\n").expect_err("latin"),
            "line 2: this is not UTF-8: save the file as UTF-8"
        );
        assert_eq!(
            rows(b"\xff\xfea\0").expect_err("utf-16"),
            "line 1: this is not UTF-8: save the file as UTF-8"
        );
        let long = format!("a,b\n1,2\n\"{},\n", "x\n".repeat(40_000));
        assert_eq!(
            rows(long.as_bytes()).expect_err("long"),
            "line 3: a record is longer than a report may have"
        );
    }

    #[test]
    fn a_quote_that_joins_two_rows_of_the_right_length_is_seen() {
        for text in ["a,b,c\n1,\"x,3\n2,y\",6\n", "a,b,c\n1,2,\"x\n4,5,6\n\"\n"] {
            assert_eq!(
                rows(text.as_bytes()).expect_err(text),
                "line 2: a cell of it holds what looks like a row: a quote before that is not closed"
            );
        }
    }
}
