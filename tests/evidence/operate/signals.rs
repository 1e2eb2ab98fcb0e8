//! What an installation tells whoever watches it: alerts judged by Prometheus' own tool, traces as a collector gets
//! them, words that must be in no signal, and how a process goes. The tests of every day do it and say what they saw;
//! here their figures stand beside their bounds.
//!
//! As `make test` builds them, so that nothing is built twice: what a signal says does not hang on the optimiser.

use crate::figures::{Figures, Holds};
use crate::support::installation::PUNCTUAL;
use punctual::platform::alerts::{alerts, runbooks_markdown};
use std::path::Path;
use std::process::{Command, Output};

/// What was seen, in a line `seen NAME name=value …` of a test's output.
struct Seen(String);

impl Seen {
    /// Runs these tests; one figure for their passing.
    fn by(figures: &mut Figures, test: &str, filter: &str) -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["test", "--locked", "--features", "faults", "--test", test, "--", "--nocapture", filter])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        let text = said(&output);
        let summary =
            text.lines().find_map(|line| line.strip_prefix("test result: ")).unwrap_or("nothing ran");
        let passed = summary.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0_u32);
        let passes = output.status.success() && passed > 0;
        let shown = summary.split("; 0 ignored").next().unwrap_or_default();
        figures.holds(&format!("tests of {filter}"), shown, "all pass, more than 0", Holds(passes));
        if !passes {
            println!("{text}");
        }
        Self(text)
    }

    /// The number of that name.
    fn number(&self, what: &str, name: &str) -> Option<u64> {
        let start = format!("seen {what} ");
        let line = self.0.lines().find_map(|line| Some(&line[line.find(&start)?..]))?;
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word?.parse().ok()
    }

    fn holds(&self, figures: &mut Figures, shown: (&str, &str, &str), bound: &str, is_kept: fn(u64) -> bool) {
        let (name, what, word) = shown;
        let number = self.number(what, word);
        let text = number.map_or_else(|| "nobody said".to_owned(), |number| number.to_string());
        figures.holds(name, text, bound, Holds(number.is_some_and(is_kept)));
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn printed(asset: &str) -> String {
    let output = Command::new(PUNCTUAL).args(["assets", "print", asset]).output().expect("the binary runs");
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What this binary prints, in a folder that promtool looks at.
pub(super) fn alerts_fire_where_they_must_and_are_silent_elsewhere(figures: &mut Figures) {
    figures.part("Alerts and boards, as punctual assets print gives them");
    let folder = tempfile::tempdir().expect("a folder");
    let tests = printed("alert-tests");
    for (name, text) in [("alerts.yml", printed("alerts")), ("alerts_test.yml", tests.clone())] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let count = alerts().count();
    let (holds, text) = promtool(folder.path(), &["check", "rules", "alerts.yml"]);
    let shown =
        text.lines().find(|line| line.contains("rules found")).unwrap_or("not read").trim().to_owned();
    let is_all = holds && shown.contains(&format!("{count} rules found"));
    figures.holds("promtool check rules", shown, &format!("{count} rules"), Holds(is_all));
    let (holds, text) = promtool(folder.path(), &["test", "rules", "alerts_test.yml"]);
    let shown = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned();
    figures.holds("promtool test rules", shown, "SUCCESS", Holds(holds && text.contains("SUCCESS")));
    if !holds {
        println!("{text}");
    }
    // A case that fires names what is expected of it; one that must be silent expects nothing.
    let cases = |of: fn(&str) -> bool| tests.lines().filter(|line| of(line.trim())).count();
    let asked = cases(|line| line.starts_with("alertname:") || line.contains("- alertname:"));
    let fires = alerts().filter(|alert| !alert.fires.0.is_empty()).count();
    let silent = alerts().filter(|alert| !alert.silent.is_empty()).count();
    let shown = format!("{fires} firing, {silent} silent, asked {asked} times");
    let holds = Holds(fires == count && silent == count && asked >= 2 * count);
    figures.holds("cases", shown, &format!("{count}, {count}"), holds);
    let pages = runbooks_markdown();
    let with_page = alerts().filter(|alert| pages.contains(&format!("\n## {}\n", alert.name))).count();
    figures.holds("alerts with a runbook", with_page, &count.to_string(), Holds(with_page == count));
    Seen::by(figures, "lab", "alerts::");
}

fn promtool(folder: &Path, arguments: &[&str]) -> (bool, String) {
    match Command::new("promtool").args(arguments).current_dir(folder).output() {
        Ok(output) => (output.status.success(), said(&output)),
        Err(error) => (false, format!("promtool: {error}; apt-get install prometheus")),
    }
}

/// A payment's traces, linked.
pub(super) fn traces_are_linked_to_the_post(figures: &mut Figures) {
    figures.part("Traces, as a collector gets them");
    let seen = Seen::by(figures, "it", "signals::traces::");
    let links = ("spans linked to the POST: relay, attempt, webhook", "traces", "links");
    seen.holds(figures, links, "3", |links| links == 3);
    let children = ("spans of the attempt itself: claim, charge, settle", "traces", "children");
    seen.holds(figures, children, "3", |children| children == 3);
}

/// Words that must be nowhere.
pub(super) fn canaries_are_in_no_signal(figures: &mut Figures) {
    figures.part("Redaction: words in every secret and in everything that clients write, at TRACE");
    let seen = Seen::by(figures, "it", "signals::canaries::");
    seen.holds(figures, ("words", "canaries", "words"), "≥ 15", |words| words >= 15);
    let places = ("places searched: logs, metrics, topics, rows, traces, webhooks", "canaries", "places");
    seen.holds(figures, places, "≥ 15", |places| places >= 15);
    seen.holds(figures, ("kilobytes searched", "canaries", "kib"), "≥ 100", |kib| kib >= 100);
    seen.holds(figures, ("times that one was found", "canaries", "found"), "0", |found| found == 0);
}

/// Last words.
pub(super) fn a_process_drains_in_time_and_says_so(figures: &mut Figures) {
    figures.part(
        "Drain: a worker that is asked to stop in the middle of a call, and one whose database is silent",
    );
    let seen = Seen::by(figures, "it", "signals::health::");
    let took = ("until it was gone, with a call of three seconds, ms", "drain", "took_ms");
    seen.holds(figures, took, "< 30000", |ms| ms < 30_000);
    seen.holds(figures, ("calls that it finished", "drain", "drained"), "1", |drained| drained == 1);
    seen.holds(figures, ("calls that it abandoned", "drain", "abandoned"), "0", |abandoned| abandoned == 0);
    let took = ("until it was gone, with a silent database, ms", "silent-drain", "took_ms");
    seen.holds(figures, took, "< 30000", |ms| ms < 30_000);
}
