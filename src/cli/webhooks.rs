//! `punctual webhooks`: where an API client is told of its payments, what came of each request, and sending again.
//!
//! Everything through the API with the client's own key, so the commands see what any client sees. A secret is printed
//! by `create` and `rotate` and never again. `resend --failed-since` repeats its request until nothing is left, since
//! one request owes only so much; if it dies in between, run it again.

use super::Ended;
use super::output::{Column, Face, List, Output, Reader, at, object, print, put, say};
use super::payment::walked;
use super::remote::{Remote, confirm, empty_success, listed, looked_up, of_client};
use crate::platform::config::Config;
use crate::platform::exit::Exit;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// Webhooks: endpoints, their secrets, deliveries, resend.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Webhooks {
    /// Your endpoints, oldest first; never their secrets.
    List {
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// One endpoint, with what was done to it.
    Show(One),
    /// Have events sent to an address; the secret is in the answer, once.
    #[command(after_long_help = CREATE_HELP)]
    Create(Create),
    /// Change an endpoint; what is not named stays.
    Change(Box<Change>),
    /// Delete an endpoint; what it is still owed is discarded.
    Delete(Turned),
    /// Make another secret; both sign until the old one's end.
    Rotate {
        /// How long the old one signs on, at most 30d; 0s ends it at once. Without it a day, or as the installation has it.
        #[arg(long, value_name = "LENGTH")]
        overlap: Option<humantime::Duration>,
        #[command(flatten)]
        of: Turned,
    },
    /// Send to an endpoint again, beginning with what it is owed.
    Enable(One),
    /// Send nothing to an endpoint; what happens meanwhile is owed to it.
    Disable(Turned),
    /// Send a test message; `delivery` shows what came of it.
    Test(One),
    /// What an endpoint was and is owed, newest event first.
    Deliveries {
        /// As `list` shows it.
        #[arg(value_name = "ENDPOINT_ID")]
        id: String,
        /// Only those that stand so.
        #[arg(long, value_parser = ["pending", "delivered", "failed", "discarded"])]
        status: Option<String>,
        /// Most of them.
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// One delivery, with what each try met.
    Delivery {
        /// As `list` shows it.
        #[arg(value_name = "ENDPOINT_ID")]
        id: String,
        /// As `deliveries` shows it: the webhook-id of its requests.
        #[arg(value_name = "EVENT_ID")]
        event: EventId,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Send one event again, or all that failed since an instant.
    #[command(after_long_help = RESEND_HELP)]
    Resend(Resend),
}

const CREATE_HELP: &str = "\
Examples:
  punctual webhooks create https://shop.example/hooks/punctual
  punctual webhooks create https://shop.example/paid --event payment.completed --event payment.refunded

Requests are signed as Standard Webhooks has it: give the printed whsec_… to a library of theirs.
Exit codes: 0 made; 2 such an address is not called, or no such type; 6 another of yours has it, or you have too many.";

const RESEND_HELP: &str = "\
Examples:
  punctual webhooks resend ENDPOINT_ID 01a2283e-8820-8aaa-9bbb-0123456789ab/4
  punctual webhooks resend ENDPOINT_ID --failed-since 2030-01-31T00:00:00Z

An event that arrived can be sent again too: its receiver knows it by its webhook-id.
Exit codes: 0 owed again; 5 no such endpoint or event; 6 it is being sent at this moment.";

/// One endpoint.
#[derive(Debug, Clone, Args)]
pub(super) struct One {
    /// As `list` shows it.
    #[arg(value_name = "ENDPOINT_ID")]
    id: String,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// An act on an endpoint that somebody may regret.
#[derive(Debug, Clone, Args)]
pub(super) struct Turned {
    #[command(flatten)]
    one: One,
    /// Do not ask; needed where there is no terminal to ask at.
    #[arg(short, long)]
    yes: bool,
}

/// Where to, and what.
#[derive(Debug, Clone, Args)]
pub(super) struct Create {
    /// https, with a public name or address.
    #[arg(value_name = "URL")]
    url: String,
    /// Only events of this type; may be repeated.
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    /// Your own words.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Requests under way at one time, 1 to 100; without it 4.
    #[arg(long, value_name = "COUNT")]
    max_concurrency: Option<u16>,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What is to be otherwise.
#[derive(Debug, Clone, Args)]
pub(super) struct Change {
    /// As `list` shows it.
    #[arg(value_name = "ENDPOINT_ID")]
    id: String,
    /// Where to.
    #[arg(long, value_name = "URL", required_unless_present_any = ["events", "all_events", "description", "max_concurrency"])]
    url: Option<String>,
    /// Only events of this type; may be repeated.
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    /// Events of all types.
    #[arg(long, conflicts_with = "events")]
    all_events: bool,
    /// Your own words; may be empty.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Requests under way at one time, 1 to 100.
    #[arg(long, value_name = "COUNT")]
    max_concurrency: Option<u16>,
    /// Only if nothing was done to it since this version.
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<i32>,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What to send again.
#[derive(Debug, Clone, Args)]
pub(super) struct Resend {
    /// As `list` shows it.
    #[arg(value_name = "ENDPOINT_ID")]
    id: String,
    /// As `deliveries` shows it: the webhook-id of its requests.
    #[arg(value_name = "EVENT_ID", required_unless_present = "failed_since")]
    event: Option<EventId>,
    /// All that failed of the events since then: RFC 3339 with an offset.
    #[arg(long, value_name = "INSTANT", conflicts_with = "event")]
    failed_since: Option<String>,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The two parts of an event's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventId {
    payment: String,
    sequence: String,
}

impl std::str::FromStr for EventId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_id = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        match text.split_once('/') {
            Some((payment, sequence))
                if !payment.is_empty()
                    && is_id(payment)
                    && !sequence.is_empty()
                    && sequence.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                Ok(Self { payment: payment.to_owned(), sequence: sequence.to_owned() })
            }
            Some(_) | None => Err("an event's id is a payment's id, a slash and a number"),
        }
    }
}

const ENDPOINTS: &[Column] = &[
    Column { head: "ENDPOINT", of: |item| at(item, "/endpointId") },
    Column { head: "URL", of: |item| at(item, "/url") },
    Column { head: "EVENTS", of: |item| or(at(item, "/eventTypes"), "all") },
    Column { head: "DISABLED", of: |item| at(item, "/disabledReason") },
    Column { head: "FAILING SINCE", of: |item| at(item, "/failingSince") },
    Column { head: "LAST SUCCESS AT", of: |item| at(item, "/lastSuccessAt") },
];

const DELIVERIES: &[Column] = &[
    Column { head: "EVENT", of: |item| at(item, "/eventId") },
    Column { head: "TYPE", of: |item| at(item, "/eventType") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "TRIES", of: |item| at(item, "/tries") },
    Column { head: "LAST ANSWER", of: |item| or(at(item, "/lastError"), &at(item, "/lastStatus")) },
    Column { head: "NEXT TRY AT", of: |item| at(item, "/nextTryAt") },
    Column { head: "DELIVERED AT", of: |item| at(item, "/deliveredAt") },
];

const TRIES: &[Column] = &[
    Column { head: "TRY", of: |item| at(item, "/number") },
    Column { head: "AT", of: |item| at(item, "/at") },
    Column { head: "TOOK MS", of: |item| at(item, "/tookMs") },
    Column { head: "STATUS", of: |item| at(item, "/status") },
    Column { head: "ERROR", of: |item| at(item, "/error") },
    Column { head: "ANSWER", of: |item| at(item, "/excerpt") },
];

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

const PATH: &str = "webhook-endpoints";

/// Runs it.
///
/// # Errors
/// The API's refusal.
pub(super) async fn run(command: Webhooks, config: &Config) -> Result<(), Ended> {
    let remote = Remote::of(config)?;
    let client = &remote.client;
    match command {
        Webhooks::List { output } => listed(client.call("GET", &[PATH]), output, ENDPOINTS).await,
        Webhooks::Show(one) => looked_up(client.call("GET", &[PATH, &one.id]), one.output).await,
        Webhooks::Create(asked) => {
            looked_up(client.call("POST", &[PATH]).json(&created(&asked)), asked.output).await
        }
        Webhooks::Change(asked) => {
            let call = client.call("PATCH", &[PATH, &asked.id]).json(&changed(&asked));
            looked_up(call, asked.output).await
        }
        Webhooks::Delete(Turned { one, yes }) => {
            confirm(yes, &format!("Delete the endpoint {} and discard what it is owed", one.id))?;
            looked_up(client.call("DELETE", &[PATH, &one.id]), one.output).await
        }
        Webhooks::Rotate { overlap, of: Turned { one, yes } } => {
            confirm(yes, &format!("Make another secret for the endpoint {}", one.id))?;
            let body = overlap.map_or(json!({}), |overlap| json!({"overlapSeconds": overlap.as_secs()}));
            looked_up(client.call("POST", &[PATH, &one.id, "rotate"]).json(&body), one.output).await
        }
        Webhooks::Enable(one) => looked_up(client.call("POST", &[PATH, &one.id, "enable"]), one.output).await,
        Webhooks::Disable(Turned { one, yes }) => {
            confirm(yes, &format!("Send nothing to the endpoint {} any more", one.id))?;
            looked_up(client.call("POST", &[PATH, &one.id, "disable"]), one.output).await
        }
        Webhooks::Test(one) => looked_up(client.call("POST", &[PATH, &one.id, "test"]), one.output).await,
        Webhooks::Deliveries { id, status, limit, output } => {
            let of = status.map(|status| ("status", status)).into_iter().collect();
            let list = List::new(output, Face::of_stdout(), DELIVERIES);
            walked(&remote, &[PATH, &id, "deliveries"], of, limit, list).await
        }
        Webhooks::Delivery { id, event, output } => delivery(&remote, &id, &event, output).await,
        Webhooks::Resend(asked) => resend(&remote, asked).await,
    }
}

fn created(asked: &Create) -> Value {
    let mut body = json!({"url": asked.url});
    if !asked.events.is_empty() {
        body["eventTypes"] = asked.events.clone().into();
    }
    if let Some(description) = &asked.description {
        body["description"] = description.as_str().into();
    }
    if let Some(most) = asked.max_concurrency {
        body["maxConcurrency"] = most.into();
    }
    body
}

fn changed(asked: &Change) -> Value {
    let mut body = json!({});
    if let Some(url) = &asked.url {
        body["url"] = url.as_str().into();
    }
    if asked.all_events || !asked.events.is_empty() {
        body["eventTypes"] = asked.events.clone().into();
    }
    if let Some(description) = &asked.description {
        body["description"] = description.as_str().into();
    }
    if let Some(most) = asked.max_concurrency {
        body["maxConcurrency"] = most.into();
    }
    if let Some(version) = asked.if_version {
        body["version"] = version.into();
    }
    body
}

/// The delivery, and for people its tries as a list below it.
async fn delivery(remote: &Remote, id: &str, event: &EventId, output: Output) -> Result<(), Ended> {
    let path = [PATH, id, "deliveries", &event.payment, &event.sequence];
    let mut found = remote.client.call("GET", &path).send().await.map_err(of_client)?.body;
    if found.get("log").is_none_or(|log| !log.is_array()) {
        return Err(empty_success(&found));
    }
    if output != Output::Table {
        return print(&object(output, Face::of_stdout(), &found));
    }
    let log = found.as_object_mut().and_then(|fields| fields.remove("log"));
    if put(&object(output, Face::of_stdout(), &found))? == Reader::Left {
        return Ok(());
    }
    let tries = log.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut list = List::new(output, Face::of_stdout(), TRIES);
    match list.page(tries)? {
        Reader::Reads if !tries.is_empty() => list.end(),
        Reader::Reads | Reader::Left => Ok(()),
    }
}

async fn resend(remote: &Remote, asked: Resend) -> Result<(), Ended> {
    let client = &remote.client;
    if let Some(event) = asked.event {
        let path = [PATH, &asked.id, "deliveries", &event.payment, &event.sequence, "resend"];
        return looked_up(client.call("POST", &path), asked.output).await;
    }
    let Some(since) = asked.failed_since else {
        return Err(Ended::with(Exit::Usage, "name an event, or --failed-since"));
    };
    let (body, mut resent) = (json!({"since": since}), 0);
    loop {
        let answer = client.call("POST", &[PATH, &asked.id, "resend"]).json(&body).send().await;
        let answer = answer.map_err(|error| {
            if resent > 0 {
                say(&format!("{resent} were owed again before this"));
            }
            of_client(error)
        })?;
        let count = answer.body.get("resent").and_then(Value::as_u64);
        let count = count.ok_or_else(|| empty_success(&answer.body))?;
        resent += count;
        // Nothing, and more of it, is no answer to go on with.
        if count == 0 || answer.body.get("hasMore") != Some(&Value::Bool(true)) {
            break;
        }
    }
    print(&object(asked.output, Face::of_stdout(), &json!({"resent": resent})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_s_id_is_read_in_its_two_parts_and_nothing_else_is_one() {
        let read: EventId = "01a2283e-8820-8aaa-9bbb-0123456789ab/12".parse().expect("an id");
        assert_eq!(
            (read.payment.as_str(), read.sequence.as_str()),
            ("01a2283e-8820-8aaa-9bbb-0123456789ab", "12")
        );
        for wrong in ["", "/", "a/", "/1", "01a2", "01a2/x", "01a2/1/2", "../1", "01a2/-1"] {
            assert!(wrong.parse::<EventId>().is_err(), "{wrong}");
        }
    }
}
