//! Every promise with its number: the same numbers are used by the model, the simulation, the
//! checker, production counters and the documents.
//!
//! A check that can be made on one row alone is here, as [`row_faults`]; the schedule asks it before
//! it writes, the checker asks it of every row it reads. The others need the inputs they name.

use super::payment::Payment;
use super::state::Status;

/// What a check needs to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// The gateway's own ledger.
    GatewayLedger,
    /// The database.
    Database,
    /// A dump of the topics and the committed offsets.
    Kafka,
    /// The clients' operation log: ok, fail or unknown.
    ClientLog,
    /// The faults injected.
    Faults,
}

macro_rules! invariants {
    ($( $id:ident : [$($input:ident),*] $statement:literal; )*) => {
        /// One promise.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant { $( #[doc = $statement] $id, )* }

        impl Invariant {
            /// Every promise, in the order of the table.
            pub const ALL: &[Self] = &[ $( Self::$id, )* ];

            /// Its number, as `M1`.
            #[must_use]
            pub fn id(self) -> &'static str { match self { $( Self::$id => stringify!($id), )* } }

            /// The promise in one sentence.
            #[must_use]
            pub fn statement(self) -> &'static str { match self { $( Self::$id => $statement, )* } }

            /// What a check of it needs to look at.
            #[must_use]
            pub fn inputs(self) -> &'static [Input] {
                match self { $( Self::$id => &[ $( Input::$input ),* ], )* }
            }
        }
    };
}

invariants! {
    M1: [GatewayLedger] "A payment is charged at most once, over all of its epochs.";
    M2: [GatewayLedger, Database] "Every request in the gateway's ledger has an earlier committed claim with the same claim id and fence.";
    M3: [GatewayLedger, Database] "No request reaches the gateway before its payment is due.";
    M4: [GatewayLedger, Database] "Every request carries the payment's amount, currency and payee.";
    M5: [GatewayLedger, Database] "The gateway key is a function of payment and epoch; a new epoch follows only a definitive non-charge, and nothing is sent past the key's cut-off.";
    M6: [GatewayLedger, Database] "One attempt makes at most one physical request that can move money.";
    M7: [GatewayLedger, ClientLog] "A payment whose cancel was answered 200 is never charged.";
    M8: [GatewayLedger, Database] "After FAILED or CANCELLED nothing is charged; after PARKED only through an authorised act.";
    M9: [GatewayLedger, Database] "The sum charged in the gateway's ledger is the sum of COMPLETED plus listed open and parked payments.";
    M10: [GatewayLedger, Database] "Refunds of a payment never exceed its charge, and each happens once.";
    M11: [GatewayLedger, Database] "Once a client's wish to cancel is on record, no later claim sends a charge.";
    H1: [Database] "History holds legal moves only, and its numbers have no gap.";
    H2: [Database] "History is only appended to, and its chain of hashes verifies.";
    H3: [Database] "A payment's fence strictly grows, and no claim id is used twice.";
    H4: [Database] "No stale settle changes a status, and each leaves a FENCED event.";
    H5: [Database] "Final rows do not change, but by refund or repair.";
    H6: [GatewayLedger, Database] "A payment is COMPLETED exactly if the gateway's ledger shows it charged.";
    H7: [Database] "A payment's status is the one that its last history row entered.";
    H8: [GatewayLedger, Database] "Retries keep to their budget and spacing.";
    H9: [GatewayLedger, Database] "Nothing is sent after a hard decline.";
    H10: [Database] "Payment ids are unique over all partitions.";
    L1: [Database, Faults] "After the last heal, every accepted due payment becomes final or parked in bounded time.";
    L2: [Database, ClientLog] "Every create that was acknowledged exists.";
    L3: [Database, ClientLog] "The same idempotency key names the same payment.";
    L4: [GatewayLedger, Database, Faults] "Lateness is measured: median, 99th percentile and largest, healthy and per fault.";
    L5: [Database, Faults] "The oldest due PENDING payment comes back under its bound.";
    L6: [Faults] "Every instance serves again after its fault has healed.";
    L7: [Database] "The number of parked payments matches the parked list, and each has a reason.";
    K1: [Database, Kafka] "Every record below a committed offset has its evidence in the database.";
    K2: [Kafka] "A payment's notices always travel in the same partition of a topic.";
    K3: [Database, Kafka] "No record names a payment that the database does not know.";
    K4: [Database, Kafka] "Every history row is published at least once, and first-seen order is its number's order.";
    K5: [Database, Faults] "Losing all of Kafka loses no payment.";
    K6: [Database, Kafka, Faults] "A notice is marked as published only after the bus has acknowledged it.";
    A1: [ClientLog, Database] "Create, read, cancel and claim of one payment are linearizable.";
    A2: [ClientLog] "What a client reads never goes back in time.";
    A3: [ClientLog] "No actor sees another actor's payments.";
    R1: [Database, GatewayLedger] "Every defect injected into a settlement report is found, and nothing else is.";
    R2: [Database, GatewayLedger] "Exported counters equal the checker's own counts.";
}

