//! Several workers at one account on virtual time: its rate, with one of them dying, and its breaker.

use super::lab::{Act, SeededDice, World, payment, sandbox_profile};
use super::run_tests::Rig;
use super::*;
use crate::domain::ids::{GatewayName, PaymentId, WorkerName};
use crate::domain::pace::Breaker;
use crate::domain::state::Status;
use crate::domain::verdict::NotSent;
use crate::gateway::{Pacing, Profile};
use crate::platform::clock::{Clock, SharedClock};
use crate::schedule::{Fault, Verb};
use chrono::{DateTime, TimeDelta, Utc};
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;

const WORKERS: u64 = 3;

fn rig(rate: u32) -> Rig {
    let profile = Profile { pacing: Pacing { rate, ..Pacing::default() }, ..sandbox_profile() };
    Rig::in_world(World::with(profile))
}

fn add(rig: &Rig, number: u32, due_at: DateTime<Utc>) -> PaymentId {
    let mut bits = [0; 10];
    bits[6..].copy_from_slice(&number.to_be_bytes());
    let id = PaymentId::new(due_at, bits).unwrap();
    let made = crate::domain::payment::Payment { id, ..payment(0, due_at, rig.world.now()) };
    rig.world.memory.add(made, SecretString::from("acct_1"));
    id
}

/// Three workers in direct mode for so long, `beside` something else; the last one dies at `dies_after`.
fn run(rig: &Rig, lasts: Duration, dies_after: Duration, beside: impl Future<Output = ()>) {
    let time = rig.world.time.clone();
    let clock: SharedClock = Arc::new(time.clone());
    rig.world.time.block_on(async {
        let workers = (1..=WORKERS).map(|number| {
            let mut parts = rig.parts(&clock);
            parts.name = WorkerName(format!("w{number}/1"));
            parts.dice = Arc::new(SeededDice::new(number));
            let lives = if number == WORKERS { dies_after } else { lasts };
            let (worker, ..) = Worker::new(parts);
            let dies = time.sleep(lives);
            async move {
                // Dropped at whatever await it stands, with everything in it.
                let never = std::future::pending();
                tokio::select! {
                    biased;
                    () = dies => {}
                    ended = worker.run(never) => panic!("{ended:?}"),
                }
            }
        });
        futures_util::join!(futures_util::future::join_all(workers), beside);
    });
}

#[test]
fn three_workers_keep_one_rate_over_any_ten_seconds_although_one_of_them_dies() {
    const RATE: usize = 40;
    let rig = rig(40);
    let began = rig.world.now();
    for number in 0..1_400 {
        add(&rig, number, began);
    }
    for _ in 0..1_400 {
        rig.world.gateway.will(Act::Charge, Duration::from_millis(30));
    }
    run(&rig, Duration::from_secs(30), Duration::from_secs(14), async {});
    let sent: Vec<_> = rig.world.gateway.ledger().iter().map(|line| line.at).collect();
    let mut counts = Vec::new();
    for start_ms in (1_000..20_000).step_by(50) {
        let from = began + TimeDelta::milliseconds(start_ms);
        counts.push(sent.iter().filter(|at| **at >= from && **at < from + TimeDelta::seconds(10)).count());
    }
    let (fewest, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*fewest >= RATE * 95 / 10 && *most <= RATE * 105 / 10, "{fewest} to {most}");
}

#[test]
fn a_beat_whose_connection_is_dead_is_given_up_and_the_next_one_is_sent() {
    let rig = rig(40);
    let mut beats = 0;
    rig.world.memory.inject(move |verb| match verb {
        Verb::Beat => {
            beats += 1;
            if beats == 3 { Fault::Slow(Duration::from_secs(900)) } else { Fault::None }
        }
        _ => Fault::None,
    });
    let began = rig.world.now();
    let ids: Vec<_> = (0..10).map(|n| add(&rig, n, began + TimeDelta::seconds(3))).collect();
    rig.run(|time| async move { time.sleep(Duration::from_secs(10)).await });
    assert!(ids.iter().all(|id| rig.world.status(*id) == Status::Completed));
}

#[test]
fn while_a_gateway_refuses_one_call_at_a_time_finds_out_and_nobody_is_charged_a_send_for_it() {
    let rig = rig(0);
    let began = rig.world.now();
    let ids: Vec<_> =
        (0..300).map(|n| add(&rig, n, began + TimeDelta::milliseconds(i64::from(n) * 150))).collect();
    for _ in 0..2_000 {
        rig.world.gateway.will(Act::NotSent(NotSent::Refused), Duration::ZERO);
    }
    let time = rig.world.time.clone();
    let mut opened_at = None;
    let until_healed = async {
        while time.wall() < began + TimeDelta::seconds(25) {
            let pace = rig.world.memory.pace(&GatewayName("sandbox".into()));
            if pace.is_some_and(|pace| pace.breaker != Breaker::Closed) {
                opened_at = opened_at.or_else(|| Some(time.wall()));
            }
            time.sleep(Duration::from_millis(10)).await;
        }
        rig.world.gateway.heal();
    };
    run(&rig, Duration::from_secs(100), Duration::from_secs(100), until_healed);
    let opened_at = opened_at.expect("it opened");
    let healed_at = began + TimeDelta::seconds(25);
    let mut tried = 0;
    let mut probes = Vec::new();
    for id in &ids {
        let attempts = rig.world.memory.attempts(*id);
        tried += usize::from(attempts.len() > 1);
        let while_open = |at: &DateTime<Utc>| *at > opened_at + TimeDelta::seconds(1) && *at < healed_at;
        probes.extend(attempts.iter().map(|attempt| attempt.claimed_at).filter(while_open));
        let row = rig.world.memory.payment(*id).expect("it exists");
        assert_eq!(
            (row.status, row.sends, rig.world.gateway.charges(*id)),
            (Status::Completed, 1, 1),
            "{row:?}"
        );
    }
    probes.sort();
    assert!((2..=6).contains(&probes.len()), "opened {opened_at}, claims {probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= TimeDelta::milliseconds(900)), "{probes:?}");
    assert!(tried < 60, "{tried} of 300 were tried in vain; the others waited");
}
