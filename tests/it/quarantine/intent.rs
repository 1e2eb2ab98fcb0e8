//! Rule R18: what a restore lost after it was charged is not charged again, under whichever due time it comes back.

use crate::books::desk::{charge, days_ago, reconcile};
use crate::schedule::world::{ACTOR, World, fresh, gateway, terms};
use chrono::TimeDelta;
use punctual::domain::ids::PaymentId;
use punctual::domain::reason::Reason;
use punctual::domain::repair::Power;
use punctual::domain::state::{Cause, Status};
use punctual::schedule::{
    BatchAnswer, CancelAnswer, ClaimAnswer, CreateAnswer, NewPayment, RefusedBecause, Repairs, RepairsOrder,
    Schedule, Together,
};
use std::time::Duration;

/// The gateway shows a charge of this payment, which has no row.
async fn lose(world: &World, lost: PaymentId) {
    world
        .run(&format!(
            "INSERT INTO lost_charges (gateway, payment_id, reference, intent, amount_minor, currency, day, run_id)
             VALUES ('sandbox', '{lost}', 'ch-1', payment_intent('{lost}'), 12345, 'EUR', current_date, gen_random_uuid())"
        ))
        .await;
}

/// The same key at another due time.
async fn lost_under_another_due_time(world: &World, key: &str) -> PaymentId {
    let lost = world.payment(key, world.now().await - TimeDelta::hours(3)).id;
    lose(world, lost).await;
    lost
}

fn refused(answer: CreateAnswer) -> PaymentId {
    match answer {
        CreateAnswer::ChargedBefore { payment } => payment,
        other => panic!("{other:?}"),
    }
}

async fn assert_parked(world: &World, id: PaymentId, lost: PaymentId) {
    let row = world.row(id).await;
    assert_eq!((row.status, row.reason), (Status::Parked, Some(Reason::ChargedBefore)));
    let history = world.api.history(ACTOR, id).await.expect("read").expect("exists");
    let last = &history[history.len() - 1].row;
    assert_eq!(last.event.as_str(), Cause::Reconciled.as_str());
    assert!(last.detail.contains(&lost.to_string()) && last.detail.contains("ch-1"), "{}", last.detail);
    let listed: i64 = world.one("SELECT count(*) FROM parked WHERE reason = 'charged_before'").await;
    assert_eq!(listed, 1);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM attempts").await, 0, "never claimed");
}

#[tokio::test]
async fn another_due_time_of_what_was_charged_is_refused_and_leaves_its_key_free() {
    let world = World::new().await;
    let lost = lost_under_another_due_time(&world, "k1").await;
    let new = world.payment("k1", world.now().await + TimeDelta::hours(1));
    assert_eq!(refused(world.api.create(&new).await.expect("an answer")), lost);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM idempotency_keys").await, 0);
    world.run("DELETE FROM lost_charges").await;
    world.create(&new).await;
}

#[tokio::test]
async fn in_a_batch_only_what_was_charged_is_refused_or_all_of_it_where_all_was_asked_for() {
    let world = World::new().await;
    let lost = lost_under_another_due_time(&world, "k2").await;
    let due = world.now().await + TimeDelta::hours(1);
    let new = || -> Vec<NewPayment> { ["k1", "k2", "k3"].map(|key| world.payment(key, due)).into() };
    match world.api.create_batch(new(), Together::All).await.expect("an answer") {
        BatchAnswer::Refused(in_the_way) => {
            assert_eq!(in_the_way.len(), 1, "{in_the_way:?}");
            assert!(matches!(in_the_way[&1], CreateAnswer::ChargedBefore { payment } if payment == lost));
        }
        done @ BatchAnswer::Done(_) => panic!("{done:?}"),
    }
    assert_eq!(world.one::<i64>("SELECT count(*) FROM payments").await, 0);
    let BatchAnswer::Done(mut answers) =
        world.api.create_batch(new(), Together::Each).await.expect("an answer")
    else {
        panic!("each stands alone")
    };
    assert!(matches!(answers[0], CreateAnswer::Created(_)) && matches!(answers[2], CreateAnswer::Created(_)));
    assert_eq!(refused(answers.remove(1)), lost);
}

#[tokio::test]
async fn the_same_payment_comes_back_under_its_id_and_is_parked_by_the_claim_that_comes_for_it() {
    for by_scan in [false, true] {
        let world = World::new().await;
        let new = world.payment("k1", world.now().await - TimeDelta::seconds(1));
        lose(&world, new.id).await;
        let due = world.create(&new).await;
        assert_eq!(due.payment, new.id);
        let other = world.due("k2").await;
        if by_scan {
            let late =
                world.worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(5)).await.expect("claimed");
            let won: Vec<PaymentId> = late.iter().map(|claimed| claimed.payment().id).collect();
            assert_eq!(won, [other.payment]);
            world.run("DELETE FROM attempts").await;
        } else {
            let answers = world.worker.claim(&terms(), &[due], &fresh(1)).await.expect("answers");
            let ClaimAnswer::Refused(proof) = &answers[0] else { panic!("{answers:?}") };
            assert_eq!(proof.why(), RefusedBecause::Parked);
        }
        assert_parked(&world, new.id, new.id).await;
    }
}

