//! Each scanner finds what it is for, and nothing in what only looks like it.

use super::imports::{drivers, stages};
use super::scan::{self, Code, Finding};

fn lines(found: &[Finding]) -> Vec<usize> {
    found.iter().map(|finding| finding.line).collect()
}

#[test]
fn comments_and_literals_are_no_code() {
    let source = "let a = \"fn b() { unwrap }\"; // crate::x\nlet c = '{'; let d = r#\"}\"\"#; /* { /* { */ */\nfn e<'a>() {}";
    let code = Code::of(source);
    let words: Vec<String> = code.words().into_iter().map(|word| word.text).collect();
    assert_eq!(words, ["let", "a", "let", "c", "let", "d", "fn", "e", "a"]);
    assert_eq!(code.words().last().map(|word| word.line), Some(3));
}

#[test]
fn a_file_without_an_opening_sentence_is_found() {
    assert_eq!(scan::opening("use std::fmt;\n").len(), 1);
    assert_eq!(scan::opening("//!\n//! Later.\n").len(), 1);
    assert_eq!(scan::opening("").len(), 1);
    assert!(scan::opening("//! What this promises.\n").is_empty());
}

#[test]
fn an_ignored_test_is_found() {
    assert_eq!(lines(&scan::ignored_tests(&Code::of("#[test]\n#[ignore = \"slow\"]\nfn f() {}\n"))), [2]);
    assert_eq!(lines(&scan::ignored_tests(&Code::of("#[ignore]\nfn f() {}\n"))), [1]);
    assert!(scan::ignored_tests(&Code::of("ignore(x); // #[ignore]\nlet a = \"#[ignore]\";")).is_empty());
}

#[test]
fn a_long_file_is_found() {
    assert_eq!(scan::file_length("a\nb\nc\n", 2).len(), 1);
    assert!(scan::file_length("a\nb\n", 2).is_empty());
}

#[test]
fn a_long_function_is_found_by_name() {
    let source = "trait T { fn short(&self, x: [u8; 3]); }\nfn long() -> [u8; 2] {\n  if x {\n  }\n  \"}\";\n}\nfn next() {}\n";
    let found = scan::long_functions(&Code::of(source), 4, |_| false);
    assert_eq!(found, [Finding::new(2, "`long` has 5 lines, over 4")]);
    assert!(scan::long_functions(&Code::of(source), 5, |_| false).is_empty());
    assert!(scan::long_functions(&Code::of(source), 4, |name| name == "long").is_empty());
    let pointer = "fn f(g: fn(&mut X) -> u8) {}\nstruct Y {\n\n\n\n}\n";
    assert!(scan::long_functions(&Code::of(pointer), 4, |_| false).is_empty());
}

#[test]
fn names_that_say_nothing_are_found() {
    for bad in [
        "mod utils;",
        "struct LeaseManager;",
        "fn process_payment() {}",
        "fn handle_notice() {}",
        "fn data() {}",
        "struct Info;",
        "mod test_helpers {}",
        "enum CommonError {}",
        "type Data = u8;",
        "trait Body { type Data; }",
        "impl Body { fn data(&self) {} }",
        "fn f(x: impl for<'a> Fn(&'a u8)) { for y in x { type Data = u8; } }",
    ] {
        assert_eq!(scan::names("src/worker/step.rs", &Code::of(bad)).len(), 1, "{bad}");
    }
    for good in [
        "fn processed() {}",
        "fn handle() {}",
        "struct Database;",
        "fn info_line() {}",
        "// mod utils;",
        "}\nimpl<T> hyper::Body for Gated<T> {\n    type Data = u8;\n}",
    ] {
        assert!(scan::names("src/worker/step.rs", &Code::of(good)).is_empty(), "{good}");
    }
    assert_eq!(scan::names("src/common/mod.rs", &Code::of("")).len(), 1);
}

#[test]
fn a_panic_without_proof_is_found_outside_tests_only() {
    let bad = "fn a() {\n    b.unwrap();\n    c.expect(\"d\");\n}\n";
    assert_eq!(lines(&scan::unproven_panics("src/a.rs", bad)), [2, 3]);
    let fine = "fn a() {\n    // The table is not empty.\n    b.unwrap();\n    c.expect(\"d\"); // Set above.\n    e.unwrap_or(1);\n}\n\
                #[cfg(test)]\nmod tests {\n    fn f() { g.unwrap(); }\n}\n";
    assert_eq!(scan::unproven_panics("src/a.rs", fine), []);
    let after = "#[cfg(test)]\nmod tests {\n}\nfn a() { b.unwrap(); }\n";
    assert_eq!(lines(&scan::unproven_panics("src/a.rs", after)), [4]);
}

