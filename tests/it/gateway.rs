//! The HTTP gateway against a sandbox that really runs, and against servers that misbehave: each
//! ending of a call has one right verdict, and the ledger says how often money moved.

#[path = "gateway/away.rs"]
mod away;
#[path = "gateway/reports.rs"]
mod reports;
#[path = "gateway/rig.rs"]
mod rig;
#[path = "gateway/settled.rs"]
mod settled;
#[path = "gateway/voids.rs"]
mod voids;
#[path = "gateway/wild.rs"]
mod wild;

use futures_util::future::join_all;
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::verdict::{DeclineClass, Doubt, Lookup, NotSent, Verdict};
use punctual::gateway::Gateway;
use punctual::platform::faults::{Sabotage, seeded};
use punctual::schedule::How;
use rig::{Rig, charged, declined, payment, unsent, violates};
use std::time::Duration;

const S: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_charge_is_one_line_and_its_resend_is_replayed() {
    let rig = Rig::start().await;
    let first = rig.charge(&payment(1), "sim_ok").await;
    assert_eq!(first.answer().verdict, charged("ch_1"));
    assert_eq!((first.answer().how, first.answer().http_status), (How::Sent, Some(200)));
    assert!(first.answer().took.is_some() && first.answer().request_hash.is_some());
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, charged("ch_1"));
    let lines = rig.ledger().await;
    assert_eq!(lines.len(), 2);
    assert_eq!((lines[0]["charged"].as_bool(), lines[1]["charged"].as_bool()), (Some(true), Some(false)));
    assert_eq!((&lines[0]["verdict"], &lines[1]["verdict"]), (&"charged".into(), &"replayed".into()));
    rig.stop().await;
}

#[tokio::test]
async fn a_line_says_what_was_asked_and_by_which_claim() {
    let rig = Rig::start().await;
    let mut payment = payment(1);
    payment.epoch.0 = 3;
    payment.fence.0 = 17;
    let answered = rig.charge(&payment, "sim_ok").await;
    let line = &rig.ledger().await[0];
    let id = payment.id.to_string();
    assert_eq!(line["key"], format!("{id}:3"));
    assert_eq!((&line["paymentId"], &line["epoch"]), (&id.into(), &3.into()));
    assert_eq!(line["claimId"], answered.claimed().claim_id().0.to_string());
    assert_eq!((&line["fence"], &line["amount"]), (&17.into(), &1_000.into()));
    assert_eq!((&line["currency"], &line["payee"]), (&"EUR".into(), &"sim_ok".into()));
    let due_at = line["dueAt"].as_str().expect("a due time");
    assert_eq!(due_at.parse(), Ok(payment.due_at));
    let summary = rig.summary().await;
    assert!(summary["earliestMarginMs"].as_i64().is_some_and(|ms| ms >= 0), "{summary}");
    assert_eq!(summary["early"], 0);
    rig.stop().await;
}

