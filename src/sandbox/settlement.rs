//! The settlement report's lines: what was moved, what it cost, and how a line may be wrong.
//!
//! **Promises**: whole minor units, no float; without defects, one line for each charge, refund and
//! chargeback of the ledger that moved money on that day (UTC), amount and currency as this gateway
//! *says* them; with defects, exactly those of [`super::report`]'s list and no other. **Why from the
//! ledger**: the report and the oracle cannot disagree by accident, so a difference that a reader
//! finds is either an injected one or its own mistake.
//!
//! ```text
//! {"key":"<id>","gatewayRef":"ch_7","kind":"charge","gross":1000,"fee":40,"net":960,"currency":"EUR","executedOn":"2026-11-28","bookedOn":"2026-11-28"}
//! {"key":"<refund>","gatewayRef":"re_9","chargeRef":"ch_7","kind":"refund","gross":-300,"fee":0,"net":-300,"currency":"EUR",…}
//! {"key":"<id>","gatewayRef":"cb_7","chargeRef":"ch_7","kind":"chargeback","gross":-1000,"fee":0,"net":-1000,"currency":"EUR",…}
//! {"end":{"day":"2026-11-28","lines":3,"complete":true}}
//! ```
//! `key` is the idempotency key of what is told; a chargeback has its charge's. `chargeRef` is the charge that
//! money goes back of. Money that goes back is negative
//! and costs nothing.
//! `gross = fee + net`, in the currency's minor units as this gateway counts them. `bookedOn` is the
//! report's day; `executedOn` is earlier where a booking came late. A report without its `end`, or
//! with another number of lines, was cut short; one that is not `complete` is of a day that still
//! goes on.

use super::book::Booking;
use super::draw::{Purpose, draw};
use super::wire;
use crate::platform::config::{Defect, Defects};
use chrono::NaiveDate;
use serde::Serialize;
use std::collections::{BTreeMap, BinaryHeap};
use uuid::Uuid;

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

/// What moved money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Towards the payee.
    Charge,
    /// Back, because somebody here asked for it.
    Refund,
    /// Back, because the payer's bank took it.
    Chargeback,
}

/// One movement of money, as this gateway books it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Movement {
    pub(super) kind: Kind,
    /// The idempotency key of the request that caused it.
    pub(super) key: String,
    /// The ledger's line of that request.
    pub(super) seq: u64,
    /// The charge that a refund gives back, as it was named.
    pub(super) charge: Option<String>,
    pub(super) booking: Booking,
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    key: String,
    gateway_ref: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    charge_ref: Option<String>,
    kind: Kind,
    gross: i64,
    fee: i64,
    net: i64,
    currency: String,
    executed_on: NaiveDate,
    pub(super) booked_on: NaiveDate,
}

