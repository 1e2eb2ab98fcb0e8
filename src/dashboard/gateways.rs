//! Gateways: how each stands, what stops it, and the acts that stop it or let it go on; kill switches beside them.

use super::act::Said;
use super::api::Listed;
use super::show::{self, Shown};
use super::text::{self, Html};
use super::viewer::Sent;
use super::{Frame, Place, Ui, Viewer};
use askama::Template;
use axum::extract::{Path, State};
use axum::http::Method;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

const PAGE: &str = "/ui/gateways";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gateway {
    gateway: String,
    account: String,
    status: String,
    paused: Option<Paused>,
    kill_switches: Vec<Switched>,
    breaker: Breaker,
    asked_to_wait_until: Option<DateTime<Utc>>,
    rate: Option<Rate>,
    calls: Calls,
    in_flight: i64,
    workers: Vec<Value>,
}

#[derive(Deserialize)]
struct Paused {
    by: String,
    reason: String,
    since: DateTime<Utc>,
}

#[derive(Deserialize)]
struct Switched {
    kind: String,
    value: String,
}

#[derive(Deserialize)]
struct Breaker {
    state: String,
    until: Option<DateTime<Utc>>,
    cause: Option<String>,
    trips: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rate {
    configured: i64,
    limit: Option<i64>,
    held_now: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Calls {
    last_ten_seconds: i64,
    failed: i64,
}

#[derive(Deserialize)]
struct Thrown {
    kind: String,
    value: String,
    actor: Option<String>,
    by: String,
    reason: String,
    since: DateTime<Utc>,
}

#[derive(Template)]
#[template(path = "gateways.html")]
struct Page {
    frame: Frame,
    gateways: Vec<Gateway>,
    thrown: Vec<Thrown>,
}

impl Gateway {
    fn chip(&self) -> Html {
        let (tone, shape, word) = match self.status.as_str() {
            "open" => ("completed", "✓", "takes charges"),
            "paused" => ("parked", "▮▮", "paused by a person"),
            "killed" => ("failed", "✕", "switched off"),
            "broken" => ("failed", "⚡", "breaker open"),
            "probing" => ("bad", "▲", "still broken: probing"),
            "asked_to_wait" => ("unknown", "…", "asked to wait"),
            other => ("quiet", "?", other),
        };
        text::chip(tone, shape, word)
    }

    /// What that means for payments, and what to do; nothing where all is well.
    fn means(&self) -> &'static str {
        match self.status.as_str() {
            "paused" => {
                "Nothing of it is claimed until a person resumes it. What is due waits, and is charged then, oldest first."
            }
            "killed" => "No charge is sent to it until its kill switch below is released. Look-ups go on.",
            "broken" => {
                "Its calls fail, so nothing is claimed; one call at a time finds out whether it is back, and it goes on \
                 by itself then. Look at the gateway's own status page first. If it stays so, pause it with a reason, so \
                 that others know."
            }
            "probing" => {
                "Still broken: one call is trying whether it is back, and nothing else is charged there. It goes on by \
                 itself once a call is answered."
            }
            "asked_to_wait" => "It asked us to wait, and we do; it goes on by itself.",
            _ => "",
        }
    }

    /// What to do about that, step by step.
    fn runbook(&self) -> Option<&'static str> {
        matches!(self.status.as_str(), "broken" | "probing").then_some("BreakerOpen")
    }

    /// How its breaker stands: an open one lets nothing through, which not everybody knows.
    fn breaker_words(&self) -> &str {
        crate::story::breaker(&self.breaker.state)
    }

    /// What its instant is.
    fn breaker_until(&self) -> &'static str {
        if self.breaker.state == "half_open" { "that call has until" } else { "tried again from" }
    }

    /// How often in a row it opened; nothing where it never did. It stays known for a while behind the closing.
    fn failed(&self) -> String {
        match self.breaker.trips {
            0 => String::new(),
            1 => "opened once".to_owned(),
            trips => format!("opened {} times in a row", text::count(trips)),
        }
    }

    /// Where an act on it is sent.
    fn way(&self, act: &str) -> String {
        format!("{PAGE}/{}/{act}", segment(&self.gateway))
    }

    fn workers(&self) -> String {
        text::count(i64::try_from(self.workers.len()).unwrap_or(i64::MAX))
    }
}

impl Thrown {
    fn names(&self) -> String {
        self.actor.clone().unwrap_or_else(|| self.value.clone())
    }
}

pub(super) async fn page(State(ui): State<Ui>, viewer: Viewer) -> Shown {
    let gateways: Listed<Gateway> = ui.read(&viewer, "/v1/ops/gateways").await?;
    let thrown: Listed<Thrown> = ui.read(&viewer, "/v1/ops/kill-switches").await?;
    let frame = ui.frame(&viewer, Place::Gateways).await;
    show::page(&Page { frame, gateways: gateways.data, thrown: thrown.data })
}

/// The reason that stands in the form.
fn because(sent: &Sent) -> Value {
    json!({"reason": sent.text("reason")})
}

pub(super) async fn pause(
    State(ui): State<Ui>,
    viewer: Viewer,
    Path(name): Path<String>,
    sent: Sent,
) -> Shown {
    ui.order(&viewer, (Method::POST, &name, "pause"), because(&sent), "The gateway is paused.").await
}

