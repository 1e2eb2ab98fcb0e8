//! Stage 2, the truth: the only folder with SQL and transactions; one verb is one transaction.
//!
//! **Promises.** What a verb answered is durable; what it refused did not happen; what is unknown is
//! said to be unknown. Every move of a payment is one conditional update that writes its history row,
//! its attempt and its next notice in the same statement. **Relies on** Postgres 15 or later with
//! `synchronous_commit` on, and on its clock alone. **Why this way**: the guard of each move stands in
//! its WHERE clause, so two processes never need to trust each other.
//!
//! Read `sql/claim.sql` first, then `claim.rs`, `settle.rs` and `sql/settle.sql`.

mod acts;
mod approvals;
pub mod audit;
mod backlog;
mod bad_notices;
mod bulk;
mod callbacks;
mod cancel;
mod caps;
mod claim;
mod claim_late;
mod connect;
mod create;
mod create_batch;
mod crew;
mod days;
mod defer;
mod events;
mod failure;
mod fence;
mod find;
mod forecast;
mod gateways;
mod history;
mod key_acts;
mod keys;
mod length;
mod lineage;
mod list;
mod mark;
#[cfg(any(test, feature = "simulation"))]
#[allow(missing_docs, clippy::unwrap_used)]
mod memory;
mod migrate;
mod outcome_columns;
mod pace;
mod parked;
mod partitions;
mod poison;
mod port;
mod postgres;
mod proof;
mod publish;
mod reap;
mod records;
mod recover;
mod refund_resolve;
mod refund_work;
mod refunds;
mod release;
mod renew;
mod row;
mod settle;
mod shards;
mod stage;
pub mod statements;
mod states;
mod switches;
mod words;

pub use acts::{Act, ActEntry, ActFilter};
pub use approvals::{
    ActTerms, Approval, ApprovalKind, ApprovalStatus, ApprovalVerdict, AskedFor, CarriedOut, Decided,
    NewApproval, Obstacle,
};
pub use backlog::Backlog;
pub use bad_notices::BadRecord;
pub use bulk::{Bulk, BulkStatus, BulkStep, BulkSwitched, BulkTerms, NewBulk, Preview};
pub use callbacks::CallbackTaken;
pub use caps::{Cap, CapEntry, DailyCap};
pub use connect::{Access, ConnectError, connect};
pub use create_batch::{AskedKey, BatchAnswer, Together};
pub use crew::{Crew, PublisherSeen, RelaySeen, WorkerSeen};
pub use events::{EventPage, EventPlace};
pub use forecast::{Forecast, GatewayForecast};
pub use gateways::{GatewayAnswer, GatewayChange, GatewayOrder, GatewayStanding, PausedBy};
pub use history::{HistoryEntry, HistoryProof};
pub use key_acts::{By, KeyMade, KeyRevoked, KeyRotated, NewApiKey, NextApiKey, Succession};
pub use keys::{ApiKeyEntry, TokenActor};
pub use list::{ListFilter, ListOrder, ListPage, LookUp, MOST_EXAMINED, Place, Span};
#[cfg(any(test, feature = "simulation"))]
pub use memory::{AttemptRow, Fault, Memory, Verb};
pub use migrate::{migrate, migration_plan};
pub use parked::{ParkedEntry, ParkedFilter, ParkedPage, ParkedView};
pub use port::*;
pub use postgres::Postgres;
pub use proof::*;
pub use publish::{HistoryPlace, PublisherLease, Snapshot, Unpublished, UnpublishedBatch};
pub use records::*;
pub use refund_resolve::{NewRefundWord, RefundClosed, RefundWordAsked};
pub use refund_work::{AnsweredRefund, ClaimedRefund, RefundAnswer, RefundOrder, RefundSettled};
pub use refunds::{NewRefund, Refund, RefundAsked};
pub use release::{Redrive, Released, Resolve};
pub use states::PaymentState;
pub use switches::{SwitchAnswer, SwitchOrder, ThrownSwitch};
