//! Answers held against the interface's own document: status, media type, headers and body.

use super::api::{Answer, send};
use jsonschema::Validator;
use punctual::intake::{Operation, document, operations};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// As the API serves it.
pub static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

/// Those of this process that were built already, by method, path and status.
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// The path of the document that stands for this one, literal words before parameters, if it has the method.
fn path_told(method: &str, path: &str) -> Option<&'static str> {
    let words: Vec<&str> = path.split('/').collect();
    let fits = |told: &str| {
        let told: Vec<&str> = told.split('/').collect();
        let stands_for = |told: &str, word: &str| told == word || (told.starts_with('{') && !word.is_empty());
        told.len() == words.len() && told.iter().zip(&words).all(|(told, word)| stands_for(told, word))
    };
    let all: Vec<Operation> = operations().into_iter().filter(|told| fits(told.path)).collect();
    let path = all.iter().map(|told| told.path).min_by_key(|told| told.matches('{').count())?;
    all.iter().any(|told| told.path == path && told.method.eq_ignore_ascii_case(method)).then_some(path)
}

/// Holds an answer against the document, if the document knows the route: every answer in these tests passes here.
///
/// # Panics
/// It says something else.
pub fn hold_if_told(method: &str, path: &str, answer: &Answer) {
    if let Some(path) = path_told(method, path) {
        hold(method, path, answer);
    }
}

/// Holds an answer against what the document says of this operation.
///
/// # Panics
/// It says something else.
pub fn hold(method: &str, path: &str, answer: &Answer) {
    let document = &*DOCUMENT;
    let method = method.to_lowercase();
    let told = &document["paths"][path][&method]["responses"][answer.status.to_string()];
    let what = format!("{method} {path} {}: {:.300}", answer.status, answer.text);
    assert!(told.is_object(), "a status that the document does not know: {what}");
    for name in told["headers"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let schema = &document["components"]["headers"][name];
        let value = answer.header(&name.to_lowercase());
        assert!(schema["required"] != true || !value.is_empty(), "without {name}: {what}");
        if !value.is_empty() && schema["schema"]["type"] == "integer" {
            assert!(value.parse::<u64>().is_ok(), "{name}: {value}: {what}");
        }
    }
    let Some(content) = told["content"].as_object() else {
        assert_eq!(answer.text, "", "a body that the document does not know: {what}");
        return;
    };
    let (media, shape) = content.iter().next().expect("one media type");
    let found = answer.header("content-type");
    let essence = |text: &str| text.split(';').next().unwrap_or_default().trim().to_owned();
    assert!(media == "*/*" || essence(media) == essence(found), "{found} is not {media}: {what}");
    if media.ends_with("json") {
        let key = format!("{method} {path} {}", answer.status);
        let build = || {
            let schema = json!({"allOf": [shape["schema"]], "components": document["components"]});
            Arc::new(jsonschema::validator_for(&schema).expect("a schema"))
        };
        let mut all = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
        let validator = Arc::clone(all.entry(key).or_insert_with(build));
        drop(all);
        let body = answer.json();
        let faults: Vec<String> =
            validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(faults.is_empty(), "{what}: {faults:#?}");
    }
}

/// Answers held against the document, and what was reached.
#[derive(Debug, Default)]
pub struct Held {
    /// Operations and statuses.
    pub reached: BTreeSet<(&'static str, u16)>,
    /// Answers that were held against it.
    pub answers: usize,
}

impl Held {
    /// Holds one answer against the document.
    pub fn take(&mut self, operation: &Operation, answer: &Answer) {
        hold(operation.method, operation.path, answer);
        self.reached.insert((operation.id, answer.status));
        self.answers += 1;
    }

    /// Asks, and holds the answer.
    pub async fn ask(
        &mut self,
        operation: &Operation,
        request: RequestBuilder,
        body: Option<&Value>,
    ) -> Answer {
        let answer = send(request, body).await;
        self.take(operation, &answer);
        answer
    }
}

/// The operation of that name.
pub fn named(id: &str) -> Operation {
    operations()
        .into_iter()
        .find(|operation| operation.id == id)
        .unwrap_or_else(|| panic!("no operation {id}"))
}

/// What the document promises, and what came of it.
#[derive(Debug)]
pub struct Coverage {
    /// All answers.
    pub held: Held,
    /// Operations and statuses that the document names.
    pub documented: BTreeSet<(&'static str, u16)>,
    /// Those that nobody can bring about: a defect of ours, and a database that is away for a route that asks it
    /// nothing.
    pub unreachable: BTreeSet<(&'static str, u16)>,
}

impl Coverage {
    /// Documented, and neither reached nor beyond reach.
    pub fn missing(&self) -> BTreeSet<(&'static str, u16)> {
        let open = self.documented.difference(&self.unreachable);
        open.filter(|it| !self.held.reached.contains(*it)).copied().collect()
    }
}
