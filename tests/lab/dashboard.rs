//! What the dashboard's templates and files must be, whoever adds one: every form carries its token, every table
//! says what it is, nothing stands in a page that the policy of contents refuses, and what others wrote is unmodified.

use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard").join(name)
}

/// Every template, by name.
fn templates() -> Vec<(String, String)> {
    let walk = walkdir::WalkDir::new(folder("templates")).sort_by_file_name();
    let files = walk.into_iter().filter_map(Result::ok).filter(|entry| entry.file_type().is_file());
    let found: Vec<(String, String)> = files
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).expect("a text");
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect();
    assert!(found.len() > 5, "{} templates", found.len());
    found
}

/// Each element of this name, from `<name` to `</name>`.
fn elements<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let starts = text.match_indices(&open).map(|(at, _)| at);
    let starts =
        starts.filter(|at| !text[at + open.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '-'));
    starts.map(|at| text[at..].split(&close).next().unwrap_or_default()).collect()
}

#[test]
fn every_form_that_acts_carries_the_token() {
    let mut forms = 0;
    for (name, text) in templates() {
        for form in elements(&text, "form") {
            if form.contains("method=\"get\"") || form.contains("method=\"dialog\"") {
                continue;
            }
            forms += 1;
            assert!(form.contains("method=\"post\""), "{name}: a form names its method: {form}");
            assert!(form.contains("<input type=\"hidden\" name=\"csrf\" value=\"{{ "), "{name}: {form}");
        }
        for link in ["hx-post", "hx-put", "hx-delete", "hx-patch"] {
            assert!(!text.contains(link), "{name}: an act is a form, which also works without scripts");
        }
    }
    assert!(forms >= 4, "{forms} forms");
}

#[test]
fn every_table_says_what_it_is_and_every_field_has_a_label() {
    for (name, text) in templates() {
        for table in elements(&text, "table") {
            assert!(table.contains("<caption"), "{name}: {table}");
            for head in elements(table, "th") {
                assert!(head.contains("scope=\"col\"") || head.contains("scope=\"row\""), "{name}: {head}");
            }
        }
        for kind in ["input", "select", "textarea"] {
            for (at, _) in text.match_indices(&format!("<{kind} ")) {
                let tag = text[at..].split('>').next().unwrap_or_default();
                let before = &text[..at];
                let in_label = before
                    .rfind("<label")
                    .is_some_and(|open| before.rfind("</label>").is_none_or(|close| close < open));
                let named = tag.contains("aria-label=") || in_label || labelled(&text, tag);
                assert!(tag.contains("type=\"hidden\"") || named, "{name}: a field without a label: {tag}");
            }
        }
    }
}

#[test]
fn every_cell_that_may_stand_alone_on_a_phone_names_its_column() {
    let mut cells = 0;
    for (name, text) in templates() {
        for table in elements(&text, "table") {
            let opening = table.split('>').next().unwrap_or_default();
            if !opening.contains("blocks") {
                continue;
            }
            let (head, body) = table.split_once("<tbody>").expect("a head and a body");
            for cell in elements(body, "td") {
                let tag = cell.split('>').next().unwrap_or_default();
                if tag.contains(" colspan=") {
                    continue;
                }
                cells += 1;
                let label = tag.split(" data-label=\"").nth(1).and_then(|rest| rest.split('"').next());
                let named = label.is_some_and(|label| head.contains(&format!(">{label}</")));
                assert!(named, "{name}: {tag}");
            }
        }
    }
    assert!(cells > 50, "{cells} cells");
}

/// Has the tag an id that a label is for?
fn labelled(text: &str, tag: &str) -> bool {
    let id = tag.split(" id=\"").nth(1).and_then(|rest| rest.split('"').next());
    id.is_some_and(|id| text.contains(&format!("<label for=\"{id}\"")))
}

#[test]
fn nothing_stands_in_a_template_that_the_policy_refuses_or_that_is_elsewhere() {
    for (name, text) in templates() {
        for refused in [
            " style=",
            "javascript:",
            " onclick",
            " onload",
            " onsubmit",
            " onchange",
            "<style",
            "http://",
            "https://",
            "|safe",
            "hx-on",
            "hx-vals='js",
        ] {
            assert!(!text.contains(refused), "{name} holds {refused}");
        }
        for script in elements(&text, "script") {
            assert!(script.starts_with("<script src=\"{{ frame.asset("), "{name}: {script}");
        }
    }
}

#[test]
fn what_others_wrote_is_unmodified_and_has_its_licence() {
    let vendor = folder("assets/vendor");
    let sums = std::fs::read_to_string(vendor.join("SHA256SUMS")).expect("the list");
    let mut listed = BTreeSet::new();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").expect("a checksum and a name");
        let bytes = std::fs::read(vendor.join(name)).expect(name);
        assert_eq!(hex::encode(Sha256::digest(bytes)), sum, "{name} was changed");
        listed.insert(name.to_owned());
    }
    let own = ["SHA256SUMS", "README.md"];
    for entry in walkdir::WalkDir::new(&vendor).into_iter().filter_map(Result::ok) {
        if entry.file_type().is_file() {
            let name = entry.path().strip_prefix(&vendor).expect("below").display().to_string();
            assert!(own.contains(&name.as_str()) || listed.contains(&name), "{name} has no checksum");
        }
        if entry.file_type().is_dir() && entry.depth() == 1 {
            assert!(entry.path().join("LICENSE").exists(), "{}", entry.path().display());
        }
    }
}
