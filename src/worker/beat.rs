//! The worker's beat: what it saw of each account goes to the schedule, and what it may do comes back.
//!
//! **Promises.** One beat of an account is on its way at a time; while there is work it is sent a few times a
//! second, else twice, so all workers know of an open breaker within a second. Nothing waits for it: with no
//! answer permits run out, and an account without a rate goes on as last told. A lost beat is told again.
//!
//! **Why the loop** and not a task of its own: it knows what is due, and what a beat brings is for it. **If
//! this dies here**, others hear nothing more from this worker, and share what it had.

use super::gauges;
use super::lane::Lane;
use super::run::{Done, Worker};
use crate::domain::ids::GatewayName;
use crate::domain::lease::Mono;
use crate::domain::pace::{Beat, Breaker, Gate, Grant, SLOTS_FOR};
use crate::platform::metrics;
use crate::schedule::{Schedule, ScheduleError};
use chrono::{DateTime, Utc};
use std::sync::Arc;
use std::time::Duration;

/// Between two beats of an account with a rate or slots to share, while there is work.
const BUSY: Duration = Duration::from_millis(75);
/// The same of an account that shares nothing but its breaker.
const WATCHFUL: Duration = Duration::from_millis(250);
/// Without work.
const IDLE: Duration = Duration::from_millis(500);
/// Even what is urgent waits for company.
const URGENT: Duration = Duration::from_millis(20);
/// What becomes due within this is work already, so that its permits are here in time.
const AHEAD: Duration = Duration::from_millis(300);
/// A beat without an answer for so long is lost, and the next one is sent: a connection whose server is gone
/// may be silent for a quarter of an hour, and the account would have no permits for as long.
const ANSWERED_WITHIN: Duration = SLOTS_FOR;

/// One beat with its answer.
pub(super) struct Beaten {
    gateway: GatewayName,
    told: Beat,
    asked_at: Mono,
    answer: Result<Grant, ScheduleError>,
}

impl<S: Schedule> Worker<S> {
    /// Sends the beats that are due.
    pub(super) fn beat(&mut self) {
        let now = self.clock.mono();
        let names: Vec<_> = self.lanes.keys().cloned().collect();
        for name in names {
            let is_due = |lane: &Lane<S>| !lane.beats && now >= lane.beats_at(self.has_work(&name, lane));
            if !self.lanes.get(&name).is_some_and(is_due) {
                continue;
            }
            let demand = self.demand(&name, now);
            let Some(lane) = self.lanes.get_mut(&name) else { continue };
            lane.beats = true;
            lane.beat_at = now;
            let in_use = lane.in_use();
            let calls = (in_use, in_use + lane.free_slots(now));
            let told = lane.pacer().beat(&lane.step.worker, demand, calls, now);
            let terms = *lane.pacer().terms();
            let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
            self.tasks.spawn(async move {
                let answer = tokio::select! {
                    biased;
                    answer = store.beat_gateway(&name, &terms, &told) => answer,
                    () = clock.sleep(ANSWERED_WITHIN) => Err(ScheduleError::Unavailable("no answer".into())),
                };
                Done::Beat(Box::new(Beaten { gateway: name, told, asked_at: now, answer }))
            });
        }
    }

    /// How many calls could start now, had they the permits.
    fn demand(&self, name: &GatewayName, now: Mono) -> usize {
        let Some(lane) = self.lanes.get(name) else { return 0 };
        // Its slots, used and free: what a common limit leaves of them is the answer's.
        let most = lane.most_free(now);
        if self.brake.thrown().is_some() || most == 0 || lane.pacer().closed().is_some() {
            return 0;
        }
        if lane.behind {
            return most;
        }
        self.hold.due_by(name, self.soon(), most).max(usize::from(lane.scan_waits))
    }

    fn has_work(&self, name: &GatewayName, lane: &Lane<S>) -> bool {
        lane.in_use() > 0 || lane.behind || lane.scan_waits || self.hold.due_by(name, self.soon(), 1) > 0
    }

