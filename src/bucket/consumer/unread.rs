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
use std::time::Duration;

/// Seen by three looks of the lag reader: a fetch is answered within a tenth of a second.
const TOO_LONG: Duration = Duration::from_secs(15);

/// What was unread at every look since an instant, nothing of it taken.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// The next offset that we would read, and when it was first seen waiting.
    since: BTreeMap<Part, (i64, Duration)>,
    /// One that had waited too long at the last look; what came after it is not known before the next.
    stuck: Option<Part>,
}

impl Unread {
    /// Takes a look in: `fetched` are the partitions that nothing is paused of, `next` the offset that we
    /// would read next, where we have read any.
    pub(super) fn seen(
        &mut self,
        report: &Report,
        fetched: impl Iterator<Item = Part>,
        next: impl Fn(Part) -> Option<i64>,
        now: Duration,
    ) {
        let before = std::mem::take(&mut self.since);
        self.since = fetched
            .filter_map(|part| {
                let (committed, end) = report.of_part(part)?;
                let next = next(part).unwrap_or(committed);
                let since =
                    before.get(&part).filter(|(waited, _)| *waited == next).map_or(now, |seen| seen.1);
                (next < end).then_some((part, (next, since)))
            })
            .collect();
        let mut waiting = self.since.iter();
        let stuck = waiting.find(|(_, (_, since))| now.saturating_sub(*since) >= TOO_LONG);
        self.stuck = stuck.map(|(part, _)| *part);
    }

    /// Somebody held records back, or they are another member's now: what was seen says nothing.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// A partition that only another client will bring.
    pub(super) fn stuck(&self) -> Option<Part> {
        self.stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::bucket::Channel;

    const NOW: Part = (Channel::Now, 0);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn look(unread: &mut Unread, at_s: u64, next: Option<i64>, (committed, end): (i64, i64)) {
        let report = Report::of([(NOW, (committed, end))].into());
        unread.seen(&report, [NOW].into_iter(), |_| next, seconds(at_s));
    }

    #[test]
    fn what_lies_unread_for_three_looks_is_stuck() {
        let mut unread = Unread::default();
        look(&mut unread, 0, None, (5, 9));
        look(&mut unread, 10, None, (5, 12));
        assert_eq!(unread.stuck(), None);
        look(&mut unread, 20, None, (5, 12));
        assert_eq!(unread.stuck(), Some(NOW));
    }

    #[test]
    fn a_record_taken_between_two_looks_begins_the_wait_anew() {
        let mut unread = Unread::default();
        look(&mut unread, 0, Some(5), (5, 9));
        look(&mut unread, 10, Some(6), (5, 9));
        look(&mut unread, 20, Some(6), (5, 9));
        assert_eq!(unread.stuck(), None);
        look(&mut unread, 25, Some(6), (5, 9));
        assert_eq!(unread.stuck(), Some(NOW));
        look(&mut unread, 26, Some(7), (5, 9));
        assert_eq!(unread.stuck(), None, "it came after all");
    }

    #[test]
    fn what_is_read_to_its_end_or_held_back_never_is() {
        let mut unread = Unread::default();
        for at_s in [0, 10, 20, 30] {
            look(&mut unread, at_s, Some(9), (5, 9));
            assert_eq!(unread.stuck(), None, "read, though not complete");
        }
        look(&mut unread, 40, Some(8), (5, 9));
        unread.seen(&Report::of([(NOW, (5, 9))].into()), std::iter::empty(), |_| Some(8), seconds(50));
        look(&mut unread, 60, Some(8), (5, 9));
        assert_eq!(unread.stuck(), None, "paused at one look");
        unread.forget();
        look(&mut unread, 80, Some(8), (5, 9));
        assert_eq!(unread.stuck(), None);
    }
}
