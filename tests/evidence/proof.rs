//! The logic by itself: the protocol explored, the whole path simulated, bugs seeded in the product and
//! caught by name, memory held against Postgres.
//!
//! What runs longest, the explorer and the simulator, comes from one optimised build; the rest from the
//! build of every day.

use crate::figures::{Figures, Holds};
use punctual::platform::faults::Sabotage;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

/// Payments of the simulation, on virtual time.
const PAYMENTS: u64 = 1_000_000;
/// Random sequences on memory and Postgres.
const SEQUENCES: &str = "250";
/// Rules left out of the model that must be found.
const LEFT_OUT: usize = 38;

/// All of it.
pub fn show(figures: &mut Figures) {
    let optimised = optimised(figures);
    explored(figures, &optimised);
    simulated(figures, &optimised);
    seeded(figures);
    held_against_postgres(figures);
}

/// Paths of the optimised binaries, by name.
fn optimised(figures: &mut Figures) -> BTreeMap<String, String> {
    let build = ["test", "--locked", "--release", "--test", "lab", "--no-run", "--message-format", "json"];
    let output = cargo(&[], &build);
    succeeded(figures, "one optimised build of explorer and simulator", &output);
    let made = |line: &str| {
        let made: Value = serde_json::from_str(line).ok()?;
        Some((made["target"]["name"].as_str()?.to_owned(), made["executable"].as_str()?.to_owned()))
    };
    text(&output).lines().filter_map(made).collect()
}

fn run(mut command: Command, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    command.args(arguments).envs(environment.iter().copied()).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.output().expect("it starts")
}

fn cargo(environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    run(Command::new(env!("CARGO")), environment, arguments)
}

/// Tests of every day's build.
fn tests(environment: &[(&str, &str)], of: &str, filter: &str) -> Output {
    let test = ["test", "--locked", "--features", "faults", "--test", of, "--", "--nocapture", filter];
    cargo(environment, &test)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `name=value` of a line.
fn value<'a>(line: &'a str, name: &str) -> &'a str {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or("?").trim_end_matches(':')
}

fn succeeded(figures: &mut Figures, name: &str, output: &Output) {
    figures.holds(name, output.status, "exit status: 0", Holds(output.status.success()));
    if !output.status.success() {
        println!("{}{}", text(output), String::from_utf8_lossy(&output.stderr));
    }
}

fn explored(figures: &mut Figures, optimised: &BTreeMap<String, String>) {
    figures.part("The protocol of one payment, explored exhaustively at the larger bounds");
    let explore = ["--nocapture", "model::", "seeded::"];
    let output = run(Command::new(&optimised["lab"]), &[("PUNCTUAL_MODEL", "large")], &explore);
    let text = text(&output);
    let lines = |kind: &str| {
        let start = format!("model {kind} ");
        text.lines().filter_map(|line| Some(&line[line.find(&start)?..])).collect::<Vec<_>>()
    };
    for line in lines("holds") {
        let states: u64 = value(line, "states").parse().unwrap_or(0);
        let shown = format!("{states} states, depth {}, {} s", value(line, "depth"), value(line, "seconds"));
        figures.holds(
            &format!("holds: {}", value(line, "name")),
            shown,
            "more than 1000 states",
            Holds(states > 1_000),
        );
    }
    let breaks = lines("breaks");
    for line in &breaks {
        let shown = format!("{} broken after {} steps", value(line, "property"), value(line, "trace"));
        let found = value(line, "trace").parse::<u64>().is_ok_and(|steps| steps > 0);
        figures.holds(&format!("without: {}", value(line, "name")), shown, "a counterexample", Holds(found));
    }
    let enough = breaks.len() >= LEFT_OUT;
    figures.holds("counterexamples", breaks.len(), &format!("at least {LEFT_OUT}"), Holds(enough));
    succeeded(figures, "the model's tests, and no seeded bug in the optimised binary", &output);
}

fn simulated(figures: &mut Figures, optimised: &BTreeMap<String, String>) {
    figures.part("The real worker, relay and keeper in worlds full of faults, on virtual time");
    let payments = PAYMENTS.to_string();
    let simulate = ["simulate", "--check", "--threads", "2", "--payments", &payments];
    let output = run(Command::new(&optimised["punctual"]), &[], &simulate);
    let text = text(&output);
    for line in text.lines() {
        let Some((count, what)) = line.trim().split_once("  ") else { continue };
        let Ok(count) = count.parse::<u64>() else { continue };
        let (bound, holds) = match what {
            "violations" => ("0", count == 0),
            "payments" => ("at least a million", count >= PAYMENTS),
            // Worlds that end in these are other tests' business.
            _ if what.starts_with("ended ") => ("", true),
            _ => ("more than 0", count > 0),
        };
        figures.holds(what, count, bound, Holds(holds));
    }
    succeeded(figures, "simulate --check", &output);
    let output = tests(&[], "lab", "simulation::");
    succeeded(figures, "the same seeds twice, with equal traces; capacity against closed forms", &output);
}

fn seeded(figures: &mut Figures) {
    figures.part("Bugs seeded in the product itself, each caught by name, and by which promise");
    let outputs = [tests(&[], "lab", "seeded::"), tests(&[], "it", "seeded_bug")];
    let texts = outputs.each_ref().map(text);
    let lines = texts.iter().flat_map(|text| text.lines());
    let mut caught = BTreeSet::new();
    for line in lines.filter_map(|line| Some(&line[line.find("seeded bug ")?..])) {
        let what = format!("{} in {} worlds", value(line, "caught"), value(line, "worlds"));
        figures.holds(value(line, "name"), what.replace(" in ? worlds", ""), "caught", Holds(true));
        caught.insert(value(line, "name"));
    }
    let all = Sabotage::ALL.len();
    figures.holds(
        "seeded bugs caught",
        format!("{} of {all}", caught.len()),
        &format!("{all} of {all}"),
        Holds(caught.len() == all),
    );
    for (of, output) in ["the simulation's", "the real services'"].into_iter().zip(&outputs) {
        succeeded(figures, &format!("{of} tests with seeded bugs"), output);
    }
}

fn held_against_postgres(figures: &mut Figures) {
    figures.part("The schedule in memory held against Postgres");
    let output = tests(&[("PUNCTUAL_CONFORMANCE_SEQUENCES", SEQUENCES)], "it", "conformance::");
    let text = text(&output);
    let line = text.lines().rev().find_map(|line| Some(&line[line.find("conformance sequences=")?..]));
    let line = line.unwrap_or("");
    for name in ["sequences", "operations", "kills"] {
        let count: u64 = value(line, name).parse().unwrap_or(0);
        figures.holds(name, count, "more than 0", Holds(count > 0));
    }
    figures.holds("differences", value(line, "differences"), "0", Holds(value(line, "differences") == "0"));
    succeeded(figures, "the conformance tests, with a broken variant that must be found", &output);
}
