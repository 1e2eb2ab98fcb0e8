//! Notices wait here for their instant.
//!
//! **Promises.** A notice leaves no earlier than the instant it is held for; within one gateway the
//! oldest leaves first; a gateway that takes nothing never keeps another one's notices waiting; at
//! most `max` notices are held, and whoever feeds it asks [`Hold::has_room`] first.
//!
//! **Relies on** nothing: pure, no clock, no I/O. `now` is a parameter, and so is what a gateway
//! takes at this moment.
//!
//! **Why one ordered map a gateway.** A single queue in due order would let the notices of a closed
//! gateway stand in front of all others. Ordered maps, because ties are broken by arrival and
//! because the simulation must see the same order in every run.
//!
//! **If this dies here** with the process, nothing is lost: no held record is complete, so Kafka
//! brings each of them again, and the rows themselves are PENDING or UNKNOWN and found by the late
//! scan.

use crate::domain::ids::GatewayName;
use crate::domain::notice::Notice;
use chrono::{DateTime, Utc};
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

/// When it may leave, then the order of arrival.
type Place = (DateTime<Utc>, u64);

/// All notices held by one worker.
#[derive(Debug)]
pub struct Hold<P> {
    gateways: BTreeMap<GatewayName, BTreeMap<Place, Waiting<P>>>,
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
        self.gateways.entry(gateway).or_default().insert(place, Waiting { record, ready_at });
    }

    /// Takes out the due notices of one gateway, oldest first, as many as it `takes` now (0 closes
    /// it). Gateways take turns. `None` if nothing is both due and wanted.
    pub fn pop_due(
        &mut self,
        now: DateTime<Utc>,
        takes: impl Fn(&GatewayName) -> usize,
    ) -> Option<(GatewayName, Vec<Held<P>>)> {
        let gateway = self.next_turn(now, &takes)?;
        let wanted = takes(&gateway);
        let waiting = self.gateways.get_mut(&gateway)?;
        let mut batch = Vec::new();
        while batch.len() < wanted
            && let Some(first) = waiting.first_entry()
            && first.key().0 <= now
        {
            batch.push(first.remove().record);
        }
        if waiting.is_empty() {
            self.gateways.remove(&gateway);
        }
        self.len -= batch.len();
        self.last_served = Some(gateway.clone());
        Some((gateway, batch))
    }

    /// The first gateway behind the one served last that has due notices and takes some.
    fn next_turn(&self, now: DateTime<Utc>, takes: &impl Fn(&GatewayName) -> usize) -> Option<GatewayName> {
        let after = self.last_served.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let upto = self.last_served.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let behind = self.gateways.range::<GatewayName, _>((after, Bound::Unbounded));
        // Without a last one the first range was everything, and going round again is harmless.
        let round = self.gateways.range::<GatewayName, _>((Bound::Unbounded, upto));
        behind
            .chain(round)
            .find(|(name, waiting)| {
                waiting.first_key_value().is_some_and(|(place, _)| place.0 <= now) && takes(name) > 0
            })
            .map(|(name, _)| name.clone())
    }

    /// The instant at which the next notice of a gateway that takes any becomes due; it may have
    /// passed already.
    pub fn next_due(&self, takes: impl Fn(&GatewayName) -> usize) -> Option<DateTime<Utc>> {
        self.gateways
            .iter()
            .filter(|(name, _)| takes(name) > 0)
            .filter_map(|(_, waiting)| waiting.first_key_value().map(|(place, _)| place.0))
            .min()
    }

    /// How many notices of a gateway are due by then; counts to `at_most`.
    #[must_use]
    pub fn due_by(&self, gateway: &GatewayName, until: DateTime<Utc>, at_most: usize) -> usize {
        let waiting = self.gateways.get(gateway);
        waiting.map_or(0, |waiting| waiting.range(..=(until, u64::MAX)).take(at_most).count())
    }

    /// Whether any notice, of whatever gateway, is due.
    #[must_use]
    pub fn any_due(&self, now: DateTime<Utc>) -> bool {
        self.next_due(|_| 1).is_some_and(|due| due <= now)
    }

    /// Takes out at most `limit` notices that have been due, here, and not taken for `after`: only
    /// a closed gateway, a kill switch or pacing does that, and the late scan may own them from now
    /// on (rule R11) once the schedule confirms it. Oldest first.
    pub fn deferrable(&mut self, now: DateTime<Utc>, after: Duration, limit: usize) -> Vec<Held<P>> {
        let ripe = now - after;
        let mut found: Vec<(GatewayName, Place)> = Vec::new();
        for (name, waiting) in &self.gateways {
            // `ready_at` is never before the place's instant, so nothing beyond `ripe` qualifies.
            let overdue = waiting.range(..=(ripe, u64::MAX));
            found
                .extend(overdue.filter(|(_, w)| w.ready_at <= ripe).map(|(place, _)| (name.clone(), *place)));
        }
        found.sort_by_key(|(_, place)| *place);
        found.truncate(limit);
        found.iter().filter_map(|(name, place)| self.take(name, place)).collect()
    }

    fn take(&mut self, gateway: &GatewayName, place: &Place) -> Option<Held<P>> {
        let waiting = self.gateways.get_mut(gateway)?;
        let taken = waiting.remove(place)?;
        if waiting.is_empty() {
            self.gateways.remove(gateway);
        }
        self.len -= 1;
        Some(taken.record)
    }

    /// Drops the records whose position `gone` names, because their partition went to another
    /// worker; answers how many. Records without a position stay.
    pub fn drop_revoked(&mut self, gone: impl Fn(&P) -> bool) -> usize {
        let before = self.len;
        for waiting in self.gateways.values_mut() {
            waiting.retain(|_, w| !w.record.position.as_ref().is_some_and(&gone));
        }
        self.gateways.retain(|_, waiting| !waiting.is_empty());
        self.len = self.gateways.values().map(BTreeMap::len).sum();
        before - self.len
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
