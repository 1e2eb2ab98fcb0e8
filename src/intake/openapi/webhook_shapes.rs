//! The shapes of webhooks: what is sent, and what is answered. The bodies of the requests that endpoints get are
//! events, whose shapes are beside the topics.

use super::shapes::{Named, count, list, object, of, or_null, text, time};
use crate::domain::webhook::{DeliveryStatus, EndpointAct, MOST_CONCURRENCY, USUAL_CONCURRENCY, WhyDisabled};
use crate::intake::api_keys::LONGEST_OVERLAP;
use serde_json::{Map, Value, json};

/// Every one by its name.
pub(super) fn schemas() -> Named {
    [endpoints(), wanted(), deliveries()].concat()
}

fn uuid() -> Value {
    json!({"type": "string", "format": "uuid"})
}

fn texts<T>(all: &[T], as_str: impl Fn(&T) -> &'static str) -> Value {
    json!({"type": "string", "enum": all.iter().map(as_str).collect::<Vec<_>>()})
}

/// These fields and those.
fn with(base: &Value, more: Value) -> Value {
    let mut all: Map<String, Value> = base.as_object().cloned().unwrap_or_default();
    all.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(all)
}

fn status_code() -> Value {
    json!({"type": ["integer", "null"], "description": "HTTP status of the endpoint's answer."})
}

fn endpoints() -> Named {
    let why = json!({"oneOf": [texts(WhyDisabled::ALL, |why| why.as_str()), {"type": "null"}]});
    let endpoint = json!({
        "endpointId": uuid(), "url": text(), "description": text(), "eventTypes": list(of("EventType")),
        "maxConcurrency": count(), "disabledAt": or_null(time()), "disabledReason": why, "owedUntil": or_null(time()),
        "skippedEvents": count(),
        "failingSince": or_null(time()), "lastSuccessAt": or_null(time()), "restingUntil": or_null(time()),
        "previousSecretUntil": or_null(time()), "createdAt": time(), "changedAt": time(),
        "version": {"type": "integer", "minimum": 1},
    });
    let act = json!({
        "version": {"type": "integer", "minimum": 1}, "at": time(),
        "act": texts(EndpointAct::ALL, |act| act.as_str()), "by": text(), "detail": {"type": "object"},
    });
    let secret = json!({"secret": {
        "type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{43}=$",
        "description": "Key of the signatures: base64 after `whsec_`. Never shown again.",
    }});
    let acts = json!({"acts": list(object("What was done to it, by whom.", act, &[]))});
    let all = json!({"data": list(of("WebhookEndpoint"))});
    let test = json!({"eventId": text(), "eventType": {"type": "string", "const": "webhook.test"}, "eventAt": time()});
    let deleted = json!({"endpointId": uuid(), "deleted": {"type": "boolean", "const": true}});
    vec![
        ("WebhookEndpoint", object("An endpoint; no eventTypes: all of them.", endpoint.clone(), &[])),
        ("WebhookEndpointList", object("All of the client's.", all, &[])),
        ("WebhookEndpointMade", object("An endpoint with its new secret.", with(&endpoint, secret), &[])),
        ("WebhookEndpointStanding", object("An endpoint as it stands.", with(&endpoint, acts), &[])),
        ("WebhookEndpointDeleted", object("It is gone.", deleted, &[])),
        ("WebhookTest", object("A test message that is owed.", test, &[])),
    ]
}

fn wanted() -> Named {
    // Control characters are refused.
    let line = json!({"type": "string", "maxLength": 500, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"});
    let fields = json!({
        "url": {
            "type": "string", "minLength": 1, "maxLength": 1000, "pattern": "^[!-~]+$",
            "description": "https, without user, password and fragment, on port 443 or above 1023.",
            "examples": ["https://shop.example/hooks/punctual"],
        },
        "description": line,
        "eventTypes": {
            "type": "array", "maxItems": 64, "items": of("EventType"), "description": "Which events; empty: all.",
        },
        "maxConcurrency": {
            "type": "integer", "minimum": 1, "maximum": MOST_CONCURRENCY, "default": USUAL_CONCURRENCY,
            "description": "Requests under way at one time. With 1 they still may come out of order: order by sequence.",
        },
    });
    let optional = ["description", "eventTypes", "maxConcurrency"];
    let version = json!({"version": {
        "type": "integer", "description": "Refused if anything was done to it since this version.",
    }});
    let all = ["url", "description", "eventTypes", "maxConcurrency", "version"];
    let rotation = json!({"overlapSeconds": {
        "type": "integer", "minimum": 0, "maximum": LONGEST_OVERLAP.as_secs(),
        "description": "For so long both secrets sign; without it as the installation has it, a day.",
    }});
    vec![
        ("NewWebhookEndpoint", object("An endpoint to be made.", fields.clone(), &optional)),
        ("WebhookEndpointChange", object("What is to be otherwise.", with(&fields, version), &all)),
        ("WebhookRotation", object("How the secret changes.", rotation, &["overlapSeconds"])),
        ("WebhookResend", object("Which events.", json!({"since": time()}), &[])),
    ]
}

fn deliveries() -> Named {
    let delivery = json!({
        "eventId": {"type": "string", "description": "The `webhook-id` of its requests, and the event's `id`."},
        "eventType": text(), "eventAt": time(),
        "paymentId": {"oneOf": [of("PaymentId"), {"type": "null"}]}, "sequence": count(),
        "status": texts(DeliveryStatus::ALL, |status| status.as_str()),
        "underWay": {"type": "boolean", "description": "It is being sent at this moment."},
        "tries": count(), "nextTryAt": or_null(time()), "lastStatus": status_code(),
        "lastError": or_null(text()), "deliveredAt": or_null(time()), "madeAt": time(),
    });
    let one = json!({
        "number": {"type": "integer", "minimum": 1}, "at": time(), "tookMs": count(), "status": status_code(),
        "error": or_null(text()),
        "excerpt": {"type": "string", "description": "The beginning of the answer, what of it can be printed."},
    });
    let log = json!({"log": list(object("What one try met.", one, &[]))});
    let page = json!({"data": list(of("WebhookDelivery")), "nextCursor": or_null(text())});
    let resent = json!({"resent": count(), "hasMore": {"type": "boolean"}});
    vec![
        ("WebhookDelivery", object("An event that an endpoint was or is owed.", delivery.clone(), &[])),
        ("WebhookDeliveryRecord", object("A delivery with its log.", with(&delivery, log), &[])),
        ("WebhookDeliveryPage", object("A page; the walk goes on while nextCursor is a text.", page, &[])),
        ("WebhooksResent", object("What is owed again.", resent, &[])),
    ]
}
