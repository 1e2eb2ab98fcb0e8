//! The logic by itself: the protocol explored, the whole path simulated, memory held against Postgres,
//! and every rule left out in turn and found.

use crate::figures::{Figures, Holds};
use std::process::{Command, Output};

/// Payments of the simulation, on virtual time.
const PAYMENTS: u64 = 1_000_000;
/// Random sequences on memory and Postgres.
const SEQUENCES: &str = "250";
/// Rules left out of the model, and of the simulated worlds, that must be found.
const LEFT_OUT: (usize, usize) = (31, 6);

/// All of it.
pub fn show(figures: &mut Figures) {
    explored(figures);
    simulated(figures);
    held_against_postgres(figures);
}

fn cargo(environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).envs(environment.iter().copied()).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.output().expect("cargo runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `name=value` of a line.
fn value<'a>(line: &'a str, name: &str) -> &'a str {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or("?")
}

fn succeeded(figures: &mut Figures, name: &str, output: &Output) {
    figures.holds(name, output.status, "exit status: 0", Holds(output.status.success()));
    if !output.status.success() {
        println!("{}{}", text(output), String::from_utf8_lossy(&output.stderr));
    }
}

fn explored(figures: &mut Figures) {
    figures.part("The protocol of one payment, explored exhaustively at the larger bounds");
    let tests = ["test", "--locked", "--features", "faults", "--test", "lab", "--", "--nocapture"];
    let output = cargo(&[("PUNCTUAL_MODEL", "large")], &[&tests[..], &["model::"]].concat());
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
    let enough = breaks.len() >= LEFT_OUT.0;
    figures.holds("counterexamples", breaks.len(), &format!("at least {}", LEFT_OUT.0), Holds(enough));
    succeeded(figures, "the model's tests", &output);
}

fn simulated(figures: &mut Figures) {
    figures.part("The real worker, relay and keeper in worlds full of faults, on virtual time");
    let payments = PAYMENTS.to_string();
    let run =
        ["run", "--locked", "--release", "--bin", "punctual", "--", "simulate", "--check", "--threads", "2"];
    let output = cargo(&[], &[&run[..], &["--payments", &payments]].concat());
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
    let tests =
        ["test", "--locked", "--features", "faults", "--test", "lab", "--", "--nocapture", "simulation::"];
    let output = cargo(&[], &tests);
    let text = self::text(&output);
    let found = text.lines().filter(|line| line.contains(": Some(\"seed ")).count();
    let bound = format!("{} of {}", LEFT_OUT.1, LEFT_OUT.1);
    figures.holds("rules left out of a world and found", found, &bound, Holds(found == LEFT_OUT.1));
    succeeded(figures, "the same seeds twice, with equal traces; capacity against closed forms", &output);
}

fn held_against_postgres(figures: &mut Figures) {
    figures.part("The schedule in memory held against Postgres");
    let tests =
        ["test", "--locked", "--features", "faults", "--test", "it", "--", "--nocapture", "conformance::"];
    let output = cargo(&[("PUNCTUAL_CONFORMANCE_SEQUENCES", SEQUENCES)], &tests);
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
