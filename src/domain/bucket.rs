//! The ring of 60 minute buckets: which topic a notice travels in, and when that topic is read.
//!
//! **Promise**: the slot is a function of the notice alone (`next_attempt_at`, UTC), never of a
//! clock; a clock only decides between the ring and the `now` topic, and a wrong clock there costs
//! lateness, never earliness, because every record is held until its own `notBefore`.
//!
//! **Why a ring and not a topic per dated minute**: topics that come and go disturb the consumer
//! group each minute. The price is that a slot is used again an hour later, so [`LONGEST_LEAD`] and
//! [`REOPEN_UNTIL`] together must stay below an hour: the ring never meets its own tail.
//!
//! All topic names are made by [`topic`], so that this choice can be measured again.

use super::ids::PaymentId;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;
use std::time::Duration;

/// Slots of the ring: one a minute of the hour.
pub const SLOTS: u8 = 60;

/// Shards of the outbox; every legal partition count divides it.
pub const SHARDS: i16 = 48;

/// Nothing is published into the ring further ahead than this.
pub const LONGEST_LEAD: TimeDelta = TimeDelta::minutes(15);

/// A bucket is opened this long before its minute, so that its first records are at hand in time.
pub const OPEN_AHEAD: TimeDelta = TimeDelta::milliseconds(300);

/// A bucket stays open at least until its minute ended this long ago.
pub const CLOSE_AFTER: TimeDelta = TimeDelta::minutes(2);

/// A closed bucket with unread records is opened again until its minute ended this long ago; what
/// comes later belongs to the late scan.
pub const REOPEN_UNTIL: TimeDelta = TimeDelta::minutes(40);

const MINUTE: TimeDelta = TimeDelta::minutes(1);
const MINUTE_US: i64 = 60_000_000;

/// A minute of the hour, 0–59.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// `None` from 60 on.
    #[must_use]
    pub fn new(minute: u8) -> Option<Self> {
        (minute < SLOTS).then_some(Self(minute))
    }

    /// All 60, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS).map(Self)
    }

    /// The slot of an instant: floor(instant / 60 s) mod 60, UTC.
    #[must_use]
    pub fn of(not_before: DateTime<Utc>) -> Self {
        let minute = not_before.timestamp().div_euclid(60).rem_euclid(i64::from(SLOTS));
        // A remainder of 60 fits in u8.
        Self(u8::try_from(minute).unwrap_or(0))
    }

    /// The minute of the hour.
    #[must_use]
    pub fn minute(self) -> u8 {
        self.0
    }
}

/// Where a notice is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// The bucket of its minute.
    Ring(Slot),
    /// Already due, or too close to its minute for the bucket to be certain.
    Now,
}

/// Ring or now, decided at each publish.
///
/// The ring only if the notice's minute starts at least `guard` (15 s by default) from
/// `database_now`, and at most [`LONGEST_LEAD`]: a notice staged further ahead than that could meet
/// the tail of the hour before, so it goes to `now` and is held there. The relay never stages so far.
#[must_use]
pub fn ring_or_now(not_before: DateTime<Utc>, database_now: DateTime<Utc>, guard: Duration) -> Channel {
    let ahead = minute_start(not_before) - database_now;
    // A guard that chrono cannot hold is longer than any lead.
    let guard = TimeDelta::from_std(guard).unwrap_or(TimeDelta::MAX);
    if ahead >= guard && ahead <= LONGEST_LEAD { Channel::Ring(Slot::of(not_before)) } else { Channel::Now }
}

/// The whole minutes that begin `beyond` from now or later and end by `within` from now: from the start
/// of the first to the end of the last. `None`: there is none.
#[must_use]
pub fn whole_minutes(
    now: DateTime<Utc>,
    beyond: TimeDelta,
    within: TimeDelta,
) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let near = now + beyond;
    let first = if minute_start(near) == near { near } else { minute_start(near) + MINUTE };
    let end = minute_start(now + within);
    (first < end).then_some((first, end))
}

