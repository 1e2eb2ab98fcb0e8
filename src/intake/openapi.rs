//! The interface as an OpenAPI 3.1 document, at `/openapi.json`.
//!
//! **Promises.** Every route stands in it, with every status and every code that it can answer: the routes say
//! so themselves, in an [`Operation`] beside each handler, and a test compares the document with the router's
//! lines. What all routes of a kind can answer (no key, no scope, a body that is too large) is added here, so
//! that nobody can forget it. States, reasons, event types and codes are taken from the rules' own tables.
//!
//! **Why by hand and not by derive.** Requests are read field by field, so that a refusal can point at the
//! field (`wire.rs`); there is no struct that a derive could read, and what may be sent is narrower than any
//! type. Answers are tight on purpose: a field that the document does not know makes the contract tests fail.

mod desk;
mod desk_payments;
mod desk_reconcile;
mod desk_shapes;
mod shapes;
mod webhook_shapes;

use super::actor::Scope;
use super::problem::{Code, Problem, Retryable};
use super::{
    api_keys, batch, callback, cancel, caps, create, crew, docs, events, forecast, history, json, list,
    overview, proof, read, stream, webhooks,
};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::http::{Response, StatusCode};
use serde_json::{Map, Value, json as value};
use std::collections::BTreeMap;

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the path; always needed.
    Path,
    /// In the query.
    Query,
    /// A header that must be there.
    Header,
    /// A header that may be there.
    OptionalHeader,
}

/// One parameter.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Where.
    pub place: Place,
    /// Its name there.
    pub name: &'static str,
    /// Its schema as JSON.
    pub schema: &'static str,
    /// What it means.
    pub about: &'static str,
}

impl Parameter {
    /// Of a list for people.
    pub(super) const LIMIT: Self = Self {
        place: Place::Query,
        name: "limit",
        schema: r#"{"type":"integer","minimum":1,"maximum":200,"default":50}"#,
        about: "Most entries of the page.",
    };
    /// Of a list for people.
    pub(super) const CURSOR: Self = Self {
        place: Place::Query,
        name: "cursor",
        schema: r#"{"type":"string"}"#,
        about: "The nextCursor of the page before, with the same filters.",
    };
}

/// One answer that is no refusal.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// What it says.
    pub about: &'static str,
    /// Its media type; empty: no body.
    pub media: &'static str,
    /// The name of its schema; empty: any text.
    pub schema: &'static str,
    /// Headers beside those of all answers.
    pub headers: &'static [&'static str],
    /// Operations that take the answer's `paymentId` as their `id`.
    pub leads_to: &'static [&'static str],
}

impl Answer {
    /// 200 with JSON of this schema.
    #[must_use]
    pub const fn ok(schema: &'static str, about: &'static str) -> Self {
        Self::json(200, schema, about)
    }

    /// JSON of this schema under this status.
    #[must_use]
    pub const fn json(status: u16, schema: &'static str, about: &'static str) -> Self {
        Self { status, about, media: "application/json", schema, headers: &[], leads_to: &[] }
    }

    /// 304 for a client that has what its tag names.
    pub const UNCHANGED: Self = Self {
        status: 304,
        about: "What If-None-Match names is still what there is.",
        media: "",
        schema: "",
        headers: &["ETag"],
        leads_to: &[],
    };
}

/// One route with one method.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// In lower case.
    pub method: &'static str,
    /// As the router has it.
    pub path: &'static str,
    /// Its name for generated clients.
    pub id: &'static str,
    /// The group that it is shown in.
    pub tag: &'static str,
    /// In a few words.
    pub summary: &'static str,
    /// In sentences.
    pub about: &'static str,
    /// What the key needs; `None`: no key is asked for.
    pub scope: Option<Scope>,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// The schema of its body, where it takes one.
    pub body: Option<&'static str>,
    /// What it answers.
    pub answers: &'static [Answer],
    /// What it refuses, beside what every route of its kind does.
    pub refusals: &'static [Code],
}

impl Operation {
    /// A route that answers nothing yet; the rest is named by the one that it is for.
    pub const BARE: Self = Self {
        method: "get",
        path: "",
        id: "",
        tag: "",
        summary: "",
        about: "",
        scope: None,
        parameters: &[],
        body: None,
        answers: &[],
        refusals: &[],
    };

