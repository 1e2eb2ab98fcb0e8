//! Every row of the interface's table, from bytes to verdict, without a database.

use super::canonical::{Digests, digests};
use super::problem::{Code, Problem};
use super::rules::{Request, Terms};
use super::wire::Draft;
use crate::domain::ids::{ActorId, GatewayName};
use crate::domain::money::Currency;
use crate::domain::payment::{OnExhausted, OnSoftDecline};
use crate::schedule::Actor;
use chrono::{DateTime, Utc};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

const CARD: &str = "4111 1111 1111 1111";

fn now() -> DateTime<Utc> {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn actor() -> Actor {
    Actor { id: ActorId(Uuid::from_u128(7)), default_currency: None, default_gateway: None }
}

fn terms() -> Terms {
    Terms {
        horizon: Duration::from_secs(365 * 86_400),
        due_grace: Duration::ZERO,
        max_amount_minor: 1_000_000,
        gateways: vec![GatewayName("sandbox".into()), GatewayName("other".into())],
        execute_within: None,
    }
}

fn good() -> Value {
    json!({"payee": "acct_1", "amount": 1050, "currency": "EUR", "dueAt": "2030-01-31T09:00:00Z"})
}

/// The good request with one field set, or taken out by `null`.
fn with(field: &str, value: Value) -> Value {
    let mut body = good();
    let fields = body.as_object_mut().unwrap();
    if value.is_null() {
        fields.remove(field)
    } else {
        fields.insert(field.into(), value)
    };
    body
}

fn request(body: &str) -> Result<Request, Problem> {
    Request::with_defaults(Draft::read(body.as_bytes())?, &actor(), &terms())
}

/// `(status, [(pointer, code)])` of the refusal.
fn refusal(body: &str) -> Option<(u16, Vec<(String, Code)>)> {
    let problem = match request(body) {
        Err(problem) => problem,
        Ok(request) => request.judge(&terms(), now()).err()?.problem(),
    };
    let errors = problem.errors.iter().map(|error| (error.pointer.clone(), error.code)).collect();
    Some((problem.code.http(), errors))
}

#[track_caller]
fn refused(body: &str, status: u16, pointer: &str, code: Code) {
    assert_eq!(refusal(body), Some((status, vec![(pointer.to_owned(), code)])), "{body}");
}

#[track_caller]
fn accepted(body: &Value) {
    assert_eq!(refusal(&body.to_string()), None, "{body}");
}

#[test]
fn the_smallest_request_gets_every_default() {
    let request = request(&good().to_string()).unwrap();
    let allowed = request.judge(&terms(), now()).unwrap();
    assert_eq!(request.payee.expose_secret(), "acct_1");
    assert_eq!(allowed.amount.minor.get(), 1050);
    assert_eq!(allowed.amount.currency.as_str(), "EUR");
    assert_eq!(allowed.gateway.0, "sandbox");
    assert_eq!(allowed.retry.max_sends, 6);
    assert_eq!(allowed.retry.on_soft_decline, OnSoftDecline::Retry);
    assert_eq!(allowed.retry.on_exhausted, OnExhausted::Park);
    assert_eq!(request.due_at, "2030-01-31T09:00:00Z".parse::<DateTime<Utc>>().unwrap());
    assert!(request.execute_before.is_none() && request.external_id.is_none() && request.metadata.is_empty());
}

#[test]
fn the_actors_own_defaults_come_before_ours() {
    let mut actor = actor();
    actor.default_currency = Currency::from_code("JPY");
    actor.default_gateway = Some(GatewayName("other".into()));
    let draft = Draft::read(with("currency", Value::Null).to_string().as_bytes()).unwrap();
    let request = Request::with_defaults(draft, &actor, &terms()).unwrap();
    assert_eq!((request.currency.as_str(), request.gateway.as_str()), ("JPY", "other"));
}

#[test]
fn every_required_field_is_required() {
    for field in ["payee", "amount", "dueAt", "currency"] {
        refused(&with(field, Value::Null).to_string(), 400, &format!("/{field}"), Code::MissingField);
    }
    refused("{}", 400, "/payee", Code::MissingField);
}

#[test]
fn every_field_has_one_json_type() {
    let wrong: &[(&str, &[Value])] = &[
        ("payee", &[json!(1), json!(true), json!([]), json!({})]),
        ("amount", &[json!("10"), json!(true), json!([10]), json!({}), json!(10.0), json!(10.5)]),
        ("currency", &[json!(978), json!([])]),
        ("dueAt", &[json!(1_893_484_800), json!({}), json!(false)]),
        ("executeBefore", &[json!(1_893_484_800)]),
        ("gateway", &[json!(1)]),
        ("externalId", &[json!(1)]),
        ("description", &[json!(["x"])]),
        ("metadata", &[json!("x"), json!([]), json!(1)]),
        ("retry", &[json!("never"), json!(3), json!([])]),
    ];
    for (field, values) in wrong {
        for value in *values {
            refused(&with(field, value.clone()).to_string(), 400, &format!("/{field}"), Code::WrongType);
        }
        let body = good().to_string().replacen('{', &format!("{{\"{field}\":null,"), 1);
        let (status, _) = refusal(&body).unwrap();
        assert_eq!(status, 400, "null for {field}");
    }
    for body in ["[]", "\"x\"", "1", "null", "true"] {
        refused(body, 400, "", Code::WrongType);
    }
}

#[test]
fn an_amount_is_a_plain_json_integer() {
    for amount in [
        "10.0",
        "1e3",
        "1E3",
        "10.5",
        "-0",
        "9223372036854775808",
        "99999999999999999999999",
        "\"10\"",
        "true",
        "null",
    ] {
        let body = good().to_string().replace("1050", amount);
        refused(&body, 400, "/amount", Code::WrongType);
    }
    for amount in ["010", "+10", "0x10", "1_000", "10,0"] {
        let body = good().to_string().replace("1050", amount);
        assert_eq!(request(&body).err().unwrap().code, Code::MalformedJson, "{amount}");
    }
    for amount in [0, -1, i64::MIN] {
        refused(&with("amount", json!(amount)).to_string(), 422, "/amount", Code::AmountNotPositive);
    }
    for amount in [1_000_001, i64::MAX] {
        refused(&with("amount", json!(amount)).to_string(), 422, "/amount", Code::AmountAboveLimit);
    }
    for amount in [1, 1_000_000] {
        accepted(&with("amount", json!(amount)));
    }
}

#[test]
fn unknown_and_repeated_fields_are_refused_where_they_stand() {
    for field in ["Amount", "amount_minor", "execute_within", "", "a/b"] {
        let pointer = format!("/{}", field.replace('/', "~1"));
        refused(&with(field, json!("x")).to_string(), 400, &pointer, Code::UnknownField);
    }
    refused(&with("retry", json!({"max_sends": 1})).to_string(), 400, "/retry/max_sends", Code::UnknownField);
    let body = good().to_string().replacen('{', "{\"amount\":1,", 1);
    refused(&body, 400, "/amount", Code::DuplicateField);
    let body = good().to_string().replacen('{', r#"{"metadata":{"a":"1","a":"1"},"#, 1);
    refused(&body, 400, "/metadata/a", Code::DuplicateField);
    let body = good().to_string().replacen('{', r#"{"metadata":{"a":"1","\u0061":"2"},"#, 1);
    refused(&body, 400, "/metadata/a", Code::DuplicateField);
    let body = good().to_string().replacen('{', r#"{"retry":{"maxSends":1,"maxSends":1},"#, 1);
    refused(&body, 400, "/retry/maxSends", Code::DuplicateField);
}

#[test]
fn what_is_not_json_is_refused_without_its_words() {
    for body in ["", "{", "{}}", "payee=acct_1", "{'payee':1}", "{\"payee\":\"\u{1}4111\"}"] {
        let problem = request(body).err().unwrap();
        assert_eq!(problem.code, Code::MalformedJson, "{body}");
        assert!(!problem.detail.as_ref().unwrap().contains("4111"));
    }
}

#[test]
fn times_have_an_offset_and_no_leap_second() {
    for field in ["dueAt", "executeBefore"] {
        for text in
            ["2030-01-31T09:00:00", "2030-01-31", "2030-01-31 09:00:00Z", "2030-06-30T23:59:60Z", "", "now"]
        {
            refused(&with(field, json!(text)).to_string(), 400, &format!("/{field}"), Code::InvalidTime);
        }
    }
}

#[test]
fn a_due_time_rounds_up_and_a_deadline_down() {
    let mut body = with("dueAt", json!("2030-01-31T09:00:00.0000001+01:00"));
    body["executeBefore"] = json!("2030-01-31T10:00:00.0000019Z");
    let request = request(&body.to_string()).unwrap();
    assert_eq!(super::wire::utc(request.due_at), "2030-01-31T08:00:00.000001Z");
    assert_eq!(super::wire::utc(request.execute_before.unwrap()), "2030-01-31T10:00:00.000001Z");
}

#[test]
fn a_due_time_lies_ahead_and_within_the_horizon() {
    for (due, code) in [
        ("2030-01-01T00:00:00Z", Code::DueInPast),
        ("2029-12-31T23:59:59.999999Z", Code::DueInPast),
        ("1969-12-31T23:59:59Z", Code::DueInPast),
        ("0001-01-01T00:00:00Z", Code::DueInPast),
        ("2031-01-01T00:00:00.000001Z", Code::DueBeyondHorizon),
        ("9999-12-31T23:59:59Z", Code::DueBeyondHorizon),
    ] {
        refused(&with("dueAt", json!(due)).to_string(), 422, "/dueAt", code);
    }
    for due in ["2030-01-01T00:00:00.000001Z", "2030-01-01T00:00:00.0000001Z", "2031-01-01T00:00:00Z"] {
        accepted(&with("dueAt", json!(due)));
    }
}

#[test]
fn grace_lets_a_due_time_lie_a_little_behind() {
    let terms = Terms { due_grace: Duration::from_secs(60), ..terms() };
    let judge = |due: &str| {
        let request = request(&with("dueAt", json!(due)).to_string()).unwrap();
        request.judge(&terms, now()).map(|_| ()).map_err(|broken| broken.problem().code)
    };
    assert_eq!(judge("2029-12-31T23:59:01Z"), Ok(()));
    assert_eq!(judge("2029-12-31T23:59:00Z"), Err(Code::DueInPast));
    let endless = Terms { due_grace: Duration::MAX, horizon: Duration::MAX, ..terms.clone() };
    let old = request(&with("dueAt", json!("1969-12-31T23:59:59Z")).to_string()).unwrap();
    assert_eq!(old.judge(&endless, now()).unwrap_err().problem().code, Code::DueInPast);
}

#[test]
fn a_deadline_comes_after_the_due_time() {
    for (deadline, fine) in [
        ("2030-01-31T09:00:00Z", false),
        ("2030-01-31T08:59:59Z", false),
        ("2030-01-31T09:00:00.0000009Z", false),
        ("2030-01-31T09:00:00.000001Z", true),
        ("2030-01-31T10:00:00+02:00", false),
    ] {
        let body = with("executeBefore", json!(deadline));
        if fine {
            accepted(&body);
        } else {
            refused(&body.to_string(), 422, "/executeBefore", Code::ExecuteBeforeNotAfterDue);
        }
    }
}

#[test]
fn only_known_currencies_and_gateways_are_taken() {
    for currency in ["", "eur", "EU", "EURO", "E R", "€", "12 ", "QQQ", "HRK", "ZWL", "ANG", "BGN", "DEM"] {
        refused(&with("currency", json!(currency)).to_string(), 422, "/currency", Code::UnsupportedCurrency);
    }
    for gateway in ["", "Sandbox", "nowhere"] {
        refused(&with("gateway", json!(gateway)).to_string(), 422, "/gateway", Code::UnknownGateway);
    }
    accepted(&with("gateway", json!("other")));
    for currency in ["EUR", "JPY", "KWD", "UGX", "HUF"] {
        accepted(&with("currency", json!(currency)));
    }
}

#[test]
fn texts_have_a_length_in_characters_and_an_alphabet() {
    let x = |n: usize| json!("ü".repeat(n));
    let a = |n: usize| json!("a".repeat(n));
    for (field, longest, shortest) in [("payee", 255, 1), ("externalId", 180, 1), ("description", 500, 0)] {
        accepted(&with(field, a(longest)));
        refused(&with(field, a(longest + 1)).to_string(), 422, &format!("/{field}"), Code::TooLong);
        if shortest == 1 {
            refused(&with(field, json!("")).to_string(), 422, &format!("/{field}"), Code::Empty);
        } else {
            accepted(&with(field, json!("")));
        }
        refused(
            &with(field, json!("a\u{0}b")).to_string(),
            422,
            &format!("/{field}"),
            Code::InvalidCharacter,
        );
    }
    accepted(&with("externalId", x(180)));
    accepted(&with("description", x(500)));
    accepted(&with("description", json!("two\nlines\tand a tab")));
    refused(&with("externalId", json!("a\nb")).to_string(), 422, "/externalId", Code::InvalidCharacter);
    for payee in ["é", "a\tb", "a\nb", "\u{202e}x"] {
        refused(&with("payee", json!(payee)).to_string(), 422, "/payee", Code::InvalidCharacter);
    }
    refused(&with("payee", json!("   ")).to_string(), 422, "/payee", Code::Empty);
    accepted(&with("payee", json!("sim_500_charged|sim_ok")));
}

#[test]
fn metadata_has_at_most_50_pairs_of_40_and_500_characters() {
    let pairs = |n: usize| Value::Object((0..n).map(|n| (format!("key{n}"), json!("v"))).collect());
    accepted(&with("metadata", pairs(50)));
    refused(&with("metadata", pairs(51)).to_string(), 422, "/metadata", Code::TooManyPairs);
    let (k40, k41) = ("k".repeat(40), "k".repeat(41));
    accepted(&with("metadata", json!({k40: "v".repeat(500)})));
    refused(
        &with("metadata", json!({k41.clone(): "v"})).to_string(),
        422,
        &format!("/metadata/{k41}"),
        Code::TooLong,
    );
    refused(&with("metadata", json!({"k": "v".repeat(501)})).to_string(), 422, "/metadata/k", Code::TooLong);
    refused(&with("metadata", json!({"": "v"})).to_string(), 422, "/metadata/", Code::Empty);
    refused(
        &with("metadata", json!({"a\nb": "v"})).to_string(),
        422,
        "/metadata/a\nb",
        Code::InvalidCharacter,
    );
    refused(&with("metadata", json!({"k": "\u{0}"})).to_string(), 422, "/metadata/k", Code::InvalidCharacter);
    for value in [json!(1), json!(null), json!({}), json!(true)] {
        refused(&with("metadata", json!({"a/b": value})).to_string(), 400, "/metadata/a~1b", Code::WrongType);
    }
    accepted(&with("metadata", json!({})));
}

#[test]
fn a_card_number_is_refused_wherever_it_stands() {
    for (field, value, pointer) in [
        ("payee", json!(CARD), "/payee"),
        ("payee", json!("4111111111111111"), "/payee"),
        ("payee", json!("4111-1111-1111-1111"), "/payee"),
        ("externalId", json!(format!("order {CARD}")), "/externalId"),
        ("description", json!(format!("card {CARD}, exp 12/30")), "/description"),
        ("metadata", json!({"note": CARD}), "/metadata/note"),
        ("metadata", json!({CARD: "note"}), "/metadata/***"),
    ] {
        refused(&with(field, value).to_string(), 422, pointer, Code::RawCardNumber);
    }
}

#[test]
fn the_retry_object_is_judged_field_by_field() {
    for sends in [0, 7, -1, 100_000] {
        refused(
            &with("retry", json!({"maxSends": sends})).to_string(),
            422,
            "/retry/maxSends",
            Code::OutOfRange,
        );
    }
    for value in [json!("3"), json!(1.0), json!(null)] {
        refused(
            &with("retry", json!({"maxSends": value})).to_string(),
            400,
            "/retry/maxSends",
            Code::WrongType,
        );
    }
    for (field, value) in
        [("onSoftDecline", "park"), ("onSoftDecline", "Retry"), ("onExhausted", "retry"), ("onExhausted", "")]
    {
        refused(
            &with("retry", json!({field: value})).to_string(),
            422,
            &format!("/retry/{field}"),
            Code::UnknownChoice,
        );
    }
    let body = with("retry", json!({"maxSends": 1, "onSoftDecline": "fail", "onExhausted": "fail"}));
    let allowed = request(&body.to_string()).unwrap().judge(&terms(), now()).unwrap();
    assert_eq!(
        (allowed.retry.max_sends, allowed.retry.on_soft_decline, allowed.retry.on_exhausted),
        (1, OnSoftDecline::Fail, OnExhausted::Fail)
    );
    accepted(&with("retry", json!({})));
}

#[test]
fn shape_errors_come_one_at_a_time_and_rule_errors_all_at_once() {
    let two_shapes = r#"{"payee":1,"amount":"x"}"#;
    refused(two_shapes, 400, "/payee", Code::WrongType);
    let many = json!({
        "payee": CARD, "amount": 0, "currency": "xx", "dueAt": "2029-01-01T00:00:00Z",
        "executeBefore": "2028-01-01T00:00:00Z", "gateway": "no", "externalId": "", "retry": {"maxSends": 9},
    });
    let pointers: Vec<_> =
        refusal(&many.to_string()).unwrap().1.into_iter().map(|(pointer, _)| pointer).collect();
    assert_eq!(
        pointers,
        [
            "/payee",
            "/amount",
            "/currency",
            "/dueAt",
            "/executeBefore",
            "/gateway",
            "/externalId",
            "/retry/maxSends"
        ]
    );
}

#[test]
fn only_refusals_that_time_or_settings_cause_may_hide_an_earlier_success() {
    for (field, value, only_now) in [
        ("dueAt", json!("2029-12-31T00:00:00Z"), true),
        ("dueAt", json!("2039-12-31T00:00:00Z"), true),
        ("amount", json!(1_000_001), true),
        ("gateway", json!("gone"), true),
        ("currency", json!("xx"), true),
        ("payee", json!(CARD), false),
        ("amount", json!(0), false),
        ("description", json!("x".repeat(501)), false),
        ("retry", json!({"maxSends": 7}), false),
    ] {
        let request = request(&with(field, value.clone()).to_string()).unwrap();
        assert_eq!(request.judge(&terms(), now()).unwrap_err().only_now(), only_now, "{field} = {value}");
    }
    let mut both = with("dueAt", json!("2029-12-31T00:00:00Z"));
    both["payee"] = json!(CARD);
    assert!(!request(&both.to_string()).unwrap().judge(&terms(), now()).unwrap_err().only_now());
}

fn digested(body: &str, actor: u128, secret: u8) -> Digests {
    digests(&[secret; 32], ActorId(Uuid::from_u128(actor)), &request(body).unwrap())
}

#[test]
fn spacing_order_and_explicit_defaults_do_not_make_another_request() {
    let same = [
        r#"{"payee":"acct_1","amount":1050,"currency":"EUR","dueAt":"2030-01-31T09:00:00Z"}"#,
        r#" { "dueAt" : "2030-01-31T10:00:00.000+01:00", "currency":"EUR", "payee":"acct\u005f1",
              "amount": 1050 } "#,
        r#"{"payee":"acct_1","amount":1050,"currency":"EUR","dueAt":"2030-01-31T09:00:00Z","gateway":"sandbox",
            "metadata":{},"retry":{"maxSends":6,"onSoftDecline":"retry","onExhausted":"park"}}"#,
    ];
    for body in same {
        assert_eq!(digested(body, 7, 1), digested(same[0], 7, 1), "{body}");
    }
    let ab = with("metadata", json!({"a": "1", "b": "2"})).to_string();
    let ba = good().to_string().replacen('{', r#"{"metadata":{"b":"2","a":"1"},"#, 1);
    assert_eq!(digested(&ab, 7, 1), digested(&ba, 7, 1));
}

#[test]
fn each_changed_field_is_named_and_changes_the_whole() {
    let first = digested(&good().to_string(), 7, 1);
    for (field, value, pointer) in [
        ("payee", json!("acct_2"), "/payee"),
        ("amount", json!(1051), "/amount"),
        ("currency", json!("USD"), "/currency"),
        ("dueAt", json!("2030-01-31T09:00:00.000001Z"), "/dueAt"),
        ("executeBefore", json!("2030-02-01T09:00:00Z"), "/executeBefore"),
        ("gateway", json!("other"), "/gateway"),
        ("externalId", json!("x"), "/externalId"),
        ("description", json!(""), "/description"),
        ("metadata", json!({"a": "b"}), "/metadata"),
        ("retry", json!({"maxSends": 5}), "/retry/maxSends"),
        ("retry", json!({"onSoftDecline": "fail"}), "/retry/onSoftDecline"),
        ("retry", json!({"onExhausted": "fail"}), "/retry/onExhausted"),
    ] {
        let other = digested(&with(field, value).to_string(), 7, 1);
        assert_ne!(other.request_hash, first.request_hash, "{field}");
        let pointers = first.fields.keys().chain(other.fields.keys());
        let mut differs: Vec<_> =
            pointers.filter(|at| first.fields.get(*at) != other.fields.get(*at)).collect();
        differs.dedup();
        assert_eq!(differs, [pointer]);
    }
}

#[test]
fn no_two_lists_of_pairs_run_together() {
    let one = with("metadata", json!({"a": "bc"})).to_string();
    let two = with("metadata", json!({"ab": "c"})).to_string();
    assert_ne!(digested(&one, 7, 1).request_hash, digested(&two, 7, 1).request_hash);
}

#[test]
fn digests_tell_nothing_without_the_secret_and_nothing_across_actors() {
    let body = good().to_string();
    let first = digested(&body, 7, 1);
    for other in [digested(&body, 8, 1), digested(&body, 7, 2)] {
        assert!(first.fields.iter().all(|(pointer, digest)| other.fields[pointer] != *digest));
    }
    assert_ne!(first.request_hash, digested(&body, 7, 2).request_hash);
    assert!(first.fields.values().all(|digest| digest.len() == 32));
}
