//! The shapes of the people's routes: what is sent, and what is answered.

use super::shapes::{Named, count, list, object, of, or_null, text, time};
use crate::domain::parked::{Act, WhyNot};
use crate::domain::refund::RefundStatus;
use crate::domain::switches::SwitchKind;
use crate::intake::actor::Scope;
use crate::intake::api_keys::LONGEST_OVERLAP;
use crate::schedule::ApprovalKind;
use serde_json::{Value, json};

/// Every one by its name.
pub(super) fn schemas() -> Named {
    [parked(), bulk(), approvals(), refunds(), gateways(), quarantine(), access(), orders(), keys_asked_for()]
        .concat()
}

pub(super) fn uuid() -> Value {
    json!({"type": "string", "format": "uuid"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn amount() -> Value {
    json!({"type": "integer", "minimum": 1})
}

/// Minor units that may be owed either way.
pub(super) fn of_either_sign() -> Value {
    json!({"type": "integer"})
}

/// A number for each of some names.
pub(super) fn count_map() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "integer"}})
}

/// A day of UTC.
pub(super) fn date() -> Value {
    json!({"type": "string", "format": "date"})
}

/// One of these texts.
pub(super) fn one_of(texts: impl IntoIterator<Item = &'static str>) -> Value {
    json!({"type": "string", "enum": texts.into_iter().collect::<Vec<_>>()})
}

pub(super) fn page(of_what: &str) -> Value {
    let page = json!({"data": list(of(of_what)), "nextCursor": or_null(text())});
    object("A page; the walk goes on while nextCursor is a text.", page, &[])
}

fn or_no(name: &str) -> Value {
    json!({"oneOf": [of(name), {"type": "null"}]})
}

fn parked() -> Named {
    let entry = json!({
        "paymentId": of("PaymentId"), "parkedReason": of("Reason"), "parkedAt": time(),
        "actorId": or_null(uuid()), "actor": or_null(text()), "gateway": or_null(text()),
        "amount": or_null(amount()), "currency": or_null(text()),
        "dueDay": {"type": "string", "format": "date"},
    });
    let may = json!({
        "act": one_of(Act::ALL.into_iter().map(Act::as_str)),
        "possible": flag(),
        "becomes": {"oneOf": [of("Status"), {"type": "null"}]},
        "needsApproval": flag(),
        "whyNot": {"oneOf": [one_of(WhyNot::ALL.iter().map(|why| why.as_str())), {"type": "null"}]},
        "explanation": or_null(text()),
    });
    let attempt = json!({
        "attempt": {"type": "integer", "minimum": 1}, "epoch": count(), "fence": count(), "worker": text(),
        "claimedAt": time(), "settledAt": or_null(time()), "outcome": or_null(text()), "code": or_null(text()),
        "httpStatus": {"type": ["integer", "null"]}, "tookMs": {"type": ["integer", "null"]},
        "note": or_null(text()), "late": flag(),
    });
    let record = json!({
        "paymentId": of("PaymentId"), "status": of("Status"), "statusReason": or_no("Reason"),
        "parkedReason": or_no("Reason"), "explanation": or_null(text()), "parkedAt": or_null(time()),
        "actorId": uuid(), "actor": or_null(text()), "externalId": or_null(text()),
        "gateway": text(), "gatewayAccount": or_null(text()), "gatewayReference": or_null(text()),
        "amount": amount(), "currency": text(), "dueAt": time(), "executeBefore": or_null(time()),
        "nextAttemptAt": or_null(time()), "cancelRequestedAt": or_null(time()),
        "epoch": count(), "keyFirstSentAt": or_null(time()), "openSends": count(), "sends": count(),
        "maxSends": count(), "version": {"type": "integer", "minimum": 1},
        "evidence": {"description": "What was written down when it was parked; null where it never was."},
        "attempts": list(object("One claim and what came of it.", attempt, &[])),
        "may": list(object("An act, and whether it is possible now: advice, the act decides again.", may, &[])),
        "approval": or_no("Approval"),
    });
    vec![
        ("ParkedEntry", object("A parked payment.", entry, &[])),
        ("ParkedPage", page("ParkedEntry")),
        ("ParkedRecord", object("Everything that is known of one payment.", record, &[])),
    ]
}

