//! What people send: small JSON bodies and short queries, read as strictly as a payment is.
//!
//! Unknown and repeated names are refused, since a misspelt condition would otherwise widen an act, and every text
//! is looked through for card numbers. One refusal at a time, with the place. An act's body has a `reason`,
//! always: it is kept for good, in the payment's history and in the operators' audit.

use super::card::holds_card_number;
use super::cursor::{self, Binding};
use super::instant::Instant;
use super::node::{Node, NotJson, pointer};
use super::problem::{Code, Problem};
use super::{Caller, Intake, Scope, filters, headers, limits, parameters, wire};
use crate::domain::ids::PaymentId;
use crate::schedule::{Place, Postgres};
use axum::body::Body;
use axum::extract::Query;
use axum::http::{HeaderMap, Request, Uri};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Longest reason, in characters.
const REASON_CHARS: usize = 500;
/// Longest name that a gateway gives, in characters.
const REFERENCE_CHARS: usize = 255;
/// Most entries of one page.
const MOST_LIMIT: usize = 200;

/// One JSON object of known fields, taken apart one by one.
pub(crate) struct Form {
    at: String,
    fields: BTreeMap<String, Node>,
}

impl Form {
    /// Reads a body.
    ///
    /// # Errors
    /// 400, for what is no object of these fields.
    pub(crate) fn read(body: &[u8], known: &[&str]) -> Result<Self, Problem> {
        let malformed = |not_json: NotJson| Problem::new(Code::MalformedJson).detail(not_json.sentence());
        let document = Node::read(body).map_err(malformed)?;
        Self::of(String::new(), document, known)
    }

    fn of(at: String, node: Node, known: &[&str]) -> Result<Self, Problem> {
        let mut fields = BTreeMap::new();
        for (name, node) in wire::object(&at, node)? {
            if !known.contains(&name.as_str()) {
                return Err(wire::unknown(pointer(&at, &name)));
            }
            fields.insert(name, node);
        }
        Ok(Self { at, fields })
    }

    /// Where a field is.
    pub(crate) fn pointer(&self, name: &str) -> String {
        pointer(&self.at, name)
    }

    /// A refusal of a field that must be there.
    pub(crate) fn missing(&self, name: &str) -> Problem {
        Problem::at(Code::MissingField, self.pointer(name), format!("{name} is required."))
    }

    /// The act's reason.
    ///
    /// # Errors
    /// 400 without one, 422 for one that cannot be kept.
    pub(crate) fn reason(&mut self) -> Result<String, Problem> {
        self.text("reason", REASON_CHARS)?.ok_or_else(|| self.missing("reason"))
    }

    /// A text of 1 to `most` characters on one line.
    ///
    /// # Errors
    /// 400 for another type, 422 for another text.
    pub(crate) fn text(&mut self, name: &str, most: usize) -> Result<Option<String>, Problem> {
        let Some(node) = self.fields.remove(name) else { return Ok(None) };
        let at = self.pointer(name);
        let text = wire::text(at.clone(), node)?;
        if text.trim().is_empty() {
            return Err(Problem::at(Code::Empty, at, Code::Empty.doc()));
        }
        if text.chars().count() > most {
            return Err(Problem::at(Code::TooLong, at, format!("At most {most} characters.")));
        }
        if text.chars().any(char::is_control) {
            return Err(Problem::at(
                Code::InvalidCharacter,
                at,
                "No control characters, such as line breaks.",
            ));
        }
        if holds_card_number(&text) {
            return Err(Problem::at(Code::RawCardNumber, at, "Digits that may be a card number."));
        }
        Ok(Some(text))
    }

    /// What a gateway calls one of its charges: 1 to 255 visible ASCII characters, as in its own answers. A space
    /// at its end would make two charges of one.
    ///
    /// # Errors
    /// 400 for another type, 422 for another text.
    pub(crate) fn reference(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let text = self.text(name, REFERENCE_CHARS)?;
        if text.as_ref().is_some_and(|text| !text.bytes().all(|byte| byte.is_ascii_graphic())) {
            let wrong = "Visible ASCII characters only, without spaces.";
            return Err(Problem::at(Code::InvalidCharacter, self.pointer(name), wrong));
        }
        Ok(text)
    }

