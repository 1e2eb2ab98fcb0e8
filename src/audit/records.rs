//! Everything that the checks look at, as it was written down: the gateway's own ledger (G), the rows of
//! the database (D), the topics (K) and the clients' log of operations (C).
//!
//! Amounts, instants and payees are compared as they stand; nothing here repairs or skips a line, and a
//! line that cannot be read is an error with its number.
//!
//! # The log of operations
//! One JSON object a line, in any order; unknown fields are ignored.
//!
//! | field | meaning |
//! |---|---|
//! | `op` | `create`, `cancel` or `read` |
//! | `actor` | the actor's name; absent where only one is at work |
//! | `key` | the Idempotency-Key of a create |
//! | `at`, `answeredAt` | RFC 3339: when the client began, and when it had the answer |
//! | `status` | HTTP status; absent or null: no answer came, and nobody knows |
//! | `paymentId` | of the answer, or of the request's path |
//! | `asked` | of a create: `{payee, amount, currency, dueAt}` |
//! | `state` | of a read: the payment's status in the answer |

use crate::bucket::dump::{Dump, Place};
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::state::Status;
use crate::platform::config::Config;
use crate::schedule::audit::{AttemptRow, DifferenceRow, KeyRow, PaymentRow, RefundRow, Told};
use chrono::{DateTime, NaiveDate, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// One physical request to the gateway, as the gateway wrote it down.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerLine {
    /// From 1.
    pub seq: u64,
    /// When it had arrived, by the gateway's clock.
    pub at: DateTime<Utc>,
    /// Its idempotency key.
    pub key: Option<String>,
    /// The payment it named.
    pub payment_id: Option<PaymentId>,
    /// The claim it named.
    pub claim_id: Option<Uuid>,
    /// The fence it named.
    pub fence: Option<i64>,
    /// The due instant it named.
    pub due_at: Option<DateTime<Utc>>,
    /// Minor units.
    pub amount: Option<i64>,
    /// ISO 4217.
    pub currency: Option<String>,
    /// The destination reference.
    pub payee: Option<String>,
    /// `charged`, `declined`, …
    pub verdict: String,
    /// This very request moved money.
    pub charged: bool,
    /// What it asked for; lines from before there were voids do not say.
    #[serde(default)]
    pub request: Requested,
    /// The charge that a refund gives back.
    #[serde(default)]
    pub charge: Option<String>,
    /// What was taken, where that is not what was asked.
    #[serde(default)]
    pub taken: Option<Box<Taken>>,
}

/// What a charge took.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Taken {
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
}

/// What a request asked the gateway for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requested {
    /// To move money.
    #[default]
    Charge,
    /// To refuse every later charge under a key; it moves none.
    Void,
    /// To give money back.
    Refund,
}

impl LedgerLine {
    /// It is about a payment's key: a charge or a void. A refund has a key and claims of its own.
    pub(super) fn is_under_key(&self) -> bool {
        self.request != Requested::Refund
    }

    /// It could have moved money: a charge that was not refused by a tombstone.
    pub(super) fn could_charge(&self) -> bool {
        self.request == Requested::Charge && self.verdict != "tombstoned"
    }

    /// For witnesses: everything but the payee.
    pub(super) fn told(&self) -> String {
        let Self { seq, at, key, payment_id, claim_id, fence, amount, currency, verdict, charged, .. } = self;
        format!(
            "line {seq} at {at}: payment {payment_id:?} key {key:?} claim {claim_id:?} fence {fence:?} \
             {amount:?} {currency:?} {verdict} charged {charged}"
        )
    }
}

/// What a client did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// POST of a payment.
    Create,
    /// DELETE of one.
    Cancel,
    /// GET of one.
    Read,
}

/// What a create asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// Destination reference.
    pub payee: String,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// As asked.
    pub due_at: DateTime<Utc>,
}

/// One line of the log of operations; see the module's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// What was done.
    pub op: Op,
    /// By whom.
    pub actor: Option<String>,
    /// Idempotency-Key of a create.
    pub key: Option<String>,
    /// When the client began.
    pub at: DateTime<Utc>,
    /// When it had the answer.
    pub answered_at: Option<DateTime<Utc>>,
    /// HTTP status; `None`: unknown.
    pub status: Option<u16>,
    /// Which payment.
    pub payment_id: Option<PaymentId>,
    /// Of a create.
    pub asked: Option<Asked>,
    /// Of a read.
    pub state: Option<Status>,
}

impl Operation {
    /// It was answered, and granted.
    #[must_use]
    pub fn granted(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// What it did is not known: no answer, or one that says so.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.status.is_none_or(|status| status >= 500)
    }

    /// For witnesses: everything but the payee.
    pub(super) fn told(&self) -> String {
        let Self { op, actor, key, at, answered_at, status, payment_id, state, .. } = self;
        format!(
            "{op:?} by {actor:?} key {key:?} at {at} answered {status:?} at {answered_at:?}: \
             payment {payment_id:?} {state:?}"
        )
    }
}

