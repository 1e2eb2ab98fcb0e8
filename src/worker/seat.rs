//! A slot at the gateway and the right to call it, taken before the claim and given back when the outcome is
//! durable.
//!
//! **Promises.** No more payments of a gateway are between claim and settle than it has slots, so
//! that every claimed row is sent at once and nothing in the worker grows with the load. **Why until
//! the settle**, not only for the call: while the database is down, slots stay taken and no claim is
//! tried for nothing. If this dies here, the process died.

use super::permits::Ticket;
use super::place::Record;
use crate::platform::trace::Span;
use tokio::sync::OwnedSemaphorePermit;

/// One of the gateway's slots with its ticket; `None` where nobody counts them.
pub type Permit = Option<Slot>;

/// Given back by dropping.
#[derive(Debug)]
pub struct Slot {
    _held: OwnedSemaphorePermit,
    ticket: Option<Ticket>,
}

impl Slot {
    pub(super) fn new(held: OwnedSemaphorePermit, ticket: Ticket) -> Self {
        Self { _held: held, ticket: Some(ticket) }
    }
}

/// What waits for one claim's outcome: the record that led to it, if one did, and the slot.
#[derive(Debug)]
pub struct Seat {
    /// The late scan's claims have none.
    pub record: Option<Record>,
    /// Given back by dropping.
    pub permit: Permit,
    /// The attempt's trace.
    pub(super) span: Span,
}

impl Seat {
    /// Of a claim that nobody has sent yet.
    pub(super) fn new(record: Option<Record>, permit: Permit) -> Self {
        Self { record, permit, span: Span::default() }
    }

    /// The right to call; its place is the call, not the wait for the settle.
    pub(super) fn ticket(&mut self) -> Option<Ticket> {
        self.permit.as_mut().and_then(|slot| slot.ticket.take())
    }
}
