//! Who may use whom: the flow of a payment, as a table.

use super::scan::{Code, Finding, Word};

/// A stage and the stages it may use. `domain` uses nobody, and everybody may use `domain` and
/// `platform`.
const STAGES: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("platform", &["domain"]),
    ("intake", &["domain", "platform", "schedule"]),
    ("schedule", &["domain", "platform"]),
    ("relay", &["domain", "platform", "schedule", "bucket"]),
    // An offset is completed by the schedule's proofs.
    ("bucket", &["domain", "platform", "schedule"]),
    ("worker", &["domain", "platform", "schedule", "bucket", "gateway", "outcome"]),
    // A charge takes a claim by value.
    ("gateway", &["domain", "platform", "schedule"]),
    ("outcome", &["domain", "gateway", "schedule"]),
    ("keeper", &["domain", "platform", "schedule", "bucket"]),
    ("publisher", &["domain", "platform", "schedule", "bucket"]),
    ("reconcile", &["domain", "platform", "schedule", "gateway"]),
    // It looks at everything and changes nothing.
    ("doctor", &["domain", "platform", "schedule", "bucket", "gateway"]),
    // The people's routes: they read requests as intake does, take the table of declines of the gateway, and tell what
    // the doctor finds.
    ("operations", &["domain", "platform", "intake", "schedule", "gateway", "doctor"]),
    // Pages over the routes and verbs of the others; it decides nothing itself.
    ("dashboard", &["domain", "platform", "intake", "schedule", "operations", "doctor", "story"]),
    // Sentences of what the API answers, for commands and pages alike.
    ("story", &["domain", "platform"]),
    // A client of our own API, for commands and `dev`: it sees what any client sees.
    ("client", &["platform"]),
    // Asks the promises of what the flow wrote down. Of the gateway it takes the table of declines.
    ("audit", &["domain", "platform", "schedule", "bucket", "gateway"]),
    // The oracle must not agree with the product by sharing its code.
    ("sandbox", &["platform"]),
    // It runs the stages themselves, over ports in memory; nothing uses it but the command line.
    (
        "simulation",
        &["domain", "platform", "schedule", "relay", "bucket", "worker", "gateway", "outcome", "keeper"],
    ),
];

/// The places that put everything together.
const ROOTS: &[&str] = &["roles", "cli", "dev", "main", "lib"];

/// A library and the only places that may name it.
const DRIVERS: &[(&str, &[&str])] = &[
    ("sqlx", &["src/schedule/"]),
    ("rdkafka", &["src/bucket/"]),
    (
        "reqwest",
        &[
            "src/gateway/",
            "src/publisher/webhooks",
            "src/client.rs",
            "src/intake/token",
            "src/sandbox/callbacks.rs",
        ],
    ),
    ("axum", &["src/intake/", "src/sandbox/", "src/platform/health.rs", "src/operations/", "src/dashboard/"]),
    ("backoff", &["src/platform/reconnect.rs"]),
    ("metrics_exporter_prometheus", &["src/platform/metrics/"]),
    ("clap", &["src/cli.rs", "src/cli/", "src/dev/"]),
    ("clap_complete", &["src/cli/"]),
    ("crossterm", &["src/cli/top/"]),
    ("ratatui", &["src/cli/top/"]),
    ("csv", &["src/cli/", "src/reconcile/read/"]),
    ("quick_xml", &["src/reconcile/read/"]),
    ("opentelemetry", &["src/platform/trace"]),
    ("opentelemetry_otlp", &["src/platform/trace"]),
    ("opentelemetry_sdk", &["src/platform/trace"]),
    ("rand", &["src/platform/"]),
];

/// `src/worker/step.rs` is of `worker`.
fn stage_of(path: &str) -> &str {
    path.trim_start_matches("src/").trim_end_matches(".rs").split('/').next().unwrap_or("")
}

