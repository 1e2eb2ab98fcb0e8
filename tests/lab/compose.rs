//! `docker-compose.yml` says what the binary says: every command line, setting, port, health address
//! and name in it is held against the code, without a container engine.
//!
//! [`findings`] takes the text, so that `bad_snippets` can hold that each rule finds what it is for.

mod bad_snippets;
mod image;
mod services;
mod watching;

use clap::{FromArgMatches, Parser, Subcommand};
use punctual::cli::{Cli, Role};
use punctual::platform::config::{self, Config, Inputs};
use serde_json::Value;
use services::{Service, services};
use std::collections::{BTreeMap, BTreeSet};

const TEXT: &str = include_str!("../../docker-compose.yml");
/// The image of ours, built from `deploy/Dockerfile`.
const OURS: &str = "punctual:local";

/// What is wrong with a compose file, for people; empty if nothing is.
fn findings(text: &str) -> Vec<String> {
    let document: Value = match serde_saphyr::from_str(text) {
        Ok(document) => document,
        Err(error) => return vec![format!("not YAML: {error}")],
    };
    let all = services(&document);
    let mut found = Vec::new();
    for service in &all {
        let mut rules = image_is_pinned(service);
        rules.extend(is_confined(service));
        rules.extend(ports(service));
        rules.extend(volumes(service, &document["volumes"]));
        rules.extend(dependencies(service, &all));
        if service.image == OURS {
            rules.extend(ours(service, &all));
        }
        found.extend(rules.into_iter().map(|rule| format!("{}: {rule}", service.name)));
    }
    found.extend(whole(&all));
    found
}

/// A tag that names one version, or the image that the file itself builds.
fn image_is_pinned(service: &Service) -> Vec<String> {
    let last = service.image.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map_or("", |(_, tag)| tag);
    let is_exact = tag.matches('.').count() >= 2 || tag.split('-').next().is_some_and(|v| v.contains('.'));
    let pinned = service.image == OURS || (is_exact && tag.contains(|c: char| c.is_ascii_digit()));
    if pinned { vec![] } else { vec![format!("the image {:?} is not pinned", service.image)] }
}

fn is_confined(service: &Service) -> Vec<String> {
    let mut found = Vec::new();
    let mut hold = |fine: bool, rule: &str| {
        if !fine {
            found.push(rule.to_owned());
        }
    };
    let raw = &service.raw;
    hold(raw["cap_drop"] == serde_json::json!(["ALL"]), "keeps capabilities");
    hold(raw["security_opt"] == serde_json::json!(["no-new-privileges:true"]), "may gain privileges");
    hold(raw["privileged"].is_null() && raw["cap_add"].is_null(), "asks for privileges");
    let limits = &raw["deploy"]["resources"]["limits"];
    hold(limits["cpus"].is_string() && limits["memory"].is_string(), "has no resource limits");
    if service.image == OURS {
        let user = raw["user"].as_str().unwrap_or("0");
        hold(!user.starts_with('0') && !user.starts_with("root"), "runs as root");
        hold(raw["read_only"] == true, "can write to its image");
        hold(raw["tmpfs"] == serde_json::json!(["/tmp"]), "has no /tmp");
    }
    found
}

/// Published to this machine only; of ours, only what the service listens on.
fn ports(service: &Service) -> Vec<String> {
    let mut found = Vec::new();
    for port in &service.ports {
        let Some((_, inside)) = port.strip_prefix("127.0.0.1:").and_then(|rest| rest.split_once(':')) else {
            found.push(format!("the port {port:?} is reachable from elsewhere"));
            continue;
        };
        if service.image == OURS && !service.listens().iter().any(|listen| listen == inside) {
            found.push(format!("publishes {inside}, where it does not listen"));
        }
    }
    found
}

/// Named volumes that exist, and files of this repository that nobody in there may write; the sandbox's ledger lies in
/// one of the former.
fn volumes(service: &Service, declared: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut places = Vec::new();
    for volume in &service.volumes {
        let (name, place) = volume.split_once(':').unwrap_or((volume, ""));
        if let Some(path) = name.strip_prefix("./") {
            if !std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists() {
                found.push(format!("mounts {path}, which does not exist"));
            }
            if !place.ends_with(":ro") {
                found.push(format!("may write {path}"));
            }
            continue;
        }
        if declared.get(name).is_none() {
            found.push(format!("the volume {name:?} is not declared"));
        }
        places.push(place);
    }
    if let Some(ledger) = service.environment.get("PUNCTUAL_SANDBOX__LEDGER")
        && !places.iter().any(|place| ledger.starts_with(&format!("{place}/")))
    {
        found.push(format!("the ledger {ledger} lies in no volume"));
    }
    found
}

