//! The loop of one worker: it holds notices, and starts steps when they are due and can be sent.
//!
//! **Promises.** It waits for nothing but its own select: database and gateway are waited for in
//! steps, Kafka in threads of its own. It claims no more of a gateway than that has free slots. What
//! Kafka does not bring in time it looks for itself (`late_scan`), at once when Kafka is away. It
//! stops by draining: no new claims, calls in flight end, claims not sent are given back.
//!
//! **Stops by itself** when its own turn comes half a lease late (it was frozen, and cannot judge its
//! leases), when a step panicked, and when another process has its slot name (of two that take it from
//! each other neither would keep its partitions). **Leaves the group** when it has work and finishes none,
//! when its clock is wrong, and when its client does not bring what lies in Kafka.
//!
//! **If this dies here**, see `step`: everything it held is in Kafka and in the database.

use super::beat::Beaten;
use super::brake::Brake;
use super::bus::{self, Bus, FromBus, JOIN_AGAIN, Join, Room};
use super::clock_guard::{Clocks, Sample};
use super::crowd::Crowd;
use super::gauges;
use super::hold::{Held, Hold};
use super::lane::Lane;
use super::late_scan::{Scan, Which};
use super::place::{Place, Record};
use super::progress::Progress;
use super::step::Late;
use super::store::Store;
use super::stuck::{Stuck, Work};
use crate::bucket::{Left, Ring, RingEvent, Taken};
use crate::domain::ids::GatewayName;
use crate::domain::lease::Mono;
use crate::platform::clock::SharedClock;
use crate::platform::{config, metrics};
use crate::schedule::{Refused, Schedule};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

/// The longest the loop sleeps: also its heartbeat.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often the database's clock is asked for, beside the claims that tell it anyway.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
/// The same after a question without an answer.
const SAMPLE_AGAIN: Duration = Duration::from_secs(1);
/// Earliest return to the group after leaving it for a wrong clock. A clock at the edge of what is
/// tolerated must not make the whole group share out its partitions again and again.
const REJOIN_AFTER_CLOCKS: Duration = Duration::from_secs(60);
/// At most fifty claims a second and gateway: a statement costs as much as twenty of its rows, so under
/// load notices wait this long for company, and a lone one for nothing.
pub(super) const BETWEEN_CLAIMS: Duration = Duration::from_millis(20);
/// Most records deferred by one statement.
pub(super) const DEFER_BATCH: usize = 500;
/// Most records taken from Kafka between two looks at everything else.
const TAKE_AT_ONCE: usize = 256;

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped(Drained),
    /// Its turn came too late for it to judge its own leases; the process must start anew.
    Frozen(Drained),
    /// A step panicked, so a record's place is not known any more; the process must start anew.
    Defect(Drained),
    /// Another process has its slot name; to start anew would only take the name back from that one.
    Replaced(Drained),
}

/// The last words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Claims that were open at the stop and have a durable outcome now.
    pub drained: u64,
    /// Claims that have none; the reaper has them asked about.
    pub abandoned: u64,
}

/// What health tells of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// Kafka brings notices; `false` is direct mode.
    pub kafka_is_up: bool,
    /// It has work and slots, and finishes nothing.
    pub is_stuck: bool,
    /// Host and database clock are too far apart.
    pub clocks_apart: bool,
    /// Why nothing is called for now, of each account of which that is so.
    pub closed: BTreeMap<GatewayName, &'static str>,
    /// It is going away.
    pub is_draining: bool,
}

/// What a task of the worker came back with.
pub(super) enum Done {
    Step,
    LateScan(GatewayName, Scan, Late),
    Shed,
    Beat(Box<Beaten>),
    Sampled(Option<Sample>),
    Joined(Box<Result<Ring, String>>),
    Left(Left),
    Kept,
}

/// One worker process's work.
pub struct Worker<S> {
    pub(super) settings: config::Worker,
    pub(super) clock: SharedClock,
    pub(super) store: Arc<dyn Store>,
    pub(super) lanes: BTreeMap<GatewayName, Lane<S>>,
    pub(super) brake: Arc<Brake>,
    pub(super) clocks: Arc<Clocks>,
    pub(super) progress: Arc<Progress>,
    pub(super) again: UnboundedReceiver<(Record, DateTime<Utc>)>,
    pub(super) lost: UnboundedReceiver<(Record, Refused)>,
    pub(super) keeping: usize,
    pub(super) join: Join,
    pub(super) bus: Bus,
    pub(super) hold: Hold<Place>,
    pub(super) crowd: Crowd,
    pub(super) tasks: JoinSet<Done>,
    pub(super) steps: usize,
    pub(super) is_replaced: bool,
    pub(super) stuck: Stuck,
    pub(super) condition: watch::Sender<Condition>,
    pub(super) beat_at: Mono,
    pub(super) tick_at: Mono,
    pub(super) sample_at: Mono,
}

