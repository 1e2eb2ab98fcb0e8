//! The README says what the code says: its tables are generated, its lists are complete.
//!
//! `BLESS=1 cargo test --test lab readme` writes the generated tables into the README.

use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use punctual::intake::Code;
use punctual::platform::{config, exit, metrics};
use std::collections::BTreeSet;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const END: &str = "<!-- end -->";

fn readme() -> String {
    std::fs::read_to_string(PATH).expect("README.md can be read")
}

fn reasons() -> String {
    let rows: String = Reason::ALL
        .iter()
        .map(|reason| format!("| `{}` | {} |\n", reason.as_str(), reason.explanation()))
        .collect();
    format!("| reason | meaning |\n|---|---|\n{rows}")
}

fn problems() -> String {
    let rows: String = Code::ALL
        .iter()
        .map(|code| format!("| `{}` | {} | {} |\n", code.as_str(), code.http(), code.doc()))
        .collect();
    format!("| code | HTTP | meaning |\n|---|---|---|\n{rows}")
}

/// The text with `table` between the markers of that name.
///
/// # Panics
/// The markers are not there.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let start = format!("<!-- generated: {name} -->\n");
    let (before, rest) = text.split_once(&start).unwrap_or_else(|| panic!("no marker for {name}"));
    let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("no end for {name}"));
    format!("{before}{start}{table}{END}{after}")
}

#[test]
fn the_generated_tables_are_those_of_the_code() {
    let tables = [
        ("reasons", reasons()),
        ("problems", problems()),
        ("exit codes", exit::reference_markdown()),
        ("settings", config::reference_markdown()),
        ("metrics", metrics::reference_markdown()),
    ];
    let found = readme();
    let wanted = tables.iter().fold(found.clone(), |text, (name, table)| with_table(&text, name, table));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PATH, &wanted).expect("README.md can be written");
        return;
    }
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert!(found == wanted, "run BLESS=1 cargo test --test lab readme; first difference: {differs:#?}");
}

#[test]
fn a_table_that_differs_is_replaced_between_its_markers_only() {
    let text = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n";
    assert_eq!(with_table(text, "x", "new\n"), "a\n<!-- generated: x -->\nnew\n<!-- end -->\nb\n");
}

#[test]
fn every_state_is_explained() {
    let text = readme();
    for status in Status::ALL {
        assert!(text.contains(&format!("| `{}` |", status.as_str())), "{}", status.as_str());
    }
}

#[test]
fn every_dependency_has_its_line_and_every_line_a_dependency() {
    let manifest = include_str!("../../Cargo.toml").parse::<toml::Table>().expect("Cargo.toml is TOML");
    let names = |section: &str| {
        let table = manifest[section].as_table().expect("a table of dependencies");
        table.keys().cloned().collect::<Vec<_>>()
    };
    let declared: BTreeSet<String> =
        names("dependencies").into_iter().chain(names("dev-dependencies")).collect();
    let text = readme();
    let (_, section) = text.split_once("\n## Dependencies\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let explained: BTreeSet<String> = section
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| crate "))
        .filter_map(|line| line.split('|').nth(1))
        .map(|name| name.trim().to_owned())
        .collect();
    assert_eq!(explained, declared);
}

#[test]
fn every_setting_and_command_that_the_text_names_exists() {
    let known: BTreeSet<&str> = config::SETTINGS.iter().map(|setting| setting.name).collect();
    let sections: BTreeSet<&str> = known.iter().filter_map(|name| name.split('.').next()).collect();
    let text = readme();
    for name in text.split('`').skip(1).step_by(2) {
        let is_setting = name.split_once('.').is_some_and(|(section, field)| {
            sections.contains(section) && field.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        });
        assert!(!is_setting || known.contains(name), "the README names `{name}`, which is no setting");
    }
}

/// The anchors that a reader of Markdown makes of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let titles = titles.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    titles.map(|title| title.chars().filter(is_kept).collect::<String>().replace(' ', "-")).collect()
}

/// What the links of a text lead to.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to)
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let (text, root) = (readme(), std::path::Path::new(env!("CARGO_MANIFEST_DIR")));
    let mut followed = 0;
    for to in links(&text).filter(|to| !to.contains("://")) {
        let (path, heading) = to.split_once('#').unwrap_or((to, ""));
        let file = root.join(if path.is_empty() { "README.md" } else { path });
        let there = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{to}: {error}"));
        assert!(heading.is_empty() || anchors(&there).contains(heading), "{to}: no such heading");
        followed += 1;
    }
    assert!(followed > 15, "{followed} links were followed");
}

#[test]
fn a_heading_is_found_by_its_words() {
    let found = anchors("## Switches, pauses, rates\ntext\n# Why not …\n");
    assert_eq!(found, ["switches-pauses-rates", "why-not-"].map(str::to_owned).into());
    assert_eq!(links("see [a](#b) and [c](d.md#e).").collect::<Vec<_>>(), ["#b", "d.md#e"]);
}

/// The numbers of `R1`, `R17` and their like that stand alone in a text.
fn rules_cited(text: &str) -> BTreeSet<u32> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter_map(|word| word.strip_prefix('R')?.parse().ok())
        .collect()
}

#[test]
fn every_rule_that_the_code_cites_is_in_the_table_of_rules() {
    let text = readme();
    let (_, section) = text.split_once("\n## The rules\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| R"));
    let listed: BTreeSet<u32> = rows.filter_map(|row| row.split(' ').next()?.parse().ok()).collect();
    assert_eq!(listed, (1..=18).collect());
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cited = 0;
    for folder in ["src", "migrations"] {
        for entry in walkdir::WalkDir::new(root.join(folder)) {
            let entry = entry.expect("the repository can be read");
            let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
            let rules = rules_cited(&text);
            cited += rules.len();
            assert!(rules.is_subset(&listed), "{} cites {rules:?}", entry.path().display());
        }
    }
    assert!(cited > 50, "{cited} citations were found");
}

#[test]
fn a_citation_is_a_word_of_its_own() {
    assert_eq!(rules_cited("rules R1, R14; (R17) not R2D2, XR3, R_4 or R"), BTreeSet::from([1, 14, 17]));
}
