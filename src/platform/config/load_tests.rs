//! What the layers promise, on values.

use super::*;
use std::time::Duration;

fn inputs(file: &str, environment: &[(&str, &str)], sets: &[&str]) -> Inputs {
    Inputs {
        file: (!file.is_empty()).then(|| FileText { path: "punctual.toml".into(), text: file.into() }),
        environment: environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        sets: sets.iter().map(|set| (*set).to_owned()).collect(),
    }
}

fn problems(inputs: &Inputs) -> String {
    load(inputs).expect_err("must be refused").to_string()
}

#[test]
fn each_layer_beats_the_one_before_it() {
    let file = "[worker]\nlease = \"31s\"\nmargin = \"4s\"\nclaim_batch = 50\n";
    let environment = [("PUNCTUAL_WORKER__LEASE", "32s"), ("PUNCTUAL_WORKER__MARGIN", "3s")];
    let loaded = load(&inputs(file, &environment, &["worker.lease=33s"])).unwrap();
    let worker = &loaded.config.worker;
    assert_eq!(worker.lease, Duration::from_secs(33));
    assert_eq!(worker.margin, Duration::from_secs(3));
    assert_eq!(worker.claim_batch, 50);
    assert_eq!(worker.max_in_flight, 256);
    let source = |name| loaded.source(Setting::named(name).unwrap()).to_string();
    assert_eq!(source("worker.lease"), "--set");
    assert_eq!(source("worker.margin"), "PUNCTUAL_WORKER__MARGIN");
    assert_eq!(source("worker.claim_batch"), "punctual.toml");
    assert_eq!(source("worker.max_in_flight"), "default");
}

#[test]
fn the_usual_variables_beat_the_file_and_lose_to_the_prefixed_ones() {
    let file = "[database]\nurl = \"postgres://u@file/d\"\n[gateway]\nurl = \"http://127.0.0.1:1\"\n";
    let environment = [
        ("DATABASE_URL", "postgres://u@usual/d"),
        ("PUNCTUAL_GATEWAY__URL", "http://127.0.0.1:3"),
        ("SANDBOX_URL", "http://127.0.0.1:2"),
        ("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    ];
    let config = load(&inputs(file, &environment, &[])).unwrap().config;
    assert_eq!(&*config.database.url, "postgres://u@usual/d");
    assert_eq!(config.gateway.url, "http://127.0.0.1:3");
    assert_eq!(config.kafka.bootstrap_servers, "127.0.0.1:9092");
    let config = load(&inputs(file, &[("DATABASE_URL", "")], &[])).unwrap().config;
    assert_eq!(&*config.database.url, "postgres://u@file/d", "an empty variable is not set");
}

#[test]
fn every_setting_can_be_set_by_its_variable_and_shows_what_was_set() {
    // Its own default, read back from text: holds `get` and `set` of every row against each other.
    let defaults = Config::default();
    for setting in SETTINGS.iter().filter(|setting| !setting.secret) {
        let text = (setting.get)(&defaults);
        let mut config = Config::default();
        (setting.set)(&mut config, &text).unwrap();
        assert_eq!((setting.get)(&config), text, "{}", setting.name);
        let loaded = load(&inputs("", &[(&setting.variable(), &text)], &[])).unwrap();
        assert_eq!(*loaded.source(setting), Source::Environment(setting.variable()));
    }
}

#[test]
fn lists_come_as_toml_arrays_or_with_commas() {
    let file = "[ladder]\nretry = [\"1s\", \"2s\"]\n";
    let config = load(&inputs(file, &[("PUNCTUAL_LADDER__REASK", "1s, 90s")], &[])).unwrap().config;
    assert_eq!(config.ladder.retry, [Duration::from_secs(1), Duration::from_secs(2)]);
    assert_eq!(config.ladder.reask, [Duration::from_secs(1), Duration::from_secs(90)]);
}

#[test]
fn all_mistakes_are_told_at_once_with_setting_and_source() {
    let file = "[worker]\nlease = 30\n[api]\nmax_amount_minor = 1.5\n";
    let environment = [("PUNCTUAL_RELAY__BATCH", "many")];
    let text =
        problems(&inputs(file, &environment, &["gateway.lookup=maybe", "kafka.partitions=7", "worker"]));
    for part in [
        "worker.lease (punctual.toml): `30` has no unit",
        "api.max_amount_minor (punctual.toml): takes a text",
        "relay.batch (PUNCTUAL_RELAY__BATCH): `many` is not a whole number",
        "gateway.lookup (--set): `maybe` is neither",
        "kafka.partitions = 7: ",
        "--set: write it as name=value",
    ] {
        assert!(text.contains(part), "missing {part:?} in:\n{text}");
    }
    assert_eq!(text.lines().count(), 6, "{text}");
}

#[test]
fn an_unknown_name_is_warned_about_with_a_suggestion() {
    let file = "lease = \"3s\"\n[wroker]\nlease = \"31s\"\n[worker]\ncolour = \"red\"\n";
    let environment = [
        ("PUNCTUAL_WORKER_LEASE", "31s"),
        ("PUNCTUAL_COLOUR__SCHEME", "dark"),
        ("PUNCTUAL_API_KEY", "pk_x"),
        ("PUNCTUAL_URL", "http://127.0.0.1:8080"),
        ("PUNCTUAL_LOG", "debug"),
        ("PATH", "/bin"),
    ];
    let loaded = load(&inputs(file, &environment, &[])).unwrap();
    let told: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "lease (punctual.toml): no such setting",
            "worker.colour (punctual.toml): no such setting",
            "wroker.lease (punctual.toml): no such setting; did you mean worker.lease?",
            "colour.scheme (PUNCTUAL_COLOUR__SCHEME): no such setting",
            "worker_lease (PUNCTUAL_WORKER_LEASE): no such setting; did you mean worker.lease?",
        ]
    );
}

