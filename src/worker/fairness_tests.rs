//! Whom a crowd may keep waiting, on virtual time: not another gateway's payments, and not another
//! actor's.

use super::lab::{Act, ScriptedGateway, payment, sandbox_profile};
use super::run_tests::Rig;
use crate::bucket::{Feed, Order, Read, Ring, Taken};
use crate::domain::bucket::{Channel, Slot};
use crate::domain::guard::CancelGuard;
use crate::domain::ids::{GatewayName, PaymentId};
use crate::domain::notice::Notice;
use crate::domain::payment::Payment;
use crate::domain::state::Status;
use crate::gateway::{Gateway, Profile};
use crate::platform::clock::{Clock, SharedClock};
use chrono::{DateTime, TimeDelta, Utc};
use secrecy::SecretString;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The number-th payment, overdue by so much, of this actor's lane.
fn add(rig: &Rig, number: u32, gateway: &str, lane: i16, due_at: DateTime<Utc>) -> PaymentId {
    let mut bits = [0; 10];
    bits[6..].copy_from_slice(&number.to_be_bytes());
    let id = PaymentId::new(due_at, bits).unwrap();
    let made = Payment {
        id,
        lane,
        gateway: GatewayName(gateway.into()),
        ..payment(0, due_at, rig.world.now() - TimeDelta::days(1))
    };
    rig.world.memory.add(made, SecretString::from("acct_1"));
    id
}

fn ago(rig: &Rig, ms: i64) -> DateTime<Utc> {
    rig.world.now() - TimeDelta::milliseconds(ms)
}

#[test]
fn without_kafka_one_actor_s_backlog_does_not_keep_another_s_ten_waiting() {
    let rig = Rig::new();
    // Sixteen slots and a second a call: nineteen seconds of one actor, all of it older than the others.
    let crowd: Vec<_> =
        (0..300).map(|n| add(&rig, n, "sandbox", 1, ago(&rig, 60_000 - i64::from(n)))).collect();
    let few: Vec<_> = (300..310).map(|n| add(&rig, n, "sandbox", 2, ago(&rig, 1_000))).collect();
    let third = add(&rig, 310, "sandbox", 3, ago(&rig, 1_000));
    for _ in 0..400 {
        rig.world.gateway.will(Act::Charge, Duration::from_secs(1));
    }
    rig.run(|time| async move { time.sleep(Duration::from_secs(26)).await });
    let ledger = rig.world.gateway.ledger();
    let began = ledger[0].at;
    let turn = |id: &PaymentId| ledger.iter().position(|line| line.payment == *id).expect("it was asked for");
    for id in few.iter().chain([&third]) {
        let waited = ledger[turn(id)].at - began;
        assert!(waited <= TimeDelta::seconds(4), "{waited}");
    }
    // The crowd loses what the others had, and no more.
    assert!(ledger[turn(&crowd[299])].at - began <= TimeDelta::seconds(22));
    let turns: Vec<_> = crowd.iter().map(turn).collect();
    for (place, turn) in turns.iter().enumerate() {
        let older_later = turns[..place].iter().filter(|other| *other > turn).count();
        assert!(older_later <= 16, "number {place}: {older_later} older ones of its lane went after it");
    }
    assert!(rig.world.memory.payments().iter().all(|row| row.status == Status::Completed));
}

/// What is to be handed out, in the order of its partition.
struct Partition {
    channel: Channel,
    left: VecDeque<Notice>,
}

/// Plays broker and polling thread for one member, for as long as it is there.
async fn feed(clock: SharedClock, feed: Feed, mut parts: Vec<Partition>) {
    let all: Vec<_> = parts.iter().map(|part| (part.channel, 0)).collect();
    feed.assign(&all);
    let mut offset = 0;
    while feed.order() != Order::Gone {
        feed.polled();
        feed.answered();
        for part in &mut parts {
            let waits = feed.minutes_wait() && part.channel != Channel::Now;
            while !waits
                && !part.left.is_empty()
                && let Ok(place) = feed.records.try_reserve()
                && let Some(notice) = part.left.pop_front()
            {
                let position = feed.offsets().lock().taken(part.channel, 0, offset).expect("ours");
                offset += 1;
                let read = Read { notice, mac: None, traceparent: None };
                place.send(Taken { position, record: Ok(read), sent_at: None });
            }
        }
        clock.sleep(Duration::from_millis(1)).await;
    }
}

fn notice(rig: &Rig, id: PaymentId) -> Notice {
    let row = rig.world.memory.payment(id).expect("it was added");
    let (due_at, not_before) = (row.due_at, row.next_attempt_at);
    Notice { payment: id, gateway: row.gateway, lane: row.lane, due_at, not_before, attempt: 0 }
}

struct Ran {
    rig: Rig,
    fast: Arc<ScriptedGateway>,
}

/// A worker with two gateways and a hold for 400, for so long; `fast` answers at once, the other one takes
/// five seconds. What Kafka has for it lies in these partitions.
fn two_gateways(rig: Rig, parts: Vec<Partition>, length: Duration) -> Ran {
    let clock: SharedClock = Arc::new(rig.world.time.clone());
    let profile = Profile { name: GatewayName("fast".into()), ..sandbox_profile() };
    rig.world.memory.register_gateway(&profile.name, profile.void_support());
    let fast = Arc::new(ScriptedGateway::new(profile, Arc::clone(&clock), Arc::clone(&clock)));
    for _ in 0..1_000 {
        rig.world.gateway.will(Act::Charge, Duration::from_secs(5));
    }
    let parts = Mutex::new(Some(parts));
    let mut worker = rig.parts(&clock);
    worker.settings.max_held = 400;
    worker.gateways.push(fast.clone() as Arc<dyn Gateway>);
    worker.join = Box::new(move || {
        let (ring, fed) = Ring::simulated(Arc::clone(&clock), 24);
        tokio::spawn(feed(Arc::clone(&clock), fed, parts.lock().unwrap().take().expect("joined once")));
        Box::pin(async { Ok(ring) })
    });
    rig.run_with(worker, |time| async move { time.sleep(length).await });
    Ran { rig, fast }
}