fn dependencies(service: &Service, all: &[Service]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, condition) in &service.depends_on {
        let Some(other) = all.iter().find(|other| other.name == *name) else {
            found.push(format!("depends on {name}, which does not exist"));
            continue;
        };
        if !other.raw["profiles"].is_null() && service.raw["profiles"] != other.raw["profiles"] {
            found.push(format!("depends on {name}, which is not always there"));
        }
        let can_be = match condition.as_str() {
            "service_completed_successfully" => other.role().is_none() && other.raw["restart"] == "no",
            "service_healthy" => !other.health.is_empty(),
            _ => false,
        };
        if !can_be {
            found.push(format!("waits until {name} is {condition:?}, which it never says"));
        }
    }
    found
}

/// Command line, settings and health of one of ours.
fn ours(service: &Service, all: &[Service]) -> Vec<String> {
    let mut found = Vec::new();
    if let Err(error) = Cli::try_parse_from(service.command_line()) {
        found.push(format!("the binary refuses {:?}: {}", service.command_line(), error.kind()));
    }
    let mut known: BTreeSet<String> = config::SETTINGS.iter().map(config::Setting::variable).collect();
    // The log's filter; it is needed before there are settings.
    known.insert("PUNCTUAL_LOG".to_owned());
    for name in service.environment.keys().filter(|name| !known.contains(*name)) {
        found.push(format!("{name} is no setting"));
    }
    match service.config() {
        Ok(config) => {
            if let Err(missing) = config.require(service.needs()) {
                found.push(missing.to_string());
            }
            found.extend(addresses(&config, all));
            found.extend(health(service, &config));
            found.extend(waits(service));
        }
        Err(problems) => found.push(problems.to_string()),
    }
    found
}

