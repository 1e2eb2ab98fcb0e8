//! Create, find, cancel.

use super::world::{ACTOR, World};
use chrono::TimeDelta;
use punctual::domain::ids::ActorId;
use punctual::domain::state::Status;
use punctual::schedule::{CancelAnswer, CreateAnswer, Schedule, ShardLease};
use std::time::Duration;
use uuid::Uuid;

#[tokio::test]
async fn a_payment_is_created_with_its_history_and_notice_and_found_by_its_owner_only() {
    let world = World::new().await;
    let new = world.payment("k1", world.now().await + TimeDelta::minutes(1));
    let CreateAnswer::Created(view) = world.api.create(&new).await.expect("created") else {
        panic!("created")
    };
    assert_eq!(
        (view.payment.id, view.payment.status, view.payment.history_seq),
        (new.id, Status::Pending, 1)
    );

    let found = world.api.find(ACTOR, new.id).await.expect("found").expect("exists");
    assert_eq!(found.payment, view.payment);
    assert_eq!((found.description, found.metadata), (new.description.clone(), new.metadata.clone()));
    let other = ActorId(Uuid::from_u128(0xB2));
    assert!(world.api.find(other, new.id).await.expect("an answer").is_none());
    assert!(matches!(world.api.cancel(other, new.id).await.expect("an answer"), CancelAnswer::NotFound));

    let shard = ShardLease { residue: 0, partitions: 1, holder: "r".into(), epoch: 1 };
    let staged = world.worker.stage(&shard, Duration::from_secs(90), 10).await.expect("staged");
    assert_eq!(staged.notices.len(), 1);
    assert_eq!(staged.notices[0].notice.payment, new.id);
}

#[tokio::test]
async fn a_key_replays_its_own_request_and_names_what_differs_in_another() {
    let world = World::new().await;
    let new = world.payment("k1", world.now().await + TimeDelta::minutes(1));
    world.create(&new).await;
    let CreateAnswer::Replayed(view) = world.api.create(&new).await.expect("an answer") else {
        panic!("replayed")
    };
    assert_eq!(view.payment.id, new.id);

    let mut other = new.clone();
    other.request_hash = [8; 32];
    other.field_digests.insert("/amount".into(), "other".into());
    other.field_digests.insert("/externalId".into(), "new".into());
    match world.api.create(&other).await.expect("an answer") {
        CreateAnswer::KeyReused { payment, status, differs } => {
            assert_eq!((payment, status), (new.id, Status::Pending));
            assert_eq!(differs, ["/amount", "/externalId"]);
        }
        answer => panic!("{answer:?}"),
    }
    let replay = |key: &'static str| world.api.replay(ACTOR, key, &new.request_hash, &new.field_digests);
    assert!(matches!(replay("k1").await.expect("an answer"), Some(CreateAnswer::Replayed(_))));
    assert!(replay("k2").await.expect("an answer").is_none());
    assert_eq!(world.one::<i64>("SELECT count(*) FROM idempotency_keys").await, 1);
}

#[tokio::test]
async fn concurrent_duplicates_create_one_payment() {
    let world = World::new().await;
    let new = world.payment("k1", world.now().await + TimeDelta::minutes(1));
    let tries = (0..12).map(|_| {
        let (api, new) = (world.api.clone(), new.clone());
        tokio::spawn(async move { api.create(&new).await.expect("an answer") })
    });
    let mut created = 0;
    for answer in futures_util::future::join_all(tries).await {
        match answer.expect("no panic") {
            CreateAnswer::Created(_) => created += 1,
            CreateAnswer::Replayed(view) => assert_eq!(view.payment.id, new.id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(created, 1);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM payment_history").await, 1);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM due_notices").await, 1);
}

#[tokio::test]
async fn a_taken_external_id_leaves_nothing_behind_and_is_free_again_after_a_cancel() {
    let world = World::new().await;
    let due_at = world.now().await + TimeDelta::minutes(1);
    let mut one = world.payment("k1", due_at);
    one.external_id = Some("order-1".into());
    let mut two = world.payment("k2", due_at);
    two.external_id = Some("order-1".into());
    world.create(&one).await;
    match world.api.create(&two).await.expect("an answer") {
        CreateAnswer::ExternalIdTaken { payment } => assert_eq!(payment, one.id),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.one::<i64>("SELECT count(*) FROM idempotency_keys").await, 1);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM payments").await, 1);
    let cancelled = world.api.cancel(ACTOR, one.id).await.expect("an answer");
    assert!(matches!(cancelled, CancelAnswer::Cancelled(_)));
    world.create(&two).await;
}

#[tokio::test]
async fn a_day_without_a_partition_is_not_ready_and_the_key_stays_free() {
    let world = World::new().await;
    let mut far = world.payment("k1", world.now().await + TimeDelta::days(60));
    assert!(matches!(world.api.create(&far).await.expect("an answer"), CreateAnswer::DayNotReady));
    let near = world.payment("k1", world.now().await + TimeDelta::days(1));
    (far.id, far.due_at) = (near.id, near.due_at);
    world.create(&far).await;
}

#[tokio::test]
async fn a_cancel_answers_the_same_again_and_is_refused_once_claimed() {
    let world = World::new().await;
    let ahead = world.payment("k1", world.now().await + TimeDelta::minutes(1));
    world.create(&ahead).await;
    for seq in [2, 2] {
        match world.api.cancel(ACTOR, ahead.id).await.expect("an answer") {
            CancelAnswer::Cancelled(view) => {
                assert_eq!((view.payment.status, view.payment.history_seq), (Status::Cancelled, seq));
            }
            other => panic!("{other:?}"),
        }
    }
    let due = world.due("k2").await;
    let _claimed = world.claim_one(&due).await;
    match world.api.cancel(ACTOR, due.payment).await.expect("an answer") {
        CancelAnswer::Refused(view) => {
            assert_eq!(view.payment.status, Status::Processing);
            assert_eq!(view.attempts.len(), 1);
            assert!(view.first_claimed_at.is_some());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_create_for_a_day_long_past_lowers_the_bound_of_the_scans() {
    let world = World::new().await;
    world.run("SELECT ensure_partitions(current_date - 9, current_date - 9)").await;
    world.worker.advance_oldest_open_day().await.expect("advanced");
    let new = world.payment("k1", world.now().await - TimeDelta::days(9));
    world.create(&new).await;
    let day = world.worker.advance_oldest_open_day().await.expect("an answer");
    assert_eq!(day, new.id.due_day());
    let late = world
        .worker
        .claim_late(&super::world::terms(), Duration::from_secs(15), &[], &super::world::fresh(1))
        .await
        .expect("an answer");
    assert_eq!(late.len(), 1);
}
