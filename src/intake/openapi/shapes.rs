//! The shapes of the document: what is sent, what is answered, and the headers of both.
//!
//! An answer has no field beside those that stand here, so that the contract tests notice one that is new.

use super::{desk_payments, desk_reconcile, desk_shapes, webhook_shapes};
use crate::domain::currencies::CURRENCIES;
use crate::domain::event_type::EventType;
use crate::domain::reason::Reason;
use crate::domain::state::Status;
use crate::intake::problem::Code;
use serde_json::{Map, Value, json};

pub(super) const ABOUT: &str = "Punctual makes exactly one charge at or after the instant that a client names. \
    Times are RFC 3339 with an offset and answered in UTC; amounts are integers of minor units. Unknown, repeated \
    and null fields are refused. A request that creates carries a key of the client's own and can be repeated \
    under it. Refusals are problem documents (RFC 9457) with a stable `code`, and every answer carries \
    `Request-Id`; where a limit of requests is set, `RateLimit-Policy` and `RateLimit` say how much of it is left. \
    What an operator does has a `reason`, which is kept for good. A path that is not listed answers 404 `route_not_found`, another method 405 `method_not_allowed`.";

/// The groups of operations.
pub(super) fn tags() -> Value {
    json!([
        {"name": "payments", "description": "Scheduled payments of the client whose key asks."},
        {"name": "events", "description": "What happened to them, as it happens."},
        {"name": "webhooks", "description": "Where the client is told of them by requests of ours, and what came of those."},
        {"name": "operations", "description": "What concerns all clients together."},
        {"name": "parked", "description": "Payments that are held for people, and what people do about them."},
        {"name": "approvals", "description": "What one person may not do alone."},
        {"name": "refunds", "description": "Money that is given back."},
        {"name": "gateways", "description": "Payment gateways: how they stand, what stops them, and what they call."},
        {"name": "reconciliation", "description": "Our ledger against the gateway's own, and what differs."},
        {"name": "access", "description": "API keys and caps."},
        {"name": "about", "description": "The interface itself."},
    ])
}

/// Headers of answers.
pub(super) fn headers() -> Value {
    let text = |about: &str| json!({"description": about, "schema": {"type": "string"}});
    json!({
        "Request-Id": {
            "description": "The request's own, if it sent a sane one; else a fresh one.",
            "required": true,
            "schema": {"type": "string", "minLength": 1, "maxLength": 64},
        },
        "ETag": text("Names the version that was answered, for If-None-Match."),
        "Location": text("Path of the payment."),
        "Idempotent-Replayed": {
            "description": "There if the payment was created by an earlier request under this key.",
            "schema": {"type": "string", "const": "true"},
        },
        "Retry-After": {
            "description": "Whole seconds; there wherever the same request can help later.",
            "schema": {"type": "integer", "minimum": 0},
        },
        "RateLimit-Policy": text("Each limit that counts this request, as draft-ietf-httpapi-ratelimit-headers has it."),
        "RateLimit": text("What is left of each."),
        "WWW-Authenticate": text("How to authenticate, or which scope is missing."),
        "Content-Security-Policy": text("Nothing is loaded from elsewhere."),
    })
}

