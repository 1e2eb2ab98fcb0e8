//! One gateway account shared by all workers: who may start how many calls, and when.
//!
//! **Promises.** Over any ten seconds no more calls are permitted than the account's rate allows, give or
//! take a twentieth, however many workers ask and whichever of them dies: a permit is a span of time that
//! nobody else is given, so what a dead worker held comes back by time passing. Look-ups have a clock of
//! their own, which charges cannot move; each look-up moves that of the charges, so both together keep the
//! rate. After a 429 the rate is halved, at most once a second, and comes back by a twentieth a second. When
//! at least half of ten or more calls within ten seconds failed, or the account is refused, nothing is
//! permitted but one probe at a time, by one worker.
//!
//! **Relies on** `now` being the database's clock, and on whoever keeps the [`Pace`] taking one [`Beat`]
//! after the other. Pure, so that the simulation and Postgres are paced by the same rules.
//!
//! **Why spans of time and not a number in a bucket**: a bucket has to be filled by somebody, and what was
//! taken from it and never used has to be missed by somebody. **If this dies here**, the last beat stands,
//! and time goes on.

mod breaker;
mod seen;

pub use breaker::{Breaker, Probed};
pub use seen::{Call, Seen, Window};

use super::ids::WorkerName;
use super::switches::Orders;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;
use std::time::Duration;

/// What one beat reserves at most, in microseconds of the rate, shared by those who ask: small, because all of
/// it may start at once, and because a worker may die with it.
const CHUNK_US: i64 = 150_000;
/// What all workers together hold ahead, shared in the same way: so who asks at the wrong moments gets as
/// much as who asks at the right ones.
const AHEAD_US: i64 = 450_000;
/// Time that passed unused is not lost at once: workers are never so punctual that each asks in time.
const CREDIT: TimeDelta = TimeDelta::milliseconds(150);
/// Nothing is reserved that begins later than this from now; only a crowd of workers comes so far.
const HORIZON: TimeDelta = TimeDelta::seconds(5);
/// Nor any question: it is not waited for so long.
const LOOKUPS_AHEAD: TimeDelta = TimeDelta::milliseconds(400);
/// A lane silent for so long wants nothing.
const WANTS_FOR: TimeDelta = TimeDelta::seconds(1);
/// A lane silent for so long has no slots any more; it knows, and starts no calls.
pub const SLOTS_FOR: Duration = Duration::from_secs(5);
/// Between two halvings of the rate.
const HALVED_EVERY: TimeDelta = TimeDelta::seconds(1);
/// Of the configured rate, in thousandths, that come back in a second.
const RECOVERS_PER_SECOND: i64 = 50;
/// The least that is left of the rate, in thousandths.
const LEAST: i64 = 10;
/// The whole rate, in thousandths.
const WHOLE: i64 = 1_000;
/// A 429 that does not say for how long pauses the account for this.
const PAUSE: Duration = Duration::from_secs(1);

/// What is agreed with the account, by configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Calls a second, of all workers together; 0: no limit.
    pub rate: u32,
    /// Per cent of the rate that look-ups are sure of, 1 to 90.
    pub lookup_share: u32,
    /// Calls in flight, of all workers together; 0: no limit.
    pub in_flight: u32,
    /// Longest `Retry-After` obeyed.
    pub longest_pause: Duration,
    /// A probe without an answer for so long is given to another worker.
    pub probe_lease: Duration,
}

/// What one worker says of one account: all of it since its last beat that got through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Who.
    pub worker: WorkerName,
    /// Calls that it could start now, had it the permits.
    pub demand: u32,
    /// Permits for charges beyond those it holds.
    pub wants: u32,
    /// Permits for charges that it holds, and whose time has not passed.
    pub held: u32,
    /// Permits for look-ups that somebody waits for.
    pub lookups: u32,
    /// Calls it has in flight.
    pub in_use: u32,
    /// Calls it may have in flight before it hears the answer.
    pub may_use: u32,
    /// Permits for charges that were not used.
    pub returned: u32,
    /// How calls ended, without the probe.
    pub seen: Seen,
    /// How the probe ended, if it had one.
    pub probe: Option<Probed>,
    /// How the last of its calls that failed did so, for people: nothing that a gateway wrote.
    pub cause: Option<String>,
}

