//! The processes of a simulated world: real workers, relays and keepers, each on a machine of its own.
//!
//! A process is a task; a crash drops it at whatever await it stands, with everything in it. One that
//! ends by itself is started again a moment later, under another incarnation, as a supervisor would.

use super::dials::{Chance, Dials, Faults, dice};
use super::host::{Host, HostClock, Line};
use super::kafka::{Kafka, Producer};
use super::member::{Membership, SESSION};
use super::trace::{Met, Trace};
use crate::domain::ids::WorkerName;
use crate::domain::invariants::Invariant;
use crate::gateway::Gateway;
use crate::keeper::{self, Nudge, Reaper, Watch};
use crate::platform::clock::{Clock, SharedClock};
use crate::platform::shutdown::{Shutdown, Trigger};
use crate::relay::{self, Relay, Terms};
use crate::schedule::Memory;
use crate::worker::lab::VirtualTime;
use crate::worker::{Ended, Parts, Worker};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a supervisor waits before it starts a process again.
const RESTART: Duration = Duration::from_millis(700);
/// A relay silent for so long loses its shards.
const SHARD_LEASE: Duration = Duration::from_secs(3);

/// Opens an account at the world's gateway for the process of one machine.
pub(super) type Opening = Box<dyn Fn(&Arc<Host>) -> Arc<dyn Gateway> + Send + Sync>;

/// What all processes of a world share.
pub(super) struct World {
    pub(super) dials: Arc<Dials>,
    pub(super) time: VirtualTime,
    pub(super) trace: Trace,
    pub(super) chance: Arc<Chance>,
    pub(super) faults: Arc<Mutex<Faults>>,
    pub(super) memory: Arc<Memory>,
    /// The account of a process on this machine.
    pub(super) account: Opening,
    pub(super) kafka: Arc<Kafka>,
    /// Longest time on the way to the database or the bus.
    pub(super) latency: Duration,
    /// Room between bus and worker.
    pub(super) buffer: usize,
    pub(super) relay: Terms,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Worker,
    Relay,
    Keeper,
}

/// A process with its machine.
pub(super) struct Node {
    pub(super) kind: Kind,
    number: u64,
    pub(super) host: Arc<Host>,
    member: Arc<Mutex<Option<u64>>>,
    stop: Option<Trigger>,
    task: Option<JoinHandle<()>>,
    incarnation: u64,
}

impl Node {
    pub(super) fn new(world: &World, kind: Kind, number: u64) -> Self {
        let host = Host::new(world.time.clone());
        Self { kind, number, host, member: Arc::default(), stop: None, task: None, incarnation: 0 }
    }

    /// Starts it, in place of what runs.
    pub(super) fn start(&mut self, world: &Arc<World>) {
        self.crash();
        self.incarnation += 1_000;
        let (trigger, shutdown) = Shutdown::manual();
        let process = Process {
            world: Arc::clone(world),
            host: Arc::clone(&self.host),
            member: Arc::clone(&self.member),
            number: self.number,
            shutdown,
        };
        let (kind, first) = (self.kind, self.incarnation);
        self.stop = Some(trigger);
        self.task = Some(tokio::spawn(async move {
            match kind {
                Kind::Worker => process.works(first).await,
                Kind::Relay => process.relays(first).await,
                Kind::Keeper => process.keeps().await,
            }
        }));
    }

    /// It is gone, at whatever await it stands.
    pub(super) fn crash(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// It is asked to stop, and drains.
    pub(super) fn ask_to_stop(&mut self) {
        if let Some(trigger) = &self.stop {
            trigger.stop();
        }
    }

    /// Its machine stands still; the group puts it out if that lasts for a session.
    pub(super) fn pause(&self, world: &World, length: Duration) {
        self.host.pause(length);
        let member = *self.member.lock().unwrap();
        if let (Some(member), true) = (member, length > SESSION) {
            let (kafka, time) = (Arc::clone(&world.kafka), world.time.clone());
            tokio::spawn(async move {
                time.sleep(SESSION).await;
                kafka.leave(member);
            });
        }
    }

    /// A panic in a process is a broken promise, whichever it was about.
    pub(super) async fn end(&mut self, trace: &Trace) {
        let Some(task) = self.task.take() else { return };
        task.abort();
        if let Err(error) = task.await
            && error.is_panic()
        {
            trace.broke(Invariant::L6, None, format!("{:?} {} panicked", self.kind, self.number));
        }
    }
}

/// One incarnation's view of the world.
struct Process {
    world: Arc<World>,
    host: Arc<Host>,
    member: Arc<Mutex<Option<u64>>>,
    number: u64,
    shutdown: Shutdown,
}

impl Process {
    fn clock(&self) -> SharedClock {
        Arc::new(HostClock(Arc::clone(&self.host)))
    }

