//! What is told of the routes of reconciliation, and their shapes; like those of the other people's routes they
//! are served by a later stage.

use super::desk_shapes::{count_map, date, of_either_sign, one_of, page, reason, uuid};
use super::shapes::{Named, count, list, object, of, or_null, text, time};
use super::{Answer, Operation, Parameter, Place};
use crate::domain::matching::{Class, ItemStatus};
use crate::intake::actor::Scope;
use crate::intake::problem::Code;
use crate::schedule::ReportStatus;
use serde_json::json;

const UUID: &str = r#"{"type":"string","format":"uuid"}"#;
const DAY: &str = r#"{"type":"string","format":"date"}"#;
const GATEWAY: &str = r#"{"type":"string","pattern":"^[a-z0-9_-]{1,64}$"}"#;

const fn asked(name: &'static str, schema: &'static str, about: &'static str) -> Parameter {
    Parameter { place: Place::Query, name, schema, about }
}

const fn id(about: &'static str) -> Parameter {
    Parameter { place: Place::Path, name: "id", schema: UUID, about }
}

const LOOK: Operation = Operation { tag: "reconciliation", scope: Some(Scope::Operate), ..Operation::BARE };
const ACT: Operation =
    Operation { method: "post", tag: "reconciliation", scope: Some(Scope::Redrive), ..Operation::BARE };

const ITEM_ID: Parameter = Parameter {
    place: Place::Path,
    name: "id",
    schema: r#"{"type":"integer","minimum":1}"#,
    about: "The item's number.",
};

