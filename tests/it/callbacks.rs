//! A gateway that says on its own that it has decided: a hint, whatever it says, how often and when.

use crate::support::eventually;
use crate::support::installation::{Installation, free_address};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{TimeDelta, Utc};
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::Duration;

const SECONDS: Duration = Duration::from_secs(1);
const KEY: &[u8] = b"a secret that both sides know";
/// Asked again by itself only long after the test.
const SLOW_LADDERS: [(&str, &str); 2] = [("ladder.pending", "1h"), ("ladder.reask", "1h")];

async fn site(settings: &[(&str, &str)]) -> Installation {
    let secret = format!("whsec_{}", STANDARD.encode(KEY));
    let own = [("gateway.callback_secret", secret.as_str())];
    let settings: Vec<_> = SLOW_LADDERS.iter().chain(&own).chain(settings).copied().collect();
    let mut site = Installation::new(&settings).await;
    for (role, name) in [("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1")] {
        site.start(role, name, &[]).await;
    }
    site
}

/// One callback, signed `ago` seconds ago.
struct Callback<'a> {
    webhook_id: &'a str,
    payment: &'a str,
    status: &'a str,
    ago: i64,
    key: &'a [u8],
}

impl<'a> Callback<'a> {
    fn of(webhook_id: &'a str, payment: &'a str) -> Self {
        Self { webhook_id, payment, status: "charged", ago: 0, key: KEY }
    }

    fn request(&self, site: &Installation) -> reqwest::RequestBuilder {
        let body = json!({"paymentId": self.payment, "key": self.payment, "status": self.status}).to_string();
        let sent_at = (Utc::now() - TimeDelta::seconds(self.ago)).timestamp().to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key).expect("any length");
        mac.update(format!("{}.{sent_at}.{body}", self.webhook_id).as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        site.http
            .post(format!("{}/v1/gateway-callbacks/sandbox", site.url("api-1")))
            .header("content-type", "application/json")
            .header("webhook-id", self.webhook_id)
            .header("webhook-timestamp", sent_at)
            .header("webhook-signature", signature)
            .body(body)
    }

    /// Status, `Retry-After` and body.
    async fn send(&self, site: &Installation) -> (u16, Option<String>, Value) {
        let answer = self.request(site).send().await.expect("the API answers");
        let retry_after = answer.headers().get("retry-after").map(|it| it.to_str().expect("text").to_owned());
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        (status, retry_after, serde_json::from_str(&text).expect("JSON"))
    }
}

async fn counted(site: &Installation, what: &str) -> u32 {
    let answer = site.http.get(format!("{}/metrics", site.url("api-1"))).send().await;
    let told = answer.expect("the API serves").text().await.expect("a body");
    let series = format!("punctual_gateway_callbacks_total{{gateway=\"sandbox\",result=\"{what}\"}} ");
    told.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).expect("a count")
}

fn attempts(payment: &Value) -> usize {
    payment["attempts"].as_array().expect("attempts").len()
}

#[tokio::test]
async fn five_copies_at_once_have_a_pending_payment_asked_about_once_and_the_gateway_is_the_judge() {
    let site = site(&[]).await;
    let id = site.create("pending", "sim_pending_3_ok", Utc::now() + SECONDS).await;
    let waiting = site.settled(&id, &["UNKNOWN"], 40 * SECONDS).await;
    assert_eq!((waiting["statusReason"].as_str(), attempts(&waiting)), (Some("pending_at_gateway"), 1));
    let decides_at: chrono::DateTime<Utc> =
        waiting["attempts"][0]["settledAt"].as_str().and_then(|at| at.parse().ok()).expect("an instant");
    eventually("the gateway has decided", 20 * SECONDS, || async {
        (Utc::now() > decides_at + 4 * SECONDS).then_some(())
    })
    .await;
    // It says that it declined. It did not, and nobody believes it.
    let lie = Callback { status: "declined", ..Callback::of("msg_1", &id) };
    let copies = futures_util::future::join_all((0..5).map(|_| lie.send(&site))).await;
    for (status, ..) in &copies {
        // 503 to a copy that came while the payment was being asked about.
        assert!([200, 503].contains(status), "{copies:?}");
    }
    let paid = site.settled(&id, &["COMPLETED"], 40 * SECONDS).await;
    assert_eq!(attempts(&paid), 2, "asked about once: {paid}");
    assert_eq!(counted(&site, "hinted").await, 1);
    let history = site.http.get(format!("{}/v1/scheduled-payments/{id}/history", site.url("api-1")));
    let history = history.bearer_auth(&site.api_key).send().await.expect("an answer");
    let history = history.text().await.expect("a body");
    let history: Value = serde_json::from_str(&history).expect("JSON");
    let notes: Vec<_> =
        history["data"].as_array().expect("rows").iter().filter(|row| row["cause"] == "noted").collect();
    assert_eq!(notes.len(), 1, "{history}");
    assert_eq!(
        (&notes[0]["by"], &notes[0]["detail"]["callback"]),
        (&json!("gateway:sandbox"), &json!("msg_1"))
    );

    // A final state absorbs whatever comes.
    let late = Callback { status: "declined", ..Callback::of("msg_2", &id) }.send(&site).await;
    assert_eq!((late.0, late.2), (200, json!({})));
    assert_eq!(counted(&site, "final").await, 1 + copies.len() as u32 - 1 - others(&site).await);
    assert_eq!(site.settled(&id, &["COMPLETED"], SECONDS).await["version"], paid["version"]);
    let ledger = site.ledger().await;
    assert_eq!((ledger.len(), ledger[0]["charged"].as_bool()), (1, Some(true)), "{ledger:?}");
}

