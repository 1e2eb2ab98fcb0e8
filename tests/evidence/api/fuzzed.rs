//! Schemathesis against the running product: the very run of `make test`, and what it reported.

use crate::figures::{Figures, Holds, Verdict};
use crate::support::installation::PUNCTUAL;
use punctual::intake::operations;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// The runs of `.ci/schemathesis`, by the names of their reports; and the phase that is the last of each.
const RUNS: [(&str, &str); 2] = [("units", "fuzzing"), ("stateful", "stateful")];
/// Least test cases of each run.
const LEAST_CASES: [u64; 2] = [2_000, 100];

/// Runs it and reads its reports.
pub fn the_interface_is_held_against_its_document(figures: &mut Figures) {
    figures.part("The interface against its own document: .ci/schemathesis, as `make test` runs it");
    let reports = tempfile::tempdir().expect("a folder");
    let binary = Path::new(PUNCTUAL);
    let profile = binary.parent().expect("a profile's folder");
    let output = Command::new(".ci/schemathesis")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PUNCTUAL_PROFILE", profile.file_name().expect("its name"))
        .env("CARGO_TARGET_DIR", profile.parent().expect("the target folder"))
        .env("SCHEMATHESIS_REPORTS", reports.path())
        .output()
        .expect("bash runs");
    let holds = output.status.success();
    figures.holds("schemathesis", output.status, "exit status: 0", Holds(holds));
    if !holds {
        println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
    for ((name, phase), least) in RUNS.into_iter().zip(LEAST_CASES) {
        reported(figures, reports.path(), (name, phase), least);
    }
}

fn reported(figures: &mut Figures, reports: &Path, (name, phase): (&str, &str), least: u64) {
    let text = std::fs::read_to_string(reports.join(format!("{name}.json"))).unwrap_or_default();
    let Ok(told) = serde_json::from_str::<Value>(&text) else {
        let why = "no report: it was left out, or broke off";
        return figures.line(&format!("{name}: its report"), why, "a report", Verdict::Unknown);
    };
    // It takes a path with a slash at its end for the one without.
    let told_apart: BTreeSet<_> =
        operations().iter().map(|it| (it.method, it.path.trim_end_matches('/'))).collect();
    let documented = told_apart.len() as u64;
    let count = |pointer: &str| told.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let (selected, tested) = (count("/operations/selected"), count("/operations/tested"));
    let shown = format!("{tested} tested, {selected} selected");
    // The stateful phase goes where links lead; the others are of every operation.
    let all = selected == documented && (name == "stateful" || tested == documented);
    let bound = format!("{documented} in the document");
    figures.holds(&format!("{name}: operations"), shown, &bound, Holds(all && tested > 0));
    let ended = told.pointer(&format!("/phases/{phase}/status")).and_then(Value::as_str).unwrap_or("not run");
    figures.holds(&format!("{name}: the phase {phase}"), ended, "success", Holds(ended == "success"));
    let cases = count("/test_cases/generated");
    let bound = format!("at least {least}");
    figures.holds(&format!("{name}: test cases"), cases, &bound, Holds(cases >= least));
    let checked = Checked::read(&reports.join(format!("{name}.ndjson")));
    let broken = usize::try_from(checked.failed).unwrap_or(usize::MAX);
    let made = usize::try_from(checked.passed + checked.failed).unwrap_or(usize::MAX);
    figures.violations(&format!("{name}: checks of {} kinds", checked.kinds.len()), made, broken, &[]);
    let (failures, errors) = (count("/test_cases/unique_failures"), count("/test_cases/errored"));
    let listed = ["failures", "errors"].map(|name| told[name].as_array().map_or(1, Vec::len));
    let shown = format!("{failures} failures, {errors} errors");
    let none = failures + errors == 0 && listed == [0, 0];
    figures.holds(&format!("{name}: what it found"), shown, "0 failures, 0 errors", Holds(none));
    let statuses: Vec<String> =
        checked.statuses.iter().map(|(status, seen)| format!("{status}: {seen}")).collect();
    println!("      answers: {}", statuses.join(", "));
}

/// What the log of events says of all cases.
#[derive(Debug, Default)]
struct Checked {
    passed: u64,
    failed: u64,
    kinds: BTreeSet<String>,
    statuses: BTreeMap<u64, u64>,
}

impl Checked {
    /// Each scenario has its checks and answers, by test case.
    fn read(path: &Path) -> Self {
        let mut all = Self::default();
        let Ok(file) = std::fs::File::open(path) else { return all };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            let recorder = &event["ScenarioFinished"]["recorder"];
            for checks in recorder["checks"].as_object().into_iter().flatten().map(|(_, checks)| checks) {
                for check in checks.as_array().into_iter().flatten() {
                    all.kinds.extend(check["name"].as_str().map(str::to_owned));
                    match check["status"].as_str() {
                        Some("success") => all.passed += 1,
                        // It says nothing about this answer.
                        Some("skip") => {}
                        _ => all.failed += 1,
                    }
                }
            }
            for (_, seen) in recorder["interactions"].as_object().into_iter().flatten() {
                if let Some(status) = seen["response"]["status_code"].as_u64() {
                    *all.statuses.entry(status).or_default() += 1;
                }
            }
        }
        all
    }
}
