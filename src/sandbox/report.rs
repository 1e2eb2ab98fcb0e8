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
//! {"defect":"unknown","is":{…},"reported":[{…},{…}]}    the right line, then one that nobody caused; `orphan` too
//! {"defect":"late","is":{…},"reported":[]}              on the day of the charge, and the next day:
//! {"defect":"late","is":{…},"reported":[{…}]}
//! ```

use super::book::{Book, Booking};
use super::line::Verdict;
use super::routes::Shared;
use super::settlement::{Kind, Movement, Row, Terms};
use super::wire::Code;
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
    amount: Option<i64>,
    currency: Option<String>,
    verdict: Verdict,
    charged: bool,
    charge: Option<String>,
}

impl Glance {
    /// The movements of money that this line caused: a charge and what the payer's bank took back of it,
    /// or a refund.
    fn movements(self, book: &Book) -> Vec<Movement> {
        let Some(key) = self.key else { return Vec::new() };
        let booked = if self.charged {
            [
                book.booking(&key, self.seq, self.at).map(|booking| (Kind::Charge, booking)),
                book.charged_back(&key, self.seq).map(|booking| (Kind::Chargeback, booking)),
            ]
        } else {
            let currency = self.currency.as_deref().and_then(Code::read);
            let of = |(amount, currency)| Booking { moved_at: self.at, amount, currency };
            [self.amount.zip(currency).map(|asked| (Kind::Refund, of(asked))), None]
        };
        let of = |(kind, booking)| {
            let (key, charge) = (key.clone(), self.charge.clone());
            Movement { kind, key, seq: self.seq, charge, booking }
        };
        booked.into_iter().flatten().map(of).collect()
    }
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
        let [mut today, mut yesterday, mut refunds] =
            [Kind::Charge, Kind::Charge, Kind::Refund].map(|kind| self.terms.lottery(kind));
        if !self.terms.defects.0.is_empty() {
            self.movements(now, durable_bytes, |movement| {
                let day = movement.booking.moved_at.date_naive();
                match movement.kind {
                    Kind::Charge if day == self.day => today.enter(movement.seq),
                    Kind::Charge if Some(day) == before => yesterday.enter(movement.seq),
                    Kind::Refund if day == self.day => refunds.enter(movement.seq),
                    Kind::Charge | Kind::Refund | Kind::Chargeback => {}
                }
                Ok(())
            })?;
        }
        let mut wrong = today.winners();
        wrong.extend(refunds.winners());
        let late = yesterday.winners().into_iter().filter(|(_, defect)| *defect == Defect::Late);
        wrong.extend(late);
        let mut text = Text { out: &self.out, chunk: Vec::with_capacity(CHUNK), lines: 0 };
        self.movements(now, durable_bytes, |movement| self.one(&wrong, movement, &mut text))?;
        if self.what == What::Report {
            let over = self.day.succ_opt().is_some_and(|next| now.date_naive() >= next);
            let end = Count { day: self.day, lines: text.lines, complete: over };
            text.line(&End { end })?;
        }
        text.flush()
    }

    /// One movement's part of the report.
    fn one(
        &self,
        wrong: &BTreeMap<u64, Defect>,
        movement: &Movement,
        text: &mut Text<'_>,
    ) -> Result<(), Stop> {
        // A chargeback has the line of its charge, whose defect is not its own.
        let defect = wrong.get(&movement.seq).copied().filter(|_| movement.kind != Kind::Chargeback);
        if movement.booking.moved_at.date_naive() != self.day && defect.is_none() {
            return Ok(());
        }
        let row = self.terms.row(movement);
        let mut reported = match defect {
            None => vec![row.clone()],
            Some(defect) => self.terms.wrong(movement, defect),
        };
        reported.retain(|row| row.booked_on == self.day);
        match (self.what, defect) {
            (What::Report, _) => reported.iter().try_for_each(|row| text.line(row)),
            (What::Defects, Some(defect)) => text.line(&Wrong { defect: defect.name(), is: &row, reported }),
            (What::Defects, None) => Ok(()),
        }
    }

    /// Every movement of money up to `now` near the day, in the ledger's order.
    fn movements(
        &self,
        now: DateTime<Utc>,
        durable_bytes: u64,
        mut each: impl FnMut(&Movement) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (path, _) = self.shared.ledger.durable();
        let mut reader = BufReader::with_capacity(CHUNK, File::open(path)?.take(durable_bytes));
        let (mut text, mut block) = (Vec::new(), Vec::with_capacity(BLOCK));
        loop {
            text.clear();
            let length = reader.read_until(b'\n', &mut text)?;
            if length > 0 {
                let glance: Glance = serde_json::from_slice(&text).map_err(io::Error::other)?;
                if (glance.charged || glance.verdict == Verdict::Refunded) && self.is_near(glance.at) {
                    block.push(glance);
                }
            }
            if block.len() == BLOCK || length == 0 {
                let moved: Vec<Movement> = {
                    let book = self.shared.book();
                    block.drain(..).flat_map(|glance: Glance| glance.movements(&book)).collect()
                };
                moved.iter().filter(|movement| movement.booking.moved_at <= now).try_for_each(&mut each)?;
            }
            if length == 0 {
                return Ok(());
            }
        }
    }

    /// A charge decides, or is taken back, at most a day after its line, and is booked at most a day after that.
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
