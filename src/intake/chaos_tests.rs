//! What arrives from outside may be anything: no reader panics, and each agrees with a second one.

use super::card::holds_card_number;
use super::instant::Instant;
use super::key::ApiKey;
use super::node::Node;
use super::wire::Draft;
use super::{headers, problem::Code};
use axum::http::{HeaderMap, HeaderValue};
use chrono::{DateTime, Utc};
use proptest::prelude::*;

/// Bytes that look like a request more often than chance would.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(r#""payee""#.to_owned()),
        Just(r#""amount""#.to_owned()),
        Just(r#""metadata""#.to_owned()),
        Just(r#""dueAt":"2030-01-31T09:00:00Z""#.to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just(":".to_owned()),
        Just(",".to_owned()),
        Just("[]".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
        "\\PC{0,8}".prop_map(|text| format!("\"{text}\"")),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn no_body_makes_a_reader_panic(body in prop_oneof![nearly_json(), prop::collection::vec(any::<u8>(), 0..512)]) {
        let ours = Node::read(&body).is_ok();
        let theirs = serde_json::from_slice::<serde_json::Value>(&body).is_ok();
        // Ours is the laxer one only for numbers that no f64 holds.
        prop_assert!(ours || !theirs);
        if let Err(problem) = Draft::read(&body) {
            prop_assert_eq!(problem.code.http(), 400);
            prop_assert!(ours || problem.code == Code::MalformedJson);
        }
    }

    #[test]
    fn any_integer_is_read_as_itself(amount in any::<i64>()) {
        let body = format!(r#"{{"payee":"a","amount":{amount},"dueAt":"2030-01-31T09:00:00Z"}}"#);
        prop_assert_eq!(Draft::read(body.as_bytes()).ok().map(|draft| draft.amount), Some(amount));
    }

    #[test]
    fn a_time_is_read_as_chrono_reads_it_to_the_microsecond(
        seconds in 0_i64..250_000_000_000,
        nanos in 0_u32..1_000_000_000,
        offset_minutes in -1439_i32..1440,
    ) {
        let at = DateTime::from_timestamp(seconds, nanos).unwrap();
        let offset = chrono::FixedOffset::east_opt(offset_minutes * 60).unwrap();
        let text = at.with_timezone(&offset).to_rfc3339();
        let read = Instant::read(&text).unwrap();
        prop_assert_eq!(read.rounded_down().timestamp_micros(), at.timestamp_micros());
        let up = i64::from(nanos % 1000 != 0);
        prop_assert_eq!(read.rounded_up().unwrap().timestamp_micros(), at.timestamp_micros() + up);
    }

    #[test]
    fn no_text_makes_the_time_reader_panic(text in "[0-9TZtz:.+-]{0,40}|\\PC{0,40}") {
        if let Some(read) = Instant::read(&text) {
            let chrono_says = DateTime::parse_from_rfc3339(&text).map(|at| at.with_timezone(&Utc));
            prop_assert_eq!(chrono_says.ok().map(|at| at.timestamp_micros()), Some(read.rounded_down().timestamp_micros()));
        }
    }

    #[test]
    fn a_card_number_is_found_with_any_separators_and_surroundings(
        mut digits in prop::collection::vec(0_u8..10, 12..19),
        separators in prop::collection::vec("[ .-]{0,3}", 19),
        before in "[a-z,;:]{0,10}",
        after in "[a-z,;:]{0,10}",
    ) {
        // The check digit that makes the whole pass.
        let sum: u32 = digits.iter().rev().enumerate().map(|(place, digit)| {
            let doubled = u32::from(*digit) * if place % 2 == 0 { 2 } else { 1 };
            doubled / 10 + doubled % 10
        }).sum();
        digits.push(u8::try_from((10 - sum % 10) % 10).unwrap());
        let spread: Vec<String> = digits.iter().zip(&separators).map(|(digit, gap)| format!("{digit}{gap}")).collect();
        let spread = spread.concat();
        let text = format!("{before}{}{after}", spread.trim_end_matches([' ', '.', '-']));
        prop_assert!(holds_card_number(&text), "{}", text);
    }

    #[test]
    fn no_header_makes_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
        let mut all = HeaderMap::new();
        for name in ["idempotency-key", "content-type", "accept", "if-none-match", "request-id", "traceparent", "authorization"] {
            all.insert(name, value.clone());
        }
        if let Ok(key) = headers::idempotency_key(&all) {
            prop_assert!((1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
        }
        if let Some(id) = headers::request_id(&all) {
            prop_assert!(HeaderValue::from_str(&id).is_ok());
        }
        let _ = (headers::json_body(&all), headers::accepts_json(&all), headers::traceparent(&all));
        let _ = (headers::matches_tag(&all, "W/\"1\""), super::actor::bearer(&all).is_ok());
        let _ = ApiKey::parse(&String::from_utf8_lossy(&bytes));
    }
}