/// A span of time in which so many calls may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// The first instant.
    pub from: DateTime<Utc>,
    /// The end; a little later is too late.
    pub until: DateTime<Utc>,
    /// How many, at least one.
    pub calls: u32,
}

/// Whether calls may start at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// They may, with a permit where there is a rate.
    Open,
    /// The account asked to be left alone until then.
    Paused(DateTime<Utc>),
    /// The breaker is open, or somebody probes.
    Broken,
    /// One call may start: this worker's probe.
    Probe,
}

/// What a worker may do until its next beat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The clock that its instants are of.
    pub now: DateTime<Utc>,
    /// May calls start?
    pub gate: Gate,
    /// Charges; `None` also where there is no rate.
    pub charges: Option<Reserved>,
    /// Look-ups and voids; the same.
    pub lookups: Option<Reserved>,
    /// No call starts while this worker has so many in flight; `None` without a common limit.
    pub slots: Option<u32>,
    /// The rate as it is held now, calls a second; 0: no limit.
    pub rate: u32,
    /// What this beat made of the breaker, if it changed.
    pub became: Option<Breaker>,
    /// What people ordered; whoever keeps the pace adds it.
    pub orders: Orders,
}

/// What is remembered of one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// By the database's clock.
    pub heard_at: DateTime<Utc>,
    /// Calls that it could start.
    pub demand: u32,
    /// Calls that it may have in flight, or has.
    pub slots: u32,
}

/// Everything that is shared of one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// From then on charges are not reserved.
    pub charges_free_at: DateTime<Utc>,
    /// The same of look-ups.
    pub lookups_free_at: DateTime<Utc>,
    /// What was left of the rate then, in thousandths.
    pub throttle: i64,
    /// When it was last halved; it recovers from there.
    pub throttled_at: Option<DateTime<Utc>>,
    /// The account asked for no calls until then.
    pub paused_until: Option<DateTime<Utc>>,
    /// Whether calls make sense.
    pub breaker: Breaker,
    /// Why they do not, in the words of the worker that found out; `None` while they do.
    pub cause: Option<String>,
    /// How often in a row it opened: each time for longer.
    pub trips: u32,
    /// When it closed last.
    pub closed_at: Option<DateTime<Utc>>,
    /// Calls of the last ten seconds, while it is closed.
    pub window: Window,
    /// Workers by name, where something is shared among them.
    pub lanes: BTreeMap<String, Lane>,
}

impl Pace {
    /// Of an account that nobody called yet.
    #[must_use]
    pub fn new(now: DateTime<Utc>) -> Self {
        Self {
            charges_free_at: now,
            lookups_free_at: now,
            throttle: WHOLE,
            throttled_at: None,
            paused_until: None,
            breaker: Breaker::Closed,
            cause: None,
            trips: 0,
            closed_at: None,
            window: Window::default(),
            lanes: BTreeMap::new(),
        }
    }

    /// Takes in what a worker saw, and gives it what it may do. Where nothing is shared and nothing went
    /// wrong, the pace stays as it is: there is nothing to write down.
    pub fn beat(&mut self, terms: &Terms, beat: &Beat, now: DateTime<Utc>) -> Grant {
        let was = self.breaker.clone();
        self.follow_the_clock(terms, now);
        self.take_back(terms, beat.returned, now);
        self.slow_down(terms, &beat.seen, now);
        self.judge(beat, now);
        let others = self.others(beat, now);
        let slots = (terms.in_flight > 0).then(|| share_of_slots(terms, beat, &others));
        let gate = self.gate(terms, beat, slots, now);
        let mut grant = Grant {
            now,
            gate,
            charges: None,
            lookups: None,
            slots,
            rate: self.rate(terms, now),
            became: (self.breaker.kind() != was.kind()).then(|| self.breaker.clone()),
            orders: Orders::default(),
        };
        if terms.rate > 0 && gate == Gate::Open {
            // First, so that the charges yield to them.
            grant.lookups = self.reserve_lookups(terms, beat.lookups, now);
            grant.charges = self.reserve_charges(terms, beat, others.demand, now);
        }
        if terms.rate > 0 || terms.in_flight > 0 {
            // Nobody else's before it ended, or cannot begin any more, whatever the share has become.
            let slots = slots.map_or(0, |slots| slots.max(beat.in_use).max(beat.may_use));
            let lane = Lane { heard_at: now, demand: beat.demand, slots };
            self.lanes.insert(beat.worker.0.clone(), lane);
        }
        grant
    }

