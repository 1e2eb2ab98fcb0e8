//! The one grammar by which people look for payments: `status:PARKED -reason:poisoned due:2030-01-31`.
//!
//! **Promises.** A text is read whole or refused with the character at which it goes wrong; the refusal
//! repeats nothing of the text, since anything may have been pasted into it. What is printed reads back as
//! the same filter. [`Conditions`] is what all terms together ask for; [`Conditions::holds`] says in Rust
//! what `schedule/sql/list_payments.sql` says in SQL, and a test holds the two against each other.
//!
//! **Why here.** The interface (`q=`) and the command line ask in the same words, and neither may use the
//! other.
//!
//! # The grammar
//!
//! Terms stand apart by blanks, and all of them must hold. A term is `name:value`, or `-name:value` for what
//! must not be so. Values in a list, with commas, are alternatives. A value with a blank, a comma or a quote
//! in it stands in double quotes, where `\"` and `\\` are a quote and a backslash.
//!
//! | name | value |
//! |---|---|
//! | `status` | `PENDING`, `PROCESSING`, `UNKNOWN`, `COMPLETED`, `FAILED`, `CANCELLED`, `PARKED`, `REFUNDED` |
//! | `reason` | a reason of the registry, such as `declined_soft` |
//! | `due` | a day (`2030-01-31`, UTC), a time with offset, or a range of them |
//! | `amount` | minor units, or a range |
//! | `gateway` | a gateway's name |
//! | `ref` | a gateway's reference of a charge |
//! | `id` | a payment id |
//! | `actor` | an actor's name, for operators |
//!
//! A range is `from..to`, `from..` or `..to`. Both of its ends belong to it, a day with all of its hours.

use super::ids::PaymentId;
use super::payment::Payment;
use super::reason::Reason;
use super::state::Status;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

mod parse;

/// Most characters of a filter.
pub const MOST_CHARACTERS: usize = 2_000;
/// Most terms of a filter.
pub const MOST_TERMS: usize = 20;
/// Most values of a term. As many ids fit into a filter.
pub const MOST_VALUES: usize = 50;

/// Why a text is no filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {why}")]
pub struct FilterError {
    /// From 1; one past the end where something is missing there.
    pub at: usize,
    /// What is wrong or expected there.
    pub why: &'static str,
}

/// Whether a term's test must hold or must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// It must.
    Is,
    /// It must not (`-`).
    IsNot,
}

/// A range with both of its ends in it; an end that is `None` is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between<T> {
    /// The least that is in it.
    pub from: Option<T>,
    /// The most that is in it.
    pub to: Option<T>,
}

impl<T: Copy + Ord> Between<T> {
    /// Everything.
    pub const ALL: Self = Self { from: None, to: None };

    /// Is this in it?
    #[must_use]
    pub fn holds(&self, value: T) -> bool {
        self.from.is_none_or(|from| from <= value) && self.to.is_none_or(|to| value <= to)
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            from: self.from.max(other.from),
            to: match (self.to, other.to) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            },
        }
    }
}

/// What a term asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// In one of these states.
    Status(BTreeSet<Status>),
    /// For one of these reasons.
    Reason(BTreeSet<Reason>),
    /// Due within.
    Due(Between<DateTime<Utc>>),
    /// Minor units within.
    Amount(Between<i64>),
    /// Through one of these gateways.
    Gateway(BTreeSet<String>),
    /// Charged under one of these references.
    Ref(BTreeSet<String>),
    /// One of these payments.
    Id(BTreeSet<PaymentId>),
    /// Of one of these actors.
    Actor(BTreeSet<String>),
}

/// One term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Must it hold?
    pub sense: Sense,
    /// What.
    pub test: Test,
}

/// A whole filter; all terms must hold, and without any everything passes. It is kept as its printed text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Filter {
    /// In the order written.
    pub terms: Vec<Term>,
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        parse::filter(text)
    }
}

impl TryFrom<String> for Filter {
    type Error = FilterError;

    fn try_from(text: String) -> Result<Self, FilterError> {
        text.parse()
    }
}

impl From<Filter> for String {
    fn from(filter: Filter) -> Self {
        filter.to_string()
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, term) in self.terms.iter().enumerate() {
            if place > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{term}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sense == Sense::IsNot {
            f.write_str("-")?;
        }
        match &self.test {
            Test::Status(all) => list(f, "status", all.iter().map(|it| it.as_str())),
            Test::Reason(all) => list(f, "reason", all.iter().map(|it| it.as_str())),
            Test::Due(range) => span(f, "due", range, |at| at.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
            Test::Amount(range) => span(f, "amount", range, |minor| minor.to_string()),
            Test::Gateway(all) => list(f, "gateway", all),
            Test::Ref(all) => list(f, "ref", all),
            Test::Id(all) => list(f, "id", all.iter().map(PaymentId::to_string)),
            Test::Actor(all) => list(f, "actor", all),
        }
    }
}

fn list<T: AsRef<str>>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    values: impl IntoIterator<Item = T>,
) -> fmt::Result {
    write!(f, "{name}:")?;
    for (place, value) in values.into_iter().enumerate() {
        let value = value.as_ref();
        let comma = if place > 0 { "," } else { "" };
        if value.chars().any(|c| c.is_whitespace() || c == ',' || c == '"') {
            write!(f, "{comma}\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))?;
        } else {
            write!(f, "{comma}{value}")?;
        }
    }
    Ok(())
}

fn span<T: Copy + Eq>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    range: &Between<T>,
    text: impl Fn(T) -> String,
) -> fmt::Result {
    let end = |end: Option<T>| end.map(&text).unwrap_or_default();
    if range.from.is_some() && range.from == range.to {
        return write!(f, "{name}:{}", end(range.from));
    }
    write!(f, "{name}:{}..{}", end(range.from), end(range.to))
}

