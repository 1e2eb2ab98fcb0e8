//! One gateway account as the loop sees it: how many payments may be claimed of it now.
//!
//! **Promises.** No more than it has free slots, of its own and of the share of all workers', and permits.
//! If this dies here, so did the loop.

use super::late_scan::Turns;
use super::pacer::Pacer;
use super::seat::{Permit, Slot};
use super::step::Step;
use crate::domain::lease::Mono;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// One gateway account with its slots.
pub(super) struct Lane<S> {
    pub(super) step: Arc<Step<S>>,
    pub(super) slots: Arc<Semaphore>,
    width: usize,
    /// This worker's share of the slots of all, until then.
    pub(super) share: Option<(usize, Mono)>,
    /// A scan is asked.
    pub(super) scans: bool,
    /// A scan was due and nothing may be claimed: it has what may be first.
    pub(super) scan_waits: bool,
    /// The last scan found all that it asked for: its rows come before any notice.
    pub(super) behind: bool,
    /// The next scan is asked no earlier.
    pub(super) scans_at: Mono,
    /// Who goes next while it is behind.
    pub(super) turns: Turns,
    /// The next batch is claimed no earlier.
    pub(super) claims_at: Mono,
    /// A beat is on its way.
    pub(super) beats: bool,
    /// When the last one was sent.
    pub(super) beat_at: Mono,
}

impl<S> Lane<S> {
    /// A lane with as many slots as the gateway takes calls from one worker, and this process makes.
    pub(super) fn new(step: Step<S>, at_most: usize) -> Self {
        let width = step.gateway.profile().max_in_flight.min(at_most);
        let slots = Arc::new(Semaphore::new(width));
        let zero = Mono(Duration::ZERO);
        Self {
            step: Arc::new(step),
            slots,
            width,
            share: None,
            scans: false,
            scan_waits: false,
            behind: false,
            scans_at: zero,
            turns: Turns::default(),
            claims_at: zero,
            beats: false,
            beat_at: zero,
        }
    }

    pub(super) fn pacer(&self) -> &Arc<Pacer> {
        &self.step.pacer
    }

    /// Claims whose outcome is not durable yet.
    pub(super) fn in_use(&self) -> usize {
        self.width.saturating_sub(self.slots.available_permits())
    }

    /// Slots that nobody uses, permits or not.
    pub(super) fn free_slots(&self, now: Mono) -> usize {
        let shared = self.pacer().terms().in_flight > 0;
        let allowed = match self.share {
            Some((slots, until)) if now < until => slots.min(self.width),
            // Nobody said how many, or others may have them by now.
            Some(_) | None if shared => 0,
            Some(_) | None => self.width,
        };
        allowed.saturating_sub(self.in_use())
    }

    /// Slots that it would use if all workers' share were its alone.
    pub(super) fn most_free(&self, now: Mono) -> usize {
        let shared = self.pacer().terms().in_flight > 0;
        if shared { self.width.saturating_sub(self.in_use()) } else { self.free_slots(now) }
    }

    /// How many may be claimed at `now`.
    pub(super) fn free(&self, now: Mono) -> usize {
        self.free_slots(now).min(self.pacer().available(now))
    }

    /// How many notices may be claimed at `now`.
    pub(super) fn takes(&self, now: Mono, at_most: usize) -> usize {
        if !self.takes_notices() || now < self.claims_at { 0 } else { self.free(now).min(at_most) }
    }

    pub(super) fn take(&self, count: usize, now: Mono) -> Vec<Permit> {
        let held = (0..count).map_while(|_| Arc::clone(&self.slots).try_acquire_owned().ok());
        let tickets = self.pacer().take(count, now);
        held.zip(tickets).map(|(held, ticket)| Some(Slot::new(held, ticket))).collect()
    }

    /// How long until something may be claimed that waits for it; `None` if a beat or the end of a step
    /// must come before.
    pub(super) fn until_free(&self, now: Mono) -> Option<Duration> {
        let opens_at = if self.free_slots(now) == 0 {
            None
        } else if self.pacer().available(now) > 0 {
            Some(now)
        } else {
            self.pacer().next_at(now)
        };
        opens_at.map(|at| at.max(self.claims_at).0.saturating_sub(now.0))
    }
}
