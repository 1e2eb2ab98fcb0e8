//! Renewals on virtual time: a gateway slower than the lease, and what ends them.

use super::*;
use crate::domain::guard::CancelGuard;
use crate::domain::state::Status;
use crate::gateway::Profile;
use crate::keeper::{Next, Reaper, Tick};
use crate::platform::clock::Clock;
use crate::schedule::{Fault, Verb};
use crate::worker::lab::{Act, Hand, World, lease, sandbox_profile};
use futures_util::join;

const SECOND: Duration = Duration::from_secs(1);

/// Calls of up to 100 s, under leases of 30 s.
fn slow_world() -> World {
    World::with(Profile { total_timeout: 100 * SECOND, renews_lease: true, ..sandbox_profile() })
}

fn renewing(world: &World, name: &str, seed: u64) -> Hand {
    let mut hand = world.hand(name, seed);
    hand.step.lease.gateway_total = renewal_interval(hand.step.lease.length);
    hand.step.renewals = Some(Arc::new(Renewals::new(hand.step.lease.length, 100 * SECOND)));
    hand
}

/// Presents what is due, with a reaper that looks every second, until both are done.
fn present(world: &mut World, hand: &Hand, reaps_for: u32) -> u32 {
    let records = world.deliver().into_iter().map(|record| (record, None)).collect();
    let mut reaper = Reaper { schedule: Arc::clone(&world.memory), margin: lease().margin, batch: 10 };
    let (time, memory) = (world.time.clone(), Arc::clone(&world.memory));
    let watch = async {
        let mut expired = 0;
        for _ in 0..reaps_for {
            time.sleep(SECOND).await;
            assert_eq!(reaper.tick().await.unwrap(), Next::Later);
            expired += memory.payments().iter().filter(|row| row.status == Status::Unknown).count();
        }
        u32::try_from(expired).unwrap()
    };
    world.time.run(async { join!(hand.step.present(records), watch).1 })
}

#[test]
fn a_call_of_80_seconds_under_leases_of_30_is_one_attempt_and_nobody_is_asked_about_it() {
    let mut world = slow_world();
    let hand = renewing(&world, "w1", 1);
    let id = world.add(1, 0);
    world.gateway.will(Act::Charge, 80 * SECOND);
    assert_eq!(present(&mut world, &hand, 120), 0, "it was taken away");
    assert_eq!(world.status(id), Status::Completed);
    assert_eq!(world.memory.attempts(id).len(), 1);
    world.check();
}

#[test]
fn a_void_of_80_seconds_is_watched_over_as_a_charge_is() {
    let slow = Profile { total_timeout: 100 * SECOND, renews_lease: true, ..sandbox_profile() };
    let mut world = World::with(Profile { voids_by_key: true, ..slow });
    let hand = renewing(&world, "w1", 1);
    let id = world.add(1, 0);
    world.gateway.will(Act::Lose, SECOND);
    present(&mut world, &hand, 3);
    assert_eq!(world.memory.cancel(id), Some(CancelGuard::Wish));
    world.gateway.voids_take(80 * SECOND);
    assert_eq!(present(&mut world, &hand, 120), 0, "it was taken away");
    assert_eq!((world.status(id), world.memory.attempts(id).len()), (Status::Cancelled, 2));
    world.check();
}

#[test]
fn without_renewals_the_same_call_is_taken_away() {
    let mut world = slow_world();
    let mut hand = renewing(&world, "w1", 1);
    hand.step.renewals = None;
    let id = world.add(1, 0);
    world.gateway.will(Act::Charge, 80 * SECOND);
    assert!(present(&mut world, &hand, 120) > 0);
    assert_eq!(world.status(id), Status::Unknown);
    assert!(world.memory.attempts(id)[0].fenced, "its answer came after its claim");
}

#[test]
fn one_statement_renews_all_open_claims_and_one_failure_is_made_up_for() {
    let mut world = slow_world();
    let hand = renewing(&world, "w1", 1);
    for number in 1..=5 {
        world.add(number, 0);
        world.gateway.will(Act::Charge, 50 * SECOND);
    }
    let asked = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&asked);
    world.memory.inject(move |verb| match verb {
        Verb::Renew => {
            let mut asked = counted.lock().unwrap();
            *asked += 1;
            if *asked == 1 { Fault::ErrorBefore } else { Fault::None }
        }
        _ => Fault::None,
    });
    assert_eq!(present(&mut world, &hand, 60), 0);
    assert!(world.memory.payments().iter().all(|row| row.status == Status::Completed));
    // At 10 s in vain, at 12.5 s, and every 10 s from there.
    assert_eq!(*asked.lock().unwrap(), 5);
    world.check();
}

