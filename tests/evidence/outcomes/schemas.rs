//! Every event that the integration suite emitted, against its schema; and the Python consumer of `examples/` on a
//! real topic in which everything comes twice.
//!
//! Each test database writes down what it told before it is dropped (`tests/support/emitted.rs`). With
//! `PUNCTUAL_EMITTED` naming a folder that a run of the suite has filled (`make test` with the same variable), that
//! run is looked at; otherwise the parts of it that move payments are run here, [`PARTS`] by the beginning of their
//! tests' names, or others as `PUNCTUAL_SUITE` says.

use crate::figures::{Figures, Holds, Verdict};
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{TimeDelta, Utc};
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// The suite without what starts brokers, fills disks and waits for minutes.
const PARTS: &str = "api_keys:: batch:: callbacks:: cli:: declines:: events:: flow:: gateway:: lists:: money:: operations:: \
    operators:: publisher:: quarantine reconcil refunds:: schedule:: stream:: webhooks";
/// Most witnesses shown of each kind.
const SHOWN: usize = 5;

/// Counts by type; a type that never occurred is UNKNOWN.
pub async fn everything_emitted_fits_its_schema(figures: &mut Figures) {
    figures.part("Events against their schemas");
    let made = tempfile::tempdir().expect("a folder");
    let folder = match std::env::var_os("PUNCTUAL_EMITTED").map(PathBuf::from) {
        Some(folder) if folder.read_dir().is_ok_and(|mut files| files.next().is_some()) => folder,
        Some(_) | None => {
            run_the_suite(figures, made.path());
            made.path().to_owned()
        }
    };
    let kept = Kept::read(&folder);
    figures.holds("databases that told nothing for an error", kept.failed, "0", Holds(kept.failed == 0));
    println!(
        "      {} databases; {} rows that tests wrote by hand are left out",
        kept.databases, kept.foreign
    );
    let schemas = Schemas::of_the_document();
    let (mut broken, mut witnesses) = (0, Vec::new());
    let mut types: BTreeMap<&str, usize> = schemas.events.keys().map(|kind| (kind.as_str(), 0)).collect();
    for event in &kept.events {
        let kind = event["type"].as_str().unwrap_or_default();
        let found = match (types.get_mut(kind), schemas.events.get(kind)) {
            (Some(count), Some(schema)) => {
                *count += 1;
                schema.validate(event).err().map(|error| error.to_string())
            }
            _ => Some(format!("{kind} is not in the document")),
        };
        if let Some(error) = found {
            broken += 1;
            witnesses.push(format!("{error}: {event}"));
        }
    }
    witnesses.truncate(SHOWN);
    figures.violations("events against their type's schema", kept.events.len(), broken, &witnesses);
    for (kind, times) in types {
        figures.met(kind, times);
    }
    let bad: Vec<String> = kept
        .announcements
        .iter()
        .filter_map(|one| Some(format!("{}: {one}", schemas.parked.validate(one).err()?)))
        .collect();
    let shown = &bad[..bad.len().min(SHOWN)];
    figures.violations("announcements against their schema", kept.announcements.len(), bad.len(), shown);
    the_python_consumer_acts_once_and_in_order(figures).await;
}

