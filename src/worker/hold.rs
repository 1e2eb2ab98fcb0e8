//! Notices wait here for their instant.
//!
//! **Promises.** A notice leaves no earlier than the instant it is held for. While a gateway takes all that
//! is due, the oldest leaves first; while it does not, its lanes (actors) leave in turns, each oldest first.
//! A gateway that takes nothing never keeps another one's notices waiting, neither here nor in Kafka behind
//! a full hold: beyond its share its due ones are *shed*, for the late scan. At most `max` notices are held,
//! each of a few hundred bytes (a gateway's name, the only part of any length, has at most 64), and whoever
//! feeds it asks [`Hold::has_room`] first.
//!
//! **Relies on** nothing: pure, no clock, no I/O. `now` is a parameter, and so is what a gateway
//! takes at this moment.
//!
//! **Why one ordered queue a gateway.** A single one in due order would let the notices of a closed
//! gateway stand in front of all others. Ordered maps, because ties are broken by arrival and
//! because the simulation must see the same order in every run.
//!
//! **If this dies here** with the process, nothing is lost: no held record is complete, so Kafka
//! brings each of them again, and the rows themselves are PENDING or UNKNOWN and found by the late
//! scan.

mod queue;

use crate::domain::ids::GatewayName;
use crate::domain::notice::Notice;
use chrono::{DateTime, TimeDelta, Utc};
use queue::{Place, Queue};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

/// A notice on its way to a claim, with the place its offset is counted at.
///
/// `P` names a record in Kafka. Not `Clone`: a record is in one place only, the hold or one step.
#[derive(Debug, PartialEq, Eq)]
pub struct Held<P> {
    /// What to claim.
    pub notice: Notice,
    /// Where it came from; `None` if no offset waits for it.
    pub position: Option<P>,
}

#[derive(Debug)]
struct Waiting<P> {
    record: Held<P>,
    /// The instant from which only a closed gateway kept it: due, and here.
    ready_at: DateTime<Utc>,
}

impl<P> Waiting<P> {
    fn lane(&self) -> i16 {
        self.record.notice.lane
    }
}

/// All notices held by one worker.
#[derive(Debug)]
pub struct Hold<P> {
    gateways: BTreeMap<GatewayName, Queue<P>>,
    /// Whose turn it was last; the next search starts behind it.
    last_served: Option<GatewayName>,
    arrivals: u64,
    len: usize,
    max: usize,
}

