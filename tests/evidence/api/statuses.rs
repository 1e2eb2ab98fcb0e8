//! Every status that the document names, brought about: by the table-driven run of the contract test, and for
//! what that leaves to others, by a whole installation here.

use crate::contract::{ELSEWHERE, coverage};
use crate::figures::{Figures, Holds};
use crate::support::api::send;
use crate::support::contract::{Coverage, Held, named};
use crate::support::eventually;
use crate::support::installation::Installation;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::Utc;
use hmac::{Hmac, Mac};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeSet;
use std::time::Duration;

const KEY: &[u8] = b"a secret that both sides know";
const SOON: Duration = Duration::from_secs(30);

/// Counts what the document names and what came.
pub async fn every_documented_status_is_reached(figures: &mut Figures) {
    figures.part("Every documented status, and every answer held against its schema");
    let Coverage { mut held, documented, unreachable } = coverage().await;
    let alone = held.reached.len();
    elsewhere(&mut held).await;
    println!(
        "  {alone} of them on one API and its database, {} more on an installation",
        held.reached.len() - alone
    );
    let operations: BTreeSet<&str> = documented.iter().map(|(id, _)| *id).collect();
    figures.holds("operations", operations.len(), "more than 0", Holds(!operations.is_empty()));
    figures.met("answers held against the document", held.answers);
    let covered = Coverage { held, documented, unreachable };
    let missing = covered.missing();
    let named = covered.documented.len();
    let reached = covered.documented.intersection(&covered.held.reached).count();
    let beyond = covered.unreachable.difference(&covered.held.reached).count();
    let shown = format!("{reached} reached");
    let bound = format!("{named} named, {beyond} beyond reach");
    figures.holds("operation and status", shown, &bound, Holds(reached + beyond == named && reached > 0));
    for (id, status) in &missing {
        println!("      not reached: {id} {status}");
    }
    let defects = covered.unreachable.iter().filter(|(_, status)| *status == 500).count();
    println!("      beyond reach: {defects} times 500, a defect of ours; 503 of routes that ask no database");
    let undocumented = covered.held.reached.difference(&covered.documented).count();
    figures.violations("answers that the document does not know", covered.held.answers, undocumented, &[]);
}

/// What is left to others by [`ELSEWHERE`].
async fn elsewhere(held: &mut Held) {
    let secret = format!("whsec_{}", STANDARD.encode(KEY));
    let mut site = Installation::new(&[("gateway.callback_secret", &secret)]).await;
    site.start("api", "api-1", &[]).await;
    let command = [
        "keys",
        "create",
        "--actor",
        "looks",
        "--scope",
        "ops:read",
        "--scope",
        "payments:read",
        "-o",
        "json",
    ];
    let made: Value = serde_json::from_str(&site.run(&command)).expect("JSON of the key");
    let key = made["apiKey"].as_str().expect("the key's text");
    let of = |method: Method, path: &str| site.http.request(method, format!("{}{path}", site.url("api-1")));

    let takes = named("takeCallback");
    let path = takes.path.replace("{gateway}", "sandbox");
    // A payment that is not known here: of no concern.
    let unknown = "01a2283e-8820-8aaa-9bbb-0123456789ab";
    for body in [json!({"paymentId": unknown, "key": unknown, "status": "charged"}), json!([])] {
        let answer = send(signed(of(Method::POST, &path), &body.to_string()), None).await;
        held.take(&takes, &answer);
    }
    let buckets = named("listBuckets");
    let looked = eventually("the ring is looked at", SOON, || async {
        let answer = send(of(Method::GET, buckets.path).bearer_auth(key), None).await;
        (answer.status == 200).then_some(answer)
    });
    held.take(&buckets, &looked.await);
    let stream = named("streamEvents");
    let request = of(Method::GET, stream.path).bearer_auth(key).header("Accept", "text/event-stream");
    let mut answer = request.send().await.expect("the API answers");
    let first = tokio::time::timeout(SOON, answer.chunk()).await.expect("it begins").expect("a stream");
    // It does not end, so only its head and its beginning are looked at.
    if answer.headers()["content-type"] == "text/event-stream" && first.is_some_and(|chunk| !chunk.is_empty())
    {
        held.reached.insert((stream.id, answer.status().as_u16()));
    }
    for (id, status, _) in ELSEWHERE {
        let of_it: Vec<_> = held.reached.iter().filter(|(named, _)| named == id).collect();
        let reached = held.reached.contains(&(*id, *status));
        assert!(reached, "{id} {status} is left to others and not reached here: {of_it:?}");
    }
}

/// As Standard Webhooks has it.
fn signed(request: RequestBuilder, body: &str) -> RequestBuilder {
    let (id, sent_at) = (format!("msg_{}", body.len()), Utc::now().timestamp().to_string());
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY).expect("any length");
    mac.update(format!("{id}.{sent_at}.{body}").as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    request
        .header("content-type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", sent_at)
        .header("webhook-signature", signature)
        .body(body.to_owned())
}
