//! A second person: asked once, decided once, by somebody else, and carried out as it was asked for.

use super::{alice, bob, parked, retryable, settle};
use crate::schedule::world::{World, answer, decision, declined, notice};
use crate::support::eventually;
use punctual::domain::decision::Decision;
use punctual::domain::ids::{Epoch, Operator, PaymentId};
use punctual::domain::parked::WhyNot;
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use punctual::domain::verdict::DeclineClass;
use punctual::platform::dice::{Dice, Os};
use punctual::schedule::{
    ActTerms, Approval, ApprovalKind, ApprovalStatus, ApprovalVerdict, AskedFor, CarriedOut, Decided,
    NewApproval, Obstacle, Schedule,
};
use serde_json::json;
use sqlx::Executor;
use std::time::Duration;
use uuid::Uuid;

async fn ask(world: &World, payment: PaymentId, kind: ApprovalKind, version: i32) -> AskedFor {
    let new = NewApproval {
        id: Os.claim_id().0,
        kind,
        payment: Some(payment),
        asked_by: alice(),
        reason: "it was declined, and the card is good again".into(),
        request: json!({"version": version}),
    };
    world.api.ask_approval(&new).await.expect("asked")
}

async fn asked(world: &World, payment: PaymentId, kind: ApprovalKind) -> Approval {
    let version = world.row(payment).await.history_seq;
    match ask(world, payment, kind, version).await {
        AskedFor::Asked(approval) => approval,
        other @ (AskedFor::Waiting(_) | AskedFor::Decided) => panic!("{other:?}"),
    }
}

async fn decide(world: &World, id: Uuid, by: &Operator, verdict: ApprovalVerdict) -> Decided {
    let terms = ActTerms { retryable_codes: retryable() };
    world.api.decide_approval(id, by, verdict, "looked at", &terms).await.expect("an answer")
}

/// Timed out, resent, declined; and then the first send was declined too, by a worker that woke up late.
async fn with_a_stored_decline(world: &World, key: &str) -> PaymentId {
    let due = world.due(key).await;
    let zombie = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let resend = world.claim_one(&notice(&world.row(due.payment).await)).await;
    let unproven = Decision { reason: Some(Reason::UnprovenDecline), ..decision(Status::Parked) };
    settle(world, (resend.answered(answer(declined(DeclineClass::Soft))), unproven)).await;
    let row = world.row(due.payment).await;
    assert_eq!(row.unanswered, 1, "the first send is open");
    let too_early = asked(world, due.payment, ApprovalKind::NewEpoch).await;
    let refused = decide(world, too_early.id, &bob(), ApprovalVerdict::Approve).await;
    let Decided::Impossible(void, Obstacle::Parked(WhyNot::OpenSend)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(void.status, ApprovalStatus::Expired);
    let late = (zombie.answered(answer(declined(DeclineClass::Soft))), decision(Status::Failed));
    world.worker.settle(vec![late]).await.map_err(|failed| failed.error).expect("fenced");
    assert_eq!(world.row(due.payment).await.unanswered, 0);
    due.payment
}

#[tokio::test]
async fn a_stored_decline_gets_a_new_key_once_a_second_person_has_said_so() {
    let world = World::new().await;
    let payment = with_a_stored_decline(&world, "k1").await;
    let waits = asked(&world, payment, ApprovalKind::NewEpoch).await;
    assert!(matches!(
        decide(&world, waits.id, &alice(), ApprovalVerdict::Approve).await,
        Decided::SamePerson(_)
    ));
    assert_eq!(world.row(payment).await.status, Status::Parked);
    let decided = decide(&world, waits.id, &bob(), ApprovalVerdict::Approve).await;
    let Decided::Approved(approval, CarriedOut::Redriven(Status::Pending)) = decided else {
        panic!("{decided:?}")
    };
    assert_eq!((approval.status, approval.decided_by), (ApprovalStatus::Approved, Some(bob())));
    let row = world.row(payment).await;
    assert_eq!((row.epoch, row.epoch_first_sent_at, row.unanswered), (Epoch(1), None, 0));
    let told: String = world
        .one(&format!(
            "SELECT detail FROM payment_history WHERE payment_id = '{payment}' AND cause = 'redriven'"
        ))
        .await;
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&told["approvedBy"], &told["newEpoch"]), (&json!("key:bob"), &json!(true)));
    let acts: Vec<String> = {
        let acts = world.api.acts(&Default::default(), 10).await.expect("a list");
        acts.into_iter().rev().map(|act| format!("{} {}", act.operator, act.act)).collect()
    };
    assert_eq!(
        acts,
        [
            "key:alice ask_approval",
            // In vain, and what was asked for is void since: by whose word is written down.
            "key:bob void_approval",
            "key:alice ask_approval",
            "key:bob approve",
            "key:alice redrive",
        ]
    );
    assert!(matches!(decide(&world, waits.id, &bob(), ApprovalVerdict::Reject).await, Decided::Already(_)));
}

