//! Stage 2, the truth: the only folder with SQL and transactions; one verb is one transaction.

mod port;
mod proof;

pub use port::*;
pub use proof::*;
