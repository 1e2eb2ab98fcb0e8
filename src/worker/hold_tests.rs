//! The hold, alone: order, fairness, bounds, and that no record is lost or doubled.

use super::*;
use crate::domain::ids::PaymentId;
use proptest::prelude::*;

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
}

fn record(gateway: &str, second: i64, number: u8) -> Held<u8> {
    let payment = PaymentId::new(at(second), [number; 10]).unwrap();
    let gateway = GatewayName(gateway.into());
    let (due_at, not_before) = (at(second), at(second));
    let notice = Notice { payment, gateway, lane: 0, due_at, not_before, attempt: 0 };
    Held { notice, position: Some(number) }
}

fn pop<P>(
    hold: &mut Hold<P>,
    now: DateTime<Utc>,
    takes: impl Fn(&GatewayName) -> usize,
) -> Option<(GatewayName, Vec<Held<P>>)> {
    hold.pop_due(now, takes, |_, _| true)
}

/// One of an actor's.
fn of_lane(lane: i16, second: i64, number: u8) -> Held<u8> {
    let mut record = record("a", second, number);
    record.notice.lane = lane;
    record
}

fn positions(batch: &[Held<u8>]) -> Vec<u8> {
    batch.iter().filter_map(|held| held.position).collect()
}

#[test]
fn nothing_leaves_before_its_instant() {
    let mut hold = Hold::new(10);
    hold.put(record("a", 5, 1), at(0));
    assert_eq!(pop(&mut hold, at(4), |_| 10), None);
    assert_eq!(positions(&pop(&mut hold, at(5), |_| 10).unwrap().1), [1]);
    assert!(hold.is_empty());
}

#[test]
fn a_later_until_wins_over_not_before_and_an_earlier_one_does_not() {
    let mut hold = Hold::new(10);
    hold.put_until(record("a", 5, 1), at(9), at(0));
    hold.put_until(record("a", 5, 2), at(1), at(0));
    assert_eq!(positions(&pop(&mut hold, at(8), |_| 10).unwrap().1), [2]);
    assert_eq!(positions(&pop(&mut hold, at(9), |_| 10).unwrap().1), [1]);
}

#[test]
fn the_oldest_leaves_first_and_arrival_breaks_a_tie() {
    let mut hold = Hold::new(10);
    for (second, number) in [(3, 1), (1, 2), (3, 3), (2, 4)] {
        hold.put(record("a", second, number), at(0));
    }
    assert_eq!(positions(&pop(&mut hold, at(9), |_| 3).unwrap().1), [2, 4, 1]);
    assert_eq!(positions(&pop(&mut hold, at(9), |_| 3).unwrap().1), [3]);
}

#[test]
fn a_closed_gateway_does_not_keep_another_waiting() {
    let mut hold = Hold::new(10);
    hold.put(record("closed", 0, 1), at(0));
    hold.put(record("open", 1, 2), at(0));
    let takes = |name: &GatewayName| if name.0 == "open" { 5 } else { 0 };
    assert_eq!(positions(&pop(&mut hold, at(2), takes).unwrap().1), [2]);
    assert_eq!(pop(&mut hold, at(2), takes), None);
    assert_eq!(hold.next_due(takes, |_, _| true), None);
    assert!(hold.any_due(at(2)));
}

#[test]
fn gateways_take_turns() {
    let mut hold = Hold::new(100);
    for number in 0..4 {
        hold.put(record("a", 0, number), at(0));
        hold.put(record("b", 0, 10 + number), at(0));
        hold.put(record("c", 0, 20 + number), at(0));
    }
    let order: Vec<String> = (0..6).map(|_| pop(&mut hold, at(1), |_| 1).unwrap().0.0).collect();
    assert_eq!(order, ["a", "b", "c", "a", "b", "c"]);
}

#[test]
fn a_record_is_deferrable_only_after_it_was_due_and_here_for_so_long() {
    let minute = Duration::from_secs(60);
    let mut hold = Hold::new(10);
    hold.put(record("a", 0, 1), at(0));
    // Long overdue when it came, so its minute starts at its arrival.
    hold.put(record("a", -500, 2), at(30));
    assert!(hold.deferrable(at(59), minute, 10).is_empty());
    assert_eq!(positions(&hold.deferrable(at(60), minute, 10)), [1]);
    assert_eq!(positions(&hold.deferrable(at(90), minute, 10)), [2]);
    assert!(hold.is_empty());
}

