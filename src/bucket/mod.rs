//! The Kafka edge: the only folder that knows a Kafka client.
//!
//! **Promise.** A notice that the relay was told is published is acknowledged by every in-sync
//! replica; a record handed to the worker keeps its place in the committed offset until a proof of
//! what became of it is given back ([`Offsets::complete`]).
//!
//! **Relies on** nothing that Kafka says being true: a notice is a hint, the row in Postgres
//! decides. Duplicates, reordering, late and forged records and the loss of every topic cost
//! lateness at most.
//!
//! **If Kafka dies here**: the producer reports what was not acknowledged, the consumer hands out
//! nothing, [`Health`] says so, and the worker's late scan carries the work.

pub mod asyncapi;
mod connect;
mod consumer;
mod lag;
mod members;
mod names;
mod notice;
mod offsets;
mod producer;
pub mod dump;
pub mod in_process;
pub mod probe;
pub mod survey;
pub mod tail;
pub mod topics;

pub use connect::BadSettings;
#[cfg(any(test, feature = "simulation"))]
pub use consumer::{Feed, Order};
pub use consumer::{Health, Left, Patience, Ring, RingEvent, Taken};
pub use lag::PartitionLag;
pub use members::{MembersError, members};
pub use names::Names;
pub use notice::{BadNotice, BadNoticeReason, Envelope, Read, decode, value_of};
pub use offsets::{Completed, Offsets, Position, Proof, SharedOffsets, Watermark};
pub use producer::{Delivers, NotAcknowledged, Outgoing, Producer};
