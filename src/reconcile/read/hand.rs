//! Handing lines out: the checks that hold in every format, and what is summed up on the way.
//!
//! **Promise**: a line that leaves here is in order by itself: a charge is above zero, gross is fee and net where all
//! are of one currency, keys and references are of bounded length, numbers go up by one.

use super::report::{Report, Stopped, Sums};
use super::tap::Tap;
use super::why::{At, Why};
use crate::domain::money::Currency;
use crate::domain::settlement::{Kind, Line, REFERENCE_MAX_LEN};
use chrono::NaiveDate;
use std::io::BufRead;

/// A line before it has its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) key: Option<String>,
    pub(super) gateway_ref: Option<String>,
    pub(super) charge_ref: Option<String>,
    pub(super) kind: Kind,
    pub(super) gross_minor: i64,
    pub(super) currency: Currency,
    pub(super) fee_minor: i64,
    pub(super) net_minor: i64,
    pub(super) net_currency: Currency,
    pub(super) booked_on: NaiveDate,
    pub(super) executed_on: Option<NaiveDate>,
}

/// Takes drafts, checks them, and gives lines to `each`.
pub(super) struct Hand<F> {
    each: F,
    sums: Sums,
    lines: u64,
    booked: Option<(NaiveDate, NaiveDate)>,
}

/// What the end of a report says of it.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) source_id: Option<String>,
    pub(super) day: Option<NaiveDate>,
    pub(super) is_complete: bool,
    pub(super) passed_over: u64,
}

impl<F> Hand<F> {
    pub(super) fn new(each: F) -> Self {
        Self { each, sums: Sums::default(), lines: 0, booked: None }
    }

    /// How many lines were handed out.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// # Errors
    /// The draft is not in order, or `each` does not want to go on.
    pub(super) fn give<E>(&mut self, draft: Draft, at_line: u64, raw_hash: [u8; 32]) -> Result<(), Stopped<E>>
    where
        F: FnMut(Line) -> Result<(), E>,
    {
        in_order(&draft).at(at_line)?;
        let day = draft.booked_on;
        self.booked = Some(self.booked.map_or((day, day), |(first, last)| (first.min(day), last.max(day))));
        self.lines += 1;
        let line = Line {
            number: self.lines,
            at_line,
            key: draft.key,
            gateway_ref: draft.gateway_ref,
            charge_ref: draft.charge_ref,
            kind: draft.kind,
            gross_minor: draft.gross_minor,
            currency: draft.currency,
            fee_minor: draft.fee_minor,
            net_minor: draft.net_minor,
            net_currency: draft.net_currency,
            booked_on: draft.booked_on,
            executed_on: draft.executed_on,
            raw_hash,
        };
        self.sums.add(&line).at(at_line)?;
        (self.each)(line).map_err(Stopped::By)
    }

    /// The file was read to its end.
    pub(super) fn finish<R: BufRead>(self, known: Known, tap: Tap<R>) -> Report {
        let (sha256, size_bytes) = tap.finish();
        let one_day = self.booked.filter(|(first, last)| first == last).map(|(day, _)| day);
        Report {
            source_id: known.source_id,
            day: known.day.or(one_day),
            booked: self.booked,
            is_complete: known.is_complete,
            lines: self.lines,
            passed_over: known.passed_over,
            sha256,
            size_bytes,
            sums: self.sums.all(),
        }
    }
}

fn in_order(draft: &Draft) -> Result<(), Why> {
    let texts = [
        ("the key", &draft.key),
        ("the reference", &draft.gateway_ref),
        ("the reference", &draft.charge_ref),
    ];
    for (what, text) in texts {
        let Some(text) = text else { continue };
        if text.chars().count() > REFERENCE_MAX_LEN {
            return Err(Why::TooLong { what });
        }
        if text.chars().any(char::is_control) {
            return Err(Why::ControlCharacter { what });
        }
    }
    // A refund that came back and a chargeback that was won are above zero.
    if draft.kind == Kind::Charge && draft.gross_minor <= 0 {
        return Err(Why::WrongSign { kind: draft.kind.as_str(), gross_minor: draft.gross_minor });
    }
    if draft.currency == draft.net_currency {
        let together = draft.fee_minor.checked_add(draft.net_minor);
        let together = together.ok_or_else(|| Why::TooLarge { what: "fee and net".into() })?;
        if together != draft.gross_minor {
            return Err(Why::differs("fee and net together", &draft.gross_minor, &together));
        }
    }
    Ok(())
}
