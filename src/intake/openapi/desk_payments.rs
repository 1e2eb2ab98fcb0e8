//! What is told of the people's routes of payments, and their shapes; like those of the other people's routes they are
//! served by a later stage.

use super::desk_shapes::{page, uuid};
use super::shapes::{Named, count, list, object, of, or_null, text, time};
use super::{Answer, Operation, Parameter, Place};
use crate::domain::webhook::DeliveryStatus;
use crate::intake::actor::Scope;
use crate::intake::problem::Code;
use serde_json::json;

const LOOK: Operation = Operation { tag: "operations", scope: Some(Scope::Operate), ..Operation::BARE };
const ACT: Operation =
    Operation { method: "post", tag: "operations", scope: Some(Scope::Redrive), ..Operation::BARE };

const PAYMENT_ID: Parameter = Parameter {
    place: Place::Path,
    name: "id",
    schema: r##"{"$ref":"#/components/schemas/PaymentId"}"##,
    about: "The payment's id.",
};

/// The filter of what is parked, and of everything.
pub(super) const Q: Parameter = Parameter {
    place: Place::Query,
    name: "q",
    schema: r##"{"type":"string","maxLength":2000,"examples":["status:PARKED,UNKNOWN -gateway:other amount:1000.."]}"##,
    about: "A filter: terms `name:value` apart by blanks, `-` before what must not be, lists with commas, ranges with \
            `..`; names: status, reason, due, amount, gateway, ref, id, actor.",
};

/// The routes.
pub(super) const TOLD: &[Operation] = &[
    Operation {
        path: "/v1/ops/payments",
        id: "searchPayments",
        summary: "Payments of all clients, by a filter",
        about: "What a request examines is bounded, so a page may be short and have a nextCursor. `count` is from the \
                page's place on; `countIsAll` says whether there are no more.",
        parameters: &[
            Q,
            Parameter {
                place: Place::Query,
                name: "order",
                schema: r#"{"type":"string","enum":["due_first","due_last"],"default":"due_last"}"#,
                about: "By due time: the earliest first, or the latest.",
            },
            Parameter::LIMIT,
            Parameter::CURSOR,
        ],
        answers: &[Answer::ok("FoundPaymentPage", "One page.")],
        refusals: &[Code::InvalidCursor],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/payments/{id}",
        id: "showAnyPayment",
        summary: "One payment of any client, with all that is known and what may be done",
        parameters: &[PAYMENT_ID],
        answers: &[Answer::ok("ParkedRecord", "Parked or not; without what is the client's own.")],
        refusals: &[Code::PaymentNotFound],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/payments/{id}/history",
        id: "readAnyHistory",
        summary: "Everything that happened to it",
        parameters: &[PAYMENT_ID],
        answers: &[Answer::ok("History", "Oldest first.")],
        refusals: &[Code::PaymentNotFound],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/payments/{id}/deliveries",
        id: "listDeliveriesOfPayment",
        summary: "What its client's endpoints were and are owed of it",
        parameters: &[PAYMENT_ID],
        answers: &[Answer::ok("PaymentDeliveryPage", "In the order of its events, 200 at most.")],
        refusals: &[Code::PaymentNotFound],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/payments/{id}/cancel",
        id: "cancelForClient",
        summary: "Cancel a payment for its client",
        about: "As the client's own cancel, with the same answers; the history says who did it and why.",
        parameters: &[PAYMENT_ID],
        body: Some("ActReason"),
        answers: &[
            Answer::ok("ParkedRecord", "It is cancelled: never charged, never will be."),
            Answer::json(202, "ParkedRecord", "The wish is recorded: no later claim charges."),
        ],
        refusals: &[
            Code::PaymentNotFound,
            Code::AlreadyProcessing,
            Code::OutcomeUnknown,
            Code::AlreadyFinal,
            Code::Parked,
        ],
        ..ACT
    },
    Operation {
        path: "/v1/ops/payments/{id}/payee",
        id: "showPayee",
        summary: "Show what is the client's own in a payment",
        about: "An act: who looked, and why, is on record before it is answered.",
        parameters: &[PAYMENT_ID],
        body: Some("ActReason"),
        answers: &[Answer::ok("PaymentSecrets", "Payee, description and metadata.")],
        refusals: &[Code::PaymentNotFound],
        ..ACT
    },
    Operation {
        path: "/v1/ops/parked-counts",
        id: "countParked",
        tag: "parked",
        summary: "What is parked, by reason and gateway",
        about: "Of the first 10,000 by due time; `countIsAll` says whether that is all.",
        answers: &[Answer::ok("ParkedCounts", "The most frequent first.")],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/bulk-redrives",
        id: "listBulkRedrives",
        tag: "parked",
        summary: "Bulk re-drives, the newest first",
        parameters: &[Parameter::LIMIT, Parameter::CURSOR],
        answers: &[Answer::ok("BulkRedrivePage", "One page.")],
        refusals: &[Code::InvalidCursor],
        ..LOOK
    },
];

/// The shapes.
pub(super) fn schemas() -> Named {
    let flag = || json!({"type": "boolean"});
    let maybe = |name: &str| json!({"oneOf": [of(name), {"type": "null"}]});
    let entry = json!({
        "paymentId": of("PaymentId"), "status": of("Status"), "statusReason": maybe("Reason"), "actorId": uuid(),
        "actor": or_null(text()), "gateway": text(), "gatewayReference": or_null(text()),
        "amount": {"type": "integer", "minimum": 1}, "currency": text(), "dueAt": time(),
        "nextAttemptAt": or_null(time()), "createdAt": time(),
    });
    let found = json!({
        "data": list(of("FoundPayment")), "nextCursor": or_null(text()), "count": count(), "countIsAll": flag(),
    });
    let delivery = json!({
        "endpointId": uuid(), "url": text(), "sequence": {"type": "integer", "minimum": 1}, "eventType": text(),
        "eventAt": time(),
        "status": {"type": "string", "enum": DeliveryStatus::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>()},
        "underWay": flag(), "tries": count(), "lastStatus": {"type": ["integer", "null"]},
        "lastError": or_null(text()), "deliveredAt": or_null(time()),
    });
    let secrets = json!({
        "paymentId": of("PaymentId"), "payee": text(), "description": or_null(text()),
        "metadata": {"type": "object", "additionalProperties": text()},
    });
    let parked = json!({
        "parkedReason": text(), "explanation": or_null(text()), "gateway": or_null(text()), "count": count(),
        "oldestParkedAt": time(),
    });
    let counts = json!({
        "data": list(object("Of one reason and gateway.", parked, &[])), "count": count(), "countIsAll": flag(),
    });
    vec![
        ("FoundPayment", object("A payment of any client.", entry, &[])),
        ("FoundPaymentPage", object("A page; the walk goes on while nextCursor is a text.", found, &[])),
        ("PaymentDelivery", object("What one endpoint was or is owed.", delivery, &[])),
        ("PaymentDeliveryPage", page("PaymentDelivery")),
        ("PaymentSecrets", object("What is the client's own.", secrets, &[])),
        ("ParkedCounts", object("What is parked.", counts, &[])),
        ("BulkRedrivePage", page("BulkRedrive")),
    ]
}
