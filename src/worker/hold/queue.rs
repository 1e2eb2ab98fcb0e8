//! One gateway's part of the hold: in order of time until due, and from then on by lane.
//!
//! **Promises.** Nothing leaves before its instant. While all that is due is taken at once, it leaves
//! oldest first and nothing else is done with it. Once more is due than is taken, the lanes (an actor
//! each, or a few that share a hash) leave in turns, each oldest first, so that one actor's thousands do
//! not stand before another's ten.
//!
//! **Relies on** nothing: pure, as the hold. If this dies here, see the hold.

use super::{Held, Waiting};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound;

/// When it may leave, then the order of arrival.
pub(super) type Place = (DateTime<Utc>, u64);

type InOrder<P> = BTreeMap<Place, Waiting<P>>;

#[derive(Debug)]
pub(super) struct Queue<P> {
    /// Not due, or due and not looked at since.
    waiting: InOrder<P>,
    /// Due, when more was due than was taken. No lane is empty.
    lanes: BTreeMap<i16, InOrder<P>>,
    in_lanes: usize,
    /// Whose turn it was last.
    last_lane: i16,
}

impl<P> Default for Queue<P> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), lanes: BTreeMap::new(), in_lanes: 0, last_lane: i16::MIN }
    }
}

impl<P> Queue<P> {
    pub(super) fn put(&mut self, place: Place, record: Waiting<P>) {
        self.waiting.insert(place, record);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.in_lanes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most `wanted` due records of lanes that are served, in the order of their instants.
    pub(super) fn take_due(
        &mut self,
        now: DateTime<Utc>,
        wanted: usize,
        serves: impl Fn(i16) -> bool,
    ) -> Vec<Held<P>> {
        if self.lanes.is_empty() {
            let due = self.waiting.range(..=(now, u64::MAX)).take(wanted.saturating_add(1));
            let count = due.map_while(|(_, it)| serves(it.lane()).then_some(())).count();
            let rest = self.waiting.iter().nth(count).is_none_or(|(place, _)| place.0 > now);
            if rest && count <= wanted {
                return (0..count).map_while(|_| self.waiting.pop_first()).map(|(_, it)| it.record).collect();
            }
        }
        self.sort_into_lanes(now);
        self.take_in_turns(wanted, serves)
    }

    fn take_in_turns(&mut self, wanted: usize, serves: impl Fn(i16) -> bool) -> Vec<Held<P>> {
        let mut batch = Vec::new();
        while batch.len() < wanted
            && let Some(lane) = self.next_lane(&serves)
            && let Some(first) = self.first_of(lane)
        {
            self.last_lane = lane;
            batch.extend(self.take_from(lane, &first).map(|it| (first, it.record)));
        }
        batch.sort_by_key(|(place, _)| *place);
        batch.into_iter().map(|(_, record)| record).collect()
    }

    fn next_lane(&self, serves: impl Fn(i16) -> bool) -> Option<i16> {
        let behind = self.lanes.range((Bound::Excluded(self.last_lane), Bound::Unbounded));
        let round = self.lanes.range(..=self.last_lane);
        behind.chain(round).map(|(lane, _)| *lane).find(|lane| serves(*lane))
    }

    fn first_of(&self, lane: i16) -> Option<Place> {
        self.lanes.get(&lane)?.first_key_value().map(|(place, _)| *place)
    }

    fn sort_into_lanes(&mut self, now: DateTime<Utc>) {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let (place, record) = first.remove_entry();
            self.in_lanes += 1;
            self.lanes.entry(record.lane()).or_default().insert(place, record);
        }
    }

    fn take_from(&mut self, lane: i16, place: &Place) -> Option<Waiting<P>> {
        let records = self.lanes.get_mut(&lane)?;
        let taken = records.remove(place)?;
        self.in_lanes -= 1;
        if records.is_empty() {
            self.lanes.remove(&lane);
        }
        Some(taken)
    }

    /// Takes out a record by its place.
    pub(super) fn take(&mut self, lane: Option<i16>, place: &Place) -> Option<Waiting<P>> {
        match lane {
            Some(lane) => self.take_from(lane, place),
            None => self.waiting.remove(place),
        }
    }

    /// The next instant at which one of a served lane is due; it may have passed. Of what was not looked at
    /// since it was due, the lane is not asked for: whoever comes then sorts it.
    pub(super) fn next_due(&self, serves: impl Fn(i16) -> bool) -> Option<DateTime<Utc>> {
        let served = self.lanes.iter().filter(|(lane, _)| serves(**lane));
        let due = served.filter_map(|(_, records)| records.first_key_value());
        due.chain(self.waiting.first_key_value()).map(|(place, _)| place.0).min()
    }

    /// How many are due by then; counts to `at_most`.
    pub(super) fn due_by(&self, until: DateTime<Utc>, at_most: usize) -> usize {
        let room = at_most.saturating_sub(self.in_lanes);
        let waiting = self.waiting.range(..=(until, u64::MAX)).take(room).count();
        (self.in_lanes + waiting).min(at_most)
    }

    /// What has been due, and here, since `ripe`: each with where it stands.
    pub(super) fn ripe(&self, ripe: DateTime<Utc>) -> impl Iterator<Item = (Option<i16>, Place)> {
        let lanes = self.lanes.iter().map(|(lane, records)| (Some(*lane), records));
        lanes.chain(std::iter::once((None, &self.waiting))).flat_map(move |(lane, records)| {
            // `ready_at` is never before the place's instant, so nothing beyond `ripe` qualifies.
            let overdue = records.range(..=(ripe, u64::MAX));
            overdue.filter(move |(_, it)| it.ready_at <= ripe).map(move |(place, _)| (lane, *place))
        })
    }

    /// How long the oldest of those that are due has been here and due, if more than `share` are.
    pub(super) fn waits_beyond(&mut self, now: DateTime<Utc>, share: usize) -> Option<TimeDelta> {
        if self.len() <= share {
            return None;
        }
        self.sort_into_lanes(now);
        let firsts = self.lanes.values().filter_map(|records| records.first_key_value());
        let since = firsts.map(|(_, it)| it.ready_at).min().filter(|_| self.in_lanes > share);
        since.map(|since| now - since)
    }

    /// Takes out due records until `share` of them are left, at most `limit`: always the newest of the
    /// lane that has most, so that who floods gives way and who has few keeps them.
    pub(super) fn shed(&mut self, now: DateTime<Utc>, share: usize, limit: usize) -> Vec<Held<P>> {
        self.sort_into_lanes(now);
        let excess = self.in_lanes.saturating_sub(share).min(limit);
        if excess == 0 {
            return Vec::new();
        }
        let mut fullest: BinaryHeap<(usize, i16)> =
            self.lanes.iter().map(|(lane, records)| (records.len(), *lane)).collect();
        let mut gone = Vec::with_capacity(excess);
        while gone.len() < excess
            && let Some((count, lane)) = fullest.pop()
            && let Some(newest) = self.lanes.get(&lane).and_then(|records| records.last_key_value())
        {
            let place = *newest.0;
            gone.extend(self.take_from(lane, &place).map(|it| it.record));
            if count > 1 {
                fullest.push((count - 1, lane));
            }
        }
        gone
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Held<P>) -> bool) {
        self.waiting.retain(|_, it| keep(&it.record));
        for records in self.lanes.values_mut() {
            records.retain(|_, it| keep(&it.record));
        }
        self.lanes.retain(|_, records| !records.is_empty());
        self.in_lanes = self.lanes.values().map(BTreeMap::len).sum();
    }
}
