//! The table of alerts is sound, and what is made of it stands in `deploy/` as it is made.
//!
//! `BLESS=1 cargo test --test lab alerts` writes the files anew. That the rules fire and stay silent where they
//! should is judged by promtool (`tests/it/signals.rs`).

use clap::CommandFactory;
use punctual::cli::Cli;
use punctual::platform::alerts::{self, Series};
use punctual::platform::boards;
use punctual::platform::config;
use punctual::platform::metrics::{Kind, METRICS, Metric};
use std::collections::BTreeSet;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");

#[test]
fn the_files_are_those_of_the_table() {
    let mut files = vec![
        ("prometheus/alerts.yml".to_owned(), alerts::rules_yaml()),
        ("prometheus/alerts_test.yml".to_owned(), alerts::tests_yaml()),
        ("runbooks.md".to_owned(), alerts::runbooks_markdown()),
    ];
    files.extend(
        boards::BOARDS.iter().map(|board| (format!("grafana/{}.json", board.name), boards::json(board))),
    );
    for (name, wanted) in files {
        let path = format!("{DEPLOY}/{name}");
        if std::env::var_os("BLESS").is_some() {
            let folder = std::path::Path::new(&path).parent().expect("a folder");
            std::fs::create_dir_all(folder).expect("the folder can be made");
            std::fs::write(&path, &wanted).expect("the file can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "deploy/{name} differs: run BLESS=1 cargo test --test lab alerts");
    }
}

/// The metrics that a text names, each with the names of the labels in the braces behind it.
fn named(text: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in text.match_indices("punctual_") {
        if text[..at].ends_with(is_name) {
            continue;
        }
        let name: String = text[at..].chars().take_while(|c| is_name(*c)).collect();
        let rest = &text[at + name.len()..];
        let braces = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or("");
        let labels = braces
            .split(',')
            .filter_map(|pair| pair.split(['=', '!']).next())
            .map(|label| label.trim().to_owned());
        found.push((name, labels.filter(|label| !label.is_empty()).collect()));
    }
    found
}

/// The row of the table of metrics that a series of this name comes from.
fn row_of(series: &str) -> Option<&'static Metric> {
    METRICS.iter().copied().find(|metric| match metric.kind {
        Kind::Counter | Kind::Gauge => metric.name == series,
        Kind::Histogram => {
            series.strip_prefix(metric.name).is_some_and(|part| ["_bucket", "_count", "_sum"].contains(&part))
        }
    })
}

fn assert_declared(who: &str, text: &str) {
    for (series, labels) in named(text) {
        let row = row_of(&series).unwrap_or_else(|| panic!("{who}: {series} is no declared metric"));
        for label in labels {
            let is_declared = row.labels.iter().any(|declared| declared.name == label);
            let comes_by_itself = ["instance", "job", "le"].contains(&label.as_str());
            assert!(is_declared || comes_by_itself, "{who}: {series} has no label {label}");
        }
    }
}

#[test]
fn alerts_and_their_cases_name_only_declared_metrics_and_labels() {
    let mut asked = BTreeSet::new();
    for alert in alerts::alerts() {
        assert_declared(alert.name, alert.asks);
        let names: BTreeSet<String> = named(alert.asks).into_iter().map(|(name, _)| name).collect();
        let cases: [&[Series]; 2] = [alert.fires.0, alert.silent];
        for case in cases {
            assert!(!case.is_empty(), "{} has no case", alert.name);
            for series in case {
                assert_declared(alert.name, series.name);
                let given = series.name.split('{').next().expect("a name");
                assert!(names.contains(given) || given == "up", "{}: nobody asks for {given}", alert.name);
            }
        }
        asked.extend(names);
    }
    assert!(asked.len() > 25, "{asked:?}");
}

#[test]
fn dashboards_ask_for_declared_metrics_and_show_each_promise() {
    let mut asked = BTreeSet::new();
    for board in boards::BOARDS {
        for panel in board.rows.iter().flat_map(|row| row.panels) {
            assert!(!panel.asks.is_empty() && panel.says.ends_with('.'), "{}", panel.title);
            for (ask, _) in panel.asks {
                assert_declared(panel.title, ask);
                let names = named(ask);
                assert!(!names.is_empty(), "{} asks for nothing of ours", panel.title);
                asked.extend(names.into_iter().map(|(name, _)| name));
            }
        }
    }
    for promise in
        ["punctual_payment_early_total", "punctual_invariant_violations_total", "punctual_quarantine"]
    {
        assert!(asked.contains(promise), "no panel shows {promise}");
    }
}

#[test]
fn every_alert_has_a_name_of_its_own_and_a_page_that_says_what_to_do() {
    let mut names = BTreeSet::new();
    for alert in alerts::alerts() {
        assert!(names.insert(alert.name.to_lowercase()), "{} stands twice", alert.name);
        assert!(!alert.look.is_empty() && !alert.act.is_empty(), "{}", alert.name);
        for sentence in alert.look.iter().chain(alert.act).chain([&alert.means]) {
            assert!(sentence.len() > 15 && sentence.ends_with(['.', '?']), "{}: {sentence:?}", alert.name);
        }
        assert!(
            alert.summary.len() <= 90 && !alert.summary.ends_with('.'),
            "{}: {}",
            alert.name,
            alert.summary
        );
    }
}

#[test]
fn runbooks_name_only_commands_and_settings_that_exist() {
    let mut top = Cli::command();
    top.build();
    let mut commands = 0;
    for name in alerts::runbooks_markdown().split('`').skip(1).step_by(2) {
        if let Some(rest) = name.strip_prefix("punctual ") {
            commands += 1;
            let mut at = &top;
            for word in rest
                .split_whitespace()
                .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
            {
                if word.starts_with('-') || !at.has_subcommands() {
                    break;
                }
                at = at.find_subcommand(word).unwrap_or_else(|| panic!("`{name}`: there is no {word}"));
            }
        } else if let Some((section, field)) = name.split_once('.') {
            let is_section =
                config::SETTINGS.iter().any(|setting| setting.name.starts_with(&format!("{section}.")));
            let is_setting = config::SETTINGS.iter().any(|setting| setting.name == name);
            assert!(!is_section || field.contains(' ') || is_setting, "`{name}` is no setting");
        }
    }
    assert!(commands > 20, "{commands} commands were found");
}
