//! What is told of the people's routes, which a later stage serves: this one may not know its handlers, so the
//! descriptions stand here, and a test holds them against that stage's own list of routes.

use super::{Answer, Operation, Parameter, Place};
use crate::intake::actor::Scope;
use crate::intake::problem::Code;

/// Described in the order of the document's groups.
pub(super) const TOLD: &[&[Operation]] =
    &[PARKED, BULK, APPROVALS, REFUNDS, GATEWAYS, SWITCHES, QUARANTINE, ACTS];

const fn id(about: &'static str) -> Parameter {
    Parameter { place: Place::Path, name: "id", schema: UUID, about }
}

const fn asked(name: &'static str, schema: &'static str, about: &'static str) -> Parameter {
    Parameter { place: Place::Query, name, schema, about }
}

const UUID: &str = r#"{"type":"string","format":"uuid"}"#;
const TIME: &str = r#"{"type":"string","format":"date-time"}"#;
const NAME: &str = r#"{"type":"string","minLength":1,"maxLength":100}"#;
const PAYMENT: &str = r##"{"$ref":"#/components/schemas/PaymentId"}"##;

const LOOK: Operation = Operation { scope: Some(Scope::Operate), ..Operation::BARE };

const PARKED_LOOK: Operation = Operation { tag: "parked", ..LOOK };
const PARKED_ACT: Operation =
    Operation { method: "post", tag: "parked", scope: Some(Scope::Redrive), ..Operation::BARE };

const PAYMENT_ID: Parameter =
    Parameter { place: Place::Path, name: "id", schema: PAYMENT, about: "The payment's id." };

