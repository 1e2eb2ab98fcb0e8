//! `executeWithin`: what may be asked for, what an installation's own window adds, and what counts as
//! the same request.

use super::canonical::digests;
use super::problem::{Code, Problem};
use super::rules::{Request, Terms};
use super::wire::Draft;
use crate::domain::ids::{ActorId, GatewayName};
use crate::domain::window::Window;
use crate::schedule::Actor;
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

const ACTOR: ActorId = ActorId(Uuid::from_u128(7));

fn terms(seconds: i64) -> Terms {
    Terms {
        horizon: Duration::from_secs(365 * 86_400),
        due_grace: Duration::ZERO,
        max_amount_minor: 1_000_000,
        gateways: vec![GatewayName("sandbox".into())],
        execute_within: Window::of_seconds(seconds),
    }
}

/// Due at nine, with these fields more.
fn request(more: &Value) -> Result<Request, Problem> {
    let mut body = json!({"payee": "a", "amount": 1, "currency": "EUR", "dueAt": "2030-01-31T09:00:00Z"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let actor = Actor { id: ACTOR, default_currency: None, default_gateway: None };
    Request::with_defaults(Draft::read(body.to_string().as_bytes())?, &actor, &terms(0))
}

/// The window in seconds, or every broken rule.
fn judged(more: &Value, usual_s: i64) -> Result<Option<i32>, Vec<(String, Code)>> {
    let request = request(more).unwrap_or_else(|problem| panic!("{:?}", problem.code));
    let told = |problem: Problem| problem.errors.iter().map(|it| (it.pointer.clone(), it.code)).collect();
    let allowed = request.judge(&terms(usual_s), "2030-01-01T00:00:00Z".parse().unwrap());
    allowed.map(|it| it.execute_within.map(Window::seconds)).map_err(|broken| told(broken.problem()))
}

#[test]
fn a_window_is_whole_seconds_up_to_a_day_and_none_asks_for_none() {
    for (seconds, window) in [(0, None), (1, Some(1)), (86_400, Some(86_400))] {
        assert_eq!(judged(&json!({"executeWithin": seconds}), 0), Ok(window));
    }
    for seconds in [-1, 86_401, i64::MAX, i64::MIN] {
        let told = judged(&json!({"executeWithin": seconds}), 0);
        assert_eq!(told, Err(vec![("/executeWithin".into(), Code::OutOfRange)]), "{seconds}");
    }
    for wrong in [json!("PT5M"), json!("300"), json!(1.5), json!(null), json!(true)] {
        let refused = request(&json!({"executeWithin": wrong})).err().unwrap();
        assert_eq!(
            (refused.code, &*refused.errors[0].pointer),
            (Code::WrongType, "/executeWithin"),
            "{wrong}"
        );
    }
}

#[test]
fn a_deadline_leaves_room_for_the_whole_window() {
    for (deadline, fine) in [
        ("2030-01-31T09:05:00Z", true),
        ("2030-01-31T09:04:59.999999Z", false),
        ("2030-01-31T09:00:00.000001Z", false),
    ] {
        let told = judged(&json!({"executeWithin": 300, "executeBefore": deadline}), 0);
        let refused = Err(vec![("/executeBefore".into(), Code::ExecuteBeforeWithinWindow)]);
        assert_eq!(told, if fine { Ok(Some(300)) } else { refused }, "{deadline}");
    }
    let told = judged(&json!({"executeWithin": 300, "executeBefore": "2030-01-31T08:00:00Z"}), 0);
    assert_eq!(told, Err(vec![("/executeBefore".into(), Code::ExecuteBeforeNotAfterDue)]), "told once");
}

#[test]
fn the_installations_window_is_for_those_who_name_none_and_ends_by_the_deadline() {
    for (more, window) in [
        (json!({}), Some(600)),
        (json!({"executeWithin": 0}), None),
        (json!({"executeWithin": 30}), Some(30)),
        (json!({"executeBefore": "2030-01-31T09:10:00Z"}), Some(600)),
        (json!({"executeBefore": "2030-01-31T09:02:00.9Z"}), Some(120)),
        (json!({"executeBefore": "2030-01-31T09:00:00.9Z"}), None),
    ] {
        assert_eq!(judged(&more, 600), Ok(window), "{more}");
    }
}

#[test]
fn a_window_is_part_of_what_was_asked_and_an_installations_is_not() {
    let of = |more: &Value| digests(&[9; 32], ACTOR, &request(more).ok().unwrap());
    let (without, none, some) =
        (of(&json!({})), of(&json!({"executeWithin": 0})), of(&json!({"executeWithin": 60})));
    assert_ne!(without.request_hash, some.request_hash);
    assert_ne!(none.request_hash, some.request_hash);
    assert_eq!(some.request_hash, of(&json!({"executeWithin": 60})).request_hash);
    assert_ne!(some.fields.get("/executeWithin"), none.fields.get("/executeWithin"));
    // Whatever `gateway.execute_within` is at the repetition: it is not asked here at all.
    assert_eq!(without.fields.get("/executeWithin"), None);
}
