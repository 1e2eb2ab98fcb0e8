//! ISO 20022 `camt.053` (a bank's statement) and `camt.054` (its notification), of any version.
//!
//! **Promises**: each booked transaction is a line, in the file's order, with memory that does not grow with a batch;
//! what the bank says of counts, sums and balances is held against the entries; an entry that is not booked yet is
//! passed over and counted. **Relies on** [`super::xml`] for what is dangerous in XML.
//!
//! The elements come in the schema's order, so an entry's amount, side, status and day are known when its
//! transactions come; a file that has them in another order is refused where they are missed.

use super::camt_entry::{Entry, Status, Transaction};
use super::camt_fields::{Field, field};
use super::camt_sums::{Pages, Statement};
use super::camt_values::{count, truth};
use super::format::{CamtTerms, Side};
use super::hand::{Hand, Known};
use super::report::{Report, Stopped};
use super::tap::Tap;
use super::why::{At, Why};
use super::xml::{Piece, Seen, Xml};
use crate::domain::settlement::Line;
use chrono::NaiveDate;
use std::io::BufRead;

/// Which of the two messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// How its namespaces go on behind their authority.
    urn: &'static str,
    /// The element inside `Document`.
    element: &'static str,
    /// What it repeats.
    part: &'static str,
    expected: &'static str,
}

pub(super) const STATEMENT: Message =
    Message { urn: "camt.053.001.", element: "BkToCstmrStmt", part: "Stmt", expected: "a camt.053 document" };
pub(super) const NOTIFICATION: Message = Message {
    urn: "camt.054.001.",
    element: "BkToCstmrDbtCdtNtfctn",
    part: "Ntfctn",
    expected: "a camt.054 document",
};

/// A file while it is being read.
struct Reading<F> {
    hand: Hand<F>,
    charges: Side,
    statement: Statement,
    entry: Option<Entry>,
    transaction: Option<Transaction>,
    parts: u64,
    /// Of the only or the first part.
    source_id: Option<String>,
    day: Option<NaiveDate>,
    message_id: Option<String>,
    message_page: Option<u64>,
    message_is_last: Option<bool>,
    is_complete: bool,
    passed_over: u64,
}

/// Where the element that was seen stands.
enum Place {
    /// The root, or what is inside it beside the parts.
    Document,
    MessageId,
    PageNumber,
    IsLastPage,
    /// A statement or notification itself.
    Part,
    Field(Field),
    Unread,
}

pub(super) fn read<R: BufRead, E, F: FnMut(Line) -> Result<(), E>>(
    tap: Tap<R>,
    hand: Hand<F>,
    message: Message,
    terms: CamtTerms,
) -> Result<Report, Stopped<E>> {
    let mut xml = Xml::new(tap);
    let mut reading = Reading {
        hand,
        charges: terms.charges,
        statement: Statement::default(),
        entry: None,
        transaction: None,
        parts: 0,
        source_id: None,
        day: None,
        message_id: None,
        message_page: None,
        message_is_last: None,
        is_complete: true,
        passed_over: 0,
    };
    loop {
        let seen = xml.next()?;
        let line = xml.line();
        match (seen, place(xml.path(), message)) {
            (Seen::End, _) => break,
            (Seen::Opened, Place::Document) => check(&xml, message).at(line)?,
            (Seen::Opened, Place::Part) => reading.statement = Statement::default(),
            (Seen::Opened, Place::Field(field)) => reading.opened(&mut xml, field)?,
            (Seen::Closed { .. }, Place::Part) => reading.part(line)?,
            (Seen::Closed { text, .. }, Place::MessageId) => reading.message_id = Some(text),
            (Seen::Closed { text, .. }, Place::PageNumber) => {
                reading.message_page = Some(count(Field::PageNumber, &text).at(line)?);
            }
            (Seen::Closed { text, .. }, Place::IsLastPage) => {
                reading.message_is_last = Some(truth(Field::IsLastPage, &text).at(line)?);
            }
            (Seen::Closed { text, currency }, Place::Field(field)) => {
                reading.closed(&mut xml, field, &text, currency.as_deref())?;
            }
            (Seen::Opened | Seen::Closed { .. }, _) => {}
        }
    }
    if reading.parts == 0 {
        return Err(Stopped::refused(xml.line(), Why::missing(message.part)));
    }
    let known = Known {
        source_id: if reading.parts == 1 { reading.source_id } else { reading.message_id },
        day: reading.day.filter(|_| reading.parts == 1),
        is_complete: reading.is_complete,
        passed_over: reading.passed_over,
    };
    Ok(reading.hand.finish(known, xml.into_tap()))
}

fn place(path: &str, message: Message) -> Place {
    let Some(inside) = path.strip_prefix("Document/") else { return Place::Document };
    let Some(inside) = inside.strip_prefix(message.element) else { return Place::Document };
    match inside.strip_prefix('/') {
        Some("GrpHdr/MsgId") => return Place::MessageId,
        Some("GrpHdr/MsgPgntn/PgNb") => return Place::PageNumber,
        Some("GrpHdr/MsgPgntn/LastPgInd") => return Place::IsLastPage,
        _ => {}
    }
    match inside.strip_prefix('/').and_then(|inside| inside.strip_prefix(message.part)) {
        Some("") => Place::Part,
        Some(inside) => inside.strip_prefix('/').and_then(field).map_or(Place::Unread, Place::Field),
        None => Place::Unread,
    }
}