pub(super) async fn resume(
    State(ui): State<Ui>,
    viewer: Viewer,
    Path(name): Path<String>,
    sent: Sent,
) -> Shown {
    ui.order(&viewer, (Method::POST, &name, "resume"), because(&sent), "The gateway is called again.").await
}

/// An empty number ends the limit; a form without one says nothing.
pub(super) async fn rate(
    State(ui): State<Ui>,
    viewer: Viewer,
    Path(name): Path<String>,
    sent: Sent,
) -> Shown {
    let mut body = because(&sent);
    match sent.only("callsPerSecond").map(|text| (text, text.parse::<i64>())) {
        Some(("", _)) => {}
        Some((_, Ok(calls))) => body["callsPerSecond"] = json!(calls),
        Some((_, Err(_))) | None => {
            let words =
                "Expected a whole number of calls a second, or an empty field for what is configured.";
            return ui.said(PAGE, &Said::refused("The rate was left as it is.", words));
        }
    }
    ui.order(&viewer, (Method::PUT, &name, "rate"), body, "The gateway is held to that rate.").await
}

/// What a form says of a switch: its kind, its value, and whether it is thrown; `None` where it does not say that.
fn switched(sent: &Sent) -> Option<(&str, &str, bool)> {
    let on = match sent.only("on")? {
        "true" => true,
        "false" => false,
        _ => return None,
    };
    match (sent.only("kind")?, sent.only("value").unwrap_or_default()) {
        ("global", "" | "all") => Some(("global", "all", on)),
        // Whoever names one thing does not mean everything.
        ("global", _) => None,
        (kind, value) => Some((kind, value, on)),
    }
}

/// Throws or releases a kill switch: which one stands in the form.
pub(super) async fn switch(State(ui): State<Ui>, viewer: Viewer, sent: Sent) -> Shown {
    let Some((kind, value, on)) = switched(&sent) else {
        let words = "The form does not say which switch is meant, or whether it is thrown or released. Everything is \
                     one switch, and has no name beside it.";
        return ui.said(PAGE, &Said::refused("No switch was touched.", words));
    };
    let path = format!("/v1/ops/kill-switches/{}/{}", segment(kind), segment(value));
    let body = json!({"on": on, "reason": sent.text("reason")});
    let told = ui.ask(&viewer, Method::PUT, &path, Some(body)).await;
    let done = if on { "Nothing of that kind is charged any more." } else { "It is charged again." };
    ui.said(PAGE, &Said::of(&told, done))
}

impl Ui {
    async fn order(
        &self,
        viewer: &Viewer,
        (method, name, act): (Method, &str, &str),
        body: Value,
        done: &str,
    ) -> Shown {
        let path = format!("/v1/ops/gateways/{}/{act}", segment(name));
        let told = self.ask(viewer, method, &path, Some(body)).await;
        self.said(PAGE, &Said::of(&told, done))
    }
}

/// A text as one segment of a path, whatever is in it.
pub(super) fn segment(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            written.push(char::from(byte));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_thrown_or_released_only_by_a_form_that_says_so() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let sent = Sent(pairs.collect());
            switched(&sent).map(|(kind, value, on)| format!("{kind} {value} {on}"))
        };
        let eur = [("kind", "currency"), ("value", "EUR")];
        let with = |more: &[(&'static str, &'static str)]| of(&[&eur[..], more].concat());
        assert_eq!(with(&[("on", "true")]).as_deref(), Some("currency EUR true"));
        assert_eq!(with(&[("on", "false")]).as_deref(), Some("currency EUR false"));
        for on in [&[("on", "")][..], &[], &[("on", "TRUE")], &[("on", "true"), ("on", "false")]] {
            assert_eq!(with(on), None, "{on:?}");
        }
        assert_eq!(of(&[("kind", "global"), ("on", "false")]).as_deref(), Some("global all false"));
        assert_eq!(of(&[("kind", "global"), ("value", "EUR"), ("on", "true")]), None);
    }

    #[test]
    fn a_gateway_that_is_being_probed_is_still_broken() {
        let of = |status: &str, state: &str, trips: i64| {
            let found = json!({"gateway": "sandbox", "account": "a", "status": status, "paused": null,
                "killSwitches": [], "breaker": {"state": state, "until": null, "cause": null, "trips": trips}, "askedToWaitUntil": null, "rate": null,
                "calls": {"lastTenSeconds": 0, "failed": 0}, "inFlight": 1, "workers": []});
            serde_json::from_value::<Gateway>(found).unwrap()
        };
        let probing = of("probing", "half_open", 7);
        assert!(probing.chip().to_string().contains("class=\"chip bad\""), "{}", probing.chip());
        assert!(probing.means().starts_with("Still broken: one call is trying"), "{}", probing.means());
        assert_eq!(
            (probing.failed().as_str(), probing.runbook()),
            ("opened 7 times in a row", Some("BreakerOpen"))
        );
        assert!(probing.breaker_words().starts_with("half open: "), "{}", probing.breaker_words());
        assert_eq!(of("broken", "open", 1).runbook(), Some("BreakerOpen"));
        let open = of("open", "closed", 0);
        assert_eq!((open.means(), open.failed().as_str(), open.runbook()), ("", "", None));
    }

    #[test]
    fn a_segment_leads_nowhere_else() {
        assert_eq!(segment("bank-1"), "bank-1");
        assert_eq!(segment("../acts?x=ü"), "%2E%2E%2Facts%3Fx%3D%C3%BC");
    }
}
