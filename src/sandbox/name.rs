//! Keys and payment ids, held small: a ledger of millions stays in memory.
//!
//! **Promises**: two texts are equal exactly if their names are. **Why**: nearly every key is a UUID
//! or a UUID, a colon and an epoch; 24 bytes in place hold those without an allocation each.

use std::fmt;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// A key or a payment id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// `0190…-…`, in the form that a UUID is written.
    Plain(Uuid),
    /// The same, a colon, and a number as a number is written.
    Numbered(Uuid, u32),
    /// Anything else.
    Text(Box<str>),
}

impl Name {
    pub(super) fn of(text: &str) -> Self {
        Self::small(text).unwrap_or_else(|| Self::Text(text.into()))
    }

    fn small(text: &str) -> Option<Self> {
        let (head, rest) = text.split_at_checked(Hyphenated::LENGTH)?;
        let uuid = Uuid::try_parse(head).ok()?;
        let mut written = [0; Hyphenated::LENGTH];
        if uuid.hyphenated().encode_lower(&mut written) != head {
            return None;
        }
        if rest.is_empty() {
            return Some(Self::Plain(uuid));
        }
        let digits = rest.strip_prefix(':')?;
        let plain = digits == "0" || !digits.starts_with(['0', '+']);
        digits.parse().ok().filter(|_| plain).map(|number| Self::Numbered(uuid, number))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(uuid) => write!(f, "{uuid}"),
            Self::Numbered(uuid, number) => write!(f, "{uuid}:{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_text_again_whatever_form_it_takes() {
        let uuid = "0190163d-8694-739b-aea5-966c26f8ad91";
        let small = [uuid.to_owned(), format!("{uuid}:0"), format!("{uuid}:17")];
        for text in &small {
            assert!(!matches!(Name::of(text), Name::Text(_)), "{text}");
        }
        let other = [
            "",
            "k",
            "ключ-ключ-ключ-ключ-ключ",
            &uuid.to_uppercase(),
            &uuid.replace('-', ""),
            &format!("{uuid}:"),
            &format!("{uuid}:00"),
            &format!("{uuid}:01"),
            &format!("{uuid}:+1"),
            &format!("{uuid}:4294967296"),
            &format!("{uuid}:confirm:1"),
            &format!("{uuid}1"),
        ];
        for text in other.iter().copied().chain(small.iter().map(String::as_str)) {
            assert_eq!(Name::of(text).to_string(), text);
        }
        assert!(size_of::<Name>() <= 24);
    }
}