    /// A whole number.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(crate) fn integer(&mut self, name: &str) -> Result<Option<i64>, Problem> {
        let at = self.pointer(name);
        self.fields.remove(name).map(|node| wire::integer(at, &node)).transpose()
    }

    /// A time with its offset.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(crate) fn time(&mut self, name: &str) -> Result<Option<DateTime<Utc>>, Problem> {
        let at = self.pointer(name);
        let invalid =
            || Problem::at(Code::InvalidTime, at.clone(), "Expected an RFC 3339 time with an offset.");
        let Some(node) = self.fields.remove(name) else { return Ok(None) };
        let text = wire::text(at.clone(), node)?;
        Instant::read(&text).and_then(Instant::rounded_up).map(Some).ok_or_else(invalid)
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, Problem> {
        match self.fields.remove(name) {
            None => Ok(None),
            Some(Node::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wire::wrong(self.pointer(name), "a boolean", &other)),
        }
    }

    /// An object of its own fields.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(crate) fn form(&mut self, name: &str, known: &[&str]) -> Result<Option<Self>, Problem> {
        let at = self.pointer(name);
        self.fields.remove(name).map(|node| Self::of(at, node, known)).transpose()
    }
}

/// The parameters of a query, each once.
pub(crate) struct Pairs(BTreeMap<String, String>);

impl Pairs {
    /// Reads a query.
    ///
    /// # Errors
    /// 400, for what is no list of these parameters.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| {
            Problem::new(Code::InvalidParameter).detail("The query is no list of name=value.")
        })?;
        let mut kept = BTreeMap::new();
        for (name, value) in pairs {
            if !known.contains(&name.as_str()) {
                let detail = format!("This list takes {}.", known.join(", "));
                return Err(parameters::unknown(&name).detail(detail));
            }
            if kept.contains_key(&name) {
                return Err(parameters::at(&name, Code::DuplicateParameter, "This parameter appears twice."));
            }
            kept.insert(name, value);
        }
        Ok(Self(kept))
    }

    /// The parameter's text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The parameter as its type reads it.
    ///
    /// # Errors
    /// 400, saying `wanted`.
    pub(crate) fn read_as<T>(
        &self,
        name: &str,
        wanted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let refused = || parameters::at(name, Code::InvalidParameter, wanted);
        self.text(name).map(|text| read(text).ok_or_else(refused)).transpose()
    }

    /// A time.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(crate) fn time(&self, name: &str) -> Result<Option<DateTime<Utc>>, Problem> {
        self.text(name).map(|text| filters::time(name, text)).transpose()
    }

    /// `limit`, 1 to 200; 50 where the query does not say.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        self.text("limit").map_or(Ok(50), |text| parameters::limit(text, MOST_LIMIT))
    }
}

impl Intake {
    /// Who acts, and what they sent: how every act of a person begins.
    ///
    /// # Errors
    /// 400, 401, 403, 406, 413, 415, 422, or 503 if the database cannot be asked.
    pub(crate) async fn act(
        &self,
        request: Request<Body>,
        scope: Scope,
        known: &[&str],
    ) -> Result<(Caller, Form), Problem> {
        let (parts, body) = request.into_parts();
        let caller = self.authorise(&parts.headers, scope).await?;
        headers::accepts_json(&parts.headers)?;
        headers::json_body(&parts.headers)?;
        let arrival = parts.extensions.get::<limits::Arrival>().cloned().unwrap_or_default();
        let body = limits::read(body, &arrival).await?;
        Ok((caller, Form::read(&body, known)?))
    }

    /// Who looks: how every look of a person begins.
    ///
    /// # Errors
    /// 401, 403, 406, or 503 if the database cannot be asked.
    pub(crate) async fn look(&self, sent: &HeaderMap, scope: Scope) -> Result<Caller, Problem> {
        let caller = self.authorise(sent, scope).await?;
        headers::accepts_json(sent)?;
        Ok(caller)
    }

    /// The schedule behind it.
    pub(crate) fn schedule(&self) -> &Postgres {
        &self.schedule
    }

