//! Lines of what was given back of one payment, beside what we gave back of it: which line is which refund, and what
//! differs.
//!
//! **Promises.** A line is the refund that its key or its name says. One that says neither is the next refund of its
//! amount that no line is yet, so that two equal refunds are two, and need two lines. A second line of one refund is one
//! more, on whatever day it stands; the same row in two reports is one row. Reports of two formats are two views of the
//! same money, each judged by itself.
//!
//! **Relies on** having every line and every refund of the payment, from the day on which the first one was sent. Why not
//! in SQL: who is next depends on who came before.

use chrono::NaiveDate;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// A line of a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// How its report is read: one view of the money.
    pub format: String,
    /// In which report.
    pub run: Uuid,
    /// Of which day.
    pub day: NaiveDate,
    /// Its number there.
    pub number: i64,
    /// What its key names: a refund, or the payment.
    pub named: Option<Uuid>,
    /// Its name.
    pub reference: Option<String>,
    /// The name is the gateway's own, which ours is too.
    pub has_own_name: bool,
    /// What tells it from other rows of its amount and day.
    pub row_name: String,
    /// Below zero; above, a refund that came back.
    pub gross_minor: i64,
    /// Of what; a code that we may not know any more.
    pub currency: String,
    /// When it was booked.
    pub booked_on: NaiveDate,
    /// Gross is fee and net, where both are of one currency.
    pub adds_up: bool,
}

/// A refund that somebody asked for here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Which.
    pub id: Uuid,
    /// It is done.
    pub is_done: bool,
    /// The gateway's name of it, if we know it.
    pub reference: Option<String>,
    /// What was given back.
    pub given_minor: i64,
    /// Of what.
    pub currency: String,
}

/// What a line comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Which of the lines.
    pub line: usize,
    /// Which of the refunds, if any.
    pub refund: Option<usize>,
    /// Where it differs; `None`: it matches.
    pub field: Option<&'static str>,
    /// Which of the refund's lines it is, from 1.
    pub nth: usize,
    /// Which of equal rows of its report, from 1.
    pub copy: usize,
}

/// Judges the lines of one payment beside its refunds, in the order in which they were done. Lines that repeat a row of another report are not answered.
#[must_use]
pub fn judge(lines: &[Given], refunds: &[Asked]) -> Vec<Judged> {
    let formats: BTreeSet<&str> = lines.iter().map(|line| line.format.as_str()).collect();
    formats.into_iter().flat_map(|format| judge_view(lines, refunds, format)).collect()
}

/// The lines of one format, in the order of days and reports.
fn judge_view(lines: &[Given], refunds: &[Asked], format: &str) -> Vec<Judged> {
    let once = once(lines, format);
    let mut of: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, _) in &once {
        if let Some(refund) = lines.get(*at).and_then(|line| said(line, refunds)) {
            of.insert(*at, refund);
        }
    }
    let mut taken: BTreeSet<usize> = of.values().copied().collect();
    for (at, _) in &once {
        let Some(line) = lines.get(*at).filter(|_| !of.contains_key(at)) else { continue };
        let mut free = (0..refunds.len()).filter(|refund| !taken.contains(refund));
        let next = free.find(|refund| refunds.get(*refund).is_some_and(|refund| may_be(line, refund)));
        if let Some(refund) = next {
            taken.insert(refund);
            of.insert(*at, refund);
        }
    }
    let mut seen: BTreeMap<(usize, bool), usize> = BTreeMap::new();
    let mut judged = Vec::with_capacity(once.len());
    for (at, copy) in once {
        let Some(line) = lines.get(at) else { continue };
        let refund = of.get(&at).copied();
        let nth = refund.map_or(1, |refund| {
            let nth = seen.entry((refund, line.gross_minor < 0)).or_default();
            *nth += 1;
            *nth
        });
        let field = differs(line, refund.and_then(|refund| refunds.get(refund)), nth);
        judged.push(Judged { line: at, refund, field, nth, copy });
    }
    judged
}

/// Each row once, with which copy of it it is: equal rows of one report are as many refunds, the same row in two
/// reports is one.
fn once(lines: &[Given], format: &str) -> Vec<(usize, usize)> {
    let mut order: Vec<(usize, &Given)> =
        lines.iter().enumerate().filter(|(_, line)| line.format == format).collect();
    order.sort_by_key(|(_, line)| (line.day, line.run, line.number));
    let row = |line: &Given| {
        (line.named, line.row_name.clone(), line.gross_minor, line.currency.clone(), line.booked_on)
    };
    let mut copies = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut once = Vec::with_capacity(order.len());
    for (at, line) in order {
        let copy = copies.entry((line.run, row(line))).or_insert(0_usize);
        *copy += 1;
        if seen.insert((row(line), *copy)) {
            once.push((at, *copy));
        }
    }
    once
}

/// The refund that the line itself names.
fn said(line: &Given, refunds: &[Asked]) -> Option<usize> {
    let by_key = refunds.iter().position(|refund| Some(refund.id) == line.named);
    by_key.or_else(|| {
        let name = line.reference.as_ref().filter(|_| line.has_own_name)?;
        refunds.iter().position(|refund| refund.reference.as_ref() == Some(name))
    })
}

