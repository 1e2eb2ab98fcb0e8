//! The settlement report as a stream: the ledger's file read, booked and written, block by block.
//!
//! **Promises**: memory that does not grow with the ledger (a block of lines, a chunk of text, and
//! the chosen defects); the same day, seed and settings give the same report once the day is over.
//! **How**: with defects, a first reading chooses the lines that go wrong and a second one writes.
//! A late booking stands in the next day's report, so both days are chosen from. **If this dies**,
//! the report has no `end`, and a reader must not believe it.
//!
//! The list of defects, one line each, in the ledger's order: the right line (as it would stand in
//! its own day's report) and what this day's report has instead:
//!
//! ```text
//! {"defect":"amount","is":{…},"reported":[{…}]}
//! {"defect":"missing","is":{…},"reported":[]}
//! {"defect":"unknown","is":{…},"reported":[{…},{…}]}    the right line, then one that nobody caused
//! {"defect":"late","is":{…},"reported":[]}              on the day of the charge, and the next day:
//! {"defect":"late","is":{…},"reported":[{…}]}
//! ```

use super::book::Booking;
use super::routes::Shared;
use super::settlement::{Row, Terms};
use crate::platform::config::Defect;
use axum::body::Bytes;
use chrono::{DateTime, Days, NaiveDate, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Lines looked up under one lock of the book.
const BLOCK: usize = 512;

/// Bytes of text sent at once.
const CHUNK: usize = 64 * 1024;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The report itself.
    Report,
    /// What is wrong with it.
    Defects,
}

/// One report being written.
pub(super) struct Writing {
    pub(super) shared: Arc<Shared>,
    pub(super) terms: Terms,
    pub(super) day: NaiveDate,
    pub(super) what: What,
    pub(super) out: mpsc::Sender<io::Result<Bytes>>,
}

/// The part of the ledger's line that booking needs.
#[derive(Debug, Deserialize)]
struct Glance {
    seq: u64,
    at: DateTime<Utc>,
    key: Option<String>,
    charged: bool,
}

#[derive(Serialize)]
struct Wrong<'a> {
    defect: &'static str,
    is: &'a Row,
    reported: Vec<Row>,
}

#[derive(Serialize)]
struct End {
    end: Count,
}

#[derive(Serialize)]
struct Count {
    day: NaiveDate,
    lines: u64,
    complete: bool,
}

/// The client has gone, or the ledger cannot be read.
enum Stop {
    Gone,
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Writing {
    /// Reads and writes until done or nobody listens. Blocks.
    pub(super) fn run(self) {
        match self.write() {
            Ok(()) | Err(Stop::Gone) => {}
            Err(Stop::Failed(error)) => {
                tracing::error!(%error, "a settlement report cannot be finished");
                // Whoever reads it is told by the broken stream; a receiver that went away need not be.
                let _ = self.out.blocking_send(Err(error));
            }
        }
    }

    fn write(&self) -> Result<(), Stop> {
        let now = self.shared.clock.wall();
        // Both readings see the same lines.
        let (_, durable_bytes) = self.shared.ledger.durable();
        let before = self.day.checked_sub_days(Days::new(1));
        let (mut today, mut yesterday) = (self.terms.lottery(), self.terms.lottery());
        if !self.terms.defects.0.is_empty() {
            self.bookings(now, durable_bytes, |_, seq, booking| {
                let day = booking.moved_at.date_naive();
                if day == self.day {
                    today.enter(seq);
                } else if Some(day) == before {
                    yesterday.enter(seq);
                }
                Ok(())
            })?;
        }
        let mut wrong = today.winners();
        let late = yesterday.winners().into_iter().filter(|(_, defect)| *defect == Defect::Late);
        wrong.extend(late);
        let mut text = Text { out: &self.out, chunk: Vec::with_capacity(CHUNK), lines: 0 };
        self.bookings(now, durable_bytes, |key, seq, booking| {
            self.one(&wrong, key, seq, booking, &mut text)
        })?;
        if self.what == What::Report {
            let over = self.day.succ_opt().is_some_and(|next| now.date_naive() >= next);
            let end = Count { day: self.day, lines: text.lines, complete: over };
            text.line(&End { end })?;
        }
        text.flush()
    }

    /// One charge's part of the report.
    fn one(
        &self,
        wrong: &BTreeMap<u64, Defect>,
        key: String,
        seq: u64,
        booking: &Booking,
        text: &mut Text<'_>,
    ) -> Result<(), Stop> {
        let defect = wrong.get(&seq).copied();
        if booking.moved_at.date_naive() != self.day && defect.is_none() {
            return Ok(());
        }
        let row = self.terms.row(key, seq, booking);
        let mut reported = match defect {
            None => vec![row.clone()],
            Some(defect) => self.terms.wrong(&row, seq, defect),
        };
        reported.retain(|row| row.booked_on == self.day);
        match (self.what, defect) {
            (What::Report, _) => reported.iter().try_for_each(|row| text.line(row)),
            (What::Defects, Some(defect)) => text.line(&Wrong { defect: defect.name(), is: &row, reported }),
            (What::Defects, None) => Ok(()),
        }
    }

    /// Every movement of money up to `now` near the day, in the ledger's order.
    fn bookings(
        &self,
        now: DateTime<Utc>,
        durable_bytes: u64,
        mut each: impl FnMut(String, u64, &Booking) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (path, _) = self.shared.ledger.durable();
        let mut reader = BufReader::with_capacity(CHUNK, File::open(path)?.take(durable_bytes));
        let (mut text, mut block) = (Vec::new(), Vec::with_capacity(BLOCK));
        loop {
            text.clear();
            let length = reader.read_until(b'\n', &mut text)?;
            if length > 0 {
                let glance: Glance = serde_json::from_slice(&text).map_err(io::Error::other)?;
                if glance.charged && self.is_near(glance.at) {
                    block.push(glance);
                }
            }
            if block.len() == BLOCK || length == 0 {
                let booked: Vec<Option<Booking>> = {
                    let book = self.shared.book();
                    let of = |glance: &Glance| book.booking(glance.key.as_deref()?, glance.seq, glance.at);
                    block.iter().map(of).collect()
                };
                for (glance, booking) in block.drain(..).zip(booked) {
                    if let (Some(key), Some(booking)) = (glance.key, booking.filter(|b| b.moved_at <= now)) {
                        each(key, glance.seq, &booking)?;
                    }
                }
            }
            if length == 0 {
                return Ok(());
            }
        }
    }

    /// A charge decides at most a day after its line, and is booked at most a day after that.
    fn is_near(&self, at: DateTime<Utc>) -> bool {
        (0..=2).contains(&self.day.signed_duration_since(at.date_naive()).num_days())
    }
}

/// Text on its way out.
struct Text<'a> {
    out: &'a mpsc::Sender<io::Result<Bytes>>,
    chunk: Vec<u8>,
    lines: u64,
}

impl Text<'_> {
    fn line(&mut self, line: &impl Serialize) -> Result<(), Stop> {
        serde_json::to_writer(&mut self.chunk, line).map_err(io::Error::other)?;
        self.chunk.push(b'\n');
        self.lines += 1;
        if self.chunk.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        self.out.blocking_send(Ok(chunk.into())).map_err(|_| Stop::Gone)
    }
}
