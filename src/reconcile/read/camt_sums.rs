//! What a statement says of itself, held against its entries: counts, sums, balances, pages.
//!
//! **Promise**: every number that the bank gives beside the entries is compared, so that an entry that was lost on the
//! way, altered or added is seen even where the file is well-formed. **Relies on** the bank giving some: one that
//! gives neither totals nor balances can lose an entry without anybody seeing it here.

use super::camt_entry::{Entry, Status};
use super::camt_fields::Field;
use super::camt_values::{Amount, amount, bank_day, count, decimal, once, side, signed, truth};
use super::format::Side;
use super::values;
use super::why::Why;
use crate::domain::money::Currency;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

/// Most balances of one statement that are kept; a bank gives a handful, a few for each of its days.
const BALANCES_MAX: usize = 1_000;

/// A statement or notification while it is being read.
#[derive(Debug, Default)]
pub(super) struct Statement {
    id: Option<String>,
    page: Option<u64>,
    is_last_page: Option<bool>,
    from: Option<NaiveDateTime>,
    to: Option<NaiveDateTime>,
    account_currency: Option<Currency>,
    balance: Balance,
    balances: Vec<Balance>,
    said: Said,
    /// All entries, credits, debits.
    found: [Tally; 3],
    /// What was booked, credit above zero.
    booked_minor: i64,
    /// The currency of the entries, and whether there are several.
    currency: Option<Currency>,
    is_mixed: bool,
}

#[derive(Debug, Default, Clone)]
struct Balance {
    code: Option<String>,
    amount: Option<Amount>,
    side: Option<Side>,
    on: Option<NaiveDate>,
}

/// Numbers beside the entries, each with its line: all, credits, debits.
#[derive(Debug, Default)]
struct Said {
    counts: [Option<(u64, u64)>; 3],
    /// Without a currency of their own, so kept as text until one is known.
    sums: [Option<(String, u64)>; 3],
    net: Option<(String, u64)>,
    net_side: Option<Side>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    entries: u64,
    sum_minor: i64,
}

/// How many pages something was written on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    One,
    /// What is said of the whole is not of what stands on this one.
    Several,
}

impl Pages {
    pub(super) fn of(page: Option<u64>, is_last: Option<bool>) -> Self {
        if page.is_none_or(|page| page == 1) && is_last != Some(false) { Self::One } else { Self::Several }
    }
}

/// Something that the statement says and that is not so, with its line.
type Wrong = (u64, Why);

impl Statement {
    /// A closed element of it.
    pub(super) fn take(
        &mut self,
        field: Field,
        text: &str,
        code: Option<&str>,
        line: u64,
    ) -> Result<(), Why> {
        match field {
            Field::Id => once(&mut self.id, text.to_owned(), field),
            Field::PageNumber => once(&mut self.page, count(field, text)?, field),
            Field::IsLastPage => once(&mut self.is_last_page, truth(field, text)?, field),
            Field::From => once(&mut self.from, clock(field, text)?, field),
            Field::To => once(&mut self.to, clock(field, text)?, field),
            Field::AccountCurrency => {
                once(&mut self.account_currency, values::currency(field.name(), text)?, field)
            }
            Field::BalanceCode => once(&mut self.balance.code, text.to_owned(), field),
            Field::BalanceAmount => once(&mut self.balance.amount, amount(field, text, code)?, field),
            Field::BalanceSide => once(&mut self.balance.side, side(field, text)?, field),
            Field::BalanceDay => once(&mut self.balance.on, bank_day(field, text)?, field),
            Field::Balance if self.balances.len() >= BALANCES_MAX => {
                Err(Why::TooLong { what: "the list of balances" })
            }
            Field::Balance => {
                self.balances.push(std::mem::take(&mut self.balance));
                Ok(())
            }
            Field::AllCount => once(&mut self.said.counts[0], (count(field, text)?, line), field),
            Field::CreditCount => once(&mut self.said.counts[1], (count(field, text)?, line), field),
            Field::DebitCount => once(&mut self.said.counts[2], (count(field, text)?, line), field),
            Field::AllSum => once(&mut self.said.sums[0], (text.to_owned(), line), field),
            Field::CreditSum => once(&mut self.said.sums[1], (text.to_owned(), line), field),
            Field::DebitSum => once(&mut self.said.sums[2], (text.to_owned(), line), field),
            Field::AllNet => once(&mut self.said.net, (text.to_owned(), line), field),
            Field::AllNetSide => once(&mut self.said.net_side, side(field, text)?, field),
            _ => Ok(()),
        }
    }

    /// An entry was read.
    pub(super) fn count(&mut self, entry: &Entry, status: Status) -> Result<(), Why> {
        let (minor, currency) = entry.amount.ok_or_else(|| Why::missing("the amount of the entry"))?;
        let side = entry.side.ok_or_else(|| Why::missing("the CdtDbtInd of the entry"))?;
        self.is_mixed |= *self.currency.get_or_insert(currency) != currency;
        let too_large = || Why::TooLarge { what: "the sum of the entries".into() };
        let its = match side {
            Side::Credit => 1,
            Side::Debit => 2,
        };
        for at in [0, its] {
            let tally = &mut self.found[at];
            tally.entries += 1;
            tally.sum_minor = tally.sum_minor.checked_add(minor).ok_or_else(too_large)?;
        }
        if status == Status::Booked {
            self.booked_minor = self.booked_minor.checked_add(signed(minor, side)).ok_or_else(too_large)?;
        }
        Ok(())
    }

