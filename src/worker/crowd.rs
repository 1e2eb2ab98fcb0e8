//! A hold that fills up must not keep those waiting who could be paid.
//!
//! **Promises.** Before the hold is full, the minute buckets wait and `now` alone is read, so a payment that
//! was made a moment ago does not stand behind a crowded minute. Where several gateways share the hold, the
//! due notices that a gateway which stands still has beyond its share are *shed*: left to the late scan, which
//! owns their rows as soon as the schedule confirms it (rule R11). One that takes what comes sheds nothing,
//! unless the hold is full and no other is slower. Notices of a gateway that this worker does not serve
//! are shed as soon as they are due: another worker's late scan pays them.
//!
//! **Relies on** the rows: what is shed is PENDING or UNKNOWN, due and durable, or comes back to the hold.
//! One statement at a time, so beyond the hold's bound there is one batch at most.
//!
//! **Why not a hold a gateway.** Records of all gateways share a partition, and what is not taken from it
//! stands before everything behind it.
//!
//! **If this dies here**, nothing was complete, and Kafka brings the records again.

use super::bus::Bus;
use super::run::{DEFER_BATCH, Done, Worker};
use crate::schedule::Schedule;
use chrono::TimeDelta;
use std::sync::Arc;

/// A gateway that keeps a due notice waiting for so long, here, takes less than comes.
const STANDS_STILL: TimeDelta = TimeDelta::seconds(1);

/// How full the hold is, and what is done about it.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    minutes_wait: bool,
    sheds: bool,
}

impl<S: Schedule> Worker<S> {
    /// Done at every turn: nothing of it waits.
    pub(super) fn relieve(&mut self) {
        self.crowd.minutes_wait = match self.crowd.minutes_wait {
            true => !self.hold.is_airy(),
            false => self.hold.is_crowded(),
        };
        if let Bus::Joined(ring) = &self.bus {
            ring.let_minutes_wait(self.crowd.minutes_wait);
        }
        if self.crowd.sheds {
            return;
        }
        let Self { hold, lanes, clocks, clock, crowd, .. } = self;
        let now = clocks.due_now(clock.wall());
        let share = if crowd.minutes_wait { hold.share(lanes.len()) } else { usize::MAX };
        let slowest = hold.slowest(now, share);
        let is_full = !hold.has_room();
        let slow = slowest.filter(|(_, waited)| is_full || *waited >= STANDS_STILL).map(|(name, _)| name);
        let shed = hold.shed(now, DEFER_BATCH, |gateway| match (lanes.contains_key(gateway), &slow) {
            (false, _) => 0,
            (true, Some(slow)) if slow == gateway => share,
            (true, _) => usize::MAX,
        });
        // Which lane asks does not matter: `defer` is about rows, not about gateways.
        let (Some(lane), false) = (lanes.values().next(), shed.is_empty()) else { return };
        let step = Arc::clone(&lane.step);
        crowd.sheds = true;
        self.steps += 1;
        self.tasks.spawn(async move {
            step.defer(shed).await;
            Done::Shed
        });
    }

    pub(super) fn shed_is_over(&mut self) {
        self.crowd.sheds = false;
        self.steps -= 1;
    }
}
