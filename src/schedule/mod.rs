//! Stage 2, the truth: the only folder with SQL and transactions; one verb is one transaction.

mod port;
mod postgres;
mod proof;
#[cfg(any(test, feature = "faults"))]
#[allow(missing_docs, clippy::unwrap_used)]
mod memory;
mod records;

#[cfg(any(test, feature = "faults"))]
pub use memory::{AttemptRow, Fault, Memory, Verb};
pub use port::*;
pub use postgres::Postgres;
pub use proof::*;
pub use records::*;