impl Terms {
    /// The right line of a movement.
    pub(super) fn row(&self, movement: &Movement) -> Row {
        let Movement { kind, key, seq, charge, booking } = movement;
        let own = wire::reference(*seq);
        let (gross, fee, gateway_ref, charge_ref) = match kind {
            Kind::Charge => (booking.amount, self.fee(booking.amount), own, None),
            Kind::Refund => (-booking.amount, 0, wire::refund_reference(*seq), charge.clone()),
            Kind::Chargeback => (-booking.amount, 0, format!("cb_{seq}"), Some(own)),
        };
        let day = booking.moved_at.date_naive();
        Row {
            key: key.clone(),
            gateway_ref,
            charge_ref,
            kind: *kind,
            gross,
            fee,
            net: gross - fee,
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
    pub(super) fn wrong(&self, movement: &Movement, defect: Defect) -> Vec<Row> {
        let (row, seq) = (self.row(movement), movement.seq);
        let chance = draw(self.seed, Purpose::Damage, seq);
        match defect {
            Defect::Missing => Vec::new(),
            Defect::Doubled => vec![row.clone(), row],
            Defect::Amount | Defect::Refund => {
                let gross = other_amount(row.gross, chance);
                vec![Row { gross, net: gross - row.fee, ..row }]
            }
            Defect::Currency => {
                let currency = if row.currency == "USD" { "EUR" } else { "USD" };
                vec![Row { currency: currency.into(), ..row }]
            }
            Defect::Unknown => {
                let key = format!("unknown-{chance:016x}");
                vec![row.clone(), Row { key, gateway_ref: format!("ch_0{seq}"), ..row }]
            }
            Defect::Orphan => {
                let key = stranger(movement.booking.moved_at.timestamp_millis(), chance);
                vec![row.clone(), Row { key, gateway_ref: format!("ch_00{seq}"), ..row }]
            }
            Defect::Late => {
                let booked_on = row.booked_on.succ_opt().unwrap_or(row.booked_on);
                vec![Row { booked_on, ..row }]
            }
        }
    }

    /// An empty choice of one day's lines of charges, or of refunds; nothing goes wrong with a chargeback.
    pub(super) fn lottery(&self, of: Kind) -> Lottery {
        let each = self.defects.0.iter().copied().filter(|(defect, _)| match of {
            Kind::Charge => !defect.is_of_refunds(),
            Kind::Refund => defect.is_of_refunds(),
            Kind::Chargeback => false,
        });
        let defects: Vec<(Defect, u32)> = each.collect();
        let places = defects.iter().map(|(_, count)| usize::try_from(*count).unwrap_or(0)).sum();
        Lottery { seed: self.seed, defects, places, winners: BinaryHeap::with_capacity(places + 1) }
    }
}

/// Another amount of the same sign, by at most a hundred units.
fn other_amount(gross: i64, chance: u64) -> i64 {
    let off = i64::try_from(chance % 100).unwrap_or(0) + 1;
    let less = chance & 0x80 != 0 && gross.abs() > off;
    gross.signum() * if less { gross.abs() - off } else { gross.abs() + off }
}

/// A key in the shape of those that this gateway sees, due at that instant, that nobody used: 48 bits of
/// milliseconds and chance, in a UUID of version 8. Written out here, since nothing of the money path is used.
fn stranger(due_ms: i64, chance: u64) -> String {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&due_ms.to_be_bytes()[2..]);
    bytes[6..14].copy_from_slice(&chance.to_be_bytes());
    bytes[14..].copy_from_slice(&chance.to_le_bytes()[..2]);
    Uuid::new_v8(bytes).to_string()
}

/// Chooses as many lines of a day as there are defects, in memory of that size: the ones that draw
/// the lowest numbers, whatever order they come in.
#[derive(Debug)]
pub(super) struct Lottery {
    seed: u64,
    defects: Vec<(Defect, u32)>,
    places: usize,
    winners: BinaryHeap<(u64, u64)>,
}

impl Lottery {
    pub(super) fn enter(&mut self, seq: u64) {
        self.winners.push((draw(self.seed, Purpose::Defect, seq), seq));
        if self.winners.len() > self.places {
            self.winners.pop();
        }
    }

