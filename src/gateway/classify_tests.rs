//! Every class of answer to a charge and to a look-up, one row each.

use super::*;
use crate::domain::verdict::DeclineClass;

const ID: &str = "01890000-0000-8000-8000-000000000001";
const LATER: Duration = Duration::from_secs(60);

fn asked() -> Asked {
    let amount = Money {
        minor: Minor::new(1_000).expect("positive"),
        currency: Currency::from_code("EUR").expect("a code"),
    };
    Asked { key: format!("{ID}:2"), payment: ID.parse().expect("a payment id"), amount }
}

fn answer(status: u16, body: &str) -> Heard {
    Heard::Answer { status, retry_after: Some(Duration::from_secs(7)), body: Ok(body.into()) }
}

fn object(status: &str) -> String {
    format!(
        r#"{{"id":"ch_1","status":"{status}","key":"{ID}:2","paymentId":"{ID}","amount":1000,"currency":"EUR","code":"insufficient_funds"}}"#
    )
}

fn error(kind: &str) -> String {
    format!(r#"{{"error":{{"type":"{kind}","code":"insufficient_funds","key":"{ID}:2"}}}}"#)
}

fn meaning(status: u16, body: &str) -> Verdict {
    charge(&asked(), answer(status, body))
}

fn unsent(why: NotSent) -> Verdict {
    Verdict::NotSent { why, retry_after: Some(Duration::from_secs(7)) }
}

fn soft(reference: Option<&str>) -> Verdict {
    Verdict::Declined(Decline {
        class: DeclineClass::Soft,
        code: "insufficient_funds".into(),
        network_code: None,
        reference: reference.map(str::to_owned),
        retry_after: Some(Duration::from_secs(7)),
    })
}

fn as_asked() -> Verdict {
    Verdict::Charged { reference: "ch_1".into(), amount: asked().amount }
}

#[test]
fn silence_is_unknown_unless_nothing_left() {
    let cases = [
        (Heard::TimedOut, Verdict::Unknown(Doubt::TimedOut)),
        (Heard::Lost, Verdict::Unknown(Doubt::ConnectionLost)),
        (Heard::Unsent(NotSent::Dns), Verdict::NotSent { why: NotSent::Dns, retry_after: None }),
        (
            Heard::Unsent(NotSent::KeyExpired),
            Verdict::NotSent { why: NotSent::KeyExpired, retry_after: None },
        ),
    ];
    for (heard, wanted) in cases {
        let shown = format!("{heard:?}");
        assert_eq!(charge(&asked(), heard), wanted, "{shown}");
    }
}

#[test]
fn an_answer_whose_body_does_not_arrive_is_unknown_whatever_its_status_promised() {
    for status in [200, 202, 400, 401, 402, 403, 409, 429] {
        for (fault, doubt) in [
            (BodyFault::TimedOut, Doubt::TimedOut),
            (BodyFault::Cut, Doubt::Unreadable),
            (BodyFault::TooLarge, Doubt::Unreadable),
        ] {
            let heard = Heard::Answer { status, retry_after: None, body: Err(fault) };
            assert_eq!(charge(&asked(), heard), Verdict::Unknown(doubt), "{status} {fault:?}");
        }
    }
}

#[test]
fn five_hundreds_and_408_are_unknown_even_in_the_gateways_own_shape() {
    for status in [408, 500, 502, 503, 504, 599] {
        for body in [object("charged"), error("declined"), error("rate_limited"), "<html>".into()] {
            assert_eq!(meaning(status, &body), Verdict::Unknown(Doubt::ServerError), "{status} {body}");
        }
    }
}

#[test]
fn an_accepted_charge_means_what_its_status_word_says_where_the_http_status_agrees() {
    let unreadable = || Verdict::Unknown(Doubt::Unreadable);
    let pending = || Verdict::PendingAtGateway { reference: Some("ch_1".into()) };
    let running = || Verdict::InProgress { retry_after: Some(Duration::from_secs(7)) };
    let cases = [
        ("charged", [as_asked(), as_asked(), unreadable(), unreadable()]),
        ("pending", [pending(), unreadable(), pending(), unreadable()]),
        ("in_progress", [unreadable(), unreadable(), running(), unreadable()]),
        ("declined", [soft(Some("ch_1")), unreadable(), unreadable(), unreadable()]),
        ("reversed", [unreadable(), unreadable(), unreadable(), unreadable()]),
    ];
    for (word, wanted) in cases {
        for (status, wanted) in [200, 201, 202, 204].into_iter().zip(wanted) {
            assert_eq!(meaning(status, &object(word)), wanted, "{status} {word}");
        }
    }
}

/// A charge as the answers here name it.
fn of(minor: i64, currency: &str) -> Verdict {
    let minor = Minor::new(minor).expect("positive");
    let amount = Money { minor, currency: Currency::from_code(currency).expect("a code") };
    Verdict::Charged { reference: "ch_1".into(), amount }
}

#[test]
fn a_charge_of_another_amount_than_asked_keeps_its_name_and_says_what_it_took() {
    for (from, to, wanted) in [
        ("1000", "1001", of(1_001, "EUR")),
        ("1000", "999", of(999, "EUR")),
        ("1000", "100000", of(100_000, "EUR")),
        ("EUR", "USD", of(1_000, "USD")),
    ] {
        let body = object("charged").replacen(from, to, 1);
        assert_eq!(meaning(200, &body), wanted, "{body}");
        assert_eq!(found(std::slice::from_ref(&body)), Lookup::Found(wanted.clone()), "{body}");
        assert_eq!(of_void(200, &body), wanted, "{body}");
    }
}

#[test]
fn a_charge_of_no_amount_or_of_another_key_or_payment_is_a_contract_violation() {
    for (from, to) in [
        ("1000", "0"),
        ("1000", "-1000"),
        ("EUR", "eur"),
        ("EUR", ""),
        (&*format!("{ID}:2"), ID),
        (&*format!("\"{ID}\""), "\"01890000-0000-8000-8000-000000000002\""),
    ] {
        let body = object("charged").replacen(from, to, 1);
        let verdict = meaning(200, &body);
        assert!(matches!(verdict, Verdict::ContractViolation { .. }), "{body}: {verdict:?}");
    }
}

#[test]
fn an_answer_that_cannot_be_read_strictly_is_unknown() {
    let whole = object("charged");
    let cut = &whole[..whole.len() - 1];
    let unreadable = [
        String::new(),
        "ok".into(),
        "null".into(),
        "[]".into(),
        "{}".into(),
        cut.into(),
        format!("{whole}{whole}"),
        whole.replace("1000", "1000.0"),
        whole.replace("1000", "1e3"),
        whole.replace("1000", "\"1000\""),
        whole.replace("1000", "99999999999999999999"),
        whole.replace("\"amount\":1000,", ""),
        whole.replace("\"amount\":1000,", "\"amount\":1000,\"amount\":1000,"),
        whole.replace("ch_1", ""),
        whole.replace("ch_1", "ch 1"),
        whole.replace("ch_1", &"x".repeat(256)),
    ];
    for body in unreadable {
        assert_eq!(meaning(200, &body), Verdict::Unknown(Doubt::Unreadable), "{body}");
    }
    let with_more = whole.replace("\"id\"", "\"later\":{\"a\":[1]},\"id\"");
    assert_eq!(meaning(200, &with_more), as_asked(), "a field added later must not make charges unknown");
}

#[test]
fn a_refusal_counts_only_with_the_type_that_belongs_to_its_status() {
    let kinds = [
        "invalid_request",
        "unauthorized",
        "forbidden",
        "declined",
        "not_found",
        "in_use",
        "key_reused",
        "rate_limited",
    ];
    for status in [400, 401, 402, 403, 404, 405, 409, 410, 422, 425, 429, 451] {
        for kind in kinds {
            let wanted = match (status, kind) {
                (400, "invalid_request") => unsent(NotSent::Rejected),
                (401, "unauthorized") | (403, "forbidden") => unsent(NotSent::NotAuthorised),
                (429, "rate_limited") => unsent(NotSent::RateLimited),
                (402, "declined") => soft(None),
                (409, "in_use") => Verdict::InProgress { retry_after: Some(Duration::from_secs(7)) },
                (400 | 409 | 422, "key_reused") => Verdict::Unknown(Doubt::KeyMismatch),
                _ => Verdict::Unknown(Doubt::Unreadable),
            };
            assert_eq!(meaning(status, &error(kind)), wanted, "{status} {kind}");
        }
    }
}

#[test]
fn a_proxys_refusal_is_unknown() {
    let pages = [
        "",
        "<html><h1>403 Forbidden</h1></html>",
        r#"{"message":"Too many requests"}"#,
        r#"{"error":"rate_limited"}"#,
        r#"{"error":{"code":429,"message":"slow down"}}"#,
        r#"{"error":{"type":"TooManyRequests","code":"429"}}"#,
    ];
    for status in [400, 401, 402, 403, 404, 407, 409, 413, 429] {
        for page in pages {
            assert_eq!(meaning(status, page), Verdict::Unknown(Doubt::NotTheGateway), "{status} {page}");
        }
    }
    for status in [100, 199, 300, 301, 302, 304, 307, 308, 399] {
        let verdict = meaning(status, &object("charged"));
        assert_eq!(verdict, Verdict::Unknown(Doubt::NotTheGateway), "{status}");
    }
}

#[test]
fn a_refusal_about_another_key_or_payment_proves_nothing() {
    for (status, kind) in [(400, "invalid_request"), (402, "declined"), (429, "rate_limited")] {
        let other_key = error(kind).replace(":2", ":1");
        assert_eq!(meaning(status, &other_key), Verdict::Unknown(Doubt::Unreadable), "{kind}");
        let other_payment = error(kind).replace("\"key\"", "\"paymentId\":\"another\",\"key\"");
        assert_eq!(meaning(status, &other_payment), Verdict::Unknown(Doubt::Unreadable), "{kind}");
    }
}

#[test]
fn a_decline_must_name_its_key_and_a_code() {
    let no_key = r#"{"error":{"type":"declined","code":"insufficient_funds"}}"#;
    assert_eq!(meaning(402, no_key), Verdict::Unknown(Doubt::Unreadable));
    for code in ["", "two words", &"x".repeat(65)] {
        let body = error("declined").replace("insufficient_funds", code);
        assert_eq!(meaning(402, &body), Verdict::Unknown(Doubt::Unreadable), "{code:?}");
    }
}

#[test]
fn a_decline_keeps_codes_and_reference_and_obeys_advice() {
    let body = error("declined")
        .replace("\"key\"", r#""reference":"ch_9","networkCode":"51","advice":"do_not_try_again","key""#);
    let Verdict::Declined(decline) = meaning(402, &body) else { panic!("not declined") };
    assert_eq!(decline.class, DeclineClass::Hard);
    assert_eq!(decline.network_code.as_deref(), Some("51"));
    assert_eq!(decline.reference.as_deref(), Some("ch_9"));
}

fn found(charges: &[String]) -> Lookup {
    let body = format!(r#"{{"key":"{ID}:2","charges":[{}]}}"#, charges.join(","));
    lookup(&asked(), answer(200, &body), LATER)
}

fn of_epoch_1(status: &str) -> String {
    object(status).replace(":2\"", ":1\"")
}

#[test]
fn a_lookup_reads_all_matches_and_a_charge_outweighs_everything() {
    let running = || Verdict::InProgress { retry_after: Some(Duration::from_secs(7)) };
    let pending = || Verdict::PendingAtGateway { reference: Some("ch_1".into()) };
    let cases: Vec<(Vec<String>, Verdict)> = vec![
        (vec![object("charged")], as_asked()),
        (vec![object("declined"), object("charged")], as_asked()),
        (vec![object("charged"), object("declined")], as_asked()),
        (vec![object("pending"), object("in_progress"), object("charged")], as_asked()),
        (vec![of_epoch_1("charged")], as_asked()),
        (vec![object("declined"), of_epoch_1("charged")], as_asked()),
        (vec![object("declined"), object("in_progress"), object("pending")], pending()),
        (vec![object("declined"), object("in_progress")], running()),
        (vec![of_epoch_1("declined"), object("declined")], soft(Some("ch_1"))),
    ];
    for (charges, wanted) in cases {
        assert_eq!(found(&charges), Lookup::Found(wanted), "{charges:?}");
    }
}

#[test]
fn a_lookup_that_shows_two_charges_or_an_unreadable_one_needs_a_human() {
    let cases = [
        vec![object("charged"), object("charged")],
        vec![object("charged"), of_epoch_1("charged")],
        vec![object("charged").replace("1000", "0")],
        vec![object("charged").replace("EUR", "XX")],
        vec![object("charged").replace(&format!("\"{ID}\""), "\"another\"")],
    ];
    for charges in cases {
        let lookup = found(&charges);
        assert!(
            matches!(lookup, Lookup::Found(Verdict::ContractViolation { .. })),
            "{charges:?}: {lookup:?}"
        );
    }
}

#[test]
fn another_epochs_decline_says_nothing_about_this_key() {
    assert_eq!(found(&[of_epoch_1("declined")]), Lookup::NotFound { visible_after: Some(LATER) });
    assert_eq!(found(&[]), Lookup::NotFound { visible_after: Some(LATER) });
}

#[test]
fn only_the_gateways_own_404_is_not_found_and_every_other_failure_teaches_nothing() {
    let ask = |heard| lookup(&asked(), heard, LATER);
    let not_found = Lookup::NotFound { visible_after: Some(LATER) };
    assert_eq!(ask(answer(404, &error("not_found"))), not_found);
    let unavailable = Lookup::Unavailable { retry_after: Some(Duration::from_secs(7)) };
    for (status, body) in [
        (404, "<html>".to_owned()),
        (404, error("unauthorized")),
        (401, error("unauthorized")),
        (429, error("rate_limited")),
        (500, error("not_found")),
        (302, String::new()),
        (200, "{}".into()),
        (200, object("charged")),
        (200, format!(r#"{{"key":"{ID}:1","charges":[{}]}}"#, object("charged"))),
    ] {
        assert_eq!(ask(answer(status, &body)), unavailable, "{status} {body}");
    }
    for heard in [Heard::Lost, Heard::TimedOut] {
        assert_eq!(ask(heard), Lookup::Unavailable { retry_after: None });
    }
    let cut = Heard::Answer { status: 200, retry_after: None, body: Err(BodyFault::Cut) };
    assert_eq!(ask(cut), Lookup::Unavailable { retry_after: None });
}

#[test]
fn retry_after_is_read_as_seconds_or_as_a_date() {
    let now = DateTime::from_timestamp(1_700_000_000, 0).expect("in range");
    let cases = [
        ("0", Some(0)),
        ("120", Some(120)),
        (" 5 ", Some(5)),
        ("Tue, 14 Nov 2023 22:14:20 GMT", Some(60)),
        ("Tue, 14 Nov 2023 22:13:00 GMT", Some(0)),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("99999999999999999999999", None),
    ];
    for (text, seconds) in cases {
        assert_eq!(retry_after(text, now), seconds.map(Duration::from_secs), "{text:?}");
    }
}

#[test]
fn an_answer_that_cannot_be_true_is_counted_under_the_promise_that_it_breaks() {
    let counts = |heard: &dyn Fn() -> bool, number: &str| {
        let recorder = crate::platform::metrics::recorder().expect("a recorder");
        assert!(metrics::with_local_recorder(&recorder, heard), "a violation");
        let text = crate::platform::metrics::Exposition::of(&recorder).render();
        let series = format!("punctual_invariant_violations_total{{invariant=\"{number}\"}} 1");
        assert!(text.lines().any(|line| line == series), "{text}");
    };
    let is_violation = |verdict: &Verdict| matches!(verdict, Verdict::ContractViolation { .. });
    for (from, to, number) in [("1000", "0", "M4"), ("EUR", "eur", "M4"), (&*format!("{ID}:2"), ID, "M5")] {
        counts(&|| is_violation(&meaning(200, &object("charged").replacen(from, to, 1))), number);
    }
    let twice = || found(&[object("charged"), object("charged")]);
    counts(&|| matches!(twice(), Lookup::Found(Verdict::ContractViolation { .. })), "M1");
}

#[test]
fn a_charge_of_another_amount_is_left_to_be_counted_with_its_outcome() {
    let recorder = crate::platform::metrics::recorder().expect("a recorder");
    let body = object("charged").replacen("1000", "1001", 1);
    assert_eq!(metrics::with_local_recorder(&recorder, || meaning(200, &body)), of(1_001, "EUR"));
    let text = crate::platform::metrics::Exposition::of(&recorder).render();
    let series = "punctual_invariant_violations_total{invariant=\"M4\"} ";
    assert!(!text.lines().any(|line| line.starts_with(series) && !line.ends_with(" 0")), "{text}");
}

fn of_void(status: u16, body: &str) -> Verdict {
    void(&asked(), answer(status, body))
}

#[test]
fn a_tombstone_must_name_the_key_that_was_asked_about() {
    let voided = format!(r#"{{"key":"{ID}:2","status":"voided"}}"#);
    assert_eq!(of_void(200, &voided), Verdict::Voided);
    let other = format!(r#"{{"key":"{ID}:1","status":"voided"}}"#);
    assert!(matches!(of_void(200, &other), Verdict::ContractViolation { .. }));
    for (status, body) in [(201, voided.as_str()), (200, r#"{"status":"voided"}"#), (200, "{}"), (200, "ok")]
    {
        assert_eq!(of_void(status, body), Verdict::Unknown(Doubt::Unreadable), "{status} {body}");
    }
    // Under a voided key a charge is refused, with the same proof.
    assert_eq!(meaning(409, &error("voided")), Verdict::Voided);
    assert_eq!(of_void(409, &error("voided")), Verdict::Voided);
    let anonymous = r#"{"error":{"type":"voided","code":"voided"}}"#;
    assert_eq!(meaning(409, anonymous), Verdict::Unknown(Doubt::Unreadable));
    assert_eq!(meaning(400, &error("voided")), Verdict::Unknown(Doubt::Unreadable));
    assert_eq!(meaning(200, &voided), Verdict::Unknown(Doubt::Unreadable), "no answer to a charge");
}

#[test]
fn a_void_that_came_too_late_is_answered_as_a_charge_is() {
    assert_eq!(of_void(200, &object("charged")), as_asked());
    let pending = Verdict::PendingAtGateway { reference: Some("ch_1".into()) };
    assert_eq!(of_void(202, &object("pending")), pending);
    assert_eq!(of_void(402, &error("declined")), soft(None));
    let running = Verdict::InProgress { retry_after: Some(Duration::from_secs(7)) };
    assert_eq!(of_void(409, &error("in_use")), running);
}

#[test]
fn what_refuses_the_void_itself_says_nothing_of_the_charge() {
    for (status, body) in [
        (400, error("invalid_request")),
        (404, error("not_found")),
        (422, error("key_reused")),
        (405, "{}".into()),
    ] {
        assert!(matches!(of_void(status, &body), Verdict::Unknown(_)), "{status} {body}");
    }
    assert_eq!(of_void(429, &error("rate_limited")), unsent(NotSent::RateLimited));
    assert_eq!(of_void(403, &error("forbidden")), unsent(NotSent::NotAuthorised));
    assert_eq!(of_void(503, "{}"), Verdict::Unknown(Doubt::ServerError));
    assert_eq!(void(&asked(), Heard::TimedOut), Verdict::Unknown(Doubt::TimedOut));
    let never = Verdict::NotSent { why: NotSent::KeyExpired, retry_after: None };
    assert_eq!(void(&asked(), Heard::Unsent(NotSent::KeyExpired)), never);
}

#[test]
fn a_look_up_shows_a_tombstone_unless_money_moved_or_may_yet() {
    let shown = |charges: &str, voided: bool| {
        let body = format!(r#"{{"key":"{ID}:2","charges":[{charges}],"voided":{voided}}}"#);
        lookup(&asked(), answer(200, &body), LATER)
    };
    assert_eq!(shown("", true), Lookup::Found(Verdict::Voided));
    assert_eq!(shown(&object("declined"), true), Lookup::Found(Verdict::Voided));
    assert_eq!(shown(&object("charged"), true), Lookup::Found(as_asked()));
    let pending = Verdict::PendingAtGateway { reference: Some("ch_1".into()) };
    assert_eq!(shown(&object("pending"), true), Lookup::Found(pending));
    assert!(matches!(shown("", false), Lookup::NotFound { .. }));
}
