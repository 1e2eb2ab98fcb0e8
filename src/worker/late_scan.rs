//! Rows that Kafka did not bring in time, and whose turn it is while there are many of them.
//!
//! **Promises.** Every `late_poll` each gateway's overdue rows are looked for, with slots that no notice
//! wants. A scan that finds as many as it asked for says that older rows wait than any notice held here may
//! be: the gateway is *behind*, and until a scan comes back with fewer, its slots are the scan's alone and
//! it looks again as soon as it has some. Questions about unknown outcomes alone do not make it so: they may
//! take long, and must not keep a payment from its instant. So a backlog goes oldest first (rule R10), over all workers: each
//! scan takes the oldest rows that nobody holds.
//!
//! **Why not by notices.** A worker that comes back to a day's backlog is given it partition by partition,
//! in the order in which Kafka hands them over, and another worker has the rest. Its hold sorts what it
//! has; only the schedule knows what is oldest.
//!
//! If this dies here, the rows are PENDING or UNKNOWN and found by the next scan of anybody.

use super::lane::Lane;
use super::run::{Done, Worker};
use super::step::Late;
use crate::domain::ids::GatewayName;
use crate::domain::lease::Mono;
use crate::schedule::Schedule;
use std::sync::Arc;
use std::time::Duration;

/// Which gateways are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// All of them: it is time.
    All,
    /// Those that are behind.
    Behind,
    /// Those whose time it was while nothing could be claimed.
    Waiting,
}

impl<S: Schedule> Worker<S> {
    /// Starts scans where slots are free.
    pub(super) fn scan_late(&mut self, which: Which) {
        if self.brake.thrown().is_some() {
            return;
        }
        let now = self.clock.mono();
        let kafka_is_up = self.bus.is_up();
        let late_by = if kafka_is_up { self.settings.late_by } else { Duration::ZERO };
        for (name, lane) in &mut self.lanes {
            let is_meant = match which {
                Which::All => true,
                Which::Behind => lane.may_catch_up(now),
                Which::Waiting => lane.scan_waits,
            };
            if lane.scans || !is_meant {
                continue;
            }
            let free = lane.free(now);
            lane.scan_waits = free == 0;
            // Half is left to notices that become due while the scan is asked.
            let spare = if kafka_is_up && !lane.behind { free.div_ceil(2) } else { free };
            let spare = spare.min(self.settings.claim_batch);
            if spare == 0 {
                continue;
            }
            lane.scans = true;
            let (step, permits, name) = (Arc::clone(&lane.step), lane.take(spare, now), name.clone());
            self.steps += 1;
            self.tasks
                .spawn(async move { Done::LateScan(name, spare, step.find_late(late_by, permits).await) });
        }
    }

    /// Carries out what a scan found. Still one of the steps: what was claimed must be sent or given back,
    /// drain or not.
    pub(super) fn found_late(&mut self, name: &GatewayName, asked: usize, late: Late) {
        let now = self.clock.mono();
        let Some(lane) = self.lanes.get_mut(name) else { return };
        lane.scans = false;
        lane.behind = late.len() >= asked && late.has_first_sends();
        lane.claims_at = lane.claims_at.max(Mono(now.0 + super::run::BETWEEN_CLAIMS));
        let step = Arc::clone(&lane.step);
        self.tasks.spawn(async move {
            step.carry_out_late(late).await;
            Done::Step
        });
    }
}

impl<S> Lane<S> {
    /// Older rows wait than any notice may be, and a scan may look for them now.
    fn may_catch_up(&self, now: Mono) -> bool {
        self.behind && !self.scans && now >= self.claims_at
    }

    /// How long until it may; `None` if nothing is to be caught up with, or a step must end before.
    pub(super) fn until_catch_up(&self, now: Mono) -> Option<Duration> {
        if self.behind && !self.scans { self.until_free(now) } else { None }
    }
}
