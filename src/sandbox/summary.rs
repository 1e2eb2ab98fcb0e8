//! The ledger in figures.

use super::line::{Line, Request, Verdict};
use serde::Serialize;

/// The ledger in figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    /// Physical requests to `POST /charges`.
    pub(super) requests: u64,
    /// Physical requests to `POST /voids`.
    pub(super) voids: u64,
    /// Physical requests to `POST /refunds`.
    pub(super) refund_requests: u64,
    /// Those among them that gave money back.
    pub(super) refunds: u64,
    /// Requests that moved money.
    pub(super) charges: u64,
    /// Payments with at least one charge.
    pub(super) payments_charged: u64,
    /// Payments with more than one charge: double charges.
    pub(super) payments_charged_more_than_once: u64,
    /// Smallest `at − dueAt` in milliseconds, rounded down; null if no request named its due time.
    pub(super) earliest_margin_ms: Option<i64>,
    /// Requests that arrived before their due time.
    pub(super) early: u64,
    /// Charges among them.
    pub(super) early_charges: u64,
}

impl Summary {
    /// Counts one more line.
    pub(super) fn count(&mut self, line: &Line) {
        match line.request {
            Request::Charge => self.requests += 1,
            Request::Void => {
                self.voids += 1;
                return;
            }
            Request::Refund => {
                self.refund_requests += 1;
                self.refunds += u64::from(line.verdict == Verdict::Refunded);
                return;
            }
        }
        self.charges += u64::from(line.charged);
        let Some(due_at) = line.due_at else { return };
        let micros = (line.at - due_at).num_microseconds().unwrap_or(i64::MAX);
        let margin = micros.div_euclid(1_000);
        self.earliest_margin_ms = Some(self.earliest_margin_ms.map_or(margin, |m| m.min(margin)));
        self.early += u64::from(line.at < due_at);
        self.early_charges += u64::from(line.at < due_at && line.charged);
    }
}
