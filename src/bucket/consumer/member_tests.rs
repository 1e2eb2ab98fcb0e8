//! Which partitions are paused, through a day of one member, without a broker.

use super::*;
use crate::bucket::lag::Extent;
use crate::domain::bucket::Slot;
use crate::domain::lease::Mono;
use crate::platform::clock::Clock;
use futures_util::future::BoxFuture;

struct Hand(Mutex<DateTime<Utc>>);

impl Clock for Hand {
    fn wall(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap()
    }
    fn mono(&self) -> Mono {
        Mono(Duration::from_millis(u64::try_from(self.wall().timestamp_millis()).unwrap()))
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

fn at(text: &str) -> (Arc<Hand>, Shared) {
    let hand = Arc::new(Hand(Mutex::new(text.parse().unwrap())));
    let (events, _) = mpsc::unbounded_channel();
    let shared = Shared::new(Names::new("payments."), hand.clone(), events, Patience::default());
    (hand, shared)
}

fn set(hand: &Hand, text: &str) {
    *hand.0.lock().unwrap() = text.parse().unwrap();
}

/// Two partitions of each topic.
fn everything() -> Vec<Part> {
    channels().flat_map(|channel| [(channel, 0), (channel, 1)]).collect()
}

fn bucket(minute: u8) -> Channel {
    Channel::Ring(Slot::new(minute).unwrap())
}

fn minute(minute: u8) -> Vec<Part> {
    vec![(bucket(minute), 0), (bucket(minute), 1)]
}

fn report(parts: &[(Part, i64, i64)]) -> Report {
    let mut all: std::collections::BTreeMap<Part, Extent> =
        everything().into_iter().map(|part| (part, Extent::new(0, None, 0))).collect();
    all.extend(parts.iter().map(|(part, committed, end)| (*part, Extent::new(0, Some(*committed), *end))));
    Report::of(all)
}

#[test]
fn on_assignment_everything_but_the_due_buckets_is_paused() {
    let (_, shared) = at("2026-11-29T14:07:30Z");
    shared.assigned(&everything());
    let turn = shared.turn();
    assert_eq!(turn.pause.len(), 122 - 2 * 4, "m05, m06, m07 and now stay open");
    assert!(turn.resume.is_empty());
    for open in [minute(5), minute(6), minute(7), vec![(Channel::Now, 0), (Channel::Now, 1)]].concat() {
        assert!(!turn.pause.contains(&open), "{open:?}");
    }
    assert_eq!(shared.turn(), Turn::default(), "said once");
}

#[test]
fn a_bucket_opens_300_ms_before_its_minute_and_closes_when_it_was_read_to_its_end() {
    let (hand, shared) = at("2026-11-29T14:07:30Z");
    shared.assigned(&everything());
    shared.turn();
    set(&hand, "2026-11-29T14:07:59.699Z");
    assert_eq!(shared.turn(), Turn::default());
    set(&hand, "2026-11-29T14:07:59.700Z");
    assert_eq!(shared.turn(), Turn { pause: vec![], resume: minute(8) });

    // Its minute ended two minutes ago; of partition 1 a record is unread.
    set(&hand, "2026-11-29T14:11:00Z");
    shared.turn();
    let unread = |offsets: &SharedOffsets| {
        let mut offsets = offsets.lock();
        for offset in 0..4 {
            assert!(offsets.taken(bucket(8), 0, offset).is_some());
        }
    };
    unread(&shared.offsets);
    let ends = [((bucket(8), 0), 0, 4), ((bucket(8), 1), 7, 8)];
    shared.answered(Some(report(&ends)));
    assert!(!shared.turn().pause.contains(&(bucket(8), 0)), "not before both are read");
    assert!(shared.offsets.lock().taken(bucket(8), 1, 7).is_some());
    assert_eq!(shared.turn().pause, minute(8));
}

#[test]
fn an_ended_bucket_with_unread_records_is_opened_again_and_one_staged_ahead_is_not() {
    let (_, shared) = at("2026-11-29T14:30:00Z");
    shared.assigned(&everything());
    shared.turn();
    let (ended, ahead) = (bucket(10), bucket(40));
    shared.answered(Some(report(&[((ended, 1), 5, 6), ((ahead, 0), 0, 900)])));
    assert_eq!(shared.turn(), Turn { pause: vec![], resume: minute(10) });
}

#[test]
fn a_full_channel_pauses_everything_and_room_resumes_only_what_is_open() {
    let (_, shared) = at("2026-11-29T14:07:30Z");
    shared.assigned(&everything());
    shared.turn();
    shared.throttle(true);
    assert_eq!(shared.turn().pause.len(), 8);
    shared.throttle(false);
    let turn = shared.turn();
    assert_eq!((turn.pause.len(), turn.resume.len()), (0, 8));
}

#[test]
fn pauses_are_said_again_after_every_assignment() {
    let (_, shared) = at("2026-11-29T14:07:30Z");
    shared.assigned(&everything());
    assert_eq!(shared.turn().pause.len(), 114);
    assert_eq!(shared.revoked(), 122);
    assert_eq!(shared.turn(), Turn::default(), "nothing is ours");
    shared.assigned(&minute(40));
    assert_eq!(shared.turn(), Turn { pause: minute(40), resume: vec![] });
}

/// Its bucket opens while it is another member's.
#[test]
fn a_partition_that_was_paused_when_it_was_lost_is_resumed_when_it_comes_back_open() {
    let (hand, shared) = at("2026-11-29T14:07:30Z");
    shared.assigned(&everything());
    shared.turn();
    shared.revoked();
    let half: Vec<Part> = everything().into_iter().filter(|(_, partition)| *partition == 0).collect();
    shared.assigned(&half);
    shared.turn();
    set(&hand, "2026-11-29T14:08:05Z");
    assert_eq!(shared.turn().resume, [(bucket(8), 0)]);
    shared.revoked();
    shared.assigned(&everything());
    let turn = shared.turn();
    assert_eq!(turn.resume, [(bucket(8), 1)], "partition 0 was resumed before");
    assert!(!turn.pause.contains(&(bucket(8), 1)));
    assert_eq!(shared.turn(), Turn::default(), "said once");
}

#[test]
fn the_gap_between_two_polls_is_measured() {
    let (hand, shared) = at("2026-11-29T14:07:30Z");
    assert_eq!(shared.polls_now(), Duration::ZERO);
    set(&hand, "2026-11-29T14:09:31Z");
    assert_eq!(shared.since_poll(), Duration::from_secs(121));
    assert_eq!(shared.polls_now(), Duration::from_secs(121));
    assert_eq!(shared.polls_now(), Duration::ZERO);
}

#[test]
fn kafka_is_up_only_while_a_broker_answers_and_the_client_lives() {
    let (hand, shared) = at("2026-11-29T14:07:30Z");
    assert!(!shared.health().is_up(), "nobody has answered yet");
    shared.answered(None);
    assert!(!shared.health().is_up(), "the group has not told us our part");
    shared.assigned(&[]);
    assert!(shared.health().is_up(), "our part may be none");
    set(&hand, "2026-11-29T14:07:36Z");
    shared.polls_now();
    assert!(shared.health().is_up(), "one question may have had no answer");
    set(&hand, "2026-11-29T14:07:37Z");
    shared.polls_now();
    assert!(!shared.health().is_up(), "the last answer is too old");
    shared.answered(None);
    shared.revoked();
    assert!(!shared.health().is_up(), "until the group has shared out anew");
    shared.assigned(&everything());
    assert!(shared.health().is_up());
    shared.end(RingEvent::Replaced);
    assert!(!shared.health().is_up());
}

#[test]
fn while_minutes_wait_only_what_is_due_already_is_read() {
    let (_, shared) = at("2026-11-29T14:07:30Z");
    shared.assigned(&everything());
    shared.turn();
    shared.let_minutes_wait(true);
    let open = [minute(5), minute(6), minute(7)].concat();
    let turn = shared.turn();
    assert_eq!((turn.pause.len(), turn.resume.len()), (6, 0));
    assert!(open.iter().all(|part| turn.pause.contains(part)), "{turn:?}");
    shared.let_minutes_wait(true);
    assert_eq!(shared.turn(), Turn::default(), "said once");
    shared.let_minutes_wait(false);
    let turn = shared.turn();
    assert!(turn.pause.is_empty() && open.iter().all(|part| turn.resume.contains(part)), "{turn:?}");
}

#[test]
fn records_that_do_not_come_although_nothing_holds_them_back_are_told() {
    let (_, shared) = at("2026-11-29T14:07:30Z");
    shared.assigned(&everything());
    shared.turn();
    let (now, ring) = ((Channel::Now, 1), (bucket(6), 0));
    // Of the last bucket nothing is fetched: it is far ahead.
    let look = || shared.answered(Some(report(&[(now, 3, 8), (ring, 0, 1), ((bucket(40), 0), 0, 900)])));
    let stuck_after = |looks: usize| {
        (0..looks).for_each(|_| look());
        shared.stuck()
    };
    assert_eq!(stuck_after(2), None);
    shared.throttle(true);
    shared.throttle(false);
    assert_eq!(stuck_after(2), None, "everything was held back");
    shared.let_minutes_wait(true);
    shared.turn();
    assert_eq!(stuck_after(1), Some(now), "of the minutes alone nothing is known");
    assert!(shared.offsets.lock().taken(Channel::Now, 1, 3).is_some());
    assert_eq!(stuck_after(1), None, "one came");
    shared.let_minutes_wait(false);
    shared.turn();
    shared.assigned(&everything());
    shared.turn();
    assert_eq!(stuck_after(2), None, "of another assignment nothing is known");
}

#[test]
fn a_client_that_is_given_no_part_for_20_s_although_leaders_answer_is_told() {
    let (hand, shared) = at("2026-11-29T14:07:00Z");
    let answered_at = |text: &str| {
        set(&hand, text);
        shared.answered(None);
        shared.is_apart()
    };
    let every_five_s = |from: i64, to: i64| {
        let start: DateTime<Utc> = "2026-11-29T14:07:00Z".parse().unwrap();
        let told = (from..=to)
            .step_by(5)
            .filter(|s| answered_at(&(start + chrono::TimeDelta::seconds(*s)).to_rfc3339()));
        told.min()
    };
    assert_eq!(every_five_s(0, 15), None);
    assert_eq!(every_five_s(40, 55), None, "leaders were silent in between");
    assert_eq!(every_five_s(60, 80), Some(60));
    shared.assigned(&[]);
    assert_eq!(every_five_s(85, 150), None, "its part may be none");
    shared.revoked();
    assert_eq!(every_five_s(155, 190), Some(175));
}

#[test]
fn a_fence_soon_after_a_silent_group_may_have_been_our_own_doing() {
    let (hand, shared) = at("2026-11-29T14:07:30Z");
    assert!(!shared.lost_lately());
    shared.lost();
    set(&hand, "2026-11-29T14:08:29Z");
    assert!(shared.lost_lately());
    set(&hand, "2026-11-29T14:08:30Z");
    assert!(!shared.lost_lately());
}
