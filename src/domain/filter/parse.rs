//! From characters to terms: one pass, the first mistake ends it.

use super::{Between, Filter, FilterError, MOST_CHARACTERS, MOST_TERMS, MOST_VALUES, Sense, Term, Test};
use crate::domain::ids::PaymentId;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, Timelike, Utc};
use std::collections::BTreeSet;

/// Said where a state is none.
pub(super) const STATES: &str = "expected a state in capitals; there are PENDING, PROCESSING, UNKNOWN, COMPLETED, FAILED, CANCELLED, PARKED, REFUNDED";

/// A value with the place of its first character.
struct Value {
    at: usize,
    text: String,
}

struct Reader {
    all: Vec<char>,
    /// Index of the next character.
    next: usize,
}

fn wrong(at: usize, why: &'static str) -> FilterError {
    FilterError { at: at + 1, why }
}

pub(super) fn filter(text: &str) -> Result<Filter, FilterError> {
    let mut reader = Reader { all: text.chars().collect(), next: 0 };
    if reader.all.len() > MOST_CHARACTERS {
        return Err(wrong(MOST_CHARACTERS, "a filter has at most 2000 characters"));
    }
    let mut terms = Vec::new();
    loop {
        reader.skip_blanks();
        if reader.peek().is_none() {
            return Ok(Filter { terms });
        }
        if terms.len() == MOST_TERMS {
            return Err(wrong(reader.next, "a filter has at most 20 terms"));
        }
        terms.push(reader.term()?);
    }
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.all.get(self.next).copied()
    }

    /// Goes past this character if it comes next.
    fn takes(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += usize::from(found);
        found
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.next += 1;
        }
    }

    fn term(&mut self) -> Result<Term, FilterError> {
        let sense = if self.takes('-') { Sense::IsNot } else { Sense::Is };
        let begin = self.next;
        while self.peek().is_some_and(|c| c.is_ascii_lowercase()) {
            self.next += 1;
        }
        let name: String = self.all[begin..self.next].iter().collect();
        if !self.takes(':') {
            let why =
                "a term is name:value, the name one of status, reason, due, amount, gateway, ref, id, actor";
            return Err(wrong(begin, why));
        }
        let values = self.values()?;
        let test = match name.as_str() {
            "status" => Test::Status(set(&values, STATES, Status::from_text)?),
            "reason" => {
                Test::Reason(set(&values, "expected a reason, such as declined_soft", Reason::from_text)?)
            }
            "gateway" => Test::Gateway(set(&values, "expected a gateway's name", gateway)?),
            "ref" => Test::Ref(set(&values, "expected 1 to 255 characters on one line", |it| line(it, 255))?),
            "actor" => {
                Test::Actor(set(&values, "expected 1 to 100 characters on one line", |it| line(it, 100))?)
            }
            "id" => Test::Id(set(&values, "expected a payment id", |it| it.parse::<PaymentId>().ok())?),
            "due" => Test::Due(range(
                &values,
                time,
                "expected a day such as 2030-01-31, or a time with an offset",
            )?),
            "amount" => Test::Amount(range(&values, amount, "expected minor units: digits only")?),
            _ => {
                let why = "no such name; there are status, reason, due, amount, gateway, ref, id, actor";
                return Err(wrong(begin, why));
            }
        };
        Ok(Term { sense, test })
    }

    fn values(&mut self) -> Result<Vec<Value>, FilterError> {
        let mut values = Vec::new();
        loop {
            if values.len() == MOST_VALUES {
                return Err(wrong(self.next, "a term has at most 50 values"));
            }
            values.push(self.value()?);
            if !self.takes(',') {
                return Ok(values);
            }
        }
    }

    fn value(&mut self) -> Result<Value, FilterError> {
        let at = self.next;
        if self.takes('"') {
            return self.quoted(at);
        }
        let begin = self.next;
        while self.peek().is_some_and(|c| !c.is_whitespace() && c != ',' && c != '"') {
            self.next += 1;
        }
        if self.next == begin {
            return Err(wrong(begin, "a value is missing"));
        }
        if self.peek() == Some('"') {
            return Err(wrong(self.next, "a quote stands around a whole value"));
        }
        Ok(Value { at, text: self.all[begin..self.next].iter().collect() })
    }

    fn quoted(&mut self, at: usize) -> Result<Value, FilterError> {
        let mut text = String::new();
        loop {
            let here = self.next;
            let Some(c) = self.peek() else { return Err(wrong(here, "the closing quote is missing")) };
            self.next += 1;
            match c {
                '"' => break,
                '\\' => match self.peek() {
                    Some(escaped @ ('"' | '\\')) => {
                        self.next += 1;
                        text.push(escaped);
                    }
                    _ => {
                        return Err(wrong(
                            here,
                            "within quotes a backslash stands before a quote or a backslash",
                        ));
                    }
                },
                plain => text.push(plain),
            }
        }
        if self.peek().is_some_and(|c| !c.is_whitespace() && c != ',') {
            return Err(wrong(self.next, "a quote stands around a whole value"));
        }
        Ok(Value { at, text })
    }
}

fn set<T: Ord>(
    values: &[Value],
    why: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<BTreeSet<T>, FilterError> {
    values.iter().map(|value| read(&value.text).ok_or(wrong(value.at, why))).collect()
}

fn gateway(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    ((1..=64).contains(&text.len()) && text.chars().all(fits)).then(|| text.to_owned())
}

fn line(text: &str, most: usize) -> Option<String> {
    let fits = (1..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
}

/// One value, or two with `..` between them of which one may be left out.
fn range<T: Copy + Ord>(
    values: &[Value],
    read: impl Fn(&str) -> Option<Between<T>>,
    why: &'static str,
) -> Result<Between<T>, FilterError> {
    let [value] = values else {
        // There is always one.
        let at = values.get(1).map_or(0, |second| second.at);
        return Err(wrong(at, "a range takes no list; write a term for what is left out"));
    };
    let end = |at: usize, text: &str| read(text).ok_or(wrong(at, why));
    let Some((from, to)) = value.text.split_once("..") else { return end(value.at, &value.text) };
    if from.is_empty() && to.is_empty() {
        return Err(wrong(value.at, "a range has at least one end"));
    }
    let second = value.at + from.chars().count() + 2;
    let from = if from.is_empty() { None } else { end(value.at, from)?.from };
    let to = if to.is_empty() { None } else { end(second, to)?.to };
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(wrong(second, "the end of a range lies before its start"));
    }
    Ok(Between { from, to })
}

fn amount(text: &str) -> Option<Between<i64>> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let minor = text.parse().ok().filter(|_| digits)?;
    Some(Between { from: Some(minor), to: Some(minor) })
}

/// A day is all of its microseconds.
fn time(text: &str) -> Option<Between<DateTime<Utc>>> {
    let is_day = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_day {
        let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        let start = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc();
        let next = day.checked_add_days(Days::new(1))?;
        return Some(Between { from: Some(start(day)), to: Some(start(next) - TimeDelta::microseconds(1)) });
    }
    let at = DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc);
    // A leap second is a thousand million nanoseconds and more; and finer than microseconds nothing is kept.
    let fits = at.nanosecond() < 1_000_000_000 && at.nanosecond() % 1_000 == 0;
    fits.then_some(Between { from: Some(at), to: Some(at) })
}
