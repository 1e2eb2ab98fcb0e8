//! The topics as an AsyncAPI 3 document, for those who read them with other tools.
//!
//! **Promise**: made from the very declarations by which topics are made and checked, and from the table
//! of event types, so it cannot say anything else than they do; `topics/asyncapi.yaml` is this document
//! for the default settings, held equal by a test. Schemas are named by reference to the files beside it.
//!
//! Nothing here asks a broker.

use super::topics::{Family, TopicsError, families};
use crate::domain::bucket::Slot;
use crate::domain::event_type::EventType;
use crate::domain::webhook::TEST_TYPE;
use crate::platform::config::Kafka;
use serde_json::{Map, Value, json};

/// Version of the Kafka bindings.
const BINDING: &str = "0.5.0";
/// The schemas' own dialect.
const DIALECT: &str = "application/schema+json;version=draft-2020-12";

/// Each header that a record may carry: its name, the form of its value, and what it is for.
const HEADERS: [(&str, &str, &str); 7] = [
    ("bucket", "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}Z$", "The exact minute that the notice is for."),
    ("not-before", "^[0-9]+$", "notBefore in milliseconds since 1970, for tools that read no JSON."),
    ("relay", "^[0-9]+/[0-9]+$", "Residue and fencing epoch of the relay that wrote it."),
    (
        "mac",
        "^[0-9a-f]{64}$",
        "HMAC-SHA256 under the installation's secret; without it a record proves nothing.",
    ),
    ("again", "^1$", "A replay repeats what went out before; its first appearance is none of these."),
    (
        "traceparent",
        "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
        "W3C trace of the request that made the payment.",
    ),
    ("content-type", "^application/cloudevents\\+json", "How the value is written."),
];

/// The document for the topics of these settings.
///
/// # Errors
/// [`TopicsError::BadDeclaration`], which a test rules out for a released build.
pub fn document(kafka: &Kafka) -> Result<Value, TopicsError> {
    let mut channels = Map::new();
    let mut messages = Map::new();
    for family in families()? {
        let id = id_of(&family);
        let carried = carried(&family);
        let names = carried.iter().map(|(name, _)| (name.clone(), reference(&format!("messages/{name}"))));
        let mut channel = json!({
            "address": family.name.replace("{prefix}", &kafka.topic_prefix),
            "description": family.about,
            "messages": names.collect::<Map<_, _>>(),
            "bindings": {"kafka": binding(&family, kafka)},
        });
        if family.copies > 1 {
            let minutes: Vec<_> = Slot::all().map(|slot| format!("{:02}", slot.minute())).collect();
            let about = "Minute of the hour of notBefore, UTC.";
            channel["parameters"] = json!({"minute": {"enum": minutes, "description": about}});
        }
        channels.insert(id, channel);
        messages.extend(carried);
    }
    // In no topic: it goes to endpoints of webhooks alone, which get events in the same form.
    messages.insert(
        TEST_TYPE.to_owned(),
        json!({
            "name": TEST_TYPE,
            "summary": "A test message of a webhook endpoint: nothing happened to any payment.",
            "contentType": "application/cloudevents+json",
            "payload": {"schemaFormat": DIALECT, "schema": {"$ref": "./webhook_test.schema.json"}},
        }),
    );
    Ok(json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What travels through Kafka: hints of payments that fall due, for Punctual's own \
                workers, and the history of every payment, for anyone. The truth is in the database.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": {
            "publishStagedNotices": operation("send", "dueMinute", "A relay publishes notices ahead of their minute."),
            "publishDueNotices": operation("send", "dueNow", "A relay publishes what is due or nearly so."),
            "receiveStagedNotices": received("dueMinute", "A worker holds each until its instant, then claims.", kafka),
            "receiveDueNotices": received("dueNow", "A worker claims at once.", kafka),
            "announceParked": operation("send", "parked", "The publisher announces what was parked; the record of it is in Postgres."),
            "publishEvents": operation("send", "events", "The publisher tells every row of history, in order per payment."),
        },
        "components": {"messages": messages},
    }))
}