#[tokio::test]
async fn of_two_who_decide_at_once_one_wins() {
    let world = World::new().await;
    let carol = Operator::of_key("carol");
    for round in 0..8 {
        let payment = parked(&world, &format!("k{round}")).await.payment;
        let waits = asked(&world, payment, ApprovalKind::Redrive).await;
        let verdict = if round % 2 == 0 { ApprovalVerdict::Approve } else { ApprovalVerdict::Reject };
        let by_bob = bob();
        let (one, two) = tokio::join!(
            decide(&world, waits.id, &by_bob, ApprovalVerdict::Approve),
            decide(&world, waits.id, &carol, verdict)
        );
        let already = [&one, &two].into_iter().filter(|it| matches!(it, Decided::Already(_))).count();
        assert_eq!(already, 1, "{one:?} {two:?}");
        let redriven: i64 = world
            .one(&format!(
                "SELECT count(*) FROM payment_history WHERE payment_id = '{payment}' AND cause = 'redriven'"
            ))
            .await;
        let approved = [&one, &two].into_iter().filter(|it| matches!(it, Decided::Approved(..))).count();
        assert_eq!(redriven, i64::try_from(approved).expect("few"), "{one:?} {two:?}");
    }
}

#[tokio::test]
async fn asking_twice_asks_once_and_what_has_moved_on_is_asked_anew() {
    let world = World::new().await;
    let payment = parked(&world, "k1").await.payment;
    let first = asked(&world, payment, ApprovalKind::Redrive).await;
    let version = world.row(payment).await.history_seq;
    let again = ask(&world, payment, ApprovalKind::Redrive, version).await;
    assert_eq!(again, AskedFor::Waiting(first.clone()));
    let other = ask(&world, payment, ApprovalKind::NewEpoch, version).await;
    assert_eq!(other, AskedFor::Waiting(first.clone()), "one release at a time");
    // Something is written about the payment: what the second person looks at is not what was asked for.
    world.run(&format!("UPDATE payments SET history_seq = history_seq + 1 WHERE id = '{payment}'")).await;
    let anew = asked(&world, payment, ApprovalKind::Redrive).await;
    assert_ne!(anew.id, first.id);
    assert_eq!(
        world.api.approval(first.id).await.expect("read").map(|it| it.status),
        Some(ApprovalStatus::Expired)
    );
    world.run(&format!("UPDATE payments SET history_seq = history_seq + 1 WHERE id = '{payment}'")).await;
    let stale = decide(&world, anew.id, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(stale, Decided::Impossible(_, Obstacle::Parked(WhyNot::Changed))), "{stale:?}");
    assert_eq!(world.row(payment).await.status, Status::Parked);
}

#[tokio::test]
async fn a_day_later_nothing_decides_it_and_the_payment_can_be_asked_for_again() {
    let world = World::new().await;
    let payment = parked(&world, "k1").await.payment;
    let waits = asked(&world, payment, ApprovalKind::Redrive).await;
    let mut sql = world.sql().await;
    // Behind the rules' back: no statement may change when it was asked for.
    for act in [
        "ALTER TABLE approvals DISABLE TRIGGER decided_once",
        "UPDATE approvals SET asked_at = asked_at - interval '1 day', expires_at = expires_at - interval '1 day'",
        "ALTER TABLE approvals ENABLE TRIGGER decided_once",
    ] {
        sql.execute(act).await.expect(act);
    }
    assert_eq!(world.api.approvals(ApprovalStatus::Pending, None, 10).await.expect("a list"), []);
    assert_eq!(world.api.approvals(ApprovalStatus::Expired, None, 10).await.expect("a list").len(), 1);
    let expired = decide(&world, waits.id, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(expired, Decided::Expired(_)), "{expired:?}");
    assert_eq!(world.row(payment).await.status, Status::Parked);
    asked(&world, payment, ApprovalKind::Redrive).await;
}