pub fn stages(path: &str, code: &Code) -> Vec<Finding> {
    let own = stage_of(path);
    if ROOTS.contains(&own) {
        return Vec::new();
    }
    let Some((_, allowed)) = STAGES.iter().find(|(stage, _)| *stage == own) else {
        return vec![Finding::new(1, format!("`{own}` is no stage of the table of imports"))];
    };
    let tests = code.test_modules();
    let in_tests =
        |word: &Word| path.ends_with("tests.rs") || tests.iter().any(|range| range.contains(&word.at));
    let words = code.words();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate().filter(|(_, word)| !in_tests(word)) {
        if word.text == "crate" && !asks_for_seeded_bugs(&words, index) {
            for used in named_after(code, &words, index) {
                if used.text != own && !allowed.contains(&used.text.as_str()) {
                    found.push(Finding::new(used.line, format!("`{own}` must not use `{}`", used.text)));
                }
            }
        }
        if word.text == "super" && climbs(code, &words, index) >= depth(path) {
            found.push(Finding::new(word.line, "reaches another stage by `super`; write `crate::`"));
        }
    }
    found
}

/// The one thing that every stage may use: whether a rule is left out on purpose. In a build that is
/// released the answer is a constant.
fn asks_for_seeded_bugs(words: &[Word], index: usize) -> bool {
    let next = |after: usize| words.get(index + after).map(|word| word.text.as_str());
    (next(1), next(2)) == (Some("platform"), Some("faults"))
}

/// What stands right after `crate::`: one name, or the first names of a group.
fn named_after(code: &Code, words: &[Word], index: usize) -> Vec<Word> {
    let after = code.skip_blank(words[index].at + "crate".len());
    if (code.char(after), code.char(after + 1)) != (':', ':') {
        // `pub(crate)`, or a use of the crate's own name.
        return Vec::new();
    }
    let start = code.skip_blank(after + 2);
    if code.char(start) != '{' {
        return words.get(index + 1).filter(|word| word.at == start).cloned().into_iter().collect();
    }
    let end = code.block_end(start);
    let mut depth = 0_i32;
    let mut first = true;
    let mut named = Vec::new();
    for at in start..end {
        match code.char(at) {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => first = true,
            c if c.is_alphanumeric() && depth == 1 && first => {
                named.extend(words.iter().find(|word| word.at == at).cloned());
                first = false;
            }
            _ => {}
        }
    }
    named
}

/// How many `super::` follow each other from here; 0 if this is not the first of them.
fn climbs(code: &Code, words: &[Word], index: usize) -> usize {
    let joined = |word: &Word| code.char(word.at + 5) == ':';
    let follows = index > 0 && words[index - 1].text == "super" && joined(&words[index - 1]);
    if follows || !joined(&words[index]) {
        return 0;
    }
    words[index..].iter().take_while(|word| word.text == "super" && joined(word)).count()
}

/// How many modules deep the file's own module lies: `src/worker/mod.rs` 1, `src/worker/step.rs` 2.
fn depth(path: &str) -> usize {
    path.trim_start_matches("src/").trim_end_matches(".rs").split('/').filter(|part| *part != "mod").count()
}

pub fn drivers(path: &str, code: &Code) -> Vec<Finding> {
    let words = code.words();
    let mut found = Vec::new();
    for word in &words {
        let macro_call = code.char(word.at + word.text.len()) == '!';
        let unnamed = ["counter", "gauge", "histogram"].contains(&word.text.as_str());
        if unnamed && macro_call && !path.starts_with("src/platform/metrics") {
            found.push(Finding::new(
                word.line,
                "counts under a name of its own; add a row to platform/metrics.rs",
            ));
        }
        let Some((driver, places)) = DRIVERS.iter().find(|(driver, _)| *driver == word.text) else {
            continue;
        };
        let joined = |at: usize| (code.char(at), code.char(at + 1)) == (':', ':');
        // `axum::x` or `use axum`, not `self::axum` and not a local called like it.
        let root = word.at < 2 || !joined(word.at - 2);
        let path_start = joined(code.skip_blank(word.at + driver.len()));
        if root && path_start && !places.iter().any(|place| path.starts_with(place)) {
            found.push(Finding::new(
                word.line,
                format!("`{driver}` may be used only in {}", places.join(", ")),
            ));
        }
    }
    found
}
