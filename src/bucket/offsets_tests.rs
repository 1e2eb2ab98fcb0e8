//! The watermark, case by case and against a slow second opinion.

use super::*;
use crate::domain::bucket::Slot;
use chrono::DateTime;
use proptest::prelude::*;

const AT: Channel = Channel::Now;

fn ours() -> Offsets {
    let mut offsets = Offsets::new();
    offsets.assigned(AT, 0);
    offsets
}

fn take(offsets: &mut Offsets, offset: i64) -> Position {
    offsets.taken(AT, 0, offset).expect("a new record of a partition of ours")
}

fn stored(offsets: &mut Offsets) -> Vec<i64> {
    offsets.stored().into_iter().map(|mark| mark.next_offset).collect()
}

#[test]
fn the_watermark_waits_for_the_oldest_record() {
    let mut offsets = ours();
    let (a, b, c) = (take(&mut offsets, 10), take(&mut offsets, 11), take(&mut offsets, 12));
    assert_eq!(stored(&mut offsets), [10]);
    assert_eq!(offsets.finish(c), Completed::Counted);
    assert_eq!(offsets.finish(b), Completed::Counted);
    assert_eq!(stored(&mut offsets), [] as [i64; 0], "10 is open");
    assert_eq!(offsets.open(), 1);
    assert_eq!(offsets.finish(a), Completed::Counted);
    assert_eq!(stored(&mut offsets), [13]);
    assert_eq!(stored(&mut offsets), [] as [i64; 0], "given out once");
}

#[test]
fn nothing_is_stored_before_a_record_was_read() {
    assert_eq!(stored(&mut ours()), [] as [i64; 0]);
}

#[test]
fn offsets_that_are_missing_in_the_log_do_not_hold_the_watermark() {
    let mut offsets = ours();
    let (a, b) = (take(&mut offsets, 3), take(&mut offsets, 90));
    offsets.finish(a);
    assert_eq!(stored(&mut offsets), [90]);
    offsets.finish(b);
    assert_eq!(stored(&mut offsets), [91]);
}

#[test]
fn a_record_is_complete_once() {
    let mut offsets = ours();
    let (a, b) = (take(&mut offsets, 0), take(&mut offsets, 1));
    assert_eq!(offsets.finish(b), Completed::Counted);
    assert_eq!(offsets.finish(b), Completed::Again);
    assert_eq!(offsets.finish(a), Completed::Counted);
    assert_eq!(offsets.finish(a), Completed::Again, "below the watermark");
}

#[test]
fn a_record_of_an_earlier_assignment_completes_nothing_in_a_later_one() {
    let mut offsets = ours();
    let before = take(&mut offsets, 5);
    offsets.revoked(AT, 0);
    assert!(!offsets.is_current(before));
    assert_eq!(offsets.finish(before), Completed::TakenAway);
    offsets.assigned(AT, 0);
    let after = take(&mut offsets, 5);
    assert_eq!(offsets.finish(before), Completed::TakenAway);
    assert!(!offsets.is_current(before) && offsets.is_current(after));
    assert_eq!(stored(&mut offsets), [5]);
    assert_eq!(offsets.finish(after), Completed::Counted);
    assert_eq!(stored(&mut offsets), [6]);
}

#[test]
fn a_record_that_is_delivered_again_while_it_is_open_is_dropped() {
    let mut offsets = ours();
    let first = take(&mut offsets, 5);
    assert_eq!(offsets.taken(AT, 0, 5), None);
    assert!(offsets.is_current(first));
    assert_eq!(offsets.finish(first), Completed::Counted);
    assert_eq!(stored(&mut offsets), [6]);
}

#[test]
fn a_log_that_was_cut_starts_afresh_and_its_old_records_complete_nothing() {
    let mut offsets = ours();
    let old = take(&mut offsets, 1_000);
    assert_eq!(stored(&mut offsets), [1_000]);
    let new = take(&mut offsets, 0);
    assert_eq!(offsets.finish(old), Completed::TakenAway);
    assert_eq!(stored(&mut offsets), [0]);
    offsets.finish(new);
    assert_eq!(stored(&mut offsets), [1]);
}