/// `dueMinute` for `{prefix}due.m{minute}`, `dueNow`, `events`, `parked`.
fn id_of(family: &Family) -> String {
    let name = family.name.replace("{prefix}", "").replace("m{minute}", "minute");
    let mut id = String::new();
    for (place, part) in name.split('.').enumerate() {
        let mut letters = part.chars();
        match letters.next() {
            Some(first) if place > 0 => id.extend(first.to_uppercase()),
            Some(first) => id.push(first),
            None => {}
        }
        id.push_str(letters.as_str());
    }
    id
}

/// The messages of a topic by name: one, or one for each type of event.
fn carried(family: &Family) -> Vec<(String, Value)> {
    let schema = |file: &str| json!({"schemaFormat": DIALECT, "schema": {"$ref": format!("./{file}")}});
    if family.schema != "event.schema.json" {
        let name = family.schema.trim_end_matches(".schema.json").to_owned();
        return vec![(name, message(family, "application/json", &family.about, &schema(&family.schema)))];
    }
    let each = EventType::ALL.iter().map(|kind| {
        let file = kind.as_str().trim_start_matches("payment.");
        let payload = schema(&format!("events/{file}.schema.json"));
        let mut one = message(family, "application/cloudevents+json", kind.explanation(), &payload);
        one["name"] = kind.as_str().into();
        (kind.as_str().to_owned(), one)
    });
    each.collect()
}

fn message(family: &Family, content_type: &str, summary: &str, payload: &Value) -> Value {
    let declared = HEADERS.iter().filter(|(name, _, _)| family.headers.iter().any(|it| it == name));
    let headers = declared.map(|(name, pattern, about)| {
        ((*name).to_owned(), json!({"type": "string", "pattern": pattern, "description": about}))
    });
    let key = json!({"type": "string", "description": family.key, "pattern": "^[0-9a-f-]{36}$"});
    json!({
        "summary": summary,
        "contentType": content_type,
        "headers": {"type": "object", "properties": headers.collect::<Map<_, _>>()},
        "payload": payload,
        "bindings": {"kafka": {"key": key, "bindingVersion": BINDING}},
    })
}

fn binding(family: &Family, kafka: &Kafka) -> Value {
    let settings = family.settings.iter().map(|(name, value)| {
        let value = match (name.as_str(), value.parse::<i64>()) {
            ("cleanup.policy", _) => json!([value]),
            ("min.insync.replicas", _) => json!(kafka.min_insync_replicas),
            (_, Ok(number)) => json!(number),
            (_, Err(_)) => json!(value),
        };
        (name.clone(), value)
    });
    json!({
        "partitions": kafka.partitions,
        "replicas": kafka.replication,
        "topicConfiguration": settings.collect::<Map<_, _>>(),
        "bindingVersion": BINDING,
    })
}

fn reference(to: &str) -> Value {
    json!({"$ref": format!("#/components/{to}")})
}

fn operation(action: &str, channel: &str, summary: &str) -> Value {
    json!({"action": action, "channel": {"$ref": format!("#/channels/{channel}")}, "summary": summary})
}

fn received(channel: &str, summary: &str, kafka: &Kafka) -> Value {
    let mut operation = operation("receive", channel, summary);
    let group = json!({"type": "string", "const": kafka.group});
    operation["bindings"] = json!({"kafka": {"groupId": group, "bindingVersion": BINDING}});
    operation
}

/// The document as YAML. Every text stands in double quotes, as JSON has it, which YAML reads alike.
#[must_use]
pub fn as_yaml(document: &Value) -> String {
    let mut text = String::new();
    write(document, 0, &mut text);
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                let plain = name.chars().all(|c| c.is_ascii_alphanumeric());
                let name = if plain { name.clone() } else { Value::from(name.as_str()).to_string() };
                text.push_str(&format!("{indent}{name}:"));
                match field {
                    Value::Object(inner) if !inner.is_empty() => {
                        text.push('\n');
                        write(field, depth + 1, text);
                    }
                    Value::Object(_)
                    | Value::Array(_)
                    | Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_) => text.push_str(&format!(" {field}\n")),
                }
            }
        }
        // Lists and single values in JSON's form, on one line.
        other => text.push_str(&format!("{indent}{other}\n")),
    }
}
