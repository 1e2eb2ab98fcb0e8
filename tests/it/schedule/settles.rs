//! Settles: written under the fence, repeatable, and late answers kept as evidence only.

use super::world::{
    ACTOR, World, answer, charged, completed, decision, declined, fresh, gateway, money, notice, terms,
};
use chrono::TimeDelta;
use punctual::domain::decision::{Budget, Decision, EpochChange, SendsAnswered};
use punctual::domain::facts::VoidSupport;
use punctual::domain::money::{Minor, Money};
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use punctual::domain::verdict::{DeclineClass, Doubt, NotSent, Verdict};
use punctual::schedule::{CancelAnswer, Claimed, Schedule, Settled, SettledAs};
use std::time::Duration;

async fn settle(world: &World, outcome: (punctual::schedule::Answered, Decision)) -> SettledAs {
    let settled: Vec<Settled> = match world.worker.settle(vec![outcome]).await {
        Ok(settled) => settled,
        Err(failed) => panic!("{:?}", failed.error),
    };
    assert_eq!(settled.len(), 1);
    settled[0].result()
}

#[tokio::test]
async fn a_charge_completes_with_its_reference_and_the_attempt_tells_it() {
    let world = World::new().await;
    let claimed = world.claim_one(&world.due("k1").await).await;
    let id = claimed.payment().id;
    assert_eq!(settle(&world, completed(claimed, "ch_1")).await, SettledAs::Written(Status::Completed));
    let view = world.api.find(ACTOR, id).await.expect("found").expect("exists");
    assert_eq!((view.payment.status, view.payment.gateway_ref.as_deref()), (Status::Completed, Some("ch_1")));
    assert_eq!((view.payment.unanswered, view.payment.request_hash), (0, Some([9; 32])));
    let attempt = &view.attempts[0];
    assert_eq!(
        (attempt.verdict.as_deref(), attempt.http_status, attempt.took_ms),
        (Some("charged"), Some(200), Some(20))
    );
    assert_eq!(world.one::<String>("SELECT reference FROM gateway_refs").await, "ch_1");
    // No next notice: the first is the only one.
    assert_eq!(world.one::<i64>("SELECT count(*) FROM due_notices").await, 1);
}

#[tokio::test]
async fn a_soft_decline_opens_the_next_epoch_with_its_notice() {
    let world = World::new().await;
    let claimed = world.claim_one(&world.due("k1").await).await;
    let id = claimed.payment().id;
    let next = world.now().await + TimeDelta::minutes(1);
    let retry = Decision {
        reason: Some(Reason::DeclinedSoft),
        next_attempt_at: Some(next),
        epoch: EpochChange::Next,
        ..decision(Status::Pending)
    };
    let outcome = (claimed.answered(answer(declined(DeclineClass::Soft))), retry);
    assert_eq!(settle(&world, outcome).await, SettledAs::Written(Status::Pending));
    let row = world.row(id).await;
    assert_eq!((row.epoch.0, row.unanswered, row.sends, row.attempt), (1, 0, 1, 1));
    assert_eq!((row.epoch_first_sent_at, row.request_hash, row.gateway_account), (None, None, None));
    assert_eq!((row.next_attempt_at, row.reason), (next, Some(Reason::DeclinedSoft)));
    assert_eq!(world.one::<i32>("SELECT max(attempt) FROM due_notices").await, 1);
}

#[tokio::test]
async fn a_send_not_taken_hands_its_budget_and_the_key_s_age_back() {
    let world = World::new().await;
    let claimed = world.claim_one(&world.due("k1").await).await;
    let id = claimed.payment().id;
    let back = Decision {
        next_attempt_at: Some(world.now().await + TimeDelta::seconds(1)),
        budget: Budget::HandBack,
        ..decision(Status::Pending)
    };
    settle(&world, (claimed.not_started(NotSent::Refused), back)).await;
    let row = world.row(id).await;
    assert_eq!((row.sends, row.held_back, row.unanswered, row.epoch_first_sent_at), (0, 1, 0, None));
    assert!(row.held_back_since.is_some());
}

