//! The profile `metrics`: Prometheus reads every process of the file where it listens and judges the rules of the code,
//! and Grafana shows the boards of the code, from there, to people who can change nothing.

use super::services::Service;
use super::{OURS, TEXT, services};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Services, and where a folder or file of the repository lies in one of them.
struct Watching(Vec<Service>);

impl Watching {
    fn new() -> Self {
        let document: Value = serde_saphyr::from_str(TEXT).expect("YAML");
        Self(services(&document))
    }

    fn service(&self, name: &str) -> &Service {
        self.0.iter().find(|service| service.name == name).unwrap_or_else(|| panic!("no service {name}"))
    }

    /// Source in the repository and place in the container of everything that is mounted.
    fn mounts(&self, name: &str) -> Vec<(String, String)> {
        let volumes = self.service(name).volumes.iter();
        volumes
            .filter_map(|volume| {
                let (path, place) = volume.strip_prefix("./")?.split_once(':')?;
                Some((path.to_owned(), place.trim_end_matches(":ro").to_owned()))
            })
            .collect()
    }
}

fn yaml(path: &str) -> Value {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a file");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn prometheus_reads_every_process_of_ours_where_it_listens() {
    let all = Watching::new();
    let config = yaml("deploy/prometheus/prometheus.yml");
    let [job] = config["scrape_configs"].as_array().expect("jobs").as_slice() else { panic!("one job") };
    let read: BTreeSet<&str> = job["static_configs"][0]["targets"]
        .as_array()
        .expect("targets")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    // The simulated gateway is not ours to watch; what runs once has nothing to say.
    let works =
        all.0.iter().filter(|it| it.image == OURS && it.raw["restart"] != "no" && it.name != "sandbox");
    let wanted: BTreeSet<String> = works
        .map(|service| {
            let listens = service.environment.get("PUNCTUAL_API__LISTEN");
            let listens = listens.or_else(|| service.environment.get("PUNCTUAL_METRICS__LISTEN"));
            let (_, port) = listens.and_then(|it| it.rsplit_once(':')).expect("it serves its metrics");
            format!("{}:{port}", service.name)
        })
        .collect();
    assert_eq!(read, wanted.iter().map(String::as_str).collect());
    assert_eq!(wanted.len(), 6);
    let rules = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/alerts.yml"));
    let job = format!("job=\\\"{}\\\"", job["job_name"].as_str().expect("a name"));
    assert!(rules.expect("the rules").contains(&job), "the rules ask for {job}");
}

#[test]
fn prometheus_is_given_its_settings_and_the_rules_of_the_code() {
    let all = Watching::new();
    let mounts = all.mounts("prometheus");
    let place = |path: &str| {
        let found = mounts.iter().find(|(from, _)| from == path);
        &found.unwrap_or_else(|| panic!("{path} is not mounted")).1
    };
    let config = place("deploy/prometheus/prometheus.yml");
    let told = all.service("prometheus").command.iter().find_map(|word| word.strip_prefix("--config.file="));
    assert_eq!(told, Some(config.as_str()));
    let rules = yaml("deploy/prometheus/prometheus.yml")["rule_files"].clone();
    let (folder, _) = config.rsplit_once('/').expect("a folder");
    // Rules are named from where the settings lie.
    let named: Vec<String> = rules
        .as_array()
        .expect("files")
        .iter()
        .map(|it| format!("{folder}/{}", it.as_str().expect("a name")))
        .collect();
    assert_eq!(named, [place("deploy/prometheus/alerts.yml").as_str()]);
}

#[test]
fn grafana_shows_the_boards_of_the_code_from_that_prometheus() {
    let all = Watching::new();
    let source = yaml("deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"][0].clone();
    let url = source["url"].as_str().and_then(|url| url.strip_prefix("http://")).expect("http");
    let (name, port) = url.split_once(':').expect("a port");
    assert!(all.service(name).listens().iter().any(|listens| listens == port), "{url}");
    assert_eq!(
        (&source["type"], &source["isDefault"], &source["editable"]),
        (&json!("prometheus"), &json!(true), &json!(false))
    );
    let every = yaml("deploy/prometheus/prometheus.yml")["global"]["scrape_interval"].clone();
    assert_eq!(source["jsonData"]["timeInterval"], every);

    let provider = yaml("deploy/grafana/provisioning/dashboards/punctual.yml")["providers"][0].clone();
    let path = provider["options"]["path"].as_str().expect("a path");
    let mounts = all.mounts("grafana");
    let shown: BTreeSet<&str> = mounts
        .iter()
        .filter(|(_, place)| place.starts_with(&format!("{path}/")))
        .map(|(from, _)| from.as_str())
        .collect();
    let made = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/grafana")).expect("a folder");
    let made: BTreeSet<String> = made
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".json"))
        .map(|name| format!("deploy/grafana/{name}"))
        .collect();
    assert_eq!(shown, made.iter().map(String::as_str).collect());
    assert!(
        mounts.contains(&("deploy/grafana/provisioning".to_owned(), "/etc/grafana/provisioning".to_owned()))
    );
    let home = &all.service("grafana").environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"];
    assert!(mounts.iter().any(|(_, place)| place == home), "{home}");
}

#[test]
fn both_come_only_when_asked_for_and_are_confined() {
    let all = Watching::new();
    let asked: Vec<&str> =
        all.0.iter().filter(|it| !it.raw["profiles"].is_null()).map(|it| it.name.as_str()).collect();
    assert_eq!(asked, ["grafana", "prometheus"]);
    for name in asked {
        let service = all.service(name);
        assert_eq!(service.raw["profiles"], json!(["metrics"]), "{name}");
        let user = service.raw["user"].as_str().expect("a user");
        assert!(!user.starts_with('0') && !user.starts_with("root"), "{name} runs as root");
        assert_eq!(
            (&service.raw["read_only"], &service.raw["tmpfs"]),
            (&json!(true), &json!(["/tmp"])),
            "{name}"
        );
        assert!(!service.health.is_empty(), "{name} has no health check");
    }
    let settings = &all.service("grafana").environment;
    assert_eq!(settings["GF_AUTH_ANONYMOUS_ORG_ROLE"], "Viewer");
    assert_eq!(settings["GF_AUTH_DISABLE_LOGIN_FORM"], "true");
}
