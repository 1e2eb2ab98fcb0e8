//! Records that lie at the leader and do not come, although nobody holds them back.
//!
//! **Why.** The client library keeps what it knows of a partition for as long as it lives, above all the
//! highest leader epoch that it met. A topic that was deleted and made anew begins at epoch 0: where
//! brokers had been restarted before, the library takes the new leader's word for an old one and never
//! fetches from it, while leader, group and lag reader all look well. Nothing can be told to it; a new client
//! has no such memory. The rule speaks of the effect and not of that cause: there are others.
//!
//! **If this is wrong** and the records were only slow, the member leaves and joins again, and the late scan
//! carries what falls due meanwhile.

use super::member::Part;
use crate::bucket::lag::Report;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Looks of the lag reader, ten seconds apart, at which a record waits before a client is given up: a fetch is
/// answered within a tenth of a second.
const LOOKS: u32 = 3;
/// About ten minutes of them.
const MOST_LOOKS: u32 = 64;

/// How many looks the next client has. What a new client does not mend, such as records in a form that this build
/// cannot read, must not have the group shared out anew every half minute: each time it is waited for twice as
/// long, until a record of that partition has come.
#[derive(Debug, Clone, Default)]
pub struct Patience(Arc<Mutex<Option<Given>>>);

/// A client was given up.
#[derive(Debug, Clone, Copy)]
struct Given {
    because_of: Part,
    looks: u32,
}

impl Patience {
    fn given(&self) -> MutexGuard<'_, Option<Given>> {
        // Replaced whole, so a poisoned one is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looks(&self) -> u32 {
        self.given().map_or(LOOKS, |given| given.looks)
    }

    fn give_up(&self, because_of: Part) {
        let looks = (self.looks() * 2).min(MOST_LOOKS);
        *self.given() = Some(Given { because_of, looks });
    }

    fn restore_if(&self, has_come: impl Fn(Part) -> bool) {
        let mut given = self.given();
        if given.is_some_and(|given| has_come(given.because_of)) {
            *given = None;
        }
    }
}

/// What was unread at every look since one, nothing of it taken.
#[derive(Debug)]
pub(super) struct Unread {
    patience: Patience,
    /// The next offset that we would read, and at how many looks it was seen waiting.
    waits: BTreeMap<Part, (i64, u32)>,
    /// One that had waited too long at the last look; what came after it is not known before the next.
    stuck: Option<Part>,
}

impl Unread {
    pub(super) fn new(patience: Patience) -> Self {
        Self { patience, waits: BTreeMap::new(), stuck: None }
    }

    /// Takes a look in: `fetched` are the partitions that nothing is paused of, `next` the offset that we
    /// would read next, where we have read any.
    pub(super) fn seen(
        &mut self,
        report: &Report,
        fetched: impl Iterator<Item = Part>,
        next: impl Fn(Part) -> Option<i64>,
    ) {
        self.patience.restore_if(|part| next(part).is_some());
        let before = std::mem::take(&mut self.waits);
        let unread = fetched.filter_map(|part| {
            let extent = report.of_part(part)?;
            extent.is_unread(next(part)).then_some((part, next(part).unwrap_or(extent.committed)))
        });
        self.waits = unread
            .map(|(part, next)| {
                let looks = before.get(&part).filter(|(waited, _)| *waited == next).map_or(0, |seen| seen.1);
                (part, (next, looks + 1))
            })
            .collect();
        let (most, was_stuck) = (self.patience.looks(), self.stuck.is_some());
        self.stuck = self.waits.iter().find(|(_, (_, looks))| *looks >= most).map(|(part, _)| *part);
        if let Some(part) = self.stuck.filter(|_| !was_stuck) {
            self.patience.give_up(part);
        }
    }

    /// Somebody held records of these back, or they are another member's now: what was seen says nothing.
    pub(super) fn forget(&mut self, of: impl Fn(Part) -> bool) {
        self.waits.retain(|part, _| !of(*part));
        self.stuck = self.stuck.filter(|part| !of(*part));
    }

    /// A partition that only another client will bring.
    pub(super) fn stuck(&self) -> Option<Part> {
        self.stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::lag::Extent;
    use crate::domain::bucket::Channel;

    const NOW: Part = (Channel::Now, 0);

    fn look(unread: &mut Unread, next: Option<i64>, (committed, end): (i64, i64)) -> Option<Part> {
        let report = Report::of([(NOW, Extent::new(0, Some(committed), end))].into());
        unread.seen(&report, [NOW].into_iter(), |_| next);
        unread.stuck()
    }

    #[test]
    fn what_lies_unread_at_three_looks_is_stuck() {
        let mut unread = Unread::new(Patience::default());
        assert_eq!(look(&mut unread, None, (5, 9)), None);
        assert_eq!(look(&mut unread, None, (5, 12)), None);
        assert_eq!(look(&mut unread, None, (5, 12)), Some(NOW));
    }

    #[test]
    fn a_record_taken_between_two_looks_begins_the_count_anew() {
        let mut unread = Unread::new(Patience::default());
        look(&mut unread, Some(5), (5, 9));
        for next in [6, 7, 7] {
            assert_eq!(look(&mut unread, Some(next), (5, 9)), None);
        }
        assert_eq!(look(&mut unread, Some(7), (5, 9)), Some(NOW));
        assert_eq!(look(&mut unread, Some(8), (5, 9)), None, "it came after all");
    }

    #[test]
    fn what_is_read_to_its_end_or_held_back_never_is() {
        let mut unread = Unread::new(Patience::default());
        for _ in 0..5 {
            assert_eq!(look(&mut unread, Some(9), (5, 9)), None, "read, though not complete");
        }
        look(&mut unread, Some(8), (5, 9));
        look(&mut unread, Some(8), (5, 9));
        unread.seen(&Report::of([(NOW, Extent::new(0, Some(5), 9))].into()), std::iter::empty(), |_| Some(8));
        assert_eq!(look(&mut unread, Some(8), (5, 9)), None, "paused at one look");
        look(&mut unread, Some(8), (5, 9));
        unread.forget(|part| part == NOW);
        assert_eq!(look(&mut unread, Some(8), (5, 9)), None);
    }

    #[test]
    fn each_client_that_mends_nothing_is_waited_for_twice_as_long() {
        let patience = Patience::default();
        let looks_of_a_new_client = || {
            let mut unread = Unread::new(patience.clone());
            (1..).find(|_| look(&mut unread, None, (5, 9)).is_some()).unwrap()
        };
        let looks: Vec<u32> = (0..7).map(|_| looks_of_a_new_client()).collect();
        assert_eq!(looks, [3, 6, 12, 24, 48, 64, 64]);
        assert_eq!(
            look(&mut Unread::new(patience.clone()), Some(6), (5, 9)),
            None,
            "a record of it has come"
        );
        assert_eq!(looks_of_a_new_client(), 3);
    }
}