#[test]
fn a_mistake_does_not_hide_what_is_only_suspicious() {
    let file = "[worker]\nlease = 30\nmargn = \"6s\"\n";
    let text = problems(&inputs(file, &[("PUNCTUAL_COLOUR__SCHEME", "dark")], &[]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("worker.lease (punctual.toml): `30` has no unit"), "{text}");
    assert_eq!(
        lines[1..],
        [
            "warning: worker.margn (punctual.toml): no such setting; did you mean worker.margin?",
            "warning: colour.scheme (PUNCTUAL_COLOUR__SCHEME): no such setting",
        ]
    );
}

#[test]
fn an_unknown_name_on_the_command_line_is_refused() {
    let text = problems(&inputs("", &[], &["worker.leese=3s"]));
    assert_eq!(text, "worker.leese (--set): no such setting; did you mean worker.lease?");
}

#[test]
fn a_file_that_is_not_toml_is_refused_by_line_without_repeating_it() {
    let text = problems(&inputs("[database]\nurl = \"postgres://u:hunter2@h/d\n", &[], &[]));
    assert!(text.starts_with("punctual.toml line 2: "), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn no_secret_appears_in_anything_that_is_shown() {
    let mut sets = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| setting.secret) {
        sets.push(format!("{}=hunter2-hunter2-hunter2-hunter2", setting.name));
    }
    assert_eq!(sets.len(), 8, "every secret of the table is one by type");
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let loaded = load(&inputs("", &[], &sets)).unwrap();
    for shown in [
        format!("{loaded:?}"),
        super::super::shown_as_table(&loaded),
        super::super::shown_as_json(&loaded).to_string(),
    ] {
        assert!(shown.contains("***"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn every_setting_whose_text_says_secret_is_one() {
    for setting in SETTINGS {
        assert_eq!(setting.secret, setting.doc.contains("Secret."), "{}", setting.name);
    }
}

#[test]
fn a_missing_file_is_an_error_only_if_it_was_asked_for() {
    let gone = Path::new("no/such/file.toml");
    assert!(Inputs::from_host(Some(gone), Vec::new()).is_err_and(|e| e.to_string().contains("no/such/file")));
}
