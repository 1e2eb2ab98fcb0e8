//! Finds card numbers where none may be (rule of the REST interface: never stored, never logged).
//!
//! A card number is 13 to 19 digits that pass the Luhn check (ISO/IEC 7812-1), with up to three
//! spaces, hyphens or dots between groups. Every run of whole digit groups is tried, so a number followed by
//! an expiry date is found as well; parts of one unbroken group are not, because nearly every long
//! number has some window that passes.
//!
//! UUIDs and digests in hexadecimal are passed over, wherever they stand.
//!
//! The price: one random number in ten passes the check. A client whose own order numbers have 13
//! to 19 digits and nothing else will see some refused, and puts a letter among the digits.
//!
//! Keys ([`key_holds_card_number`]) are judged with a sharper eye, because good keys are made of dates,
//! instants and counters, and a program whose key is refused cannot choose another: there a number
//! must also begin as payment cards do and be written as they are.
//!
//! What may be a card number is not repeated either, in an answer or in the log: see [`masked`].

use std::borrow::Cow;
use uuid::Uuid;

/// Most separators between two groups of one number.
const WIDEST_GAP: u32 = 3;

/// Stands for what is not repeated.
const MASK: &str = "***";

/// Says whether a text holds what may be a card number. Full-width digits count as digits.
pub(super) fn holds_card_number(text: &str) -> bool {
    holds(text, |_| true)
}

/// The same of an idempotency key or a request's id: a run of groups counts only if it begins with the
/// first digits of payment cards (Mastercard and Mir 22 to 27, others 3 to 6; instants in milliseconds
/// begin with 1, dates with 20) and is unbroken or grouped as on a card.
pub(super) fn key_holds_card_number(key: &str) -> bool {
    holds(key, |groups| {
        let begins = matches!(groups[0][..], [2, 2..=7, ..] | [3..=6, ..]);
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        begins && matches!(sizes[..], [_] | [4, 6, 4 | 5] | [4, 4, 4, 1..=4] | [4, 4, 4, 4, 1..=3])
    })
}

/// A name as it may be repeated.
pub(super) fn masked(name: &str) -> &str {
    if holds_card_number(name) { MASK } else { name }
}

/// The path of a request as it may be repeated, segment by segment, also where it is percent-encoded.
pub(super) fn masked_path(path: &str) -> Cow<'_, str> {
    let shows = |segment: &str| holds_card_number(&decoded(segment));
    if !path.split('/').any(shows) {
        return path.into();
    }
    let masked: Vec<&str> =
        path.split('/').map(|segment| if shows(segment) { MASK } else { segment }).collect();
    masked.join("/").into()
}

/// `%31` is 1, and `+` may stand for a space.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(|two| hex::decode(two).ok());
        rest = if escaped.is_some() { &after[2..] } else { after };
        let plain = if *first == b'+' { b' ' } else { *first };
        bytes.extend(escaped.unwrap_or_else(|| vec![plain]));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text with a letter in the place of every UUID and digest: one random UUID in some hundred has a
/// stretch of digits that passes the check.
fn without_ids(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let id = if is_uuid(rest) {
            36
        } else if is_digest(&rest[..word]) {
            word
        } else {
            0
        };
        // Otherwise the word goes on to the separator behind it, which belongs to no id.
        let end = word + rest[word..].chars().next().map_or(0, char::len_utf8);
        kept.push_str(if id > 0 { "x" } else { &rest[..end] });
        rest = &rest[if id > 0 { id } else { end }..];
    }
    kept
}

/// Does it begin with a whole UUID in the usual form?
fn is_uuid(text: &str) -> bool {
    let ends = |after: &str| !after.starts_with(|c: char| c.is_ascii_alphanumeric());
    text.split_at_checked(36).is_some_and(|(id, after)| ends(after) && Uuid::try_parse(id).is_ok())
}

