//! The ring on a real broker: topics as declared, records where other tools put them, buckets
//! closed until their minute, and offsets that wait for what became of a record.

mod rig;

use crate::support::eventually;
use chrono::{DateTime, TimeDelta, Utc};
#[cfg(feature = "faults")]
use punctual::bucket::Completed;
use punctual::bucket::topics::{self, Depth, Difference, Ready, TopicsError};
use punctual::bucket::{BadNoticeReason, Envelope, Left, Outgoing, Producer, RingEvent};
use punctual::domain::bucket::{self as place, Channel, Slot};
use punctual::platform::clock::{Clock, Host};
use punctual::relay::Publisher;
use rdkafka::admin::{AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rig::{SOON, TestRing, admin, client, envelope, host, next, next_event, notice, payment, remove};
use std::collections::BTreeMap;

#[tokio::test]
async fn topics_are_made_as_declared_and_every_drift_is_named_and_corrected() {
    let kafka = TestRing::named();
    let missing = topics::plan(&kafka, Depth::Full, topics::ANSWER_WITHIN).await.expect("an answer");
    assert_eq!(missing.len(), 63);
    assert!(missing.iter().all(|it| matches!(it, Difference::Missing(_))));
    let ready = topics::check(&kafka, Depth::Full).await.expect("an answer");
    assert!(matches!(ready, Ready::Missing(names) if names.len() == 63));

    assert_eq!(topics::apply(&kafka, &host()).await.expect("topics"), []);
    assert_eq!(topics::check(&kafka, Depth::Full).await.expect("an answer"), Ready::All);

    let topic = format!("{}due.m07", kafka.topic_prefix);
    let drift =
        AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("segment.ms", "777").set("flush.ms", "9000");
    admin().alter_configs([&drift], &AdminOptions::new()).await.expect("an answer")[0].as_ref().expect("set");
    let said = eventually("the drift to be seen", SOON, || async {
        let said: Vec<String> = topics::plan(&kafka, Depth::Full, topics::ANSWER_WITHIN)
            .await
            .expect("an answer")
            .iter()
            .map(ToString::to_string)
            .collect();
        (!said.is_empty()).then_some(said)
    })
    .await;
    // The request that drifted it replaced all of the topic's settings.
    assert!(said.contains(&format!("{topic}: segment.ms is 777, declared 3600000")), "{said:?}");
    assert!(said.iter().all(|line| line.starts_with(&topic)), "{said:?}");

    topics::apply(&kafka, &host()).await.expect("an answer");
    eventually("the drift to be gone", SOON, || async {
        topics::plan(&kafka, Depth::Full, topics::ANSWER_WITHIN)
            .await
            .expect("an answer")
            .is_empty()
            .then_some(())
    })
    .await;
    let asked = [ResourceSpecifier::Topic(&topic)];
    let settings = admin().describe_configs(&asked, &AdminOptions::new()).await.expect("an answer");
    let flush = settings[0].as_ref().expect("settings").get("flush.ms").expect("known").value.clone();
    assert_eq!(flush.as_deref(), Some("9000"), "what is not declared is left as it was set");
    remove(&kafka).await;
}

#[tokio::test]
async fn a_topic_with_another_number_of_partitions_refuses_the_start_by_name() {
    let kafka = TestRing::named();
    let odd = format!("{}due.m59", kafka.topic_prefix);
    let made = NewTopic::new(&odd, 3, TopicReplication::Fixed(1));
    admin().create_topics(&[made], &AdminOptions::new()).await.expect("an answer")[0].as_ref().expect("made");
    let left = topics::apply(&kafka, &host()).await.expect("the others");
    assert_eq!(left[0].to_string(), format!("{odd}: 3 partitions, declared 2"));
    let refused = topics::check(&kafka, Depth::Full).await.expect_err("a refusal");
    assert!(matches!(&refused, TopicsError::WrongPartitions(_)));
    assert!(refused.to_string().starts_with(&odd), "{refused}");
    remove(&kafka).await;
}

#[tokio::test]
async fn a_notice_lies_where_murmur2_random_puts_its_key() {
    let topic = format!("ring-{}.places", std::process::id());
    let made = NewTopic::new(&topic, 12, TopicReplication::Fixed(1));
    admin().create_topics(&[made], &AdminOptions::new()).await.expect("an answer")[0].as_ref().expect("made");
    let theirs: FutureProducer = client().set("partitioner", "murmur2_random").create().expect("settings");
    let ours = Producer::new(&TestRing::named(), host()).expect("settings");
    let mut used = BTreeMap::new();
    for number in 0..60 {
        let notice = notice(number, Host.wall());
        let key = notice.payment.to_string();
        let wanted = place::partition(place::shard(notice.payment), 12);
        let record = FutureRecord::to(&topic).key(&key).payload("theirs");
        let placed = theirs.send(record, SOON).await.expect("a delivery").partition;
        assert_eq!(placed, wanted, "{key}");
        *used.entry(placed).or_insert(0) += 1;
        // And our own producer, asked for that partition explicitly.
        let value = punctual::bucket::value_of(&notice);
        let record =
            Outgoing { topic: topic.clone(), partition: Some(wanted), key, value, headers: Vec::new() };
        ours.publish(&[record]).await.expect("a report");
    }
    assert!(used.len() > 6, "the keys spread: {used:?}");
    admin().delete_topics(&[&topic], &AdminOptions::new()).await.expect("an answer");
}

#[tokio::test]
async fn a_closed_bucket_delivers_nothing_until_just_before_its_minute() {
    let ring = TestRing::new().await;
    let minute = "2026-11-29T14:40:00Z".parse::<DateTime<Utc>>().expect("an instant");
    ring.clock.set(minute - TimeDelta::minutes(10));
    let bucket = Channel::Ring(Slot::of(minute));
    let staged: Vec<Envelope> = (0..20)
        .map(|n| envelope(bucket, i32::from(n % 2 == 1), notice(n, minute + TimeDelta::seconds(5))))
        .collect();
    ring.publish(&staged).await;
    let first = envelope(Channel::Now, 0, notice(100, minute - TimeDelta::minutes(11)));
    ring.publish(std::slice::from_ref(&first)).await;

    let mut member = ring.join("w1", 100);
    assert_eq!(next_event(&mut member).await, RingEvent::Assigned(122));
    assert_eq!(payment(&next(&mut member).await), first.staged.notice.payment);
    // The lag reader has looked at the full bucket, and a later record still comes first.
    eventually("a report", SOON, || async {
        member.lag().iter().any(|lag| lag.channel == bucket && lag.records() == 10).then_some(())
    })
    .await;
    let second = envelope(Channel::Now, 1, notice(101, minute - TimeDelta::minutes(11)));
    ring.publish(std::slice::from_ref(&second)).await;
    assert_eq!(payment(&next(&mut member).await), second.staged.notice.payment);
    assert!(member.records.try_recv().is_err());

    ring.clock.set(minute - place::OPEN_AHEAD);
    for _ in 0..20 {
        assert_eq!(next(&mut member).await.position.channel(), bucket);
    }
    assert_eq!(member.leave(SOON).await, Left::Cleanly);
    ring.remove().await;
}

#[tokio::test]
async fn records_that_arrived_after_their_bucket_closed_open_it_again() {
    let ring = TestRing::new().await;
    let minute = "2026-11-29T14:40:00Z".parse::<DateTime<Utc>>().expect("an instant");
    ring.clock.set(minute + TimeDelta::minutes(20));
    let late = envelope(Channel::Ring(Slot::of(minute)), 1, notice(1, minute));
    ring.publish(std::slice::from_ref(&late)).await;
    let mut member = ring.join("w1", 100);
    assert_eq!(payment(&next(&mut member).await), late.staged.notice.payment);
    assert_eq!(member.leave(SOON).await, Left::Cleanly);
    ring.remove().await;
}

#[tokio::test]
async fn a_record_that_no_code_can_read_is_handed_out_as_such_and_its_partition_goes_on() {
    let ring = TestRing::new().await;
    let good = envelope(Channel::Now, 0, notice(1, Host.wall()));
    let mut garbage = Outgoing::notice(&ring.relay.names, &good);
    garbage.value = b"\xff\x00 not a notice".to_vec();
    let mut later = Outgoing::notice(&ring.relay.names, &good);
    later.value = String::from_utf8(later.value).expect("JSON").replace("\"v\":1", "\"v\":9").into_bytes();
    ring.relay.producer.publish(&[garbage, later]).await.expect("every report");
    ring.publish(std::slice::from_ref(&good)).await;

    let mut member = ring.join("w1", 100);
    let bad = next(&mut member).await.record.expect_err("garbage");
    assert!(matches!(bad.reason, BadNoticeReason::NotANotice(_)), "{bad:?}");
    assert_eq!(bad.value.as_deref(), Some(b"\xff\x00 not a notice".as_slice()));
    assert_eq!(
        next(&mut member).await.record.expect_err("version 9").reason,
        BadNoticeReason::UnknownVersion(9)
    );
    let read = next(&mut member).await.record.expect("a notice");
    assert_eq!(read.notice, good.staged.notice);
    assert_eq!(read.mac, Some("00".repeat(32)));
    assert_eq!(member.leave(SOON).await, Left::Cleanly);
    ring.remove().await;
}

#[tokio::test]
async fn a_slow_taker_gets_every_record_once_and_in_partition_order() {
    let ring = TestRing::new().await;
    let now = Host.wall();
    let batch: Vec<Envelope> =
        (0..1_000).map(|n| envelope(Channel::Now, i32::from(n % 2 == 1), notice(n, now))).collect();
    ring.publish(&batch).await;
    let mut member = ring.join("w1", 64);
    let mut taken: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    for number in 0..1_000 {
        let record = next(&mut member).await;
        taken.entry(record.position.partition()).or_default().push(record.position.offset());
        if number % 250 == 0 {
            // Nobody takes: the channel fills, and everything is paused until it is half empty.
            eventually("a channel more than half full", SOON, || async {
                (member.records.len() > 32).then_some(())
            })
            .await;
        }
    }
    let whole: Vec<i64> = (0..500).collect();
    assert_eq!(taken, BTreeMap::from([(0, whole.clone()), (1, whole)]));
    assert_eq!(member.leave(SOON).await, Left::Cleanly);
    ring.remove().await;
}

#[tokio::test]
async fn what_is_not_complete_is_read_again_after_a_restart() {
    let ring = TestRing::new().await;
    let now = Host.wall();
    ring.publish(&(0..5).map(|n| envelope(Channel::Now, 0, notice(n, now))).collect::<Vec<_>>()).await;
    let mut member = ring.join("w1", 100);
    for offset in 0..5 {
        assert_eq!(next(&mut member).await.position.offset(), offset);
    }
    assert_eq!(member.leave(SOON).await, Left::Cleanly);
    assert_eq!(ring.committed(Channel::Now, 0), Some(0), "nothing is complete");
    let mut again = ring.join("w1", 100);
    assert_eq!(next(&mut again).await.position.offset(), 0);
    assert_eq!(again.leave(SOON).await, Left::Cleanly);
    ring.remove().await;
}

/// Proofs come from a schedule only; the one in memory is part of the test-only feature.
#[cfg(feature = "faults")]
#[tokio::test]
async fn the_committed_offset_is_the_oldest_incomplete_record_and_a_restart_begins_there() {
    let schedule = punctual::schedule::Memory::new(host());
    let ring = TestRing::new().await;
    let now = Host.wall();
    ring.publish(&(0..5).map(|n| envelope(Channel::Now, 0, notice(n, now))).collect::<Vec<_>>()).await;
    let mut member = ring.join("w1", 100);
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.push(next(&mut member).await.position);
    }
    let offsets = member.offsets();
    for done in [0, 1, 3, 4] {
        assert_eq!(offsets.complete(taken[done], schedule.keep_bad_notice()), Completed::Counted);
    }
    eventually("a commit in the background", SOON, || async {
        (ring.committed(Channel::Now, 0) == Some(2)).then_some(())
    })
    .await;
    assert_eq!(member.leave(SOON).await, Left::Cleanly);
    assert_eq!(ring.committed(Channel::Now, 0), Some(2));
    assert_eq!(offsets.complete(taken[2], schedule.keep_bad_notice()), Completed::TakenAway);

    let mut again = ring.join("w1", 100);
    let left =
        [next(&mut again).await.position, next(&mut again).await.position, next(&mut again).await.position];
    assert_eq!(left.map(punctual::bucket::Position::offset), [2, 3, 4]);
    for at in left {
        again.offsets().complete(at, schedule.keep_bad_notice());
    }
    // Stored by the last act of leaving, without any wait.
    assert_eq!(again.leave(SOON).await, Left::Cleanly);
    assert_eq!(ring.committed(Channel::Now, 0), Some(5));
    ring.remove().await;
}

