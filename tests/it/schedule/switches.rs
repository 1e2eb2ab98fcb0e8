//! What people switch off and say about gateways, as claims and beats find it.

use super::pace::{beat, tell};
use super::world::{ACTOR, World, fresh, gateway, terms};
use futures_util::future::join_all;
use punctual::domain::facts::VoidSupport;
use punctual::domain::guard::Early;
use punctual::domain::ids::{GatewayName, Operator};
use punctual::domain::pace::{Pace, Terms};
use punctual::domain::switches::{Closed, SwitchKind, Turned};
use punctual::schedule::{
    ClaimAnswer, GatewayAnswer, GatewayChange, GatewayOrder, Schedule, SwitchAnswer, SwitchOrder,
};
use std::time::Duration;

pub fn order(kind: SwitchKind, value: &str, turned: Turned) -> SwitchOrder {
    SwitchOrder {
        kind,
        value: value.into(),
        turned,
        by: Operator("key:ops".into()),
        reason: "a test".into(),
        configured: vec![gateway()],
    }
}

fn about(what: GatewayChange) -> GatewayOrder {
    GatewayOrder { name: gateway(), what, by: Operator("key:ops".into()), reason: "a test".into() }
}

async fn acts(world: &World) -> Vec<String> {
    let text = "SELECT coalesce(string_agg(act || ' ' || subject, '|' ORDER BY id), '') FROM operator_acts";
    world.one::<String>(text).await.split('|').map(str::to_owned).filter(|act| !act.is_empty()).collect()
}

#[tokio::test]
async fn what_is_switched_off_is_not_claimed_from_the_next_claim_on_and_goes_on_as_it_was() {
    let world = World::new().await;
    world.worker.register_gateway(&gateway(), "sandbox-1", VoidSupport::None).await.expect("registered");
    world
        .run(&format!("INSERT INTO actors (id, name) VALUES ('{}', 'shop') ON CONFLICT DO NOTHING", ACTOR.0))
        .await;
    let notice = world.due("k1").await;
    let before = world.row(notice.payment).await;
    for (kind, value) in [
        (SwitchKind::Global, "all"),
        (SwitchKind::Gateway, "sandbox"),
        (SwitchKind::Currency, "EUR"),
        (SwitchKind::Actor, &*ACTOR.0.to_string()),
    ] {
        let thrown = world.api.turn_switch(&order(kind, value, Turned::Off)).await.expect("an answer");
        assert!(matches!(thrown, SwitchAnswer::Thrown(_)), "{kind:?}");
        let answers = world.worker.claim(&terms(), std::slice::from_ref(&notice), &fresh(1)).await;
        let answer = answers.expect("an answer").remove(0);
        assert!(matches!(answer, ClaimAnswer::Early { why: Early::SwitchedOff, .. }), "{kind:?}: {answer:?}");
        let late =
            world.worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(5)).await.expect("an answer");
        assert!(late.is_empty(), "{kind:?}");
        assert_eq!(world.row(notice.payment).await, before, "{kind:?}: not a budget, not a version");
        let on = world.api.turn_switch(&order(kind, value, Turned::On)).await.expect("an answer");
        assert_eq!(on, SwitchAnswer::Released);
    }
    // Others than those that concern it.
    for (kind, value) in [(SwitchKind::Currency, "USD"), (SwitchKind::Gateway, "other")] {
        let order =
            SwitchOrder { configured: vec![GatewayName("other".into())], ..order(kind, value, Turned::Off) };
        world.api.turn_switch(&order).await.expect("an answer");
    }
    world.claim_one(&notice).await;
    assert_eq!(acts(&world).await.len(), 10);
}

#[tokio::test]
async fn a_switch_that_names_nothing_is_not_thrown_and_one_that_is_not_thrown_is_no_act() {
    let world = World::new().await;
    for (kind, value) in [(SwitchKind::Gateway, "nowhere"), (SwitchKind::Actor, "nobody")] {
        let answer = world.api.turn_switch(&order(kind, value, Turned::Off)).await.expect("an answer");
        assert_eq!(answer, SwitchAnswer::NothingOfThatName, "{kind:?}");
    }
    let answer =
        world.api.turn_switch(&order(SwitchKind::Global, "all", Turned::On)).await.expect("an answer");
    assert_eq!(answer, SwitchAnswer::Released);
    assert_eq!(acts(&world).await, Vec::<String>::new());
    assert!(world.api.kill_switches().await.expect("an answer").is_empty());
}

