//! On which line of a CSV file a record begins, whatever ends its lines, and how its quotes came.
//!
//! The reader's own count is of no use here: it counts a `\r\n` when it reads on, so that in a file of mixed
//! line ends two records can have one number, and with it one idempotency key. So the bytes are counted beside
//! it, in order, from a second handle of the file.

use super::quotes::{Came, Quotes};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// A place in the file and the line that it is on.
pub(super) struct Lines {
    reader: BufReader<File>,
    /// Bytes before the place.
    at: u64,
    quotes: Quotes,
}

impl Lines {
    /// At the beginning of a file that was just opened.
    pub(super) fn of(file: File) -> Self {
        Self { reader: BufReader::new(file), at: 0, quotes: Quotes::new() }
    }

    /// The record that begins at or after the place and ends at `end`; the place moves there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn of_record(&mut self, end: u64) -> std::io::Result<Came> {
        while self.at < end {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            // The file is longer than what is read at once, so a length of that fits.
            let most = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(chunk.len());
            chunk[..most].iter().for_each(|byte| self.quotes.push(*byte));
            self.reader.consume(most);
            self.at += most as u64;
        }
        let here = self.quotes.line();
        Ok(self.quotes.record(true).unwrap_or(Came { line: here, ..Came::default() }))
    }
}