#[tokio::test]
async fn the_age_of_a_key_that_was_used_outlives_a_send_not_taken_until_the_next_epoch() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let first = world.claim_one(&due).await;
    let opened_at = first.payment().epoch_first_sent_at;
    assert!(opened_at.is_some() && first.key_age().is_none());
    world.reap(due.payment).await;
    let late = (first.answered(answer(declined(DeclineClass::Soft))), decision(Status::Pending));
    assert_eq!(settle(&world, late).await, SettledAs::Fenced);
    // No send is open any more, yet the gateway has a record under this key that grows old.
    for was in [Status::Unknown, Status::Pending] {
        let claimed = world.claim_one(&notice(&world.row(due.payment).await)).await;
        assert_eq!((claimed.was(), claimed.payment().unanswered), (was, 1));
        assert!(claimed.key_age().is_some());
        let back = Decision { next_attempt_at: Some(due.due_at), ..decision(Status::Pending) };
        settle(&world, (claimed.not_started(NotSent::Refused), back)).await;
        let row = world.row(due.payment).await;
        assert_eq!((row.unanswered, row.epoch_first_sent_at), (0, opened_at), "{was:?}");
    }
    let declining = world.claim_one(&notice(&world.row(due.payment).await)).await;
    let next =
        Decision { next_attempt_at: Some(due.due_at), epoch: EpochChange::Next, ..decision(Status::Pending) };
    settle(&world, (declining.answered(answer(declined(DeclineClass::Soft))), next)).await;
    // The next epoch's key is opened anew, and may be taken back by the claim that opened it.
    let anew = world.claim_one(&notice(&world.row(due.payment).await)).await;
    assert!(anew.key_age().is_none() && anew.payment().epoch_first_sent_at > opened_at);
    let back = Decision { next_attempt_at: Some(due.due_at), ..decision(Status::Pending) };
    settle(&world, (anew.not_started(NotSent::Refused), back)).await;
    assert_eq!(world.row(due.payment).await.epoch_first_sent_at, None);
}

#[tokio::test]
async fn repeating_a_settle_whose_commit_got_through_is_written() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let claimed = world.claim_one(&due).await;
    let twin =
        world.worker.recover(&terms(), &[(due.payment, claimed.claim_id())]).await.expect("ours").remove(0);
    assert_eq!(settle(&world, completed(claimed, "ch_1")).await, SettledAs::Written(Status::Completed));
    let seq = world.row(due.payment).await.history_seq;
    assert_eq!(settle(&world, completed(twin, "ch_1")).await, SettledAs::Written(Status::Completed));
    assert_eq!(world.row(due.payment).await.history_seq, seq);
}

#[tokio::test]
async fn a_late_decline_is_fenced_once_and_answers_its_own_send() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let claimed = world.claim_one(&due).await;
    let twin =
        world.worker.recover(&terms(), &[(due.payment, claimed.claim_id())]).await.expect("ours").remove(0);
    world.reap(due.payment).await;
    let row = world.row(due.payment).await;
    assert_eq!(
        (row.status, row.unanswered, row.asks, row.reason),
        (Status::Unknown, 1, 1, Some(Reason::LeaseExpired))
    );
    let late = |claimed: punctual::schedule::Claimed| {
        (claimed.answered(answer(declined(DeclineClass::Hard))), decision(Status::Failed))
    };
    assert_eq!(settle(&world, late(claimed)).await, SettledAs::Fenced);
    let row = world.row(due.payment).await;
    assert_eq!((row.status, row.unanswered, row.history_seq), (Status::Unknown, 0, 4));
    // The same answer again changes nothing more.
    assert_eq!(settle(&world, late(twin)).await, SettledAs::Fenced);
    assert_eq!(world.row(due.payment).await.history_seq, 4);
    let view = world.api.find(ACTOR, due.payment).await.expect("found").expect("exists");
    assert!(view.attempts[0].fenced);
    assert_eq!(view.attempts[0].verdict.as_deref(), Some("declined"));
    // The open claim after it starts from a send fewer.
    let again = world.claim_one(&notice(&row)).await;
    assert_eq!((again.was(), again.payment().unanswered, again.payment().sends), (Status::Unknown, 1, 1));
    assert!(again.key_age().is_some());
}

#[tokio::test]
async fn a_late_decline_of_an_earlier_epoch_answers_no_send_of_this_one() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let first = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let second = world.claim_one(&notice(&world.row(due.payment).await)).await;
    let next = Decision {
        next_attempt_at: Some(due.due_at),
        answered: SendsAnswered::All,
        epoch: EpochChange::Next,
        ..decision(Status::Pending)
    };
    settle(&world, (second.answered(answer(declined(DeclineClass::Soft))), next)).await;
    let third = world.claim_one(&notice(&world.row(due.payment).await)).await;
    assert_eq!((third.payment().epoch.0, third.payment().unanswered), (1, 1));
    let late = (first.answered(answer(declined(DeclineClass::Soft))), decision(Status::Pending));
    assert_eq!(settle(&world, late).await, SettledAs::Fenced);
    assert_eq!(world.row(due.payment).await.unanswered, 1);
    assert_eq!(settle(&world, completed(third, "ch_1")).await, SettledAs::Written(Status::Completed));
}