    /// A random id (UUID version 4).
    pub(crate) fn fresh_id(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.dice.bits().to_be_bytes()).into_uuid()
    }

    /// A cursor that leads on behind `payment`, for this caller and these filters alone.
    pub(crate) fn seal(&self, caller: &Caller, query: &str, payment: PaymentId) -> String {
        let binding = Binding { secret: self.schedule.installation_secret(), actor: caller.actor.id, query };
        cursor::write(binding, Place { at: DateTime::UNIX_EPOCH, payment })
    }

    /// Where a cursor leads.
    ///
    /// # Errors
    /// 400 for one of another caller or other filters.
    pub(crate) fn unseal(&self, caller: &Caller, query: &str, text: &str) -> Result<PaymentId, Problem> {
        let binding = Binding { secret: self.schedule.installation_secret(), actor: caller.actor.id, query };
        let place = cursor::read(binding, text);
        let place =
            place.ok_or_else(|| Problem::at(Code::InvalidCursor, "/cursor", Code::InvalidCursor.doc()))?;
        Ok(place.payment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> (Code, String) {
        let read = Form::read(body.as_bytes(), &["reason", "on", "evidence"]).and_then(|mut form| {
            form.reason()?;
            form.flag("on")?;
            if let Some(mut evidence) = form.form("evidence", &["amount", "note"])? {
                evidence.integer("amount")?;
                evidence.text("note", 3)?;
            }
            Ok(())
        });
        let problem = read.expect_err(body);
        let at = problem.errors.first().map(|error| error.pointer.clone()).unwrap_or_default();
        (problem.code, at)
    }

    #[test]
    fn every_wrong_field_of_an_act_is_refused_at_its_place() {
        let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(501));
        for (body, code, at) in [
            ("", Code::MalformedJson, ""),
            ("[]", Code::WrongType, ""),
            ("{}", Code::MissingField, "/reason"),
            (r#"{"reason":"a","raeson":"b"}"#, Code::UnknownField, "/raeson"),
            (r#"{"reason":"a","reason":"b"}"#, Code::DuplicateField, "/reason"),
            (r#"{"reason":7}"#, Code::WrongType, "/reason"),
            (r#"{"reason":null}"#, Code::WrongType, "/reason"),
            (r#"{"reason":"  "}"#, Code::Empty, "/reason"),
            (&long, Code::TooLong, "/reason"),
            (r#"{"reason":"a\nb"}"#, Code::InvalidCharacter, "/reason"),
            (r#"{"reason":"4111 1111 1111 1111"}"#, Code::RawCardNumber, "/reason"),
            (r#"{"reason":"a","on":"yes"}"#, Code::WrongType, "/on"),
            (r#"{"reason":"a","evidence":[]}"#, Code::WrongType, "/evidence"),
            (r#"{"reason":"a","evidence":{"amuont":1}}"#, Code::UnknownField, "/evidence/amuont"),
            (r#"{"reason":"a","evidence":{"amount":1.5}}"#, Code::WrongType, "/evidence/amount"),
            (r#"{"reason":"a","evidence":{"note":"long"}}"#, Code::TooLong, "/evidence/note"),
        ] {
            assert_eq!(refusal(body), (code, at.to_owned()), "{body}");
        }
    }

    #[test]
    fn a_query_takes_what_is_known_once() {
        let read = |query: &str| {
            Pairs::read(&format!("/x?{query}").parse().unwrap(), &["reason", "limit", "dueFrom"])
        };
        let pairs = read("reason=a%20b&limit=7&dueFrom=2030-01-01T00:00:00Z").unwrap();
        assert_eq!((pairs.text("reason"), pairs.limit().unwrap()), (Some("a b"), 7));
        assert!(pairs.time("dueFrom").unwrap().is_some());
        assert_eq!(read("").unwrap().limit().unwrap(), 50);
        for (query, code) in [
            ("raeson=a", Code::UnknownParameter),
            ("reason=a&reason=b", Code::DuplicateParameter),
            ("limit=0", Code::InvalidParameter),
            ("dueFrom=yesterday", Code::InvalidTime),
        ] {
            let refused = read(query).and_then(|pairs| pairs.limit().and(pairs.time("dueFrom")));
            assert_eq!(refused.expect_err(query).code, code, "{query}");
        }
    }
}