/// Every address that it calls is one where a service of this file listens.
fn addresses(config: &Config, all: &[Service]) -> Vec<String> {
    let database: &str = &config.database.url;
    let after_scheme = |url: &str| url.split_once("://").map_or(url, |(_, rest)| rest).to_owned();
    let host = |url: &str| {
        let rest = after_scheme(url);
        let rest = rest.rsplit_once('@').map_or(rest.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default().to_owned()
    };
    let called = [host(database), config.kafka.bootstrap_servers.clone(), host(&config.gateway.url)];
    let mut found = Vec::new();
    for address in called.into_iter().filter(|address| !address.is_empty()) {
        let (name, port) = address.split_once(':').unwrap_or((&address, ""));
        let other = all.iter().find(|other| other.name == name);
        if !other.is_some_and(|other| other.listens().iter().any(|listen| listen == port)) {
            found.push(format!("calls {address}, where nobody listens"));
        }
    }
    if let Some(postgres) = all.iter().find(|other| other.environment.contains_key("POSTGRES_DB"))
        && !database.is_empty()
    {
        let of = |name: &str| postgres.environment.get(name).map_or("", String::as_str);
        let (user, password, name) = (of("POSTGRES_USER"), of("POSTGRES_PASSWORD"), of("POSTGRES_DB"));
        let rest = after_scheme(database);
        if !rest.starts_with(&format!("{user}:{password}@")) || !rest.ends_with(&format!("/{name}")) {
            found.push("its database URL does not fit what the database is made with".to_owned());
        }
    }
    found
}

/// A role is asked by the binary itself, at an address that it serves.
fn health(service: &Service, config: &Config) -> Vec<String> {
    let Some(role) = service.role() else {
        return if service.health.is_empty() { vec![] } else { vec!["a one-shot has no health".to_owned()] };
    };
    let (listen, served): (&str, &[&str]) = match role {
        Role::Api => (&config.api.listen, &["/livez", "/readyz"]),
        Role::Sandbox => (&config.sandbox.listen, &["/livez"]),
        _ => (&config.metrics.listen, &["/livez", "/readyz"]),
    };
    let port = listen.rsplit(':').next().unwrap_or_default();
    let asked = service.health.iter().map(String::as_str).collect::<Vec<_>>();
    let ["CMD", line @ .., url] = asked.as_slice() else { return vec!["has no health check".to_owned()] };
    let expected = served.iter().map(|path| format!("http://127.0.0.1:{port}{path}")).collect::<Vec<_>>();
    let mut found = Vec::new();
    if !expected.iter().any(|address| address == url) {
        found.push(format!("is asked for its health at {url}, and serves it at {expected:?}"));
    }
    if Cli::try_parse_from(line.iter().chain([url])).is_err() || line != ["punctual", "health"] {
        found.push(format!("its health check {line:?} is no command of the binary"));
    }
    found
}

/// What it cannot work without is there before it starts.
fn waits(service: &Service) -> Vec<String> {
    let Some(role) = service.role() else { return vec![] };
    let needed: BTreeSet<&str> = role
        .needs()
        .iter()
        .filter_map(|setting| match *setting {
            "database.url" => Some("migrate"),
            "kafka.bootstrap_servers" => Some("topics"),
            "gateway.url" => Some("sandbox"),
            _ => None,
        })
        .collect();
    let missing = needed.into_iter().filter(|name| !service.depends_on.contains_key(*name));
    missing.map(|name| format!("starts before {name}")).collect()
}

/// What only the whole file can get wrong.
fn whole(all: &[Service]) -> Vec<String> {
    let mut found = Vec::new();
    let ours: Vec<&Service> = all.iter().filter(|service| service.image == OURS).collect();
    let present: BTreeSet<String> =
        ours.iter().filter_map(|service| service.command.first().cloned()).collect();
    for role in roles().into_iter().filter(|role| role != "all" && !present.contains(role)) {
        found.push(format!("no service runs the role {role}"));
    }
    for name in ["KAFKA__TOPIC_PREFIX", "KAFKA__GROUP", "KAFKA__PARTITIONS", "DATABASE__URL"] {
        let variable = format!("PUNCTUAL_{name}");
        let values: BTreeSet<&String> =
            ours.iter().filter_map(|service| service.environment.get(&variable)).collect();
        if values.len() > 1 {
            found.push(format!("{variable} is not the same everywhere"));
        }
    }
    let mut taken = BTreeMap::new();
    for (service, name) in ours.iter().flat_map(|service| {
        ["PUNCTUAL_WORKER__SLOT", "PUNCTUAL_RELAY__NAME", "PUNCTUAL_PUBLISHER__NAME"]
            .map(|variable| (service, variable))
    }) {
        let Some(value) = service.environment.get(name) else { continue };
        if let Some(other) = taken.insert((name, value), &service.name) {
            found.push(format!("{other} and {} share {name}", service.name));
        }
    }
    let mut outside = BTreeSet::new();
    for port in all.iter().flat_map(|service| &service.ports) {
        let host = port.rsplit_once(':').map_or(port.as_str(), |(host, _)| host);
        if !outside.insert(host.to_owned()) {
            found.push(format!("{host} is published twice"));
        }
    }
    if !ours.iter().any(|service| service.raw["build"]["dockerfile"] == "deploy/Dockerfile") {
        found.push("nothing builds the image".to_owned());
    }
    found
}

/// The role that is a command of its own, since with arguments it publishes again and ends.
const PUBLISHER: &str = "publisher";

/// The names of the roles, as the command line has them.
fn roles() -> Vec<String> {
    let holder = Role::augment_subcommands(clap::Command::new("roles"));
    let others = holder.get_subcommands().map(|role| role.get_name().to_owned());
    others.chain([PUBLISHER.to_owned()]).collect()
}

impl Service {
    fn command_line(&self) -> Vec<&str> {
        ["punctual"].into_iter().chain(self.command.iter().map(String::as_str)).collect()
    }

    /// The role that it runs; `None` for a one-shot command and for what is not ours.
    fn role(&self) -> Option<Role> {
        if self.command == [PUBLISHER] {
            return Some(Role::Publisher);
        }
        let holder = Role::augment_subcommands(clap::Command::new("punctual"));
        let matches = holder.try_get_matches_from(self.command_line()).ok()?;
        Role::from_arg_matches(&matches).ok()
    }

    fn needs(&self) -> &'static [&'static str] {
        match (self.role(), self.command.first().map(String::as_str)) {
            (Some(role), _) => role.needs(),
            (None, Some("topics")) => &["kafka.bootstrap_servers"],
            (None, _) => &["database.url"],
        }
    }

    fn config(&self) -> Result<Config, config::Problems> {
        let environment = self.environment.clone().into_iter().collect();
        config::load(&Inputs { environment, ..Inputs::default() }).map(|loaded| loaded.config)
    }
}

#[test]
fn everything_the_compose_file_names_exists() {
    let found = findings(TEXT);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_health_addresses_are_served() {
    use axum::{body::Body, http::Request};
    use punctual::platform::health::{Readiness, routes};
    use punctual::platform::{metrics, shutdown::Shutdown};
    use tower::ServiceExt;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for path in ["/livez", "/readyz"] {
            let (_trigger, shutdown) = Shutdown::manual();
            let exposition = metrics::Exposition::of(&metrics::recorder().unwrap());
            let request = Request::get(path).body(Body::empty()).unwrap();
            let answer = routes(Readiness::new(shutdown), exposition).oneshot(request).await.unwrap();
            assert!(answer.status().is_success(), "{path}: {}", answer.status());
        }
    });
    assert!(include_str!("../../src/sandbox/routes.rs").contains(r#".route("/livez""#));
}