/// As `make test` builds it, so that nothing is built twice: what an event looks like does not hang on the optimiser.
fn run_the_suite(figures: &mut Figures, folder: &Path) {
    let mut suite = Command::new(env!("CARGO"));
    suite.args(["test", "--locked", "--features", "faults", "--test", "it", "--no-fail-fast", "--"]);
    let parts = std::env::var("PUNCTUAL_SUITE").unwrap_or_else(|_| PARTS.to_owned());
    suite.args(parts.split_whitespace());
    suite.current_dir(env!("CARGO_MANIFEST_DIR")).env("PUNCTUAL_EMITTED", folder);
    let output = suite.output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of = |ending: &str| {
        text.lines().filter(|line| line.starts_with("test ") && line.ends_with(ending)).count()
    };
    let (passed, failed) = (of(" ... ok"), of(" ... FAILED"));
    let holds = output.status.success() && passed > 0;
    figures.holds(
        "tests of the suite",
        format!("{passed} passed, {failed} failed"),
        "all pass",
        Holds(holds),
    );
    if !holds {
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What the databases of a run left.
#[derive(Default)]
struct Kept {
    databases: usize,
    events: Vec<Value>,
    announcements: Vec<Value>,
    foreign: usize,
    failed: usize,
}

impl Kept {
    fn read(folder: &Path) -> Self {
        let mut kept = Self::default();
        for file in folder.read_dir().expect("a folder") {
            let path = file.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("text");
            let lines = || text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
            let name = path.to_string_lossy();
            if name.ends_with(".events.ndjson") {
                kept.databases += 1;
                kept.events.extend(lines());
            } else if name.ends_with(".parked.ndjson") {
                kept.announcements.extend(lines());
            } else if name.ends_with(".foreign") {
                kept.foreign += text.parse::<usize>().expect("a number");
            } else if name.ends_with(".failed") {
                println!("      {name}: {text}");
                kept.failed += 1;
            }
        }
        kept
    }
}

/// The schemas as `topics/asyncapi.yaml` refers to them.
struct Schemas {
    events: BTreeMap<String, Validator>,
    parked: Validator,
}

impl Schemas {
    fn of_the_document() -> Self {
        let topics = Path::new(env!("CARGO_MANIFEST_DIR")).join("topics");
        let text = std::fs::read_to_string(topics.join("asyncapi.yaml")).expect("the document");
        let document: Value = serde_saphyr::from_str(&text).expect("YAML");
        let of = |channel: &str| -> BTreeMap<String, Validator> {
            let messages = document["channels"][channel]["messages"].as_object().expect("messages");
            let each = messages.iter().map(|(name, message)| {
                let pointer = message["$ref"].as_str().expect("a reference").trim_start_matches('#');
                let payload = document.pointer(pointer).expect("it leads somewhere");
                let file = payload["payload"]["schema"]["$ref"].as_str().expect("a file");
                (name.clone(), validator(&topics, file))
            });
            each.collect()
        };
        let parked = of("parked").into_values().next().expect("one message");
        Self { events: of("events"), parked }
    }
}

/// With the shape that all events share put in its place.
fn validator(topics: &Path, file: &str) -> Validator {
    let read = |path: PathBuf| -> Value {
        serde_json::from_str(&std::fs::read_to_string(&path).expect("a file")).expect("JSON")
    };
    let mut schema = read(topics.join(file));
    let own = schema.as_object_mut().expect("an object");
    if let Some(shared) = own.remove("$ref") {
        assert_eq!(shared, "../event.schema.json");
        schema = json!({"allOf": [read(topics.join("event.schema.json")), own]});
    }
    jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema")
}

/// A folder with a Python that has the client library; `None` where it cannot be had.
fn python(folder: &Path) -> Option<PathBuf> {
    let made = Command::new("python3").args(["-m", "venv"]).arg(folder).status().ok()?;
    let pip = folder.join("bin/pip");
    let has = made.success()
        && Command::new(pip)
            .args(["install", "--quiet", "--disable-pip-version-check", "confluent-kafka==2.16.1"])
            .status()
            .ok()?
            .success();
    has.then(|| folder.join("bin/python"))
}

async fn the_python_consumer_acts_once_and_in_order(figures: &mut Figures) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(python) = python(&folder.path().join("venv")) else {
        println!(
            "      LEFT OUT: examples/python/consume.py, since confluent-kafka cannot be installed here"
        );
        return;
    };
    let mut site = Installation::new(&[("publisher.poll", "50ms")]).await;
    for (role, name) in
        [("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1"), ("publisher", "publisher-1")]
    {
        site.start(role, name, &[]).await;
    }
    let mut wanted = BTreeMap::new();
    for n in 0..10 {
        let id = site.create(&format!("p{n}"), "sim_ok", Utc::now() + TimeDelta::seconds(1)).await;
        wanted.insert(id, vec![1, 2, 3]);
    }
    for id in wanted.keys() {
        site.settled(id, &["COMPLETED"], SOON).await;
    }
    eventually("all of it was published", SOON, || async {
        let counted = site.run(&["publisher", "--from", "beginning", "--dry-run", "-o", "json"]);
        let counted: Value = serde_json::from_str(&counted).ok()?;
        (counted["rows"] == 30).then_some(())
    })
    .await;
    site.run(&["publisher", "--from", "beginning"]);
    let (book, said) = (folder.path().join("events.db"), folder.path().join("said"));
    // Killed once in the middle, so that it begins again with a group that may not have committed.
    for least in [1, 30] {
        let mut consumer = Command::new(&python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/python/consume.py"))
            .arg(&book)
            .env("KAFKA_BOOTSTRAP_SERVERS", site.kafka())
            .env("PUNCTUAL_KAFKA__TOPIC_PREFIX", site.setting("kafka.topic_prefix"))
            .env("CONSUMER_GROUP", format!("python-{}", std::process::id()))
            .stdin(Stdio::null())
            .stdout(std::fs::OpenOptions::new().append(true).create(true).open(&said).expect("a file"))
            .spawn()
            .expect("python runs");
        eventually("the consumer has acted", SOON, || async {
            (acted(&said, &wanted).values().map(Vec::len).sum::<usize>() >= least).then_some(())
        })
        .await;
        consumer.kill().expect("killed");
        consumer.wait().expect("it ended");
    }
    let acted = acted(&said, &wanted);
    let in_order = acted == wanted;
    let shown = format!("{} payments, {}", acted.len(), if in_order { "each 1, 2, 3" } else { "not so" });
    let verdict = if in_order { Verdict::Holds } else { Verdict::FallsShort };
    figures.line("examples/python/consume.py, all twice, killed once", shown, "once each, in order", verdict);
    if !in_order {
        println!("      {acted:?}");
    }
}

/// What it acted upon, of our payments, first times only: its last transaction may have been cut off after it spoke.
fn acted(said: &Path, wanted: &BTreeMap<String, Vec<i64>>) -> BTreeMap<String, Vec<i64>> {
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for line in std::fs::read_to_string(said).unwrap_or_default().lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(payment), Some(sequence)) = (event["subject"].as_str(), event["sequence"].as_i64()) else {
            continue;
        };
        let sequences = found.entry(payment.to_owned()).or_default();
        if wanted.contains_key(payment) && !sequences.contains(&sequence) {
            sequences.push(sequence);
        }
    }
    found.retain(|payment, _| wanted.contains_key(payment));
    found
}
