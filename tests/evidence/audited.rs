//! The product's own `punctual audit check`, as a process over what the run left: the sandbox's ledger, the
//! database, the topics and the clients' log of operations. Its answer is the run's: a line a promise.

use crate::figures::{Figures, Holds};
use crate::support::mixed::Ran;
use punctual::audit::Op;
use serde_json::Value;
use std::path::Path;

/// Runs it and takes over its lines. A promise that these inputs cannot decide is printed and not judged;
/// one that they can and that looked at nothing is a figure that falls short, as is a situation of
/// `required` that was not met.
pub fn audited(figures: &mut Figures, ran: &Ran, folder: &Path, required: &[&str]) {
    let has_cancels = ran.records.operations.iter().any(|it| it.op == Op::Cancel);
    let log = folder.join("operations.ndjson");
    let lines = ran.records.operations.iter().map(|it| serde_json::to_string(it).expect("JSON") + "\n");
    std::fs::write(&log, lines.collect::<String>()).expect("a log");
    let ledger = format!("{}/ledger", ran.site.url("sandbox-1"));
    let operations = log.display().to_string();
    let first = ran.records.operations.iter().map(|it| it.at).min().expect("operations");
    // A ring is used by one run after another.
    let since = first.to_rfc3339();
    let mut arguments = vec!["audit", "check", "--ledger", &ledger, "--operations", &operations];
    arguments.extend(["--topics", "--since", &since, "-o", "json"]);
    required.iter().for_each(|name| arguments.extend(["--require", name]));
    let output = ran.site.output(&arguments);
    println!("  punctual audit check: ledger, database, topics and the clients' log");
    let code = output.status.code();
    figures.holds("exit code", format!("{code:?}"), "Some(0)", Holds(code == Some(0)));
    let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
        println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        return;
    };
    for line in report["invariants"].as_array().expect("lines") {
        let text = |name: &str| line[name].as_str().unwrap_or("").to_owned();
        let count = |name: &str| usize::try_from(line[name].as_u64().expect("a count")).expect("a count");
        if text("invariant") == "M7" && !has_cancels {
            continue;
        }
        let name = shortened(&format!("{:<3} {}", text("invariant"), text("statement")));
        if line["whyUnknown"].is_string() {
            println!("  {name:<58} not looked at: {}", text("whyUnknown"));
            continue;
        }
        let witnesses = line["witnesses"].as_array().expect("a list");
        let witnesses: Vec<String> = witnesses.iter().map(ToString::to_string).collect();
        figures.violations(&name, count("lookedAt"), count("broken"), &witnesses);
    }
    for line in report["situations"].as_array().expect("lines") {
        let name = line["situation"].as_str().expect("a name");
        match (line["required"] == true, line["met"].as_u64()) {
            (true, met) => figures.met(name, usize::try_from(met.unwrap_or(0)).expect("a count")),
            (false, Some(met)) => println!("  {name:<58} {met}"),
            (false, None) => {}
        }
    }
}

/// Fits the column; the whole sentence is in `domain/invariants.rs`.
fn shortened(name: &str) -> String {
    if name.chars().count() <= 58 { name.to_owned() } else { name.chars().take(57).chain(['…']).collect() }
}