fn filter(about: &str) -> Value {
    let fields = json!({
        "reason": of("Reason"),
        "gateway": {"type": "string", "pattern": "^[a-z0-9_-]{1,64}$"},
        "actor": {"type": "string", "minLength": 1, "maxLength": 100},
        "dueFrom": time(), "dueTo": time(),
        "q": {"type": "string", "minLength": 1, "maxLength": 2000},
    });
    object(about, fields, &["reason", "gateway", "actor", "dueFrom", "dueTo", "q"])
}

fn bulk() -> Named {
    let counts = || json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let preview =
        json!({"count": count(), "byReason": counts(), "amounts": counts(), "needsApproval": count()});
    let bulk = json!({
        "bulkId": uuid(), "status": one_of(["stopped", "running", "done"]), "askedBy": text(),
        "reason": text(), "filter": filter("All conditions hold at once."), "ratePerS": amount(),
        "preview": object("What it would look at, when it was made.", preview, &[]),
        "createdAt": time(), "startedAt": or_null(time()), "finishedAt": or_null(time()), "outcomes": counts(),
    });
    let new = json!({
        "filter": filter("Which payments: all conditions hold at once; an empty one is all that are parked."),
        "ratePerS": {"type": "integer", "minimum": 1, "maximum": 500},
        "reason": reason(),
    });
    vec![
        ("BulkRedrive", object("A bulk re-drive.", bulk, &[])),
        ("NewBulkRedrive", object("A bulk re-drive to be prepared.", new, &[])),
    ]
}

fn approvals() -> Named {
    let approval = json!({
        "approvalId": uuid(), "kind": one_of(ApprovalKind::ALL.iter().map(|kind| kind.as_str())),
        "paymentId": or_no("PaymentId"),
        "status": one_of(["pending", "approved", "rejected", "expired"]),
        "askedBy": text(), "reason": text(), "request": {"type": "object"}, "askedAt": time(),
        "expiresAt": time(), "decidedBy": or_null(text()), "decidedReason": or_null(text()),
        "decidedAt": or_null(time()),
    });
    let act = json!({
        "id": {"type": "integer", "minimum": 1}, "at": time(), "operator": text(), "act": text(),
        "subject": text(), "reason": text(), "detail": {},
    });
    vec![
        ("Approval", object("What one person asked for and a second one decides.", approval, &[])),
        ("ApprovalPage", page("Approval")),
        ("Act", object("What a person did.", act, &[])),
        ("ActPage", page("Act")),
    ]
}

fn refunds() -> Named {
    let refund = json!({
        "refundId": uuid(), "paymentId": of("PaymentId"),
        "status": one_of(RefundStatus::ALL.iter().map(|status| status.as_str())), "explanation": text(),
        "needsHuman": flag(), "gateway": text(), "gatewayReference": text(), "amount": amount(),
        "currency": text(), "refundReference": or_null(text()), "code": or_null(text()),
        "note": or_null(text()), "reason": text(), "askedBy": text(), "askedAt": time(),
        "expiresAt": or_null(time()), "approvalId": uuid(), "approvedBy": or_null(text()),
        "approvedAt": or_null(time()), "nextAttemptAt": or_null(time()), "attempts": count(),
        "openSends": count(), "finishedAt": or_null(time()), "givenBack": or_null(amount()),
        "resolvedBy": or_null(text()), "resolvedApprovalId": or_null(uuid()),
        "evidence": {"type": ["object", "null"]},
    });
    vec![("Refund", object("A refund.", refund, &[])), ("RefundPage", page("Refund"))]
}

fn problems() -> Value {
    let problem = json!({
        "check": text(), "level": one_of(["unseen", "warn", "bad"]), "saw": text(), "means": text(), "fix": text(),
        "runbook": or_null(text()),
    });
    let one = object("What was seen, what it does to payments, and what mends it.", problem, &[]);
    object("What is not fine.", json!({"data": list(one)}), &[])
}