#[tokio::test]
async fn a_late_charge_has_an_unknown_payment_asked_at_once_and_answers_no_send() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let first = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let second = world.claim_one(&notice(&world.row(due.payment).await)).await;
    let hour = world.now().await + TimeDelta::hours(1);
    let ask =
        Decision { next_attempt_at: Some(hour), answered: SendsAnswered::None, ..decision(Status::Unknown) };
    settle(&world, (second.answered(answer(Verdict::Unknown(Doubt::TimedOut))), ask)).await;
    let notices = world.one::<i64>("SELECT count(*) FROM due_notices").await;
    assert_eq!(settle(&world, completed(first, "ch_1")).await, SettledAs::Fenced);
    let row = world.row(due.payment).await;
    assert_eq!((row.status, row.unanswered), (Status::Unknown, 2));
    assert!(row.next_attempt_at < hour);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM due_notices").await, notices + 1);
}

#[tokio::test]
async fn no_settle_calls_a_payment_clean_while_a_send_is_open_and_what_was_learned_is_kept() {
    let world = World::new().await;
    let (bad, good) = (world.due("k1").await, world.due("k2").await);
    let mut claimed = world.claim(&[bad.clone(), good.clone()]).await;
    let good_claim = claimed.remove(1);
    let open = Decision { answered: SendsAnswered::None, ..decision(Status::Failed) };
    let batch = vec![
        (
            claimed.remove(0).answered(answer(charged("ch_9"))),
            Decision { gateway_ref: Some("ch_9".into()), ..open },
        ),
        completed(good_claim, "ch_2"),
    ];
    let settled = world.worker.settle(batch).await.map_err(|failed| failed.error).expect("settled");
    assert_eq!(settled[0].result(), SettledAs::Written(Status::Parked));
    assert_eq!(settled[1].result(), SettledAs::Written(Status::Completed));
    let row = world.row(bad.payment).await;
    assert_eq!((row.status, row.reason, row.unanswered), (Status::Parked, Some(Reason::Poisoned), 1));
    let evidence = world.one::<String>("SELECT evidence FROM parked").await;
    for part in ["clean_states_have_no_open_send", "charged", "ch_9"] {
        assert!(evidence.contains(part), "{evidence}");
    }
}

#[tokio::test]
async fn a_gateway_s_text_with_a_nul_is_kept_as_it_can_be() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let claimed = world.claim_one(&due).await;
    let mut told = answer(charged("ch\0_1"));
    told.note = Some("a\0b".into());
    let to = Decision {
        answered: SendsAnswered::All,
        gateway_ref: Some("ch\0_1".into()),
        ..decision(Status::Completed)
    };
    assert_eq!(settle(&world, (claimed.answered(told), to)).await, SettledAs::Written(Status::Completed));
}

#[tokio::test]
async fn a_parked_payment_is_listed_with_its_reason() {
    let world = World::new().await;
    let claimed = world.claim_one(&world.due("k1").await).await;
    let park = Decision { reason: Some(Reason::ContractViolation), ..decision(Status::Parked) };
    let what = Verdict::ContractViolation { what: "another amount".into() };
    settle(&world, (claimed.answered(answer(what)), park)).await;
    assert_eq!(world.one::<String>("SELECT reason FROM parked").await, "contract_violation");
    assert!(world.one::<String>("SELECT evidence FROM parked").await.contains("another amount"));
}

#[tokio::test]
async fn a_charge_is_kept_under_its_name_in_time_or_late_with_what_it_took_otherwise_than_asked() {
    let world = World::new().await;
    let less = Money { minor: Minor::new(12_344).expect("positive"), ..money() };
    let otherwise = |reference: &str| answer(Verdict::Charged { reference: reference.into(), amount: less });
    let parks = Decision {
        reason: Some(Reason::ContractViolation),
        answered: SendsAnswered::None,
        gateway_ref: Some("ch_1".into()),
        ..decision(Status::Parked)
    };
    let claimed = world.claim_one(&world.due("k1").await).await;
    let id = claimed.payment().id;
    let settled = settle(&world, (claimed.answered(otherwise("ch_1")), parks.clone())).await;
    assert_eq!(settled, SettledAs::Written(Status::Parked));
    assert_eq!(world.row(id).await.gateway_ref.as_deref(), Some("ch_1"));
    let due = world.due("k2").await;
    let claimed = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let late = settle(&world, (claimed.answered(otherwise("ch_2")), parks)).await;
    assert_eq!((late, world.row(due.payment).await.gateway_ref), (SettledAs::Fenced, None));
    let due = world.due("k3").await;
    let zombie = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let claimed = world.claim_one(&notice(&world.row(due.payment).await)).await;
    settle(&world, completed(claimed, "ch_3")).await;
    // A second charge of the same amount: what completed the payment stands, and people can give this one back.
    assert_eq!(settle(&world, completed(zombie, "ch_4")).await, SettledAs::Fenced);
    assert_eq!(world.row(due.payment).await.gateway_ref.as_deref(), Some("ch_3"));
    let kept: String = world
        .one("SELECT string_agg(concat_ws(' ', reference, amount_minor, currency), ', ' ORDER BY reference) FROM gateway_refs")
        .await;
    assert_eq!(kept, "ch_1 12344 EUR, ch_2 12344 EUR, ch_3, ch_4", "as asked it needs no amount");
}

