//! The services of `docker-compose.yml` start and become healthy: each of ours is run with its own
//! command line and settings as a process, with only addresses, names and the horizon moved to where
//! this test's database and ring are, and its health check is the one of the file.

use crate::support::eventually;
use crate::support::installation::{Installation, PUNCTUAL};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// What cannot be the same outside of containers.
const MOVED: [&str; 5] = ["api.listen", "sandbox.listen", "metrics.listen", "sandbox.ledger", "gateway.url"];

/// `PUNCTUAL_WORKER__SLOT` → `worker.slot`.
fn setting(variable: &str) -> String {
    let name = variable.strip_prefix("PUNCTUAL_").expect("one of our variables");
    name.replace("__", ".").to_lowercase()
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn health_exit_code(url: &str) -> Option<i32> {
    let asked = Command::new(PUNCTUAL).args(["health", url]).output().expect("the binary runs");
    asked.status.code()
}

#[tokio::test]
async fn every_service_of_the_compose_file_starts_and_its_health_check_says_so() {
    let compose: Value = serde_saphyr::from_str(include_str!("../../docker-compose.yml")).expect("YAML");
    let mut site = Installation::new(&[]).await;
    let services = compose["services"].as_object().expect("services");
    let ours = || services.iter().filter(|(_, service)| service["image"] == "punctual:local");

    for (name, service) in ours().filter(|(_, service)| service["restart"] == "no") {
        let done = site.run(&words(&service["command"]));
        assert!(!done.is_empty(), "{name} says what it did");
    }
    // The file brings its own sandbox, and a ledger has one writer.
    site.role("sandbox-1").kill();
    let mut checks = Vec::new();
    for (name, service) in ours().filter(|(_, service)| service["restart"] != "no") {
        let environment = service["environment"].as_object().expect("settings");
        let settings: Vec<(String, &str)> = environment
            .iter()
            .filter(|(variable, _)| !site.environment.contains_key(*variable))
            .map(|(variable, value)| (setting(variable), value.as_str().expect("a text")))
            .filter(|(setting, _)| !MOVED.contains(&setting.as_str()))
            .collect();
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(setting, value)| (setting.as_str(), *value)).collect();
        let [role] = words(&service["command"])[..] else { panic!("{name} runs one role") };
        site.start(role, name, &settings).await;
        let asked = words(&service["healthcheck"]["test"]);
        let path = &asked.last().expect("a URL")["http://127.0.0.1:8080".len()..];
        checks.push((name.clone(), format!("{}{path}", site.url(name))));
    }
    assert_eq!(checks.len(), 7, "{checks:?}");
    for (name, url) in &checks {
        eventually(&format!("{name} is healthy"), Duration::from_secs(30), || async {
            (health_exit_code(url) == Some(0)).then_some(())
        })
        .await;
    }
    for (name, url) in &checks {
        site.role(name).kill();
        assert_eq!(health_exit_code(url), Some(1), "{name} is gone, and its health check must say so");
    }
}