/// Which inputs there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "four inputs, each there or not")]
pub struct Given {
    /// G.
    pub ledger: bool,
    /// D.
    pub database: bool,
    /// K.
    pub topics: bool,
    /// C.
    pub operations: bool,
}

/// Everything of one window of due days.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// Which inputs there are; an empty list of one that is given means "nothing happened".
    pub given: Given,
    /// G, in the order of its writing.
    pub ledger: Vec<LedgerLine>,
    /// Payments that moved from here on may be ahead of the ledger, which was read before them: G and
    /// D are not compared for those. `None`: everything was at rest.
    pub ledger_read_at: Option<DateTime<Utc>>,
    /// C.
    pub operations: Vec<Operation>,
    /// K.
    pub topics: Dump,
    /// D: records of the ring that cannot be read, or are not ours, and were kept.
    pub kept: BTreeSet<Place>,
    /// The publisher has a cursor, so something is published.
    pub is_published: bool,
    /// The database's clock when D was read.
    pub taken_at: DateTime<Utc>,
    /// D: by id.
    pub payments: Vec<PaymentRow>,
    /// D: by payment and number.
    pub attempts: Vec<AttemptRow>,
    /// D: by payment and number.
    pub history: Vec<Told>,
    /// D: idempotency keys.
    pub keys: Vec<KeyRow>,
    /// D: by payment.
    pub refunds: Vec<RefundRow>,
    /// D: by payment; what comparisons with reports found, and is still so.
    pub differences: Vec<DifferenceRow>,
    /// D: days that were compared with a whole report, of each gateway, in order.
    pub compared: Vec<(GatewayName, NaiveDate)>,
}

/// The settings that the installation ran with, as far as promises depend on them.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Waits between sends after a proven non-charge.
    pub retry: Vec<Duration>,
    /// Waits after a send that the gateway did not take.
    pub held_back: Vec<Duration>,
    /// How long the gateway remembers a key.
    pub key_ttl: Duration,
    /// Distance kept from that.
    pub key_margin: Duration,
    /// The longest call: a request may arrive so long after it was allowed.
    pub gateway_total: Duration,
    /// The reaper acts so long after a lease's end.
    pub lease_margin: Duration,
    /// A due payment that waits longer than this is stuck.
    pub overdue: Duration,
}

impl Rules {
    /// Of an installation with these settings; `overdue` is for whoever asks to choose.
    #[must_use]
    pub fn of(config: &Config, overdue: Duration) -> Self {
        Self {
            retry: config.ladder.retry.clone(),
            held_back: config.ladder.held_back.clone(),
            key_ttl: config.gateway.key_ttl,
            key_margin: config.gateway.key_margin,
            gateway_total: config.gateway.total_timeout,
            lease_margin: config.worker.margin,
            overdue,
        }
    }
}

/// One line that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {number}: {source}")]
pub struct BadLine {
    number: usize,
    source: serde_json::Error,
}

/// Reads NDJSON line by line, keeping what `wanted` wants, until a line cannot be read.
#[derive(Debug)]
pub struct Lines<T, F> {
    wanted: F,
    number: usize,
    kept: Vec<T>,
    bad: Option<BadLine>,
}

impl<T: DeserializeOwned, F: Fn(&T) -> bool> Lines<T, F> {
    /// Nothing read yet.
    pub fn new(wanted: F) -> Self {
        Self { wanted, number: 0, kept: Vec::new(), bad: None }
    }

    /// Reads one line; empty ones are skipped. `false`: it cannot be read, and no more is wanted.
    pub fn take(&mut self, line: &[u8]) -> bool {
        self.number += 1;
        if line.trim_ascii().is_empty() {
            return true;
        }
        match serde_json::from_slice(line) {
            Ok(one) if (self.wanted)(&one) => self.kept.push(one),
            Ok(_) => {}
            Err(source) => self.bad = Some(BadLine { number: self.number, source }),
        }
        self.bad.is_none()
    }

    /// What was kept.
    ///
    /// # Errors
    /// The line that could not be read, counted as an editor does.
    pub fn kept(self) -> Result<Vec<T>, BadLine> {
        self.bad.map_or(Ok(self.kept), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_cannot_be_read_is_named_by_its_number() {
        let mut lines = Lines::new(|it: &Operation| it.op == Op::Cancel);
        let text = "{\"op\":\"create\",\"at\":\"2026-11-29T00:00:00Z\",\"more\":1}\n\n\
                    {\"op\":\"cancel\",\"at\":\"2026-11-29T00:00:00Z\",\"status\":null}\n{\"op\":\"pay\"}\nnever read";
        let took: Vec<bool> = text.split('\n').map(|line| lines.take(line.as_bytes())).take(4).collect();
        assert_eq!(took, [true, true, true, false]);
        let told = lines.kept().unwrap_err().to_string();
        assert!(told.starts_with("line 4: unknown variant `pay`"), "{told}");
    }
}
