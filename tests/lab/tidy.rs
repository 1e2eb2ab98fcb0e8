//! The style that matters, as tests over the repository's own text.
//!
//! Each rule is a scanner in `scan` that takes a text and gives findings; the tests here run the
//! scanners over the files, and `bad_snippets` holds that each scanner finds what it is for. What a
//! compiler or clippy can say is not repeated here.

mod bad_snippets;
mod imports;
pub mod scan;

use scan::{Code, Finding};
use std::path::Path;

/// Most lines of one file.
const FILE_LINES: usize = 500;
/// Most lines of one function, from its `fn` to its last brace.
const FUNCTION_LINES: usize = 70;

/// Functions that may be longer: file, name, and the sentence that says why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

/// A file of the repository.
struct File {
    /// Relative, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Every text file that is ours, in order.
fn repository() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = |name: &str| !matches!(name, "target" | ".git" | "Cargo.lock" | "node_modules" | "LICENSE");
    let mut files = Vec::new();
    let walk = walkdir::WalkDir::new(root).sort_by_file_name().into_iter();
    for entry in walk.filter_entry(|entry| entry.file_name().to_str().is_some_and(ours)) {
        let entry = entry.expect("the repository can be read");
        if !entry.file_type().is_file() {
            continue;
        }
        // Anything that is not text is not for reading.
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let path = entry.path().strip_prefix(root).expect("below the root").display().to_string();
        files.push(File { path, text });
    }
    assert!(files.len() > 30, "the walk found the repository");
    files
}

fn rust_files(folder: &str) -> Vec<File> {
    repository().into_iter().filter(|file| file.is_rust() && file.path.starts_with(folder)).collect()
}

/// Runs a scanner over files and fails with every finding.
fn none(files: &[File], scanner: impl Fn(&File) -> Vec<Finding>) {
    assert!(!files.is_empty(), "nothing was scanned");
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let found = scanner(file);
            found.into_iter().map(|finding| format!("{}:{}: {}", file.path, finding.line, finding.what))
        })
        .collect();
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

fn ours() -> Vec<File> {
    let mut files = rust_files("src/");
    files.extend(rust_files("tests/"));
    files
}

#[test]
fn every_file_opens_with_what_it_promises() {
    none(&ours(), |file| scan::opening(&file.text));
}

#[test]
fn no_file_and_no_function_is_too_long_to_be_read_at_once() {
    none(&ours(), |file| scan::file_length(&file.text, FILE_LINES));
    none(&ours(), |file| {
        let excepted =
            |name: &str| LONG_FUNCTIONS.iter().any(|(path, long, _)| *path == file.path && *long == name);
        scan::long_functions(&Code::of(&file.text), FUNCTION_LINES, excepted)
    });
    for (path, name, why) in LONG_FUNCTIONS {
        let file = ours().into_iter().find(|file| file.path == *path).expect("an excepted file exists");
        let long = scan::long_functions(&Code::of(&file.text), FUNCTION_LINES, |_| false);
        let needed = long.iter().any(|finding| finding.what.contains(&format!("`{name}`")));
        assert!(needed && why.ends_with('.'), "{path} {name}: the exception is used and has a sentence");
    }
}

#[test]
fn names_say_what_a_thing_does() {
    none(&ours(), |file| scan::names(&file.path, &Code::of(&file.text)));
}

#[test]
fn stages_import_only_what_stands_before_them() {
    none(&rust_files("src/"), |file| imports::stages(&file.path, &Code::of(&file.text)));
}

#[test]
fn drivers_stay_at_their_edges() {
    none(&rust_files("src/"), |file| imports::drivers(&file.path, &Code::of(&file.text)));
}

#[test]
fn a_panic_in_the_product_has_a_proof_beside_it() {
    let files = rust_files("src/");
    let gated = gated(&files);
    none(&files, |file| {
        if gated.iter().any(|gate| gate.covers(&file.path)) {
            return Vec::new();
        }
        scan::unproven_panics(&file.path, &file.text)
    });
}

/// Modules that release builds do not contain, by the gates at their `mod` lines.
fn gated(files: &[File]) -> Vec<scan::GatedModule> {
    files.iter().flat_map(|file| scan::gated_modules(&file.path, &file.text)).collect()
}

#[test]
fn a_module_without_a_gate_is_product() {
    let files = rust_files("src/");
    let gated = gated(&files);
    let is_gated = |path: &str| gated.iter().any(|gate| gate.covers(path));
    // The fake schedule is behind its gate, the real one and everything else of the flow is not.
    assert!(is_gated("src/schedule/memory.rs") && is_gated("src/schedule/memory/rows.rs"));
    let (played, flow): (Vec<&File>, Vec<&File>) =
        files.iter().partition(|file| file.path.starts_with("src/simulation/"));
    assert!(!played.is_empty() && played.iter().all(|file| is_gated(&file.path)));
    let product: Vec<_> = flow.iter().filter(|file| !is_gated(&file.path)).collect();
    assert!(product.len() * 10 > flow.len() * 8, "{} of {} files", product.len(), flow.len());
}

#[test]
fn nothing_is_left_for_later_in_the_text() {
    none(&ours(), |file| scan::left_for_later(&file.text));
}

#[test]
fn every_test_is_run() {
    none(&ours(), |file| scan::ignored_tests(&Code::of(&file.text)));
}

#[test]
fn no_text_knows_the_machine_it_was_written_on() {
    none(&repository(), |file| scan::machine_paths(&file.text));
}

#[test]
fn every_statement_is_listed_and_says_who_calls_it() {
    let (sql, other): (Vec<File>, Vec<File>) = repository()
        .into_iter()
        .filter(|file| file.path.starts_with("src/schedule/"))
        .partition(|file| file.path.ends_with(".sql"));
    let list = other.iter().find(|file| file.path.ends_with("statements.rs"));
    let list = list.map_or("", |file| file.text.as_str());
    for file in &sql {
        let found = scan::statement(&file.path, &file.text, list);
        assert!(found.is_empty(), "{}: {:?}", file.path, found);
    }
}

#[test]
fn migrations_are_named_by_time_and_purpose() {
    for file in repository().iter().filter(|file| file.path.starts_with("migrations/")) {
        let found = scan::migration_name(file.path.trim_start_matches("migrations/"));
        assert!(found.is_empty(), "{}: {:?}", file.path, found);
    }
}
