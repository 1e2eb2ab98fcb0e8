//! Every event as it goes out, held against the files of `topics/`.
//!
//! `BLESS=1 cargo test --lib publisher` writes the example and the schema of each type.

use super::*;
use crate::domain::event_type::{EventType, event_type};
use crate::domain::history::{Event, HistoryRow};
use crate::domain::ids::{ActorId, Epoch, Fence, GatewayName, PaymentId};
use crate::domain::money::{Currency, Minor, Money};
use crate::domain::state::{Cause, MOVES, Status};
use crate::schedule::Snapshot;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use uuid::Uuid;

fn unpublished(seq: i32, from: Option<Status>, event: Event, to: Status, detail: &str) -> Unpublished {
    let due_at: DateTime<Utc> = "2026-11-29T14:07:00Z".parse().unwrap();
    let claims = if seq == 1 { 0 } else { 1 };
    let row = HistoryRow {
        payment: PaymentId::new(due_at, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).unwrap(),
        seq,
        from,
        to,
        event,
        by: "worker-1/5eed0001".into(),
        fence: Fence(i64::from(claims)),
        attempt: claims,
        epoch: Epoch(0),
        at: due_at + TimeDelta::microseconds(184_213),
        detail: detail.into(),
    };
    let payment = Snapshot {
        actor: ActorId(Uuid::from_u128(0xA1)),
        gateway: GatewayName("sandbox".into()),
        amount: Money { minor: Minor::new(1_250).unwrap(), currency: Currency::from_code("EUR").unwrap() },
        due_at,
        execute_before: None,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    };
    Unpublished { row, payment: Some(payment) }
}

/// Everything that a history row can say: each legal move, and each remark in each state.
fn everything() -> Vec<(Option<Status>, Event, Status)> {
    let moves = MOVES.iter().map(|(from, cause, to)| (*from, Event::Moved(*cause), *to));
    let others = [Event::Fenced, Event::CancelWished, Event::Noted];
    let still = others.into_iter().flat_map(|event| Status::ALL.map(|at| (Some(at), event, at)));
    moves.chain(still).collect()
}

fn example(wanted: EventType) -> Unpublished {
    let is_wanted = |(_, event, to): &(Option<Status>, Event, Status)| {
        let is_remark = !matches!(event, Event::Moved(_));
        event_type(*event, *to) == wanted && (!is_remark || *to == Status::Unknown)
    };
    let (from, event, to) = everything().into_iter().rfind(is_wanted).expect("each type is reached");
    let settled = |text: &str| {
        format!(r#"{{"verdict":"declined","how":"sent","reason":"{text}","code":"do_not_honor"}}"#)
    };
    let (seq, from, event, detail) = match wanted {
        EventType::Scheduled => (1, from, event, "{}".to_owned()),
        EventType::Claimed => {
            let claim = r#"{"claimId":"5eed0000-0000-4000-8000-000000000001"}"#;
            (2, Some(Status::Pending), event, claim.to_owned())
        }
        EventType::RetryScheduled => (3, from, event, settled("declined_soft")),
        EventType::Failed => {
            (3, Some(Status::Processing), Event::Moved(Cause::Settled), settled("declined_hard"))
        }
        EventType::Completed => {
            let charged = r#"{"verdict":"charged","how":"sent","reference":"ch_1","amountMinor":1250,"currency":"EUR"}"#;
            (3, Some(Status::Processing), Event::Moved(Cause::Settled), charged.to_owned())
        }
        EventType::Cancelled => (2, Some(Status::Pending), Event::Moved(Cause::Cancelled), "{}".to_owned()),
        EventType::Repaired => {
            let line = r#"{"reason":"seen in the report and with the bank","reference":"ch_1","amountMinor":1250,"currency":"EUR","item":7,"class":"missing_here","evidence":{"line":12},"approvedBy":"key:second"}"#;
            (5, from, event, line.to_owned())
        }
        EventType::OutcomeUnknown
        | EventType::Parked
        | EventType::Redriven
        | EventType::Refunded
        | EventType::Fenced
        | EventType::CancelWished
        | EventType::Noted => (4, from, event, "{}".to_owned()),
    };
    unpublished(seq, from, event, to, &detail)
}

/// The schema of one type: the shape of every event, and what only this type can say.
fn schema(wanted: EventType) -> Value {
    let said = everything().into_iter().filter(|(_, event, to)| event_type(*event, *to) == wanted);
    let cases: Vec<Value> = said
        .map(|(from, event, to)| {
            json!({"properties": {
                "previousStatus": {"const": from.map(Status::as_str)},
                "cause": {"const": event.as_str()},
                "status": {"const": to.as_str()},
            }})
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": wanted.as_str(),
        "description": wanted.explanation(),
        "$ref": "../event.schema.json",
        "properties": {"type": {"const": wanted.as_str()}, "data": {"anyOf": cases}},
    })
}

fn topics() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("topics")
}

