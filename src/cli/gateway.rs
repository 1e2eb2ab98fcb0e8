//! `punctual gateway` and `punctual switch`: stop calls to a gateway, or charges of a kind, and let them go
//! on. What is due meanwhile waits and is paid afterwards, its deadline permitting.

use super::Ended;
use super::output::{Column, Output, at};
use super::remote::{Act, Remote, acted, confirm, listed};
use crate::platform::config::Config;
use crate::story;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

/// Gateways and what they take.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Gateway {
    /// Each with its rate, its breaker, and whether it is paused.
    List {
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Claim nothing more of it; calls in flight are finished.
    Pause(Turned),
    /// Go on, oldest first and at its rate.
    Resume(Turned),
    /// Hold it to fewer calls a second than are configured; `none` ends that.
    Rate {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
        /// Calls a second, or `none`.
        #[arg(value_name = "COUNT", value_parser = calls)]
        calls: Calls,
        #[command(flatten)]
        act: Act,
    },
}

/// Calls a second; nothing ends a limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calls(Option<u32>);

fn calls(text: &str) -> Result<Calls, &'static str> {
    if text == "none" {
        return Ok(Calls(None));
    }
    text.parse().map(|calls| Calls(Some(calls))).map_err(|_| "a whole number, or none")
}

/// Which gateway, and why.
#[derive(Debug, Clone, Args)]
pub(super) struct Turned {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    act: Act,
}

/// Kill switches: no charge of a kind is sent while one is on.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Switch {
    /// Those that are on.
    List {
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Stop charges of this kind; look-ups go on.
    On(Of),
    /// Let them go on.
    Off(Of),
}

/// Which charges, and why.
#[derive(Debug, Clone, Args)]
pub(super) struct Of {
    /// What the switch goes by.
    #[arg(value_enum, value_name = "KIND")]
    kind: Kind,
    /// A gateway's name, an actor's name or id, or a currency; nothing for global.
    #[arg(
        value_name = "VALUE",
        required_if_eq_any([("kind", "gateway"), ("kind", "actor"), ("kind", "currency")])
    )]
    value: Option<String>,
    #[command(flatten)]
    act: Act,
}

/// What a switch goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// One gateway.
    Gateway,
    /// One API client.
    Actor,
    /// One currency.
    Currency,
    /// Everything.
    Global,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Actor => "actor",
            Self::Currency => "currency",
            Self::Global => "global",
        }
    }
}

const GATEWAYS: &[Column] = &[
    Column { head: "GATEWAY", of: |item| at(item, "/gateway") },
    Column { head: "STANDS", of: stands },
    Column { head: "BREAKER", of: |item| story::breaker(&at(item, "/breaker/state")).to_owned() },
    Column { head: "CALLS A SECOND", of: |item| at(item, "/rate/heldNow") },
    Column { head: "IN FLIGHT", of: |item| at(item, "/inFlight") },
    Column { head: "WHY", of: why },
];

/// In the dashboard's words; a pause names who ordered it.
fn stands(gateway: &Value) -> String {
    match at(gateway, "/status").as_str() {
        "paused" => format!("paused by {}", at(gateway, "/paused/by")),
        status => story::stands(status).to_owned(),
    }
}

/// What people said, what they switched off, and until when the rest lasts.
fn why(gateway: &Value) -> String {
    let reason = at(gateway, "/paused/reason");
    let mut told = if reason.is_empty() { Vec::new() } else { vec![reason] };
    let switches = gateway["killSwitches"].as_array().into_iter().flatten();
    told.extend(switches.map(|switch| format!("switch {} {}", at(switch, "/kind"), at(switch, "/value"))));
    let cause = at(gateway, "/breaker/cause");
    told.extend((!cause.is_empty()).then_some(cause));
    for (until, what) in [("/breaker/until", "breaker until"), ("/askedToWaitUntil", "asked to wait until")] {
        let until = at(gateway, until);
        told.extend((!until.is_empty()).then(|| format!("{what} {until}")));
    }
    told.join("; ")
}

