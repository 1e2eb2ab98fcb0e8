//! The headers that decide: read strictly, each exactly once.

use super::card::key_holds_card_number;
use super::envelope::Traced;
use super::problem::{Code, Problem};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, IF_NONE_MATCH};
use axum::http::request::Parts;

/// `Idempotency-Key`.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// `Request-Id`, in and out.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// `Last-Event-ID`, in.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// `Idempotent-Replayed`, out.
pub(super) const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The only value of a header, as bytes; `None` if it is absent, `Err` if it is there twice.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, ()> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.as_bytes());
    if values.next().is_some() { Err(()) } else { Ok(first) }
}

/// Reads the idempotency key: 1–255 visible ASCII characters, bare or as an RFC 8941 string; both
/// spellings name the same key.
///
/// # Errors
/// 400, for a key that is missing, empty, too long, there twice or of other characters; 422 for one
/// that holds a card number, since it would be stored.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<String, Problem> {
    let invalid = |why: &'static str| Problem::new(Code::InvalidIdempotencyKey).detail(why);
    let value = only(headers, &IDEMPOTENCY_KEY)
        .map_err(|()| invalid("The header Idempotency-Key appears more than once."))?
        .ok_or_else(|| Problem::new(Code::MissingIdempotencyKey))?;
    key_as_written(value)
}

const VISIBLE: &str = "The key has visible ASCII characters only.";

/// The same reading of a key that stands elsewhere, so that no two spellings of one key make two payments.
///
/// # Errors
/// As [`idempotency_key`].
pub(super) fn key_as_written(text: &[u8]) -> Result<String, Problem> {
    let invalid = |why: &'static str| Problem::new(Code::InvalidIdempotencyKey).detail(why);
    let key = match text {
        [b'"', inner @ ..] => {
            unquote(inner).ok_or_else(|| invalid("The quoted key is not an RFC 8941 string."))?
        }
        bare => bare.to_vec(),
    };
    let key = String::from_utf8(key).map_err(|_| invalid(VISIBLE))?;
    if !(1..=255).contains(&key.len()) {
        return Err(invalid("The key has 1 to 255 characters."));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid(VISIBLE));
    }
    if key_holds_card_number(&key) {
        let why = "The Idempotency-Key looks like a card number; make a key of something else.";
        return Err(Problem::new(Code::RawCardNumber).detail(why));
    }
    Ok(key)
}

/// What stands before the closing quote, which must be the end (RFC 8941 §3.3.3).
fn unquote(inner: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(inner.len());
    let mut rest = inner.iter();
    loop {
        match rest.next()? {
            b'"' => break,
            b'\\' => match rest.next()? {
                escaped @ (b'"' | b'\\') => key.push(*escaped),
                _ => return None,
            },
            plain => key.push(*plain),
        }
    }
    rest.next().is_none().then_some(key)
}

