//! Every cause, verdict and code has a sentence of its own.

use super::*;
use crate::domain::verdict::NotSent;
use serde_json::json;
use std::collections::BTreeSet;

fn payment() -> Payment {
    serde_json::from_value(json!({
        "paymentId": "01a2283e-8820-8aaa-9bbb-0123456789ab", "status": "PENDING", "statusReason": null,
        "amount": 1_250, "currency": "EUR", "dueAt": "2026-11-29T14:00:00Z", "gateway": "sandbox",
        "retry": {"maxSends": 6, "onSoftDecline": "retry", "onExhausted": "park"},
        "attempts": [{"attempt": 1, "epoch": 0, "outcome": null, "httpStatus": 402, "tookMs": 21}],
        "version": 1,
    }))
    .unwrap()
}

fn row(cause: &str, from: Option<&str>, to: &str, detail: Value) -> Row {
    serde_json::from_value(json!({
        "seq": 2, "from": from, "to": to, "cause": cause, "by": "worker-1", "fence": 1, "attempt": 1, "epoch": 0,
        "at": "2026-11-29T14:00:00.5Z", "detail": detail,
    }))
    .unwrap()
}

#[test]
fn every_cause_is_told_in_words_of_its_own() {
    let mut seen = BTreeSet::new();
    for cause in Cause::ALL {
        let sentence = of(&row(cause.as_str(), Some("PENDING"), "PARKED", json!({})), &payment());
        assert!(sentence.ends_with('.'), "{sentence}");
        assert!(seen.insert(sentence.clone()), "{cause:?} is told like another: {sentence}");
    }
    for other in ["fenced", "cancel_wished", "noted"] {
        let sentence = of(&row(other, Some("UNKNOWN"), "UNKNOWN", json!({})), &payment());
        assert!(seen.insert(sentence.clone()), "{sentence}");
    }
    let unknown = of(&row("teleported", Some("UNKNOWN"), "PARKED", json!({})), &payment());
    assert!(unknown.contains("does not know (teleported)"), "{unknown}");
}

#[test]
fn what_people_did_is_told_with_their_reason_and_evidence() {
    let detail = json!({"reason": "ticket 7", "evidence": {"source": "dashboard"}});
    let told = |cause: &str, to: &str| of(&row(cause, Some("PARKED"), to, detail.clone()), &payment());
    assert_eq!(
        told("resolved", "COMPLETED"),
        "worker-1 decided it with evidence: COMPLETED. Seen in: dashboard. The reason given: ticket 7."
    );
    assert_eq!(
        told("redriven", "PENDING"),
        "worker-1 released it for another try. The reason given: ticket 7."
    );
}

#[test]
fn a_late_answer_is_not_told_with_what_another_claim_met() {
    let late = json!({"verdict": "not_sent", "how": "sent", "code": "refused"});
    assert_eq!(
        of(&row("fenced", Some("PARKED"), "PARKED", late), &payment()),
        "An answer of worker-1 came too late: Nothing was sent: the gateway could not be reached. It is kept as \
         evidence and changed nothing."
    );
}

#[test]
fn every_verdict_is_told_with_what_the_gateway_answered() {
    for (detail, wanted) in [
        (
            json!({"verdict": "charged", "how": "sent", "reference": "ch_1", "amountMinor": 1_250, "currency": "EUR"}),
            "The gateway made a charge of 12.50 EUR, reference ch_1 (HTTP 402, 21 ms).",
        ),
        (
            json!({"verdict": "charged", "how": "looked_up", "reference": "ch_1", "amountMinor": 1, "currency": "JPY"}),
            "The gateway was asked and showed a charge of 1 JPY, reference ch_1 (HTTP 402, 21 ms).",
        ),
        (
            json!({"verdict": "declined", "how": "sent", "code": "lost_card"}),
            "The gateway declined (lost_card) (HTTP 402, 21 ms).",
        ),
        (
            json!({"verdict": "declined", "how": "looked_up", "code": "lost_card"}),
            "The gateway was asked and showed a decline (lost_card) (HTTP 402, 21 ms).",
        ),
        (
            json!({"verdict": "unknown", "how": "sent", "code": "timed_out"}),
            "No usable answer came from the gateway: it ran out of time (HTTP 402, 21 ms).",
        ),
        (
            json!({"verdict": "unknown", "how": "void", "code": "server_error"}),
            "The gateway was told to refuse the key and gave no usable answer (an error on its side) (HTTP 402, 21 ms).",
        ),
        (
            json!({"verdict": "voided", "how": "void"}),
            "The gateway proved that it refuses every charge under this key (HTTP 402, 21 ms).",
        ),
        (
            json!({"verdict": "contract_violation", "how": "sent", "what": "two charges"}),
            "The gateway's answer cannot be true: two charges (HTTP 402, 21 ms).",
        ),
    ] {
        assert_eq!(answered(&row("settled", Some("PROCESSING"), "UNKNOWN", detail), &payment()), wanted);
    }
    for verdict in ["in_progress", "pending_at_gateway"] {
        let told =
            answered(&row("settled", Some("PROCESSING"), "UNKNOWN", json!({"verdict": verdict})), &payment());
        assert!(!told.contains(verdict), "{told}");
    }
}

#[test]
fn every_reason_for_not_sending_is_told_and_not_its_code() {
    for why in NotSent::ALL {
        let told = not_sent(why.as_str(), "");
        assert!(!told.contains(why.as_str()) && told.ends_with('.'), "{told}");
    }
}

#[test]
fn what_an_answer_made_of_it_gives_the_reason_where_it_ends_or_waits_for_people() {
    let to = |to: &str| became(&row("settled", Some("PROCESSING"), to, json!({"reason": "declined_hard"})));
    assert_eq!(to("FAILED"), "It failed for good: The gateway refused for good.");
    assert_eq!(to("COMPLETED"), "That is its one charge.");
    assert!(to("UNKNOWN").contains("nothing is guessed"));
    let bare = became(&row("settled", Some("PROCESSING"), "PARKED", json!({})));
    assert_eq!(bare, "It was set aside for a human.");
}

#[test]
fn lateness_is_told_in_units_that_people_use() {
    for (ms, text) in [
        (0, "0 ms after its instant"),
        (999, "999 ms after its instant"),
        (61_500, "1 min 1 s after its instant"),
        (7_200_000, "2 h after its instant"),
    ] {
        assert_eq!(lateness(ms), text);
    }
}
