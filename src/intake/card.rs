//! Finds card numbers where none may be (rule of the REST interface: never stored, never logged).
//!
//! A card number is 13 to 19 digits that pass the Luhn check (ISO/IEC 7812-1), with up to three
//! spaces, hyphens or dots between groups. Every run of whole digit groups is tried, so a number followed by
//! an expiry date is found as well; parts of one unbroken group are not, because nearly every long
//! number has some window that passes.
//!
//! The price: one random number in ten passes the check. A client whose own order numbers have 13
//! to 19 digits and nothing else will see some refused, and puts a letter among the digits.

/// Most separators between two groups of one number.
const WIDEST_GAP: u32 = 3;

/// Says whether a text holds what may be a card number. Full-width digits count as digits.
pub(super) fn holds_card_number(text: &str) -> bool {
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
            None if gap == 0 && ends_with_card_number(&stretch) => return true,
            None => gap = if is_separator(character) { gap.saturating_add(1) } else { WIDEST_GAP + 1 },
        }
    }
    gap == 0 && ends_with_card_number(&stretch)
}

/// Tried at the end of each group: does any run of groups that ends here make a card number?
fn ends_with_card_number(stretch: &[Vec<u8>]) -> bool {
    let mut digits = 0;
    for start in (0..stretch.len()).rev() {
        digits += stretch[start].len();
        if digits > 19 {
            return false;
        }
        if digits >= 13 && luhn(stretch[start..].iter().flatten().copied()) {
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
        ] {
            assert!(!holds_card_number(text), "{text}");
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
