//! A slot at the gateway, taken before the claim and given back when the outcome is durable.
//!
//! **Promises.** No more payments of a gateway are between claim and settle than it has slots, so
//! that every claimed row is sent at once and nothing in the worker grows with the load. **Why until
//! the settle**, not only for the call: while the database is down, slots stay taken and no claim is
//! tried for nothing. If this dies here, the process died.

use super::place::Record;
use tokio::sync::OwnedSemaphorePermit;

/// One of the gateway's slots; `None` where nobody counts them.
pub type Permit = Option<OwnedSemaphorePermit>;

/// What waits for one claim's outcome: the record that led to it, if one did, and the slot.
#[derive(Debug)]
pub struct Seat {
    /// The late scan's claims have none.
    pub record: Option<Record>,
    /// Given back by dropping.
    pub permit: Permit,
}