/// The earliest minute between these two instants that holds at least `limit` of `instants`.
#[must_use]
pub fn crowded_minute(
    instants: impl Iterator<Item = DateTime<Utc>>,
    (from, end): (DateTime<Utc>, DateTime<Utc>),
    limit: usize,
) -> Option<DateTime<Utc>> {
    let mut minutes: BTreeMap<DateTime<Utc>, usize> = BTreeMap::new();
    for instant in instants.filter(|instant| (from..end).contains(instant)) {
        *minutes.entry(minute_start(instant)).or_default() += 1;
    }
    minutes.into_iter().find(|(_, count)| *count >= limit).map(|(minute, _)| minute)
}

/// The start of the UTC minute that holds `instant`.
#[must_use]
pub fn minute_start(instant: DateTime<Utc>) -> DateTime<Utc> {
    instant - TimeDelta::nanoseconds(into_minute(instant))
}

fn into_minute(instant: DateTime<Utc>) -> i64 {
    instant.timestamp().rem_euclid(60) * 1_000_000_000 + i64::from(instant.timestamp_subsec_nanos())
}

/// The header `bucket`: the exact minute, as `2026-11-29T14:07Z`.
#[must_use]
pub fn label(not_before: DateTime<Utc>) -> String {
    not_before.format("%Y-%m-%dT%H:%MZ").to_string()
}

/// The topic of a channel: `<prefix>due.m07`, `<prefix>due.now`.
#[must_use]
pub fn topic(prefix: &str, channel: Channel) -> String {
    match channel {
        Channel::Ring(slot) => format!("{prefix}due.m{:02}", slot.0),
        Channel::Now => format!("{prefix}due.now"),
    }
}

/// All 61 channels: the ring in order, then `now`.
pub fn channels() -> impl Iterator<Item = Channel> {
    Slot::all().map(Channel::Ring).chain(std::iter::once(Channel::Now))
}

/// The channel of a topic name, `None` if it is not one of ours.
#[must_use]
pub fn channel_of(prefix: &str, topic: &str) -> Option<Channel> {
    let name = topic.strip_prefix(prefix)?.strip_prefix("due.")?;
    if name == "now" {
        return Some(Channel::Now);
    }
    let minute = name.strip_prefix('m').filter(|m| m.len() == 2 && m.bytes().all(|b| b.is_ascii_digit()))?;
    Slot::new(minute.parse().ok()?).map(Channel::Ring)
}

/// Where a slot stands in its hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its next minute lies ahead; staged records wait in it. Closed, and not reopened.
    Ahead {
        /// [`OPEN_AHEAD`] before its next minute.
        opens_at: DateTime<Utc>,
    },
    /// Its minute is about to start, runs, or ended less than [`CLOSE_AFTER`] ago. Open.
    Due,
    /// Its minute ended [`CLOSE_AFTER`] to [`REOPEN_UNTIL`] ago. Closed once drained, reopened for
    /// records that arrived late.
    Tail,
}

/// The phase of a slot at `now` (aligned to the database's clock).
#[must_use]
pub fn phase(slot: Slot, now: DateTime<Utc>) -> Phase {
    let minute = latest_minute(slot, now + OPEN_AHEAD);
    let ended_for = now - (minute + MINUTE);
    if ended_for < CLOSE_AFTER {
        Phase::Due
    } else if ended_for <= REOPEN_UNTIL {
        Phase::Tail
    } else {
        Phase::Ahead { opens_at: minute + MINUTE * i32::from(SLOTS) - OPEN_AHEAD }
    }
}

/// The minute of this slot that runs at `now`, or else its next one.
#[must_use]
pub fn coming_minute(slot: Slot, now: DateTime<Utc>) -> DateTime<Utc> {
    let ahead = (i64::from(slot.0) - i64::from(Slot::of(now).0)).rem_euclid(i64::from(SLOTS));
    minute_start(now) + TimeDelta::microseconds(ahead * MINUTE_US)
}