#[tokio::test]
async fn of_many_who_turn_one_switch_at_once_each_is_answered_and_it_is_thrown_once() {
    let world = World::new().await;
    let orders: Vec<_> = (0..8).map(|_| order(SwitchKind::Global, "all", Turned::Off)).collect();
    for answer in join_all(orders.iter().map(|order| world.api.turn_switch(order))).await {
        assert!(matches!(answer.expect("an answer"), SwitchAnswer::Thrown(_)));
    }
    let thrown = world.api.kill_switches().await.expect("an answer");
    assert_eq!((thrown.len(), thrown[0].reason.as_str()), (1, "a test"));
    let beats = tell(&world.worker, &paced(10), &beat("w1", 1)).await;
    assert_eq!(beats.orders.closed, Some(Closed::Killed));
    world.api.turn_switch(&order(SwitchKind::Global, "all", Turned::On)).await.expect("an answer");
    assert_eq!(tell(&world.worker, &paced(10), &beat("w1", 1)).await.orders.closed, None);
}

fn paced(rate: u32) -> Terms {
    let (longest_pause, probe_lease) = (Duration::from_secs(60), Duration::from_secs(30));
    Terms { rate, lookup_share: 10, in_flight: 0, longest_pause, probe_lease }
}

#[tokio::test]
async fn a_pause_and_a_lower_rate_come_with_the_next_beat_and_are_written_down() {
    let world = World::new().await;
    let answer = world.api.order_gateway(&about(GatewayChange::Pause)).await.expect("an answer");
    assert_eq!(answer, GatewayAnswer::NotFound, "no worker has registered it");
    world.worker.register_gateway(&gateway(), "sandbox-1", VoidSupport::None).await.expect("registered");
    for (what, closed) in [(GatewayChange::Pause, Some(Closed::Paused)), (GatewayChange::Resume, None)] {
        for _ in 0..2 {
            let answer = world.api.order_gateway(&about(what)).await.expect("an answer");
            assert_eq!(answer, GatewayAnswer::Done);
        }
        assert_eq!(tell(&world.worker, &paced(100), &beat("w1", 1)).await.orders.closed, closed);
    }
    // Of a hundred a second a chunk is fifteen; of ten it is one.
    let before = tell(&world.worker, &paced(100), &beat("w2", 50)).await;
    world.api.order_gateway(&about(GatewayChange::Limit(Some(10)))).await.expect("an answer");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = tell(&world.worker, &paced(100), &beat("w2", 50)).await;
    let calls = |grant: &punctual::domain::pace::Grant| grant.charges.map_or(0, |reserved| reserved.calls);
    assert!(calls(&before) > calls(&held) && calls(&held) <= 2, "{before:?} {held:?}");

    let standing = world.api.gateways().await.expect("an answer").remove(0);
    assert_eq!((standing.rate_limit, standing.paused.clone(), standing.in_flight), (Some(10), None, 0));
    assert!(standing.pace.as_ref().is_some_and(|pace: &Pace| pace.lanes.contains_key("w2")));
    let subject = "gateway:sandbox";
    let expected = ["pause_gateway", "pause_gateway", "resume_gateway", "limit_gateway_rate"];
    assert_eq!(acts(&world).await, expected.map(|act| format!("{act} {subject}")));
}

#[tokio::test]
async fn claims_in_flight_are_counted_by_gateway() {
    let world = World::new().await;
    world.worker.register_gateway(&gateway(), "sandbox-1", VoidSupport::None).await.expect("registered");
    for key in ["k1", "k2", "k3"] {
        let notice = world.due(key).await;
        if key != "k3" {
            world.claim_one(&notice).await;
        }
    }
    assert_eq!(world.api.gateways().await.expect("an answer")[0].in_flight, 2);
}