fn file(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Holds a file against what the code says, or writes it.
fn golden(path: &Path, wanted: &Value) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, format!("{wanted:#}\n")).unwrap();
    }
    assert_eq!(&file(path), wanted, "{path:?}; run BLESS=1 cargo test --lib publisher");
}

fn named(kind: EventType, what: &str) -> PathBuf {
    let name = kind.as_str().trim_start_matches("payment.");
    topics().join("events").join(format!("{name}.{what}.json"))
}

/// As much of JSON Schema as the files use. A keyword that it does not know is a failure, never skipped.
fn faults(schema: &Value, at: &str, value: &Value, found: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().unwrap() {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" => true,
            "$ref" => {
                assert_eq!(rule, "../event.schema.json");
                faults(&file(&topics().join("event.schema.json")), at, value, found);
                true
            }
            "type" => {
                let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                types.iter().any(|kind| is_of(kind.as_str().unwrap(), value))
            }
            "const" => rule == value,
            "minimum" => value.as_i64() >= rule.as_i64(),
            "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap()),
            "pattern" => matches_pattern(rule.as_str().unwrap(), value.as_str().unwrap()),
            "format" => {
                assert_eq!(rule, "date-time");
                value.as_str().is_none_or(|text| DateTime::parse_from_rfc3339(text).is_ok())
            }
            "required" => {
                let names = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                value.as_object().is_none_or(|fields| names.clone().all(|name| fields.contains_key(name)))
            }
            "anyOf" => rule.as_array().unwrap().iter().any(|case| {
                let mut inner = Vec::new();
                faults(case, at, value, &mut inner);
                inner.is_empty()
            }),
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        faults(schema, &format!("{at}/{name}"), field, found);
                    }
                }
                true
            }
            other => panic!("{other} is not known to this test"),
        };
        if !holds {
            found.push(format!("{at}: {keyword} {rule}: {value}"));
        }
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("{other} is not known to this test"),
    }
}

fn matches_pattern(pattern: &str, text: &str) -> bool {
    let is_id = |text: &str| {
        text.len() == 36 && text.chars().all(|c| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c))
    };
    match pattern {
        "^[0-9a-f-]{36}$" => is_id(text),
        "^[0-9a-f-]{36}/[1-9][0-9]*$" => text.split_once('/').is_some_and(|(id, seq)| {
            is_id(id) && !seq.starts_with('0') && !seq.is_empty() && seq.chars().all(|c| c.is_ascii_digit())
        }),
        "^payment\\.[a-z_]+$" => text
            .strip_prefix("payment.")
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c == '_' || c.is_ascii_lowercase())),
        other => panic!("{other} is not known to this test"),
    }
}

fn faults_of(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    faults(schema, "", value, &mut found);
    found
}

#[test]
fn every_type_has_its_example_and_its_schema() {
    for kind in EventType::ALL {
        let event: Value = serde_json::from_slice(&json(&example(*kind))).unwrap();
        assert_eq!(event["type"], kind.as_str());
        golden(&named(*kind, "example"), &event);
        golden(&named(*kind, "schema"), &schema(*kind));
    }
    let event: Value = serde_json::from_slice(&json(&example(EventType::Completed))).unwrap();
    golden(&topics().join("event.example.json"), &event);
}

