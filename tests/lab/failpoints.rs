//! Failpoints are in test binaries only: the binary is searched for the variable that arms them.

/// What the binary under test was built with decides which of the two is asked.
#[test]
fn the_binary_knows_how_to_freeze_itself_exactly_where_it_was_built_with_faults() {
    let holds = |path: &str| {
        let bytes = std::fs::read(path).ok()?;
        // Put together here, so that the search cannot find itself.
        let variable = ["PUNCTUAL", "FREEZE", "AT"].join("_");
        Some(bytes.windows(variable.len()).any(|window| window == variable.as_bytes()))
    };
    let ours = env!("CARGO_BIN_EXE_punctual");
    assert_eq!(holds(ours), Some(cfg!(feature = "faults")), "{ours}");
    // The release binary beside it, where one was built: `make bench` and `make simulate` do.
    let release = ours.replace("/debug/", "/release/");
    assert_ne!(holds(&release), Some(true), "{release} can be frozen");
}

#[test]
fn what_is_shipped_is_built_without_faults() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    let default = manifest.lines().find(|line| line.starts_with("default = ")).expect("default features");
    assert_eq!(default, r#"default = ["simulation"]"#);
    let mut builds = 0;
    for entry in std::fs::read_dir(root.join("deploy")).expect("what is shipped") {
        let path = entry.expect("a file").path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for line in text.lines().filter(|line| line.contains("cargo build")) {
            builds += 1;
            assert!(!line.contains("faults") && !line.contains("all-features"), "{}: {line}", path.display());
        }
    }
    assert!(builds > 0, "nothing that is shipped is built");
}
