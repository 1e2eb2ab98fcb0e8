//! A membership without a broker: the worker's end is the real [`Ring`], the other end is held by
//! whoever plays the group and the thread that polls.
//!
//! Present only in tests and under the feature `simulation`. Nothing waits here and nothing is spawned.

use super::member::{Part, Shared};
use super::{Command, Patience, Ring, RingEvent, Taken};
use crate::bucket::names::Names;
use crate::bucket::offsets::SharedOffsets;
use crate::platform::clock::SharedClock;
use std::sync::{Arc, mpsc as std_mpsc};
use tokio::sync::{mpsc, oneshot};

/// What the worker wants of its membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Nothing new.
    GoOn,
    /// No more records; offsets are committed on.
    StopTaking,
    /// Commit and close.
    Leave,
    /// Its process is gone, without a word.
    Gone,
}

/// The broker's end of a simulated membership.
pub struct Feed {
    /// Takes records to the worker.
    pub records: mpsc::Sender<Taken>,
    shared: Arc<Shared>,
    commands: std_mpsc::Receiver<Command>,
    closed: Option<oneshot::Sender<()>>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

impl Ring {
    /// A member of a group that `Feed` plays, with room for `buffer` records.
    #[must_use]
    pub fn simulated(clock: SharedClock, buffer: usize) -> (Self, Feed) {
        let (records_in, records) = mpsc::channel(buffer.max(1));
        let (events_in, events) = mpsc::unbounded_channel();
        let (commands, ordered) = std_mpsc::channel();
        let (closed_in, closed) = oneshot::channel();
        let shared = Arc::new(Shared::new(Names::new("payments."), clock, events_in, Patience::default()));
        let feed = Feed {
            records: records_in,
            shared: Arc::clone(&shared),
            commands: ordered,
            closed: Some(closed_in),
        };
        (Self { records, events, shared, commands, closed }, feed)
    }
}

impl Feed {
    /// The worker's newest order.
    #[must_use]
    pub fn order(&self) -> Order {
        match self.commands.try_recv() {
            Ok(Command::StopTaking) => Order::StopTaking,
            Ok(Command::Leave) => Order::Leave,
            Err(std_mpsc::TryRecvError::Empty) => Order::GoOn,
            Err(std_mpsc::TryRecvError::Disconnected) => Order::Gone,
        }
    }

    /// The worker has room for what is due only, and minute buckets wait.
    #[must_use]
    pub fn minutes_wait(&self) -> bool {
        self.shared.minutes_wait()
    }

    /// The thread polls.
    pub fn polled(&self) {
        let _gap = self.shared.polls_now();
    }

    /// A broker answers.
    pub fn answered(&self) {
        self.shared.answered(None);
    }

    /// These partitions are ours from now on, and no others.
    pub fn assign(&self, parts: &[Part]) {
        self.shared.assigned(parts);
        self.shared.tell(RingEvent::Assigned(parts.len()));
    }

    /// Everything that was ours is taken away.
    pub fn revoke(&self) {
        let gone = self.shared.revoked();
        self.shared.tell(RingEvent::Revoked(gone));
    }

    /// What is taken and complete.
    #[must_use]
    pub fn offsets(&self) -> SharedOffsets {
        self.shared.offsets.clone()
    }

    /// The client is closed.
    pub fn close(&mut self) {
        // Nobody waits any more if `leave` has given up.
        let _given_up = self.closed.take().map(|closed| closed.send(()));
    }
}