/// 128, 160, 256 or 512 bits in hexadecimal, with a letter among them as nearly all have.
fn is_digest(word: &str) -> bool {
    matches!(word.len(), 32 | 40 | 64 | 128)
        && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn holds(text: &str, looks_like_one: impl Fn(&[Vec<u8>]) -> bool) -> bool {
    let text = without_ids(text);
    // The digit groups of the current stretch; it ends where two groups are too far apart.
    let mut stretch: Vec<Vec<u8>> = Vec::new();
    let mut gap = WIDEST_GAP + 1;
    for character in text.chars() {
        match digit(character) {
            Some(digit) => {
                match stretch.last_mut() {
                    Some(group) if gap == 0 => group.push(digit),
                    Some(_) if gap <= WIDEST_GAP => stretch.push(vec![digit]),
                    Some(_) | None => stretch = vec![vec![digit]],
                }
                gap = 0;
            }
            // Seen by nobody, so it parts nothing.
            None if is_invisible(character) => {}
            None if gap == 0 && ends_with_card_number(&stretch, &looks_like_one) => return true,
            None => gap = if is_separator(character) { gap.saturating_add(1) } else { WIDEST_GAP + 1 },
        }
    }
    gap == 0 && ends_with_card_number(&stretch, looks_like_one)
}

/// Tried at the end of each group: does any run of groups that ends here make a card number?
fn ends_with_card_number(stretch: &[Vec<u8>], looks_like_one: impl Fn(&[Vec<u8>]) -> bool) -> bool {
    let mut digits = 0;
    for start in (0..stretch.len()).rev() {
        digits += stretch[start].len();
        if digits > 19 {
            return false;
        }
        let run = &stretch[start..];
        if digits >= 13 && luhn(run.iter().flatten().copied()) && looks_like_one(run) {
            return true;
        }
    }
    false
}

fn digit(character: char) -> Option<u8> {
    let value = match character {
        '0'..='9' => u32::from(character) - u32::from('0'),
        '\u{ff10}'..='\u{ff19}' => u32::from(character) - 0xff10,
        _ => return None,
    };
    u8::try_from(value).ok()
}

fn is_separator(character: char) -> bool {
    character.is_whitespace() || matches!(character, '-' | '.' | '\u{2010}'..='\u{2015}' | '\u{2212}')
}

/// Characters without width, and those that only say in which direction text runs.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn luhn(digits: impl DoubleEndedIterator<Item = u8>) -> bool {
    let sum: u32 = digits
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, u32::from(digit)) {
            (0, digit) => digit,
            (_, digit @ 0..=4) => digit * 2,
            (_, digit) => digit * 2 - 9,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that the card schemes publish for tests.
    const CARDS: [&str; 9] = [
        "4222222222222",
        "378282246310005",
        "30569309025904",
        "4111111111111111",
        "4242424242424242",
        "5555555555554444",
        "6011111111111117",
        "3530111333300000",
        "4000000000000000006",
    ];

    #[test]
    fn a_card_number_is_found_however_it_is_written() {
        for card in CARDS {
            let grouped: Vec<String> =
                card.as_bytes().chunks(4).map(|four| String::from_utf8(four.to_vec()).unwrap()).collect();
            let wide: String =
                card.chars().map(|c| char::from_u32(c as u32 - '0' as u32 + 0xff10).unwrap()).collect();
            let spread: String = card.chars().flat_map(|c| [c, ' ']).collect();
            for text in [
                card.to_owned(),
                grouped.join(" "),
                grouped.join("-"),
                grouped.join("\u{a0}"),
                grouped.join("\u{2011}"),
                grouped.join("."),
                grouped.join("\u{200b}"),
                grouped.join("\u{2066} \u{feff}"),
                grouped.join(" - "),
                format!("card:{card}."),
                format!("x{card}x"),
                format!("{} 12/30 123", grouped.join(" ")),
                format!("{card} 1230"),
                format!("order 77, {card}"),
                wide,
                spread,
            ] {
                assert!(holds_card_number(&text), "{text}");
            }
        }
    }

    #[test]
    fn other_numbers_pass() {
        for text in [
            "",
            "acct_1234567890",
            "4111111111111112",
            "411111111111",
            "41111111 x 11111111",
            "4111    1111    1111    1111",
            "00000000000000000000000000000000",
            "2030-01-31T09:00:00Z",
            "pm_4111a1111a1111a1111",
            "018cc251-f400-8abc-9def-0123456789ab",
            "DE89370400440532013000",
            // Ids with digits that pass the check.
            "41111111-1111-1111-a000-000000000000",
            "run 41111111-1111-1111-a000-000000000000, again",
            "4111111111111111aaaaaaaaaaaaaaaa",
        ] {
            assert!(!holds_card_number(text), "{text}");
        }
        // Nearly such ids.
        for text in
            ["x41111111-1111-1111-a000-000000000000", "4111111111111111aaaaaaaaaaaaaaa", "4111111111111111-a"]
        {
            assert!(holds_card_number(text), "{text}");
        }
    }

    #[test]
    fn a_key_is_refused_for_a_card_number_and_not_for_dates_instants_and_counters() {
        for card in CARDS {
            let grouped: Vec<String> =
                card.as_bytes().chunks(4).map(|four| String::from_utf8(four.to_vec()).unwrap()).collect();
            for key in [card.to_owned(), format!("pay-{card}"), format!("{card}-2026"), format!("k{card}")] {
                assert!(key_holds_card_number(&key), "{key}");
            }
            if grouped.len() > 3 {
                assert!(key_holds_card_number(&grouped.join("-")), "{card}");
                assert!(key_holds_card_number(&format!("order-77-{}", grouped.join("."))), "{card}");
            }
        }
        assert!(key_holds_card_number("3782-822463-10005"));
        let passes = |digits: &str| luhn(digits.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0'));
        let mut tried = 0;
        for n in 0..500 {
            for key in [
                format!("{}", 1_764_445_354_000_u64 + n),
                format!("seed-{}-{}", 1_764_445_354_000_u64 + n, n % 24),
                format!("rent-2026-11-29-{n:06}"),
                format!("20261129-{n:06}"),
                format!("20261129093000{n:03}"),
            ] {
                tried += u32::from(passes(&key));
                assert!(!key_holds_card_number(&key), "{key}");
            }
        }
        assert!(tried > 100, "{tried} of them pass the check");
    }

    #[test]
    fn a_name_and_a_path_are_repeated_without_a_card_number() {
        assert_eq!((masked("order"), masked("my 4111 1111 1111 1111")), ("order", "***"));
        let id = "/v1/scheduled-payments/41111111-1111-8111-a000-000000000000/history";
        assert_eq!(masked_path(id), id);
        for card in [
            "4111111111111111",
            "4111-1111-1111-1111",
            "4111%201111%201111%201111",
            "4111+1111+1111+1111",
            "%34111111111111111",
            "x%C2%A04111111111111111%",
            "%EF%BC%94111111111111111",
        ] {
            assert_eq!(masked_path(&format!("/v1/{card}/history")), "/v1/***/history", "{card}");
        }
        for path in ["", "/", "/v1//%", "/%4", "/%zz/4111"] {
            assert_eq!(masked_path(path), path);
        }
    }

    #[test]
    fn one_wrong_digit_is_not_a_card_number() {
        for card in CARDS {
            for at in 0..card.len() {
                let mut digits = card.as_bytes().to_vec();
                digits[at] = b'0' + (digits[at] - b'0' + 1) % 10;
                let text = String::from_utf8(digits).unwrap();
                assert!(!holds_card_number(&text), "{text}");
            }
        }
    }
}