/// The body must be JSON in UTF-8, not compressed.
///
/// # Errors
/// 415.
pub(super) fn json_body(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = || Problem::new(Code::UnsupportedMediaType);
    let value = only(headers, &CONTENT_TYPE).map_err(|()| refused())?.ok_or_else(refused)?;
    let text = std::str::from_utf8(value).map_err(|_| refused())?;
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let utf8 = parts.filter(|part| !part.is_empty()).all(|part| {
        part.split_once('=').is_some_and(|(name, value)| {
            !name.trim().eq_ignore_ascii_case("charset")
                || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
    });
    let plain = only(headers, &CONTENT_ENCODING)
        .is_ok_and(|coding| coding.is_none_or(|coding| coding.eq_ignore_ascii_case(b"identity")));
    if essence.eq_ignore_ascii_case("application/json") && utf8 && plain { Ok(()) } else { Err(refused()) }
}

/// The client must take JSON, if it says what it takes.
///
/// # Errors
/// 406.
pub(super) fn accepts_json(headers: &HeaderMap) -> Result<(), Problem> {
    accepts(headers, ["application/json", "application/*"])
}

/// The client must take a stream of events, if it says what it takes.
///
/// # Errors
/// 406.
pub(super) fn accepts_stream(headers: &HeaderMap) -> Result<(), Problem> {
    let why = "This is a stream of events: the header Accept must allow text/event-stream.";
    accepts(headers, ["text/event-stream", "text/*"]).map_err(|problem| problem.detail(why))
}

fn accepts(headers: &HeaderMap, [whole, family]: [&str; 2]) -> Result<(), Problem> {
    let mut said = false;
    for value in headers.get_all(ACCEPT) {
        said = true;
        for range in value.as_bytes().split(|byte| *byte == b',') {
            let text = String::from_utf8_lossy(range);
            let mut parts = text.split(';').map(str::trim);
            let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
            let refused = parts
                .any(|part| part.strip_prefix("q=").is_some_and(|q| q.trim_matches(['0', '.']).is_empty()));
            if !refused && (essence == whole || essence == family || essence == "*/*") {
                return Ok(());
            }
        }
    }
    if said { Err(Problem::new(Code::NotAcceptable)) } else { Ok(()) }
}

/// Does `If-None-Match` hold this tag? Compared weakly (RFC 9110 §13.1.2).
pub(super) fn matches_tag(headers: &HeaderMap, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().strip_prefix("W/").unwrap_or(tag.trim()).to_owned();
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|candidate| candidate.trim() == "*" || opaque(candidate) == opaque(tag))
}

/// The caller's request id, if it is a sane one: 1–64 letters, digits, dots, hyphens, underscores, and
/// no card number, since it is logged.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    let value = only(headers, &REQUEST_ID).ok()??;
    let sane = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let fits = (1..=64).contains(&value.len()) && value.iter().all(sane);
    fits.then(|| String::from_utf8_lossy(value).into_owned()).filter(|id| !key_holds_card_number(id))
}

/// The caller's trace context, if it is a valid one of version 00 (W3C Trace Context §3.2).
pub(super) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let value = only(headers, &HeaderName::from_static("traceparent")).ok()??;
    let text = std::str::from_utf8(value).ok()?;
    let mut parts = text.split('-');
    let hex = |part: Option<&str>, length: usize| {
        let part = part?;
        let lower_hex = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (part.len() == length && lower_hex).then(|| part.bytes().any(|byte| byte != b'0'))
    };
    let version = parts.next()? == "00";
    let ids = hex(parts.next(), 32)? && hex(parts.next(), 16)?;
    hex(parts.next(), 2)?;
    (version && ids && parts.next().is_none()).then(|| text.to_owned())
}