/// The latest minute of this slot that has started at `instant`.
fn latest_minute(slot: Slot, instant: DateTime<Utc>) -> DateTime<Utc> {
    let back = (i64::from(Slot::of(instant).0) - i64::from(slot.0)).rem_euclid(i64::from(SLOTS));
    minute_start(instant) - TimeDelta::microseconds(back * MINUTE_US)
}

/// What is left to read in a bucket, over all of its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    /// The position equals the high watermark on every partition.
    Drained,
    /// Some partition has records that were not read.
    Unread,
}

/// May an open bucket be paused? Never while its minute may still bring work, never before it is
/// drained: a record left behind would wait an hour.
#[must_use]
pub fn may_close(phase: Phase, backlog: Backlog) -> bool {
    match (phase, backlog) {
        (Phase::Tail | Phase::Ahead { .. }, Backlog::Drained) => true,
        (Phase::Due, Backlog::Drained | Backlog::Unread) => false,
        (Phase::Tail | Phase::Ahead { .. }, Backlog::Unread) => false,
    }
}

/// Must a closed bucket be opened? Buckets staged ahead stay closed although they have records.
#[must_use]
pub fn must_open(phase: Phase, backlog: Backlog) -> bool {
    match (phase, backlog) {
        (Phase::Due, Backlog::Drained | Backlog::Unread) | (Phase::Tail, Backlog::Unread) => true,
        (Phase::Tail, Backlog::Drained) | (Phase::Ahead { .. }, Backlog::Drained | Backlog::Unread) => false,
    }
}

/// The shard of a payment's notices: murmur2 of the id's text, made positive, mod [`SHARDS`].
#[must_use]
pub fn shard(id: PaymentId) -> i16 {
    let positive = murmur2(id.to_string().as_bytes()) & 0x7fff_ffff;
    // A remainder of 48 fits in i16.
    i16::try_from(positive % u32::from(SHARDS.unsigned_abs())).unwrap_or(0)
}

/// The Kafka partition of a shard. With a count that divides [`SHARDS`] it equals what
/// `partitioner=murmur2_random` gives for the payment id as key, so other tools place keys alike.
#[must_use]
pub fn partition(shard: i16, partitions: i32) -> i32 {
    i32::from(shard).rem_euclid(partitions.max(1))
}

/// Can the ring have so many partitions? Only a divisor of [`SHARDS`], so that each shard has one
/// partition and each partition one writer.
#[must_use]
pub fn is_partition_count(partitions: i32) -> bool {
    partitions > 0 && i32::from(SHARDS) % partitions == 0
}

