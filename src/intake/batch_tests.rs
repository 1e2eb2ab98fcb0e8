//! How a body is cut into payments, and what stands in the way of an atomic batch.

use super::*;

fn cut(body: &str) -> Result<(usize, Together), (Code, Option<String>)> {
    match Batch::read(body.as_bytes()) {
        Ok(batch) => Ok((batch.payments.len(), batch.together)),
        Err(problem) => Err((problem.code, problem.errors.first().map(|error| error.pointer.clone()))),
    }
}

#[test]
fn a_body_is_cut_into_its_payments() {
    assert_eq!(cut(r#"{"payments":[]}"#), Ok((0, Together::Each)));
    assert_eq!(cut(r#" {"atomic":true,"payments":[{}, {"a":[1]} ,3]} "#), Ok((3, Together::All)));
    assert_eq!(cut(r#"{"payments":[{}],"atomic":false}"#), Ok((1, Together::Each)));
    let full = format!(r#"{{"payments":[{}]}}"#, vec!["{}"; MOST_ITEMS].join(","));
    assert_eq!(cut(&full), Ok((MOST_ITEMS, Together::Each)));
}

#[test]
fn what_is_no_batch_is_refused_as_what_it_is() {
    let many = format!(r#"{{"payments":[{}]}}"#, vec!["0"; MOST_ITEMS + 1].join(","));
    for (body, code, pointer) in [
        ("", Code::MalformedJson, None),
        ("{", Code::MalformedJson, None),
        (r#"{"payments":[}"#, Code::MalformedJson, None),
        (r#"{"payments":[]}x"#, Code::MalformedJson, None),
        (r#"{"payments":[1,]}"#, Code::MalformedJson, None),
        ("[]", Code::MalformedJson, None),
        ("{}", Code::MissingField, Some("/payments")),
        (r#"{"payments":{}}"#, Code::WrongType, Some("/payments")),
        (r#"{"payments":null}"#, Code::WrongType, Some("/payments")),
        (r#"{"payments":[],"atomic":1}"#, Code::WrongType, Some("/atomic")),
        (r#"{"payments":[],"atomic":"true"}"#, Code::WrongType, Some("/atomic")),
        (r#"{"payments":[],"payments":[]}"#, Code::DuplicateField, Some("/payments")),
        (r#"{"payments":[],"4111111111111111":1}"#, Code::UnknownField, Some("/***")),
        (&many, Code::TooManyItems, Some("/payments")),
    ] {
        assert_eq!(cut(body), Err((code, pointer.map(str::to_owned))), "{:.60}", body);
    }
}

#[test]
fn a_refused_batch_points_at_every_payment_in_the_way() {
    let in_the_way = BTreeMap::from([
        (2, Problem::at(Code::WrongType, "/amount", "Expected an integer.")),
        (7, Problem::new(Code::IdempotencyKeyReused)),
    ]);
    let refused = refusal(in_the_way);
    let told: Vec<_> = refused.errors.iter().map(|error| (error.pointer.as_str(), error.code)).collect();
    assert_eq!(refused.code, Code::BatchRefused);
    assert_eq!(told, [("/payments/2/amount", Code::WrongType), ("/payments/7", Code::IdempotencyKeyReused)]);
    let not_ready = BTreeMap::from([(1, Problem::new(Code::ScheduleNotReady))]);
    assert_eq!(refusal(not_ready).code, Code::ScheduleNotReady);
}

#[test]
fn two_payments_of_a_batch_cannot_share_a_key_whatever_else_is_wrong_with_them() {
    let refused = |key: Option<&str>| Item::Refused(key.map(str::to_owned), Problem::new(Code::WrongType));
    assert!(distinct_keys(&[refused(Some("a")), refused(None), refused(None), refused(Some("b"))]).is_ok());
    let problem = distinct_keys(&[refused(Some("a")), refused(Some("b")), refused(Some("a"))]).unwrap_err();
    assert_eq!(problem.code, Code::DuplicateItemKey);
    assert_eq!(problem.errors[0].pointer, "/payments/2/idempotencyKey");
}
