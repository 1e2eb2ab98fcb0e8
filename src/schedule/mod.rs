//! Stage 2, the truth: the only folder with SQL and transactions; one verb is one transaction.
//!
//! **Promises.** What a verb answered is durable. Every move of a payment is one conditional update
//! that states what it relies on, and writes its history row, its attempt and its next due notice in
//! the same statement. **Relies on** nothing but Postgres under READ COMMITTED: whoever locks a row
//! first wins, and every condition is judged again on the newest version of the row.
//!
//! The port ([`Schedule`]) has the verbs that worker, relay and keeper use; [`Postgres`] adds what
//! intake and people need. `sql/` holds the statements, one a file; read `claim.sql` first.
//!
//! If a process dies in here, its transaction rolls back, or has committed and its answer is lost;
//! each verb says how to find out which.

mod claim;
mod connect;
mod create;
mod days;
mod failure;
mod keys;
#[cfg(any(test, feature = "faults"))]
#[allow(missing_docs, clippy::unwrap_used)]
mod memory;
mod outbox;
mod port;
mod postgres;
mod proof;
mod read;
mod records;
mod row;
mod settle;
pub mod statements;
mod watch;

pub use connect::{Access, ConnectError, connect, migrate, migration_plan};
pub use keys::NewApiKey;
#[cfg(any(test, feature = "faults"))]
pub use memory::{AttemptRow, Fault, Memory, Verb};
pub use port::*;
pub use postgres::Postgres;
pub use proof::*;
pub use records::*;
pub use watch::BadRecord;
