//! M10: what was given back, by the gateway's own ledger, against what people asked for and allowed.
//!
//! A restore may lose the claim that sent a refund, or the refund itself. What a line of the gateway's report then ended,
//! or two people put on record by it, is known and counts: until then its requests need no claim. Every other request
//! does.

use super::checked::Checked;
use super::index::Index;
use super::records::{LedgerLine, Records, Requested};
use crate::domain::ids::PaymentId;
use crate::domain::invariants::Invariant as Is;
use crate::domain::refund::{RefundId, RefundStatus};
use crate::schedule::audit::RefundRow;
use std::collections::BTreeMap;

/// Every request to give back is one that a claim of ours made, and says what the refund says; a key gives back
/// once; in sum no charge gives back more than it took; and what the rows call done, and nothing else, was done.
pub(super) fn refunds_never_exceed_the_charge(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::M10);
    let rows: BTreeMap<String, &RefundRow> =
        records.refunds.iter().map(|row| (row.id.to_string(), row)).collect();
    let mut given: BTreeMap<&str, u32> = BTreeMap::new();
    let mut sums: BTreeMap<_, i128> = BTreeMap::new();
    let recorded = put_on_record(records, &rows);
    let lines = || records.ledger.iter().filter(|line| line.request == Requested::Refund);
    for line in lines() {
        let row = line.key.as_deref().and_then(|key| rows.get(key));
        // A request without a key was refused before anything was looked at.
        let is_ours = row.is_some_and(|row| is_of(line, row)) || recorded.contains_key(&line.seq);
        checked.look(is_ours, || format!("no allowed refund says so: {}", line.told()));
        if line.verdict == "refunded" {
            if let Some(key) = line.key.as_deref() {
                *given.entry(key).or_default() += 1;
            }
            *sums.entry((line.payment_id, line.charge.clone())).or_default() +=
                i128::from(line.amount.unwrap_or(0));
        }
    }
    for (key, times) in &given {
        checked.look(*times == 1, || format!("refund {key} gave back {times} times"));
    }
    for ((payment, charge), sum) in sums {
        let charged = payment.and_then(|id| taken(id, index));
        let holds = charged.is_some_and(|charged| sum <= charged);
        checked.look(holds, || format!("{payment:?}: {sum} of {charged:?} given back of {charge:?}"));
    }
    // One part of a charge that came back after the ledger was read does not move the payment.
    let ended_since =
        |row: &RefundRow| records.ledger_read_at.is_some_and(|read_at| row.finished_at >= Some(read_at));
    for row in records.refunds.iter().filter(|row| !index.is_in_motion(row.payment) && !ended_since(row)) {
        let by_key = given.get(row.id.to_string().as_str()).copied();
        let times = by_key.unwrap_or_else(|| u32::from(recorded.values().any(|id| *id == row.id)));
        let holds = match row.status {
            RefundStatus::Refunded => times == 1,
            RefundStatus::Asked
            | RefundStatus::Approved
            | RefundStatus::Declined
            | RefundStatus::Rejected => times == 0,
            // The question is open, and asked.
            RefundStatus::Sending | RefundStatus::Unknown => true,
        };
        checked.look(holds, || {
            format!("refund {} is {}, given back {times} times", row.id, row.status.as_str())
        });
    }
    if checked.looked_at == 0 { Checked::unknown(Is::M10, "nobody asked for a refund") } else { checked }
}

/// What a charge of the payment took at most, in minor units: what the payment asks, unless the gateway's ledger says
/// otherwise. Its lines do not name their charges.
fn taken(payment: PaymentId, index: &Index<'_>) -> Option<i128> {
    let asked = index.payments.get(&payment).map(|row| row.amount);
    let charges = index.lines_of(payment).iter().filter(|line| line.charged);
    let took = charges.filter_map(|line| line.taken.as_ref().map(|taken| taken.amount).or(asked)).max();
    took.or(asked).map(i128::from)
}

/// Lines under keys of nobody's here, each with the refund that is on record by it.
fn put_on_record(records: &Records, rows: &BTreeMap<String, &RefundRow>) -> BTreeMap<u64, RefundId> {
    let mut recorded = BTreeMap::new();
    let given =
        records.ledger.iter().filter(|line| line.request == Requested::Refund && line.verdict == "refunded");
    let given: Vec<&LedgerLine> = given.collect();
    let has_own_line = |row: &RefundRow| {
        let key = row.id.to_string();
        given.iter().any(|line| line.key.as_deref() == Some(key.as_str()))
    };
    for row in records.refunds.iter().filter(|row| row.is_shown && !has_own_line(row)) {
        let mut of_nobody = given.iter().filter(|line| {
            !line.key.as_deref().is_some_and(|key| rows.contains_key(key))
                && !recorded.contains_key(&line.seq)
        });
        if let Some(line) = of_nobody.find(|line| Some(line.at) <= row.finished_at && says(line, row)) {
            recorded.insert(line.seq, row.id);
        }
    }
    recorded
}

fn is_of(line: &LedgerLine, row: &RefundRow) -> bool {
    let is_shown = row.is_shown && Some(line.at) <= row.finished_at;
    let claimed = row.claims.iter().any(|claim| {
        Some(claim.claim_id) == line.claim_id
            && Some(claim.fence) == line.fence
            && claim.claimed_at <= line.at
    });
    (claimed || is_shown) && says(line, row)
}

/// The line says what the refund says.
fn says(line: &LedgerLine, row: &RefundRow) -> bool {
    line.payment_id == Some(row.payment)
        && line.charge.as_deref() == Some(row.reference.as_str())
        && line.amount == Some(row.amount)
        && line.currency.as_deref() == Some(row.currency.as_str())
}