#[tokio::test]
async fn two_members_share_every_minute_and_records_of_what_moved_are_not_current() {
    let ring = TestRing::new().await;
    let now = Host.wall();
    ring.publish(&[envelope(Channel::Now, 0, notice(1, now)), envelope(Channel::Now, 1, notice(2, now))])
        .await;
    let mut first = ring.join("w1", 100);
    assert_eq!(next_event(&mut first).await, RingEvent::Assigned(122));
    let held = [next(&mut first).await, next(&mut first).await];
    assert!(held.iter().all(|taken| first.offsets().is_current(taken.position)));

    let mut second = ring.join("w2", 100);
    assert_eq!(next_event(&mut first).await, RingEvent::Revoked(122));
    assert_eq!(next_event(&mut first).await, RingEvent::Assigned(61), "one partition of every minute");
    assert_eq!(next_event(&mut second).await, RingEvent::Assigned(61));
    assert!(held.iter().all(|taken| !first.offsets().is_current(taken.position)));
    // Not complete, so both are read again, each by whoever has its partition now.
    let (one, other) = (next(&mut first).await, next(&mut second).await);
    assert_ne!(one.position.partition(), other.position.partition());
    assert_eq!(first.leave(SOON).await, Left::Cleanly);

    // Static membership: back within the session, under the same name, nobody is disturbed.
    let mut back = ring.join("w1", 100);
    assert_eq!(next_event(&mut back).await, RingEvent::Assigned(61));
    assert!(second.events.try_recv().is_err());
    assert_eq!(back.leave(SOON).await, Left::Cleanly);
    assert_eq!(second.leave(SOON).await, Left::Cleanly);
    ring.remove().await;
}