#[tokio::test]
async fn the_reaper_waits_for_the_margin_and_deadlines_end_only_clean_payments() {
    let world = World::new().await;
    let now = world.now().await;
    let mut with_deadline = world.payment("k1", now - TimeDelta::seconds(20));
    with_deadline.execute_before = Some(now - TimeDelta::seconds(5));
    with_deadline.external_id = Some("order-1".into());
    let clean = world.create(&with_deadline).await;
    let mut ahead = world.payment("k2", now - TimeDelta::seconds(20));
    ahead.execute_before = Some(now + TimeDelta::hours(1));
    world.create(&ahead).await;
    let held = world.due("k3").await;
    let _claimed = world.claim_one(&held).await;
    world.run(&format!("UPDATE payments SET lease_until = now() - interval '3 s', execute_before = now() - interval '1 s' WHERE id = '{}'", held.payment)).await;
    let reaped = world.worker.reap(Duration::from_secs(60), 10).await.expect("an answer");
    assert_eq!((reaped.expired, reaped.deadline_failed), (0, 1));
    let row = world.row(clean.payment).await;
    assert_eq!((row.status, row.reason), (Status::Failed, Some(Reason::DeadlinePassed)));
    assert_eq!(world.one::<i64>("SELECT count(*) FROM external_ids").await, 0);
    let reaped = world.worker.reap(Duration::from_secs(1), 10).await.expect("an answer");
    assert_eq!((reaped.expired, reaped.deadline_failed), (1, 0));
    let row = world.row(held.payment).await;
    assert_eq!(row.status, Status::Unknown);
    let asked: Vec<_> =
        world.worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(9)).await.expect("an answer");
    assert!(
        asked.iter().any(|claimed| claimed.payment().id == held.payment && claimed.was() == Status::Unknown)
    );
}

#[tokio::test]
async fn a_wish_that_came_under_a_claim_is_due_at_once_after_its_settle_and_then_on_the_ladder() {
    let world = World::new().await;
    world.worker.register_gateway(&gateway(), "sandbox-1", VoidSupport::ByKey).await.expect("registered");
    let id = world.claim_one(&world.due("k1").await).await.payment().id;
    world.reap(id).await;
    let asks = world.claim_one(&notice(&world.row(id).await)).await;
    // As if the claim had read the clock after the wish did, and taken the row before it.
    world.run(&format!("UPDATE payments SET last_moved_at = now() + interval '2 s' WHERE id = '{id}'")).await;
    let wished = world.api.cancel(ACTOR, id).await.expect("an answer");
    assert!(matches!(wished, CancelAnswer::Wished(_)), "{wished:?}");
    let in_an_hour = world.now().await + TimeDelta::hours(1);
    let unanswered = |claimed: Claimed| {
        let next_attempt_at = Some(in_an_hour);
        let decision = Decision { next_attempt_at, ..decision(Status::Unknown) };
        (claimed.answered(answer(Verdict::Unknown(Doubt::TimedOut))), decision)
    };
    settle(&world, unanswered(asks)).await;
    let row = world.row(id).await;
    assert!(row.next_attempt_at < in_an_hour - TimeDelta::minutes(50), "{row:?}");
    let newest = format!(
        "SELECT not_before FROM due_notices WHERE payment_id = '{id}' ORDER BY notice_id DESC LIMIT 1"
    );
    assert_eq!(world.one::<chrono::DateTime<chrono::Utc>>(&newest).await, row.next_attempt_at);
    // The next claim sees the wish, so its decision's rung holds; by clocks that agree again.
    world.run(&format!("UPDATE payments SET cancel_wish_at = last_moved_at WHERE id = '{id}'")).await;
    settle(&world, unanswered(world.claim_one(&notice(&row)).await)).await;
    assert_eq!(world.row(id).await.next_attempt_at, in_an_hour);
}