#[test]
fn every_event_that_can_go_out_satisfies_the_schema_of_its_type_and_of_no_other() {
    for (from, happened, to) in everything() {
        let event: Value = serde_json::from_slice(&json(&unpublished(7, from, happened, to, "{}"))).unwrap();
        let own = event_type(happened, to);
        for kind in EventType::ALL {
            let found = faults_of(&file(&named(*kind, "schema")), &event);
            assert_eq!(found.is_empty(), *kind == own, "{event:#} by {}: {found:?}", kind.as_str());
        }
    }
}

#[test]
fn a_schema_refuses_what_is_not_an_event() {
    let good: Value = serde_json::from_slice(&json(&example(EventType::Completed))).unwrap();
    let schema = file(&named(EventType::Completed, "schema"));
    assert_eq!(faults_of(&schema, &good), Vec::<String>::new());
    for (pointer, bad) in [
        ("/id", json!("x/1")),
        ("/sequence", json!(0)),
        ("/sequence", json!("3")),
        ("/time", json!("yesterday")),
        ("/data", json!({})),
        ("/data/status", json!("FAILED")),
        ("/data/payment/amount", json!(12.5)),
        ("/specversion", json!("0.3")),
    ] {
        let mut event = good.clone();
        *event.pointer_mut(pointer).unwrap() = bad;
        assert_ne!(faults_of(&schema, &event), Vec::<String>::new(), "{pointer}");
    }
}

#[test]
fn a_record_is_keyed_by_the_payment_and_lies_where_the_ring_has_it() {
    let row = example(EventType::Completed);
    let record = super::record(&Form::new("payments.", 12), &row);
    assert_eq!(record.topic, "payments.events");
    assert_eq!(record.key, row.row.payment.to_string());
    assert_eq!(record.partition, Some(partition(shard(row.row.payment), 12)));
    assert_eq!(record.headers.last().unwrap().0, "traceparent");
    assert_eq!(record.value, json(&row), "the same bytes in every delivery");
    let is_again = |record: &Outgoing| record.headers.contains(&("again", "1".to_owned()));
    let repeated = super::record(&Form::new("payments.", 12).again(), &row);
    assert!(is_again(&repeated) && !is_again(&record), "a replay says of itself that it is one");
    assert_eq!((repeated.value, repeated.partition), (record.value, record.partition));
    let mut archived = row.clone();
    archived.payment = None;
    let event: Value = serde_json::from_slice(&json(&archived)).unwrap();
    assert_eq!(faults_of(&file(&named(EventType::Completed, "schema")), &event), Vec::<String>::new());
}