/// The client library keeps a pause with the partition: nobody had said that it is over.
#[tokio::test]
async fn a_partition_whose_bucket_opened_at_another_member_delivers_when_it_comes_back() {
    let mut ring = TestRing::new().await;
    ring.kafka.session_timeout = std::time::Duration::from_secs(6);
    let minute = "2026-11-29T14:40:00Z".parse::<DateTime<Utc>>().expect("an instant");
    ring.clock.set(minute - TimeDelta::minutes(10));
    let mut first = ring.join("slot-1", 100);
    assert_eq!(next_event(&mut first).await, RingEvent::Assigned(122));
    let second = ring.join("slot-2", 100);
    assert_eq!(next_event(&mut first).await, RingEvent::Revoked(122));
    assert_eq!(next_event(&mut first).await, RingEvent::Assigned(61));

    ring.clock.set(minute);
    let bucket = Channel::Ring(Slot::of(minute));
    let staged = [0, 1].map(|n| {
        let partition = i32::try_from(n).expect("small");
        envelope(bucket, partition, notice(n, minute + TimeDelta::seconds(5)))
    });
    // Its partitions come back when its session ends.
    assert_eq!(second.leave(SOON).await, Left::Cleanly);
    assert_eq!(next_event(&mut first).await, RingEvent::Revoked(61));
    assert_eq!(next_event(&mut first).await, RingEvent::Assigned(122));
    ring.publish(&staged).await;
    let got = [payment(&next(&mut first).await), payment(&next(&mut first).await)];
    assert!(staged.iter().all(|it| got.contains(&it.staged.notice.payment)), "{got:?}");
    first.leave(SOON).await;
    ring.remove().await;
}

