//! The query of a request: read strictly, one refusal at a time.
//!
//! An unknown parameter is refused and not ignored: a misspelt `stauts=PENDING` would list everything.
//! Refusals point at a parameter as `/name`, as if the query were one object, and repeat no value.

use super::openapi::{self, Place};
use super::problem::{Code, Problem};
use axum::extract::{MatchedPath, Query, Request};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Method and path of what takes no parameters. What takes some judges them itself, and the query of a gateway that
/// calls us is its own affair.
static TAKE_NONE: LazyLock<BTreeSet<(&str, &str)>> = LazyLock::new(|| {
    let takes_none = |operation: &openapi::Operation| {
        operation.scope.is_some() && operation.parameters.iter().all(|it| it.place != Place::Query)
    };
    let operations = openapi::operations().into_iter();
    operations.filter(takes_none).map(|operation| (operation.method, operation.path)).collect()
});

/// Refuses parameters where none are taken: `?dryRun=true` would otherwise cancel in earnest. For
/// `axum::middleware::from_fn`.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let is_asked = request.uri().query().is_some_and(|query| !query.is_empty());
    match path {
        Some(path) if is_asked && takes_none(request.method(), path) => {
            Problem::new(Code::UnknownParameter).detail("This path takes no parameters.").into_response()
        }
        Some(_) | None => next.run(request).await,
    }
}

fn takes_none(method: &Method, path: &str) -> bool {
    // The router answers HEAD as it answers GET, and a method that the path does not have by itself.
    let method = if method == Method::HEAD { "get" } else { &method.as_str().to_ascii_lowercase() };
    TAKE_NONE.contains(&(method, path))
}

/// The parameters in the order written, each name once; `take` judges each.
///
/// # Errors
/// 400, for the first parameter that is wrong.
pub(super) fn read(
    uri: &Uri,
    mut take: impl FnMut(&str, &str) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| Problem::new(Code::InvalidParameter).detail("The query is no list of name=value."))?;
    let mut seen = BTreeSet::new();
    for (name, value) in &pairs {
        take(name, value)?;
        if !seen.insert(name.as_str()) {
            return Err(at(name, Code::DuplicateParameter, "This parameter appears twice."));
        }
    }
    Ok(())
}

/// A refusal of one parameter.
pub(super) fn at(name: &str, code: Code, why: &'static str) -> Problem {
    Problem::at(code, format!("/{name}"), why)
}

/// A refusal of a name that a path does not know. It is named where it can be a name; other texts are not repeated,
/// since any may stand there.
pub(super) fn unknown(name: &str) -> Problem {
    let is_name = name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if is_name && !name.is_empty() {
        at(name, Code::UnknownParameter, "This path has no such parameter.")
    } else {
        Problem::new(Code::UnknownParameter)
    }
}

/// How many at most, from 1 to `most`.
///
/// # Errors
/// 400.
pub(super) fn limit(value: &str, most: usize) -> Result<usize, Problem> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let read = value.parse().ok().filter(|limit| digits && (1..=most).contains(limit));
    let detail = || format!("Expected a whole number from 1 to {most}.");
    read.ok_or_else(|| Problem::at(Code::InvalidParameter, "/limit", detail()))
}
