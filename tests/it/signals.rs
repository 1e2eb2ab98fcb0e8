//! What an installation tells whoever watches it. The alerts, judged by Prometheus' own tool: the rules can be read,
//! each fires where it must and is silent where it must be. Traces, and what must be in no signal: the parts.

mod canaries;
mod health;
mod traces;

use std::process::Command;
use std::time::Duration;

/// What happens at once happens within this also on a machine that does other things.
const SOON: Duration = Duration::from_secs(30);

fn promtool(arguments: &[&str]) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus");
    let ran = Command::new("promtool").args(arguments).current_dir(folder).output();
    let ran = ran.expect("promtool, which Debian's package `prometheus` brings");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
    said
}

#[test]
fn prometheus_reads_the_rules() {
    let said = promtool(&["check", "rules", "alerts.yml"]);
    let count = punctual::platform::alerts::alerts().count();
    assert!(said.contains(&format!("{count} rules found")), "{said}");
}

#[test]
fn prometheus_reads_the_settings_of_the_compose_file() {
    let said = promtool(&["check", "config", "prometheus.yml"]);
    assert!(said.contains("SUCCESS: prometheus.yml is valid"), "{said}");
}

#[test]
fn every_alert_fires_on_its_case_and_is_silent_on_the_other() {
    let said = promtool(&["test", "rules", "alerts_test.yml"]);
    assert!(said.contains("SUCCESS"), "{said}");
}