    /// The clock may have been set back, or be another database's: what lay ahead of the last beat lies as far
    /// ahead of this one, and nothing is waited for longer than any rule asks. Else the account would stand
    /// still until the clock is again where it was.
    fn follow_the_clock(&mut self, terms: &Terms, now: DateTime<Utc>) {
        let last = self.lanes.values().map(|lane| lane.heard_at).max();
        if let Some(back) = last.map(|last| last - now).filter(|back| *back > TimeDelta::zero()) {
            self.charges_free_at -= back;
            self.lookups_free_at -= back;
            self.lanes.values_mut().for_each(|lane| lane.heard_at -= back);
        }
        self.throttled_at = self.throttled_at.map(|at| at.min(now));
        self.closed_at = self.closed_at.map(|at| at.min(now));
        self.paused_until = self.paused_until.map(|until| until.min(after(now, terms.longest_pause)));
        self.breaker.follow_the_clock(terms, now);
        if self.window.second > now.timestamp() + 1 {
            self.window = Window::default();
        }
    }

    /// The rate as it is held at `now`: calls a second, 0 without a limit.
    fn rate(&self, terms: &Terms, now: DateTime<Utc>) -> u32 {
        self.held_to(terms.rate, now)
    }

    /// Of so many calls a second, what is left of them at `now`; 0 without a limit.
    #[must_use]
    pub fn held_to(&self, rate: u32, now: DateTime<Utc>) -> u32 {
        let held = i64::from(rate) * self.throttle_at(now);
        u32::try_from((held / WHOLE).max(i64::from(rate.min(1)))).unwrap_or(rate)
    }

    /// In thousandths.
    fn throttle_at(&self, now: DateTime<Utc>) -> i64 {
        let since = self.throttled_at.map_or(TimeDelta::MAX, |at| (now - at).max(TimeDelta::zero()));
        let recovered = since.num_milliseconds().saturating_mul(RECOVERS_PER_SECOND) / 1_000;
        self.throttle.saturating_add(recovered).min(WHOLE)
    }

    /// How long so many calls last at `per_cent` of the rate.
    fn span(&self, terms: &Terms, calls: u32, per_cent: u32, now: DateTime<Utc>) -> TimeDelta {
        let thousandths = i64::from(terms.rate) * self.throttle_at(now) * i64::from(per_cent) / 100;
        TimeDelta::microseconds(i64::from(calls) * 1_000_000_000 / thousandths.max(1))
    }

    /// Unused permits are time that others may have; little more than lies ahead, or a worker that could
    /// not send for a while would give everybody a burst.
    fn take_back(&mut self, terms: &Terms, returned: u32, now: DateTime<Utc>) {
        if terms.rate > 0 && returned > 0 {
            let back = self.span(terms, returned, 100, now);
            self.charges_free_at =
                (self.charges_free_at - back).max((now - CREDIT).min(self.charges_free_at));
        }
    }

    fn slow_down(&mut self, terms: &Terms, seen: &Seen, now: DateTime<Utc>) {
        if seen.rate_limited == 0 {
            return;
        }
        let length = seen.retry_after.unwrap_or(PAUSE).min(terms.longest_pause);
        let until = after(now, length);
        self.paused_until = Some(self.paused_until.map_or(until, |before| before.max(until)));
        let is_fresh = self.throttled_at.is_none_or(|at| now - at >= HALVED_EVERY);
        if terms.rate > 0 && is_fresh {
            self.throttle = (self.throttle_at(now) / 2).max(LEAST);
            self.throttled_at = Some(now);
        }
    }

