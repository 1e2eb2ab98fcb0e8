//! Answers lost on the way: the server acted, and we cannot know it. Each verb finds out.

use super::world::{ACTOR, World, completed, fresh, gateway, settings, terms};
use crate::support::proxy::{Fault, Proxy};
use chrono::TimeDelta;
use punctual::domain::facts::VoidSupport;
use punctual::domain::ids::ClaimId;
use punctual::domain::state::Status;
use punctual::schedule::{
    Access, CancelAnswer, CreateAnswer, Postgres, Schedule, ScheduleError, SettledAs, connect,
};

/// The schedule behind a proxy that can lose an answer.
async fn behind_a_proxy(world: &World, access: Access) -> (Postgres, Proxy) {
    let mut url = reqwest::Url::parse(&world.database.url).expect("a URL");
    let host = url.host_str().expect("a host").trim_matches(['[', ']']).to_owned();
    let port = url.port().unwrap_or(5432);
    let mut upstream = tokio::net::lookup_host((host, port)).await.expect("an address");
    let proxy = Proxy::start(upstream.next().expect("an address")).await;
    url.set_host(Some("127.0.0.1")).expect("a host can be set");
    url.set_port(Some(proxy.address.port())).expect("a port can be set");
    (connect(&settings(url.as_str()), access).await.expect("connected"), proxy)
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_asks_again_under_its_key_and_makes_one_payment() {
    let world = World::new().await;
    let (api, proxy) = behind_a_proxy(&world, Access::Api).await;
    let new = world.payment("a-key-to-be-cut", world.now().await + TimeDelta::minutes(1));
    proxy.set(Fault::CutAfter(b"a-key-to-be-cut".to_vec())).await;
    match api.create(&new).await.expect("resolved") {
        CreateAnswer::Replayed(view) => assert_eq!(view.payment.id, new.id),
        other => panic!("{other:?}"),
    }
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM payments").await, 1);
}

#[tokio::test]
async fn a_cancel_whose_commit_is_not_answered_is_unknown_and_then_the_same_again() {
    let world = World::new().await;
    let (api, proxy) = behind_a_proxy(&world, Access::Api).await;
    let new = world.payment("k1", world.now().await + TimeDelta::minutes(1));
    world.create(&new).await;
    proxy.set(Fault::CutAfter(b"COMMIT".to_vec())).await;
    let lost = api.cancel(ACTOR, new.id).await;
    assert!(matches!(lost, Err(ScheduleError::CommitUnknown(_))), "{lost:?}");
    assert_eq!(proxy.cuts(), 1);
    let again = api.cancel(ACTOR, new.id).await.expect("an answer");
    assert!(matches!(again, CancelAnswer::Cancelled(_)));
    assert_eq!(world.row(new.id).await.history_seq, 2);
}

#[tokio::test]
async fn a_wish_whose_commit_is_not_answered_is_unknown_and_then_the_same_again() {
    let world = World::new().await;
    let (api, proxy) = behind_a_proxy(&world, Access::Api).await;
    world.worker.register_gateway(&gateway(), "sandbox-1", VoidSupport::ByKey).await.expect("registered");
    let due = world.due("k1").await;
    world.claim_one(&due).await;
    world.reap(due.payment).await;
    proxy.set(Fault::CutAfter(b"COMMIT".to_vec())).await;
    let lost = api.cancel(ACTOR, due.payment).await;
    assert!(matches!(lost, Err(ScheduleError::CommitUnknown(_))), "{lost:?}");
    let wish = world.row(due.payment).await;
    assert_eq!((wish.status, wish.cancel_wish_at.is_some()), (Status::Unknown, true));
    // Also an answer that was only read stands on a commit of its own (R3). The whole message: a comment of
    // the statement before it speaks of a COMMIT too.
    proxy.set(Fault::CutAfter(b"Q\0\0\0\x0bCOMMIT\0".to_vec())).await;
    let lost = api.cancel(ACTOR, due.payment).await;
    assert!(matches!(lost, Err(ScheduleError::CommitUnknown(_))), "{lost:?}");
    assert_eq!(proxy.cuts(), 2);
    match api.cancel(ACTOR, due.payment).await.expect("an answer") {
        CancelAnswer::Wished(view) => assert_eq!(view.payment, wish),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_claim_whose_commit_is_not_answered_is_recovered_and_its_settle_too() {
    let world = World::new().await;
    let (worker, proxy) = behind_a_proxy(&world, Access::Worker).await;
    let due = world.due("k1").await;
    let ids: Vec<ClaimId> = fresh(1);
    proxy.set(Fault::CutAfter(b"COMMIT".to_vec())).await;
    let lost = worker.claim(&terms(), std::slice::from_ref(&due), &ids).await;
    assert!(matches!(lost, Err(ScheduleError::CommitUnknown(_))), "{lost:?}");
    let claimed = worker.recover(&terms(), &[(due.payment, ids[0])]).await.expect("recovered").remove(0);
    proxy.set(Fault::CutAfter(b"COMMIT".to_vec())).await;
    let failed = worker.settle(vec![completed(claimed, "ch_1")]).await.expect_err("its answer is lost");
    assert!(matches!(failed.error, ScheduleError::CommitUnknown(_)), "{:?}", failed.error);
    assert_eq!((failed.batch.len(), proxy.cuts()), (1, 2));
    let settled = worker.settle(failed.batch).await.map_err(|failed| failed.error).expect("settled");
    assert_eq!(settled[0].result(), SettledAs::Written(Status::Completed));
    assert_eq!(world.row(due.payment).await.history_seq, 3);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable_and_nothing_happened() {
    let world = World::new().await;
    let (worker, proxy) = behind_a_proxy(&world, Access::Worker).await;
    let due = world.due("k1").await;
    proxy.set(Fault::Reset).await;
    let refused = worker.claim(&terms(), std::slice::from_ref(&due), &fresh(1)).await;
    assert!(matches!(refused, Err(ScheduleError::Unavailable(_))), "{refused:?}");
    proxy.set(Fault::Pass).await;
    assert_eq!(world.row(due.payment).await.attempt, 0);
}
