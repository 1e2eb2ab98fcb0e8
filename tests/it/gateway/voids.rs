//! Voids against a sandbox that really runs: one line each, one meaning each, and a tombstone that
//! outlives the process.

use super::rig::{Rig, claimed, closed_gates, declined, hasty, open_gate, payment};
use punctual::domain::payment::Payment;
use punctual::domain::verdict::{DeclineClass, Doubt, Lookup, NotSent, Verdict};
use punctual::gateway::{Gateway, HttpGateway};
use punctual::schedule::{Answer, How};
use std::time::Duration;

async fn start() -> (Rig, HttpGateway) {
    let rig = Rig::start_with(|settings| settings.voids_by_key = true).await;
    let gateway = rig.gateway_with(|settings| settings.voids_by_key = true);
    (rig, gateway)
}

async fn void(gateway: &HttpGateway, payment: &Payment) -> Answer {
    gateway.void(&claimed(payment, "sim_ok"), open_gate()).await
}

#[tokio::test]
async fn a_void_leaves_a_tombstone_that_refuses_charges_also_after_a_restart() {
    let (rig, gateway) = start().await;
    let mut payment = payment(1);
    (payment.fence.0, payment.epoch.0) = (17, 3);
    let answer = void(&gateway, &payment).await;
    assert_eq!((&answer.verdict, answer.how, answer.http_status), (&Verdict::Voided, How::Voided, Some(200)));
    assert_eq!((answer.took.is_some(), answer.request_hash), (true, None));
    let line = &rig.ledger().await[0];
    assert_eq!(
        (&line["request"], &line["verdict"], &line["charged"]),
        (&"void".into(), &"voided".into(), &false.into())
    );
    assert_eq!(line["key"], format!("{}:3", payment.id));
    assert_eq!((&line["paymentId"], &line["fence"]), (&payment.id.to_string().into(), &17.into()));
    assert_eq!((&line["amount"], &line["payee"]), (&().into(), &().into()));
    let rig = rig.restart().await;
    let gateway = rig.gateway_with(|settings| settings.voids_by_key = true);
    assert_eq!(rig.verdict(&payment, "sim_ok").await, Verdict::Voided);
    assert_eq!(gateway.lookup(&payment).await, Lookup::Found(Verdict::Voided));
    assert_eq!(void(&gateway, &payment).await.verdict, Verdict::Voided, "as often as one likes");
    let summary = rig.summary().await;
    assert_eq!(
        (&summary["requests"], &summary["voids"], &summary["charges"]),
        (&1.into(), &2.into(), &0.into())
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_void_answers_what_became_of_a_key_that_was_decided() {
    let rig =
        Rig::start_with(|settings| (settings.voids_by_key, settings.replays_declines) = (true, true)).await;
    let gateway = rig.gateway_with(|settings| settings.voids_by_key = true);
    let charged = rig.verdict(&payment(1), "sim_ok").await;
    assert!(matches!(charged, Verdict::Charged { .. }));
    assert_eq!(void(&gateway, &payment(1)).await.verdict, charged);
    rig.verdict(&payment(2), "sim_decline_stolen_card").await;
    let refused = declined(DeclineClass::Hard, "stolen_card", "ch_3");
    assert_eq!(void(&gateway, &payment(2)).await.verdict, refused);
    rig.verdict(&payment(3), "sim_pending_600_ok").await;
    assert!(matches!(void(&gateway, &payment(3)).await.verdict, Verdict::PendingAtGateway { .. }));
    rig.stop().await;
}

#[tokio::test]
async fn a_void_whose_answer_is_lost_or_refused_is_unknown_and_may_be_repeated() {
    let (rig, gateway) = start().await;
    let hasty = rig.gateway_with(hasty);
    for (n, payee, first) in [
        (1, "sim_void_lost", Verdict::Unknown(Doubt::ConnectionLost)),
        (2, "sim_void_refused_1", Verdict::Unknown(Doubt::ServerError)),
    ] {
        super::rig::charge(&hasty, &payment(n), payee, open_gate()).await;
        let answer = void(&gateway, &payment(n)).await;
        assert_eq!((answer.verdict, answer.how), (first, How::Voided), "{payee}");
        assert_eq!(void(&gateway, &payment(n)).await.verdict, Verdict::Voided, "{payee}");
    }
    assert_eq!(rig.summary().await["charges"], 0);
    rig.stop().await;
}

#[tokio::test]
async fn a_void_is_written_only_if_the_gate_says_yes_and_never_without_the_promise() {
    let (rig, gateway) = start().await;
    for (why, gate) in closed_gates() {
        let answer = gateway.void(&claimed(&payment(1), "sim_ok"), gate).await;
        let verdict = Verdict::NotSent { why, retry_after: None };
        assert_eq!((answer.verdict, answer.how, answer.http_status), (verdict, How::NotStarted, None));
    }
    let nobody = super::rig::gateway_at(
        "http://127.0.0.1:1",
        std::sync::Arc::new(punctual::platform::clock::Host),
        |settings| {
            settings.voids_by_key = true;
        },
    );
    let answer = void(&nobody, &payment(1)).await;
    let refused = Verdict::NotSent { why: NotSent::Refused, retry_after: None };
    assert_eq!((answer.verdict, answer.how), (refused, How::NotStarted));
    let answer = void(&rig.gateway, &payment(1)).await;
    assert!(matches!(answer.verdict, Verdict::ContractViolation { .. }), "not believed to void");
    assert_eq!(answer.how, How::NotStarted);
    assert!(rig.ledger().await.is_empty(), "nothing arrived");
    rig.stop().await;
}

#[tokio::test]
async fn a_sandbox_that_does_not_void_and_one_that_is_away_leave_the_question_open() {
    let rig = Rig::start().await;
    let gateway = rig.gateway_with(|settings| settings.voids_by_key = true);
    assert_eq!(void(&gateway, &payment(1)).await.verdict, Verdict::Unknown(Doubt::Unreadable));
    assert!(matches!(rig.verdict(&payment(1), "sim_ok").await, Verdict::Charged { .. }), "no tombstone");
    rig.stop().await;
    let (rig, gateway) = start().await;
    rig.go_away("unavailable_charged", Some(Duration::from_secs(600))).await;
    assert_eq!(void(&gateway, &payment(1)).await.verdict, Verdict::Unknown(Doubt::ServerError));
    rig.come_back().await;
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, Verdict::Voided, "it had been performed");
    rig.go_away("unavailable", Some(Duration::from_secs(600))).await;
    assert_eq!(void(&gateway, &payment(2)).await.verdict, Verdict::Unknown(Doubt::ServerError));
    rig.come_back().await;
    assert!(matches!(rig.verdict(&payment(2), "sim_ok").await, Verdict::Charged { .. }));
    for (body, status) in [(r#"{"key":"k"}"#, 401), ("{}", 401)] {
        assert_eq!(rig.ask("POST", "/voids", "wrong", body).await.0, status);
    }
    for body in ["{}", r#"{"key":""}"#, r#"{"key":"a b"}"#, r#"{"key":"k","more":1}"#, ""] {
        assert_eq!(rig.ask("POST", "/voids", "sandbox-secret", body).await.0, 400, "{body}");
    }
    rig.stop().await;
}