    fn line(&self) -> Line {
        let world = &self.world;
        Line {
            memory: Arc::clone(&world.memory),
            host: Arc::clone(&self.host),
            chance: Arc::clone(&world.chance),
            trace: world.trace.clone(),
            faults: Arc::clone(&world.faults),
            kafka: Arc::clone(&world.kafka),
            latency: world.latency,
        }
    }

    /// Works until it is asked to stop, starting again whenever it ends by itself.
    async fn works(self, first: u64) {
        for incarnation in first.. {
            let worker = self.worker(incarnation);
            let shutdown = self.shutdown.clone();
            let ended = worker.run(async move { shutdown.wait().await }).await;
            let world = &self.world;
            match ended {
                Ended::Stopped(_) => world.trace.met(Met::WorkerStopped, None, self.number),
                Ended::Frozen(_) => world.trace.met(Met::WorkerFroze, None, self.number),
                // Every worker of this world has a name of its own.
                Ended::Replaced(_) => {
                    world.trace.broke(Invariant::L6, None, format!("worker {} was replaced", self.number));
                }
                Ended::Defect(_) => {
                    world.trace.broke(
                        Invariant::L6,
                        None,
                        format!("a step of worker {} panicked", self.number),
                    );
                }
            }
            if self.shutdown.is_asked() {
                return;
            }
            self.host.take(RESTART).await;
        }
    }

    fn worker(&self, incarnation: u64) -> Worker<Line> {
        let world = &self.world;
        let line = self.line();
        let membership = Membership {
            kafka: Arc::clone(&world.kafka),
            host: Arc::clone(&self.host),
            trace: world.trace.clone(),
            buffer: world.buffer,
            current: Arc::clone(&self.member),
        };
        let (worker, _, _) = Worker::new(Parts {
            settings: world.dials.settings.clone(),
            ladders: world.dials.ladders.clone(),
            name: WorkerName(format!("w{}/{incarnation}", self.number)),
            store: Arc::new(line.clone()),
            schedule: Arc::new(line),
            gateways: vec![(world.account)(&self.host)],
            clock: self.clock(),
            dice: dice(world.dials.seed, self.number, incarnation),
            join: membership.joiner(),
        });
        worker
    }

    async fn relays(self, incarnation: u64) {
        let world = &self.world;
        let relay = Relay {
            holder: format!("r{}/{incarnation}", self.number),
            partitions: world.dials.partitions,
            shard_lease: SHARD_LEASE,
            terms: world.relay,
            clock: self.clock(),
        };
        let producer = Producer {
            kafka: Arc::clone(&world.kafka),
            host: Arc::clone(&self.host),
            chance: Arc::clone(&world.chance),
            faults: Arc::clone(&world.faults),
            latency: world.latency,
        };
        let line = self.line();
        while !self.shutdown.is_asked() {
            // A defect, which no fault here is.
            if let Err(error) = relay::run(&relay, &line, &producer, &self.shutdown).await {
                world.trace.broke(Invariant::L6, None, format!("relay {}: {error}", self.number));
            }
            self.host.take(RESTART).await;
        }
    }

    async fn keeps(self) {
        let settings = &self.world.dials.settings;
        let schedule = Arc::new(self.line());
        let reaper = Reaper { schedule: Arc::clone(&schedule), margin: settings.margin, batch: 20 };
        let watch = Watch { schedule };
        let stop = || {
            let shutdown = self.shutdown.clone();
            async move { shutdown.wait().await }
        };
        let second = Duration::from_secs(1);
        let reaps = keeper::every(reaper, second, Nudge::default(), self.clock(), stop());
        let watches = keeper::every(watch, second * 15, Nudge::default(), self.clock(), stop());
        futures_util::future::join(reaps, watches).await;
    }
}