/// Copies that met neither the first hint nor the final state.
async fn others(site: &Installation) -> u32 {
    let mut others = 0;
    for what in ["already_due", "duplicate", "in_flight"] {
        others += counted(site, what).await;
    }
    others
}

#[tokio::test]
async fn a_callback_before_our_own_commit_comes_again_and_one_that_nobody_signed_is_refused() {
    let site = site(&[]).await;
    let id = site.create("slow", "sim_slow_4000", Utc::now() + SECONDS).await;
    site.settled(&id, &["PROCESSING"], 40 * SECONDS).await;
    let (status, retry_after, problem) = Callback::of("msg_1", &id).send(&site).await;
    assert_eq!((status, retry_after.as_deref()), (503, Some("5")), "{problem}");
    assert_eq!((&problem["code"], &problem["retryable"]), (&json!("payment_in_flight"), &json!(true)));
    let paid = site.settled(&id, &["COMPLETED"], 40 * SECONDS).await;
    assert_eq!(attempts(&paid), 1);
    assert_eq!(Callback::of("msg_1", &id).send(&site).await.0, 200, "the same one again");

    // Of a payment that nobody knows the answer is the same.
    let unknown = "01a2283e-8820-8aaa-9bbb-0123456789ab";
    assert_eq!(Callback::of("msg_2", unknown).send(&site).await, (200, None, json!({})));
    assert_eq!(counted(&site, "no_such_payment").await, 1);

    let forged = Callback { key: b"another secret", ..Callback::of("msg_3", &id) };
    let old = Callback { ago: 301, ..Callback::of("msg_4", &id) };
    let ahead = Callback { ago: -305, ..Callback::of("msg_5", &id) };
    for callback in [forged, old, ahead] {
        let (status, _, problem) = callback.send(&site).await;
        assert_eq!((status, &problem["code"]), (401, &json!("invalid_signature")), "{}", callback.webhook_id);
    }
    let elsewhere = Callback::of("msg_6", &id).request(&site).build().expect("a request");
    let mut elsewhere = elsewhere;
    elsewhere.url_mut().set_path("/v1/gateway-callbacks/other");
    assert_eq!(site.http.execute(elsewhere).await.expect("an answer").status(), 401);
    let large = Callback::of("msg_7", &id).request(&site).body(vec![b' '; 64 * 1024 + 1]);
    assert_eq!(large.send().await.expect("an answer").status(), 413);
    assert_eq!(counted(&site, "refused").await, 3);
}

#[tokio::test]
async fn what_the_gateway_tells_late_doubled_and_out_of_order_ends_in_the_state_that_it_shows() {
    let secret = format!("whsec_{}", STANDARD.encode(KEY));
    // The sandbox starts before the API, so its port is chosen here.
    let listen = free_address();
    let url = format!("http://{listen}/v1/gateway-callbacks/sandbox");
    let settings = [
        ("gateway.callback_secret", secret.as_str()),
        ("sandbox.callback_secret", &secret),
        ("sandbox.callback_url", &url),
        ("sandbox.callback_copies", "5"),
        ("sandbox.callback_late", "500ms"),
        // Asked more than once, only such a gateway's decline speaks for the one send.
        ("sandbox.replays_declines", "true"),
        ("gateway.replays_declines", "true"),
    ];
    let settings: Vec<_> = SLOW_LADDERS.iter().chain(&settings).copied().collect();
    let mut site = Installation::new(&settings).await;
    site.start("api", "api-1", &[("api.listen", &listen)]).await;
    for (role, name) in [("relay", "relay-1"), ("worker", "worker-1")] {
        site.start(role, name, &[]).await;
    }
    let mut ids = Vec::new();
    for (n, (payee, end)) in
        [("sim_pending_2_ok", "COMPLETED"), ("sim_pending_2_fail", "PENDING")].into_iter().enumerate()
    {
        ids.push((site.create(&format!("k{n}"), payee, Utc::now() + SECONDS).await, end));
    }
    for (id, end) in &ids {
        eventually("it ends as the gateway shows it", 40 * SECONDS, || async {
            let (_, payment) = site.get(id).await.ok()?;
            // PENDING for its next try, after the decline.
            (payment["status"] == *end && attempts(&payment) >= 2).then_some(())
        })
        .await;
    }
    assert!(counted(&site, "hinted").await >= 2);
    assert_eq!(counted(&site, "refused").await, 0);
    let charged: Vec<_> = site.ledger().await.into_iter().filter(|line| line["charged"] == true).collect();
    assert_eq!(charged.len(), 1, "{charged:?}");
}