/// What is wrong with one row on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum RowFault {
    /// PENDING promises that no request of ours can still move money.
    #[error("PENDING with an unanswered send")]
    PendingWithOpenSend,
    /// FAILED and CANCELLED promise the same, for good.
    #[error("FAILED or CANCELLED with an unanswered send")]
    EndedWithOpenSend,
    /// An open send without a first-sent instant would have a key that never ages (rule R6).
    #[error("an unanswered send under a key without an age")]
    KeyWithoutAge,
    /// A count below zero.
    #[error("a negative count")]
    NegativeCount,
    /// It could be claimed before it is due (rule R9).
    #[error("the next attempt lies before the due instant")]
    EarlyAttempt,
    /// The id names another due time than the row: look-ups would miss its partition.
    #[error("the id does not carry the row's due time")]
    IdLies,
    /// `held_back` and `held_back_since` go together.
    #[error("held_back without its instant, or the reverse")]
    HeldBackTorn,
    /// More sends than claims, or than the policy allows.
    #[error("more sends than claims or than the retry policy allows")]
    OverBudget,
    /// PROCESSING without a possible send, or before the first claim.
    #[error("PROCESSING without a claim")]
    HeldByNobody,
}

impl RowFault {
    /// The promise it breaks.
    #[must_use]
    pub fn breaks(self) -> Invariant {
        match self {
            Self::PendingWithOpenSend => Invariant::M7,
            Self::EndedWithOpenSend => Invariant::M8,
            Self::KeyWithoutAge => Invariant::M5,
            Self::EarlyAttempt => Invariant::M3,
            Self::IdLies => Invariant::H10,
            Self::OverBudget | Self::HeldBackTorn => Invariant::H8,
            Self::NegativeCount | Self::HeldByNobody => Invariant::H3,
        }
    }
}

/// Everything that is wrong with one row on its own; empty for a sound one.
#[must_use]
pub fn row_faults(row: &Payment) -> Vec<RowFault> {
    let open = row.unanswered > 0;
    let ended = match row.status {
        Status::Failed | Status::Cancelled => true,
        Status::Pending
        | Status::Processing
        | Status::Unknown
        | Status::Completed
        | Status::Parked
        | Status::Refunded => false,
    };
    let counts =
        [row.attempt, row.unanswered, row.epoch.0, row.sends.into(), row.held_back.into(), row.asks.into()];
    let checks = [
        (row.status == Status::Pending && open, RowFault::PendingWithOpenSend),
        (ended && open, RowFault::EndedWithOpenSend),
        (open && row.epoch_first_sent_at.is_none(), RowFault::KeyWithoutAge),
        (counts.iter().any(|count| *count < 0), RowFault::NegativeCount),
        (row.next_attempt_at < row.due_at, RowFault::EarlyAttempt),
        (row.id.due_ms() != row.due_at.timestamp_millis(), RowFault::IdLies),
        ((row.held_back > 0) != row.held_back_since.is_some(), RowFault::HeldBackTorn),
        (i32::from(row.sends) > row.attempt || row.sends > row.retry.max_sends, RowFault::OverBudget),
        (row.status == Status::Processing && row.attempt < 1, RowFault::HeldByNobody),
    ];
    checks.into_iter().filter_map(|(broken, fault)| broken.then_some(fault)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::guard_cases::payment;
    use chrono::{DateTime, TimeDelta};

    #[test]
    fn numbers_are_unique_and_each_promise_is_one_sentence_with_inputs() {
        let ids: std::collections::BTreeSet<_> = Invariant::ALL.iter().map(|i| i.id()).collect();
        assert_eq!(ids.len(), Invariant::ALL.len());
        assert_eq!(Invariant::ALL.len(), 11 + 10 + 7 + 6 + 3 + 2);
        for invariant in Invariant::ALL {
            let statement = invariant.statement();
            assert!(statement.ends_with('.') && !statement.contains(". "), "{statement}");
            assert!(!invariant.inputs().is_empty(), "{}", invariant.id());
        }
    }

    #[test]
    fn each_fault_is_found_alone() {
        let now = DateTime::from_timestamp(1_795_960_020, 0).expect("in range");
        for status in Status::ALL {
            assert_eq!(row_faults(&payment(now, 1, status)), Vec::new(), "{status:?}");
        }
        let broken = |status, change: fn(&mut Payment)| {
            let mut row = payment(now, 1, status);
            change(&mut row);
            row_faults(&row)
        };
        for (status, change, fault) in [
            (
                Status::Unknown,
                (|r| r.status = Status::Pending) as fn(&mut Payment),
                RowFault::PendingWithOpenSend,
            ),
            (Status::Unknown, |r| r.status = Status::Failed, RowFault::EndedWithOpenSend),
            (Status::Unknown, |r| r.status = Status::Cancelled, RowFault::EndedWithOpenSend),
            (Status::Unknown, |r| r.epoch_first_sent_at = None, RowFault::KeyWithoutAge),
            (Status::Pending, |r| r.asks = -1, RowFault::NegativeCount),
            (Status::Pending, |r| r.unanswered = -1, RowFault::NegativeCount),
            (
                Status::Pending,
                |r| r.next_attempt_at = r.due_at - TimeDelta::milliseconds(1),
                RowFault::EarlyAttempt,
            ),
            (Status::Pending, |r| r.held_back = 1, RowFault::HeldBackTorn),
            (Status::Pending, |r| r.held_back_since = Some(r.due_at), RowFault::HeldBackTorn),
            (Status::Pending, |r| (r.attempt, r.sends) = (9, 7), RowFault::OverBudget),
            (Status::Pending, |r| r.attempt = 0, RowFault::OverBudget),
            (Status::Processing, |r| (r.attempt, r.sends) = (0, 0), RowFault::HeldByNobody),
            (
                Status::Pending,
                |r| {
                    r.due_at += TimeDelta::milliseconds(1);
                    r.next_attempt_at = r.due_at;
                },
                RowFault::IdLies,
            ),
        ] {
            assert_eq!(broken(status, change), vec![fault], "{status:?}");
        }
    }
}
