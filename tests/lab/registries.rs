//! Every registry is in use: a reason that nothing gives, a series that nothing feeds or a refusal
//! that nothing answers would be a promise that only the documents keep.

use crate::tidy::scan::Code;
use punctual::domain::reason::Reason;
use punctual::intake::Code as Problem;
use punctual::platform::exit::Exit;
use punctual::platform::metrics::METRICS;
use std::path::Path;

/// The text of the product below a folder, without what exists only under test. Comments are blanked,
/// and in Rust texts are too.
fn product(folder: &str, ending: &str, except: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    for entry in walkdir::WalkDir::new(root.join(folder)).sort_by_file_name() {
        let entry = entry.expect("the repository can be read");
        let path = entry.path().strip_prefix(root).expect("below the root").display().to_string();
        if !path.ends_with(ending) || path.ends_with("tests.rs") || except.contains(&path.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).expect("text");
        if ending == ".rs" {
            let code = Code::of(&text);
            let tests = code.test_modules();
            all.extend(
                (0..text.chars().count()).map(|at| {
                    if tests.iter().any(|range| range.contains(&at)) { ' ' } else { code.char(at) }
                }),
            );
        } else {
            all.extend(text.lines().map(|line| line.split("--").next().unwrap_or("")));
        }
        all.push('\n');
    }
    all
}

/// Whether `name` stands in `text` as a whole word, with `after` behind it.
fn says(text: &str, name: &str, after: &str) -> bool {
    text.match_indices(&format!("{name}{after}")).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + found.len()..].chars().next();
        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !part(before) && (!after.is_empty() || !part(behind))
    })
}

#[test]
fn a_word_is_found_whole_only() {
    assert!(says("metrics::CLAIMS.add(1)", "CLAIMS", "."));
    assert!(!says("metrics::LATE_CLAIMS.add(1)", "CLAIMS", "."));
    assert!(says("Reason::Poisoned,", "Reason::Poisoned", ""));
    assert!(!says("Reason::PoisonedTwice", "Reason::Poisoned", ""));
    assert!(!says("", "x", ""));
}

#[test]
fn every_reason_is_given_somewhere() {
    let code = product("src/", ".rs", &["src/domain/reason.rs"]);
    let sql = product("src/schedule/sql", ".sql", &[]) + &product("migrations", ".sql", &[]);
    for reason in Reason::ALL {
        let given = says(&code, &format!("Reason::{reason:?}"), "")
            || sql.contains(&format!("'{}'", reason.as_str()));
        assert!(given, "nothing gives the reason {reason:?}");
    }
}

#[test]
fn every_metric_is_fed_somewhere() {
    let table = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/platform/metrics.rs"));
    let table = table.expect("the table of metrics");
    let code = product("src/", ".rs", &["src/platform/metrics.rs"]);
    let statics: Vec<&str> = table
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let kind = words.next()?;
            ["Counter", "Gauge", "Histogram"].contains(&kind).then(|| words.next()).flatten()
        })
        .collect();
    assert_eq!(statics.len(), METRICS.len(), "{statics:?}");
    for name in statics {
        let fed = [".add(", ".set(", ".shift(", ".record(", ".series("];
        assert!(fed.iter().any(|call| says(&code, name, call)), "nothing feeds {name}");
    }
}

/// What a route says that it refuses is not yet refused.
fn without_lists(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    let lists = ["refusals: &[", "REFUSALS: &[Code] = &["];
    while let Some((at, list)) = lists.iter().filter_map(|list| Some((rest.find(list)?, *list))).min() {
        kept.push_str(&rest[..at]);
        rest = rest[at + list.len()..].split_once(']').map_or("", |(_, after)| after);
    }
    kept + rest
}

#[test]
fn every_refusal_of_the_api_is_answered_somewhere() {
    // What is told of an answer is no answer.
    let told = [
        "src/intake/problem.rs",
        "src/intake/openapi.rs",
        "src/intake/openapi/desk.rs",
        "src/intake/openapi/desk_reconcile.rs",
    ];
    let code = product("src/intake", ".rs", &told) + &product("src/operations", ".rs", &[]);
    let code = without_lists(&code);
    for refusal in Problem::ALL {
        assert!(says(&code, &format!("Code::{refusal:?}"), ""), "nothing answers {refusal:?}");
    }
}

#[test]
fn every_exit_code_is_used() {
    let code = product("src/", ".rs", &["src/platform/exit.rs"]);
    for exit in Exit::ALL {
        assert!(says(&code, &format!("Exit::{exit:?}"), ""), "nothing ends with {exit:?}");
    }
}