/// May a line that names none of them be this one? Two names of the gateway's that differ are two refunds.
fn may_be(line: &Given, refund: &Asked) -> bool {
    let is_named_apart = line.has_own_name && line.reference.is_some() && refund.reference.is_some();
    refund.is_done
        && !is_named_apart
        && line.gross_minor.checked_neg() == Some(refund.given_minor)
        && line.currency == refund.currency
}

fn differs(line: &Given, refund: Option<&Asked>, nth: usize) -> Option<&'static str> {
    let Some(refund) = refund else { return Some("refund") };
    if line.gross_minor >= 0 {
        Some("returned")
    } else if nth > 1 {
        Some("times")
    } else if !refund.is_done {
        Some("status")
    } else if line.currency != refund.currency {
        Some("currency")
    } else if line.gross_minor.checked_neg() != Some(refund.given_minor) {
        Some("amount")
    } else if !line.adds_up {
        Some("net")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYMENT: Uuid = Uuid::from_u128(0xAA);

    fn day(day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 11, day).expect("a date")
    }

    /// Three euros back on the fourth, in the report of this number.
    fn line(run: u128, number: i64, reference: &str) -> Given {
        Given {
            format: "sandbox".into(),
            run: Uuid::from_u128(run),
            day: day(4),
            number,
            named: Some(PAYMENT),
            reference: Some(reference.into()),
            has_own_name: true,
            row_name: reference.into(),
            gross_minor: -300,
            currency: "EUR".into(),
            booked_on: day(4),
            adds_up: true,
        }
    }

    fn without_a_name(number: i64) -> Given {
        Given { reference: None, row_name: format!("bytes {number}"), ..line(1, number, "") }
    }

    fn refund(id: u128, reference: Option<&str>) -> Asked {
        Asked {
            id: Uuid::from_u128(id),
            is_done: true,
            reference: reference.map(Into::into),
            given_minor: 300,
            currency: "EUR".into(),
        }
    }

    /// Line, refund, field.
    fn found(lines: &[Given], refunds: &[Asked]) -> Vec<(usize, Option<usize>, Option<&'static str>)> {
        judge(lines, refunds).into_iter().map(|it| (it.line, it.refund, it.field)).collect()
    }

    #[test]
    fn two_equal_parts_are_two_refunds_whether_they_have_names_or_not() {
        let named = [refund(1, Some("re_1")), refund(2, Some("re_2"))];
        let lines = [line(1, 1, "re_2"), line(1, 2, "re_1")];
        assert_eq!(found(&lines, &named), [(0, Some(1), None), (1, Some(0), None)]);
        let lines = [without_a_name(1), without_a_name(2)];
        assert_eq!(found(&lines, &named), [(0, Some(0), None), (1, Some(1), None)], "in their order");
        assert_eq!(found(&lines, &named[..1]), [(0, Some(0), None), (1, None, Some("refund"))]);
        assert_eq!(found(&lines[..1], &named), [(0, Some(0), None)], "the other one is in no report");
    }

    #[test]
    fn one_name_is_one_refund_and_its_second_line_is_one_more_on_whatever_day() {
        let refunds = [refund(1, Some("re_1")), refund(2, Some("re_2"))];
        let later = Given { day: day(20), booked_on: day(20), ..line(2, 1, "re_1") };
        let lines = [line(1, 1, "re_1"), later];
        assert_eq!(found(&lines, &refunds), [(0, Some(0), None), (1, Some(0), Some("times"))]);
        let twice = [line(1, 1, "re_1"), line(1, 2, "re_1")];
        assert_eq!(found(&twice, &refunds), [(0, Some(0), None), (1, Some(0), Some("times"))]);
        let bank = Given { format: "camt.053".into(), has_own_name: false, ..line(3, 1, "B-7") };
        assert_eq!(
            found(&[line(1, 1, "re_1"), bank], &refunds[..1]),
            [(1, Some(0), None), (0, Some(0), None)],
            "the bank's view of the same"
        );
    }

    #[test]
    fn the_same_row_in_two_reports_is_one_row() {
        let refunds = [refund(1, Some("re_1"))];
        let next_day = Given { day: day(5), ..line(2, 9, "re_1") };
        assert_eq!(found(&[next_day, line(1, 1, "re_1")], &refunds), [(1, Some(0), None)]);
    }

    #[test]
    fn a_name_that_we_know_of_no_refund_is_a_refund_of_nobody_s() {
        let refunds = [refund(1, Some("re_1"))];
        assert_eq!(found(&[line(1, 1, "re_9")], &refunds), [(0, None, Some("refund"))]);
        assert_eq!(found(&[line(1, 1, "re_9")], &[refund(1, None)]), [(0, Some(0), None)], "ours may be it");
    }

    #[test]
    fn what_differs_is_named_by_its_first_field() {
        let one = |change: fn(&mut Given), of: Asked| {
            let mut line = Given { named: Some(of.id), ..line(1, 1, "re_1") };
            change(&mut line);
            found(&[line], &[of]).remove(0).2
        };
        let of = || refund(1, Some("re_1"));
        assert_eq!(one(|_| {}, of()), None);
        assert_eq!(one(|line| line.gross_minor = 300, of()), Some("returned"));
        assert_eq!(one(|_| {}, Asked { is_done: false, ..of() }), Some("status"));
        assert_eq!(one(|line| line.currency = "USD".into(), of()), Some("currency"));
        assert_eq!(one(|line| line.gross_minor = -299, of()), Some("amount"));
        assert_eq!(one(|line| line.adds_up = false, of()), Some("net"));
    }
}
