//! A JSON document kept exactly: order, repeated names, and whether a number was an integer.
//!
//! `serde_json::Value` forgets the first two and derived structs forget where they were, so that a
//! refusal could not point at the field. `10.0` and `1e3` are *not* integers here, although they
//! are whole numbers: a client that writes them computes in floating point, and its next amount
//! will be 10.1.
//!
//! Depth is bounded by the reader (128), size by the limit on the body.

use super::card::masked;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// One JSON value. No `Debug`: it may hold a payee.
pub(super) enum Node {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// Digits with an optional minus, within i64.
    Integer(i64),
    /// Any other number.
    OtherNumber,
    /// A string.
    Text(String),
    /// An array; nothing here takes one, so its items are not kept.
    List,
    /// Pairs in the order written, repeats included.
    Object(Vec<(String, Node)>),
}

/// The body was not one JSON value, or one that nobody reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotJson {
    why: &'static str,
    /// Both counted from 1.
    line: usize,
    column: usize,
}

impl NotJson {
    pub(super) fn of(error: &serde_json::Error) -> Self {
        // The library tells these apart in its sentence only.
        let said = error.to_string();
        let why = if said.starts_with("number out of range") {
            "A number in the body is beyond all that numbers here can be"
        } else if said.starts_with("recursion limit exceeded") {
            "The body is nested more than 127 deep"
        } else {
            "The body is not one JSON value in UTF-8"
        };
        Self { why, line: error.line(), column: error.column() }
    }

    /// What is wrong and where, as a sentence.
    pub(super) fn sentence(&self) -> String {
        format!("{} (line {}, column {}).", self.why, self.line, self.column)
    }
}

impl Node {
    /// Reads a whole body.
    pub(super) fn read(body: &[u8]) -> Result<Self, NotJson> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        let node = AnyNode.deserialize(&mut reader).map_err(|error| NotJson::of(&error))?;
        reader.end().map_err(|error| NotJson::of(&error))?;
        Ok(node)
    }

    /// What it is, for an error's sentence.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::OtherNumber => "a number with a fraction, an exponent or more than 64 bits",
            Self::Text(_) => "a string",
            Self::List => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// `/parent/name` with RFC 6901 escapes. A name that may be a card number is not repeated.
pub(super) fn pointer(parent: &str, name: &str) -> String {
    format!("{parent}/{}", masked(name).replace('~', "~0").replace('/', "~1"))
}

struct AnyNode;

impl<'de> DeserializeSeed<'de> for AnyNode {
    type Value = Node;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(i64::try_from(value).map_or(Node::OtherNumber, Node::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::OtherNumber)
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Node::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Node, A::Error> {
        let mut kept = Vec::new();
        while let Some(name) = pairs.next_key::<String>()? {
            kept.push((name, pairs.next_value_seed(Self)?));
        }
        Ok(Node::Object(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> &'static str {
        Node::read(text.as_bytes()).map_or("not JSON", |node| node.kind())
    }

    #[test]
    fn only_plain_digits_within_64_bits_are_integers() {
        for text in ["0", "10", "-5", "9223372036854775807", "-9223372036854775808", " 7 "] {
            assert_eq!(kind(text), "an integer", "{text}");
        }
        for text in
            ["10.0", "1e3", "1E+3", "0.1", "9223372036854775808", "18446744073709551616", "-0", "1e999999"]
        {
            assert_ne!(kind(text), "an integer", "{text}");
        }
        for text in ["01", "+1", ".5", "1.", "0x10", "1_000", "NaN", "Infinity"] {
            assert_eq!(kind(text), "not JSON", "{text}");
        }
    }

    #[test]
    fn repeated_names_and_their_order_are_kept() {
        let Ok(Node::Object(pairs)) = Node::read(br#"{"b":1,"a":"x","b":null}"#) else { panic!("no object") };
        let names: Vec<_> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "a", "b"]);
    }

    #[test]
    fn what_is_not_one_utf8_json_value_is_refused() {
        for body in
            [&b""[..], b"{", b"{}x", b"{}{}", b"\xef\xbb\xbf{}", b"\"\xff\"", br#""\ud800""#, b"'a'", b"[1,]"]
        {
            assert!(Node::read(body).is_err(), "{body:?}");
        }
        assert!(Node::read("[".repeat(10_000).as_bytes()).is_err());
        let deep = format!("{}1{}", "{\"a\":".repeat(1_000), "}".repeat(1_000));
        assert!(Node::read(deep.as_bytes()).is_err());
    }

    #[test]
    fn what_is_json_and_too_large_or_too_deep_is_told_apart() {
        let told =
            |body: &str| Node::read(body.as_bytes()).err().map(|why| why.sentence()).unwrap_or_default();
        for number in ["1e400".to_owned(), "1".repeat(400)] {
            assert!(told(&format!("{{\"amount\": {number}}}")).starts_with("A number"), "{number}");
        }
        assert!(told(&"{\"a\":".repeat(200)).starts_with("The body is nested"));
        assert_eq!(told("{"), "The body is not one JSON value in UTF-8 (line 1, column 1).");
    }

    #[test]
    fn pointers_escape_slash_and_tilde() {
        assert_eq!(pointer("/metadata", "a/b~c"), "/metadata/a~1b~0c");
        assert_eq!(pointer("/metadata", "4111/1111 4111-1111-1111-1111"), "/metadata/***");
    }
}
