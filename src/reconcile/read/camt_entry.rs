//! An entry of an account and the transactions inside it, as lines.
//!
//! One entry is one booking; a batch books many transactions at once, and then each of them is a line and their
//! amounts must come to the entry's. Where there is one transaction, the account's amount is the entry's; where there
//! is none, the entry is the line.
//!
//! A bank's account has much that is no business of ours. So what is ours is told by the key: only under one of our
//! form is an entry a charge, a refund or a chargeback, and everything else is `fee` or `other`.
//!
//! | booked on the charges' side | under our key | otherwise |
//! |---|---|---|
//! | as an entry of its own | charge | fee where the bank says so, else other |
//! | as a reversal or return | refund (one that came back) | other |
//!
//! | booked on the other side | under our key | otherwise |
//! |---|---|---|
//! | as an entry of its own | refund | other |
//! | as a reversal or return | chargeback | other |

use super::camt_fields::Field;
use super::camt_values::{Amount, amount, bank_day, count, once, side, signed, truth, utc_day};
use super::format::Side;
use super::hand::Draft;
use super::why::Why;
use crate::domain::settlement::{Kind, payment_of};
use chrono::NaiveDate;

/// Sub-families of bank transaction codes that are the bank's own price.
const FEES: [&str; 4] = ["CHRG", "FEES", "COMM", "COME"];

/// Is it booked?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Booked,
    /// Pending, for information, or of the future: no money moved yet.
    NotBooked,
}

/// An entry while it is being read.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) at_line: u64,
    pub(super) amount: Option<Amount>,
    pub(super) side: Option<Side>,
    is_reversal: Option<bool>,
    status: Option<Status>,
    booked_on: Option<NaiveDate>,
    valued_on: Option<NaiveDate>,
    bank_reference: Option<String>,
    family: Option<String>,
    /// The first transaction, until it is known whether it is the only one.
    pub(super) held: Option<Transaction>,
    pub(super) transactions: u64,
    /// What they come to, credit above zero.
    total_minor: i64,
    batch: Batch,
}

/// One `NtryDtls`.
#[derive(Debug, Default)]
struct Batch {
    count: Option<u64>,
    amount: Option<Amount>,
    transactions: u64,
    /// Without signs; `None` where one does not say.
    total_minor: Option<i64>,
}

/// A transaction while it is being read.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) at_line: u64,
    pub(super) raw_hash: [u8; 32],
    key: Option<String>,
    bank_reference: Option<String>,
    amount: Option<Amount>,
    side: Option<Side>,
    booked: Option<Amount>,
    instructed: Option<Amount>,
    is_returned: bool,
    executed_on: Option<NaiveDate>,
}

/// What an entry must say before its transactions can be lines.
#[derive(Debug, Clone, Copy)]
struct Head {
    amount: Amount,
    side: Side,
    booked_on: NaiveDate,
}

impl Transaction {
    pub(super) fn new(at_line: u64) -> Self {
        Self { at_line, ..Self::default() }
    }

