//! The thread that polls. It never waits for work: the group would think us dead.

use super::member::{Member, Shared, tell};
use super::{Command, MAX_POLL_GAP, RingEvent, Taken};
use crate::bucket::notice::decode;
use crate::platform::metrics;
use chrono::DateTime;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use std::collections::VecDeque;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Longest wait for a record: how late a bucket may open or an order be followed.
const POLL: Duration = Duration::from_millis(20);
/// While records wait for room in the channel.
const POLL_FULL: Duration = Duration::from_millis(5);
const TURN_EVERY: Duration = Duration::from_millis(20);
const STORE_EVERY: Duration = Duration::from_millis(200);

struct Poller<'a> {
    consumer: BaseConsumer<Member>,
    shared: &'a Shared,
    out: mpsc::Sender<Taken>,
    /// What did not fit into the channel. Short: everything is paused when the first arrives.
    waiting: VecDeque<Taken>,
    turned_at: Duration,
    stored_at: Duration,
    last_error: Option<String>,
    leaving: bool,
}

/// Polls until told to leave, the ring is dropped or the client ends; then closes the client, which
/// may take as long as it likes: whoever waits for it has a deadline.
pub(super) fn run(
    consumer: BaseConsumer<Member>,
    shared: &Shared,
    out: mpsc::Sender<Taken>,
    commands: &std_mpsc::Receiver<Command>,
) {
    let now = shared.clock().mono().0;
    let mut poller = Poller {
        consumer,
        shared,
        out,
        waiting: VecDeque::new(),
        turned_at: now,
        stored_at: now,
        last_error: None,
        leaving: false,
    };
    loop {
        match commands.try_recv() {
            Ok(Command::StopTaking) => poller.stop_taking(),
            Ok(Command::Leave) | Err(std_mpsc::TryRecvError::Disconnected) => break,
            Err(std_mpsc::TryRecvError::Empty) => {}
        }
        poller.tend();
        if let Err(last) = poller.is_served().and_then(|()| poller.poll()) {
            shared.end(last);
            break;
        }
    }
    shared.store(&poller.consumer);
}

impl Poller<'_> {
    fn stop_taking(&mut self) {
        self.leaving = true;
        self.waiting.clear();
        self.shared.throttle(true);
        tell(self.shared, &self.consumer);
    }

    /// Everything that is due between two polls; each part is short.
    fn tend(&mut self) {
        let gap = self.shared.polls_now();
        metrics::POLL_GAP.record(gap, []);
        if gap > MAX_POLL_GAP {
            // The library says so in its log only; whoever holds records should hear it from us.
            tracing::error!("not polled for {gap:?}: the group has given our partitions away");
            self.shared.tell(RingEvent::Stalled(gap));
        }
        self.hand_out();
        let now = self.shared.clock().mono().0;
        if now.saturating_sub(self.turned_at) >= TURN_EVERY {
            self.turned_at = now;
            tell(self.shared, &self.consumer);
        }
        if now.saturating_sub(self.stored_at) >= STORE_EVERY {
            self.stored_at = now;
            self.shared.store(&self.consumer);
        }
    }

    /// `Err`: the client does not find its group, or does not fetch what lies there; only another client will.
    fn is_served(&self) -> Result<(), RingEvent> {
        if self.shared.is_apart() && !self.leaving {
            return Err(RingEvent::Ended("the brokers answer and the group gives us no part".to_owned()));
        }
        match self.shared.stuck() {
            Some((channel, partition)) if !self.leaving => {
                let topic = self.shared.names.topic(channel);
                Err(RingEvent::Ended(format!("records of {topic}[{partition}] lie unread and do not come")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// `Err`: the last event of this membership.
    fn poll(&mut self) -> Result<(), RingEvent> {
        let wait = if self.waiting.is_empty() { POLL } else { POLL_FULL };
        let taken = match self.consumer.poll(wait) {
            None => return Ok(()),
            Some(Ok(message)) => take(self.shared, &message),
            Some(Err(error)) => return self.judge(&error),
        };
        self.last_error = None;
        if let Some(taken) = taken.filter(|_| !self.leaving) {
            self.waiting.push_back(taken);
            self.hand_out();
        }
        Ok(())
    }

    /// An error that lasts is logged when it begins, not each time it is repeated.
    fn judge(&mut self, error: &KafkaError) -> Result<(), RingEvent> {
        if let KafkaError::MessageConsumptionFatal(code) = error {
            return Err(cannot_go_on(self.shared, *code));
        }
        let said = error.to_string();
        if self.last_error.as_ref() != Some(&said) {
            tracing::warn!(error = said, "Kafka consumer");
            self.last_error = Some(said);
        }
        Ok(())
    }

    /// Passes on what waits; pauses everything when the channel is full and goes on when it is half
    /// empty.
    fn hand_out(&mut self) {
        while let Some(taken) = self.waiting.pop_front() {
            if !self.shared.offsets.is_current(taken.position) {
                continue;
            }
            match self.out.try_send(taken) {
                Ok(()) => {}
                Err(TrySendError::Full(taken)) => {
                    self.waiting.push_front(taken);
                    break;
                }
                // The receiver is gone: we are about to be told to leave.
                Err(TrySendError::Closed(_)) => {}
            }
        }
        let throttled = self.shared.is_throttled();
        let full = !self.waiting.is_empty();
        let half_empty = self.out.capacity() * 2 >= self.out.max_capacity();
        if full && !throttled {
            self.shared.throttle(true);
            tell(self.shared, &self.consumer);
        } else if throttled && !full && half_empty && !self.leaving {
            self.shared.throttle(false);
            tell(self.shared, &self.consumer);
        }
    }
}

/// A broker that stood still for a session has our own questions in its queue: it takes the first one's
/// answer for another process, and shuts out the one that we now are. Only a fence from a group that had
/// not been silent says that somebody else has our name.
fn cannot_go_on(shared: &Shared, code: RDKafkaErrorCode) -> RingEvent {
    if code == RDKafkaErrorCode::FencedInstanceId && !shared.lost_lately() {
        RingEvent::Replaced
    } else {
        RingEvent::Ended(code.to_string())
    }
}

/// `None` for a record that is not ours to take.
fn take(shared: &Shared, message: &BorrowedMessage<'_>) -> Option<Taken> {
    let channel = shared.names.channel(message.topic())?;
    let position = shared.offsets.lock().taken(channel, message.partition(), message.offset())?;
    let headers = message.headers();
    let header = |name: &str| headers?.iter().find(|header| header.key == name)?.value;
    let sent_at = message.timestamp().to_millis().and_then(DateTime::from_timestamp_millis);
    Some(Taken { position, record: decode(message.key(), message.payload(), header), sent_at })
}
