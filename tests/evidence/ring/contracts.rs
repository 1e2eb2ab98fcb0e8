//! What others read from the topics by: the AsyncAPI document against the published schema of AsyncAPI 3.0,
//! fetched for the occasion, and every way to break it refused by the same schema.

use crate::figures::{Figures, Holds};
use punctual::bucket::asyncapi;
use punctual::platform::config::Kafka;
use serde_json::{Value, json};
use std::process::Command;

/// The package that publishes the schemas; a fixed version, so that a run can be repeated.
const PACKAGE: &str = "@asyncapi/specs@6.11.1";
const SCHEMA: &str = "package/schemas/3.0.0-without-$id.json";

/// All of it.
pub fn the_document_is_asyncapi(figures: &mut Figures) {
    figures.part("Topic contracts");
    let text = include_str!("../../../topics/asyncapi.yaml");
    let document: Value = serde_saphyr::from_str(text).expect("YAML");
    let same = asyncapi::document(&Kafka::default()).is_ok_and(|made| made == document);
    figures.holds("topics/asyncapi.yaml is what the declarations make", same, "true", Holds(same));
    let schema = match published() {
        Ok(schema) => schema,
        Err(why) => {
            let name = "the schema of AsyncAPI 3.0";
            figures.line(name, why, "fetched with npm", crate::figures::Verdict::Unknown);
            return;
        }
    };
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let faults: Vec<String> = validator.iter_errors(&document).map(|fault| fault.to_string()).collect();
    let (channels, messages) = (count(&document, "/channels"), count(&document, "/components/messages"));
    let name = "faults by the published schema";
    let shown = format!("{} ({channels} channels, {messages} messages)", faults.len());
    figures.holds(name, shown, "0, of more than 10 messages", Holds(faults.is_empty() && messages > 10));
    for fault in faults.iter().take(5) {
        println!("      {fault}");
    }
    type Change = fn(&mut Value);
    let broken: [(&str, Change); 8] = [
        ("an action that is none", |it| it["operations"]["publishEvents"]["action"] = json!("shout")),
        ("an operation without a channel", |it| {
            _ = it["operations"]["publishEvents"].as_object_mut().expect("an object").remove("channel");
        }),
        ("no version of the interface", |it| {
            _ = it["info"].as_object_mut().expect("an object").remove("version");
        }),
        ("another version of AsyncAPI", |it| it["asyncapi"] = json!("2.6.0")),
        ("minutes as numbers", |it| {
            it["channels"]["dueMinute"]["parameters"]["minute"]["enum"] = json!([0, 1])
        }),
        ("a partition count of none", |it| {
            it["channels"]["dueNow"]["bindings"]["kafka"]["partitions"] = json!(0)
        }),
        ("a policy that Kafka has not", |it| {
            it["channels"]["events"]["bindings"]["kafka"]["topicConfiguration"]["cleanup.policy"] =
                json!(["keep"]);
        }),
        ("a word of no meaning", |it| it["channels"]["dueNow"]["adress"] = json!("x")),
    ];
    let passed: Vec<String> = broken
        .iter()
        .filter(|(_, change)| {
            let mut other = document.clone();
            change(&mut other);
            validator.is_valid(&other)
        })
        .map(|(what, _)| format!("taken: {what}"))
        .collect();
    figures.violations("broken documents that the same schema takes", broken.len(), passed.len(), &passed);
}

fn count(document: &Value, pointer: &str) -> usize {
    document.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

/// Fetches and unpacks it into a folder that goes away.
fn published() -> Result<Value, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let run = |program: &str, arguments: &[&str]| {
        let ran = Command::new(program).args(arguments).current_dir(folder.path()).output();
        let ran = ran.map_err(|error| format!("{program}: {error}"))?;
        let said = String::from_utf8_lossy(&ran.stderr).lines().last().unwrap_or_default().to_owned();
        if ran.status.success() { Ok(ran.stdout) } else { Err(format!("{program}: {said}")) }
    };
    let packed = run("npm", &["pack", "--silent", PACKAGE])?;
    let archive = String::from_utf8_lossy(&packed).trim().to_owned();
    run("tar", &["xzf", &archive, SCHEMA])?;
    let text = std::fs::read_to_string(folder.path().join(SCHEMA)).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