/// Is this what it should be, as far as the root says?
fn check<R: BufRead>(xml: &Xml<R>, message: Message) -> Result<(), Why> {
    let version = xml.namespace().split_once(message.urn).map(|(_, version)| version);
    let is_version =
        version.is_some_and(|text| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()));
    if xml.path() == "Document" && is_version {
        return Ok(());
    }
    Err(Why::NotThisFormat { expected: message.expected })
}

impl<F> Reading<F> {
    fn opened<R: BufRead, E>(&mut self, xml: &mut Xml<R>, field: Field) -> Result<(), Stopped<E>> {
        match (field, self.entry.as_mut()) {
            (Field::Entry, None) => {
                self.entry = Some(Entry::new(xml.line()));
                xml.begin(Piece::Entry);
            }
            (Field::Details, Some(entry)) => entry.begin_batch(),
            (Field::Transaction, Some(entry)) => {
                entry.status().at(xml.line())?;
                self.transaction = Some(Transaction::new(xml.line()));
                xml.begin(Piece::Transaction);
            }
            _ => {}
        }
        Ok(())
    }

    fn closed<R: BufRead, E>(
        &mut self,
        xml: &mut Xml<R>,
        field: Field,
        text: &str,
        currency: Option<&str>,
    ) -> Result<(), Stopped<E>>
    where
        F: FnMut(Line) -> Result<(), E>,
    {
        let line = xml.line();
        match (field, self.entry.as_mut()) {
            (Field::Entry, Some(_)) => {
                let raw_hash = xml.end(Piece::Entry);
                self.end_entry(raw_hash, line)
            }
            (Field::Details, Some(entry)) => entry.end_batch().at(line),
            (Field::Transaction, Some(_)) => {
                let raw_hash = xml.end(Piece::Transaction);
                self.end_transaction(raw_hash)
            }
            (field, Some(entry)) => match self.transaction.as_mut() {
                Some(transaction) => transaction.take(field, text, currency).at(line),
                None => entry.take(field, text, currency).at(line),
            },
            (field, None) => self.statement.take(field, text, currency, line).at(line),
        }
    }

    fn end_transaction<E>(&mut self, raw_hash: [u8; 32]) -> Result<(), Stopped<E>>
    where
        F: FnMut(Line) -> Result<(), E>,
    {
        let (Some(entry), Some(mut transaction)) = (self.entry.as_mut(), self.transaction.take()) else {
            return Ok(());
        };
        let at_line = transaction.at_line;
        transaction.raw_hash = raw_hash;
        entry.count(&transaction).at(at_line)?;
        if entry.status().at(at_line)? == Status::NotBooked {
            return Ok(());
        }
        if entry.transactions == 1 {
            entry.held = Some(transaction);
            return Ok(());
        }
        for one in entry.held.take().into_iter().chain([transaction]) {
            let draft = entry.line_of_many(&one, self.charges).at(one.at_line)?;
            self.hand.give(draft, one.at_line, one.raw_hash)?;
        }
        Ok(())
    }

    fn end_entry<E>(&mut self, raw_hash: [u8; 32], line: u64) -> Result<(), Stopped<E>>
    where
        F: FnMut(Line) -> Result<(), E>,
    {
        let Some(mut entry) = self.entry.take() else { return Ok(()) };
        let at_line = entry.at_line;
        let status = entry.status().at(at_line)?;
        self.statement.count(&entry, status).at(at_line)?;
        if status == Status::NotBooked {
            self.passed_over += 1;
            return Ok(());
        }
        if let Some(only) = entry.held.take() {
            let draft = entry.line_of_one(&only, self.charges).at(only.at_line)?;
            return self.hand.give(draft, only.at_line, only.raw_hash);
        }
        if entry.transactions == 0 {
            return self.hand.give(entry.line(self.charges).at(at_line)?, at_line, raw_hash);
        }
        entry.hold_total().at(line)
    }

    /// A statement or notification was read.
    fn part<E>(&mut self, line: u64) -> Result<(), Stopped<E>> {
        let statement = std::mem::take(&mut self.statement);
        let message = Pages::of(self.message_page, self.message_is_last);
        statement.hold(message, line).map_err(|(line, why)| Stopped::refused(line, why))?;
        let id = statement.id().ok_or_else(|| Why::missing("Id")).at(line)?;
        self.parts += 1;
        // A message of several pages repeats the statement's id on each.
        let paged = self.message_page.filter(|_| message == Pages::Several);
        self.source_id.get_or_insert_with(|| paged.map_or_else(|| id.clone(), |page| format!("{id}#{page}")));
        self.day = self.day.or(statement.day());
        self.is_complete &= statement.is_complete() && message == Pages::One;
        Ok(())
    }
}