fn latest(ran: &Ran, ids: &[PaymentId]) -> TimeDelta {
    let ledger = ran.fast.ledger();
    let late = |id: &PaymentId| {
        let line = ledger.iter().find(|line| line.payment == *id);
        line.map_or(TimeDelta::MAX, |line| line.at - ran.rig.world.memory.payment(*id).expect("added").due_at)
    };
    ids.iter().map(late).max().expect("some")
}

#[test]
fn twenty_thousand_notices_of_a_slow_gateway_do_not_keep_two_hundred_of_a_fast_one_waiting() {
    let rig = Rig::new();
    let due = rig.world.now() + TimeDelta::seconds(3);
    let slow = (0..20_000).map(|n| add(&rig, n, "sandbox", 1, due));
    let mut left: VecDeque<_> = slow.map(|id| notice(&rig, id)).collect();
    let fast: Vec<_> =
        (0..200).map(|n| add(&rig, 50_000 + n, "fast", 2, due + TimeDelta::milliseconds(500))).collect();
    left.extend(fast.iter().map(|id| notice(&rig, *id)));
    let channel = Channel::Ring(Slot::of(due));
    let ran = two_gateways(rig, vec![Partition { channel, left }], Duration::from_secs(14));
    let latest = latest(&ran, &fast);
    assert!(latest <= TimeDelta::seconds(2), "{latest}");
    // Sixteen at once, every five seconds: the slow one goes on meanwhile.
    assert!(ran.rig.world.gateway.ledger().len() >= 32);
}

#[test]
fn what_was_cancelled_at_a_slow_gateway_does_not_stay_in_the_hold() {
    let rig = Rig::new();
    let due = rig.world.now() + TimeDelta::seconds(3);
    let slow: Vec<_> = (0..3_000).map(|n| add(&rig, n, "sandbox", 1, due)).collect();
    let mut left: VecDeque<_> = slow.iter().map(|id| notice(&rig, *id)).collect();
    for id in &slow {
        assert_eq!(rig.world.memory.cancel(*id), Some(CancelGuard::Win));
    }
    // Open payments of the same gateway take its slots first.
    let open = (0..16).map(|n| add(&rig, 40_000 + n, "sandbox", 1, due - TimeDelta::seconds(1)));
    open.map(|id| notice(&rig, id)).for_each(|first| left.push_front(first));
    let fast: Vec<_> =
        (0..200).map(|n| add(&rig, 50_000 + n, "fast", 2, due + TimeDelta::milliseconds(500))).collect();
    left.extend(fast.iter().map(|id| notice(&rig, *id)));
    let channel = Channel::Ring(Slot::of(due));
    let ran = two_gateways(rig, vec![Partition { channel, left }], Duration::from_secs(7));
    let latest = latest(&ran, &fast);
    assert!(latest <= TimeDelta::seconds(2), "{latest}");
}

#[test]
fn what_was_made_a_moment_ago_does_not_stand_behind_a_minute_that_fills_the_hold() {
    let rig = Rig::new();
    // All of it due in 50 s, and nothing of it can be left to the late scan before.
    let ahead = rig.world.now() + TimeDelta::seconds(50);
    let crowd = (0..5_000).map(|n| add(&rig, n, "sandbox", 1, ahead));
    let crowd: VecDeque<_> = crowd.map(|id| notice(&rig, id)).collect();
    let soon = rig.world.now() + TimeDelta::seconds(4);
    let fast: Vec<_> = (0..200).map(|n| add(&rig, 50_000 + n, "fast", 1, soon)).collect();
    let now = fast.iter().map(|id| notice(&rig, *id)).collect();
    let parts = vec![
        Partition { channel: Channel::Ring(Slot::of(ahead)), left: crowd },
        Partition { channel: Channel::Now, left: now },
    ];
    let ran = two_gateways(rig, parts, Duration::from_secs(10));
    let latest = latest(&ran, &fast);
    assert!(latest <= TimeDelta::seconds(1), "{latest}");
}

#[test]
fn notices_of_a_gateway_that_is_not_served_here_are_left_to_others_as_soon_as_they_are_due() {
    let rig = Rig::new();
    let due = rig.world.now() + TimeDelta::seconds(3);
    let others = (0..2_000).map(|n| add(&rig, n, "elsewhere", 1, due));
    let mut left: VecDeque<_> = others.map(|id| notice(&rig, id)).collect();
    let fast: Vec<_> = (0..50).map(|n| add(&rig, 50_000 + n, "fast", 2, due)).collect();
    left.extend(fast.iter().map(|id| notice(&rig, *id)));
    let channel = Channel::Ring(Slot::of(due));
    let ran = two_gateways(rig, vec![Partition { channel, left }], Duration::from_secs(8));
    let latest = latest(&ran, &fast);
    assert!(latest <= TimeDelta::seconds(1), "{latest}");
    let untouched = |row: &&Payment| row.gateway.0 == "elsewhere" && row.status == Status::Pending;
    assert_eq!(ran.rig.world.memory.payments().iter().filter(untouched).count(), 2_000);
}
