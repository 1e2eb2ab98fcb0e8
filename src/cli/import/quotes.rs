//! Where a CSV file's quotes open and close, byte by byte, as the reader beside it takes them.
//!
//! The reader is lenient: text after a closing quote goes on as part of the cell, and a quote that is never
//! closed takes the rest of the file into one cell, with every payment in it. So the same bytes are looked at
//! here, before anything is sent: where quotes took lines of their own into a broken record, nobody can say
//! which rows the file has, and it is refused whole, under the keys that it still has. A record that is broken
//! on its one line is rejected alone, and its broken cells are kept as they came.
//!
//! It relies on the reader's rules: a quote opens only at the beginning of a cell, two inside are one, a record
//! ends with `\n`, `\r` or both. What is kept of a cell is bounded, so memory does not grow with the file.

use super::source::unread;
use crate::cli::Ended;
use crate::platform::exit::Exit;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Most bytes of a quoted cell that are kept: four times what the API takes for a whole payment.
const MOST_KEPT: usize = 64 * 1024;
/// What some programs write before the first cell; the reader skips it.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a file begins with that is text of another form.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// Where the last byte left us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// Before a record.
    BeforeRecord,
    /// At the beginning of a cell.
    AtCell,
    /// In a cell without quotes, where a quote is a character.
    Plain,
    /// Between quotes.
    Quoted,
    /// Behind a quote that closes, unless another follows.
    Closed,
    /// In what follows a closing quote and may not.
    Broken,
}

/// A record as its bytes came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Came {
    /// The line on which it begins, from 1.
    pub(super) line: u64,
    /// A quoted cell of it has line ends.
    pub(super) over_lines: bool,
    /// Cells with text after their closing quote: which, from 0, and as they came.
    pub(super) broken: Vec<(usize, Vec<u8>)>,
    /// The line of the quote that opened the first broken cell, and that of what follows the closing one.
    pub(super) torn: Option<(u64, u64)>,
}

/// A place in a file's quotes and lines.
#[derive(Debug)]
pub(super) struct Quotes {
    stands: Stands,
    /// The line of the next byte, from 1.
    line: u64,
    /// The byte before was `\r`, whose line end is counted.
    after_return: bool,
    /// Bytes seen, while they may be a byte order mark.
    marks: usize,
    cell: usize,
    opened_on: u64,
    raw: Vec<u8>,
    came: Option<Came>,
}

impl Quotes {
    /// At the beginning of a file.
    pub(super) fn new() -> Self {
        Self {
            stands: Stands::BeforeRecord,
            line: 1,
            after_return: false,
            marks: 0,
            cell: 0,
            opened_on: 1,
            raw: Vec::new(),
            came: None,
        }
    }

    /// The next byte. A record that it ends is given by [`Quotes::record`].
    pub(super) fn push(&mut self, byte: u8) {
        if self.marks < BOM.len() {
            if BOM.get(self.marks) == Some(&byte) {
                self.marks += 1;
                return;
            }
            if self.marks > 0 {
                // It began like a mark and is none: a cell without quotes.
                self.came = Some(Came { line: 1, ..Came::default() });
                self.stands = Stands::Plain;
            }
            self.marks = BOM.len();
        }
        let ends_line = matches!(byte, b'\r' | b'\n');
        if !ends_line && self.stands == Stands::BeforeRecord {
            self.came = Some(Came { line: self.line, ..Came::default() });
            self.cell = 0;
            self.stands = Stands::AtCell;
        }
        self.moved(byte, ends_line);
        match byte {
            b'\r' => self.line += 1,
            b'\n' => self.line += u64::from(!self.after_return),
            _ => {}
        }
        self.after_return = byte == b'\r';
    }

