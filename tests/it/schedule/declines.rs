//! Counts of declines: what a claim brings, what a settle adds once, what is forgotten.

use super::world::{ACTOR, World, answer, decision, declined, terms};
use chrono::{DurationRound, TimeDelta};
use punctual::domain::decision::{Decision, EpochChange};
use punctual::domain::declines::{DeclineCounts, destination};
use punctual::domain::ids::ActorId;
use punctual::domain::state::Status;
use punctual::domain::verdict::DeclineClass;
use punctual::schedule::{Answered, Claimed, NewPayment, Schedule, SettledAs};
use uuid::Uuid;

const NONE: DeclineCounts = DeclineCounts { day: 0, thirty_days: 0 };

fn counts(day: u32, thirty_days: u32) -> DeclineCounts {
    DeclineCounts { day, thirty_days }
}

/// A due payment of this payee, claimed.
async fn claimed(world: &World, key: &str, payee: &str) -> Claimed {
    let due_at = world.now().await - TimeDelta::seconds(1);
    let new = NewPayment { payee: payee.into(), ..world.payment(key, due_at) };
    world.claim_one(&world.create(&new).await).await
}

async fn settle(world: &World, outcome: (Answered, Decision)) -> SettledAs {
    let settled = world.worker.settle(vec![outcome]).await.map_err(|failed| failed.error).expect("settled");
    settled[0].result()
}

fn refused(claimed: Claimed) -> (Answered, Decision) {
    let decision = Decision { epoch: EpochChange::Next, ..decision(Status::Failed) };
    (claimed.answered(answer(declined(DeclineClass::Soft))), decision)
}

/// The same claim once more, as after a COMMIT whose answer was lost.
fn again(claimed: &Claimed) -> Claimed {
    Claimed::for_tests(
        claimed.payment().clone(),
        claimed.payee().clone(),
        claimed.claim_id(),
        claimed.was(),
        claimed.asked_at(),
        claimed.key_age(),
    )
}

#[tokio::test]
async fn a_destination_is_counted_over_payments_and_actors_once_an_attempt_and_only_its_own() {
    let world = World::new().await;
    let first = claimed(&world, "k1", "tok_1").await;
    assert_eq!(first.declines(), NONE);
    let (once, twice) = (refused(again(&first)), refused(first));
    assert_eq!(settle(&world, once).await, SettledAs::Written(Status::Failed));
    assert_eq!(settle(&world, twice).await, SettledAs::Written(Status::Failed), "written earlier");

    let due_at = world.now().await - TimeDelta::seconds(1);
    let stranger = NewPayment {
        actor: ActorId(Uuid::from_u128(0xB2)),
        payee: "tok_1".into(),
        ..world.payment("k2", due_at)
    };
    let theirs = world.claim_one(&world.create(&stranger).await).await;
    assert_ne!(theirs.payment().actor, ACTOR);
    assert_eq!(theirs.declines(), counts(1, 1), "the card is one, whoever charges it");
    assert_eq!(claimed(&world, "k3", "tok_2").await.declines(), NONE, "another payee's");

    // A late answer is a try all the same.
    world.reap(theirs.payment().id).await;
    let (late, repeated) = (refused(again(&theirs)), refused(theirs));
    assert_eq!(settle(&world, late).await, SettledAs::Fenced);
    assert_eq!(settle(&world, repeated).await, SettledAs::Fenced);
    let fourth = claimed(&world, "k4", "tok_1").await;
    assert_eq!(fourth.declines(), counts(2, 2));

    // What a claim finds, its recovery finds.
    let claim = (fourth.payment().id, fourth.claim_id());
    let ours = world.worker.recover(&terms(), &[claim]).await.expect("recovered");
    assert_eq!(ours[0].declines(), counts(2, 2));
}

#[tokio::test]
async fn hours_leave_the_windows_and_the_table_and_no_payee_is_in_it() {
    let world = World::new().await;
    for (key, hours) in [("k1", 0), ("k2", 25), ("k3", 719), ("k4", 721), ("k5", 745)] {
        let outcome = refused(claimed(&world, key, "tok_secret").await);
        settle(&world, outcome).await;
        // Away from the present hour, so that the next decline opens it anew.
        let moved = format!(
            "UPDATE destination_declines SET hour = hour - interval '{hours} hours' - interval '1000 days'
             WHERE hour > now() - interval '100 days'"
        );
        assert_eq!(world.run(&moved).await, 1);
    }
    world.run("UPDATE destination_declines SET hour = hour + interval '24000 hours'").await;
    assert_eq!(claimed(&world, "k6", "tok_secret").await.declines(), counts(1, 3));

    let name: Vec<u8> = world.one("SELECT DISTINCT destination FROM destination_declines").await;
    assert_eq!(name, destination(world.api.installation_secret(), "sandbox-1", &"tok_secret".into()));
    let hour = world.now().await.duration_trunc(TimeDelta::hours(1)).expect("an hour");
    let newest: chrono::DateTime<chrono::Utc> = world.one("SELECT max(hour) FROM destination_declines").await;
    // A test that runs over the end of an hour sees the one before.
    assert!(hour - newest <= TimeDelta::hours(1), "{newest}");

    assert_eq!(world.worker.forget_declines(0).await.expect("asked"), 0);
    assert_eq!(world.worker.forget_declines(5).await.expect("asked"), 1, "only what no window sees");
    assert_eq!(world.worker.forget_declines(5).await.expect("asked"), 0);
    assert_eq!(claimed(&world, "k7", "tok_secret").await.declines(), counts(1, 3));
}

#[tokio::test]
async fn many_at_once_lose_no_decline() {
    let world = World::new().await;
    let mut notices = Vec::new();
    for n in 0..24 {
        let due_at = world.now().await - TimeDelta::seconds(1);
        let new =
            NewPayment { payee: ["tok_1", "tok_2"][n % 2].into(), ..world.payment(&format!("k{n}"), due_at) };
        notices.push(world.create(&new).await);
    }
    let mut settles = Vec::new();
    for batch in notices.chunks(6) {
        let ours = world.claim(batch).await;
        // In each order, so that batches meet.
        let outcomes: Vec<_> = ours.into_iter().map(refused).collect();
        let worker = world.worker.clone();
        settles.push(tokio::spawn(async move {
            worker.settle(outcomes).await.map_err(|failed| failed.error).expect("settled").len()
        }));
    }
    for settled in futures_util::future::join_all(settles).await {
        assert_eq!(settled.expect("no panic"), 6);
    }
    let all: i64 = world.one("SELECT sum(declines) FROM destination_declines").await;
    assert_eq!(all, 24);
    assert_eq!(claimed(&world, "last", "tok_2").await.declines(), counts(12, 12));
}