    /// The lines with what is wrong with each. A day with fewer lines has fewer defects: the first of
    /// the setting go first.
    pub(super) fn winners(self) -> BTreeMap<u64, Defect> {
        let defects = self.defects.iter();
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

    fn of(kind: Kind, amount: i64, seq: u64) -> Movement {
        let moved_at = DateTime::from_timestamp(1_700_000_000, 0).expect("in range");
        let currency = wire::Code::read("EUR").expect("a code");
        let charge = (kind == Kind::Refund).then(|| "ch_7".to_owned());
        Movement { kind, key: "k".into(), seq, charge, booking: Booking { moved_at, amount, currency } }
    }

    fn row(gross: i64) -> Row {
        terms("").row(&of(Kind::Charge, gross, 7))
    }

    #[test]
    fn a_line_says_in_order_what_the_format_says() {
        assert_eq!(
            serde_json::to_string(&row(1_000)).expect("text"),
            r#"{"key":"k","gatewayRef":"ch_7","kind":"charge","gross":1000,"fee":40,"net":960,"currency":"EUR","executedOn":"2023-11-14","bookedOn":"2023-11-14"}"#
        );
    }

    #[test]
    fn money_that_goes_back_is_negative_and_costs_nothing() {
        let told = |kind| serde_json::to_string(&terms("").row(&of(kind, 300, 9))).expect("text");
        assert!(told(Kind::Refund).starts_with(
            r#"{"key":"k","gatewayRef":"re_9","chargeRef":"ch_7","kind":"refund","gross":-300,"fee":0,"net":-300,"#
        ));
        assert!(told(Kind::Chargeback).starts_with(
            r#"{"key":"k","gatewayRef":"cb_9","chargeRef":"ch_9","kind":"chargeback","gross":-300,"fee":0,"net":-300,"#
        ));
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
        let wrong = |defect| terms.wrong(&of(Kind::Charge, 1_000, 7), defect);
        assert_eq!(wrong(Defect::Missing), []);
        assert_eq!(wrong(Defect::Doubled), [right.clone(), right.clone()]);
        let amount = wrong(Defect::Amount).remove(0);
        assert!(amount.gross != 1_000 && amount.net + amount.fee == amount.gross && amount.key == right.key);
        let usd = Row { currency: "USD".into(), ..right.clone() };
        assert_eq!(wrong(Defect::Currency), [usd]);
        let unknown = wrong(Defect::Unknown);
        assert_eq!(unknown[0], right);
        assert!(unknown[1].key != right.key && unknown[1].gateway_ref != right.gateway_ref);
        let orphan = wrong(Defect::Orphan);
        assert_eq!(orphan[0], right);
        let key = Uuid::parse_str(&orphan[1].key).expect("a UUID");
        let due_ms = key.as_bytes()[..6].iter().fold(0_i64, |ms, byte| (ms << 8) | i64::from(*byte));
        assert_eq!((key.get_version_num(), key.get_variant()), (8, uuid::Variant::RFC4122));
        assert_eq!((due_ms, &*orphan[1].gateway_ref), (1_700_000_000_000, "ch_007"));
        let refund = terms.wrong(&of(Kind::Refund, 300, 7), Defect::Refund).remove(0);
        assert!(refund.gross < 0 && refund.gross != -300 && refund.net == refund.gross, "{refund:?}");
        let late = wrong(Defect::Late).remove(0);
        assert_eq!((late.booked_on.to_string(), late.executed_on), ("2023-11-15".into(), right.executed_on));
        for seq in 0..200 {
            let wrong = terms.wrong(&of(Kind::Charge, 1, seq), Defect::Amount).remove(0).gross;
            assert!(wrong > 1, "an amount stays one: {wrong}");
            let wrong = terms.wrong(&of(Kind::Refund, 1, seq), Defect::Refund).remove(0).gross;
            assert!(wrong < -1, "and so does one that goes back: {wrong}");
        }
    }

    #[test]
    fn the_lottery_gives_each_defect_its_lines_whatever_the_order() {
        let terms = terms("missing:2,refund:4,late:3");
        let chosen = |seqs: &mut dyn Iterator<Item = u64>| {
            let mut lottery = terms.lottery(Kind::Charge);
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
        let mut lottery = other.lottery(Kind::Charge);
        (1..=1_000).for_each(|seq| lottery.enter(seq));
        assert_ne!(lottery.winners(), forward);
        let mut lottery = terms.lottery(Kind::Refund);
        (1..=1_000).for_each(|seq| lottery.enter(seq));
        let refunds: Vec<_> = lottery.winners().into_values().collect();
        assert_eq!((refunds, forward.len()), (vec![Defect::Refund; 4], 5));
        let mut lottery = terms.lottery(Kind::Chargeback);
        lottery.enter(1);
        assert_eq!(lottery.winners().len(), 0);
    }
}