const PARKED: &[Operation] = &[
    Operation {
        path: "/v1/ops/parked",
        id: "listParked",
        summary: "What is held for people, over all clients",
        about: "First due first. What a request examines is bounded, so a page may be short and have a nextCursor.",
        parameters: &[
            asked("reason", r##"{"$ref":"#/components/schemas/Reason"}"##, "Parked for this reason."),
            asked("gateway", r#"{"type":"string","pattern":"^[a-z0-9_-]{1,64}$"}"#, "Of this gateway."),
            asked("actor", NAME, "Of this client, by name or id."),
            asked("dueFrom", TIME, "Due at or after."),
            asked("dueTo", TIME, "Due before."),
            super::desk_payments::Q,
            Parameter::LIMIT,
            Parameter::CURSOR,
        ],
        answers: &[Answer::ok("ParkedPage", "One page.")],
        refusals: &[Code::InvalidTime, Code::InvalidCursor],
        ..PARKED_LOOK
    },
    Operation {
        path: "/v1/ops/parked/{id}",
        id: "showParked",
        summary: "One parked payment, with all that is known and what may be done",
        parameters: &[PAYMENT_ID],
        answers: &[Answer::ok("ParkedRecord", "`may` says of each act whether it is possible, or why not.")],
        refusals: &[Code::PaymentNotFound, Code::NotParked],
        ..PARKED_LOOK
    },
    Operation {
        path: "/v1/ops/parked/{id}/redrive",
        id: "redriveParked",
        summary: "Release a parked payment",
        about: "It is looked up first and keeps its gateway key, unless a new one is asked for and everything sent \
                under the old one is answered. Above a configured amount, and for a new key, a second person decides.",
        parameters: &[PAYMENT_ID],
        body: Some("Redrive"),
        answers: &[
            Answer::ok("ParkedRecord", "Released: the payment as it stands."),
            Answer::json(202, "Approval", "It waits for a second person."),
        ],
        refusals: &[
            Code::PaymentNotFound,
            Code::NotParked,
            Code::PaymentChanged,
            Code::ChargeOnRecord,
            Code::DeclinedForGood,
            Code::OpenSend,
            Code::KeyUnused,
            Code::NoChargeWanted,
            Code::NotProven,
            Code::ApprovalWaits,
        ],
        ..PARKED_ACT
    },
    Operation {
        path: "/v1/ops/parked/{id}/resolve",
        id: "resolveParked",
        summary: "End a parked payment with evidence",
        about: "As charged: with the gateway's reference and exactly what was asked for. As not charged: refused \
                while a send is open or an answer says charged.",
        parameters: &[PAYMENT_ID],
        body: Some("Resolve"),
        answers: &[Answer::ok("ParkedRecord", "Ended: the payment as it stands.")],
        refusals: &[
            Code::PaymentNotFound,
            Code::NotParked,
            Code::PaymentChanged,
            Code::ChargeOnRecord,
            Code::OpenSend,
            Code::NotProven,
            Code::ReferenceTaken,
            Code::EvidenceDiffers,
            Code::UnknownChoice,
        ],
        ..PARKED_ACT
    },
];

const BULK_ID: Parameter = id("The id of the bulk re-drive.");

const BULK: &[Operation] = &[
    Operation {
        path: "/v1/ops/bulk-redrives",
        id: "createBulkRedrive",
        summary: "Prepare to release many parked payments",
        about: "Created stopped, with a preview of what it would look at. Those that one person may not release are \
                skipped.",
        body: Some("NewBulkRedrive"),
        answers: &[Answer::json(201, "BulkRedrive", "Created, not started.")],
        refusals: &[Code::InvalidTime, Code::InvalidParameter, Code::UnknownChoice, Code::OutOfRange],
        ..PARKED_ACT
    },
    Operation {
        path: "/v1/ops/bulk-redrives/{id}",
        id: "showBulkRedrive",
        summary: "How far a bulk re-drive is",
        parameters: &[BULK_ID],
        answers: &[Answer::ok("BulkRedrive", "`outcomes` counts payments by what came of them.")],
        refusals: &[Code::BulkNotFound],
        ..PARKED_LOOK
    },
    Operation {
        path: "/v1/ops/bulk-redrives/{id}/start",
        id: "startBulkRedrive",
        summary: "Start a bulk re-drive, or go on with it",
        parameters: &[BULK_ID],
        body: Some("ActReason"),
        answers: &[Answer::ok("BulkRedrive", "It runs, since now or earlier.")],
        refusals: &[Code::BulkNotFound, Code::BulkDone],
        ..PARKED_ACT
    },
    Operation {
        path: "/v1/ops/bulk-redrives/{id}/stop",
        id: "stopBulkRedrive",
        summary: "Stop a bulk re-drive",
        parameters: &[BULK_ID],
        body: Some("ActReason"),
        answers: &[Answer::ok("BulkRedrive", "It is stopped, since now or earlier.")],
        refusals: &[Code::BulkNotFound, Code::BulkDone],
        ..PARKED_ACT
    },
];

const APPROVAL_ID: Parameter = id("The approval's id.");

const DECIDE: Operation =
    Operation { method: "post", tag: "approvals", scope: Some(Scope::Approve), ..Operation::BARE };

/// What can stand in the way of what was asked for, by the time that it is decided.
const DECIDED_REFUSALS: &[Code] = &[
    Code::ApprovalNotFound,
    Code::SamePerson,
    Code::ApprovalDecided,
    Code::ApprovalExpired,
    Code::PaymentNotFound,
    Code::NotParked,
    Code::PaymentChanged,
    Code::ChargeOnRecord,
    Code::DeclinedForGood,
    Code::OpenSend,
    Code::KeyUnused,
    Code::NoChargeWanted,
    Code::NotProven,
    Code::RefundNotFound,
    Code::RefundNotWaiting,
    Code::RefundOnRecord,
    Code::RefundTooRecent,
    Code::RefundAboveCharge,
    Code::ReferenceTaken,
    Code::EvidenceDiffers,
    Code::ReconciliationItemNotFound,
    Code::ItemDecided,
    Code::NothingToRepair,
    Code::PaymentHeld,
];

const APPROVALS: &[Operation] = &[
    Operation {
        path: "/v1/ops/approvals",
        id: "listApprovals",
        tag: "approvals",
        summary: "What waits for a second person, or did",
        parameters: &[
            asked(
                "status",
                r#"{"type":"string","enum":["pending","approved","rejected","expired"]}"#,
                "Where they stand; without it those that wait.",
            ),
            Parameter::LIMIT,
            Parameter::CURSOR,
        ],
        answers: &[Answer::ok("ApprovalPage", "One page.")],
        refusals: &[Code::InvalidCursor],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/approvals/{id}",
        id: "showApproval",
        tag: "approvals",
        summary: "One of them",
        parameters: &[APPROVAL_ID],
        answers: &[Answer::ok("Approval", "What was asked for, by whom and why.")],
        refusals: &[Code::ApprovalNotFound],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/approvals/{id}/approve",
        id: "approve",
        summary: "Allow it, as the second person",
        about: "What was asked for is carried out in the same transaction, or nothing is.",
        parameters: &[APPROVAL_ID],
        body: Some("ActReason"),
        answers: &[Answer::ok("Approval", "Allowed.")],
        refusals: DECIDED_REFUSALS,
        ..DECIDE
    },
    Operation {
        path: "/v1/ops/approvals/{id}/reject",
        id: "reject",
        summary: "Refuse it, as the second person",
        parameters: &[APPROVAL_ID],
        body: Some("ActReason"),
        answers: &[Answer::ok("Approval", "Refused.")],
        refusals: &[Code::ApprovalNotFound, Code::SamePerson, Code::ApprovalDecided, Code::ApprovalExpired],
        ..DECIDE
    },
];

const REFUND: Operation = Operation { tag: "refunds", scope: Some(Scope::Refund), ..Operation::BARE };

const REFUNDS: &[Operation] = &[
    Operation {
        path: "/v1/ops/refunds",
        id: "listRefunds",
        summary: "The refunds of one payment, or those that wait for people",
        // One of the two must be there: without either the answer is 400.
        parameters: &[
            asked("paymentId", PAYMENT, "Those of this payment."),
            asked("needsHuman", r#"{"type":"string","enum":["true"]}"#, "Those that wait for people."),
        ],
        answers: &[Answer::ok("RefundPage", "All of them, oldest first.")],
        ..REFUND
    },
    Operation {
        method: "post",
        path: "/v1/ops/refunds",
        id: "createRefund",
        summary: "Ask for money to be given back",
        about: "Of a named charge, all that is left of it or a part. A second person decides, always; a worker \
                sends it then. The same key again is the same refund.",
        parameters: &[Parameter {
            place: Place::Header,
            name: "Idempotency-Key",
            schema: r#"{"type":"string","minLength":1,"maxLength":255,"pattern":"^[!#-~]+$"}"#,
            about: "The asker's own key of this refund, the same with every repetition.",
        }],
        body: Some("NewRefund"),
        answers: &[Answer {
            headers: &["Location", "Idempotent-Replayed"],
            ..Answer::json(202, "Refund", "It waits for a second person under approvalId.")
        }],
        refusals: &[
            Code::MissingIdempotencyKey,
            Code::InvalidIdempotencyKey,
            Code::IdempotencyKeyReused,
            Code::PaymentNotFound,
            Code::NotCharged,
            Code::ReferenceUnknown,
            Code::RefundsNotOffered,
            Code::ReferenceTaken,
            Code::NothingToRefund,
            Code::RefundAboveCharge,
            Code::AmountNotPositive,
        ],
        ..REFUND
    },
    Operation {
        path: "/v1/ops/refunds/{id}",
        id: "showRefund",
        summary: "One refund",
        parameters: &[id("The refund's id.")],
        answers: &[Answer::ok("Refund", "Where it stands, and what came of it.")],
        refusals: &[Code::RefundNotFound],
        ..REFUND
    },
    Operation {
        method: "post",
        path: "/v1/ops/refunds/{id}/resolve",
        id: "resolveRefund",
        summary: "Say what became of a refund that the gateway no longer explains",
        about: "As refunded: with the gateway's own name of it and what was given back, within the charge. As not \
                refunded: an hour after its last claim at the earliest, and never once an answer says otherwise. A \
                second person decides, always.",
        parameters: &[id("The refund's id.")],
        body: Some("RefundWord"),
        answers: &[Answer::json(202, "Approval", "It waits for a second person.")],
        refusals: &[
            Code::RefundNotFound,
            Code::RefundNotWaiting,
            Code::RefundOnRecord,
            Code::RefundTooRecent,
            Code::RefundAboveCharge,
            Code::ReferenceTaken,
            Code::EvidenceDiffers,
            Code::UnknownChoice,
            Code::ApprovalWaits,
        ],
        ..REFUND
    },
];

const GATEWAY_ACT: Operation =
    Operation { method: "post", tag: "gateways", scope: Some(Scope::Gateways), ..Operation::BARE };

const GATEWAY_NAME: Parameter = Parameter {
    place: Place::Path,
    name: "id",
    schema: r#"{"type":"string","pattern":"^[a-z0-9_-]{1,64}$"}"#,
    about: "The gateway's name.",
};

const GATEWAYS: &[Operation] = &[
    Operation {
        path: "/v1/ops/problems",
        id: "listProblems",
        tag: "operations",
        summary: "What is wrong, and what mends it",
        about: "As the dashboard's banner has it: what `punctual doctor` asks of the database, with this process's \
                settings, looked at no more than 10 seconds ago. Nothing listed: every check is fine.",
        answers: &[Answer::ok("ProblemList", "The worst first.")],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/gateways",
        id: "listGateways",
        tag: "gateways",
        summary: "How each gateway account stands",
        answers: &[Answer::ok("GatewayList", "With its pause, switches, breaker, rate and workers.")],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/gateways/{id}/pause",
        id: "pauseGateway",
        summary: "Claim nothing of this gateway",
        parameters: &[GATEWAY_NAME],
        body: Some("ActReason"),
        answers: &[Answer::ok("Gateway", "Paused; workers follow within a second.")],
        refusals: &[Code::GatewayNotFound],
        ..GATEWAY_ACT
    },
    Operation {
        path: "/v1/ops/gateways/{id}/resume",
        id: "resumeGateway",
        summary: "Go on with this gateway",
        parameters: &[GATEWAY_NAME],
        body: Some("ActReason"),
        answers: &[Answer::ok("Gateway", "Not paused.")],
        refusals: &[Code::GatewayNotFound],
        ..GATEWAY_ACT
    },
    Operation {
        method: "put",
        path: "/v1/ops/gateways/{id}/rate",
        id: "limitGatewayRate",
        summary: "Hold this gateway below its configured rate",
        about: "Without callsPerSecond it returns to what is configured.",
        parameters: &[GATEWAY_NAME],
        body: Some("GatewayRate"),
        answers: &[Answer::ok("Gateway", "Held so.")],
        refusals: &[Code::GatewayNotFound, Code::RateNotSettable],
        ..GATEWAY_ACT
    },
];

const SWITCHES: &[Operation] = &[
    Operation {
        path: "/v1/ops/kill-switches",
        id: "listKillSwitches",
        tag: "gateways",
        summary: "What is switched off, by whom and why",
        answers: &[Answer::ok("KillSwitchList", "All that are thrown.")],
        ..LOOK
    },
    Operation {
        method: "put",
        path: "/v1/ops/kill-switches/{kind}/{value}",
        id: "turnKillSwitch",
        summary: "Switch payments off, or on again",
        about: "Effective when it answers; what was claimed before is stopped right before its first byte. Of \
                everything and of one client it needs the scope `admin` too.",
        parameters: &[
            Parameter {
                place: Place::Path,
                name: "kind",
                schema: r#"{"type":"string","enum":["gateway","actor","currency","global"]}"#,
                about: "Of what.",
            },
            Parameter {
                place: Place::Path,
                name: "value",
                schema: NAME,
                about: "The gateway's name, the client's name or id, the currency's code; `all` of global.",
            },
        ],
        body: Some("KillSwitchOrder"),
        answers: &[Answer::ok("KillSwitchTurned", "As it is now.")],
        refusals: &[Code::NothingToSwitch],
        ..GATEWAY_ACT
    },
];

const QUARANTINE_ACT: Operation =
    Operation { method: "post", tag: "operations", scope: Some(Scope::Approve), ..Operation::BARE };

const QUARANTINE: &[Operation] = &[
    Operation {
        path: "/v1/ops/quarantine",
        id: "showQuarantine",
        tag: "operations",
        summary: "Whether claims are held because commits may be lost, and what is missing before they go on",
        answers: &[Answer::ok("QuarantineStanding", "Quarantines, the newest first.")],
        ..LOOK
    },
    Operation {
        path: "/v1/ops/quarantine",
        id: "enterQuarantine",
        summary: "Hold all claims, because commits may be lost",
        body: Some("QuarantineOrder"),
        about: "Of a database that is quarantined already, lostFrom takes the place of the instant since when commits may \
                be missing, but for what is proven to be; the first person's word of a release is void then.",
        answers: &[Answer::ok("QuarantineStanding", "Nothing is claimed any more.")],
        refusals: &[Code::InvalidTime, Code::AlreadyQuarantined, Code::OutOfRange],
        ..QUARANTINE_ACT
    },
    Operation {
        path: "/v1/ops/quarantine/release",
        id: "releaseQuarantine",
        summary: "Let claims go on, as one of two people",
        about: "Refused while a day from which commits may be missing, or one behind it on which a gateway may still book, \
                is not compared with the whole report of each gateway, seen after claims stopped, or a repair is open. \
                With anyway two people may pass over that; refunds wait then until all days are compared.",
        body: Some("QuarantineRelease"),
        answers: &[
            Answer::ok("QuarantineStanding", "Released, by the second person."),
            Answer::json(202, "QuarantineStanding", "It waits for a second person, for a day."),
        ],
        refusals: &[Code::QuarantineLacks, Code::NotQuarantined, Code::SamePerson],
        ..QUARANTINE_ACT
    },
];

const ACTS: &[Operation] = &[Operation {
    path: "/v1/ops/acts",
    id: "listActs",
    tag: "operations",
    summary: "What people did, newest first",
    parameters: &[
        asked("subject", r#"{"type":"string","minLength":1}"#, "To this only, such as a payment's id."),
        asked("operator", r#"{"type":"string","minLength":1}"#, "By this person only."),
        Parameter::LIMIT,
        Parameter::CURSOR,
    ],
    answers: &[Answer::ok("ActPage", "One page.")],
    ..LOOK
}];
