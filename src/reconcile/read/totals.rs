//! Rows of totals at the end of a CSV file, one a currency, whose first cell says `Total`.
//!
//! **Promise**: whatever a row of totals says about a column of amounts is held against the rows before it, and only
//! other totals may follow. **Why**: a CSV file that was cut at the end of a row looks whole; its totals do not.
//! Gateways' own exports have none, so whoever makes the files can add them and say `totals=required`.

use super::csv_rows::Row;
use super::format::Totals;
use super::values;
use super::why::Why;
use crate::domain::money::Currency;
use std::collections::BTreeMap;

/// What columns of amounts come to, by currency.
#[derive(Debug)]
pub(super) struct Columns {
    /// Where each stands in a row, and its name.
    amounts: Vec<(usize, String)>,
    /// Where the currency of a row of totals stands.
    currency_at: usize,
    sums: BTreeMap<Currency, Vec<i64>>,
    told: Vec<Currency>,
}

impl Columns {
    pub(super) fn new(currency_at: usize, amounts: Vec<(usize, String)>) -> Self {
        Self { amounts, currency_at, sums: BTreeMap::new(), told: Vec::new() }
    }

    pub(super) fn is_total(row: &Row) -> bool {
        ["total", "totals"].iter().any(|name| row.cell(0).eq_ignore_ascii_case(name))
    }

    /// Adds what a row has in the columns, in their order.
    pub(super) fn add(&mut self, currency: Currency, amounts: &[i64]) -> Result<(), Why> {
        if !self.told.is_empty() {
            return Err(Why::AfterEnd);
        }
        let sums = self.sums.entry(currency).or_insert_with(|| vec![0; self.amounts.len()]);
        for ((sum, amount), (_, name)) in sums.iter_mut().zip(amounts).zip(&self.amounts) {
            *sum = sum
                .checked_add(*amount)
                .ok_or_else(|| Why::TooLarge { what: format!("the sum of {name:?}") })?;
        }
        Ok(())
    }

    /// A row of totals.
    pub(super) fn hold(&mut self, row: &Row) -> Result<(), Why> {
        let currency = values::currency("the currency of the totals", row.cell(self.currency_at))?;
        if self.told.contains(&currency) {
            return Err(Why::Twice { field: format!("the total of {currency}") });
        }
        self.told.push(currency);
        let none = vec![0; self.amounts.len()];
        let sums = self.sums.get(&currency).unwrap_or(&none);
        let mut says = false;
        for ((at, name), sum) in self.amounts.iter().zip(sums) {
            let Some(text) = row.optional(Some(*at)) else { continue };
            let said = values::amount(name, text, currency)?;
            if said != *sum {
                let what = format!("the total of {name:?} in minor units of {currency}");
                return Err(Why::differs(&what, &said, sum));
            }
            says = true;
        }
        if says { Ok(()) } else { Err(Why::missing("an amount of the totals")) }
    }

    /// The file has ended.
    pub(super) fn finish(&self, totals: Totals) -> Result<(), Why> {
        let is_due = totals == Totals::Required || !self.told.is_empty();
        let missing = self.sums.keys().find(|currency| !self.told.contains(currency));
        match missing {
            Some(currency) if is_due => Err(Why::cut_short(&format!("the total of {currency} is missing"))),
            None if totals == Totals::Required && self.told.is_empty() => {
                Err(Why::cut_short("the totals are missing"))
            }
            _ => Ok(()),
        }
    }
}