/// What a payment stores: the trace of its own request, where that is traced, or else its caller's.
pub(super) fn trace_context(parts: &Parts) -> Option<String> {
    let own = parts.extensions.get::<Traced>().map(|own| own.0.clone());
    own.or_else(|| traceparent(&parts.headers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn a_key_may_be_bare_or_quoted_and_both_are_the_same_key() {
        let longest = "k".repeat(255);
        for (value, key) in [
            ("abc", "abc"),
            ("\"abc\"", "abc"),
            ("\"a\\\"b\\\\c\"", "a\"b\\c"),
            ("a\"b\\c", "a\"b\\c"),
            ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
            ("!~", "!~"),
            (longest.as_str(), longest.as_str()),
        ] {
            assert_eq!(idempotency_key(&with(&IDEMPOTENCY_KEY, &[value])).unwrap(), key, "{value}");
        }
        let quoted = format!("\"{longest}\"");
        assert_eq!(idempotency_key(&with(&IDEMPOTENCY_KEY, &[&quoted])).unwrap(), longest);
    }

    #[test]
    fn every_other_key_is_refused() {
        let long = "k".repeat(256);
        let long_quoted = format!("\"{long}\"");
        for value in [
            "",
            "\"\"",
            "\"",
            "\"abc",
            "\"abc\"x",
            "\"abc\";a=1",
            "\"a\\bc\"",
            "a b",
            "\"a b\"",
            "schlüssel",
            "a\tb",
            &long,
            &long_quoted,
        ] {
            let problem = idempotency_key(&with(&IDEMPOTENCY_KEY, &[value])).unwrap_err();
            assert_eq!(problem.code, Code::InvalidIdempotencyKey, "{value}");
        }
        for key in ["4111111111111111", "4111-1111-1111-1111", "\"pay.4111.1111.1111.1111\""] {
            let problem = idempotency_key(&with(&IDEMPOTENCY_KEY, &[key])).unwrap_err();
            assert_eq!((problem.code, problem.code.http()), (Code::RawCardNumber, 422), "{key}");
            let written = String::from_utf8(problem.write("/", "r")).unwrap();
            assert!(!written.contains("1111"), "{written}");
        }
        let twice = idempotency_key(&with(&IDEMPOTENCY_KEY, &["a", "a"])).unwrap_err();
        assert_eq!(twice.code, Code::InvalidIdempotencyKey);
        let missing = idempotency_key(&HeaderMap::new()).unwrap_err();
        assert_eq!((missing.code, missing.code.http()), (Code::MissingIdempotencyKey, 400));
    }

    #[test]
    fn only_plain_json_in_utf8_is_taken() {
        for value in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
        ] {
            assert!(json_body(&with(&CONTENT_TYPE, &[value])).is_ok(), "{value}");
        }
        for value in [
            "",
            "text/json",
            "application/json, text/plain",
            "application/jsonx",
            "application/json; charset=latin1",
            "application/x-www-form-urlencoded",
            "application/json; nonsense",
        ] {
            assert_eq!(json_body(&with(&CONTENT_TYPE, &[value])).unwrap_err().code.http(), 415, "{value}");
        }
        assert!(json_body(&HeaderMap::new()).is_err());
        let mut zipped = with(&CONTENT_TYPE, &["application/json"]);
        zipped.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(json_body(&zipped).is_err());
        zipped.insert(CONTENT_ENCODING, HeaderValue::from_static("identity"));
        assert!(json_body(&zipped).is_ok());
    }

    #[test]
    fn a_client_that_takes_no_json_is_told_so() {
        for values in [
            &["*/*"][..],
            &["application/json"],
            &["text/html, application/json;q=0.5"],
            &["text/html", "application/*"],
        ] {
            assert!(accepts_json(&with(&ACCEPT, values)).is_ok(), "{values:?}");
        }
        assert!(accepts_json(&HeaderMap::new()).is_ok());
        for values in
            [&["text/html"][..], &["application/json;q=0"], &["application/json;q=0.0, text/*"], &[""]]
        {
            assert_eq!(accepts_json(&with(&ACCEPT, values)).unwrap_err().code.http(), 406, "{values:?}");
        }
    }

    #[test]
    fn tags_are_compared_weakly_and_in_lists() {
        for value in ["W/\"3\"", "\"3\"", "*", "\"1\", W/\"3\"", "\"1\",\"3\""] {
            assert!(matches_tag(&with(&IF_NONE_MATCH, &[value]), "W/\"3\""), "{value}");
        }
        for value in ["W/\"4\"", "3", "", "\"33\""] {
            assert!(!matches_tag(&with(&IF_NONE_MATCH, &[value]), "W/\"3\""), "{value}");
        }
    }

    #[test]
    fn a_request_id_is_taken_only_if_it_is_sane() {
        assert_eq!(request_id(&with(&REQUEST_ID, &["req_1.A-b"])).as_deref(), Some("req_1.A-b"));
        for value in ["", "a b", "<script>", "a\nb".trim_end_matches("\nb"), &"x".repeat(65)] {
            let taken = request_id(&with(&REQUEST_ID, &[value]));
            assert_eq!(taken.is_some(), value == "a", "{value}");
        }
        assert_eq!(request_id(&with(&REQUEST_ID, &["a", "b"])), None);
        assert_eq!(request_id(&with(&REQUEST_ID, &["4111-1111-1111-1111"])), None);
    }

    #[test]
    fn a_broken_trace_context_is_left_out() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let name = HeaderName::from_static("traceparent");
        assert_eq!(traceparent(&with(&name, &[good])).as_deref(), Some(good));
        for bad in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert_eq!(traceparent(&with(&name, &[bad])), None, "{bad}");
        }
    }
}
