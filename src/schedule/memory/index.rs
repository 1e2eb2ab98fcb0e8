//! Which rows a scan by time must look at: the counterparts of the partial indexes of `payments`.
//!
//! Derived from the rows alone, and changed with them by `State::change`; without it each look of a
//! scan would read every row, and a run of many payments would be a run over their square.

use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet};

type InOrder = BTreeSet<(DateTime<Utc>, PaymentId)>;

#[derive(Debug, Default)]
pub(super) struct Index {
    claimable: BTreeMap<GatewayName, InOrder>,
    held: BTreeSet<PaymentId>,
    deadlines: InOrder,
}

impl Index {
    pub(super) fn put(&mut self, payment: &Payment) {
        let id = payment.id;
        if payment.status.is_claimable() {
            let at = payment.next_attempt_at;
            match self.claimable.get_mut(&payment.gateway) {
                Some(rows) => drop(rows.insert((at, id))),
                None => drop(self.claimable.insert(payment.gateway.clone(), BTreeSet::from([(at, id)]))),
            }
        }
        if payment.status == Status::Processing {
            self.held.insert(id);
        }
        if let (Status::Pending, Some(deadline)) = (payment.status, payment.execute_before) {
            self.deadlines.insert((deadline, id));
        }
    }

    pub(super) fn take(&mut self, payment: &Payment) {
        let id = payment.id;
        if let Some(rows) = self.claimable.get_mut(&payment.gateway) {
            rows.remove(&(payment.next_attempt_at, id));
        }
        self.held.remove(&id);
        if let Some(deadline) = payment.execute_before {
            self.deadlines.remove(&(deadline, id));
        }
    }

    /// Claimable rows of a gateway, oldest first, up to `until`.
    pub(super) fn claimable(
        &self,
        gateway: &GatewayName,
        until: DateTime<Utc>,
    ) -> impl Iterator<Item = PaymentId> {
        let rows = self.claimable.get(gateway).into_iter().flatten();
        rows.take_while(move |(at, _)| *at <= until).map(|(_, id)| *id)
    }

    /// PROCESSING rows, in order of id.
    pub(super) fn held(&self) -> impl Iterator<Item = PaymentId> {
        self.held.iter().copied()
    }

    /// PENDING rows whose deadline is not after `until`, oldest first.
    pub(super) fn past_deadline(&self, until: DateTime<Utc>) -> impl Iterator<Item = PaymentId> {
        self.deadlines.iter().take_while(move |(at, _)| *at <= until).map(|(_, id)| *id)
    }

    /// How overdue each gateway's oldest claimable row is.
    pub(super) fn oldest_due(&self, now: DateTime<Utc>) -> Vec<(GatewayName, std::time::Duration)> {
        let oldest = |rows: &InOrder| rows.first().and_then(|(at, _)| (now - *at).to_std().ok());
        self.claimable.iter().map(|(name, rows)| (name.clone(), oldest(rows).unwrap_or_default())).collect()
    }

    /// Claimable rows that are due, over all gateways.
    pub(super) fn due(&self, now: DateTime<Utc>) -> usize {
        self.claimable.values().map(|rows| rows.iter().take_while(|(at, _)| *at <= now).count()).sum()
    }
}
