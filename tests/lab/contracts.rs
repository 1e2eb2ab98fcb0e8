//! What others rely on who read the topics: every schema against its released form, and the AsyncAPI
//! document against the declarations.
//!
//! **Released forms** stand in `topics/released/<n>/`, never edited once a version with them is out. A
//! record lives for days and a reader for years, so both directions count: what was written must satisfy
//! today's schema, and who reads by a released one must not be surprised by what is written today. A
//! change that cannot keep both is another version of the record, in another file.
//!
//! `BLESS=1 cargo test --test lab contracts` writes `topics/asyncapi.yaml`.

use jsonschema::Validator;
use punctual::bucket::{asyncapi, topics};
use punctual::domain::webhook;
use punctual::platform::config::Kafka;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use uuid::Uuid;

fn topics_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("topics")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Every JSON file under a folder whose name ends so, by its path from there; released forms apart.
fn files(folder: &Path, ending: &str) -> BTreeSet<PathBuf> {
    let found = walkdir::WalkDir::new(folder).into_iter().map(|entry| entry.unwrap().into_path());
    let own = found.filter(|path| path.to_string_lossy().ends_with(ending));
    let relative = own.map(|path| path.strip_prefix(folder).unwrap().to_owned());
    relative.filter(|path| !path.starts_with("released")).collect()
}

fn releases() -> Vec<PathBuf> {
    let folder = topics_folder().join("released");
    let mut found: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Where today's form breaks what a released one promised; `at` is the place in the schema.
fn breaks(was: &Value, is: &Value, at: &str, found: &mut Vec<String>) {
    let empty = serde_json::Map::new();
    let (was, is) = (was.as_object().unwrap_or(&empty), is.as_object().unwrap_or(&empty));
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for name in names {
        let (old, new) = (was.get(name), is.get(name));
        let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        let holds = match name.as_str() {
            "$schema" | "title" | "description" => true,
            // A field that became required is missing from records that are there; one that is required
            // no more may be missing from those to come.
            "required" => {
                let set = |value| list(value).iter().map(Value::to_string).collect::<BTreeSet<_>>();
                set(old) == set(new)
            }
            // Readers expect new values; one that is gone is in records that are there.
            "enum" => old.is_some() && new.is_some() && list(old).iter().all(|one| list(new).contains(one)),
            "anyOf" => old.is_some() && new.is_some() && list(old).iter().all(|one| list(new).contains(one)),
            "properties" => {
                let fields =
                    |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
                let (old, new) = (fields(old), fields(new));
                for (field, schema) in &old {
                    match new.get(field) {
                        Some(now) => breaks(schema, now, &format!("{at}/{field}"), found),
                        None => found.push(format!("{at}/{field}: gone")),
                    }
                }
                // Readers of a closed form refuse what they do not know.
                let closed = was.get("additionalProperties") == Some(&json!(false));
                !closed || new.keys().all(|field| old.contains_key(field))
            }
            "type"
            | "const"
            | "pattern"
            | "format"
            | "minimum"
            | "maximum"
            | "minLength"
            | "maxLength"
            | "additionalProperties"
            | "$ref" => old == new,
            // A keyword that nobody thought about is a failure, never skipped.
            _ => false,
        };
        if !holds {
            let text = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
            found.push(format!("{at}: {name} was {}, is {}", text(old), text(new)));
        }
    }
}

fn broken(was: &Value, is: &Value) -> Vec<String> {
    let mut found = Vec::new();
    breaks(was, is, "", &mut found);
    found
}

/// A validator of a schema file; `../event.schema.json` is the one of the same release.
fn validator(folder: &Path, file: &Path) -> Validator {
    let shared = read(&folder.join("event.schema.json"));
    let mut schema = read(&folder.join(file));
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        assert_eq!(reference, "../event.schema.json", "{file:?}");
        let own = schema.as_object_mut().unwrap();
        own.remove("$ref");
        schema = json!({"allOf": [shared, own]});
    }
    jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap_or_else(|bad| panic!("{file:?}: {bad}"))
}

#[test]
fn no_schema_breaks_what_a_released_one_promised() {
    let folder = topics_folder();
    for release in releases() {
        let schemas = files(&release, ".schema.json");
        assert!(schemas.len() >= 17, "{release:?}: {schemas:?}");
        for file in schemas {
            let found = broken(&read(&release.join(&file)), &read(&folder.join(&file)));
            assert_eq!(found, Vec::<String>::new(), "{file:?} against {release:?}");
        }
    }
    assert!(!releases().is_empty());
}

#[test]
fn every_record_of_a_release_is_read_today_and_every_record_of_today_by_a_reader_of_a_release() {
    let folder = topics_folder();
    let schema_of =
        |example: &Path| PathBuf::from(example.to_string_lossy().replace(".example.json", ".schema.json"));
    let mut looked_at = 0;
    for release in releases() {
        for file in files(&release, ".example.json") {
            let record = read(&release.join(&file));
            let now = validator(&folder, &schema_of(&file)).validate(&record).err();
            assert!(now.is_none(), "{release:?} {file:?} by today's schema: {now:?}");
            let record = read(&folder.join(&file));
            let then = validator(&release, &schema_of(&file)).validate(&record).err();
            assert!(then.is_none(), "{file:?} by the schema of {release:?}: {then:?}");
            looked_at += 1;
        }
    }
    assert!(looked_at >= 17, "{looked_at}");
}