/// The routes.
pub(super) const TOLD: &[Operation] = &[
    Operation {
        path: "/v1/ops/reconciliations",
        id: "listReconciliations",
        summary: "What was loaded and compared",
        about: "The newest day first. A report of a day that a newer one replaced is superseded.",
        parameters: &[
            asked("gateway", GATEWAY, "Of this gateway."),
            asked("from", DAY, "Of this day or later."),
            asked("to", DAY, "Of this day or earlier."),
            asked("status", r##"{"$ref":"#/components/schemas/ReportStatus"}"##, "Where it stands."),
            Parameter::LIMIT,
            Parameter::CURSOR,
        ],
        answers: &[Answer::ok("ReconciliationPage", "One page.")],
        refusals: &[Code::InvalidCursor],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/reconciliations/{id}",
        id: "showReconciliation",
        summary: "One reconciliation, with its counts per class",
        parameters: &[id("The reconciliation's id.")],
        answers: &[Answer::ok("Reconciliation", "As it stands.")],
        refusals: &[Code::ReconciliationNotFound],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/reconciliations/{id}/withdraw",
        id: "withdrawReconciliation",
        summary: "Take a wrong report out",
        about: "Its lines count no more, and its day has to be compared again: with the right report, or without any. What \
                only it raised is closed, what only it explained waits again, and the same file stays out. One that \
                explains money, because a line of it agrees with a payment or repaired one, needs a second person.",
        parameters: &[id("The reconciliation's id.")],
        body: Some("ActReason"),
        answers: &[
            Answer::ok("Reconciliation", "It does not count any more."),
            Answer::json(202, "Approval", "It waits for a second person."),
        ],
        refusals: &[Code::ReconciliationNotFound, Code::ReportDoesNotCount],
        ..ACT
    },
    Operation {
        path: "/v1/ops/reconciliation-standing",
        id: "showReconciliationStanding",
        summary: "How each gateway's reconciliation stands",
        about: "The newest day that was compared with a whole report, and what is open.",
        answers: &[Answer::ok("ReconciliationStandings", "Each gateway of which a report was loaded.")],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/reconciliation-items",
        id: "listReconciliationItems",
        summary: "What differs between our ledger and the gateway's",
        about: "The oldest first; all conditions hold at once.",
        parameters: &[
            asked("class", r##"{"$ref":"#/components/schemas/MatchClass"}"##, "Of this class."),
            asked("status", r##"{"$ref":"#/components/schemas/ItemStatus"}"##, "In this state."),
            asked("gateway", GATEWAY, "Of this gateway."),
            asked("day", DAY, "Of this day."),
            asked("paymentId", r##"{"$ref":"#/components/schemas/PaymentId"}"##, "Of this payment."),
            Parameter::LIMIT,
            Parameter::CURSOR,
        ],
        answers: &[Answer::ok("ReconciliationItemPage", "One page.")],
        refusals: &[Code::InvalidCursor],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/reconciliation-items/{id}",
        id: "showReconciliationItem",
        summary: "One item, with its evidence and what may be done",
        parameters: &[ITEM_ID],
        answers: &[Answer::ok("ReconciliationItem", "As it stands.")],
        refusals: &[Code::ReconciliationItemNotFound],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/reconciliation-items/{id}/repair",
        id: "repairReconciliationItem",
        summary: "Move the payment to where the gateway's line proves that it is",
        about: "The payment's own guard decides on the locked row. What was failed or cancelled for us and charged at \
                the gateway needs a second person.",
        parameters: &[ITEM_ID],
        body: Some("RepairOrder"),
        answers: &[
            Answer::ok(
                "ReconciliationItem",
                "Done: the item as it stands; open still where only the charge's name was kept.",
            ),
            Answer::json(202, "Approval", "It waits for a second person."),
        ],
        refusals: &[
            Code::ReconciliationItemNotFound,
            Code::ItemDecided,
            Code::NothingToRepair,
            Code::PaymentHeld,
            Code::ChargeOnRecord,
            Code::PaymentNotFound,
            Code::PaymentChanged,
            Code::ReferenceTaken,
            Code::RefundAboveCharge,
            Code::ApprovalWaits,
        ],
        ..ACT
    },
    Operation {
        path: "/v1/ops/reconciliation-items/{id}/dismiss",
        id: "dismissReconciliationItem",
        summary: "Close an item that needs no repair",
        about: "Nothing of the payment changes; the reason is kept, and found again by every later comparison.",
        parameters: &[ITEM_ID],
        body: Some("ActReason"),
        answers: &[Answer::ok("ReconciliationItem", "Dismissed: the item as it stands.")],
        refusals: &[Code::ReconciliationItemNotFound, Code::ItemDecided],
        ..ACT
    },
    Operation {
        path: "/v1/ops/reconciliation-sums",
        id: "sumReconciliations",
        summary: "Payments, attempts, history and settlement side by side",
        about: "A line for each day, gateway and currency; at most 31 days at once.",
        parameters: &[
            asked("from", DAY, "The first day; always needed."),
            asked("to", DAY, "The last day; without it the first."),
            asked("gateway", GATEWAY, "Of this gateway."),
        ],
        answers: &[Answer::ok("ReconciliationSums", "All of them.")],
        ..LOOK
    },
];

/// Every one by its name.
pub(super) fn schemas() -> Named {
    let counts = count_map();
    let line_sum = json!({
        "kind": text(), "currency": text(), "netCurrency": text(), "lines": count(),
        "grossMinor": of_either_sign(), "feeMinor": of_either_sign(), "netMinor": of_either_sign(),
    });
    let line_sum = object("What lines of one kind and currency come to.", line_sum, &[]);
    let run = json!({
        "reconciliationId": uuid(), "gateway": text(), "day": date(), "format": text(), "options": text(), "source": text(),
        "sha256": text(), "status": of("ReportStatus"), "complete": {"type": "boolean"}, "lines": count(),
        "counts": counts.clone(), "sums": list(line_sum), "askedBy": text(), "seenAt": time(), "startedAt": time(),
        "finishedAt": or_null(time()), "supersededBy": or_null(uuid()), "withdrawnAt": or_null(time()),
        "note": or_null(text()),
    });
    let standing = json!({
        "gateway": text(), "lastDay": or_null(date()), "lastSuccessAt": or_null(time()), "open": counts,
        "waiting": count(),
    });
    let number = json!({"type": "integer", "minimum": 1});
    let item = json!({
        "itemId": number.clone(), "reconciliationId": uuid(), "gateway": text(), "day": date(),
        "class": of("MatchClass"), "status": of("ItemStatus"), "explanation": text(), "advice": text(),
        "paymentId": {"oneOf": [of("PaymentId"), {"type": "null"}]}, "key": or_null(text()),
        "refundId": or_null(uuid()), "gatewayReference": or_null(text()), "field": text(), "ours": or_null(text()),
        "theirs": or_null(text()), "amount": or_null(of_either_sign()), "currency": or_null(text()),
        "line": or_null(number), "lineSha256": or_null(text()), "firstSeenAt": time(), "lastSeenAt": time(),
        "notRepaired": or_null(text()), "decidedBy": or_null(text()), "decidedAt": or_null(time()), "reason": or_null(text()),
    });
    let side = json!({"count": {"type": "integer"}, "amount": of_either_sign()});
    let side = object("How many, and how much in minor units.", side, &[]);
    let sum = json!({
        "day": date(), "gateway": text(), "currency": text(), "payments": side.clone(), "attempts": side.clone(),
        "byWord": side.clone(), "ledger": side.clone(), "settlement": side.clone(), "givenBack": side.clone(),
        "late": side, "apart": {"type": "boolean"},
    });
    let repair = json!({
        "reason": reason(),
        "version": {"type": "integer", "description": "Of the payment; refused if anything was written since."},
    });
    vec![
        ("MatchClass", one_of(Class::ALL.iter().map(|class| class.as_str()))),
        ("ItemStatus", one_of(ItemStatus::ALL.iter().map(|status| status.as_str()))),
        ("ReportStatus", one_of(ReportStatus::ALL.iter().map(|status| status.as_str()))),
        ("RepairOrder", object("Why, and of what was seen.", repair, &["version"])),
        (
            "ReconciliationStandings",
            object(
                "All of them.",
                json!({"data": list(object("How one gateway's reconciliation stands.", standing, &[]))}),
                &[],
            ),
        ),
        ("Reconciliation", object("A day's report, and what comparing it found.", run, &[])),
        ("ReconciliationPage", page("Reconciliation")),
        ("ReconciliationItem", object("One difference, with both values and its evidence.", item, &[])),
        ("ReconciliationItemPage", page("ReconciliationItem")),
        (
            "ReconciliationSums",
            object(
                "All lines.",
                json!({"data": list(object("A day of one gateway in one currency.", sum, &[]))}),
                &[],
            ),
        ),
    ]
}