impl<S: Schedule> Worker<S> {
    /// Works until `stop` resolves, or until it must stop itself.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Ended {
        tokio::pin!(stop);
        loop {
            if self.woke_too_late() {
                return Ended::Frozen(self.drain().await);
            }
            if self.is_replaced {
                return Ended::Replaced(self.drain().await);
            }
            self.beat();
            self.scan_late(Which::Waiting);
            // Notices first: the late scan takes the slots that they leave.
            self.dispatch();
            self.tick();
            self.scan_late(Which::Behind);
            self.relieve();
            let pause = self.pause();
            let room = if self.has_room() { Room::Yes } else { Room::No };
            tokio::select! {
                biased;
                () = &mut stop => return Ended::Stopped(self.drain().await),
                Some((record, until)) = self.again.recv() => self.put_back(record, until),
                Some((record, proof)) = self.lost.recv() => self.commits_were_lost(record, proof),
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    if self.finished(done).is_err() {
                        return Ended::Defect(self.drain().await);
                    }
                }
                from_bus = self.bus.next(room) => self.take_in(from_bus),
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Rule R14: between two turns lie a pause and no waiting, so a turn that comes half a lease
    /// late means that this process did not run.
    fn woke_too_late(&mut self) -> bool {
        let now = self.clock.mono();
        let gap = now.0.saturating_sub(self.beat_at.0);
        self.beat_at = now;
        let is_late = gap > LONGEST_PAUSE + self.settings.lease / 2;
        if is_late {
            metrics::HEARTBEATS_LATE.add(1, []);
            tracing::error!(gap_ms = gap.as_millis(), "this process did not run for too long; it stops");
        }
        is_late
    }

    /// Starts steps for what is due, gateway by gateway, as far as slots are free.
    fn dispatch(&mut self) {
        if self.brake.thrown().is_some() {
            return;
        }
        let (now, mono) = (self.clocks.due_now(self.clock.wall()), self.clock.mono());
        loop {
            let Self { hold, lanes, settings, .. } = self;
            let at_most = settings.claim_batch;
            let takes = |name: &GatewayName| lanes.get(name).map_or(0, |lane| lane.takes(mono, at_most));
            let serves = |name: &GatewayName, of: i16| lanes.get(name).is_none_or(|lane| lane.serves(of));
            let Some((gateway, records)) = hold.pop_due(now, takes, serves) else { return };
            // None is taken for a gateway without a lane.
            let Some(lane) = lanes.get_mut(&gateway) else { return };
            // A full batch is worth its statement; after a small one the next waits for company.
            if records.len() < at_most {
                lane.claims_at = Mono(mono.0 + BETWEEN_CLAIMS);
            }
            lane.turns.notices_went();
            let permits = lane.take(records.len(), mono);
            // What was revoked since the hold was swept is another worker's.
            let ours =
                records.into_iter().filter(|held| held.position.as_ref().is_none_or(Place::is_current));
            let batch: Vec<_> = ours.zip(permits).collect();
            if batch.is_empty() {
                continue;
            }
            gauges::waited(&gateway, batch.iter().map(|(record, _)| record), now);
            let step = Arc::clone(&lane.step);
            self.steps += 1;
            self.tasks.spawn(async move {
                step.present(batch).await;
                Done::Step
            });
        }
    }

    /// Until the next notice that could be claimed, or the next tick.
    fn pause(&self) -> Duration {
        let (now, mono) = (self.clocks.due_now(self.clock.wall()), self.clock.mono());
        let until_tick = self.tick_at.0.saturating_sub(mono.0);
        let is_open = self.brake.thrown().is_none();
        let lanes = self.lanes.iter().filter(|(_, lane)| is_open && lane.takes_notices());
        let until_due = lanes.filter_map(|(name, lane)| {
            let until_free = lane.until_free(mono)?;
            let due = self.hold.next_due(|other| usize::from(other == name), |_, of| lane.serves(of))?;
            Some((due - now).to_std().unwrap_or(Duration::ZERO).max(until_free))
        });
        let behind = self.lanes.values().filter(|_| is_open).filter_map(|lane| lane.until_catch_up(mono));
        let soonest = until_due.chain(behind).min().unwrap_or(LONGEST_PAUSE);
        soonest.min(until_tick).min(self.until_beat(mono)).min(LONGEST_PAUSE)
    }

    /// What is done every `late_poll`, whatever else happens.
    fn tick(&mut self) {
        let now = self.clock.mono();
        if now < self.tick_at {
            return;
        }
        self.tick_at = Mono(now.0 + self.settings.late_poll.min(LONGEST_PAUSE));
        // Before the scan takes the free slots that this looks at.
        self.watch_progress(now);
        self.leave_if_clocks_apart();
        self.scan_late(Which::All);
        self.defer();
        self.sample(now);
        self.join_if_away(now);
        let condition = Condition {
            kafka_is_up: self.bus.is_up(),
            is_stuck: self.stuck.is_stuck(),
            clocks_apart: self.brake.is_clocks_apart(),
            closed: self.closed(now),
            is_draining: self.brake.is_draining(),
        };
        bus::tell(&self.condition.borrow(), &condition);
        metrics::KAFKA_UP.set(f64::from(u8::from(condition.kafka_is_up)), []);
        self.condition.send_if_modified(|told| {
            let changed = *told != condition;
            *told = condition;
            changed
        });
        gauges::told(&self.hold, &self.bus);
        for (name, lane) in &self.lanes {
            metrics::GATEWAY_IN_FLIGHT.set(gauges::whole(lane.in_use()), [&name.0]);
        }
    }

    fn closed(&self, now: Mono) -> BTreeMap<GatewayName, &'static str> {
        let lanes = self.lanes.iter();
        lanes.filter_map(|(name, lane)| Some((name.clone(), lane.pacer().closed_because(now)?))).collect()
    }

