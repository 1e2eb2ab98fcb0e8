//! The settlement report's lines: what was moved, what it cost, and how a line may be wrong.
//!
//! **Promises**: whole minor units, no float; without defects, one line for each charge of the
//! ledger that moved money on that day (UTC), amount and currency as this gateway *says* them; with
//! defects, exactly those of [`super::report`]'s list and no other. **Why from the ledger**: the
//! report and the oracle cannot disagree by accident, so a difference that a reader finds is either
//! an injected one or its own mistake.
//!
//! ```text
//! {"key":"<id>:0","gatewayRef":"ch_7","kind":"charge","gross":1000,"fee":40,"net":960,"currency":"EUR","executedOn":"2026-11-28","bookedOn":"2026-11-28"}
//! {"end":{"day":"2026-11-28","lines":1,"complete":true}}
//! ```
//! `gross = fee + net`, in the currency's minor units as this gateway counts them. `bookedOn` is the
//! report's day; `executedOn` is earlier where a booking came late. A report without its `end`, or
//! with another number of lines, was cut short; one that is not `complete` is of a day that still
//! goes on. There are no refunds yet, so `kind` is always `charge`.

use super::book::Booking;
use super::draw::{Purpose, draw};
use super::wire;
use crate::platform::config::{Defect, Defects};
use chrono::NaiveDate;
use serde::Serialize;
use std::collections::{BTreeMap, BinaryHeap};

/// What a charge costs and which lines go wrong.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// In minor units.
    pub(super) fee_fixed: i64,
    /// Hundredths of a per cent.
    pub(super) fee_basis_points: u32,
    /// Chooses the lines that go wrong.
    pub(super) seed: u64,
    pub(super) defects: Defects,
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    key: String,
    gateway_ref: String,
    kind: &'static str,
    gross: i64,
    fee: i64,
    net: i64,
    currency: String,
    executed_on: NaiveDate,
    pub(super) booked_on: NaiveDate,
}

impl Terms {
    /// The right line of a charge.
    pub(super) fn row(&self, key: String, seq: u64, booking: &Booking) -> Row {
        let fee = self.fee(booking.amount);
        let day = booking.moved_at.date_naive();
        Row {
            key,
            gateway_ref: wire::reference(seq),
            kind: "charge",
            gross: booking.amount,
            fee,
            net: booking.amount - fee,
            currency: booking.currency.as_str().to_owned(),
            executed_on: day,
            booked_on: day,
        }
    }

    /// Rounded up to a whole minor unit, as a gateway rounds.
    fn fee(&self, gross: i64) -> i64 {
        // Amounts end at 10^12 and basis points at 10^4, far below what 64 bits hold.
        let share = (gross * i64::from(self.fee_basis_points)).unsigned_abs().div_ceil(10_000);
        self.fee_fixed + i64::try_from(share).unwrap_or(i64::MAX)
    }

    /// What is reported instead of the right line, on whatever day.
    pub(super) fn wrong(&self, row: &Row, seq: u64, defect: Defect) -> Vec<Row> {
        let chance = draw(self.seed, Purpose::Damage, seq);
        match defect {
            Defect::Missing => Vec::new(),
            Defect::Doubled => vec![row.clone(), row.clone()],
            Defect::Amount => {
                let off = i64::try_from(chance % 100).unwrap_or(0) + 1;
                let less = chance & 0x80 != 0 && row.gross > off;
                let gross = if less { row.gross - off } else { row.gross + off };
                vec![Row { gross, net: gross - row.fee, ..row.clone() }]
            }
            Defect::Currency => {
                let currency = if row.currency == "USD" { "EUR" } else { "USD" };
                vec![Row { currency: currency.into(), ..row.clone() }]
            }
            Defect::Unknown => {
                let key = format!("unknown-{chance:016x}");
                vec![row.clone(), Row { key, gateway_ref: format!("ch_0{seq}"), ..row.clone() }]
            }
            Defect::Late => {
                let booked_on = row.booked_on.succ_opt().unwrap_or(row.booked_on);
                vec![Row { booked_on, ..row.clone() }]
            }
        }
    }

    /// An empty choice of the lines of one day.
    pub(super) fn lottery(&self) -> Lottery<'_> {
        let places = self.defects.0.iter().map(|(_, count)| usize::try_from(*count).unwrap_or(0)).sum();
        Lottery { terms: self, places, winners: BinaryHeap::with_capacity(places + 1) }
    }
}

