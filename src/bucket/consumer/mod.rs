//! The workers' side of the ring: one member of the consumer group.
//!
//! **Promise.** Records of open buckets come out of [`Ring::records`] in partition order, each with
//! the [`Position`] under which it is completed; the offsets of what was completed, and of nothing
//! else, are committed. A bucket whose minute is far is paused at the client. The group hears from
//! us as long as this process runs: the thread that polls never waits for work.
//!
//! **Relies on** its user to drop records whose position is no longer
//! [current](super::Offsets::is_current); [`RingEvent::Revoked`] says when to look.
//!
//! **Why this way.** An explicit list of topics and the `range` assignor spread *each minute* over
//! all workers; a sticky one balances only the total and left whole minutes with one of four.
//! Static membership makes a restart within the session time-out no rebalance at all. All calls of
//! the client library that can block are made on two threads of our own: one polls, one reads lag.
//! Records of all partitions come through one queue and are told apart here, since the library's own
//! partition queues lose wake-ups.
//!
//! **Back-pressure.** When the records' channel is full, every partition is paused and resumed only
//! when the channel is half empty: pausing throws away what the library has fetched ahead, so it
//! must not be done for each record. A worker with little room left lets the minute buckets wait and goes
//! on reading `now`, so that what was made a moment ago does not stand behind a crowded minute.
//!
//! **If this dies here**, the group gives the partitions to others when the session ends; everything
//! that was not complete is read again there and refused or claimed by its row.

mod member;
mod poll;
#[cfg(any(test, feature = "simulation"))]
mod simulated;
mod unread;

use super::connect::{BadSettings, Logged, client};
use super::lag::{self, PartitionLag};
use super::names::Names;
use super::notice::{BadNotice, Read};
use super::offsets::{Position, SharedOffsets};
use crate::platform::clock::SharedClock;
use crate::platform::config::Kafka;
use chrono::{DateTime, Utc};
use member::Member;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use std::fmt;
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

pub(super) use member::{Part, Shared};
#[cfg(any(test, feature = "simulation"))]
pub use simulated::{Feed, Order};
pub use unread::Patience;

/// A member that does not poll for so long is thought dead by its own client.
const MAX_POLL_GAP: Duration = Duration::from_secs(120);

/// A record taken from the ring, read or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Complete this, with proof, when the record is done with.
    pub position: Position,
    /// What it says, or why it cannot be read.
    pub record: Result<Read, BadNotice>,
    /// When it was given to Kafka, as the record says.
    pub sent_at: Option<DateTime<Utc>>,
}

/// What happened to our membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RingEvent {
    /// So many partitions are ours now.
    Assigned(usize),
    /// So many partitions were taken away: drop the records held for them.
    Revoked(usize),
    /// This process did not poll for so long that the group has given us up; it joins again by
    /// itself. Claims made before are judged by their leases.
    Stalled(Duration),
    /// Another process joined under our slot name, and the group follows that one. Nothing more comes.
    /// Stop: who joins again takes the name back, and the two go on taking it from each other. Never said
    /// within a minute of a silent group: then it may have been ourselves.
    Replaced,
    /// The client cannot go on (the group refuses us or gives us no part, or what lies unread does not come). Nothing more comes;
    /// leave and join anew.
    Ended(String),
}

/// How the membership is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// Partitions that are ours.
    pub partitions: usize,
    /// Since the thread that polls was seen alive.
    pub since_poll: Duration,
    /// Since a broker answered us; `None`: never.
    pub since_answer: Option<Duration>,
    /// The group has shared its partitions out and told us our part, though that may be none.
    pub is_assigned: bool,
    /// After [`RingEvent::Ended`] or [`RingEvent::Replaced`].
    pub has_ended: bool,
}

impl Health {
    /// Kafka can be relied on to bring notices: leaders answer, and we are a member that has its part. Otherwise
    /// the late scan must not wait for it.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let answered = self.since_answer.is_some_and(|since| since < lag::SILENT);
        !self.has_ended && self.is_assigned && answered && self.since_poll < lag::SILENT
    }
}

/// How leaving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Offsets are committed and the client is closed.
    Cleanly,
    /// The client did not close in time; its thread was left behind, and the session time-out does
    /// the rest.
    Abandoned,
}

pub(super) enum Command {
    StopTaking,
    Leave,
}

/// A member of the workers' group. Dropping it leaves in the background.
pub struct Ring {
    /// Records of the open buckets.
    pub records: mpsc::Receiver<Taken>,
    /// What happens to the membership; a handful a day.
    pub events: mpsc::UnboundedReceiver<RingEvent>,
    shared: Arc<Shared>,
    commands: std_mpsc::Sender<Command>,
    closed: oneshot::Receiver<()>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("health", &self.health()).finish_non_exhaustive()
    }
}