/// First send, then what a look-up says, then a resend under the same key; and the charges made.
#[tokio::test]
async fn every_behaviour_has_its_verdict_and_converges_without_a_second_charge() {
    let found = |verdict| Lookup::Found(verdict);
    let unknown = Verdict::Unknown;
    let ok = || charged("ch_1");
    let hard = || declined(DeclineClass::Hard, "stolen_card", "ch_1");
    let limited = Verdict::NotSent { why: NotSent::RateLimited, retry_after: Some(600 * S) };
    let running = || Verdict::InProgress { retry_after: None };
    let pending = || Verdict::PendingAtGateway { reference: Some("ch_1".into()) };
    let later = || declined(DeclineClass::Soft, "processing_error", "ch_1");
    let cases = [
        ("sim_ok", ok(), Some(found(ok())), ok(), 1),
        ("sim_slow_30", ok(), Some(found(ok())), ok(), 1),
        (
            "sim_decline_stolen_card",
            hard(),
            Some(found(hard())),
            declined(DeclineClass::Hard, "stolen_card", "ch_2"),
            0,
        ),
        ("sim_429_600", limited.clone(), None, limited, 0),
        ("sim_500_charged", unknown(Doubt::ServerError), Some(found(ok())), ok(), 1),
        ("sim_500_sticky", unknown(Doubt::ServerError), Some(found(ok())), unknown(Doubt::ServerError), 1),
        ("sim_timeout_charged", unknown(Doubt::TimedOut), Some(found(ok())), ok(), 1),
        ("sim_timeout_not_charged", unknown(Doubt::TimedOut), None, charged("ch_2"), 1),
        ("sim_reset_after_write", unknown(Doubt::ConnectionLost), Some(found(ok())), ok(), 1),
        ("sim_in_use_1", running(), None, charged("ch_2"), 1),
        ("sim_pending_600_ok", pending(), Some(found(pending())), pending(), 1),
        ("sim_pending_0_ok", ok(), Some(found(ok())), ok(), 1),
        ("sim_pending_0_fail", later(), Some(found(later())), later(), 0),
        ("sim_lookup_lag_600", unknown(Doubt::ConnectionLost), None, ok(), 1),
        ("sim_lookup_lag_0", unknown(Doubt::ConnectionLost), Some(found(ok())), ok(), 1),
        ("sim_lookup_404_charged", unknown(Doubt::ConnectionLost), None, ok(), 1),
        ("sim_garbage", unknown(Doubt::Unreadable), Some(found(ok())), ok(), 1),
    ];
    for (payee, first, looked_up, resent, charges) in cases {
        let rig = Rig::start().await;
        let payment = payment(1);
        assert_eq!(rig.first_verdict(&payment, payee).await, first, "{payee}: first send");
        let lookup = rig.gateway.lookup(&payment).await;
        match looked_up {
            Some(wanted) => assert_eq!(lookup, wanted, "{payee}: look-up"),
            None => {
                assert!(matches!(lookup, Lookup::NotFound { visible_after: Some(_) }), "{payee}: {lookup:?}")
            }
        }
        assert_eq!(rig.verdict(&payment, payee).await, resent, "{payee}: resend");
        let summary = rig.summary().await;
        assert_eq!((&summary["requests"], &summary["charges"]), (&2.into(), &charges.into()), "{payee}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_charge_of_another_amount_or_currency_says_so_under_its_name_first_on_resend_and_on_look_up() {
    let asked = payment(1).amount;
    let more = Money { minor: Minor::new(asked.minor.get() + 1).expect("positive"), ..asked };
    let other = if asked.currency.as_str() == "USD" { "EUR" } else { "USD" };
    let foreign = Money { currency: Currency::from_code(other).expect("a code"), ..asked };
    for (payee, amount) in [("sim_wrong_amount", more), ("sim_wrong_currency", foreign)] {
        let rig = Rig::start().await;
        let told = Verdict::Charged { reference: "ch_1".into(), amount };
        let first = rig.charge(&payment(1), payee).await;
        assert_eq!(first.answer().verdict, told, "{payee}: first send");
        let note = format!("charged {amount} under ch_1, asked {asked}");
        assert_eq!(first.answer().note.as_deref(), Some(note.as_str()));
        assert_eq!(rig.verdict(&payment(1), payee).await, told, "{payee}: resend");
        assert_eq!(rig.gateway.lookup(&payment(1)).await, Lookup::Found(told), "{payee}: look-up");
        assert_eq!(rig.summary().await["charges"], 1, "{payee}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_chain_goes_on_across_epochs_of_one_payment() {
    let rig = Rig::start().await;
    let payee = "sim_decline_insufficient_funds|sim_reset_after_write|sim_ok";
    let mut payment = payment(1);
    let verdict = rig.verdict(&payment, payee).await;
    assert_eq!(verdict, declined(DeclineClass::Soft, "insufficient_funds", "ch_1"));
    payment.epoch.0 = 1;
    assert_eq!(rig.verdict(&payment, payee).await, Verdict::Unknown(Doubt::ConnectionLost));
    assert_eq!(rig.verdict(&payment, payee).await, charged("ch_2"));
    assert_eq!(rig.summary().await["charges"], 1);
    rig.stop().await;
}

#[tokio::test]
async fn refusals_in_the_gateways_own_shape_are_proof_that_nothing_was_executed() {
    let rig = Rig::start().await;
    let verdict = rig.verdict(&payment(1), "acct_of_nobody").await;
    assert_eq!(verdict, unsent(NotSent::Rejected));
    let stranger = rig.gateway_with(|settings| settings.secret = "wrong".into());
    let answered = rig::charge(&stranger, &payment(1), "sim_ok", rig::open_gate()).await;
    assert_eq!(answered.answer().verdict, unsent(NotSent::NotAuthorised));
    assert_eq!(stranger.lookup(&payment(1)).await, Lookup::Unavailable { retry_after: None });
    let summary = rig.summary().await;
    assert_eq!((&summary["requests"], &summary["charges"]), (&2.into(), &0.into()));
    rig.stop().await;
}

#[tokio::test]
async fn a_used_key_with_another_body_is_unknown_and_does_not_charge() {
    let rig = Rig::start().await;
    rig.verdict(&payment(1), "sim_ok").await;
    let verdict = rig.verdict(&payment(1), "sim_slow_1").await;
    assert_eq!(verdict, Verdict::Unknown(Doubt::KeyMismatch));
    assert_eq!(rig.summary().await["charges"], 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_key_past_its_life_is_a_new_charge_which_the_look_up_calls_a_violation() {
    let rig = Rig::start_with(|settings| settings.key_ttl = Duration::ZERO).await;
    rig.verdict(&payment(1), "sim_ok").await;
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, charged("ch_2"));
    assert_eq!(rig.summary().await["paymentsChargedMoreThanOnce"], 1);
    match rig.gateway.lookup(&payment(1)).await {
        Lookup::Found(verdict) => violates("two charges", &verdict),
        other => panic!("{other:?}"),
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_gateway_replays_declines_or_500s_under_their_key_as_each_switch_says() {
    let decline = |reference| declined(DeclineClass::Soft, "insufficient_funds", reference);
    let payee = "sim_decline_insufficient_funds|sim_ok";
    for (replays_declines, replays_5xx) in [(true, false), (false, true)] {
        let rig = Rig::start_with(|settings| {
            (settings.replays_declines, settings.replays_5xx) = (replays_declines, replays_5xx);
        })
        .await;
        assert_eq!(rig.verdict(&payment(1), payee).await, decline("ch_1"));
        let resent = if replays_declines { decline("ch_1") } else { charged("ch_2") };
        assert_eq!(rig.verdict(&payment(1), payee).await, resent);
        let failed = Verdict::Unknown(Doubt::ServerError);
        assert_eq!(rig.verdict(&payment(2), "sim_500_charged").await, failed);
        let resent = if replays_5xx { failed } else { charged("ch_3") };
        assert_eq!(rig.verdict(&payment(2), "sim_500_charged").await, resent);
        assert_eq!(rig.gateway.lookup(&payment(2)).await, Lookup::Found(charged("ch_3")));
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_gateway_that_does_not_compare_bodies_answers_another_one_as_the_first() {
    let rig = Rig::start_with(|settings| settings.compares_body = false).await;
    rig.verdict(&payment(1), "sim_ok").await;
    assert_eq!(rig.verdict(&payment(1), "sim_slow_1").await, charged("ch_1"));
    assert_eq!(rig.summary().await["charges"], 1);
    rig.stop().await;
}

#[tokio::test]
async fn many_sends_of_one_key_at_once_charge_once_and_many_keys_charge_once_each() {
    let rig = Rig::start().await;
    let one = payment(1);
    let verdicts = join_all((0..40).map(|_| rig.verdict(&one, "sim_slow_20"))).await;
    for verdict in &verdicts {
        let fits = *verdict == Verdict::InProgress { retry_after: None }
            || matches!(verdict, Verdict::Charged { .. });
        assert!(fits, "{verdict:?}");
    }
    assert_eq!(rig.summary().await["charges"], 1);
    let payments: Vec<_> = (2..202).map(payment).collect();
    let verdicts = join_all(payments.iter().map(|payment| rig.verdict(payment, "sim_ok"))).await;
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Charged { .. })));
    let summary = rig.summary().await;
    assert_eq!((&summary["requests"], &summary["charges"]), (&240.into(), &201.into()));
    assert_eq!(summary["paymentsChargedMoreThanOnce"], 0);
    let lines = rig.ledger().await;
    let seqs: Vec<_> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=240).collect::<Vec<_>>(), "one line a request, in order, none missing");
    rig.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_during_a_slow_charge_finds_it_in_progress_and_then_charged() {
    let rig = Rig::start().await;
    let hasty = rig.gateway_with(rig::hasty);
    let payment = payment(1);
    let answered = rig::charge(&hasty, &payment, "sim_slow_5000", rig::open_gate()).await;
    assert_eq!(answered.answer().verdict, Verdict::Unknown(Doubt::TimedOut));
    let running = Verdict::InProgress { retry_after: None };
    assert_eq!(rig.gateway.lookup(&payment).await, Lookup::Found(running.clone()));
    assert_eq!(rig.verdict(&payment, "sim_slow_5000").await, running);
    crate::support::eventually("the charge shows", 60 * S, || async {
        (rig.gateway.lookup(&payment).await == Lookup::Found(charged("ch_1"))).then_some(())
    })
    .await;
    rig.stop().await;
}

#[tokio::test]
async fn a_restart_on_the_same_ledger_still_knows_every_key() {
    let rig = Rig::start().await;
    rig.verdict(&payment(1), "sim_reset_after_write").await;
    rig.verdict(&payment(2), "sim_decline_lost_card").await;
    let rig = rig.restart().await;
    assert_eq!(rig.gateway.lookup(&payment(1)).await, Lookup::Found(charged("ch_1")));
    assert_eq!(rig.verdict(&payment(1), "sim_reset_after_write").await, charged("ch_1"));
    let summary = rig.summary().await;
    assert_eq!((&summary["requests"], &summary["charges"]), (&3.into(), &1.into()));
    assert_eq!(rig.ledger().await.len(), 3);
    rig.stop().await;
}

#[tokio::test]
async fn a_gate_that_refuses_leaves_no_line_and_its_reason_is_the_verdict() {
    let rig = Rig::start().await;
    for (why, gate) in rig::closed_gates() {
        let answered = rig::charge(&rig.gateway, &payment(1), "sim_ok", gate).await;
        assert_eq!(answered.answer().verdict, Verdict::NotSent { why, retry_after: None });
        assert_eq!(answered.answer().how, How::NotStarted);
    }
    assert_eq!(rig.ledger().await.len(), 0);
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, charged("ch_1"), "the gateway still works");
    rig.stop().await;
}

#[tokio::test]
async fn the_gate_is_asked_at_the_write_and_not_when_the_call_starts() {
    let rig = Rig::start().await;
    let slow = rig.gateway_on(rig::jumping_clock(1_000 * S), |_| {});
    let gate = rig::gate_until(rig::host_mono(), 500 * S);
    let answered = rig::charge(&slow, &payment(1), "sim_ok", gate).await;
    assert_eq!(answered.answer().verdict, unsent(NotSent::LeaseTooShort));
    assert_eq!(rig.ledger().await.len(), 0);
    rig.stop().await;
}

#[tokio::test]
async fn the_bytes_under_one_key_are_the_same_for_every_claim() {
    let rig = Rig::start().await;
    let prepare = |attempt: i32, payee: &str| {
        let mut payment = payment(1);
        (payment.attempt, payment.fence.0) = (attempt, i64::from(attempt) + 5);
        payment.unanswered = attempt;
        rig.gateway.prepare(&rig::claimed(&payment, payee)).expect("renderable")
    };
    let (first, second, other) = (prepare(1, "sim_ok"), prepare(2, "sim_ok"), prepare(1, "sim_garbage"));
    assert_eq!((&first.key, first.hash), (&second.key, second.hash));
    assert_ne!(first.hash, other.hash);
    assert_eq!(rig::text(&first), rig::text(&second));
    let id = payment(1).id;
    let wanted = format!(r#"{{"paymentId":"{id}","amount":1000,"currency":"EUR","payee":"sim_ok"}}"#);
    assert_eq!(rig::text(&first), wanted);
    for payee in [String::new(), "x".repeat(256)] {
        assert!(rig.gateway.prepare(&rig::claimed(&payment(1), &payee)).is_err());
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_request_prepared_for_another_payment_is_not_sent() {
    let rig = Rig::start().await;
    let other = rig.gateway.prepare(&rig::claimed(&payment(2), "sim_ok")).expect("renderable");
    let answered = rig.gateway.charge(rig::claimed(&payment(1), "sim_ok"), other, rig::open_gate()).await;
    violates("another payment's request", &answered.answer().verdict);
    assert_eq!(answered.answer().how, How::NotStarted);
    assert_eq!(rig.ledger().await.len(), 0);
    rig.stop().await;
}

/// A bug seeded in the client itself: two requests under one claim. The ledger shows it, and only then.
#[tokio::test]
async fn seeded_bug_a_client_that_repeats_by_itself_makes_two_requests_under_one_claim() {
    for (bug, requests) in [(None, 1), (Some(Sabotage::HiddenRetry), 2)] {
        let _seeded = seeded(bug);
        let rig = Rig::start().await;
        let claim = rig.charge(&payment(1), "sim_reset_after_write").await.claimed().claim_id();
        let lines = rig.ledger().await;
        assert!(lines.iter().all(|line| line["claimId"] == claim.0.to_string()), "{lines:?}");
        assert_eq!(lines.len(), requests, "{bug:?}");
        rig.stop().await;
    }
    println!("seeded bug name={} caught=M6 how=ledger", Sabotage::HiddenRetry.name());
}