const SWITCHES: &[Column] = &[
    Column { head: "KIND", of: |item| at(item, "/kind") },
    Column { head: "VALUE", of: |item| at(item, "/value") },
    Column { head: "ON", of: |item| at(item, "/on") },
    Column { head: "BY", of: |item| at(item, "/by") },
    Column { head: "SINCE", of: |item| at(item, "/since") },
    Column { head: "REASON", of: |item| at(item, "/reason") },
];

/// Runs `punctual gateway`.
///
/// # Errors
/// The API's refusal.
pub(super) async fn run(command: Gateway, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    let (asked, verb, what) = match command {
        Gateway::List { output } => {
            return listed(remote.client.call("GET", &["ops", "gateways"]), output, GATEWAYS).await;
        }
        Gateway::Rate { name, calls: Calls(calls), act } => {
            let rate =
                calls.map_or("the configured rate".to_owned(), |calls| format!("{calls} calls a second"));
            confirm(act.yes, &format!("Hold the gateway {name} to {rate}"))?;
            let call = remote.client.call("PUT", &["ops", "gateways", &name, "rate"]);
            let mut body = json!({"reason": act.reason});
            // Left out it is the configured one again.
            if let Some(calls) = calls {
                body["callsPerSecond"] = calls.into();
            }
            return acted(call.json(&body), act.output).await;
        }
        Gateway::Pause(asked) => (asked, "pause", "Pause"),
        Gateway::Resume(asked) => (asked, "resume", "Resume"),
    };
    confirm(asked.act.yes, &format!("{what} the gateway {}", asked.name))?;
    let call = remote.client.call("POST", &["ops", "gateways", &asked.name, verb]);
    acted(call.json(&json!({"reason": asked.act.reason})), asked.act.output).await
}

/// Runs `punctual switch`.
///
/// # Errors
/// The API's refusal.
pub(super) async fn switch(command: Switch, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    let (asked, on) = match command {
        Switch::List { output } => {
            return listed(remote.client.call("GET", &["ops", "kill-switches"]), output, SWITCHES).await;
        }
        Switch::On(asked) => (asked, true),
        Switch::Off(asked) => (asked, false),
    };
    let kind = asked.kind.as_str();
    let value = asked.value.as_deref().unwrap_or("all");
    let what = if on { "Stop charges of" } else { "Let charges go on of" };
    confirm(asked.act.yes, &format!("{what} {kind} {value}"))?;
    let call = remote.client.call("PUT", &["ops", "kill-switches", kind, value]);
    acted(call.json(&json!({"on": on, "reason": asked.act.reason})), asked.act.output).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(gateway: &Value) -> Vec<String> {
        GATEWAYS.iter().map(|column| (column.of)(gateway)).collect()
    }

    #[test]
    fn a_list_says_in_words_what_is_good_and_what_is_not() {
        let well = json!({"gateway": "sandbox", "status": "open", "breaker": {"state": "closed", "until": null},
            "rate": {"heldNow": 50}, "inFlight": 2, "killSwitches": []});
        assert_eq!(row(&well), ["sandbox", "takes charges", "closed: calls go through", "50", "2", ""]);
        let broken = json!({"gateway": "sandbox", "status": "broken", "inFlight": 0,
            "breaker": {"state": "open", "until": "2030-01-31T09:00:05Z", "cause": "a server error (HTTP 503)"}});
        let told = [
            "sandbox",
            "breaker open",
            "open: no calls go through",
            "",
            "0",
            "a server error (HTTP 503); breaker until 2030-01-31T09:00:05Z",
        ];
        assert_eq!(row(&broken), told);
        let paused = json!({"gateway": "bank", "status": "paused", "inFlight": 0, "breaker": {"state": "closed"},
            "paused": {"by": "key:alice", "reason": "ticket 7"}, "killSwitches": [{"kind": "currency", "value": "EUR"}]});
        let paused = row(&paused);
        assert_eq!(
            (paused[1].as_str(), paused[5].as_str()),
            ("paused by key:alice", "ticket 7; switch currency EUR")
        );
    }
}
