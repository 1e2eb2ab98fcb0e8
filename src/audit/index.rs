//! Records by payment and by claim, so that a check reads like its sentence.

use super::records::{LedgerLine, Operation, Records};
use crate::domain::ids::PaymentId;
use crate::schedule::audit::{AttemptRow, PaymentRow, Told};
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

pub(super) struct Index<'a> {
    pub(super) payments: BTreeMap<PaymentId, &'a PaymentRow>,
    pub(super) claims: BTreeMap<Uuid, &'a AttemptRow>,
    attempts: BTreeMap<PaymentId, Vec<&'a AttemptRow>>,
    history: BTreeMap<PaymentId, Vec<&'a Told>>,
    lines: BTreeMap<PaymentId, Vec<&'a LedgerLine>>,
    pub(super) operations: BTreeMap<PaymentId, Vec<&'a Operation>>,
    pub(super) charged: BTreeSet<PaymentId>,
    in_motion: BTreeSet<PaymentId>,
}

impl<'a> Index<'a> {
    pub(super) fn of(records: &'a Records) -> Self {
        let charges = records.ledger.iter().filter(|line| line.charged);
        let moved = |payment: &&PaymentRow| {
            records.ledger_read_at.is_some_and(|read_at| payment.last_moved_at >= read_at)
        };
        Self {
            payments: records.payments.iter().map(|payment| (payment.id, payment)).collect(),
            claims: records.attempts.iter().map(|attempt| (attempt.claim_id, attempt)).collect(),
            attempts: grouped(&records.attempts, |attempt| Some(attempt.payment)),
            history: grouped(&records.history, |told| Some(told.row.payment)),
            lines: grouped(&records.ledger, |line| line.payment_id.filter(|_| line.is_under_key())),
            operations: grouped(&records.operations, |operation| operation.payment_id),
            charged: charges.filter_map(|line| line.payment_id).collect(),
            in_motion: records.payments.iter().filter(moved).map(|payment| payment.id).collect(),
        }
    }

    pub(super) fn payment_of(&self, line: &LedgerLine) -> Option<&'a PaymentRow> {
        self.payments.get(&line.payment_id?).copied()
    }

    pub(super) fn claim_of(&self, line: &LedgerLine) -> Option<&'a AttemptRow> {
        self.claims.get(&line.claim_id?).copied()
    }

    /// Oldest first.
    pub(super) fn attempts_of(&self, payment: PaymentId) -> &[&'a AttemptRow] {
        self.attempts.get(&payment).map_or(&[], Vec::as_slice)
    }

    /// Everybody's who was claimed.
    pub(super) fn attempts(&self) -> impl Iterator<Item = (PaymentId, &[&'a AttemptRow])> {
        self.attempts.iter().map(|(payment, attempts)| (*payment, attempts.as_slice()))
    }

    /// Oldest first.
    pub(super) fn history_of(&self, payment: PaymentId) -> &[&'a Told] {
        self.history.get(&payment).map_or(&[], Vec::as_slice)
    }

    /// In the order of the ledger.
    pub(super) fn lines_of(&self, payment: PaymentId) -> &[&'a LedgerLine] {
        self.lines.get(&payment).map_or(&[], Vec::as_slice)
    }

    /// A request under a claim that was made before `at` and had no outcome then: that of a worker which was
    /// frozen past its lease, and which no check of ours can hold back any more. The key makes it harmless.
    pub(super) fn was_open_at(&self, line: &LedgerLine, at: DateTime<Utc>) -> bool {
        self.claim_of(line).is_some_and(|claim| {
            claim.claimed_at < at && claim.settled_at.is_none_or(|settled_at| settled_at > at)
        })
    }

    /// It moved after the ledger was read: the two cannot be compared.
    pub(super) fn is_in_motion(&self, payment: PaymentId) -> bool {
        self.in_motion.contains(&payment)
    }
}

fn grouped<T>(all: &[T], of: impl Fn(&T) -> Option<PaymentId>) -> BTreeMap<PaymentId, Vec<&T>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in all {
        if let Some(payment) = of(one) {
            groups.entry(payment).or_default().push(one);
        }
    }
    groups
}
