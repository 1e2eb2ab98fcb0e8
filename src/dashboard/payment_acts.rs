//! What is done about one payment from its page: each act is the API's own route, with a reason, and its answer is
//! said on the page. Numbers travel as the form has them and are judged by the route: what is none travels as `null`,
//! and is refused there. So is a field that every such form has and this one lacks: left out it would ask for more, such
//! as all of a charge, or an act on whatever the payment has become.

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

/// A whole number that the form has; `null` where there is none.
fn whole(sent: &Sent, name: &str) -> Value {
    sent.only(name).and_then(|text| text.parse::<i64>().ok()).map_or(Value::Null, Value::from)
}

/// What a release says besides its reason.
fn released(sent: &Sent) -> Map<String, Value> {
    let mut body = texts(sent, &["reason"]);
    body.insert("version".to_owned(), whole(sent, "version"));
    if sent.0.iter().any(|(name, _)| name == "newEpoch") {
        let wanted = if sent.only("newEpoch") == Some("true") { Value::Bool(true) } else { Value::Null };
        body.insert("newEpoch".to_owned(), wanted);
    }
    body
}

/// What a decision says besides its reason.
fn resolved(sent: &Sent) -> Map<String, Value> {
    let mut body = texts(sent, &["reason", "as"]);
    body.insert("version".to_owned(), whole(sent, "version"));
    let mut evidence = texts(sent, &["source", "gatewayReference", "currency", "note"]);
    // A charge is given with its amount, a non-charge without one.
    if sent.only("as") != Some("not_charged") || sent.text("amount").is_some() {
        evidence.insert("amount".to_owned(), whole(sent, "amount"));
    }
    body.insert("evidence".to_owned(), Value::Object(evidence));
    body
}

/// How much is asked back: an empty field is all that is left of the charge, and only that.
fn given_back(sent: &Sent) -> Option<Value> {
    if sent.only("amount") == Some("") { None } else { Some(whole(sent, "amount")) }
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
    let body = Value::Object(released(&sent));
    let path = format!("/v1/ops/parked/{id}/redrive");
    let told = ui.0.ask(&viewer, Method::POST, &path, Some(body)).await;
    let said = Said::of(&told, "It is released: it is looked up before anything is sent.");
    ui.0.said(&format!("/ui/payments/{id}"), &said)
}

pub(super) async fn resolve(ui: State<Ui>, viewer: Viewer, Path(id): Path<String>, sent: Sent) -> Shown {
    let id = named(&id)?;
    let body = Value::Object(resolved(&sent));
    let path = format!("/v1/ops/parked/{id}/resolve");
    let told = ui.0.ask(&viewer, Method::POST, &path, Some(body)).await;
    ui.0.said(
        &format!("/ui/payments/{id}"),
        &Said::of(&told, "It is decided, with the evidence that was given."),
    )
}

pub(super) async fn refund(ui: State<Ui>, viewer: Viewer, Path(id): Path<String>, sent: Sent) -> Shown {
    let id = named(&id)?;
    let mut body = texts(&sent, &["reason", "gatewayReference"]);
    body.insert("paymentId".to_owned(), json!(id));
    body.extend(given_back(&sent).map(|amount| ("amount".to_owned(), amount)));
    let body = Some(Value::Object(body));
    let told = ui.0.ask_once(&viewer, Method::POST, "/v1/ops/refunds", body, sent.text("key")).await;
    ui.0.said(&format!("/ui/payments/{id}"), &Said::of(&told, "It is asked for."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Sent {
        Sent(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_version_that_is_none_is_not_left_out() {
        let of = |pairs: &[(&str, &str)]| (released(&form(pairs)), resolved(&form(pairs)));
        let (release, decision) = of(&[("version", "7")]);
        assert_eq!((&release["version"], &decision["version"]), (&json!(7), &json!(7)));
        for pairs in
            [&[("version", "abc")][..], &[("version", "")], &[("version", "7"), ("version", "8")], &[]]
        {
            let (release, decision) = of(pairs);
            assert_eq!(
                (&release["version"], &decision["version"]),
                (&Value::Null, &Value::Null),
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn another_key_is_asked_for_by_one_word_only() {
        let of = |pairs: &[(&str, &str)]| released(&form(pairs)).get("newEpoch").cloned();
        assert_eq!(of(&[("version", "7")]), None);
        assert_eq!(of(&[("newEpoch", "true")]), Some(Value::Bool(true)));
        for other in ["false", "", "1"] {
            assert_eq!(of(&[("newEpoch", other)]), Some(Value::Null), "{other}");
        }
    }

    #[test]
    fn an_amount_that_is_none_is_refused_by_the_route_and_not_left_out() {
        let back = |pairs: &[(&str, &str)]| given_back(&form(pairs));
        assert_eq!(back(&[("amount", "")]), None, "all that is left, as the form says");
        assert_eq!(back(&[("amount", "500")]), Some(json!(500)));
        assert_eq!((back(&[]), back(&[("amount", "12.50")])), (Some(Value::Null), Some(Value::Null)));
        let of = |pairs: &[(&str, &str)]| resolved(&form(pairs))["evidence"].get("amount").cloned();
        assert_eq!(of(&[("as", "not_charged"), ("source", "their page")]), None);
        assert_eq!(of(&[("as", "charged"), ("amount", "12.50")]), Some(Value::Null));
        assert_eq!(of(&[("as", "charged"), ("amount", "1250")]), Some(json!(1_250)));
    }
}
