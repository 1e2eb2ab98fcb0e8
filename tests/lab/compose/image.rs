//! `deploy/Dockerfile` builds what the compose file runs.

use super::{OURS, TEXT, services};
use serde_json::Value;
use std::path::Path;

const DOCKERFILE: &str = include_str!("../../../deploy/Dockerfile");
const IGNORED: &str = include_str!("../../../.dockerignore");

/// The rest of each line that begins with this instruction.
fn instructions(word: &str) -> Vec<&'static str> {
    DOCKERFILE.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
}

#[test]
fn the_image_runs_the_binary_as_the_user_of_the_compose_file() {
    let document: Value = serde_saphyr::from_str(TEXT).unwrap();
    let users = instructions("USER");
    for service in services(&document).iter().filter(|service| service.image == OURS) {
        assert_eq!(service.raw["user"], *users.last().expect("a USER"), "{}", service.name);
        assert!(service.raw["entrypoint"].is_null(), "{} has another entry point", service.name);
    }
    assert_eq!(instructions("ENTRYPOINT"), [r#"["punctual"]"#]);
    let made = DOCKERFILE.find("install -d -o punctual").expect("the ledger's folder has its owner");
    assert!(DOCKERFILE[made..].contains("/var/lib/punctual\n"));
}

/// What the feature `simulation` holds makes proofs that no database stands behind.
#[test]
fn it_is_built_without_the_simulation() {
    let builds: Vec<_> = DOCKERFILE.lines().filter(|line| line.contains("cargo build")).collect();
    assert_eq!(builds.len(), 1);
    assert!(builds[0].contains("--no-default-features") && !builds[0].contains("--features"));
    let manifest = include_str!("../../../Cargo.toml").parse::<toml::Table>().unwrap();
    let on_by_default = manifest["features"]["default"].as_array().unwrap();
    assert!(on_by_default.iter().any(|feature| feature.as_str() == Some("simulation")));
}

#[test]
fn its_bases_are_pinned_and_its_compiler_is_new_enough() {
    let bases = instructions("FROM");
    assert_eq!(bases.len(), 2);
    for base in &bases {
        let tag = base.split(' ').next().unwrap().split_once(':').expect("a tag").1;
        let digits = tag.chars().filter(char::is_ascii_digit).count();
        assert!(digits >= 4, "{base} is not pinned");
    }
    let version = |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    let manifest = include_str!("../../../Cargo.toml").parse::<toml::Table>().unwrap();
    let wanted = manifest["package"]["rust-version"].as_str().unwrap();
    let (_, tag) = bases[0].split_once("rust:").expect("the first stage compiles");
    let given = tag.split('-').next().unwrap();
    assert!(version(given) >= version(wanted), "{given} < {wanted}");
}

#[test]
fn it_copies_everything_that_the_build_reads_and_nothing_is_ignored_that_it_copies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copied: Vec<&str> = instructions("COPY")
        .into_iter()
        .filter(|line| !line.starts_with("--from"))
        .flat_map(|line| line.rsplit_once(' ').expect("a source and a target").0.split(' '))
        .collect();
    for path in &copied {
        assert!(root.join(path).exists(), "{path} does not exist");
        assert!(IGNORED.lines().any(|line| line == format!("!{path}")), "{path} is ignored");
    }
    // What `include_str!` and `migrate!` reach for, and what the manifest names.
    let manifest = include_str!("../../../Cargo.toml").parse::<toml::Table>().unwrap();
    let targets = manifest["test"].as_array().unwrap().iter().map(|test| test["path"].as_str().unwrap());
    for path in ["Cargo.toml", "Cargo.lock", "src/main.rs", "migrations", "topics"].into_iter().chain(targets)
    {
        let top = path.split('/').next().unwrap();
        assert!(copied.contains(&top), "the build needs {path}");
    }
}