#[test]
fn only_a_gate_right_above_its_line_takes_a_module_out_of_the_product() {
    let text = "#[cfg(any(test, feature = \"faults\"))]\n#[allow(missing_docs)]\nmod memory;\nmod claim;\n\
                #[cfg(test)]\npub mod lab;\n#[cfg(any(test, feature = \"simulation\"))]\nmod played;\n#[cfg(feature = \"fast\")]\nmod fast;\n\
                #[cfg(not(test))]\nmod real;\n#[cfg(test)]\nuse x::y;\nmod after;\n";
    let gated = scan::gated_modules("src/schedule/mod.rs", text);
    let covers = |path: &str| gated.iter().any(|gate| gate.covers(path));
    for path in [
        "src/schedule/memory.rs",
        "src/schedule/memory/rows.rs",
        "src/schedule/lab/mod.rs",
        "src/schedule/played.rs",
    ] {
        assert!(covers(path), "{path}");
    }
    for path in ["claim", "memory_of_others", "fast", "real", "after", "mod"] {
        assert!(!covers(&format!("src/schedule/{path}.rs")), "{path}");
    }
    let below = scan::gated_modules("src/worker/step.rs", "#[cfg(test)]\nmod tests;\n");
    assert!(below[0].covers("src/worker/step/tests.rs"));
}

#[test]
fn what_is_left_for_later_is_found() {
    let bad = concat!("// TO", "DO: later\n// FIX", "ME\n");
    assert_eq!(lines(&scan::left_for_later(bad)), [1, 2]);
    assert!(scan::left_for_later("// What is left is read again.\n").is_empty());
}

#[test]
fn a_path_of_one_machine_is_found() {
    assert_eq!(lines(&scan::machine_paths(concat!("a\nsee /wo", "rk/main\n"))), [2]);
    assert!(scan::machine_paths("framework/main").is_empty());
}

#[test]
fn a_statement_that_is_not_listed_or_not_explained_is_found() {
    let list = "include_str!(\"sql/claim.sql\")";
    assert!(scan::statement("src/schedule/sql/claim.sql", "-- Worker.\nSELECT 1", list).is_empty());
    assert_eq!(scan::statement("src/schedule/sql/claim.sql", "SELECT 1", list).len(), 1);
    assert_eq!(scan::statement("src/schedule/sql/reclaim.sql", "-- Keeper.\nSELECT 1", list).len(), 1);
}

#[test]
fn a_migration_without_time_or_purpose_is_found() {
    assert!(scan::migration_name("202611290900_create_payments.sql").is_empty());
    for bad in ["001_create_payments.sql", "202611290900_payments.sql", "202611290900_create_payments.txt"] {
        assert_eq!(scan::migration_name(bad).len(), 1, "{bad}");
    }
}

#[test]
fn a_stage_that_uses_a_later_one_is_found() {
    for (path, bad) in [
        ("src/domain/money.rs", "use crate::platform::clock::Clock;"),
        ("src/intake/create.rs", "use crate::worker::step;"),
        ("src/relay/mod.rs", "use crate::{\n    domain::ids::{A, B},\n    gateway::Gateway,\n};"),
        ("src/outcome/mod.rs", "fn f() { crate::platform::clock::Host; }"),
        ("src/sandbox/mod.rs", "use crate::gateway::Http;"),
        ("src/worker/step.rs", "use super::super::intake::wire;"),
        ("src/worker/mod.rs", "use super::intake::wire;"),
        ("src/elsewhere/mod.rs", ""),
    ] {
        assert_eq!(stages(path, &Code::of(bad)).len(), 1, "{path}: {bad}");
    }
    for (path, good) in [
        ("src/worker/step.rs", "use crate::{bucket::Held, gateway::Gateway};\nuse super::permits::Permit;"),
        ("src/relay/mod.rs", "use crate::schedule::Schedule; pub(crate) fn a() {}"),
        ("src/roles.rs", "use crate::worker::Worker;"),
        ("src/intake/mod.rs", "#[cfg(test)]\nmod tests {\n    use crate::worker::step;\n}"),
        ("src/domain/state.rs", "// see crate::worker\nuse super::money::Money;"),
        ("src/outcome/plan.rs", "use crate::platform::faults::sabotaged;"),
    ] {
        assert_eq!(stages(path, &Code::of(good)), [], "{path}: {good}");
    }
}

#[test]
fn a_driver_away_from_its_edge_is_found() {
    for (path, bad) in [
        ("src/worker/step.rs", "use sqlx::PgPool;"),
        ("src/intake/create.rs", "fn f(p: &sqlx::PgPool) {}"),
        ("src/relay/mod.rs", "use rdkafka::producer::FutureProducer;"),
        ("src/sandbox/mod.rs", "use reqwest::Client;"),
        ("src/platform/metrics.rs", "use axum::Router;"),
        ("src/worker/mod.rs", "let pause = backoff::ExponentialBackoff::default();"),
        ("src/worker/mod.rs", "let id: u128 = rand::random();"),
        ("src/worker/mod.rs", "metrics::counter!(\"x\").increment(1);"),
    ] {
        assert_eq!(drivers(path, &Code::of(bad)).len(), 1, "{path}: {bad}");
    }
    for (path, good) in [
        ("src/schedule/claim.rs", "use sqlx::PgPool;"),
        ("src/platform/health.rs", "use axum::Router;"),
        ("src/worker/mod.rs", "use crate::platform::metrics; metrics::CLAIMS.add(1, [a]); counter != 2;"),
        ("src/worker/step.rs", "let axum = 1; // axum::Router"),
        ("src/platform/reconnect.rs", "use backoff::backoff::Backoff;"),
    ] {
        assert_eq!(drivers(path, &Code::of(good)), [], "{path}: {good}");
    }
}