fn gateways() -> Named {
    let kinds = || one_of(SwitchKind::ALL.into_iter().map(SwitchKind::as_str));
    let paused =
        or_null(object("Who paused it.", json!({"by": text(), "reason": text(), "since": time()}), &[]));
    let breaker =
        json!({"state": text(), "until": or_null(time()), "cause": or_null(text()), "trips": count()});
    let rate = json!({
        "configured": count(), "limit": or_null(count()), "heldNow": count(), "chargesFreeAt": time(),
        "lookupsFreeAt": time(),
    });
    let worker = json!({"worker": text(), "heardAt": time(), "demand": count(), "slots": count()});
    let profile = json!({
        "account": text(), "callsPerSecond": count(), "lookupSharePerCent": count(), "maxInFlight": count(),
        "keyTtlS": count(), "looksUp": flag(), "replaysDeclines": flag(), "comparesBody": flag(),
        "takesCallbacks": flag(),
    });
    let switch = json!({"kind": kinds(), "value": text()});
    let gateway = json!({
        "gateway": text(), "account": text(),
        "status": one_of(["killed", "paused", "broken", "probing", "asked_to_wait", "open"]),
        "paused": paused,
        "killSwitches": list(object("One that stops all or some of it.", switch, &[])),
        "breaker": object("Whether it is called at all.", breaker, &[]),
        "askedToWaitUntil": or_null(time()),
        "rate": or_null(object("Calls a second; null without a configured rate.", rate, &[])),
        "calls": object("Of all workers.", json!({"lastTenSeconds": count(), "failed": count()}), &[]),
        "inFlight": count(),
        "workers": list(object("One of its workers.", worker, &[])),
        "voidsByKey": flag(), "refunds": flag(),
        "profile": or_null(object("As this process is configured; null if for another one.", profile, &[])),
    });
    let thrown = json!({
        "kind": kinds(), "value": text(), "on": {"const": true}, "actor": or_null(text()), "by": text(),
        "reason": text(), "since": time(),
    });
    let released = json!({"kind": kinds(), "value": text(), "on": {"const": false}});
    vec![
        ("Gateway", object("How one gateway account stands.", gateway, &[])),
        ("ProblemList", problems()),
        ("GatewayList", object("All of them.", json!({"data": list(of("Gateway"))}), &[])),
        ("KillSwitch", object("A switch that is thrown.", thrown, &[])),
        ("KillSwitchList", object("All that are thrown.", json!({"data": list(of("KillSwitch"))}), &[])),
        ("KillSwitchTurned", {
            json!({"oneOf": [of("KillSwitch"), object("A switch that is not thrown.", released, &[])]})
        }),
    ]
}

fn access() -> Named {
    let key = json!({
        "keyId": uuid(), "actor": text(), "name": text(), "hint": text(), "scopes": list(text()),
        "createdAt": time(), "expiresAt": or_null(time()), "revokedAt": or_null(time()),
        "lastUsedAt": or_null(time()),
    });
    let replaced = object("The one before.", json!({"keyId": uuid(), "endsAt": time()}), &[]);
    let made = json!({
        "apiKey": text(), "keyId": uuid(), "actorId": uuid(), "actor": text(), "name": text(),
        "scopes": list(text()), "expiresAt": or_null(time()), "replaces": replaced,
    });
    let cap = json!({
        "currency": text(), "amount": or_null(count()), "payments": or_null(count()), "amountToday": count(),
        "paymentsToday": count(), "setAt": time(),
    });
    let caps = json!({"actor": text(), "caps": list(object("A cap; null: none of this kind.", cap, &[]))});
    vec![
        ("ApiKey", object("A key, without its text.", key, &[])),
        ("ApiKeyPage", page("ApiKey")),
        ("ApiKeyMade", object("A new key.", made, &["replaces"])),
        ("ApiKeyRevoked", object("It has ended.", json!({"keyId": uuid(), "revokedAt": time()}), &[])),
        ("ActorCaps", object("What an actor may create on one day, and did today.", caps, &[])),
    ]
}