    fn soon(&self) -> DateTime<Utc> {
        self.clocks.due_now(self.clock.wall()) + AHEAD
    }

    /// How long until the next beat of any account.
    pub(super) fn until_beat(&self, now: Mono) -> Duration {
        let idle = self.lanes.iter().filter(|(_, lane)| !lane.beats);
        let due = idle.map(|(name, lane)| lane.beats_at(self.has_work(name, lane)));
        due.map(|at| at.0.saturating_sub(now.0)).min().unwrap_or(IDLE)
    }

    /// Takes in what came back.
    pub(super) fn beaten(&mut self, beaten: &Beaten) {
        let now = self.clock.mono();
        let Beaten { gateway, told, asked_at, answer } = beaten;
        let Some(lane) = self.lanes.get_mut(gateway) else { return };
        lane.beats = false;
        let grant = match answer {
            Ok(grant) => grant,
            Err(error) => {
                tracing::warn!(%error, %gateway, "a beat did not get through");
                return;
            }
        };
        lane.pacer().answered(told, grant, now);
        // Counted from before the question, like a lease.
        let until = Mono(asked_at.0 + SLOTS_FOR);
        lane.share = grant.slots.map(|slots| (usize::try_from(slots).unwrap_or(usize::MAX), until));
        told_of(gateway, grant, told);
    }
}

impl<S> Lane<S> {
    /// When the next beat is due.
    fn beats_at(&self, has_work: bool) -> Mono {
        let terms = self.pacer().terms();
        let shares = terms.rate > 0 || terms.in_flight > 0;
        let pause = match (self.pacer().is_urgent(), has_work) {
            (true, _) => URGENT,
            (false, true) if shares => BUSY,
            (false, true) => WATCHFUL,
            (false, false) => IDLE,
        };
        Mono(self.beat_at.0 + pause)
    }
}

fn told_of(gateway: &GatewayName, grant: &Grant, told: &Beat) {
    let name = gateway.0.as_str();
    if let Some(breaker) = &grant.became {
        metrics::GATEWAY_BREAKER_CHANGES.add(1, [name, breaker.kind()]);
        match breaker {
            Breaker::Closed => tracing::info!(%gateway, "the breaker closed: the gateway answers"),
            Breaker::Open { until } => {
                let last_failure =
                    told.cause.as_deref().unwrap_or("no call of this worker failed, others' did");
                tracing::error!(%gateway, %until, last_failure, "the breaker opened: nothing of this account is claimed");
            }
            Breaker::Probing { worker, .. } => tracing::info!(%gateway, %worker, "one call finds out"),
        }
    }
    let (breaker, is_paused) = match grant.gate {
        Gate::Open => (0, 0),
        Gate::Paused(_) => (0, 1),
        Gate::Probe => (1, 0),
        Gate::Broken => (2, 0),
    };
    metrics::GATEWAY_BREAKER_STATE.set(f64::from(breaker), [name]);
    metrics::GATEWAY_PAUSED.set(f64::from(is_paused), [name]);
    metrics::GATEWAY_CLOSED.set(f64::from(u8::from(grant.orders.closed.is_some())), [name]);
    metrics::KILL_SWITCHES.set(gauges::whole(grant.orders.switches.len()), []);
    metrics::GATEWAY_RATE.set(f64::from(grant.rate), [name]);
    if let Some(reserved) = grant.charges {
        metrics::GATEWAY_PERMITS.add(reserved.calls.into(), [name, "charge"]);
    }
    if let Some(reserved) = grant.lookups {
        metrics::GATEWAY_PERMITS.add(reserved.calls.into(), [name, "lookup"]);
    }
    if let Some(slots) = grant.slots {
        metrics::GATEWAY_SLOTS.set(gauges::whole(usize::try_from(slots).unwrap_or(usize::MAX)), [name]);
    }
}