#[test]
fn a_row_that_parks_is_announced_as_the_topic_s_schema_says_and_no_other_row_is() {
    let schema = file(&topics().join("parked.schema.json"));
    let required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for (from, happened, to) in everything() {
        let row = unpublished(7, from, happened, to, r#"{"reason":"unproven_decline"}"#);
        let announced = announcement(&Form::new("payments.", 12), &row);
        assert_eq!(announced.is_some(), event_type(happened, to) == EventType::Parked, "{happened:?} {to:?}");
        let Some(announced) = announced else { continue };
        assert_eq!(announced.topic, "payments.parked");
        assert_eq!(announced.partition, record(&Form::new("payments.", 12), &row).partition);
        let value: Value = serde_json::from_slice(&announced.value).unwrap();
        let fields = value.as_object().unwrap();
        assert_eq!(fields.len(), required.len(), "the schema is closed: {value}");
        assert!(required.iter().all(|name| fields.contains_key(*name)), "{value}");
        let wanted = match happened {
            Event::Moved(Cause::Poisoned) => "poisoned",
            _ => "unproven_decline",
        };
        assert_eq!((&value["reason"], &value["sequence"]), (&json!(wanted), &json!(7)));
        // Without a reason of the registry the cause stands there, which the pattern takes too.
        let bare = unpublished(7, from, happened, to, "{}");
        let value: Value =
            serde_json::from_slice(&announcement(&Form::new("p.", 2), &bare).unwrap().value).unwrap();
        assert!(value["reason"].as_str().unwrap().chars().all(|c| c == '_' || c.is_ascii_lowercase()));
        let archived = Unpublished { payment: None, ..bare };
        assert_eq!(announcement(&Form::new("p.", 2), &archived), None, "nobody can act on it");
    }
}

#[test]
fn a_reason_is_the_written_one_or_the_one_that_its_cause_implies() {
    let reason_of = |event, to, detail: &str| {
        let row = unpublished(3, Some(Status::Processing), event, to, detail);
        serde_json::from_slice::<Value>(&json(&row)).unwrap()["data"]["reason"].clone()
    };
    let settled = Event::Moved(Cause::Settled);
    assert_eq!(reason_of(settled, Status::Failed, r#"{"reason":"declined_hard"}"#), "declined_hard");
    assert_eq!(reason_of(settled, Status::Completed, "{}"), Value::Null);
    assert_eq!(reason_of(Event::Moved(Cause::LeaseExpired), Status::Unknown, "{}"), "lease_expired");
    // A person's own words are no reason of the registry, whatever they are.
    let words = r#"{"reason":"not_sent"}"#;
    assert_eq!(reason_of(Event::Moved(Cause::Redriven), Status::Pending, words), "redriven");
    assert_eq!(reason_of(Event::Moved(Cause::Resolved), Status::Failed, words), "resolved_not_charged");
    assert_eq!(reason_of(Event::Moved(Cause::Resolved), Status::Completed, words), Value::Null);
    assert_eq!(
        reason_of(Event::Moved(Cause::Cancelled), Status::Cancelled, "no JSON"),
        "cancelled_by_client"
    );
    for (by, wanted) in [
        ("actor:00000000-0000-0000-0000-0000000000a1", "cancelled_by_client"),
        ("key:alice", "cancelled_by_operator"),
        ("oidc:https://id.example#7", "cancelled_by_operator"),
    ] {
        let mut row =
            unpublished(3, Some(Status::Pending), Event::Moved(Cause::Cancelled), Status::Cancelled, "{}");
        row.row.by = by.to_owned();
        let value: Value = serde_json::from_slice(&json(&row)).unwrap();
        assert_eq!(value["data"]["reason"], wanted, "{by}");
    }
}

#[test]
fn what_reconciliation_did_has_the_reason_of_its_line_and_never_a_person_s_words() {
    let reason_of = |from, event, to, detail: &str| {
        let row = unpublished(3, Some(from), event, to, detail);
        serde_json::from_slice::<Value>(&json(&row)).unwrap()["data"]["reason"].clone()
    };
    let line = r#"{"reason":"not_sent","item":7,"class":"missing_here","reference":"ch_1"}"#;
    let reconciled = Event::Moved(Cause::Reconciled);
    for (from, event, to, detail, wanted) in [
        (Status::Pending, reconciled, Status::Parked, line, json!("charge_found")),
        (Status::Unknown, reconciled, Status::Parked, line, json!("contract_violation")),
        (Status::Unknown, reconciled, Status::Completed, line, Value::Null),
        (
            Status::Pending,
            reconciled,
            Status::Parked,
            r#"{"externalIdOf":"a","item":7}"#,
            json!("external_id_taken_back"),
        ),
        (
            Status::Unknown,
            reconciled,
            Status::Parked,
            r#"{"reason":"charged_before"}"#,
            json!("charged_before"),
        ),
        (Status::Failed, Event::Moved(Cause::Repaired), Status::Completed, line, Value::Null),
        (Status::Completed, Event::Noted, Status::Completed, line, Value::Null),
    ] {
        assert_eq!(reason_of(from, event, to, detail), wanted, "{from:?} {event:?} {to:?} {detail}");
    }
}
