//! Stage 2, the truth: the only folder with SQL and transactions; one verb is one transaction.

mod port;
mod postgres;
mod proof;
mod records;

pub use port::*;
pub use postgres::Postgres;
pub use proof::*;
pub use records::*;
