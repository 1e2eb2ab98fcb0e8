//! The cursor of a list: where a walk stands, sealed.
//!
//! **Promises.** A cursor is taken only from the actor it was made for, with the filters and the order
//! it was made with, unchanged; everything else is one refusal. Its 41 bytes, in base64url without
//! padding, are a version, the place (microseconds since 1970 and the payment's id) and 16 bytes of
//! HMAC under the installation's secret over all that and the query.
//!
//! **Why sealed.** A place is no secret, since the page shows it. But a cursor that outlives a change
//! of filters would skip payments without a word, and one that clients may build themselves could
//! never change its form. The limit is not sealed in: it may change from page to page.

use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::intent::{Authenticity, Secret, check_cursor, cursor_mac};
use crate::schedule::Place;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::DateTime;
use uuid::Uuid;

const VERSION: u8 = 1;
/// Version, time, id.
const PLACE_BYTES: usize = 1 + 8 + 16;
const MAC_BYTES: usize = 16;

/// What a cursor is bound to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding<'a> {
    /// The installation's.
    pub(super) secret: &'a Secret,
    /// Whose list.
    pub(super) actor: ActorId,
    /// Order and filters in their canonical text.
    pub(super) query: &'a str,
}

/// Writes the cursor of a place.
pub(super) fn write(binding: Binding<'_>, place: Place) -> String {
    let mut bytes = Vec::with_capacity(PLACE_BYTES + MAC_BYTES);
    bytes.push(VERSION);
    bytes.extend(place.at.timestamp_micros().to_be_bytes());
    bytes.extend(place.payment.as_uuid().as_bytes());
    bytes.extend(cursor_mac(binding.secret, binding.actor, binding.query.as_bytes(), &bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads a cursor; `None` unless it is exactly what [`write`] made under the same binding.
pub(super) fn read(binding: Binding<'_>, text: &str) -> Option<Place> {
    let bytes: [u8; PLACE_BYTES + MAC_BYTES] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    let (place, mac) = bytes.split_first_chunk::<PLACE_BYTES>()?;
    let mac = mac.try_into().ok()?;
    match check_cursor(binding.secret, binding.actor, binding.query.as_bytes(), place, mac) {
        Authenticity::Forged => return None,
        Authenticity::Authentic => {}
    }
    let (version, rest) = place.split_first()?;
    let (at, id) = rest.split_first_chunk::<8>()?;
    let at = DateTime::from_timestamp_micros(i64::from_be_bytes(*at))?;
    let payment = PaymentId::from_uuid(Uuid::from_slice(id).ok()?).ok()?;
    (*version == VERSION).then_some(Place { at, payment })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: Secret = [7; 32];

    fn binding(query: &str) -> Binding<'_> {
        Binding { secret: &SECRET, actor: ActorId(Uuid::from_u128(1)), query }
    }

    fn place() -> Place {
        let at = DateTime::from_timestamp_micros(1_795_960_020_123_456).unwrap();
        Place { at, payment: PaymentId::new(at, [9; 10]).unwrap() }
    }

    #[test]
    fn a_cursor_is_55_characters_that_need_no_escape_and_leads_back_to_its_place() {
        let text = write(binding("q"), place());
        assert_eq!(text.len(), 55);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
        assert_eq!(read(binding("q"), &text), Some(place()));
        assert_eq!(write(binding("q"), place()), text, "the same place, the same bytes: pages have tags");
    }

    #[test]
    fn it_is_refused_with_other_filters_another_actor_or_another_secret() {
        let text = write(binding("q"), place());
        assert_eq!(read(binding("r"), &text), None);
        assert_eq!(read(Binding { actor: ActorId(Uuid::from_u128(2)), ..binding("q") }, &text), None);
        assert_eq!(read(Binding { secret: &[8; 32], ..binding("q") }, &text), None);
    }

    #[test]
    fn every_single_changed_bit_is_found() {
        let bytes = URL_SAFE_NO_PAD.decode(write(binding("q"), place())).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(binding("q"), &URL_SAFE_NO_PAD.encode(changed)), None, "bit {bit}");
        }
    }

    #[test]
    fn what_is_longer_shorter_padded_or_in_another_alphabet_is_no_cursor() {
        let text = write(binding("q"), place());
        for other in [
            String::new(),
            text[..54].to_owned(),
            format!("{text}A"),
            format!("{text}="),
            format!(" {text}"),
            text.to_lowercase(),
            "A".repeat(55),
            "A".repeat(100_000),
        ] {
            assert_eq!(read(binding("q"), &other), None, "{:.60}", other);
        }
    }

    #[test]
    fn a_place_sealed_by_us_under_another_version_is_no_cursor() {
        let mut bytes = vec![VERSION + 1];
        bytes.extend([0; 24]);
        bytes.extend(cursor_mac(&SECRET, binding("q").actor, b"q", &bytes));
        assert_eq!(read(binding("q"), &URL_SAFE_NO_PAD.encode(bytes)), None);
    }

    proptest! {
        #[test]
        fn every_place_comes_back(micros in 0..(1_i64 << 57), ms in 0..(1_i64 << 47), bits in any::<[u8; 10]>()) {
            let at = DateTime::from_timestamp_micros(micros).unwrap();
            let due_at = DateTime::from_timestamp_millis(ms).unwrap();
            let place = Place { at, payment: PaymentId::new(due_at, bits).unwrap() };
            prop_assert_eq!(read(binding("q"), &write(binding("q"), place)), Some(place));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            prop_assert_eq!(read(binding("q"), &text), None);
        }
    }
}