#[test]
fn a_record_of_a_partition_that_is_not_ours_is_not_taken() {
    let mut offsets = ours();
    assert_eq!(offsets.taken(AT, 1, 0), None);
    assert_eq!(offsets.taken(Channel::Ring(Slot::of(DateTime::UNIX_EPOCH)), 0, 0), None);
    offsets.revoked(AT, 0);
    assert_eq!(offsets.taken(AT, 0, 0), None);
}

#[derive(Debug, Clone)]
enum Act {
    Take { partition: i32, skip: i64 },
    Finish(usize),
    Revoke(i32),
    Assign(i32),
    Store,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0..2_i32, 0..3_i64).prop_map(|(partition, skip)| Act::Take { partition, skip }),
        6 => (0..64_usize).prop_map(Act::Finish),
        1 => (0..2_i32).prop_map(Act::Revoke),
        1 => (0..2_i32).prop_map(Act::Assign),
        2 => Just(Act::Store),
    ];
    proptest::collection::vec(act, 1..200)
}

/// The rule again, written the slow way: everything taken, and what of it is complete.
#[derive(Default)]
struct Slow {
    ours: bool,
    taken: Vec<(Position, bool)>,
}

impl Slow {
    fn watermark(&self) -> Option<i64> {
        let open = self.taken.iter().find(|(_, complete)| !complete).map(|(at, _)| at.offset());
        open.or_else(|| self.taken.last().map(|(at, _)| at.offset() + 1))
    }
}

proptest! {
    #[test]
    fn the_watermark_never_passes_an_incomplete_record_and_reaches_every_complete_run(acts in acts()) {
        let mut offsets = Offsets::new();
        let mut slow = [Slow::default(), Slow::default()];
        let mut given: [Option<i64>; 2] = [None, None];
        let mut next = [0_i64, 0];
        let mut everything: Vec<Position> = Vec::new();
        for act in acts {
            match act {
                Act::Assign(p) => {
                    offsets.assigned(AT, p);
                    let i = usize::try_from(p).unwrap();
                    // Read again from what was committed.
                    next[i] = given[i].unwrap_or(0);
                    slow[i] = Slow { ours: true, taken: Vec::new() };
                }
                Act::Revoke(p) => {
                    offsets.revoked(AT, p);
                    slow[usize::try_from(p).unwrap()] = Slow::default();
                }
                Act::Take { partition, skip } => {
                    let i = usize::try_from(partition).unwrap();
                    let at = offsets.taken(AT, partition, next[i] + skip);
                    prop_assert_eq!(at.is_some(), slow[i].ours);
                    if let Some(at) = at {
                        next[i] = at.offset() + 1;
                        slow[i].taken.push((at, false));
                        everything.push(at);
                    }
                }
                Act::Finish(n) => {
                    let Some(at) = everything.get(n % everything.len().max(1)).copied() else { continue };
                    let mine = slow[usize::try_from(at.partition()).unwrap()].taken.iter_mut().find(|(p, _)| *p == at);
                    let wanted = match mine {
                        None => Completed::TakenAway,
                        Some((_, true)) => Completed::Again,
                        Some((_, complete)) => { *complete = true; Completed::Counted }
                    };
                    prop_assert_eq!(offsets.finish(at), wanted);
                }
                Act::Store => {
                    for mark in offsets.stored() {
                        let i = usize::try_from(mark.partition).unwrap();
                        given[i] = Some(mark.next_offset);
                        prop_assert_eq!(Some(mark.next_offset), slow[i].watermark());
                    }
                    for (i, slow) in slow.iter().enumerate() {
                        if slow.ours && !slow.taken.is_empty() {
                            prop_assert_eq!(given[i], slow.watermark());
                        }
                    }
                }
            }
        }
    }
}