#[test]
fn a_test_message_of_webhooks_is_as_its_schema_and_its_example_say() {
    let at = "2026-11-29T14:07:00.020Z".parse().unwrap();
    let message = webhook::test_message(Uuid::from_u128(1), Uuid::from_u128(2), at);
    let message: Value = serde_json::from_slice(&message).unwrap();
    assert_eq!(message, read(&topics_folder().join("webhook_test.example.json")));
    let refused = validator(&topics_folder(), Path::new("webhook_test.schema.json")).validate(&message).err();
    assert!(refused.is_none(), "{refused:?}");
}

#[test]
fn every_way_to_break_a_reader_or_a_record_is_refused() {
    let was = json!({
        "$schema": "s", "title": "t", "type": "object", "required": ["id", "state"],
        "properties": {
            "id": {"type": "string", "pattern": "^a$"},
            "state": {"enum": ["A", "B"]},
            "note": {"type": ["string", "null"]},
            "count": {"type": "integer", "minimum": 0},
            "inner": {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}},
        },
        "anyOf": [{"properties": {"state": {"const": "A"}}}],
    });
    type Change = fn(&mut Value);
    let refused: [(&str, Change); 14] = [
        ("a field is gone", |it| _ = it["properties"].as_object_mut().unwrap().remove("note")),
        ("a nested field is gone", |it| it["properties"]["inner"]["properties"] = json!({})),
        ("another type", |it| it["properties"]["count"]["type"] = json!("string")),
        ("a wider type", |it| it["properties"]["id"]["type"] = json!(["string", "null"])),
        ("a narrower type", |it| it["properties"]["note"]["type"] = json!("string")),
        ("newly required", |it| it["required"] = json!(["id", "state", "note"])),
        ("new and required", |it| {
            it["properties"]["more"] = json!({"type": "string"});
            it["required"] = json!(["id", "state", "more"]);
        }),
        ("no more required", |it| it["required"] = json!(["id"])),
        ("a value less", |it| it["properties"]["state"]["enum"] = json!(["A"])),
        ("no enumeration any more", |it| it["properties"]["state"] = json!({"type": "string"})),
        ("another pattern", |it| it["properties"]["id"]["pattern"] = json!("^b$")),
        ("another bound", |it| it["properties"]["count"]["minimum"] = json!(1)),
        ("a case less", |it| it["anyOf"] = json!([])),
        ("closed", |it| it["additionalProperties"] = json!(false)),
    ];
    for (what, change) in refused {
        let mut is = was.clone();
        change(&mut is);
        assert_ne!(broken(&was, &is), Vec::<String>::new(), "{what}");
    }
    let allowed: [(&str, Change); 4] = [
        ("other words", |it| it["description"] = json!("d")),
        ("a new field", |it| it["properties"]["more"] = json!({"type": "string"})),
        ("a new value", |it| it["properties"]["state"]["enum"] = json!(["A", "B", "C"])),
        ("a new case", |it| it["anyOf"].as_array_mut().unwrap().push(json!({}))),
    ];
    for (what, change) in allowed {
        let mut is = was.clone();
        change(&mut is);
        assert_eq!(broken(&was, &is), Vec::<String>::new(), "{what}");
    }
    let mut closed = was.clone();
    closed["additionalProperties"] = json!(false);
    let mut more = closed.clone();
    more["properties"]["more"] = json!({"type": "string"});
    assert_ne!(broken(&closed, &more), Vec::<String>::new(), "readers of a closed form refuse a new field");
}

const HEAD: &str = "# Made from the files beside it and from the table of event types; checked by a test.\n\
    # `punctual topics describe` prints it for your own prefix, partitions and group.\n";

fn document() -> Value {
    asyncapi::document(&Kafka::default()).unwrap()
}

#[test]
fn the_asyncapi_document_is_the_one_that_the_declarations_make() {
    let path = topics_folder().join("asyncapi.yaml");
    let wanted = format!("{HEAD}{}", asyncapi::as_yaml(&document()));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text == wanted, "{path:?} differs; run BLESS=1 cargo test --test lab contracts");
    let read: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(read, document(), "YAML reads it as it was meant");
}

/// Every `$ref` in a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    ("$ref", Value::String(to)) => _ = found.insert(to.clone()),
                    _ => references(field, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| references(one, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_and_header_is_told_of() {
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let mut named = BTreeSet::new();
    for to in &found {
        match to.strip_prefix('#') {
            Some(pointer) => assert!(document.pointer(pointer).is_some(), "{to} leads nowhere"),
            None => {
                let file = to.trim_start_matches("./");
                assert!(topics_folder().join(file).is_file(), "{to} is no file");
                named.insert(PathBuf::from(file));
            }
        }
    }
    let mut schemas = files(&topics_folder(), ".schema.json");
    // The shape that all events share; each event's own schema refers to it.
    schemas.remove(Path::new("event.schema.json"));
    assert_eq!(named, schemas);
    let channels = document["channels"].as_object().unwrap();
    let families = topics::families().unwrap();
    assert_eq!(channels.len(), families.len());
    for family in families {
        let address = family.name.replace("{prefix}", "payments.");
        let channel = channels.values().find(|channel| channel["address"] == json!(address)).unwrap();
        assert_eq!(channel["bindings"]["kafka"]["partitions"], json!(family.partitions));
        for message in channel["messages"].as_object().unwrap().values() {
            let pointer = message["$ref"].as_str().unwrap().trim_start_matches('#');
            let told = document.pointer(pointer).unwrap()["headers"]["properties"].as_object().unwrap();
            let told: BTreeSet<&str> = told.keys().map(String::as_str).collect();
            assert_eq!(told, family.headers.iter().map(String::as_str).collect(), "{}", family.name);
        }
    }
    assert_eq!(channels["dueMinute"]["parameters"]["minute"]["enum"].as_array().unwrap().len(), 60);
}
