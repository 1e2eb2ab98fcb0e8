//! The query of a request: read strictly, one refusal at a time.
//!
//! An unknown parameter is refused and not ignored: a misspelt `stauts=PENDING` would list everything.
//! Refusals point at a parameter as `/name`, as if the query were one object, and repeat no value.

use super::problem::{Code, Problem};
use axum::extract::Query;
use axum::http::Uri;
use std::collections::BTreeSet;

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

/// A refusal of a name that a path does not know. Any text at all may stand there, so it is not repeated.
pub(super) fn unknown() -> Problem {
    Problem::new(Code::UnknownParameter)
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
