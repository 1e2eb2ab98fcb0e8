//! One worker's membership of the group: the part that polls, over the bus in memory.
//!
//! It is what the polling thread and the client library do together: tell the worker what is its own,
//! hand out records of open buckets in partition order, commit watermarks, and be put out of the group
//! when nothing was heard of it for a session. It stands still with its host.

use super::host::{Host, HostClock};
use super::kafka::{Kafka, Part};
use super::trace::{Met, Trace};
use crate::bucket::{Feed, Order, Ring, Taken};
use crate::domain::bucket::{Channel, Phase, phase};
use crate::platform::clock::Clock;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// The group hears from a member at least so often.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A member not heard of for so long is put out.
pub(super) const SESSION: Duration = Duration::from_secs(6);

/// What joining needs; one a worker process.
#[derive(Clone)]
pub(super) struct Membership {
    pub(super) kafka: Arc<Kafka>,
    pub(super) host: Arc<Host>,
    pub(super) trace: Trace,
    /// Room for records that the worker has not taken yet.
    pub(super) buffer: usize,
    /// The newest member of this process, so that whoever pauses the host can put it out.
    pub(super) current: Arc<Mutex<Option<u64>>>,
}

impl Membership {
    /// As `worker::Join`.
    pub(super) fn joiner(self) -> Box<dyn FnMut() -> BoxFuture<'static, Result<Ring, String>> + Send> {
        Box::new(move || {
            let membership = self.clone();
            Box::pin(async move {
                membership.host.take(Duration::from_millis(20)).await;
                if membership.kafka.is_silent() {
                    return Err("no broker answers".to_owned());
                }
                let clock = Arc::new(HostClock(Arc::clone(&membership.host)));
                let (ring, feed) = Ring::simulated(clock, membership.buffer);
                let (id, notify) = membership.kafka.join();
                *membership.current.lock().unwrap() = Some(id);
                let member = Member {
                    membership,
                    feed,
                    id,
                    notify,
                    generation: None,
                    positions: BTreeMap::new(),
                    takes: true,
                    committed_at: Duration::ZERO,
                };
                tokio::spawn(member.run());
                Ok(ring)
            })
        })
    }
}

struct Member {
    membership: Membership,
    feed: Feed,
    id: u64,
    notify: Arc<Notify>,
    generation: Option<u64>,
    positions: BTreeMap<Part, usize>,
    takes: bool,
    committed_at: Duration,
}

impl Member {
    async fn run(mut self) {
        let host = Arc::clone(&self.membership.host);
        loop {
            host.pass().await;
            match self.feed.order() {
                Order::GoOn => {}
                Order::StopTaking => self.takes = false,
                Order::Leave => {
                    self.commit();
                    self.membership.kafka.leave(self.id);
                    return self.feed.close();
                }
                Order::Gone => {
                    host.time.sleep(SESSION).await;
                    return self.membership.kafka.leave(self.id);
                }
            }
            self.feed.polled();
            if !self.membership.kafka.is_silent() {
                self.feed.answered();
                self.meet_the_group();
                if self.takes {
                    self.fetch();
                }
                let now = host.time.elapsed();
                if now.saturating_sub(self.committed_at) >= HEARTBEAT {
                    self.committed_at = now;
                    self.commit();
                }
            }
            let pause = self.until_opening().min(HEARTBEAT);
            tokio::select! {
                biased;
                () = self.notify.notified() => {}
                () = self.feed.records.closed() => {}
                () = host.time.sleep(pause) => {}
            }
        }
    }

    /// Takes over what the group says, all of it anew as the range assignor has it.
    fn meet_the_group(&mut self) {
        let kafka = Arc::clone(&self.membership.kafka);
        let told = kafka.generation(self.id);
        if told.is_some() && told == self.generation {
            return;
        }
        if self.generation.is_some() {
            self.commit();
            self.feed.revoke();
            self.positions.clear();
            self.membership.trace.met(Met::Rebalanced, None, self.id);
        }
        if told.is_none() {
            // Put out: it joins again under another name, as the client library does.
            (self.id, self.notify) = kafka.join();
            *self.membership.current.lock().unwrap() = Some(self.id);
        }
        let Some((generation, parts)) = kafka.assignment(self.id) else { return };
        self.positions = parts.iter().map(|part| (*part, kafka.committed(*part))).collect();
        self.feed.assign(&parts);
        self.generation = Some(generation);
    }

    fn fetch(&mut self) {
        let now = self.membership.host.time.wall();
        let offsets = self.feed.offsets();
        for part in self.membership.kafka.unread(&self.positions) {
            if !is_open(part, now) || self.feed.minutes_wait() && part.0 != Channel::Now {
                continue;
            }
            let position = self.positions.entry(part).or_default();
            loop {
                let Ok(place) = self.feed.records.try_reserve() else { return };
                let Some(read) = self.membership.kafka.read(part, *position) else { break };
                let offset = i64::try_from(*position).unwrap();
                *position += 1;
                let taken = offsets.lock().taken(part.0, part.1, offset);
                if let Some(position) = taken {
                    place.send(Taken { position, record: Ok(read), sent_at: None });
                }
            }
        }
    }

    /// Until a closed bucket with something in it opens.
    fn until_opening(&self) -> Duration {
        let now = self.membership.host.time.wall();
        let opens = |part: Part| match part.0 {
            Channel::Now => None,
            Channel::Ring(slot) => match phase(slot, now) {
                Phase::Ahead { opens_at } => (opens_at - now).to_std().ok(),
                Phase::Due | Phase::Tail => None,
            },
        };
        let closed = self.membership.kafka.unread(&self.positions);
        let next = closed.into_iter().filter_map(opens).min().unwrap_or(HEARTBEAT);
        next.max(Duration::from_millis(1))
    }

    fn commit(&mut self) {
        let Some(generation) = self.generation else { return };
        let marks = self.feed.offsets().lock().stored();
        if !marks.is_empty() {
            self.membership.kafka.commit(self.id, generation, &marks);
        }
    }
}

fn is_open(part: Part, now: chrono::DateTime<chrono::Utc>) -> bool {
    match part.0 {
        Channel::Now => true,
        Channel::Ring(slot) => !matches!(phase(slot, now), Phase::Ahead { .. }),
    }
}
