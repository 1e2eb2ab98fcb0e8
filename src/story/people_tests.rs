//! What people did, and what may be done now.

use super::super::told;
use super::*;
use serde_json::json;

fn payment(status: &str) -> Payment {
    told::payment(json!({
        "paymentId": "01a2283e-8820-8aaa-9bbb-0123456789ab", "status": status, "statusReason": null,
        "amount": 1_250, "currency": "EUR", "dueAt": "2026-11-29T14:00:00Z", "gateway": "sandbox",
        "gatewayReference": "ch_1", "retry": {"maxSends": 6, "onSoftDecline": "retry", "onExhausted": "park"},
        "version": 1,
    }))
    .unwrap()
}

fn noted(to: &str, detail: Value) -> Row {
    serde_json::from_value(json!({
        "seq": 4, "from": "COMPLETED", "to": to, "cause": "noted", "by": "worker-1", "fence": 1, "attempt": 1,
        "epoch": 0, "at": "2026-11-29T14:00:00Z", "detail": detail,
    }))
    .unwrap()
}

#[test]
fn money_given_back_is_told_with_who_asked_who_allowed_and_the_sum() {
    let by_worker = json!({"refund": "f-1", "refundReference": "re_1", "amount": 500, "currency": "EUR",
        "refundedInSum": 700, "reason": "sent back", "askedBy": "key:alice", "approvedBy": "key:bob"});
    assert_eq!(
        given_back(&noted("COMPLETED", by_worker.clone()), "worker-1", " The reason given: sent back."),
        "worker-1 had 5.00 EUR given back (the gateway's re_1), asked for by key:alice and allowed by key:bob. In sum \
         7.00 EUR of this charge are given back. The reason given: sent back."
    );
    let whole = given_back(&noted("REFUNDED", by_worker), "worker-1", "");
    assert!(whole.ends_with("With that all of the charge is given back."), "{whole}");
    let evidence = json!({"source": "dashboard"});
    let by_people = json!({"refund": "f-1", "resolved": "refunded", "refundReference": "re_1", "amount": 400,
        "currency": "EUR", "refundedInSum": 400, "evidence": evidence, "approvedBy": "key:bob"});
    assert_eq!(
        given_back(&noted("COMPLETED", by_people), "key:alice", ""),
        "key:alice found in dashboard that a refund of 4.00 EUR (the gateway's re_1) was made, and key:bob agreed. In \
         sum 4.00 EUR of this charge are given back."
    );
    let never = json!({"refund": "f-1", "resolved": "not_refunded", "amount": 400, "currency": "EUR",
        "refundedInSum": 0, "evidence": evidence, "approvedBy": "key:bob"});
    assert_eq!(
        given_back(&noted("COMPLETED", never), "key:alice", ""),
        "key:alice found in dashboard that a refund of 4.00 EUR was not made and never will be, and key:bob agreed."
    );
}

#[test]
fn every_state_says_what_may_be_done() {
    for status in Status::ALL {
        let lines = now(&payment(status.as_str()), &Operators::default());
        assert!(!lines.is_empty() && lines.iter().all(|line| line.ends_with('.')), "{status:?}: {lines:?}");
    }
}

#[test]
fn a_parked_payment_says_which_acts_are_possible_to_who_may_see_them() {
    let parked = json!({"may": [
        {"act": "redrive", "possible": true, "needsApproval": false},
        {"act": "redrive_new_epoch", "possible": false, "explanation": "A send is open."},
    ], "approval": {"approvalId": "a-1", "kind": "redrive", "askedBy": "key:alice", "reason": "ticket 7",
        "askedAt": "2026-11-29T15:00:00.123456Z"}});
    let operators = Operators { parked: Some(parked), ..Operators::default() };
    let lines = now(&payment("PARKED"), &operators);
    let id = "01a2283e-8820-8aaa-9bbb-0123456789ab";
    assert_eq!(
        lines[0],
        format!(
            "An operator may release it for another try (`punctual parked redrive {id} --reason TEXT`): yes."
        )
    );
    assert_eq!(
        lines[1],
        format!(
            "An operator may release it under a new gateway key (`punctual parked redrive {id} --new-epoch --reason \
             TEXT`): no: A send is open."
        )
    );
    let charged = format!(
        "`punctual parked resolve {id} --as charged --gateway-reference ch_1 --amount 1250 --currency EUR --source TEXT \
         --reason TEXT`): no."
    );
    assert!(lines[2].ends_with(&charged), "{lines:?}");
    assert_eq!(
        lines[4],
        "A second person is waited for: key:alice asked at 2026-11-29T15:00:00Z for redrive (ticket 7); `punctual \
         approvals show a-1`."
    );
    assert!(
        lines[5].ends_with(&format!("`punctual refund create {id} --gateway-reference ch_1`.")),
        "{lines:?}"
    );
}

#[test]
fn a_refund_that_waits_for_people_is_told_with_the_way_to_close_it() {
    let waits = json!({"refundId": "f-1", "status": "unknown", "amount": 500, "currency": "EUR", "needsHuman": true,
        "askedBy": "key:alice", "approvedBy": "key:bob", "reason": "sent back", "explanation": "It may have happened."});
    let operators = Operators { refunds: vec![waits], ..Operators::default() };
    assert_eq!(
        refunds(&operators),
        [
            "Refund f-1 of 5.00 EUR: unknown. Asked for by key:alice, allowed by key:bob (sent back). It may have \
          happened. It waits for people."
        ]
    );
    let lines = now(&payment("COMPLETED"), &operators);
    assert!(lines[1].contains("punctual refund resolve f-1"), "{lines:?}");
}

#[test]
fn a_charge_of_another_amount_leads_to_a_refund_and_in_no_circle() {
    let no = |act: &str, why: &str| json!({"act": act, "possible": false, "whyNot": why, "explanation": why});
    let record = json!({"paymentId": "p-1", "gatewayReference": "ch_1", "may": [
        no("redrive", "charge_on_record"), no("redrive_new_epoch", "charge_on_record"),
        no("resolve_charged", "amount_differs"), no("resolve_not_charged", "charge_on_record"),
    ]});
    let command = "`punctual refund create p-1 --gateway-reference ch_1 --reason TEXT`";
    for (act, ..) in ACTS {
        assert!(may(&record, act).ends_with(&format!("refund it: {command}.")), "{}", may(&record, act));
    }
    assert_eq!(refund(&record), format!("yes, with a second person: {command}"));
    let fits = json!({"paymentId": "p-1", "gatewayReference": null, "may": [
        no("redrive", "charge_on_record"), {"act": "resolve_charged", "possible": true},
    ]});
    assert_eq!(may(&fits, "redrive"), "no: charge_on_record", "it can be resolved as charged");
    assert!(refund(&fits).contains("--gateway-reference REFERENCE"), "{}", refund(&fits));
    let open = json!({"may": [no("redrive_new_epoch", "open_send")]});
    assert_eq!(refund(&open), "no: No answer on record says that it was charged.");
}