    /// Every code that it can answer, in the order of the table of codes.
    fn codes(&self) -> Vec<Code> {
        let asks = |place| self.parameters.iter().any(|parameter| parameter.place == place);
        let takes_json = self.answers.iter().any(|answer| answer.media == "application/json");
        let mut codes = vec![Code::UriTooLong, Code::RequestTimedOut, Code::Internal];
        codes.extend(self.refusals);
        if self.path.starts_with("/v1/") {
            codes.push(Code::RateLimited);
        }
        if self.scope.is_some() {
            codes.extend([Code::Unauthenticated, Code::MissingScope]);
            codes.extend([Code::DatabaseUnavailable, Code::TokenKeysUnavailable]);
        }
        if self.scope.is_some() && takes_json {
            codes.push(Code::NotAcceptable);
        }
        if self.body.is_some() {
            codes.extend([
                Code::MalformedJson,
                Code::BodyTooLarge,
                Code::BodyTooSlow,
                Code::UnsupportedMediaType,
            ]);
        }
        let is_strict =
            ["/v1/ops/", "/v1/webhook-endpoints"].iter().any(|start| self.path.starts_with(start));
        if self.body.is_some() && is_strict {
            codes.extend(STRICT_REFUSALS);
            // An instant is read as one, and kept as one.
            if self.body != Some("WebhookResend") {
                codes.extend(TEXT_REFUSALS);
            }
        }
        if self.scope.is_some() {
            codes.push(Code::UnknownParameter);
        }
        if asks(Place::Query) {
            codes.extend([Code::UnknownParameter, Code::DuplicateParameter, Code::InvalidParameter]);
        }
        Code::ALL.iter().copied().filter(|code| codes.contains(code)).collect()
    }
}

/// What an act is refused for: its fields are read strictly.
const STRICT_REFUSALS: &[Code] =
    &[Code::WrongType, Code::UnknownField, Code::DuplicateField, Code::MissingField];

/// The same where it has texts that are kept.
const TEXT_REFUSALS: &[Code] = &[Code::Empty, Code::TooLong, Code::InvalidCharacter, Code::RawCardNumber];

/// Every route, in the order of the document.
#[must_use]
pub fn operations() -> Vec<Operation> {
    let all: [&[Operation]; 18] = [
        create::TOLD,
        batch::TOLD,
        list::TOLD,
        read::TOLD,
        cancel::TOLD,
        history::TOLD,
        proof::TOLD,
        events::TOLD,
        stream::TOLD,
        webhooks::TOLD,
        forecast::TOLD,
        overview::TOLD,
        crew::TOLD,
        api_keys::TOLD,
        caps::TOLD,
        callback::TOLD,
        docs::TOLD,
        OWN,
    ];
    [all.concat(), desk::TOLD.concat(), desk_payments::TOLD.to_vec(), desk_reconcile::TOLD.to_vec()].concat()
}

const OWN: &[Operation] = &[
    Operation {
        path: "/openapi.json",
        id: "openapi",
        tag: "about",
        summary: "This document",
        answers: &[Answer::ok("OpenApi", "OpenAPI 3.1.")],
        ..Operation::BARE
    },
    Operation {
        path: "/problems/{code}",
        id: "explainProblem",
        tag: "about",
        summary: "What a refusal means",
        about: "What the `type` of a problem points at.",
        parameters: &[Parameter {
            place: Place::Path,
            name: "code",
            schema: r#"{"type":"string","minLength":1,"examples":["due_in_past"]}"#,
            about: "A problem's code.",
        }],
        answers: &[Answer {
            status: 200,
            about: "Its name, its HTTP status, what it means and what to do.",
            media: "text/plain; charset=utf-8",
            schema: "",
            headers: &[],
            leads_to: &[],
        }],
        refusals: &[Code::RouteNotFound],
        ..Operation::BARE
    },
];

pub(super) async fn get() -> Response<Body> {
    let mut response = json(StatusCode::OK, document().to_string().into_bytes());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations() {
        paths.entry(operation.path).or_default().insert(operation.method.into(), operation_of(&operation));
    }
    value!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Pays on time, once.",
            "description": shapes::ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": shapes::tags(),
        "paths": paths,
        "components": {
            "schemas": shapes::schemas(),
            "headers": shapes::headers(),
            "securitySchemes": {"key": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key, `pk_live_…` or `pk_test_…`, or a token of the configured issuer. Each \
                    operation names the scope that is needed.",
            }},
        },
    })
}

