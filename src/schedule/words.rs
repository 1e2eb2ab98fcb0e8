//! The stored words of verdicts: what attempts and history say, and what people search for.

use super::proof::{Answer, How};
use crate::domain::reason::Reason;
use crate::domain::verdict::{Doubt, Verdict};

/// Longest note kept, in characters; the gateway side promises the same.
const NOTE_CHARS: usize = 500;
/// Longest code kept, in characters.
const CODE_CHARS: usize = 64;

/// The stored text of how it was come by.
pub(super) fn how(how: How) -> &'static str {
    match how {
        How::Sent => "sent",
        How::LookedUp => "looked_up",
        How::Voided => "void",
        How::NotStarted => "not_started",
    }
}

/// The gateway's code, or our own name of what stood in the way.
pub(super) fn code(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Declined(decline) => Some(plain(&decline.code, CODE_CHARS)),
        Verdict::NotSent { why, .. } => Some(why.as_str().to_owned()),
        Verdict::Unknown(why) => Some(doubt(*why).to_owned()),
        Verdict::Charged { .. }
        | Verdict::InProgress { .. }
        | Verdict::PendingAtGateway { .. }
        | Verdict::ContractViolation { .. }
        | Verdict::Voided => None,
    }
}

/// The note, as it can be stored.
pub(super) fn note(answer: &Answer) -> Option<String> {
    answer.note.as_deref().map(|note| plain(note, NOTE_CHARS))
}

/// The HTTP status, as it can be stored.
pub(super) fn http_status(answer: &Answer) -> Option<i16> {
    answer.http_status.and_then(|status| i16::try_from(status).ok())
}

/// Milliseconds the gateway took.
pub(super) fn took_ms(answer: &Answer) -> Option<i32> {
    answer.took.map(|took| i32::try_from(took.as_millis()).unwrap_or(i32::MAX))
}

/// What history tells of the answer: a JSON object; no secrets, no payee.
pub(super) fn detail(answer: &Answer, reason: Option<Reason>) -> String {
    let mut detail = serde_json::json!({"verdict": answer.verdict.as_str(), "how": how(answer.how)});
    if let Some(reason) = reason {
        detail["reason"] = reason.as_str().into();
    }
    if let Some(code) = code(&answer.verdict) {
        detail["code"] = code.into();
    }
    match &answer.verdict {
        Verdict::Charged { reference, amount } => {
            detail["reference"] = reference.as_str().into();
            detail["amountMinor"] = amount.minor.get().into();
            detail["currency"] = amount.currency.as_str().into();
        }
        Verdict::PendingAtGateway { reference: Some(reference) } => {
            detail["reference"] = reference.as_str().into();
        }
        Verdict::ContractViolation { what } => detail["what"] = plain(what, NOTE_CHARS).into(),
        Verdict::Declined(_)
        | Verdict::NotSent { .. }
        | Verdict::InProgress { .. }
        | Verdict::PendingAtGateway { reference: None }
        | Verdict::Unknown(_)
        | Verdict::Voided => {}
    }
    detail.to_string()
}

/// A gateway's text as Postgres can hold it: no NUL, which its text type refuses, and not longer than
/// `most` characters. An answer must not be lost for what it is called.
pub(super) fn plain(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}

pub(super) fn doubt(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::TimedOut => "timed_out",
        Doubt::ConnectionLost => "connection_lost",
        Doubt::ServerError => "server_error",
        Doubt::Unreadable => "unreadable",
        Doubt::NotTheGateway => "not_the_gateway",
        Doubt::KeyMismatch => "key_mismatch",
        Doubt::LeaseExpired => "lease_expired",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_postgres_refuses_or_that_is_too_long_is_made_storable() {
        assert_eq!(plain("a\0b", 10), "a\u{fffd}b");
        assert_eq!(plain("ääää", 2), "ää");
    }

    #[test]
    fn history_s_detail_is_one_json_object_with_the_reference_of_a_pending_charge() {
        let verdict = Verdict::PendingAtGateway { reference: Some("r\0 \"1\"".into()) };
        let text = detail(&Answer::silent(verdict, How::Sent), None);
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["reference"], "r\0 \"1\"");
        assert!(!text.contains('\0'));
    }
}
