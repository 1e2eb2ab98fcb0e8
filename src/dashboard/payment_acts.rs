//! What is done about one payment from its page: each act is the API's own route, with a reason, and its answer is
//! said on the page. Numbers travel as the form has them and are judged by the route: what is none is left out, and
//! refused there as missing.

use super::Ui;
use super::act::{Said, Told, Tone};
use super::payment::named;
use super::show::Shown;
use super::viewer::{Sent, Viewer};
use axum::extract::{Path, State};
use axum::http::Method;
use serde_json::{Map, Value, json};

/// The fields of a form that the route takes as texts.
fn texts(sent: &Sent, names: &[&str]) -> Map<String, Value> {
    let found = names.iter().filter_map(|name| Some(((*name).to_owned(), json!(sent.text(name)?))));
    found.collect()
}

/// A whole number, where the form has one.
fn whole(sent: &Sent, name: &str) -> Option<i64> {
    sent.text(name)?.parse().ok()
}

pub(super) async fn cancel(ui: State<Ui>, viewer: Viewer, Path(id): Path<String>, sent: Sent) -> Shown {
    let id = named(&id)?;
    let body = Value::Object(texts(&sent, &["reason"]));
    let path = format!("/v1/ops/payments/{id}/cancel");
    let told = ui.0.ask(&viewer, Method::POST, &path, Some(body)).await;
    let said = match &told {
        Told::Asked(_) => Said {
            tone: Tone::Waits,
            title: "The wish to cancel is recorded.".to_owned(),
            detail: "No later claim sends a charge; the gateway is asked what became of the last one."
                .to_owned(),
            way: None,
        },
        Told::Done(_) | Told::Refused(_) => {
            Said::of(&told, "It is cancelled: it was never charged, and never will be.")
        }
    };
    ui.0.said(&format!("/ui/payments/{id}"), &said)
}

pub(super) async fn redrive(ui: State<Ui>, viewer: Viewer, Path(id): Path<String>, sent: Sent) -> Shown {
    let id = named(&id)?;
    let mut body = texts(&sent, &["reason"]);
    body.extend(whole(&sent, "version").map(|version| ("version".to_owned(), version.into())));
    if sent.text("newEpoch").is_some() {
        body.insert("newEpoch".to_owned(), true.into());
    }
    let path = format!("/v1/ops/parked/{id}/redrive");
    let told = ui.0.ask(&viewer, Method::POST, &path, Some(Value::Object(body))).await;
    let said = Said::of(&told, "It is released: it is looked up before anything is sent.");
    ui.0.said(&format!("/ui/payments/{id}"), &said)
}

pub(super) async fn resolve(ui: State<Ui>, viewer: Viewer, Path(id): Path<String>, sent: Sent) -> Shown {
    let id = named(&id)?;
    let mut body = texts(&sent, &["reason", "as"]);
    body.extend(whole(&sent, "version").map(|version| ("version".to_owned(), version.into())));
    let mut evidence = texts(&sent, &["source", "gatewayReference", "currency", "note"]);
    evidence.extend(whole(&sent, "amount").map(|amount| ("amount".to_owned(), amount.into())));
    body.insert("evidence".to_owned(), Value::Object(evidence));
    let path = format!("/v1/ops/parked/{id}/resolve");
    let told = ui.0.ask(&viewer, Method::POST, &path, Some(Value::Object(body))).await;
    ui.0.said(
        &format!("/ui/payments/{id}"),
        &Said::of(&told, "It is decided, with the evidence that was given."),
    )
}

pub(super) async fn refund(ui: State<Ui>, viewer: Viewer, Path(id): Path<String>, sent: Sent) -> Shown {
    let id = named(&id)?;
    let mut body = texts(&sent, &["reason", "gatewayReference"]);
    body.insert("paymentId".to_owned(), json!(id));
    match sent.text("amount").map(str::parse::<i64>) {
        Some(Ok(amount)) => drop(body.insert("amount".to_owned(), amount.into())),
        // Left out it would be all of the charge, which nobody asked for.
        Some(Err(_)) => drop(body.insert("amount".to_owned(), Value::Null)),
        None => {}
    }
    let body = Some(Value::Object(body));
    let told = ui.0.ask_once(&viewer, Method::POST, "/v1/ops/refunds", body, sent.text("key")).await;
    ui.0.said(&format!("/ui/payments/{id}"), &Said::of(&told, "It is asked for."))
}