/// MurmurHash2, 32 bits, with Kafka's seed: `org.apache.kafka.common.utils.Utils.murmur2`.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MIX: u32 = 0x5bd1_e995;
    // Kafka's own arithmetic is on 32-bit integers; a longer key than that cannot exist there.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut word = word.iter().rev().fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
        word = word.wrapping_mul(MIX);
        word ^= word >> 24;
        word = word.wrapping_mul(MIX);
        hash = hash.wrapping_mul(MIX) ^ word;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_one_minute_in_the_hour_from_now() {
        let now = "2026-11-29T14:58:31Z".parse::<DateTime<Utc>>().unwrap();
        let mut minutes: Vec<_> = Slot::all().map(|slot| (coming_minute(slot, now), slot)).collect();
        minutes.sort_unstable();
        assert!(minutes.iter().all(|(minute, slot)| Slot::of(*minute) == *slot));
        let first = minute_start(now);
        assert!((0..).zip(&minutes).all(|(n, (minute, _))| *minute == first + MINUTE * n));
    }

    #[test]
    fn whole_minutes_begin_after_the_lead_and_end_within_the_longest() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let span = |now: &str, beyond: i64| whole_minutes(at(now), TimeDelta::seconds(beyond), LONGEST_LEAD);
        let day = "2026-11-29T";
        let between =
            |from: &str, end: &str| Some((at(&format!("{day}{from}Z")), at(&format!("{day}{end}Z"))));
        assert_eq!(span("2026-11-29T14:00:00Z", 90), between("14:02:00", "14:15:00"));
        assert_eq!(span("2026-11-29T14:00:30Z", 90), between("14:02:00", "14:15:00"));
        assert_eq!(span("2026-11-29T14:00:31Z", 90), between("14:03:00", "14:15:00"));
        assert_eq!(span("2026-11-29T14:00:59Z", 900), None);
    }

    #[test]
    fn the_earliest_minute_that_is_full_enough_is_the_crowded_one() {
        let first = "2026-11-29T14:00:00Z".parse::<DateTime<Utc>>().unwrap();
        let minutes = |counts: &[usize]| {
            let minutes = (0..).map(|n| first + MINUTE * n).zip(counts.to_vec());
            minutes.flat_map(|(at, count)| vec![at + TimeDelta::seconds(59); count]).collect::<Vec<_>>()
        };
        let crowded = |counts: &[usize], limit| {
            crowded_minute(minutes(counts).into_iter(), (first, first + MINUTE * 4), limit)
        };
        assert_eq!(crowded(&[2, 3, 9, 3], 3), Some(first + MINUTE));
        assert_eq!(crowded(&[2, 3, 9, 3], 9), Some(first + MINUTE * 2));
        assert_eq!(crowded(&[2, 2, 2, 2, 9], 3), None, "the crowd lies past the end");
    }
    use chrono::TimeZone;

    const GUARD: Duration = Duration::from_secs(15);

    fn at(hour: u32, minute: u32, second: u32) -> DateTime<Utc> {
        Utc.with_ymd_and_hms(2026, 11, 29, hour, minute, second).single().expect("a date of the calendar")
    }

    fn slot(minute: u8) -> Slot {
        Slot::new(minute).expect("below 60")
    }

    #[test]
    fn murmur2_agrees_with_the_vectors_of_kafka_s_own_test() {
        for (text, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()), u32::from_ne_bytes(hash.to_ne_bytes()), "{text}");
        }
    }

    #[test]
    fn every_partition_count_that_divides_the_shards_places_a_key_as_kafka_does() {
        for n in 0..500_u16 {
            let mut intent = [7_u8; 10];
            intent[8..].copy_from_slice(&n.to_be_bytes());
            let id = PaymentId::new(at(14, 7, 3), intent).expect("in range");
            let kafka = (murmur2(id.to_string().as_bytes()) & 0x7fff_ffff) as i32;
            assert!((0..SHARDS).contains(&shard(id)));
            for partitions in (1..=48).filter(|p| is_partition_count(*p)) {
                assert_eq!(partition(shard(id), partitions), kafka % partitions);
            }
        }
        assert!(!is_partition_count(0) && !is_partition_count(5) && !is_partition_count(-2));
    }

    #[test]
    fn a_slot_is_the_utc_minute_of_the_hour_before_and_after_1970() {
        assert_eq!(Slot::of(at(14, 7, 59)), slot(7));
        assert_eq!(Slot::of(at(0, 0, 0)), slot(0));
        assert_eq!(Slot::of(DateTime::from_timestamp(-1, 0).expect("in range")), slot(59));
        assert_eq!(Slot::new(60), None);
        assert_eq!(Slot::all().count(), 60);
    }

    #[test]
    fn the_label_names_the_exact_minute() {
        assert_eq!(label(at(14, 7, 59)), "2026-11-29T14:07Z");
        assert_eq!(label(at(0, 0, 0)), "2026-11-29T00:00Z");
    }

    #[test]
    fn topic_names_are_distinct_and_read_back() {
        let names: std::collections::BTreeSet<_> = channels().map(|c| topic("payments.", c)).collect();
        assert_eq!(names.len(), 61);
        assert!(names.contains("payments.due.m07") && names.contains("payments.due.now"));
        for channel in channels() {
            assert_eq!(channel_of("payments.", &topic("payments.", channel)), Some(channel));
        }
        for foreign in [
            "payments.due.m60",
            "payments.due.m7",
            "payments.due.m+7",
            "payments.events",
            "other.due.m07",
            "",
        ] {
            assert_eq!(channel_of("payments.", foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_ring_is_used_only_if_the_minute_starts_at_least_the_guard_ahead() {
        let not_before = at(14, 7, 30);
        assert_eq!(ring_or_now(not_before, at(14, 6, 45), GUARD), Channel::Ring(slot(7)));
        assert_eq!(ring_or_now(not_before, at(14, 6, 46), GUARD), Channel::Now);
        assert_eq!(ring_or_now(not_before, at(14, 7, 10), GUARD), Channel::Now, "its minute runs already");
        assert_eq!(ring_or_now(not_before, at(15, 0, 0), GUARD), Channel::Now, "overdue");
    }

    #[test]
    fn the_ring_is_never_used_so_far_ahead_that_it_meets_its_own_tail() {
        assert_eq!(ring_or_now(at(14, 7, 0), at(13, 52, 0), GUARD), Channel::Ring(slot(7)));
        assert_eq!(ring_or_now(at(14, 7, 0), at(13, 51, 59), GUARD), Channel::Now);
        assert_eq!(ring_or_now(at(14, 7, 0), at(13, 7, 0), GUARD), Channel::Now);
        // Anything the relay may stage meets a slot whose last hour is neither open nor reopened.
        assert!(LONGEST_LEAD + MINUTE + REOPEN_UNTIL < TimeDelta::hours(1));
        assert!(matches!(phase(slot(7), at(13, 52, 0)), Phase::Ahead { .. }));
    }

    #[test]
    fn a_bucket_opens_300_ms_ahead_stays_for_two_minutes_and_has_a_tail_of_forty() {
        let ms = TimeDelta::milliseconds(1);
        let seven = slot(7);
        let opens_at = at(14, 7, 0) - OPEN_AHEAD;
        assert_eq!(phase(seven, opens_at - ms), Phase::Ahead { opens_at });
        assert_eq!(phase(seven, opens_at), Phase::Due);
        assert_eq!(phase(seven, at(14, 7, 59)), Phase::Due);
        assert_eq!(phase(seven, at(14, 10, 0) - ms), Phase::Due);
        assert_eq!(phase(seven, at(14, 10, 0)), Phase::Tail);
        assert_eq!(phase(seven, at(14, 48, 0)), Phase::Tail);
        assert_eq!(
            phase(seven, at(14, 48, 0) + ms),
            Phase::Ahead { opens_at: opens_at + TimeDelta::hours(1) }
        );
    }

    #[test]
    fn at_every_second_of_an_hour_about_four_buckets_are_due_and_the_current_minute_is_one() {
        for second in 0..3600 {
            let now = at(14, 0, 0) + TimeDelta::seconds(second);
            let due: Vec<_> = Slot::all().filter(|s| phase(*s, now) == Phase::Due).collect();
            assert!(due.contains(&Slot::of(now)));
            assert!(due.len() <= 4, "{now}: {due:?}");
        }
    }

    #[test]
    fn only_a_drained_bucket_closes_and_only_a_due_or_late_one_opens() {
        let ahead = Phase::Ahead { opens_at: at(15, 0, 0) };
        for (phase, backlog, close, open) in [
            (ahead, Backlog::Drained, true, false),
            (ahead, Backlog::Unread, false, false),
            (Phase::Due, Backlog::Drained, false, true),
            (Phase::Due, Backlog::Unread, false, true),
            (Phase::Tail, Backlog::Drained, true, false),
            (Phase::Tail, Backlog::Unread, false, true),
        ] {
            assert_eq!(may_close(phase, backlog), close, "{phase:?} {backlog:?}");
            assert_eq!(must_open(phase, backlog), open, "{phase:?} {backlog:?}");
        }
    }
}