    /// A closed element of it.
    pub(super) fn take(&mut self, field: Field, text: &str, code: Option<&str>) -> Result<(), Why> {
        match field {
            Field::Key => once(&mut self.key, text.to_owned(), field),
            Field::BankReference => once(&mut self.bank_reference, text.to_owned(), field),
            Field::Amount => once(&mut self.amount, amount(field, text, code)?, field),
            Field::Side => once(&mut self.side, side(field, text)?, field),
            Field::BookedAmount => once(&mut self.booked, amount(field, text, code)?, field),
            Field::InstructedAmount => once(&mut self.instructed, amount(field, text, code)?, field),
            Field::Return => {
                self.is_returned = true;
                Ok(())
            }
            Field::ExecutedAt => {
                self.executed_on = Some(utc_day(field, text)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Its part of an entry in the account's currency.
    fn share(&self, of: Amount) -> Option<i64> {
        let mut told = [self.amount, self.booked, self.instructed].into_iter().flatten();
        told.find(|(_, currency)| *currency == of.1).map(|(minor, _)| minor)
    }

    /// The key, unless it says that there is none.
    fn key(&self) -> Option<&str> {
        self.key.as_deref().filter(|key| !key.is_empty() && !key.eq_ignore_ascii_case("NOTPROVIDED"))
    }
}

impl Entry {
    pub(super) fn new(at_line: u64) -> Self {
        Self { at_line, ..Self::default() }
    }

    /// A closed element of it.
    pub(super) fn take(&mut self, field: Field, text: &str, code: Option<&str>) -> Result<(), Why> {
        match field {
            Field::EntryAmount => once(&mut self.amount, amount(field, text, code)?, field),
            Field::EntrySide => once(&mut self.side, side(field, text)?, field),
            Field::EntryIsReversal => once(&mut self.is_reversal, truth(field, text)?, field),
            // The element around the code.
            Field::EntryStatus if text.is_empty() => Ok(()),
            Field::EntryStatus => once(&mut self.status, status(text)?, field),
            Field::EntryBookedOn => once(&mut self.booked_on, bank_day(field, text)?, field),
            Field::EntryValuedOn => once(&mut self.valued_on, bank_day(field, text)?, field),
            Field::EntryBankReference => once(&mut self.bank_reference, text.to_owned(), field),
            Field::EntryFamily => once(&mut self.family, text.to_owned(), field),
            Field::BatchCount => once(&mut self.batch.count, count(field, text)?, field),
            Field::BatchAmount => once(&mut self.batch.amount, amount(field, text, code)?, field),
            _ => Ok(()),
        }
    }

    /// An `NtryDtls` begins.
    pub(super) fn begin_batch(&mut self) {
        self.batch = Batch { total_minor: Some(0), ..Batch::default() };
    }

    /// It ends: what it says of its transactions must be so. One that lists none says it of what it does not list.
    pub(super) fn end_batch(&mut self) -> Result<(), Why> {
        let batch = std::mem::take(&mut self.batch);
        if batch.transactions == 0 {
            return Ok(());
        }
        if let Some(said) = batch.count.filter(|said| *said != batch.transactions) {
            return Err(Why::differs("the NbOfTxs of a batch", &said, &batch.transactions));
        }
        let same = |(_, currency): &Amount| self.amount.is_some_and(|(_, own)| own == *currency);
        if let (Some((said, _)), Some(found)) = (batch.amount.filter(same), batch.total_minor)
            && said != found
        {
            return Err(Why::differs("the TtlAmt of a batch in minor units", &said, &found));
        }
        Ok(())
    }

    /// A transaction was read: one more for the sums.
    pub(super) fn count(&mut self, transaction: &Transaction) -> Result<(), Why> {
        self.transactions += 1;
        self.batch.transactions += 1;
        let Some(head) = self.amount.zip(self.side) else {
            return Err(Why::missing("the amount of the entry"));
        };
        let share = transaction.share(head.0);
        let plus = |sum: Option<i64>, more: i64| sum.and_then(|sum| sum.checked_add(more));
        let too_large = || Why::TooLarge { what: "the sum of a batch".into() };
        if let Some(share) = share {
            let moved = signed(share, transaction.side.unwrap_or(head.1));
            self.total_minor = plus(Some(self.total_minor), moved).ok_or_else(too_large)?;
            if self.batch.total_minor.is_some() {
                self.batch.total_minor = Some(plus(self.batch.total_minor, share).ok_or_else(too_large)?);
            }
        } else {
            self.batch.total_minor = None;
        }
        Ok(())
    }

    /// Are lines made of it?
    pub(super) fn status(&self) -> Result<Status, Why> {
        self.status.ok_or_else(|| Why::missing("the status of the entry"))
    }

    /// The end of an entry with several transactions: they must come to it.
    pub(super) fn hold_total(&self) -> Result<(), Why> {
        let head = self.head()?;
        let said = signed(head.amount.0, head.side);
        if said == self.total_minor {
            return Ok(());
        }
        Err(Why::differs("the amount of the entry in minor units", &said, &self.total_minor))
    }

    fn head(&self) -> Result<Head, Why> {
        Ok(Head {
            amount: self.amount.ok_or_else(|| Why::missing("the amount of the entry"))?,
            side: self.side.ok_or_else(|| Why::missing("the CdtDbtInd of the entry"))?,
            booked_on: self
                .booked_on
                .or(self.valued_on)
                .ok_or_else(|| Why::missing("the booking date of the entry"))?,
        })
    }

    /// The line of an entry without transactions.
    pub(super) fn line(&self, charges: Side) -> Result<Draft, Why> {
        self.draft(&Transaction::default(), self.head()?.amount.0, charges)
    }

    /// The line of its only transaction: the account's amount is the entry's.
    pub(super) fn line_of_one(&self, only: &Transaction, charges: Side) -> Result<Draft, Why> {
        let head = self.head()?;
        if let Some(side) = only.side.filter(|side| *side != head.side) {
            return Err(Why::differs("the CdtDbtInd of the entry", &head.side.as_str(), &side.as_str()));
        }
        // What was booked is repeated inside; what was instructed may have been another amount.
        let repeated =
            [only.amount, only.booked].into_iter().flatten().find(|(_, own)| *own == head.amount.1);
        if let Some((found, _)) = repeated.filter(|(minor, _)| *minor != head.amount.0) {
            return Err(Why::differs("the amount of the entry in minor units", &head.amount.0, &found));
        }
        self.draft(only, head.amount.0, charges)
    }

    /// The line of one of several.
    pub(super) fn line_of_many(&self, one: &Transaction, charges: Side) -> Result<Draft, Why> {
        let share = one.share(self.head()?.amount);
        let share =
            share.ok_or_else(|| Why::missing("the transaction's amount in the account's currency"))?;
        self.draft(one, share, charges)
    }

    fn draft(&self, of: &Transaction, net: i64, charges: Side) -> Result<Draft, Why> {
        let head = self.head()?;
        let side = of.side.unwrap_or(head.side);
        let turn = if self.is_reversal == Some(true) || of.is_returned { Turn::Back } else { Turn::Own };
        let kind = kind(of.key(), (side, charges), turn, self.family.as_deref());
        let sign = if side == charges { 1 } else { -1 };
        let (gross, currency) = of.instructed.unwrap_or((net, head.amount.1));
        let net_currency = head.amount.1;
        let (gross_minor, net_minor) = (sign * gross, sign * net);
        let fee_minor = if currency == net_currency { gross_minor - net_minor } else { 0 };
        // `NtryRef` is no name: it counts the entries of its statement, and begins anew in the next one.
        let first = [&of.bank_reference, &self.bank_reference].into_iter().flatten();
        Ok(Draft {
            key: of.key().map(str::to_owned),
            gateway_ref: first.into_iter().find(|text| !text.is_empty()).cloned(),
            charge_ref: None,
            kind,
            gross_minor,
            currency,
            fee_minor,
            net_minor,
            net_currency,
            booked_on: head.booked_on,
            executed_on: of.executed_on,
        })
    }
}

fn status(text: &str) -> Result<Status, Why> {
    match text {
        "BOOK" => Ok(Status::Booked),
        "PDNG" | "INFO" | "FUTR" => Ok(Status::NotBooked),
        _ => Err(Why::bad("the status of the entry", text)),
    }
}

/// Is it a movement of its own, or one that comes back?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Own,
    Back,
}

fn kind(key: Option<&str>, (side, charges): (Side, Side), turn: Turn, family: Option<&str>) -> Kind {
    // Ids of refunds are of the same form.
    if key.and_then(payment_of).is_none() {
        let is_fee = family.is_some_and(|family| FEES.contains(&family));
        return if is_fee { Kind::Fee } else { Kind::Other };
    }
    match turn {
        Turn::Own if side == charges => Kind::Charge,
        Turn::Own => Kind::Refund,
        Turn::Back if side == charges => Kind::Refund,
        Turn::Back => Kind::Chargeback,
    }
}
