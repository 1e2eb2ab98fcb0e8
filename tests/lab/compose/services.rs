//! The services of a compose file, in the forms that this repository's file uses.

use serde_json::Value;
use std::collections::BTreeMap;

/// One service; what is not there is empty.
#[derive(Debug)]
pub struct Service {
    pub name: String,
    pub image: String,
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub ports: Vec<String>,
    pub volumes: Vec<String>,
    /// Service and condition.
    pub depends_on: BTreeMap<String, String>,
    /// Command of the health check, with its first word `CMD` or `CMD-SHELL`.
    pub health: Vec<String>,
    /// Everything, for rules about single keys.
    pub raw: Value,
}

/// All of them, in the order of their names.
pub fn services(document: &Value) -> Vec<Service> {
    let empty = serde_json::Map::new();
    let services = document["services"].as_object().unwrap_or(&empty);
    services.iter().map(|(name, raw)| service(name, raw)).collect()
}

fn service(name: &str, raw: &Value) -> Service {
    let pairs = |value: &Value| -> BTreeMap<String, String> {
        let object = value.as_object().cloned().unwrap_or_default();
        object.into_iter().map(|(name, value)| (name, text(&value))).collect()
    };
    let conditions = raw["depends_on"].as_object().cloned().unwrap_or_default();
    Service {
        name: name.to_owned(),
        image: text(&raw["image"]),
        command: texts(&raw["command"]),
        environment: pairs(&raw["environment"]),
        ports: texts(&raw["ports"]),
        volumes: texts(&raw["volumes"]),
        depends_on: conditions.into_iter().map(|(name, it)| (name, text(&it["condition"]))).collect(),
        health: texts(&raw["healthcheck"]["test"]),
        raw: raw.clone(),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().map(|items| items.iter().map(text).collect()).unwrap_or_default()
}

impl Service {
    /// The ports on which it listens: of ours by its settings, of others by what their images and
    /// command lines say.
    pub fn listens(&self) -> Vec<String> {
        let by_setting = ["PUNCTUAL_API__LISTEN", "PUNCTUAL_SANDBOX__LISTEN", "PUNCTUAL_METRICS__LISTEN"];
        let addresses = by_setting.iter().filter_map(|name| self.environment.get(*name));
        let mut ports: Vec<String> =
            addresses.filter_map(|address| Some(address.strip_prefix("0.0.0.0:")?.to_owned())).collect();
        let kafka = self.command.iter().filter_map(|word| word.strip_prefix("--kafka-addr="));
        let kafka = kafka.flat_map(|list| list.split(','));
        ports.extend(kafka.filter_map(|address| Some(address.rsplit_once(':')?.1.to_owned())));
        if self.image.starts_with("postgres:") {
            ports.push("5432".to_owned());
        }
        let web = self.command.iter().filter_map(|word| word.strip_prefix("--web.listen-address=0.0.0.0:"));
        ports.extend(web.map(str::to_owned));
        ports.extend(self.environment.get("GF_SERVER_HTTP_PORT").cloned());
        ports
    }
}
