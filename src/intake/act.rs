//! What an operator sends with an act: a small document that always has a reason.
//!
//! Read as strictly as a payment (unknown, doubled and missing fields are refused, and named by pointer),
//! from a derived shape, since these have lists and few fields. A name that came from outside is repeated
//! only where it cannot be a card number.

use super::actor::Caller;
use super::card::holds_card_number;
use super::limits;
use super::node::pointer;
use super::problem::{Code, Problem};
use crate::schedule::By;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_path_to_error::Segment;

/// Most characters of a reason.
const LONGEST_REASON: usize = 500;

/// Reads the body of a request that was authorised.
///
/// # Errors
/// 413, or 400 with the place of the first wrong shape.
pub(super) async fn read<T: DeserializeOwned>(
    body: axum::body::Body,
    parts: &axum::http::request::Parts,
) -> Result<T, Problem> {
    let arrival = parts.extensions.get::<limits::Arrival>().cloned().unwrap_or_default();
    of_bytes(&limits::read(body, &arrival).await?)
}

/// A field that may be missing and is not null.
pub(super) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn of_bytes<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| refusal(&error))?;
    reader.end().map_err(|error| malformed(&error))?;
    Ok(read)
}

fn malformed(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let why = format!("The body is not one JSON value in UTF-8 (line {line}, column {column}).");
    Problem::new(Code::MalformedJson).detail(why)
}

fn refusal(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let inner = error.inner();
    if !inner.is_data() {
        return malformed(inner);
    }
    let mut at = String::new();
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => at = format!("{at}/{index}"),
            Segment::Map { key } => at = pointer(&at, key),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    // Derived shapes say no more than these words; the name in them may be the client's own.
    let words = inner.to_string();
    let name = words.split('`').nth(1).unwrap_or_default();
    // The path ends with the name where the reader had come to it.
    let place = || {
        let last = pointer("", name);
        if at.ends_with(&last) { at.clone() } else { format!("{at}{last}") }
    };
    if words.starts_with("missing field") {
        return Problem::at(Code::MissingField, place(), format!("{name} is required."));
    }
    if words.starts_with("unknown field") {
        return Problem::at(Code::UnknownField, place(), "This field is not known.");
    }
    if words.starts_with("duplicate field") {
        return Problem::at(Code::DuplicateField, place(), "This field appears twice.");
    }
    Problem::at(Code::WrongType, at, Code::WrongType.doc())
}

/// The line that this act leaves behind: who, and why.
///
/// # Errors
/// 422 for a reason that says nothing, too much, or what may not be kept.
pub(super) fn by(caller: &Caller, reason: &str) -> Result<By, Problem> {
    let refused = |code, why: &'static str| Err(Problem::at(code, "/reason", why));
    if reason.trim().is_empty() {
        return refused(Code::Empty, "reason has at least one character.");
    }
    if reason.chars().count() > LONGEST_REASON {
        return refused(Code::TooLong, "reason has at most 500 characters.");
    }
    if reason.chars().any(char::is_control) {
        return refused(Code::InvalidCharacter, "reason holds no control characters, such as line breaks.");
    }
    if holds_card_number(reason) {
        return refused(Code::RawCardNumber, "This looks like a card number, which is not written down.");
    }
    Ok(By { operator: caller.operator.clone(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Body {
        reason: String,
        #[serde(rename = "scopes")]
        _scopes: Vec<String>,
        #[serde(rename = "overlapSeconds", default, deserialize_with = "present")]
        _overlap: Option<u32>,
    }

    #[test]
    fn the_first_wrong_shape_is_named_by_its_place() {
        for (body, code, at) in [
            ("", Code::MalformedJson, None),
            ("{} x", Code::MissingField, Some("/reason")),
            (r#"{"reason":"r","scopes":[]} x"#, Code::MalformedJson, None),
            (r#"{"reason":"r","scopes":["a",1]}"#, Code::WrongType, Some("/scopes/1")),
            (r#"{"reason":7,"scopes":[]}"#, Code::WrongType, Some("/reason")),
            (r#"{"reason":"r"}"#, Code::MissingField, Some("/scopes")),
            (r#"{"reason":"r","scopes":[],"overlapSeconds":-1}"#, Code::WrongType, Some("/overlapSeconds")),
            (r#"{"reason":"r","scopes":[],"overlapSeconds":null}"#, Code::WrongType, Some("/overlapSeconds")),
            (r#"{"reason":"r","reason":"r","scopes":[]}"#, Code::DuplicateField, Some("/reason")),
            (r#"{"reason":"r","scopes":[],"why":1}"#, Code::UnknownField, Some("/why")),
            ("[]", Code::WrongType, Some("")),
        ] {
            let problem = of_bytes::<Body>(body.as_bytes()).unwrap_err();
            let found = problem.errors.first().map(|error| error.pointer.as_str());
            assert_eq!((problem.code, found), (code, at), "{body}");
        }
        let good = of_bytes::<Body>(br#"{"reason":"r","scopes":["a"]}"#).unwrap();
        assert_eq!(good.reason, "r");
    }

    #[test]
    fn a_card_number_as_a_name_is_not_repeated() {
        let body = br#"{"4111111111111111":1}"#;
        let problem = of_bytes::<Body>(body).unwrap_err();
        let written = String::from_utf8(problem.write("/", "r")).unwrap();
        assert!(!written.contains("1111"), "{written}");
    }
}