#[tokio::test]
async fn a_second_process_under_the_same_slot_name_ends_the_first() {
    let ring = TestRing::new().await;
    let mut first = ring.join("w1", 100);
    assert_eq!(next_event(&mut first).await, RingEvent::Assigned(122));
    let mut second = ring.join("w1", 100);
    assert_eq!(next_event(&mut second).await, RingEvent::Assigned(122));
    eventually("the first to end", SOON, || {
        let ended = matches!(first.events.try_recv(), Ok(RingEvent::Replaced));
        std::future::ready(ended.then_some(()))
    })
    .await;
    assert!(!first.health().is_up());
    assert_eq!(first.leave(SOON).await, Left::Cleanly);
    assert_eq!(second.leave(SOON).await, Left::Cleanly);
    ring.remove().await;
}

#[tokio::test]
async fn of_a_batch_exactly_the_records_that_did_not_arrive_are_named() {
    let ring = TestRing::new().await;
    let now = Host.wall();
    // There is no partition 7.
    let batch = [0, 7, 1, 7].map(|partition| envelope(Channel::Now, partition, notice(1, now)));
    let failed = ring.relay.publish(&batch).await.expect_err("two of four");
    assert_eq!((failed.indexes.as_slice(), failed.of), ([1, 3].as_slice(), 4));
    assert!(failed.to_string().starts_with("2 of 4 records were not acknowledged"), "{failed}");
    let mut member = ring.join("w1", 100);
    let partitions =
        [next(&mut member).await, next(&mut member).await].map(|taken| taken.position.partition());
    assert!(partitions == [0, 1] || partitions == [1, 0], "{partitions:?}");
    assert_eq!(member.leave(SOON).await, Left::Cleanly);
    ring.remove().await;
}

#[tokio::test]
async fn a_tool_that_knows_nothing_of_us_reads_the_notices() {
    let ring = TestRing::new().await;
    let sent = envelope(Channel::Now, 1, notice(1, Host.wall()));
    ring.publish(std::slice::from_ref(&sent)).await;
    let mut kcat = tokio::process::Command::new("kcat");
    kcat.args([
        "-q",
        "-C",
        "-e",
        "-o",
        "beginning",
        "-f",
        "%k|%p|%h|%s\n",
        "-b",
        &ring.kafka.bootstrap_servers,
    ]);
    kcat.args(["-t", &ring.topic(Channel::Now)]);
    let said = match kcat.output().await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("LEFT OUT: kcat is not installed");
            return ring.remove().await;
        }
        said => said.expect("kcat runs"),
    };
    let said = String::from_utf8(said.stdout).expect("text");
    let minute = place::label(sent.staged.notice.not_before);
    let id = sent.staged.notice.payment;
    assert!(said.starts_with(&format!("{id}|1|bucket={minute},not-before=")), "{said}");
    assert!(said.contains(&format!("\"paymentId\":\"{id}\"")), "{said}");
    ring.remove().await;
}