impl Ring {
    /// Joins the group under the stable name `slot`, or, where that is empty, as a member that the group
    /// forgets as soon as it leaves; with room for `buffer` records that nobody has
    /// taken yet: some thousands, since each pause costs what was fetched ahead and up to a tenth of a
    /// second; `patience` is the same at every joining of one worker. Returns at once; brokers are met in the background.
    ///
    /// # Errors
    /// [`BadSettings`]; an absent broker is not one of them.
    pub fn join(
        kafka: &Kafka,
        slot: &str,
        buffer: usize,
        clock: SharedClock,
        patience: &Patience,
    ) -> Result<Self, BadSettings> {
        let names = Names::new(&kafka.topic_prefix);
        let (records_in, records) = mpsc::channel(buffer.max(1));
        let (events_in, events) = mpsc::unbounded_channel();
        let (nudge, nudged) = std_mpsc::sync_channel(1);
        let (commands, ordered) = std_mpsc::channel();
        let (closed_in, closed) = oneshot::channel();
        let shared = Arc::new(Shared::new(names.clone(), clock, events_in, patience.clone()));

        let observer = observer(kafka)?;
        let member = Member::new(Arc::clone(&shared), nudge);
        let consumer: BaseConsumer<Member> = member_settings(kafka, slot)?.create_with_context(member)?;
        let topics = names.ring();
        consumer.subscribe(&topics.iter().map(String::as_str).collect::<Vec<_>>())?;

        let watched = Arc::clone(&shared);
        let everything = lag::everything(kafka.partitions);
        spawn("ring-lag", move || lag::watch(&observer, &watched, &everything, &nudged))?;
        let polled = Arc::clone(&shared);
        spawn("ring-poll", move || {
            poll::run(consumer, &polled, records_in, &ordered);
            // Nobody waits any more if `leave` has given up.
            let _given_up = closed_in.send(());
        })?;
        Ok(Self { records, events, shared, commands, closed })
    }

    /// What is taken and complete; cheap to clone into the tasks that settle.
    #[must_use]
    pub fn offsets(&self) -> SharedOffsets {
        self.shared.offsets.clone()
    }

    /// How the membership is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.health()
    }

    /// What the lag reader saw last, in order of topic and partition.
    #[must_use]
    pub fn lag(&self) -> Vec<PartitionLag> {
        self.shared.lag()
    }

    /// With `on`, what is ahead of its time is left in Kafka: nothing more of the minute buckets is
    /// fetched, and `now` alone is read, within milliseconds. For a reader whose room is nearly full; saying
    /// so again costs nothing.
    pub fn let_minutes_wait(&self, on: bool) {
        self.shared.let_minutes_wait(on);
    }

    /// No further record is fetched; offsets go on being committed. The first half of a shutdown.
    pub fn stop_taking(&self) {
        // Fails only if the thread has ended, and then nothing is fetched either.
        let _ended = self.commands.send(Command::StopTaking);
    }

    /// Commits what is complete and closes the client, at most `within`.
    ///
    /// Under a stable name the group keeps our partitions for us until the session ends, so a restart
    /// disturbs nobody; without one the others have them within seconds.
    pub async fn leave(self, within: Duration) -> Left {
        let Self { records, events, shared, commands, closed } = self;
        let clock = shared.clock();
        // A full channel must not keep the thread from closing.
        drop((records, events));
        let _ended = commands.send(Command::Leave);
        tokio::select! {
            biased;
            _ = closed => Left::Cleanly,
            () = clock.sleep(within) => {
                tracing::error!("the Kafka consumer did not close within {within:?}");
                Left::Abandoned
            }
        }
    }
}

/// Everything that distinguishes a member of the workers' group from another client.
fn member_settings(kafka: &Kafka, slot: &str) -> Result<ClientConfig, BadSettings> {
    let mut settings = client(kafka)?;
    settings
        .set("group.id", &kafka.group)
        .set("partition.assignment.strategy", "range")
        .set("session.timeout.ms", kafka.session_timeout.as_millis().to_string())
        .set("heartbeat.interval.ms", "2000")
        .set("max.poll.interval.ms", MAX_POLL_GAP.as_millis().to_string())
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "false")
        // Commits by itself, but only what we store, and we store only watermarks.
        .set("enable.auto.commit", "true")
        .set("enable.auto.offset.store", "false")
        .set("auto.commit.interval.ms", "1000")
        .set("fetch.wait.max.ms", "100")
        .set("queued.min.messages", "1000")
        .set("queued.max.messages.kbytes", "16384");
    // A name that does not come back would only keep its partitions from the others.
    if !slot.is_empty() {
        settings.set("group.instance.id", slot);
    }
    Ok(settings)
}

/// A client that asks about the group, reads what it is told to, and never joins.
pub(super) fn observer(kafka: &Kafka) -> Result<BaseConsumer<Logged>, BadSettings> {
    Ok(observer_settings(kafka)?.create_with_context(Logged)?)
}

fn observer_settings(kafka: &Kafka) -> Result<ClientConfig, BadSettings> {
    let mut settings = client(kafka)?;
    settings
        .set("group.id", &kafka.group)
        .set("enable.auto.commit", "false")
        .set("allow.auto.create.topics", "false");
    Ok(settings)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), BadSettings> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map(drop).map_err(|error| BadSettings::Refused(format!("no thread: {error}")))
}