    fn gate(&mut self, terms: &Terms, beat: &Beat, slots: Option<u32>, now: DateTime<Utc>) -> Gate {
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Gate::Paused(until);
        }
        self.paused_until = None;
        if self.breaker == Breaker::Closed {
            return Gate::Open;
        }
        // Who has no slot for it would keep it from those who have.
        let has_slot = slots.is_none_or(|slots| slots > beat.in_use);
        if beat.demand > 0 && has_slot && self.breaker.may_probe(now) {
            let until = after(now, terms.probe_lease);
            self.breaker = Breaker::Probing { worker: beat.worker.clone(), until };
            return Gate::Probe;
        }
        Gate::Broken
    }

    /// The other workers, those that are gone forgotten.
    fn others(&mut self, beat: &Beat, now: DateTime<Utc>) -> Others {
        let gone = now - TimeDelta::from_std(SLOTS_FOR).unwrap_or(TimeDelta::MAX);
        self.lanes.retain(|_, lane| lane.heard_at > gone);
        let others = self.lanes.iter().filter(|(name, _)| **name != beat.worker.0);
        others.fold(Others { demand: 0, slots: 0, without: 0 }, |sum, (_, lane)| {
            let demand = if lane.heard_at > now - WANTS_FOR { lane.demand } else { 0 };
            Others {
                demand: sum.demand + u64::from(demand),
                slots: sum.slots + lane.slots,
                without: sum.without + u32::from(demand > 0 && lane.slots == 0),
            }
        })
    }

    fn reserve_charges(
        &mut self,
        terms: &Terms,
        beat: &Beat,
        others: u64,
        now: DateTime<Utc>,
    ) -> Option<Reserved> {
        if beat.wants == 0 || self.charges_free_at > now + HORIZON {
            return None;
        }
        let demand = u64::from(beat.demand.max(beat.wants));
        // By demand: whoever has ten due is done with its part, and others get the rest.
        let part = |of_us: i64| {
            let whole = of_us * i64::from(terms.rate) * self.throttle_at(now) / 1_000_000_000;
            let part = u64::try_from(whole).unwrap_or(0) * demand / (demand + others);
            u32::try_from(part).unwrap_or(u32::MAX).max(1)
        };
        let calls = beat.wants.min(part(CHUNK_US)).min(part(AHEAD_US).saturating_sub(beat.held));
        if calls == 0 {
            return None;
        }
        let from = self.charges_free_at.max(now - CREDIT);
        let until = from + self.span(terms, calls, 100, now);
        self.charges_free_at = until;
        Some(Reserved { from: from.max(now), until: until.max(now), calls })
    }

    fn reserve_lookups(&mut self, terms: &Terms, wants: u32, now: DateTime<Utc>) -> Option<Reserved> {
        if wants == 0 || self.lookups_free_at > now + LOOKUPS_AHEAD {
            return None;
        }
        let share = i64::from(terms.lookup_share);
        let whole = CHUNK_US * i64::from(terms.rate) * self.throttle_at(now) * share / 100_000_000_000;
        let calls = wants.min(u32::try_from(whole).unwrap_or(u32::MAX).max(1));
        let from = self.lookups_free_at.max(now);
        let until = from + self.span(terms, calls, terms.lookup_share, now);
        self.lookups_free_at = until;
        self.charges_free_at = self.charges_free_at.max(now - CREDIT) + self.span(terms, calls, 100, now);
        Some(Reserved { from, until, calls })
    }
}

/// What the others have and want.
struct Others {
    demand: u64,
    slots: u32,
    /// Workers that want slots and have none.
    without: u32,
}

/// By need, never more than the others leave, and with one left to each of them that wants some and has none.
/// It may be less than what is in flight, which then ends without a successor: an account in full use would
/// else be its first worker's for good.
fn share_of_slots(terms: &Terms, beat: &Beat, others: &Others) -> u32 {
    let need = u64::from(beat.demand) + u64::from(beat.in_use);
    let all = need + others.demand + u64::from(others.slots);
    let fair = (u64::from(terms.in_flight) * need).div_ceil(all.max(1));
    let left = terms.in_flight.saturating_sub(others.slots);
    // Of fewer slots than workers one is kept, or nobody would have any.
    let ours = left.saturating_sub(others.without).max(left.min(1));
    u32::try_from(fair.min(need)).unwrap_or(u32::MAX).min(ours)
}

/// So much later; a length that the calendar cannot hold is none.
fn after(now: DateTime<Utc>, length: Duration) -> DateTime<Utc> {
    now + TimeDelta::from_std(length).unwrap_or(TimeDelta::zero())
}

#[cfg(test)]
#[path = "pace/tests.rs"]
mod tests;
