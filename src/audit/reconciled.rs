//! R1, as far as what was written down shows it: what the gateway's own ledger and our rows disagree on is found by
//! reconciliation, and what it calls charged was charged.
//!
//! **Promise**: only days that were compared with a whole report of the payment's own gateway, the day after them
//! included, since a report may book then. What another gateway's report says of the payment is another charge, or a
//! mistake: it tells nobody of this one. That defects which somebody injects into reports are found as well is shown by whoever injects them.
//! If this is wrong, a difference that nobody was told of passes for none.

use super::checked::Checked;
use super::index::Index;
use super::records::Records;
use crate::domain::ids::GatewayName;
use crate::domain::invariants::Invariant as Is;
use crate::domain::matching::Class;
use crate::domain::state::Status;
use crate::schedule::audit::PaymentRow;
use chrono::NaiveDate;
use std::collections::BTreeSet;

/// Of every charge of compared days that our row does not know there is a difference on record, and each difference
/// that says "charged" is of a payment that was.
pub(super) fn differences_are_found(records: &Records, index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::R1);
    if records.compared.is_empty() {
        return Checked::unknown(Is::R1, "no day was compared with a whole report");
    }
    let compared: BTreeSet<(&GatewayName, NaiveDate)> =
        records.compared.iter().map(|(gateway, day)| (gateway, *day)).collect();
    for payment in records.payments.iter().filter(|payment| !index.is_in_motion(payment.id)) {
        let was_reported = index.lines_of(payment.id).iter().filter(|line| line.charged).any(|line| {
            let day = line.at.date_naive();
            let is_compared = |day| compared.contains(&(&payment.gateway, day));
            is_compared(day) && day.succ_opt().is_some_and(is_compared)
        });
        if was_reported {
            let holds = knows(payment.status) || is_listed(records, payment);
            checked.look(holds, || {
                format!("{} is {:?}, was charged, and nobody was told", payment.id, payment.status)
            });
        }
    }
    for difference in &records.differences {
        let says_charged = difference.class == Class::MissingHere && difference.field == "status";
        if says_charged && !index.is_in_motion(difference.payment) {
            let holds = index.charged.contains(&difference.payment);
            checked.look(holds, || format!("{} is called charged and was not", difference.payment));
        }
    }
    checked
}

/// A row that says, or asks, that it was charged.
fn knows(status: Status) -> bool {
    match status {
        Status::Completed | Status::Refunded | Status::Processing | Status::Unknown | Status::Parked => true,
        Status::Pending | Status::Failed | Status::Cancelled => false,
    }
}

/// Is a charge of it, at its own gateway, on record as a difference that people know of?
pub(super) fn is_listed(records: &Records, payment: &PaymentRow) -> bool {
    // In the order of payments, as they are read.
    let first = records.differences.partition_point(|it| it.payment < payment.id);
    let mut of_payment = records.differences.iter().skip(first).take_while(|it| it.payment == payment.id);
    of_payment.any(|it| it.gateway == payment.gateway)
}
