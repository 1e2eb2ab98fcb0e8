//! The document of the interface, held against its golden file and against the router's own lines.
//!
//! `BLESS=1 cargo test --test lab openapi` writes the golden file. What changes there changes for clients.

use punctual::intake::{Needs, ROUTES, document, operations};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

#[test]
fn the_document_is_the_golden_one() {
    let path = root().join("tests/golden/openapi.json");
    let wanted = format!("{:#}\n", document());
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        std::fs::write(&path, &wanted).expect("the golden file can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert!(found == wanted, "run BLESS=1 cargo test --test lab openapi; first difference: {differs:#?}");
}

#[test]
fn every_route_of_the_router_is_in_the_document_with_its_scope_and_no_other() {
    let needed = |needs: Needs| match needs {
        Needs::Scope(scope) => scope.as_str(),
        Needs::Nothing | Needs::Signature => "",
    };
    let routes = [ROUTES, punctual::operations::ROUTES].concat();
    let served: BTreeSet<_> =
        routes.iter().map(|route| (route.path, route.method, needed(route.needs))).collect();
    assert_eq!(served.len(), routes.len(), "each route once");
    let told: BTreeSet<_> = operations()
        .iter()
        .map(|it| (it.path, it.method, it.scope.map_or("", |scope| scope.as_str())))
        .collect();
    assert_eq!(told, served);
    let shown = document();
    for (path, method, scope) in served {
        let security = &shown["paths"][path][method]["security"];
        let wanted =
            if scope.is_empty() { serde_json::json!([]) } else { serde_json::json!([{"key": [scope]}]) };
        assert_eq!(security, &wanted, "{method} {path}");
    }
}

/// Every schema of the document, wherever it stands.
fn schemas<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    if let Some(schemas) = value.get("schemas").and_then(Value::as_object) {
        found.extend(schemas.values());
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        if name == "schema" {
            found.push(inner);
        }
        schemas(inner, found);
    }
    value.as_array().into_iter().flatten().for_each(|inner| schemas(inner, found));
}

#[test]
fn every_schema_is_one_of_the_dialect_that_openapi_3_1_has() {
    let document = document();
    let mut found = Vec::new();
    schemas(&document, &mut found);
    assert!(found.len() > 100, "{} schemas were found", found.len());
    for schema in found {
        let mut schema = schema.clone();
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("{error}: {schema:#}"));
    }
}
