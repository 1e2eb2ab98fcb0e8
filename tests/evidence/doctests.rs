//! The dangerous order does not compile: the doctests that must fail to compile, each beside a twin
//! that must pass.

use crate::figures::{Figures, Holds};
use std::process::Command;

/// At least so many broken orders are shown not to compile.
const AT_LEAST: usize = 3;

/// Runs `cargo test --doc` and counts.
pub fn order_is_held_by_types(figures: &mut Figures) {
    figures.part("Order held by types");
    let output = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--features", "faults", "--doc"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let passed = || text.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ... ok"));
    let refused = passed().filter(|line| line.contains("- compile fail"));
    let refused: Vec<&str> = refused.map(file_of).collect();
    let twins = |file: &str| {
        passed().filter(|line| !line.contains("- compile fail") && file_of(line) == file).count()
    };
    let alone: Vec<&&str> = refused
        .iter()
        .filter(|file| refused.iter().filter(|other| other == file).count() > twins(file))
        .collect();
    figures.holds("cargo test --doc", output.status, "exit status: 0", Holds(output.status.success()));
    if !output.status.success() {
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    let enough = refused.len() >= AT_LEAST;
    figures.holds("wrong orders that do not compile", refused.len(), "at least 3", Holds(enough));
    figures.holds("of them without a twin that passes", alone.len(), "0", Holds(enough && alone.is_empty()));
}

/// `test src/a.rs - a (line 3) - compile fail ... ok` → `src/a.rs`
fn file_of(line: &str) -> &str {
    line.split_whitespace().nth(1).unwrap_or("")
}

/// What the documents say, executed: the compose file held against the binary and run service by service,
/// the README's curls and kcat recipes.
pub fn documents_are_executed(figures: &mut Figures) {
    figures.part("Documents, executed");
    for (test, filter) in [("lab", "compose::"), ("it", "readme::"), ("it", "readme_compose::")] {
        let output = Command::new(env!("CARGO"))
            .args(["test", "--locked", "--features", "faults", "--test", test, "--", filter])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let passed =
            text.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ... ok")).count();
        let holds = output.status.success() && passed > 0;
        let shown = format!("{passed} tests, {}", output.status);
        figures.holds(&format!("tests of {filter}"), shown, "all pass, more than 0", Holds(holds));
        if !holds {
            println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