impl<P> Hold<P> {
    /// Holds at most `max` notices.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { gateways: BTreeMap::new(), last_served: None, arrivals: 0, len: 0, max }
    }

    /// How many are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether another record may be taken from Kafka. Records that come back from a step are put
    /// back regardless: they were counted before, and refusing them would lose their offset.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.len < self.max
    }

    /// Whether little room is left: the last eighth is for what is due already or soon, so whoever brings
    /// whole minutes ahead of their time should bring no more.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.len >= self.comfortable()
    }

    /// Whether what was brought to a stop by [`Hold::is_crowded`] may go on. An eighth below, so that it
    /// does not stop and go with each record.
    #[must_use]
    pub fn is_airy(&self) -> bool {
        self.len <= self.comfortable() - self.max / 8
    }

    /// How many of one gateway may be due and wait, where so many gateways share a crowded hold: all but
    /// one of them may stand still, and the last one still has room.
    #[must_use]
    pub fn share(&self, gateways: usize) -> usize {
        if gateways > 1 { self.comfortable() / gateways } else { usize::MAX }
    }

    fn comfortable(&self) -> usize {
        self.max - self.max / 8
    }

    /// Takes a record in until its own `not_before`.
    pub fn put(&mut self, record: Held<P>, now: DateTime<Utc>) {
        let until = record.notice.not_before;
        self.put_until(record, until, now);
    }

    /// Takes a record in until `until`, or its own `not_before` if that is later.
    pub fn put_until(&mut self, record: Held<P>, until: DateTime<Utc>, now: DateTime<Utc>) {
        let until = until.max(record.notice.not_before);
        let place = (until, self.arrivals);
        self.arrivals += 1;
        self.len += 1;
        let ready_at = until.max(now);
        let gateway = record.notice.gateway.clone();
        self.gateways.entry(gateway).or_default().put(place, Waiting { record, ready_at });
    }

    /// Takes out due notices of one gateway, as many as it `takes` now (0 closes it) and only of lanes that
    /// it `serves`: oldest first if that is all of them, else lane by lane. Gateways take turns. `None` if
    /// nothing is both due and wanted.
    pub fn pop_due(
        &mut self,
        now: DateTime<Utc>,
        takes: impl Fn(&GatewayName) -> usize,
        serves: impl Fn(&GatewayName, i16) -> bool,
    ) -> Option<(GatewayName, Vec<Held<P>>)> {
        let mut next = self.gateway_after(self.last_served.as_ref());
        for _ in 0..self.gateways.len() {
            let name = next?;
            let wanted = takes(&name);
            if wanted > 0
                && let Some(queue) = self.gateways.get_mut(&name)
            {
                let batch = queue.take_due(now, wanted, |lane| serves(&name, lane));
                if !batch.is_empty() {
                    self.left(&name, batch.len());
                    self.last_served = Some(name.clone());
                    return Some((name, batch));
                }
            }
            next = self.gateway_after(Some(&name));
        }
        None
    }

    /// The gateway behind this one; the first one behind the last.
    fn gateway_after(&self, name: Option<&GatewayName>) -> Option<GatewayName> {
        let after = name.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.gateways.range::<GatewayName, _>((after, Bound::Unbounded)).next();
        behind.or_else(|| self.gateways.first_key_value()).map(|(name, _)| name.clone())
    }

    /// So many of a gateway left.
    fn left(&mut self, gateway: &GatewayName, count: usize) {
        self.len -= count;
        if self.gateways.get(gateway).is_some_and(Queue::is_empty) {
            self.gateways.remove(gateway);
        }
    }

    /// The instant at which the next notice of a gateway that takes any, and of a lane that it serves,
    /// becomes due; it may have passed already.
    pub fn next_due(
        &self,
        takes: impl Fn(&GatewayName) -> usize,
        serves: impl Fn(&GatewayName, i16) -> bool,
    ) -> Option<DateTime<Utc>> {
        let open = self.gateways.iter().filter(|(name, _)| takes(name) > 0);
        open.filter_map(|(name, queue)| queue.next_due(|lane| serves(name, lane))).min()
    }

    /// How many notices of a gateway are due by then; counts to `at_most`.
    #[must_use]
    pub fn due_by(&self, gateway: &GatewayName, until: DateTime<Utc>, at_most: usize) -> usize {
        self.gateways.get(gateway).map_or(0, |queue| queue.due_by(until, at_most))
    }

    /// Whether any notice, of whatever gateway, is due.
    #[must_use]
    pub fn any_due(&self, now: DateTime<Utc>) -> bool {
        self.next_due(|_| 1, |_, _| true).is_some_and(|due| due <= now)
    }

    /// Takes out at most `limit` notices that have been due, here, and not taken for `after`: only
    /// a closed gateway, a kill switch or pacing does that, and the late scan may own them from now
    /// on (rule R11) once the schedule confirms it. Oldest first.
    pub fn deferrable(&mut self, now: DateTime<Utc>, after: Duration, limit: usize) -> Vec<Held<P>> {
        let ripe = now - after;
        let mut found = Vec::new();
        for (name, queue) in &self.gateways {
            found.extend(queue.ripe(ripe).map(|(lane, place)| (place, name.clone(), lane)));
        }
        found.sort_by_key(|(place, _, _)| *place);
        found.truncate(limit);
        found.iter().filter_map(|(place, name, lane)| self.take(name, *lane, place)).collect()
    }

    fn take(&mut self, gateway: &GatewayName, lane: Option<i16>, place: &Place) -> Option<Held<P>> {
        let taken = self.gateways.get_mut(gateway)?.take(lane, place)?;
        self.left(gateway, 1);
        Some(taken.record)
    }

    /// Of the gateways that have more due notices here than `share` the one that kept one waiting longest,
    /// and how long. It is the slowest of them: one that takes what comes keeps nobody waiting long.
    pub fn slowest(&mut self, now: DateTime<Utc>, share: usize) -> Option<(GatewayName, TimeDelta)> {
        let beyond = self.gateways.iter_mut();
        let beyond = beyond.filter_map(|(name, queue)| Some((queue.waits_beyond(now, share)?, name)));
        beyond.max_by_key(|(waited, _)| *waited).map(|(waited, name)| (name.clone(), waited))
    }

    /// Takes out at most `limit` due notices of gateways that have more of them here than their `share`,
    /// to be left to the late scan. Of each gateway the newest of the actor who has most, so what is left is
    /// what would be served first.
    pub fn shed(
        &mut self,
        now: DateTime<Utc>,
        limit: usize,
        share: impl Fn(&GatewayName) -> usize,
    ) -> Vec<Held<P>> {
        let mut gone = Vec::new();
        for (name, queue) in &mut self.gateways {
            let share = share(name);
            if queue.len() > share && gone.len() < limit {
                gone.extend(queue.shed(now, share, limit - gone.len()));
            }
        }
        self.gateways.retain(|_, queue| !queue.is_empty());
        self.len -= gone.len();
        gone
    }

    /// Drops the records whose position `gone` names, because their partition went to another
    /// worker; answers how many. Records without a position stay.
    pub fn drop_revoked(&mut self, gone: impl Fn(&P) -> bool) -> usize {
        let before = self.len;
        for queue in self.gateways.values_mut() {
            queue.retain(|held| !held.position.as_ref().is_some_and(&gone));
        }
        self.gateways.retain(|_, queue| !queue.is_empty());
        self.len = self.gateways.values().map(Queue::len).sum();
        before - self.len
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