    fn moved(&mut self, byte: u8, ends_line: bool) {
        match (self.stands, byte) {
            (Stands::BeforeRecord, _) => {}
            (Stands::Quoted, _) => {
                if let Some(came) = self.came.as_mut().filter(|_| ends_line) {
                    came.over_lines = true;
                }
                self.keep(byte);
                if byte == b'"' {
                    self.stands = Stands::Closed;
                }
            }
            (Stands::Closed, b'"') => {
                self.keep(byte);
                self.stands = Stands::Quoted;
            }
            (Stands::AtCell, b'"') => {
                self.raw.clear();
                self.keep(byte);
                self.opened_on = self.line;
                self.stands = Stands::Quoted;
            }
            (_, b',') => self.ends_cell(Stands::AtCell),
            (_, _) if ends_line => self.ends_cell(Stands::BeforeRecord),
            (Stands::AtCell | Stands::Plain, _) => self.stands = Stands::Plain,
            (Stands::Closed, _) => {
                let torn = (self.opened_on, self.line);
                if let Some(came) = self.came.as_mut() {
                    came.torn.get_or_insert(torn);
                }
                self.keep(byte);
                self.stands = Stands::Broken;
            }
            (Stands::Broken, _) => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.raw.len() < MOST_KEPT {
            self.raw.push(byte);
        }
    }

    fn ends_cell(&mut self, next: Stands) {
        if self.stands == Stands::Broken {
            let raw = std::mem::take(&mut self.raw);
            if let Some(came) = self.came.as_mut() {
                came.broken.push((self.cell, raw));
            }
        }
        self.cell += 1;
        self.stands = next;
    }

    /// The record that has ended since the last call; at the end of a file what stands there.
    pub(super) fn record(&mut self, is_end: bool) -> Option<Came> {
        if is_end && self.stands != Stands::BeforeRecord {
            self.ends_cell(Stands::BeforeRecord);
        }
        if self.stands == Stands::BeforeRecord { self.came.take() } else { None }
    }

    /// Nothing was read yet.
    fn at_start(&self) -> bool {
        self.marks == 0
    }

    /// The line of the next byte.
    pub(super) fn line(&self) -> u64 {
        self.line
    }
}

/// Reads a CSV file for its quotes alone.
///
/// # Errors
/// [`Exit::Usage`]: a quote is never closed, or closes lines later and is followed by text.
pub(super) fn whole(file: &Path, opened: impl Read) -> Result<(), Ended> {
    let mut reader = BufReader::with_capacity(64 * 1024, opened);
    let mut quotes = Quotes::new();
    loop {
        let chunk = reader.fill_buf().map_err(|error| unread(file, &error))?;
        let read = chunk.len();
        if quotes.at_start() && UTF_16.iter().any(|mark| chunk.starts_with(mark)) {
            let told = format!("{} is UTF-16: save it as UTF-8", file.display());
            return Err(Ended::with(Exit::Usage, told));
        }
        if read == 0 {
            break;
        }
        for byte in chunk {
            quotes.push(*byte);
            if quotes.stands == Stands::BeforeRecord
                && let Some(came) = quotes.came.take()
            {
                lines_of_their_own(file, &came)?;
            }
        }
        reader.consume(read);
    }
    if quotes.stands == Stands::Quoted {
        return Err(refused(file, quotes.opened_on, "and none closes it before the file ends"));
    }
    quotes.record(true).map_or(Ok(()), |came| lines_of_their_own(file, &came))
}

fn lines_of_their_own(file: &Path, came: &Came) -> Result<(), Ended> {
    match came.torn {
        Some((opened, torn)) if came.over_lines => {
            Err(refused(file, opened, &format!("and text follows the one that closes it on line {torn}")))
        }
        Some(_) | None => Ok(()),
    }
}

fn refused(file: &Path, line: u64, why: &str) -> Ended {
    let told = format!(
        "{}: line {line}: a quote opens a cell here, {why}, so that rows after it are taken for text. Nothing of \
         the file is sent. Write a quote inside a cell twice, with quotes around the cell: \"17\"\" pipe\"",
        file.display()
    );
    Ended::with(Exit::Usage, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<String> {
        whole(Path::new("x.csv"), text.as_bytes()).err().map(|ended| {
            assert_eq!(ended.exit, Exit::Usage);
            ended.message
        })
    }

    #[test]
    fn quotes_that_are_right_are_no_fault_however_lines_end() {
        for text in [
            "",
            "a,b\n",
            "\u{feff}\"a\",b\r\n\"x\r\ny\",\"\"\r\n",
            "a\n\"17\"\" pipe\"\n17\" pipe\n\"\"\"\"",
            "a\r\"b\rc\"\r",
            "a,b\n \"x\", \"y\"\n",
        ] {
            assert_eq!(refusal(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_quote_that_takes_rows_for_text_is_refused_with_the_line_on_which_it_opens() {
        for (text, line) in [
            ("a,b\n1,\"2\n3,4\n5,6\n", 2),
            ("a,b\r\n1,2\r\n\r\n1,\"2\r\n3,4", 4),
            ("a,b\n1,2\n1,\"17 pipe\n3,\"4\" hose\n5,6\n", 3),
            ("a,b\n\"x\ny\",\"2\n3,\"4\n", 3),
            ("\u{feff}\"a,b\n1,2\n", 1),
        ] {
            let told = refusal(text).unwrap_or_else(|| panic!("{text:?}"));
            assert!(told.contains(&format!("line {line}: a quote opens")), "{text:?}: {told}");
        }
    }

    #[test]
    fn utf_16_is_named_and_not_taken_for_bad_quotes() {
        let text: Vec<u8> = "\u{feff}\"a\"\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let ended = whole(Path::new("x.csv"), text.as_slice()).unwrap_err();
        assert!(ended.exit == Exit::Usage && ended.message.contains("save it as UTF-8"), "{}", ended.message);
    }

    /// Cells of each record as the reader takes them, and as they are counted here.
    fn both(text: &[u8]) -> (Vec<usize>, Vec<usize>) {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
        let theirs = reader.byte_records().map(|record| record.unwrap().len()).collect();
        let (mut quotes, mut ours) = (Quotes::new(), Vec::new());
        for byte in text {
            quotes.push(*byte);
            ours.extend(quotes.record(false).map(|_| quotes.cell));
        }
        ours.extend(quotes.record(true).map(|_| quotes.cell));
        (theirs, ours)
    }

    #[test]
    fn records_and_cells_are_those_of_the_reader_in_every_short_text() {
        let alphabet = *b"\",\n\ra";
        let mut compared = 0;
        for length in 0..=6_u32 {
            for number in 0..5_usize.pow(length) {
                let text: Vec<u8> =
                    (0..length).map(|place| alphabet[number / 5_usize.pow(place) % 5]).collect();
                let (theirs, ours) = both(&text);
                assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(&text));
                compared += 1;
            }
        }
        assert_eq!(compared, 19_531);
    }

    #[test]
    fn a_cell_that_is_broken_on_its_line_is_kept_as_it_came() {
        let mut quotes = Quotes::new();
        b"a\n\"x, y\",\"17\" pipe,\"p\"\"\"q\"\n".iter().for_each(|byte| quotes.push(*byte));
        let came = quotes.record(false).unwrap();
        assert_eq!((came.line, came.over_lines), (2, false));
        assert_eq!(came.broken, [(1, b"\"17\" pipe".to_vec()), (2, b"\"p\"\"\"q\"".to_vec())]);
    }
}
