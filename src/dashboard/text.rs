//! How times, amounts, ids and states are written on every page.
//!
//! **Promises.** Amounts and ids are texts that the server made: no script reads them as numbers and loses digits. A
//! time is absolute, with its zone, and how far away it is stands beside it. A state has a word and a shape besides
//! its colour. What comes from outside is escaped here before it is called [`Html`].

pub(super) use crate::story::{count, milliseconds};

use crate::domain::ids::PaymentId;
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::state::Status;
use crate::story::{distance, grouped};
use askama::Template;
use askama::filters::HtmlSafe;
use chrono::{DateTime, SecondsFormat, Utc};
use std::fmt;
use uuid::Uuid;

/// A piece of a page that is escaped already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    /// Made of nothing but our own words and numbers.
    pub(super) fn made(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Html {}

/// A template inside another; nothing if it cannot be written.
pub(super) fn written(template: &impl Template) -> Html {
    Html(template.render().unwrap_or_default())
}

/// A text from outside, for inside an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            '\'' => written.push_str("&#39;"),
            other => written.push(other),
        }
    }
    written
}

/// A dash for what is not there; it is read aloud as "none".
pub(super) fn nothing() -> Html {
    Html(
        "<span class=\"none\"><span aria-hidden=\"true\">–</span><span class=\"unseen\">none</span></span>"
            .to_owned(),
    )
}

/// An instant, by how far it is from `now`.
pub(super) fn when(at: DateTime<Utc>, now: DateTime<Utc>) -> Html {
    Html(format!("{} <span class=\"ago\">{}</span>", instant(at), distance(at, now)))
}

/// How far away an instant is, where the instant itself would only fill the page.
pub(super) fn ago(at: DateTime<Utc>, now: DateTime<Utc>) -> Html {
    let machine = at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    let written = at.format("%Y-%m-%d %H:%M:%S");
    Html(format!("<time datetime=\"{machine}\" title=\"{written} UTC\">{}</time>", distance(at, now)))
}

/// An instant by itself.
pub(super) fn instant(at: DateTime<Utc>) -> Html {
    let machine = at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    let (day, clock) = (at.format("%Y-%m-%d"), at.format("%H:%M:%S"));
    Html(format!(
        "<time datetime=\"{machine}\">{day} {clock} <abbr title=\"coordinated universal time\">UTC</abbr></time>"
    ))
}

/// A sentence in which commands stand between backticks, as a terminal is told it.
pub(super) fn sentence(text: &str) -> Html {
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        1 => format!("<code>{}</code>", escaped(part)),
        _ => escaped(part),
    });
    Html(parts.collect())
}

/// Minor units with the currency's own places: `1,234.50 EUR`.
pub(super) fn amount(minor: i64, currency: &str) -> Html {
    let known = Currency::from_code(currency).zip(Minor::new(minor.checked_abs().unwrap_or(i64::MAX)));
    let Some((currency, absolute)) = known else {
        // Zero, or a code that no table of ours has: its places are not known.
        let zero = if minor == 0 { "0".to_owned() } else { format!("{} minor units", count(minor)) };
        return Html(format!("<span class=\"amount\">{zero} {}</span>", escaped(currency)));
    };
    let major = Money { minor: absolute, currency }.to_major();
    let (whole, places) =
        major.split_once('.').map_or((major.as_str(), ""), |(whole, places)| (whole, places));
    let point = if places.is_empty() { "" } else { "." };
    let sign = if minor < 0 { "−" } else { "" };
    Html(format!("<span class=\"amount\">{sign}{}{point}{places} {currency}</span>", grouped(whole)))
}

/// A payment's id, which leads to its page.
pub(super) fn payment(id: PaymentId) -> Html {
    Html(format!("<a class=\"id\" href=\"/ui/payments/{id}\">{id}</a>"))
}

/// An id of something else.
pub(super) fn id(id: Uuid) -> Html {
    Html(format!("<code class=\"id\">{id}</code>"))
}

/// A state: its word, its colour, and a shape for those who do not see colours.
pub(super) fn status(status: Status) -> Html {
    let shape = match status {
        Status::Pending => "○",
        Status::Processing => "◐",
        Status::Unknown => "?",
        Status::Completed => "✓",
        Status::Failed => "✕",
        Status::Cancelled => "⊘",
        Status::Parked => "▮▮",
        Status::Refunded => "↩",
    };
    chip(&status.as_str().to_ascii_lowercase(), shape, status.as_str())
}

/// A word in the colour of `tone`, behind its shape.
pub(super) fn chip(tone: &str, shape: &str, word: &str) -> Html {
    let (tone, shape, word) = (escaped(tone), escaped(shape), escaped(word));
    Html(format!("<span class=\"chip {tone}\"><span aria-hidden=\"true\">{shape}</span> {word}</span>"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn amounts_have_the_places_of_their_currency_and_lose_no_digit() {
        for (minor, currency, text) in [
            (123_450, "EUR", "1,234.50 EUR"),
            (5, "EUR", "0.05 EUR"),
            (1_234_567, "JPY", "1,234,567 JPY"),
            (1_234, "KWD", "1.234 KWD"),
            (-123_450, "USD", "−1,234.50 USD"),
            (9_007_199_254_740_993, "EUR", "90,071,992,547,409.93 EUR"),
            (0, "EUR", "0 EUR"),
            (12, "<b>", "12 minor units &lt;b&gt;"),
        ] {
            assert_eq!(amount(minor, currency).0, format!("<span class=\"amount\">{text}</span>"));
        }
        assert_eq!((count(0), count(999), count(-1_000)), ("0".into(), "999".into(), "−1,000".into()));
    }

    #[test]
    fn a_time_is_absolute_with_its_zone_and_tells_how_far_away_it_is() {
        let now: DateTime<Utc> = "2026-11-30T21:14:45Z".parse().unwrap();
        let written = when(now - TimeDelta::minutes(3), now).0;
        assert!(written.contains("2026-11-30 21:11:45 <abbr") && written.contains(">UTC<"), "{written}");
        assert!(
            written.contains("datetime=\"2026-11-30T21:11:45Z\"") && written.contains("3 min ago"),
            "{written}"
        );
        for (seconds, text) in [
            (0, "now"),
            (45, "in 45 s"),
            (-61, "1 min ago"),
            (7_200, "in 2 h"),
            (7_500, "in 2 h 5 min"),
            (-86_400 * 12, "12 d ago"),
        ] {
            assert_eq!(distance(now + TimeDelta::seconds(seconds), now), text);
        }
    }

    #[test]
    fn what_comes_from_outside_is_escaped() {
        let written = chip("x", "y", "<script>'\"&").0;
        assert!(written.ends_with("&lt;script&gt;&#39;&quot;&amp;</span>"), "{written}");
    }

    #[test]
    fn every_state_has_a_shape_of_its_own() {
        let shapes: std::collections::BTreeSet<String> = Status::ALL
            .iter()
            .map(|each| {
                status(*each).0.split_once("\">").unwrap().1.split_once("</span>").unwrap().0.to_owned()
            })
            .collect();
        assert_eq!(shapes.len(), Status::ALL.len());
    }
}
