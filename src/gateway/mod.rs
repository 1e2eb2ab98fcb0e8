//! Stage 6, the outside that moves money: one trait, one profile a gateway.
//!
//! **Promises**: a claim is turned into at most one money-moving request and exactly one verdict;
//! what cannot be known is called unknown. **Relies on** the gateway's idempotency key for the money
//! and on the claim's fence for our row. **Why one trait**: the rules on keys, epochs and proofs are
//! the same for every gateway and read its [`Profile`] instead of knowing its name.

mod classify;
mod connect;
mod declines;
mod gated_body;
mod http;
mod port;
mod refunds;
mod settlement;

pub use connect::{GatewayConfigError, connect, host_and_port};
pub use declines::{FINAL_ADVICE, TABLE as DECLINE_TABLE, class as decline_class, may_retry};
pub use http::{HttpGateway, RENDERER};
pub use port::*;
pub use settlement::{Fetched, NotFetched, Settlements};