/// What all terms about one set of values ask together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Among<T> {
    /// One of these; `None`: any. Empty: terms exclude each other.
    pub only: Option<BTreeSet<T>>,
    /// None of these.
    pub never: BTreeSet<T>,
}

impl<T> Default for Among<T> {
    fn default() -> Self {
        Self { only: None, never: BTreeSet::new() }
    }
}

impl<T: Ord + Clone> Among<T> {
    fn take(&mut self, sense: Sense, values: &BTreeSet<T>) {
        match sense {
            Sense::Is => {
                let only = match self.only.take() {
                    Some(before) => before.intersection(values).cloned().collect(),
                    None => values.clone(),
                };
                self.only = Some(only);
            }
            Sense::IsNot => self.never.extend(values.iter().cloned()),
        }
    }

    /// Does it ask anything?
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.only.is_none() && self.never.is_empty()
    }

    /// Does a value pass that may be missing? A missing one is none of any.
    #[must_use]
    pub fn holds<Q: Ord + ?Sized>(&self, value: Option<&Q>) -> bool
    where
        T: Borrow<Q>,
    {
        let only = self.only.as_ref().is_none_or(|only| value.is_some_and(|value| only.contains(value)));
        only && value.is_none_or(|value| !self.never.contains(value))
    }
}

/// What all terms about one quantity ask together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within<T> {
    /// In here.
    pub between: Between<T>,
    /// In none of these.
    pub never: Vec<Between<T>>,
}

impl<T: Copy + Ord> Default for Within<T> {
    fn default() -> Self {
        Self { between: Between::ALL, never: Vec::new() }
    }
}

impl<T: Copy + Ord> Within<T> {
    fn take(&mut self, sense: Sense, range: Between<T>) {
        match sense {
            Sense::Is => self.between = self.between.and(range),
            Sense::IsNot => self.never.push(range),
        }
    }

    /// Does it ask anything?
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.between == Between::ALL && self.never.is_empty()
    }

    /// Does this value pass?
    #[must_use]
    pub fn holds(&self, value: T) -> bool {
        self.between.holds(value) && !self.never.iter().any(|range| range.holds(value))
    }
}

/// A filter in the form in which it is asked of payments: one condition a name, whatever the order and the
/// number of its terms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// On the state.
    pub statuses: Among<Status>,
    /// On the reason.
    pub reasons: Among<Reason>,
    /// On the gateway's name.
    pub gateways: Among<String>,
    /// On the gateway's reference.
    pub references: Among<String>,
    /// On the id.
    pub ids: Among<PaymentId>,
    /// On the actor's name, which a payment does not hold: whoever takes them looks them up.
    pub actors: Among<String>,
    /// On the due time.
    pub due: Within<DateTime<Utc>>,
    /// On the amount in minor units.
    pub amount: Within<i64>,
}

impl Filter {
    /// What all terms ask together.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        let mut all = Conditions::default();
        for Term { sense, test } in &self.terms {
            match test {
                Test::Status(values) => all.statuses.take(*sense, values),
                Test::Reason(values) => all.reasons.take(*sense, values),
                Test::Gateway(values) => all.gateways.take(*sense, values),
                Test::Ref(values) => all.references.take(*sense, values),
                Test::Id(values) => all.ids.take(*sense, values),
                Test::Actor(values) => all.actors.take(*sense, values),
                Test::Due(range) => all.due.take(*sense, *range),
                Test::Amount(range) => all.amount.take(*sense, *range),
            }
        }
        all
    }
}

/// What a filter asks of, wherever it was read.
#[derive(Debug, Clone, Copy)]
pub struct Outline<'a> {
    /// The id.
    pub id: PaymentId,
    /// The state.
    pub status: Status,
    /// Why it stands so.
    pub reason: Option<Reason>,
    /// When it is due.
    pub due_at: DateTime<Utc>,
    /// Minor units.
    pub amount_minor: i64,
    /// The gateway's name.
    pub gateway: &'a str,
    /// The gateway's reference of its charge.
    pub gateway_ref: Option<&'a str>,
}

impl Conditions {
    /// Does this payment pass? Of the actor's name a payment knows nothing.
    #[must_use]
    pub fn holds(&self, payment: &Payment) -> bool {
        self.holds_of(&Outline {
            id: payment.id,
            status: payment.status,
            reason: payment.reason,
            due_at: payment.due_at,
            amount_minor: payment.amount.minor.get(),
            gateway: &payment.gateway.0,
            gateway_ref: payment.gateway_ref.as_deref(),
        })
    }

    /// Does what is known of a payment pass? Of the actor's name nothing is asked here either.
    #[must_use]
    pub fn holds_of(&self, known: &Outline<'_>) -> bool {
        self.statuses.holds(Some(&known.status))
            && self.reasons.holds(known.reason.as_ref())
            && self.gateways.holds(Some(known.gateway))
            && self.references.holds(known.gateway_ref)
            && self.ids.holds(Some(&known.id))
            && self.due.holds(known.due_at)
            && self.amount.holds(known.amount_minor)
    }
}

#[cfg(test)]
#[path = "filter/filter_tests.rs"]
mod tests;