#[test]
fn a_process_that_stood_still_for_half_a_lease_renews_nothing_more() {
    let mut world = slow_world();
    let hand = renewing(&world, "w1", 1);
    let id = world.add(1, 0);
    world.gateway.will(Act::Charge, 90 * SECOND);
    let records = world.deliver().into_iter().map(|record| (record, None)).collect();
    let mut reaper = Reaper { schedule: Arc::clone(&world.memory), margin: lease().margin, batch: 10 };
    let (time, memory) = (world.time.clone(), Arc::clone(&world.memory));
    let stands_still = async {
        time.sleep(15 * SECOND).await;
        // The next renewal was due at 20 s.
        time.jump(21 * SECOND);
        let until = memory.holding(id).unwrap().lease_until;
        time.sleep(10 * SECOND).await;
        assert_eq!(memory.holding(id).unwrap().lease_until, until, "it was renewed after all");
        reaper.tick().await.unwrap();
        assert_eq!(memory.payment(id).unwrap().status, Status::Unknown);
    };
    world.time.run(async { join!(hand.step.present(records), stands_still) });
    assert!(world.memory.attempts(id)[0].fenced);
    // Asked again, it is one charge.
    let second = renewing(&world, "w2", 2);
    present(&mut world, &second, 1);
    assert_eq!(world.status(id), Status::Completed);
    world.check();
}

#[test]
fn a_slow_look_up_leaves_time_to_send_and_a_lost_claim_sends_nothing() {
    for is_taken_away in [false, true] {
        let mut world = slow_world();
        let hand = renewing(&world, "w1", 1);
        let id = world.add(1, 0);
        world.gateway.will(Act::Lose, SECOND);
        present(&mut world, &hand, 1);
        assert_eq!(world.status(id), Status::Unknown);
        world.time.jump(8 * SECOND);
        world.gateway.lookups_take(60 * SECOND);
        let records = world.deliver().into_iter().map(|record| (record, None)).collect();
        let (time, memory) = (world.time.clone(), Arc::clone(&world.memory));
        let taken_away = async {
            // The renewal of 50 s finds it.
            time.sleep(45 * SECOND).await;
            if is_taken_away {
                memory.take_away(id);
            }
        };
        world.time.run(async { join!(hand.step.present(records), taken_away) });
        let expected = if is_taken_away { (Status::Unknown, 0) } else { (Status::Completed, 1) };
        assert_eq!((world.status(id), world.gateway.charges(id)), expected);
        world.check();
    }
}

#[test]
fn past_the_call_s_own_time_out_nothing_is_renewed() {
    let renewals = Arc::new(Renewals::new(30 * SECOND, 15 * SECOND));
    let world = World::new();
    let id = world.add(1, 0);
    let claim_id = ClaimId(uuid::Uuid::from_u128(1));
    let row = world.memory.payment(id).unwrap();
    let claimed = Claimed::for_tests(row, "payee".into(), claim_id, Status::Pending, at(0), None);
    let watched = renewals.watch(&claimed);
    assert!(renewals.due(at(100)).is_empty(), "no call has begun");
    watched.calls(at(1));
    assert!(renewals.due(at(10)).is_empty());
    assert_eq!(renewals.due(at(11)).len(), 1);
    assert!(renewals.due(at(11)).is_empty(), "somebody else has it");
    assert_eq!(renewals.pause(at(12)), 9 * SECOND);
    assert!(renewals.due(at(21)).is_empty(), "the call's own time is over");
    let full = Lease { length: 30 * SECOND, margin: 5 * SECOND, gateway_total: 10 * SECOND };
    assert_eq!(watched.send_before(&full), at(15));
    let open = OpenClaim { payment: id, fence: claimed.payment().fence, claim_id };
    renewals.told(&[open], &[Renewed::Held], at(11));
    assert_eq!(watched.send_before(&full), at(26));
    renewals.told(&[open], &[Renewed::Lost], at(12));
    assert_eq!(watched.send_before(&full), at(0));
    drop(watched);
    assert!(renewals.open().calls.is_empty());
}

fn at(second: u32) -> Mono {
    Mono(SECOND * second)
}
