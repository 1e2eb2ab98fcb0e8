//! The document is whole: every name in it leads somewhere, and every code can be met.

use super::*;
use std::collections::{BTreeSet, HashSet};

fn strings<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                match inner {
                    Value::String(text) if key == name => found.push(text),
                    _ => strings(inner, name, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, name, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_something_and_nothing_stands_there_for_nobody() {
    let document = document();
    let mut references = Vec::new();
    strings(&document, "$ref", &mut references);
    for reference in &references {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let used: HashSet<&str> = references.iter().copied().collect();
    for kind in ["schemas", "headers"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            assert!(
                used.contains(format!("#/components/{kind}/{name}").as_str()),
                "{kind} {name} is not used"
            );
        }
    }
}

#[test]
fn every_parameter_has_a_schema_and_every_name_in_a_path_a_parameter() {
    for operation in operations() {
        let mut in_path = BTreeSet::new();
        for parameter in operation.parameters {
            let schema: Value = serde_json::from_str(parameter.schema)
                .unwrap_or_else(|error| panic!("{} {}: {error}", operation.id, parameter.name));
            assert!(
                schema.is_object() && parameter.about.ends_with('.'),
                "{} {}",
                operation.id,
                parameter.name
            );
            if parameter.place == Place::Path {
                in_path.insert(parameter.name);
            }
        }
        let named: BTreeSet<&str> =
            operation.path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
        assert_eq!(in_path, named, "{}", operation.path);
    }
}

#[test]
fn names_of_operations_are_distinct_and_links_and_tags_exist() {
    let all = operations();
    let ids: BTreeSet<&str> = all.iter().map(|operation| operation.id).collect();
    assert_eq!(ids.len(), all.len());
    let document = document();
    let tags: Vec<&str> =
        document["tags"].as_array().unwrap().iter().filter_map(|tag| tag["name"].as_str()).collect();
    for operation in &all {
        assert!(tags.contains(&operation.tag), "{}", operation.id);
        assert!(!operation.summary.is_empty() && !operation.answers.is_empty(), "{}", operation.id);
        for link in operation.answers.iter().flat_map(|answer| answer.leads_to) {
            assert!(ids.contains(link), "{link}");
        }
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let named = operation.answers.iter().map(|answer| answer.schema).chain(operation.body);
        for name in named.filter(|name| !name.is_empty()) {
            assert!(schemas.contains_key(name), "{} names {name}", operation.id);
        }
    }
}

#[test]
fn every_code_stands_at_some_route_with_its_status() {
    let document = document();
    let mut met = BTreeSet::new();
    for path in document["paths"].as_object().unwrap().values() {
        for operation in path.as_object().unwrap().values() {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let codes =
                    &answer["content"]["application/problem+json"]["schema"]["properties"]["code"]["enum"];
                for code in codes.as_array().into_iter().flatten() {
                    met.insert((code.as_str().unwrap().to_owned(), status.parse::<u16>().unwrap()));
                }
            }
        }
    }
    let wanted: BTreeSet<(String, u16)> = Code::ALL
        .iter()
        // Of no route: another method than a route has.
        .filter(|code| **code != Code::MethodNotAllowed)
        .map(|code| (code.as_str().to_owned(), code.http()))
        .collect();
    assert_eq!(met, wanted);
}