    /// Rule R11: leaves what a closed gateway held too long to the late scan.
    fn defer(&mut self) {
        let overdue = self.hold.deferrable(self.clock.wall(), self.settings.defer_after, DEFER_BATCH);
        // Which lane asks does not matter: `defer` is about rows, not about gateways.
        let Some(lane) = self.lanes.values().next() else { return };
        if overdue.is_empty() {
            return;
        }
        let step = Arc::clone(&lane.step);
        self.steps += 1;
        self.tasks.spawn(async move {
            step.defer(overdue).await;
            Done::Step
        });
    }

    /// Rule R9: while nothing is claimed, only this tells that the clocks agree again.
    fn sample(&mut self, now: Mono) {
        if now < self.sample_at {
            return;
        }
        self.sample_at = Mono(now.0 + SAMPLE_EVERY);
        let (clock, store) = (Arc::clone(&self.clock), Arc::clone(&self.store));
        self.tasks.spawn(async move {
            let before = clock.wall();
            let answer = store.database_now().await;
            let after = clock.wall();
            Done::Sampled(answer.ok().map(|database| Sample { before, database, after }))
        });
    }

    /// A member that has work and slots and finishes nothing keeps others from its partitions.
    fn watch_progress(&mut self, now: Mono) {
        let soon = self.clock.wall() + LONGEST_PAUSE;
        let has_slots = self.lanes.values().any(|lane| lane.free(now) > 0);
        let waits = has_slots && (self.hold.any_due(soon) || self.progress.unfinished() > 0);
        let work = if waits { Work::Waits } else { Work::None };
        if self.stuck.observe(now, self.progress.finished(), work) {
            tracing::error!("work is due and nothing was finished for too long: leaving the group");
            self.leave(JOIN_AGAIN);
        }
    }

    /// Rule R9: whoever may not claim keeps no notices from those who may.
    fn leave_if_clocks_apart(&mut self) {
        if self.brake.is_clocks_apart() && matches!(self.bus, Bus::Joined(_)) {
            tracing::error!("the clocks are too far apart: leaving the group");
            self.leave(REJOIN_AFTER_CLOCKS);
        }
    }

    /// Goes to direct mode; the records held are read again by whoever gets the partitions.
    fn leave(&mut self, away_for: Duration) {
        let away = Bus::Away { try_at: Some(Mono(self.clock.mono().0 + away_for)) };
        if let Bus::Joined(ring) = std::mem::replace(&mut self.bus, away) {
            self.hold.drop_revoked(|_| true);
            self.tasks.spawn(async move { Done::Left(ring.leave(JOIN_AGAIN).await) });
        }
    }

    fn join_if_away(&mut self, now: Mono) {
        let Bus::Away { try_at } = &mut self.bus else { return };
        let is_fit = !self.stuck.is_stuck() && self.brake.thrown().is_none();
        if try_at.is_some_and(|at| at <= now) && is_fit {
            *try_at = None;
            let joined = (self.join)();
            self.tasks.spawn(async move { Done::Joined(Box::new(joined.await)) });
        }
    }

