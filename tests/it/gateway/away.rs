//! A gateway that is away in each of its ways, or has had enough: what our gateway makes of it, and
//! what the ledger says was charged.

use super::rig::{Rig, Still, charge, charged, hasty, open_gate, payment, unsent};
use crate::support::eventually;
use punctual::domain::verdict::{Doubt, Lookup, NotSent, Verdict};
use punctual::gateway::Gateway;
use punctual::platform::config::Value;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const S: Duration = Duration::from_secs(1);
/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);
const NOON: &str = "2026-11-28T12:00:00Z";

#[tokio::test]
async fn each_outage_that_takes_requests_is_unknown_and_charges_only_if_its_kind_does() {
    for (kind, doubt, charges) in [
        ("unavailable", Doubt::ServerError, 0),
        ("unavailable_charged", Doubt::ServerError, 1),
        ("silent", Doubt::TimedOut, 0),
        ("silent_charged", Doubt::TimedOut, 1),
    ] {
        let rig = Rig::start().await;
        let gateway = rig.gateway_with(|settings| {
            if kind.starts_with("silent") {
                hasty(settings);
            }
        });
        rig.go_away(kind, None).await;
        let answered = charge(&gateway, &payment(1), "sim_ok", open_gate()).await;
        assert_eq!(answered.answer().verdict, Verdict::Unknown(doubt), "{kind}");
        let line = eventually("the line", LONG, || async { rig.ledger().await.pop() }).await;
        let verdict = if charges == 1 { "charged" } else { "outage" };
        assert_eq!((&line["verdict"], &line["charged"]), (&verdict.into(), &(charges == 1).into()), "{kind}");
        assert_eq!(line["paymentId"], payment(1).id.to_string());
        let lookup = gateway.lookup(&payment(1)).await;
        assert_eq!(lookup, Lookup::Unavailable { retry_after: None }, "{kind}");
        assert_eq!(rig.get("/outage").await, format!(r#"{{"kind":"{kind}"}}"#));
        rig.come_back().await;
        let reference = format!("ch_{}", 2 - charges);
        assert_eq!(rig.verdict(&payment(1), "sim_ok").await, charged(&reference), "{kind}: resend");
        assert_eq!(rig.summary().await["charges"], 1, "{kind}");
        rig.stop().await;
    }
}

#[tokio::test]
async fn an_outage_that_refuses_cuts_everybody_off_and_proves_that_nothing_was_sent() {
    let clock = Still::at(NOON);
    let rig = Rig::start_on(Arc::new(clock.clone()), |_| {}).await;
    let mut idle = rig.dial().await.expect("connected");
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: sandbox\r\n\r\n").await.expect("written");
    let mut answer = [0; 1_024];
    assert!(idle.read(&mut answer).await.expect("an answer") > 0);
    rig.go_away("refuse", Some(60 * S)).await;
    let cut = idle.read(&mut answer).await.map_err(|error| error.kind());
    assert_eq!(cut, Err(ErrorKind::ConnectionReset), "an open connection is reset");
    eventually("the port refuses", LONG, || async { rig.dial().await.err() }).await;
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, unsent(NotSent::Refused));
    assert_eq!(rig.gateway.lookup(&payment(1)).await, Lookup::Unavailable { retry_after: None });
    clock.advance(60 * S);
    eventually("the port is back", LONG, || async { rig.dial().await.ok() }).await;
    assert_eq!(rig.ledger().await.len(), 0);
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, charged("ch_1"));
    rig.stop().await;
}

#[tokio::test]
async fn configured_windows_open_and_close_by_the_clock_and_come_again() {
    let clock = Still::at(NOON);
    let rig = Rig::start_on(Arc::new(clock.clone()), |settings| {
        settings.outages = Value::read("unavailable@10s+5s/60s,refuse@30s+5s").expect("windows");
    })
    .await;
    let away = Verdict::Unknown(Doubt::ServerError);
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, charged("ch_1"));
    clock.advance(10 * S);
    assert_eq!(rig.verdict(&payment(2), "sim_ok").await, away);
    clock.advance(5 * S);
    assert_eq!(rig.verdict(&payment(2), "sim_ok").await, charged("ch_3"));
    clock.advance(15 * S);
    eventually("the port refuses", LONG, || async { rig.dial().await.err() }).await;
    clock.advance(5 * S);
    eventually("the port is back", LONG, || async { rig.dial().await.ok() }).await;
    clock.advance(35 * S);
    assert_eq!(rig.verdict(&payment(3), "sim_ok").await, away, "a minute after the first");
    rig.stop().await;
}

#[tokio::test]
async fn only_who_has_the_secret_switches_and_only_to_what_can_be_switched_off() {
    let rig = Rig::start().await;
    for method in ["PUT", "DELETE"] {
        let (status, _) = rig.ask(method, "/outage", "wrong", r#"{"kind":"silent"}"#).await;
        assert_eq!(status, 401, "{method}");
    }
    for body in [
        "",
        "{}",
        r#"{"kind":"down"}"#,
        r#"{"kind":"refuse"}"#,
        r#"{"kind":"silent","forMs":99999999999}"#,
        r#"{"kind":"silent","until":1}"#,
    ] {
        assert_eq!(rig.ask("PUT", "/outage", "sandbox-secret", body).await.0, 400, "{body}");
    }
    assert_eq!(rig.get("/outage").await, r#"{"kind":null}"#);
    rig.stop().await;
}

#[tokio::test]
async fn above_its_rate_an_account_is_told_when_to_come_again_and_nothing_is_charged() {
    let clock = Still::at(NOON);
    let rig =
        Rig::start_on(Arc::new(clock.clone()), |settings| (settings.rate, settings.burst) = (1, 3)).await;
    let told = |seconds| Some(seconds * S);
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, charged("ch_1"));
    assert_eq!(rig.verdict(&payment(1), "sim_ok").await, charged("ch_1"), "a replay counts too");
    let stranger = rig.gateway_with(|settings| settings.secret = "wrong".into());
    charge(&stranger, &payment(1), "sim_ok", open_gate()).await;
    assert_eq!(rig.gateway.lookup(&payment(1)).await, Lookup::Found(charged("ch_1")), "the third call");
    let limited = Verdict::NotSent { why: NotSent::RateLimited, retry_after: told(1) };
    assert_eq!(rig.verdict(&payment(2), "sim_ok").await, limited);
    assert_eq!(rig.gateway.lookup(&payment(1)).await, Lookup::Unavailable { retry_after: told(1) });
    let line = rig.ledger().await.pop().expect("a line");
    assert_eq!((&line["verdict"], &line["charged"]), (&"over_rate".into(), &false.into()));
    assert_eq!(line["paymentId"], payment(2).id.to_string());
    clock.advance(S);
    assert_eq!(rig.verdict(&payment(2), "sim_ok").await, charged("ch_5"));
    assert_eq!(rig.summary().await["charges"], 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_latency_passes_before_the_answer_and_after_the_line() {
    let clock = Still::at(NOON);
    let rig = Rig::start_on(Arc::new(clock.clone()), |settings| {
        settings.latency = Value::read("p50=2s,p100=4s").expect("a table");
    })
    .await;
    let one = payment(1);
    let mut charging = Box::pin(rig.verdict(&one, "sim_ok"));
    tokio::select! {
        biased;
        verdict = &mut charging => panic!("answered at once: {verdict:?}"),
        _ = eventually("the line", LONG, || async { rig.ledger().await.pop() }) => {}
    }
    clock.advance(4 * S);
    assert_eq!(charging.await, charged("ch_1"));
    rig.stop().await;
}
