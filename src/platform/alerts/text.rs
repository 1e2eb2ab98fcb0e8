//! What is made of the table: rules for Prometheus, cases for promtool, pages for people.
//!
//! Scalars are written as JSON strings, which YAML reads as they stand.

use super::{Alert, Series, alerts};
use std::fmt::Write;

/// When the cases are judged: later than the longest `lasts` and the longest window but two.
const JUDGED_AT: &str = "75m";

/// The file of rules.
#[must_use]
pub fn rules_yaml() -> String {
    let mut text = String::from(
        "# Made from src/platform/alerts.rs: BLESS=1 cargo test --test lab alerts\ngroups:\n  - name: punctual\n    rules:\n",
    );
    for alert in alerts() {
        let _ = write!(text, "      - alert: {}\n        expr: {}\n", alert.name, quoted(alert.asks));
        if !alert.lasts.is_empty() {
            let _ = writeln!(text, "        for: {}", alert.lasts);
        }
        let _ = write!(
            text,
            "        labels: {{severity: {}}}\n        annotations:\n          summary: {}\n          runbook: {}\n",
            alert.severity.as_str(),
            quoted(alert.summary),
            quoted(&runbook(alert)),
        );
    }
    text
}

/// The file of promtool's cases: each alert fires on one and is silent on another.
#[must_use]
pub fn tests_yaml() -> String {
    let mut text = String::from(
        "# Made from src/platform/alerts.rs: BLESS=1 cargo test --test lab alerts\nrule_files: [alerts.yml]\nevaluation_interval: 15s\ntests:\n",
    );
    for alert in alerts() {
        let (series, labels) = alert.fires;
        case(&mut text, alert, "fires", series);
        let labels: String =
            labels.iter().map(|(name, value)| format!(", {name}: {}", quoted(value))).collect();
        let _ = write!(
            text,
            "        exp_alerts:\n          - exp_labels: {{severity: {}{labels}}}\n            exp_annotations:\n              summary: {}\n              runbook: {}\n",
            alert.severity.as_str(),
            quoted(alert.summary),
            quoted(&runbook(alert)),
        );
        case(&mut text, alert, "is silent", alert.silent);
        text.push_str("        exp_alerts: []\n");
    }
    text
}

fn case(text: &mut String, alert: &Alert, what: &str, series: &[Series]) {
    let _ = write!(
        text,
        "  - name: {}\n    interval: 15s\n    input_series:\n",
        quoted(&format!("{} {what}", alert.name))
    );
    for Series { name, values } in series {
        let _ = write!(text, "      - series: {}\n        values: {}\n", quoted(name), quoted(values));
    }
    let _ = write!(
        text,
        "    alert_rule_test:\n      - eval_time: {JUDGED_AT}\n        alertname: {}\n",
        alert.name
    );
}

fn runbook(alert: &Alert) -> String {
    format!("deploy/runbooks.md#{}", alert.name.to_lowercase())
}

/// A page an alert.
#[must_use]
pub fn runbooks_markdown() -> String {
    let mut text = String::from(
        "# Runbooks\n\nOne page an alert, in the order of the table that they are made from (`src/platform/alerts.rs`). `page` wakes somebody; `ticket` can wait for the morning. Nothing here asks you to decide about money by guess: where an outcome is unknown, Punctual asks the gateway again under the same key, and leaves to you only what it cannot find out.\n",
    );
    for alert in alerts() {
        let lasts = if alert.lasts.is_empty() { "at once" } else { alert.lasts };
        let _ = write!(
            text,
            "\n## {}\n\n**{}** ({}; {lasts}). {}\n\nAsks: `{}`\n\nLook:\n",
            alert.name,
            alert.summary,
            alert.severity.as_str(),
            alert.means,
            alert.asks,
        );
        for (number, place) in (1..).zip(alert.look) {
            let _ = writeln!(text, "{number}. {place}");
        }
        text.push_str("\nDo:\n");
        for (number, act) in (1..).zip(alert.act) {
            let _ = writeln!(text, "{number}. {act}");
        }
    }
    text
}

/// A JSON string is a YAML scalar.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