#[test]
fn what_was_revoked_is_dropped_and_what_has_no_position_stays() {
    let mut hold = Hold::new(10);
    hold.put(record("a", 0, 1), at(0));
    hold.put(record("a", 0, 2), at(0));
    hold.put(Held { position: None, ..record("b", 0, 1) }, at(0));
    assert_eq!(hold.drop_revoked(|position| *position == 1), 1);
    assert_eq!(hold.len(), 2);
}

#[test]
fn it_is_full_at_its_bound_but_takes_back_what_it_gave_out() {
    let mut hold = Hold::new(1);
    hold.put(record("a", 0, 1), at(0));
    assert!(!hold.has_room());
    hold.put_until(record("a", 0, 2), at(1), at(0));
    assert_eq!(hold.len(), 2);
}

#[test]
fn while_not_all_can_be_sent_lanes_leave_in_turns_and_each_oldest_first() {
    let mut hold = Hold::new(1_000);
    for number in 0..100 {
        hold.put(of_lane(1, i64::from(number % 5), number), at(0));
    }
    for number in 100..103 {
        hold.put(of_lane(2, i64::from(110 - number), number), at(0));
    }
    // All of lane 1 is older than all of lane 2; the second lane's oldest is its last to come.
    let first = pop(&mut hold, at(20), |_| 4).unwrap().1;
    assert_eq!(positions(&first), [0, 5, 102, 101], "two of each, told in the order of their instants");
    assert_eq!(positions(&pop(&mut hold, at(20), |_| 3).unwrap().1), [10, 15, 100]);
    assert_eq!(hold.len(), 96);
    // A lane that comes later has its turn at once.
    hold.put(of_lane(3, 30, 200), at(30));
    assert_eq!(positions(&pop(&mut hold, at(30), |_| 2).unwrap().1).last(), Some(&200));
}

#[test]
fn while_all_can_be_sent_lanes_make_no_difference() {
    let mut hold = Hold::new(1_000);
    for number in 0..60 {
        hold.put(of_lane(i16::from(number % 7), i64::from(number / 2), number), at(0));
    }
    let all: Vec<u8> = (0..60).collect();
    assert_eq!(positions(&pop(&mut hold, at(40), |_| 60).unwrap().1), all);
}

#[test]
fn a_lane_that_is_not_served_waits_alone() {
    let mut hold = Hold::new(100);
    for number in 0..10 {
        hold.put(of_lane(i16::from(number % 2), 0, number), at(0));
    }
    let only_odd = |_: &GatewayName, lane: i16| lane == 1;
    let (_, left) = hold.pop_due(at(1), |_| 50, only_odd).unwrap();
    assert_eq!(positions(&left), [1, 3, 5, 7, 9]);
    assert_eq!(hold.pop_due(at(1), |_| 50, only_odd), None);
    assert_eq!(hold.next_due(|_| 1, only_odd), None, "nobody is woken for what may not go");
    assert_eq!(positions(&pop(&mut hold, at(1), |_| 50).unwrap().1), [0, 2, 4, 6, 8]);
}

#[test]
fn beyond_its_share_a_gateway_sheds_the_newest_of_the_lane_that_has_most() {
    let mut hold = Hold::new(100);
    for number in 0..20 {
        hold.put(of_lane(1, i64::from(number), number), at(0));
    }
    for number in 20..24 {
        hold.put(of_lane(2, i64::from(number), number), at(0));
    }
    hold.put(record("b", 0, 90), at(0));
    hold.put(of_lane(1, 500, 99), at(0));
    let share = |name: &GatewayName| if name.0 == "a" { 10 } else { 100 };
    assert!(hold.shed(at(5), 100, share).is_empty(), "what is not due is nobody's but the hold's");
    let shed = hold.shed(at(30), 9, share);
    assert_eq!(positions(&shed), [19, 18, 17, 16, 15, 14, 13, 12, 11], "no more than asked");
    assert_eq!(positions(&hold.shed(at(30), 100, share)), [10, 9, 8, 7, 6]);
    assert_eq!(hold.shed(at(30), 100, share), []);
    assert_eq!(hold.len(), 12);
    assert_eq!(positions(&hold.shed(at(30), 100, |name| if name.0 == "b" { 0 } else { 100 })), [90]);
    let left = hold.deferrable(at(600), Duration::from_secs(60), 100);
    assert_eq!(positions(&left), [0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 99], "also from among the lanes");
    assert!(hold.is_empty());
}