    /// The statement was read: all that it says of itself must be so, unless this is only a page of it.
    pub(super) fn hold(&self, message: Pages, line: u64) -> Result<(), Wrong> {
        if message == Pages::Several || self.pages() == Pages::Several {
            return Ok(());
        }
        let names = ["entries", "credits", "debits"];
        for ((said, found), name) in self.said.counts.iter().zip(&self.found).zip(names) {
            if let Some((said, line)) = said.filter(|(said, _)| *said != found.entries) {
                return Err((line, Why::differs(&format!("the number of {name}"), &said, &found.entries)));
            }
        }
        self.hold_sums(names)?;
        self.hold_balance().map_err(|why| (line, why))
    }

    fn hold_sums(&self, names: [&str; 3]) -> Result<(), Wrong> {
        let first = self.balances.first().and_then(|balance| balance.amount).map(|(_, currency)| currency);
        let Some(currency) = self.currency.or(self.account_currency).or(first) else { return Ok(()) };
        // A sum over several currencies is a number without meaning.
        if self.is_mixed {
            return Ok(());
        }
        let fields = [Field::AllSum, Field::CreditSum, Field::DebitSum];
        for (((said, found), name), field) in self.said.sums.iter().zip(&self.found).zip(names).zip(fields) {
            let Some((text, line)) = said else { continue };
            let said = decimal(field, text, currency).map_err(|why| (*line, why))?;
            if said != found.sum_minor {
                let what = format!("the sum of the {name} in minor units of {currency}");
                return Err((*line, Why::differs(&what, &said, &found.sum_minor)));
            }
        }
        let Some((text, line)) = &self.said.net else { return Ok(()) };
        let said = decimal(Field::AllNet, text, currency).map_err(|why| (*line, why))?;
        let net = self.found[1].sum_minor.checked_sub(self.found[2].sum_minor).unwrap_or_default();
        // Without its side, the amount alone can be held.
        let found = self.said.net_side.map_or_else(|| net.abs(), |side| signed(net, side));
        if said == found {
            return Ok(());
        }
        Err((
            *line,
            Why::differs(&format!("the net of the entries in minor units of {currency}"), &said, &found),
        ))
    }

    /// Opening and closing balance.
    fn hold_balance(&self) -> Result<(), Why> {
        let (Some(opening), Some(closing)) = (self.find(&["OPBD", "PRCD"]), self.find(&["CLBD"])) else {
            return Ok(());
        };
        let is_one_currency = opening.1 == closing.1 && self.currency.is_none_or(|own| own == opening.1);
        if self.is_mixed || !is_one_currency {
            return Ok(());
        }
        let found = opening.0.checked_add(self.booked_minor);
        if found == Some(closing.0) {
            return Ok(());
        }
        let what = format!("the closing balance in minor units of {}", closing.1);
        Err(Why::differs(&what, &closing.0, &found.unwrap_or_default()))
    }

    /// The balance of the first of these codes that is there; `None` too if it is there in several currencies.
    fn find(&self, codes: &[&str]) -> Option<Amount> {
        let all = |code: &&str| -> Vec<Amount> {
            let named = self.balances.iter().filter(|balance| balance.code.as_deref() == Some(code));
            named
                .filter_map(|balance| {
                    let (minor, currency) = balance.amount?;
                    Some((signed(minor, balance.side?), currency))
                })
                .collect()
        };
        let found = codes.iter().map(all).find(|found| !found.is_empty())?;
        if let [one] = found.as_slice() { Some(*one) } else { None }
    }

    fn pages(&self) -> Pages {
        Pages::of(self.page, self.is_last_page)
    }

    /// Is it all of its time? A page of several is not, and a statement that gives balances but no closing one was
    /// made before the day ended.
    pub(super) fn is_complete(&self) -> bool {
        let is_closed = |balance: &Balance| balance.code.as_deref() == Some("CLBD");
        self.pages() == Pages::One && (self.balances.is_empty() || self.balances.iter().any(is_closed))
    }

    /// The day that it says it is of.
    pub(super) fn day(&self) -> Option<NaiveDate> {
        let closing = || self.balances.iter().find(|balance| balance.code.as_deref() == Some("CLBD"))?.on;
        match (self.from, self.to) {
            (Some(from), Some(to)) => {
                let ends_at_midnight = to.time() == NaiveTime::MIN && to > from;
                let last = if ends_at_midnight { to.date().pred_opt()? } else { to.date() };
                (from.date() == last).then_some(last)
            }
            _ => closing(),
        }
    }

    /// Its id, and of a page which: pages of one statement are not each other's replacement.
    pub(super) fn id(&self) -> Option<String> {
        let id = self.id.as_deref().filter(|id| !id.is_empty())?;
        Some(match (self.pages(), self.page) {
            (Pages::Several, Some(page)) => format!("{id}#{page}"),
            (Pages::One, _) | (Pages::Several, None) => id.to_owned(),
        })
    }
}

fn clock(field: Field, text: &str) -> Result<NaiveDateTime, Why> {
    let read = values::moment(text).map(|(clock, _)| clock);
    read.ok_or_else(|| Why::bad(field.name(), text))
}