fn quarantine() -> Named {
    let day = json!({"type": "string", "format": "date"});
    let lack = json!({
        "lack": one_of([
            "day_not_over", "day_not_compared", "later_day_not_over", "later_day_not_compared", "open_repairs",
            "no_gateway_known",
        ]),
        "gateway": text(), "day": day, "items": or_null(count()), "askableFrom": or_null(time()),
        "partlySeenAt": or_null(time()), "explanation": text(),
    });
    let kind = one_of(["lineage", "notice", "event", "log", "person"]);
    let found = json!({"at": time(), "kind": kind, "paymentId": or_null(uuid()), "what": text()});
    let asked =
        json!({"by": text(), "at": time(), "standsUntil": time(), "reason": text(), "anyway": flag()});
    let released = json!({"by": text(), "at": time(), "reason": text(), "overridden": {}});
    let or_none = |about, shape| json!({"oneOf": [object(about, shape, &[]), {"type": "null"}]});
    let one = json!({
        "quarantine": count(), "since": time(), "kind": kind, "reason": text(), "lostFrom": time(),
        "lostFromBy": or_null(text()), "provenFrom": or_null(time()),
        "releasedLineage": text(), "foundLineage": text(), "evidenceCount": count(),
        "asked": or_none("The first person's word.", asked), "released": or_none("How it ended.", released),
    });
    let standing = json!({
        "quarantined": flag(), "advice": text(), "releasableFrom": or_null(time()), "refundsHeld": list(text()),
        "lacks": list(object("What is missing before the release.", lack, &[])),
        "evidence": list(object("What was found of the newest.", found, &[])),
        "data": list(object("One quarantine.", one, &[])),
    });
    let order = json!({"reason": reason(), "lostFrom": time()});
    let release = json!({
        "reason": reason(),
        "anyway": {"type": "boolean", "default": false, "description": "Although something is missing."},
    });
    vec![
        ("QuarantineStanding", object("Whether claims are held, and why.", standing, &[])),
        ("QuarantineOrder", object("That commits may be lost, and since when.", order, &["lostFrom"])),
        ("QuarantineRelease", object("That claims may go on.", release, &["anyway"])),
    ]
}

pub(super) fn reason() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": 500, "pattern": LINE,
        "description": "Why; kept for good, and without card numbers.", "examples": ["the gateway is back"],
    })
}

/// One line that is not blank.
const LINE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$";

fn line(most: u32) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": most, "pattern": LINE})
}

/// What people order.
fn orders() -> Named {
    let version =
        json!({"type": "integer", "description": "Refused if anything was written since this version."});
    let redrive = json!({
        "reason": reason(), "version": version,
        "newEpoch": {"type": "boolean", "default": false, "description": "Under a new gateway key."},
    });
    let evidence = json!({
        "source": line(100), "gatewayReference": line(255), "amount": {"type": "integer"},
        "currency": line(3), "note": line(500),
    });
    let evidence = object("What says so.", evidence, &["gatewayReference", "amount", "currency", "note"]);
    let resolve = json!({
        "reason": reason(), "as": one_of(["charged", "not_charged"]), "evidence": evidence, "version": version,
    });
    let word = json!({
        "reason": reason(), "as": one_of(["refunded", "not_refunded"]), "evidence": evidence,
    });
    let refund = json!({
        "paymentId": of("PaymentId"), "gatewayReference": line(255), "reason": reason(),
        "amount": {
            "type": "integer", "minimum": 1, "description": "Minor units; without it all that is left.",
        },
    });
    let rate = json!({"reason": reason(), "callsPerSecond": {"type": "integer"}});
    let switch = json!({
        "reason": reason(), "on": {"type": "boolean", "description": "true: nothing is charged any more."},
    });
    vec![
        ("ActReason", object("Why.", json!({"reason": reason()}), &[])),
        ("Redrive", object("How a payment is released.", redrive, &["newEpoch", "version"])),
        ("Resolve", object("How a payment ended.", resolve, &["version"])),
        ("NewRefund", object("What to give back.", refund, &["amount"])),
        ("RefundWord", object("What became of a refund.", word, &[])),
        ("GatewayRate", object("The rate to hold it to.", rate, &["callsPerSecond"])),
        ("KillSwitchOrder", object("Off, or on again.", switch, &[])),
    ]
}

fn keys_asked_for() -> Named {
    let scopes = json!({
        "type": "array", "minItems": 1, "maxItems": 32, "items": one_of(Scope::ALL.map(Scope::as_str)),
    });
    let new = json!({
        "actor": line(100), "name": line(100), "scopes": scopes, "expiresAt": time(), "reason": reason(),
    });
    let rotation = json!({
        "reason": reason(), "expiresAt": time(),
        "overlapSeconds": {
            "type": "integer", "minimum": 0, "maximum": LONGEST_OVERLAP.as_secs(), "default": 86_400,
        },
    });
    let cap = json!({
        "reason": reason(), "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "amount": {"type": "integer", "minimum": 0, "maximum": i64::MAX, "description": "Minor units."},
        "payments": {"type": "integer", "minimum": 0, "maximum": i32::MAX},
    });
    vec![
        ("NewApiKey", object("A key to be made; its actor too, if it is new.", new, &["name", "expiresAt"])),
        ("ApiKeyRotation", object("The successor.", rotation, &["overlapSeconds", "expiresAt"])),
        ("ActorCap", object("A cap of one currency.", cap, &["amount", "payments"])),
    ]
}
