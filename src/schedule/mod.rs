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
mod carry_out;
mod claim;
mod claim_late;
mod connect;
mod create;
mod create_batch;
mod create_obstacles;
mod crew;
mod days;
mod defer;
mod durability;
mod events;
mod failure;
mod fan_out;
mod fence;
mod find;
mod forecast;
mod forecast_days;
mod gateways;
mod history;
mod hour;
mod indexes;
mod key_acts;
mod keys;
mod length;
mod lineage;
mod list;
mod logins;
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
mod pulse;
mod quarantine;
mod reap;
mod reconcile;
mod recent_calls;
mod reconcile_compare;
mod reconcile_found;
mod reconcile_items;
mod reconcile_lines;
mod rebuild;
mod reconcile_refunds;
mod reconcile_repair;
mod reconcile_runs;
mod reconcile_settle;
mod reconcile_sums;
mod reconcile_withdraw;
mod records;
mod recover;
mod refund_resolve;
mod refund_work;
mod refunds;
mod release;
mod renew;
mod replay;
mod reveal;
mod row;
mod search;
mod search_walk;
mod settle;
mod shards;
mod stage;
pub mod statements;
mod states;
mod switches;
mod webhook_endpoints;
mod webhook_log;
mod webhook_notes;
mod webhook_standings;
mod webhook_work;
mod witness;
mod words;

pub use acts::{Act, ActEntry, ActFilter};
pub use approvals::{
    ActTerms, Approval, ApprovalKind, ApprovalStatus, ApprovalVerdict, AskedFor, Decided, NewApproval,
};
pub use backlog::{Backlog, OpenStates};
pub use bad_notices::BadRecord;
pub use bulk::{Bulk, BulkStatus, BulkStep, BulkSwitched, BulkTerms, NewBulk, Preview};
pub use callbacks::CallbackTaken;
pub use caps::{Cap, CapEntry, DailyCap};
pub use carry_out::{CarriedOut, Obstacle};
pub use connect::{Access, ConnectError, connect};
pub use create_batch::{AskedKey, BatchAnswer, Together};
pub use crew::{Crew, PublisherSeen, RelaySeen, WorkerSeen};
pub use durability::Durability;
pub use events::{EventPage, EventPlace};
pub use fan_out::FannedOut;
pub use forecast::{Forecast, GatewayForecast};
pub use gateways::{GatewayAnswer, GatewayChange, GatewayOrder, GatewayStanding, PausedBy};
pub use history::{HistoryEntry, HistoryProof};
pub use hour::Hour;
pub use key_acts::{By, KeyMade, KeyRevoked, KeyRotated, NewApiKey, NextApiKey, Succession};
pub use keys::{ApiKeyEntry, TokenActor};
pub use lineage::{Loss, LossKind, LostCharge};
pub use list::{ListFilter, ListOrder, ListPage, LookUp, MOST_EXAMINED, Place, Span};
#[cfg(any(test, feature = "simulation"))]
pub use memory::{AttemptRow, Fault, Memory, Verb};
pub use migrate::{MigrationPlan, migrate, migration_plan};
pub use parked::{ParkedEntry, ParkedFilter, ParkedPage, ParkedView};
pub use port::*;
pub use postgres::Postgres;
pub use proof::*;
pub use publish::{HistoryPlace, Lane, PublisherLease, Snapshot, Unpublished, UnpublishedBatch};
pub use pulse::{Minute, Pulse, Summed};
pub use quarantine::{
    EnterAnswer, Insists, Lack, LackKind, LossOnRecord, Quarantine, QuarantineRelease, QuarantineView,
    ReleaseAnswer, ReleaseAsk, ReleaseTerms,
};
pub use rebuild::{OpenPlace, StillParked, Unnoticed};
pub use recent_calls::CallsSeen;
pub use reconcile::*;
pub use reconcile_compare::Forgotten;
pub use reconcile_withdraw::{WithdrawAnswer, WithdrawOrder};
pub use records::*;
pub use refund_resolve::{NewRefundWord, RefundClosed, RefundWordAsked};
pub use refund_work::{AnsweredRefund, ClaimedRefund, RefundAnswer, RefundOrder, RefundSettled};
pub use refunds::{NewRefund, Refund, RefundAsked};
pub use release::{Redrive, Released, Resolve};
pub use replay::{BadPlace, ReplayBatch, ReplayBound, ReplayPlace, ReplaySpan};
pub use reveal::Secrets;
pub use search::{
    FoundPayment, MOST_COUNTED, MOST_SEARCHED, Matches, ParkedCount, Search, SearchOrder, SearchPage,
};
pub use states::PaymentState;
pub use switches::{SwitchAnswer, SwitchOrder, ThrownSwitch};
pub use webhook_endpoints::{
    EndpointAnswer, EndpointChange, EndpointLine, EndpointSwitch, NewWebhookEndpoint, SecretRotated,
    TestAsked, WebhookEndpoint,
};
pub use webhook_log::{
    DeliveryOfPayment, DeliveryPage, DeliveryPlace, ManyResent, Resent, WebhookDelivery, WebhookTry,
};
pub use webhook_notes::{Became, NotedWebhooks, Stops, TryMet};
pub use webhook_standings::WebhookStanding;
pub use webhook_work::{
    OwedEvent, TakenWebhook, TakenWebhooks, WebhookBacklog, WebhookPlace, WebhookReceiver,
};