    fn put_back(&mut self, record: Record, until: DateTime<Utc>) {
        if record.position.as_ref().is_none_or(Place::is_current) {
            self.hold.put_until(record, until, self.clock.wall());
        }
    }

    fn take_in(&mut self, from_bus: FromBus) {
        match from_bus {
            FromBus::Record(taken) => {
                self.taken(taken);
                for _ in 1..TAKE_AT_ONCE {
                    let Some(taken) = self.has_room().then(|| self.bus.record_here()).flatten() else {
                        return;
                    };
                    self.taken(taken);
                }
            }
            FromBus::Event(RingEvent::Assigned(count)) => {
                metrics::KAFKA_REBALANCES.add(1, ["assigned"]);
                tracing::info!(partitions = count, "partitions assigned");
            }
            FromBus::Event(RingEvent::Revoked(count)) => {
                metrics::KAFKA_REBALANCES.add(1, ["revoked"]);
                let dropped = self.hold.drop_revoked(|place| !place.is_current());
                tracing::info!(partitions = count, dropped, "partitions revoked");
            }
            FromBus::Event(RingEvent::Stalled(gap)) => {
                metrics::KAFKA_REBALANCES.add(1, ["lost"]);
                tracing::warn!(gap_ms = gap.as_millis(), "the group had given us up; joining again");
            }
            FromBus::Event(RingEvent::Replaced) => {
                tracing::error!("another process joined under this worker.slot: stopping");
                self.is_replaced = true;
            }
            FromBus::Event(RingEvent::Ended(why)) => {
                tracing::error!(why, "the Kafka client ended: direct mode");
                self.leave(JOIN_AGAIN);
            }
            FromBus::Closed => {
                tracing::error!("the Kafka client is gone: direct mode");
                self.leave(JOIN_AGAIN);
            }
        }
    }

    fn taken(&mut self, taken: Taken) {
        let Bus::Joined(ring) = &self.bus else { return };
        metrics::NOTICES_TAKEN.add(1, []);
        let place = Place::new(taken.position, ring.offsets()).sent(taken.sent_at);
        match taken.record.and_then(|read| self.store.vouch(read)) {
            Ok(read) => {
                if !self.lanes.contains_key(&read.notice.gateway) {
                    tracing::warn!(payment = %read.notice.payment, gateway = %read.notice.gateway, "a notice of a gateway that this worker does not serve");
                }
                let record = Held { notice: read.notice, position: Some(place) };
                self.hold.put(record, self.clock.wall());
            }
            Err(bad) => self.keep_bad(taken.position, place, bad),
        }
    }

    /// Takes in what a task came back with. `Err`: it panicked.
    pub(super) fn finished(&mut self, done: Result<Done, JoinError>) -> Result<(), JoinError> {
        match done {
            Ok(Done::Step) => self.steps -= 1,
            Ok(Done::LateScan(name, scan, late)) => self.found_late(&name, scan, late),
            Ok(Done::Shed) => self.shed_is_over(),
            Ok(Done::Beat(beaten)) => self.beaten(&beaten),
            Ok(Done::Sampled(Some(sample))) => {
                let was_thrown = self.brake.thrown().is_some();
                self.clocks.observe(sample, &self.brake);
                if was_thrown && self.brake.thrown().is_none() {
                    // What waited for this need not wait for the next tick too.
                    self.tick_at = self.clock.mono();
                }
            }
            Ok(Done::Kept) => self.keeping -= 1,
            Ok(Done::Sampled(None)) => self.sample_at = Mono(self.clock.mono().0 + SAMPLE_AGAIN),
            Ok(Done::Joined(joined)) => self.joined(*joined),
            Ok(Done::Left(left)) => tracing::info!(?left, "left the group"),
            Err(panicked) => {
                tracing::error!(error = %panicked, "a task of the worker panicked");
                return Err(panicked);
            }
        }
        Ok(())
    }

    fn joined(&mut self, joined: Result<Ring, String>) {
        match joined {
            Ok(ring) => {
                tracing::info!("joined the ring");
                self.bus = Bus::Joined(ring);
            }
            Err(why) => {
                tracing::warn!(why, "Kafka does not bring notices: direct mode");
                self.bus = Bus::Away { try_at: Some(Mono(self.clock.mono().0 + JOIN_AGAIN)) };
            }
        }
    }
}