#[tokio::test]
async fn a_quarantine_leaves_the_approval_as_it_was() {
    let world = World::new().await;
    let payment = parked(&world, "k1").await.payment;
    let waits = asked(&world, payment, ApprovalKind::Redrive).await;
    world.run("UPDATE installation SET quarantined_at = now(), quarantine_reason = 'a test'").await;
    let not_now = decide(&world, waits.id, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(not_now, Decided::Impossible(_, Obstacle::Parked(WhyNot::Quarantined))), "{not_now:?}");
    world.run("UPDATE installation SET quarantined_at = NULL, quarantine_reason = NULL").await;
    let decided = decide(&world, waits.id, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(decided, Decided::Approved(..)), "{decided:?}");
}

#[tokio::test]
async fn the_database_itself_refuses_a_second_decision_and_the_same_person() {
    let world = World::new().await;
    let payment = parked(&world, "k1").await.payment;
    let waits = asked(&world, payment, ApprovalKind::Redrive).await;
    let mut sql = world.sql().await;
    let same = "UPDATE approvals SET status = 'approved', decided_by = asked_by, decided_reason = 'x', decided_at = now()";
    let refused = sql.execute(same).await.expect_err("the same person");
    let broken = refused.as_database_error().and_then(|db| db.constraint().map(str::to_owned));
    assert_eq!(broken.as_deref(), Some("a_second_person_decides"), "{refused}");
    sql.execute("UPDATE approvals SET status = 'expired', decided_at = now()").await.expect("once");
    for act in [
        "UPDATE approvals SET status = 'pending', decided_at = NULL",
        "DELETE FROM approvals",
        "TRUNCATE approvals",
        "UPDATE operator_acts SET reason = 'another'",
        "DELETE FROM operator_acts",
        "TRUNCATE operator_acts",
    ] {
        let refused = sql.execute(act).await.expect_err(act);
        let code = refused.as_database_error().and_then(|db| db.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("42501"), "{act}: {refused}");
    }
    let already = decide(&world, waits.id, &bob(), ApprovalVerdict::Approve).await;
    assert!(matches!(already, Decided::Already(_)), "{already:?}");
}

#[tokio::test]
async fn who_asks_while_another_decides_is_told_to_look_again() {
    let world = World::new().await;
    let payment = parked(&world, "k1").await.payment;
    let first = asked(&world, payment, ApprovalKind::Redrive).await;
    // Between the two looks of whoever asks: after the one that made nothing because one waits already.
    world
        .run(
            "CREATE FUNCTION wait_there() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$",
        )
        .await;
    world
        .run(
            "CREATE TRIGGER wait_there AFTER INSERT ON approvals
             FOR EACH STATEMENT EXECUTE FUNCTION wait_there()",
        )
        .await;
    let mut gate = world.sql().await;
    gate.execute("SELECT pg_advisory_lock(7)").await.expect("closed");
    let version = world.row(payment).await.history_seq;
    let rejected = async {
        eventually("it stands there", Duration::from_secs(10), || async {
            let waiting: i64 = world
                .one(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                )
                .await;
            (waiting > 0).then_some(())
        })
        .await;
        let rejected = decide(&world, first.id, &bob(), ApprovalVerdict::Reject).await;
        gate.execute("SELECT pg_advisory_unlock(7)").await.expect("open");
        rejected
    };
    let (again, rejected) = tokio::join!(ask(&world, payment, ApprovalKind::Redrive, version), rejected);
    assert!(matches!(rejected, Decided::Rejected(_)), "{rejected:?}");
    assert_eq!(again, AskedFor::Decided);
    assert_eq!(world.row(payment).await.status, Status::Parked);
}