/// Chooses as many lines of a day as there are defects, in memory of that size: the ones that draw
/// the lowest numbers, whatever order they come in.
#[derive(Debug)]
pub(super) struct Lottery<'a> {
    terms: &'a Terms,
    places: usize,
    winners: BinaryHeap<(u64, u64)>,
}

impl Lottery<'_> {
    pub(super) fn enter(&mut self, seq: u64) {
        self.winners.push((draw(self.terms.seed, Purpose::Defect, seq), seq));
        if self.winners.len() > self.places {
            self.winners.pop();
        }
    }

    /// The lines with what is wrong with each. A day with fewer lines has fewer defects: the first of
    /// the setting go first.
    pub(super) fn winners(self) -> BTreeMap<u64, Defect> {
        let defects = self.terms.defects.0.iter();
        let each = defects.flat_map(|(defect, count)| (0..*count).map(move |_| *defect));
        self.winners.into_sorted_vec().into_iter().map(|(_, seq)| seq).zip(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::config::Value;
    use chrono::DateTime;

    fn terms(defects: &str) -> Terms {
        let defects = Defects::read(defects).expect("readable");
        Terms { fee_fixed: 25, fee_basis_points: 150, seed: 7, defects }
    }

    fn row(gross: i64) -> Row {
        let moved_at = DateTime::from_timestamp(1_700_000_000, 0).expect("in range");
        let currency = wire::Code::read("EUR").expect("a code");
        terms("").row("k".into(), 7, &Booking { moved_at, amount: gross, currency })
    }

    #[test]
    fn a_line_says_in_order_what_the_format_says() {
        assert_eq!(
            serde_json::to_string(&row(1_000)).expect("text"),
            r#"{"key":"k","gatewayRef":"ch_7","kind":"charge","gross":1000,"fee":40,"net":960,"currency":"EUR","executedOn":"2023-11-14","bookedOn":"2023-11-14"}"#
        );
    }

    #[test]
    fn a_fee_is_whole_and_rounded_up_and_gross_is_fee_and_net() {
        for (gross, fee) in [(1, 26), (66, 26), (67, 27), (1_000, 40), (1_000_000_000_000, 15_000_000_025)] {
            let row = row(gross);
            assert_eq!((row.fee, row.fee + row.net), (fee, gross));
        }
    }

    #[test]
    fn each_defect_is_wrong_in_its_one_way() {
        let (terms, right) = (terms(""), row(1_000));
        let wrong = |defect| terms.wrong(&right, 7, defect);
        assert_eq!(wrong(Defect::Missing), []);
        assert_eq!(wrong(Defect::Doubled), [right.clone(), right.clone()]);
        let amount = wrong(Defect::Amount).remove(0);
        assert!(amount.gross != 1_000 && amount.net + amount.fee == amount.gross && amount.key == right.key);
        let usd = Row { currency: "USD".into(), ..right.clone() };
        assert_eq!(wrong(Defect::Currency), [usd]);
        let unknown = wrong(Defect::Unknown);
        assert_eq!(unknown[0], right);
        assert!(unknown[1].key != right.key && unknown[1].gateway_ref != right.gateway_ref);
        let late = wrong(Defect::Late).remove(0);
        assert_eq!((late.booked_on.to_string(), late.executed_on), ("2023-11-15".into(), right.executed_on));
        let small = row(1);
        for seq in 0..200 {
            let wrong = terms.wrong(&small, seq, Defect::Amount).remove(0).gross;
            assert!(wrong > 1, "an amount stays one: {wrong}");
        }
    }

    #[test]
    fn the_lottery_gives_each_defect_its_lines_whatever_the_order() {
        let terms = terms("missing:2,late:3");
        let chosen = |seqs: &mut dyn Iterator<Item = u64>| {
            let mut lottery = terms.lottery();
            seqs.for_each(|seq| lottery.enter(seq));
            lottery.winners()
        };
        let forward = chosen(&mut (1..=1_000));
        assert_eq!(forward, chosen(&mut (1..=1_000).rev()));
        let count = |wanted| forward.values().filter(|defect| **defect == wanted).count();
        assert_eq!((count(Defect::Missing), count(Defect::Late)), (2, 3));
        let few: Vec<_> = chosen(&mut (1..=2)).into_values().collect();
        assert_eq!(few, [Defect::Missing, Defect::Missing]);
        let other = Terms { seed: 8, ..terms.clone() };
        let mut lottery = other.lottery();
        (1..=1_000).for_each(|seq| lottery.enter(seq));
        assert_ne!(lottery.winners(), forward);
    }
}
