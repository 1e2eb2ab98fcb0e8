//! On which line of a CSV file a record begins, whatever ends its lines.
//!
//! The reader's own count is of no use here: it counts a `\r\n` when it reads on, so that in a file of mixed
//! line ends two records can have one number, and with it one idempotency key. So the bytes are counted beside
//! it, in order, from a second handle of the file.

use std::fs::File;
use std::io::{BufRead, BufReader};

/// A place in the file and the line that it is on.
pub(super) struct Lines {
    reader: BufReader<File>,
    /// Bytes before the place.
    at: u64,
    /// From 1.
    line: u64,
    /// The byte before it was `\r`, whose line end is counted.
    after_return: bool,
}

impl Lines {
    /// At the beginning of a file that was just opened.
    pub(super) fn of(file: File) -> Self {
        Self { reader: BufReader::new(file), at: 0, line: 1, after_return: false }
    }

    /// The line of the record that begins at or after the place and ends at `end`; the place moves there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn of_record(&mut self, end: u64) -> std::io::Result<u64> {
        let mut first = None;
        while self.at < end {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            // The file is longer than what is read at once, so a length of that fits.
            let most = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(chunk.len());
            for byte in &chunk[..most] {
                match byte {
                    b'\r' => {
                        self.line += 1;
                        self.after_return = true;
                    }
                    b'\n' => {
                        self.line += u64::from(!self.after_return);
                        self.after_return = false;
                    }
                    _ => {
                        // Line ends before the record are those of the one before it, or blank lines.
                        first.get_or_insert(self.line);
                        self.after_return = false;
                    }
                }
            }
            self.reader.consume(most);
            self.at += most as u64;
        }
        Ok(first.unwrap_or(self.line))
    }
}
