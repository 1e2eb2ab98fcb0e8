//! The promises about time, as of the instant at which the database was read: L1, L4, L5 and L7. Whether
//! a fault is still at work then is for whoever asks to know.

use super::checked::Checked;
use super::index::Index;
use super::records::{Records, Rules};
use crate::domain::invariants::Invariant as Is;
use crate::domain::state::Status;
use crate::schedule::audit::PaymentRow;
use chrono::TimeDelta;

/// A due payment is final, parked, waiting for an instant of its ladder, or held by a lease that lives.
/// One that waits to be claimed is for L5 if it is PENDING.
pub(super) fn nothing_is_stuck(records: &Records, rules: &Rules) -> Checked {
    let mut checked = Checked::new(Is::L1);
    let margin = bound(rules.lease_margin) + bound(rules.overdue);
    for payment in due(records) {
        let holds = match payment.status {
            Status::Processing => payment.lease_until.is_some_and(|until| records.taken_at < until + margin),
            Status::Unknown => records.taken_at - payment.next_attempt_at < bound(rules.overdue),
            Status::Pending
            | Status::Completed
            | Status::Failed
            | Status::Cancelled
            | Status::Parked
            | Status::Refunded => true,
        };
        checked.look(holds, || {
            let (status, next) = (payment.status, payment.next_attempt_at);
            format!("{} is still {status:?}, lease until {:?}, next {next}", payment.id, payment.lease_until)
        });
    }
    checked
}

fn due(records: &Records) -> impl Iterator<Item = &PaymentRow> {
    records.payments.iter().filter(|payment| payment.due_at <= records.taken_at)
}

fn bound(length: std::time::Duration) -> TimeDelta {
    TimeDelta::from_std(length).unwrap_or(TimeDelta::MAX)
}

/// Measured, not judged: the figures are among the situations.
pub(super) fn lateness_is_measured(index: &Index<'_>) -> Checked {
    let mut checked = Checked::new(Is::L4);
    for (id, attempts) in index.attempts() {
        let known = index.payments.contains_key(&id) && !attempts.is_empty();
        checked.look(known, || format!("{id} was claimed and is not there"));
    }
    checked
}

pub(super) fn due_payments_do_not_wait(records: &Records, rules: &Rules) -> Checked {
    let mut checked = Checked::new(Is::L5);
    for payment in due(records).filter(|payment| payment.status == Status::Pending) {
        let waited = records.taken_at - payment.next_attempt_at;
        checked.look(waited < bound(rules.overdue), || {
            format!("{} is PENDING and could be claimed for {waited}", payment.id)
        });
    }
    if checked.looked_at == 0 && due(records).next().is_some() {
        // None of those that are due is PENDING: the oldest has no age.
        checked.look(true, String::new);
    }
    checked
}

pub(super) fn parked_have_a_reason(records: &Records) -> Checked {
    let mut checked = Checked::new(Is::L7);
    for payment in &records.payments {
        let listed = payment.parked.as_deref().is_some_and(|reason| !reason.is_empty());
        let holds = payment.status != Status::Parked || listed && payment.reason == payment.parked;
        checked.look(holds, || format!("{} is parked, list says {:?}", payment.id, payment.parked));
    }
    checked
}