fn reference(kind: &str, name: &str) -> Value {
    value!({"$ref": format!("#/components/{kind}/{name}")})
}

fn operation_of(operation: &Operation) -> Value {
    let mut shown = value!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": responses(operation),
        "security": operation.scope.map_or_else(|| value!([]), |scope| value!([{"key": [scope.as_str()]}])),
    });
    if !operation.about.is_empty() {
        shown["description"] = operation.about.into();
    }
    if !operation.parameters.is_empty() {
        shown["parameters"] = operation.parameters.iter().map(parameter).collect();
    }
    if let Some(schema) = operation.body {
        let content = value!({"application/json": {"schema": reference("schemas", schema)}});
        shown["requestBody"] = value!({"required": true, "content": content});
    }
    shown
}

fn parameter(parameter: &Parameter) -> Value {
    let (place, required) = match parameter.place {
        Place::Path => ("path", true),
        Place::Query => ("query", false),
        Place::Header => ("header", true),
        Place::OptionalHeader => ("header", false),
    };
    // A test reads each of them.
    let schema: Value = serde_json::from_str(parameter.schema).unwrap_or_default();
    value!({
        "name": parameter.name, "in": place, "required": required, "description": parameter.about,
        "schema": schema,
    })
}

fn responses(operation: &Operation) -> Map<String, Value> {
    let mut all = Map::new();
    for answer in operation.answers {
        all.insert(answer.status.to_string(), answer_of(answer));
    }
    let mut refusals: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in operation.codes() {
        refusals.entry(code.http()).or_default().push(code);
    }
    for (status, codes) in refusals {
        all.insert(status.to_string(), refusal(status, &codes));
    }
    all
}

fn answer_of(answer: &Answer) -> Value {
    let names = ["Request-Id"].iter().chain(answer.headers);
    let headers: Map<_, _> = names.map(|name| ((*name).to_owned(), reference("headers", name))).collect();
    let mut shown = value!({"description": answer.about, "headers": headers});
    if !answer.media.is_empty() {
        let schema = if answer.schema.is_empty() {
            value!({"type": "string"})
        } else {
            reference("schemas", answer.schema)
        };
        let mut content = Map::new();
        content.insert(answer.media.to_owned(), value!({"schema": schema}));
        shown["content"] = Value::Object(content);
    }
    if !answer.leads_to.is_empty() {
        let link = |id: &&str| {
            let to = value!({"operationId": id, "parameters": {"id": "$response.body#/paymentId"}});
            ((*id).to_owned(), to)
        };
        shown["links"] = Value::Object(answer.leads_to.iter().map(link).collect());
    }
    shown
}

fn refusal(status: u16, codes: &[Code]) -> Value {
    let about: Vec<String> =
        codes.iter().map(|code| format!("`{}`: {}.", code.as_str(), code.title())).collect();
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let mut headers = Map::new();
    headers.insert("Request-Id".into(), reference("headers", "Request-Id"));
    if codes.iter().any(|code| code.retryable() == Retryable::Yes) {
        headers.insert("Retry-After".into(), reference("headers", "Retry-After"));
    }
    if codes.contains(&Code::RateLimited) {
        for name in ["RateLimit-Policy", "RateLimit"] {
            headers.insert(name.into(), reference("headers", name));
        }
    }
    if codes.iter().any(|code| matches!(code, Code::Unauthenticated | Code::MissingScope)) {
        headers.insert("WWW-Authenticate".into(), reference("headers", "WWW-Authenticate"));
    }
    let schema = value!({
        "allOf": [reference("schemas", "Problem")],
        "properties": {"code": {"enum": names}, "status": {"const": status}},
    });
    value!({
        "description": about.join("\n"),
        "headers": headers,
        "content": {"application/problem+json": {"schema": schema}},
    })
}

/// Answers a path under `/docs` that holds nothing.
pub(super) fn nothing_here() -> Problem {
    Problem::new(Code::RouteNotFound)
}

#[cfg(test)]
#[path = "openapi/openapi_tests.rs"]
mod tests;