#[test]
fn the_slowest_is_who_keeps_one_waiting_longest_among_those_beyond_their_share() {
    let mut hold = Hold::new(100);
    for number in 0..6 {
        hold.put(record("fast", 8, number), at(0));
        hold.put(record("slow", 3, 10 + number), at(0));
        // Overdue for long, and here for a moment.
        hold.put(record("back", -500, 20 + number), at(9));
    }
    hold.put(record("few", 0, 30), at(0));
    let named = |name: &str, seconds| Some((GatewayName(name.into()), TimeDelta::seconds(seconds)));
    assert_eq!(hold.slowest(at(10), 5), named("slow", 7));
    assert_eq!(hold.slowest(at(10), 6), None);
    let _two = hold.pop_due(at(10), |name| if name.0 == "slow" { 2 } else { 0 }, |_, _| true);
    assert_eq!(hold.slowest(at(10), 5), named("fast", 2));
    assert_eq!(hold.slowest(at(2), 0), named("few", 2), "what is not due waits for nobody");
}

#[test]
fn a_crowded_hold_keeps_an_eighth_for_what_is_due_and_gateways_share_the_rest() {
    let mut hold = Hold::new(80);
    for number in 0..69 {
        hold.put(record("a", 0, number), at(0));
    }
    assert!(!hold.is_crowded() && hold.has_room());
    hold.put(record("a", 0, 69), at(0));
    assert!(hold.is_crowded() && hold.has_room() && !hold.is_airy());
    assert_eq!((hold.share(1), hold.share(2), hold.share(7)), (usize::MAX, 35, 10));
    let _ten = pop(&mut hold, at(1), |_| 10);
    assert!(hold.is_airy());
}

#[test]
fn a_held_notice_takes_no_more_memory_than_is_said() {
    let bytes = size_of::<((DateTime<Utc>, u64), Waiting<crate::worker::Place>)>();
    // Twice its gateway's name at most: its own, and room that the allocator rounds up.
    assert!(bytes + 2 * 64 <= 300, "{bytes}");
}

proptest! {
    /// Whatever is put in comes out exactly once, never early, and in order within a gateway.
    #[test]
    fn every_record_leaves_once_never_early(
        seconds in proptest::collection::vec((0_u8..3, 0_i64..30), 1..60),
        slots in proptest::collection::vec(0_usize..4, 3),
    ) {
        let mut hold = Hold::new(1_000);
        for (number, (gateway, second)) in (0_u8..).zip(&seconds) {
            hold.put(record(&gateway.to_string(), *second, number), at(0));
        }
        let takes = |name: &GatewayName| slots[usize::from(name.0.as_bytes()[0] - b'0')];
        let mut left = Vec::new();
        for now in 0..=30 {
            while let Some((gateway, batch)) = pop(&mut hold, at(now), takes) {
                prop_assert!(!batch.is_empty() && batch.len() <= takes(&gateway));
                prop_assert!(batch.iter().all(|held| held.notice.not_before <= at(now)));
                prop_assert!(batch.is_sorted_by_key(|held| held.notice.not_before));
                left.extend(positions(&batch));
            }
        }
        let closed = seconds.iter().filter(|(gateway, _)| slots[usize::from(*gateway)] == 0).count();
        prop_assert_eq!(hold.len(), closed);
        prop_assert_eq!(left.len() + closed, seconds.len());
        left.sort_unstable();
        left.dedup();
        prop_assert_eq!(left.len() + closed, seconds.len());
    }
}