#[tokio::test]
async fn what_was_made_before_its_charge_was_found_is_parked_too_and_not_cancelled() {
    let world = World::new().await;
    let new = world.payment("k1", world.now().await + TimeDelta::hours(2));
    world.create(&new).await;
    let lost = lost_under_another_due_time(&world, "k1").await;
    match world.api.cancel(ACTOR, new.id).await.expect("an answer") {
        CancelAnswer::Refused(view) => assert_eq!(view.payment.status, Status::Parked),
        other => panic!("{other:?}"),
    }
    assert_parked(&world, new.id, lost).await;
}

#[tokio::test]
async fn a_deadline_does_not_fail_what_was_charged() {
    let world = World::new().await;
    let due = world.due("k1").await;
    lose(&world, due.payment).await;
    world.run("UPDATE payments SET execute_before = now()").await;
    let reaped = world.worker.reap(Duration::from_secs(5), 10).await.expect("reaped");
    assert_eq!(reaped.deadline_failed, 0);
    assert_parked(&world, due.payment, due.payment).await;
}

#[tokio::test]
async fn a_loss_stays_on_record_while_its_payment_may_be_claimed() {
    let world = World::new().await;
    let due = world.due("k1").await;
    lose(&world, due.payment).await;
    assert_eq!(world.run("DELETE FROM lost_charges").await, 0);
    let answers = world.worker.claim(&terms(), std::slice::from_ref(&due), &fresh(1)).await.expect("answers");
    assert!(matches!(answers[0], ClaimAnswer::Refused(_)), "{answers:?}");
    assert_eq!(world.run("DELETE FROM lost_charges").await, 1, "nobody can claim it now");
}

#[tokio::test]
async fn a_due_time_that_passed_is_open_while_quarantined_and_for_35_days_after() {
    let world = World::new().await;
    let lost = lost_under_another_due_time(&world, "k1").await;
    let asked = world.payment("k1", world.now().await + TimeDelta::hours(1)).id;
    let unknown = world.payment("k9", world.now().await).id;
    let look = || {
        let api = world.api.clone();
        async move { api.lost_charges(&[asked, unknown]).await.expect("seen") }
    };
    let found = look().await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[&asked].charged_as, found[&asked].is_open), (lost, false), "no quarantine ever was");
    let quarantine = |released: &str| {
        format!(
            "INSERT INTO quarantines (since, kind, reason, released_lineage, found_lineage, lost_from, released_at,
                 released_by, released_reason)
             VALUES (now() - interval '60 days', 'person', 'x', 'a', 'b', now() - interval '61 days',
                 now() - interval '{released}', 'key:bob', 'x')"
        )
    };
    world.run(&quarantine("36 days")).await;
    assert!(!look().await[&asked].is_open);
    world.run(&quarantine("34 days")).await;
    assert!(look().await[&asked].is_open);
}

#[tokio::test]
async fn what_was_parked_for_a_charge_that_a_restore_lost_is_completed_by_the_line_at_hand() {
    let world = World::new().await;
    let new = world.payment("k1", world.now().await - TimeDelta::seconds(1));
    let day = days_ago(&world, 0).await;
    let found = reconcile(&world, day, &[charge(1, new.id, "ch-1", day)]).await;
    assert_eq!(found.lost, 1, "{found:?}");
    let due = world.create(&new).await;
    let answers = world.worker.claim(&terms(), std::slice::from_ref(&due), &fresh(1)).await.expect("answers");
    assert!(matches!(answers[0], ClaimAnswer::Refused(_)), "{answers:?}");
    assert_parked(&world, new.id, new.id).await;
    // No report is asked for again, and no person.
    let order = RepairsOrder { gateway: gateway(), day: None, power: Power::Safe };
    let repairs = world.worker.repair_day(&order).await.expect("repaired");
    assert_eq!(repairs, Repairs { completed: 1, ..Repairs::default() });
    let row = world.row(new.id).await;
    assert_eq!((row.status, row.reason, row.gateway_ref.as_deref()), (Status::Completed, None, Some("ch-1")));
    assert_eq!(world.one::<i64>("SELECT count(*) FROM parked").await, 0);
    assert_eq!(world.worker.repair_day(&order).await.expect("repaired"), Repairs::default());
}