/// An object with exactly these fields, of which `optional` may be missing.
pub(super) fn object(about: &str, properties: Value, optional: &[&str]) -> Value {
    let names =
        properties.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let required: Vec<String> = names.into_iter().filter(|name| !optional.contains(&name.as_str())).collect();
    json!({
        "type": "object", "description": about, "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// With the fields of another object before its own.
fn extended(base: &Value, about: &str, more: Value, without: &[&str]) -> Value {
    let (mut properties, mut optional) = (Map::new(), Vec::new());
    let required = base["required"].as_array().cloned().unwrap_or_default();
    for (name, schema) in base["properties"].as_object().into_iter().flatten() {
        if !without.contains(&name.as_str()) {
            properties.insert(name.clone(), schema.clone());
            if !required.contains(&Value::from(name.as_str())) {
                optional.push(name.clone());
            }
        }
    }
    properties.extend(more.as_object().cloned().unwrap_or_default());
    let optional: Vec<&str> = optional.iter().map(String::as_str).collect();
    object(about, Value::Object(properties), &optional)
}

pub(super) fn of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub(super) fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

pub(super) fn or_null(mut schema: Value) -> Value {
    let kind = schema["type"].take();
    schema["type"] = json!([kind, "null"]);
    schema
}

pub(super) fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

pub(super) fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn hash() -> Value {
    json!({"type": "string", "pattern": "^[0-9a-f]{64}$"})
}

/// Every schema by its name.
pub(super) fn schemas() -> Map<String, Value> {
    let mut all = Map::new();
    let own = [named(), payments(), requests(), histories(), others()].into_iter().flatten();
    let desk =
        desk_shapes::schemas().into_iter().chain(desk_payments::schemas()).chain(desk_reconcile::schemas());
    for (name, schema) in own.chain(desk).chain(webhook_shapes::schemas()) {
        all.insert(name.to_owned(), schema);
    }
    all
}

pub(super) type Named = Vec<(&'static str, Value)>;

fn named() -> Named {
    let statuses: Vec<&str> = Status::ALL.iter().map(|it| it.as_str()).collect();
    let reasons: Vec<&str> = Reason::ALL.iter().map(|it| it.as_str()).collect();
    let events: Vec<&str> = EventType::ALL.iter().map(|it| it.as_str()).collect();
    let codes: Vec<&str> = Code::ALL.iter().map(|it| it.as_str()).collect();
    let id = "^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
    let error = json!({
        "pointer": {"type": "string", "description": "JSON pointer into the body, or into the query as an object."},
        "code": of("Code"),
        "detail": text(),
    });
    let problem = json!({
        "type": {"type": "string", "description": "Path of the page that explains the code."},
        "title": text(),
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": text(),
        "instance": text(),
        "code": of("Code"),
        "retryable": {"type": "boolean", "description": "The same request, under the same key, may succeed later."},
        "requestId": text(),
        "errors": list(of("FieldError")),
        "paymentId": of("PaymentId"),
        "paymentStatus": of("Status"),
        "differs": list(text()),
    });
    vec![
        ("PaymentId", json!({"type": "string", "format": "uuid", "pattern": id})),
        ("Status", json!({"type": "string", "enum": statuses})),
        ("Reason", json!({"type": "string", "enum": reasons})),
        ("EventType", json!({"type": "string", "enum": events})),
        ("Code", json!({"type": "string", "enum": codes})),
        ("FieldError", object("A rule that is broken, at one place of the request.", error, &[])),
        ("Problem", {
            let optional = ["errors", "paymentId", "paymentStatus", "differs"];
            object("A refusal (RFC 9457).", problem, &optional)
        }),
        ("OpenApi", json!({"type": "object", "required": ["openapi", "info", "paths"]})),
    ]
}

fn retry() -> Value {
    json!({
        "maxSends": {"type": "integer", "minimum": 1, "maximum": 6},
        "onSoftDecline": {"type": "string", "enum": ["retry", "fail"]},
        "onExhausted": {"type": "string", "enum": ["park", "fail"]},
    })
}

fn payments() -> Named {
    let wished = json!({
        "paymentId": of("PaymentId"),
        "status": of("Status"),
        "payee": text(),
        "amount": {"type": "integer", "minimum": 1},
        "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "dueAt": time(),
        "executeBefore": or_null(time()),
        "executeWithin": {"type": "integer", "minimum": 1, "maximum": 86_400},
        "gateway": text(),
        "externalId": or_null(text()),
        "description": or_null(text()),
        "metadata": {"type": "object", "additionalProperties": text()},
        "retry": object("What becomes of refused charges.", retry(), &[]),
        "createdAt": time(),
        "version": {"type": "integer", "minimum": 1},
    });
    let created =
        object("A payment as it was created: the same bytes in every answer.", wished, &["executeWithin"]);
    let standing = json!({
        "statusReason": {"oneOf": [of("Reason"), {"type": "null"}]},
        "updatedAt": time(),
        "nextAttemptAt": or_null(time()),
        "cancelRequestedAt": or_null(time()),
        "gatewayReference": or_null(text()),
    });
    let summary = extended(&created, "A payment as it stands.", standing, &[]);
    let more = json!({
        "latenessMs": {
            "type": ["integer", "null"],
            "description": "From the planned first try to the first claim; null before.",
        },
        "attempts": list(of("Attempt")),
    });
    let payment = extended(&summary, "A payment as it stands, with its attempts.", more, &[]);
    let attempt = json!({
        "attempt": {"type": "integer", "minimum": 1},
        "epoch": count(),
        "claimedAt": time(),
        "settledAt": or_null(time()),
        "outcome": or_null(text()),
        "code": or_null(text()),
        "httpStatus": {"type": ["integer", "null"]},
        "tookMs": {"type": ["integer", "null"]},
        "late": {"type": "boolean", "description": "The answer came after somebody else had the claim."},
    });
    let page = json!({"data": list(of("PaymentSummary")), "nextCursor": or_null(text())});
    vec![
        ("PaymentCreated", created),
        ("PaymentSummary", summary),
        ("Payment", payment),
        ("Attempt", object("One claim and what came of it.", attempt, &[])),
        ("PaymentPage", object("A page; the walk goes on while nextCursor is a text.", page, &[])),
    ]
}

/// What a create takes.
fn new_payment() -> Value {
    let line = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";
    let lines = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$";
    let current = CURRENCIES.iter().filter(|it| it.withdrawn_on.is_none());
    let currencies: Vec<&str> = current.map(|it| it.code).collect();
    let wanted = json!({
        "payee": {
            "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*[!-~][ -~]*$",
            "description": "A token that names the destination; a card number is refused.",
            "examples": ["acct_shop"],
        },
        "amount": {
            "type": "integer", "minimum": 1, "maximum": i64::MAX,
            "description": "Minor units; an installation has a limit of its own.", "examples": [1250],
        },
        "currency": {
            "type": "string", "enum": currencies, "examples": ["EUR"],
            "description": "ISO 4217, in use on the due day; may be left out by clients with a default.",
        },
        "dueAt": {
            "type": "string", "format": "date-time", "description": "Nothing is charged before; in the future.",
            "examples": ["2030-01-31T09:00:00Z"],
        },
        "executeBefore": {"type": "string", "format": "date-time", "description": "No charge starts after."},
        "executeWithin": {
            "type": "integer", "minimum": 0, "maximum": 86_400,
            "description": "Seconds after dueAt over which the first try may be spread; 0: none.",
        },
        "gateway": {"type": "string", "minLength": 1, "maxLength": 64, "examples": ["sandbox"]},
        "externalId": {
            "type": "string", "minLength": 1, "maxLength": 180, "pattern": line,
            "description": "Unique among the client's payments that are neither cancelled nor failed.",
        },
        "description": {"type": "string", "maxLength": 500, "pattern": lines},
        "metadata": {
            "type": "object", "maxProperties": 50,
            "propertyNames": {"minLength": 1, "maxLength": 40, "pattern": line},
            "additionalProperties": {"type": "string", "maxLength": 500, "pattern": lines},
        },
        "retry": object("What becomes of refused charges.", retry(), &["maxSends", "onSoftDecline", "onExhausted"]),
    });
    let optional = [
        "currency",
        "executeBefore",
        "executeWithin",
        "gateway",
        "externalId",
        "description",
        "metadata",
        "retry",
    ];
    object("A payment to be scheduled.", wanted, &optional)
}

fn requests() -> Named {
    let new = new_payment();
    let key = json!({"idempotencyKey": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}});
    let item = extended(&new, "A payment of a batch.", key, &[]);
    let batch = json!({
        "payments": {"type": "array", "maxItems": crate::intake::batch::MOST_ITEMS, "items": of("NewBatchItem")},
        "atomic": {"type": "boolean", "default": false, "description": "All are created, or none is."},
    });
    let done =
        json!({"status": {"const": 201}, "replayed": {"type": "boolean"}, "payment": of("PaymentCreated")});
    let refused = json!({"status": {"type": "integer", "minimum": 400}, "problem": of("Problem")});
    let answer = json!({
        "data": list(json!({"oneOf": [
            object("It exists.", done, &[]), object("It was refused.", refused, &[]),
        ]})),
        "created": count(), "replayed": count(), "refused": count(),
    });
    let callback = json!({
        "paymentId": of("PaymentId"),
        "key": {"type": "string", "description": "The gateway key: the payment's id, and from epoch 1 on `:epoch`."},
        "status": {"type": "string", "enum": ["charged", "declined"]},
    });
    vec![
        ("NewPayment", new),
        ("NewBatchItem", item),
        ("NewBatch", object("Payments, each under a key of its own.", batch, &["atomic"])),
        ("BatchAnswer", object("What became of each, in the order of the request.", answer, &[])),
        ("Callback", object("A gateway's hint that a charge is decided.", callback, &[])),
        ("Taken", json!({"type": "object", "additionalProperties": false})),
    ]
}

fn histories() -> Named {
    let row = json!({
        "seq": {"type": "integer", "minimum": 1},
        "from": {"oneOf": [of("Status"), {"type": "null"}]},
        "to": of("Status"),
        "cause": text(),
        "by": text(),
        "fence": count(), "attempt": count(), "epoch": count(),
        "at": time(),
        "detail": {},
        "prev": hash(), "hash": hash(),
    });
    let proof_row = json!({
        "seq": {"type": "integer", "minimum": 1},
        "input": {"type": "string", "description": "The row's eleven fields, each as length:text."},
        "prev": hash(), "hash": hash(),
    });
    let proof = json!({
        "paymentId": of("PaymentId"),
        "version": count(),
        "algorithm": {"const": "sha256(prev || input)"},
        "verified": {"type": "boolean"},
        "broken": or_null(text()),
        "firstPrev": hash(), "head": hash(),
        "data": list(object("One row: hash is the SHA-256 of prev and input.", proof_row, &[])),
    });
    let history = json!({"paymentId": of("PaymentId"), "data": list(object("One row.", row, &[]))});
    let payment = json!({
        "actorId": {"type": "string", "format": "uuid"},
        "amount": {"type": "integer", "minimum": 1},
        "currency": text(), "gateway": text(), "dueAt": time(), "executeBefore": or_null(time()),
    });
    let mut payment = object("What of the payment never changes.", payment, &[]);
    payment["type"] = json!(["object", "null"]);
    let what = json!({
        "status": of("Status"),
        "previousStatus": {"oneOf": [of("Status"), {"type": "null"}]},
        "cause": text(),
        "reason": {"oneOf": [of("Reason"), {"type": "null"}]},
        "by": text(),
        "attempt": count(), "epoch": count(), "fence": count(),
        "detail": {"type": "object"},
        "payment": payment,
    });
    let event = json!({
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "description": "The payment's id, a slash, the sequence; the same in every delivery."},
        "source": {"const": "punctual"},
        "type": of("EventType"),
        "subject": of("PaymentId"),
        "time": time(),
        "datacontenttype": {"const": "application/json"},
        "sequence": {"type": "integer", "minimum": 1, "description": "Per payment, from 1, without a gap."},
        "data": object("What happened.", what, &[]),
    });
    let page = json!({
        "data": list(of("Event")),
        "nextCursor": {"type": "string", "description": "Always there: go on from it, now or later."},
        "hasMore": {"type": "boolean"},
    });
    vec![
        ("History", object("Everything that happened, oldest first.", history, &[])),
        ("HistoryProof", object("The history with what verifies it.", proof, &[])),
        ("Event", object("An event (CloudEvents 1.0).", event, &[])),
        ("EventPage", object("Events in the order of publication.", page, &[])),
    ]
}

fn overview() -> Value {
    let late = json!({"anyOf": [
        object("Less than so many milliseconds.", json!({"belowMs": count()}), &[]),
        object("So many or more.", json!({"beyondMs": count()}), &[]),
        {"type": "null"},
    ]});
    let minute = json!({
        "from": time(), "due": or_null(count()), "claimed": count(), "completed": count(), "failed": count(),
        "cancelled": count(), "parked": count(), "unknown": count(), "retried": count(), "latenessP50": late,
        "latenessP99": late,
    });
    let hour = json!({
        "completed": count(), "failed": count(), "cancelled": count(), "parked": count(), "unknown": count(),
        "retried": count(), "latenessP50": late, "latenessP99": late, "laterThan60s": count(),
    });
    let gateway = json!({"gateway": text(), "oldestDueSeconds": count()});
    let waiting = json!({
        "due": count(), "processing": count(), "unknown": count(), "parked": count(), "unpublished": count(),
        "oldestUnknownSeconds": count(), "leaseOverdueSeconds": count(),
        "gateways": list(object("How long its oldest due payment waits.", gateway, &[])),
    });
    let overview = json!({
        "takenAt": time(),
        "hour": object("All of them together; `laterThan60s` counts first claims.", hour, &[]),
        "minutes": list(object("One minute of the last hour, the last of them not over.", minute, &[])),
        "waiting": object("What waits, each counted no further than ten thousand.", waiting, &[]),
    });
    object("The last hour, and what waits.", overview, &[])
}

fn others() -> Named {
    let precision = json!({"type": "string", "enum": ["exact", "atLeast", "about"]});
    let span = json!({
        "from": time(), "due": count(), "precision": precision,
        "leftAtEnd": or_null(count()), "drainedAt": or_null(time()),
    });
    let mut day = span.clone();
    day["countedAt"] = time();
    let minutes = list(object("What falls due in a minute.", span, &[]));
    let days = list(object("What falls due on a day, as it was last counted.", day, &[]));
    let gateway = json!({
        "gateway": text(), "chargesPerSecond": or_null(count()), "overdue": count(),
        "overduePrecision": precision, "minutes": minutes, "days": days,
    });
    let forecast = json!({"takenAt": time(), "gateways": list(object("One gateway.", gateway, &[]))});
    let worker = json!({
        "worker": text(), "gateway": text(), "claims": count(), "oldestClaimAt": or_null(time()),
        "heardAt": or_null(time()), "demand": or_null(count()), "slots": or_null(count()),
    });
    let relay = json!({
        "relay": text(), "partitions": count(), "shards": list(count()), "since": time(), "until": time(),
    });
    let publisher = json!({"publisher": text(), "epoch": count(), "until": time()});
    let crew = json!({
        "takenAt": time(),
        "workers": list(object("A worker at one gateway.", worker, &[])),
        "relays": list(object("A relay that lives.", relay, &[])),
        "publishers": list(object("The publisher that leads.", publisher, &[])),
    });
    let part = json!({
        "partition": count(), "begin": count(), "end": count(), "committed": or_null(count()), "staged": count(),
        "lag": count(),
    });
    let due = json!({
        "gateway": text(), "due": count(), "precision": precision, "firstAt": or_null(time()),
        "drainedAt": or_null(time()),
    });
    let bucket = json!({
        "bucket": text(), "slot": text(), "staged": count(), "lag": count(),
        "due": list(object("What is due in it by the database.", due, &[])),
        "partitions": list(object("What lies in it by Kafka.", part, &[])),
    });
    let buckets =
        json!({"data": list(object("One minute of the ring, or what is due already.", bucket, &[]))});
    vec![
        ("Forecast", object("What falls due in the next hour and month.", forecast, &[])),
        ("Overview", overview()),
        ("Workers", object("Who is at work.", crew, &[])),
        ("Buckets", object("The ring, the minutes from now on.", buckets, &[])),
    ]
}
