//! What the document says of these routes.

use crate::intake::actor::Scope;
use crate::intake::openapi::{Answer, Operation, Parameter, Place};
use crate::intake::problem::Code;

const ENDPOINT: Parameter = Parameter {
    place: Place::Path,
    name: "id",
    schema: r#"{"type":"string","format":"uuid"}"#,
    about: "The endpoint's id. Another client's is answered like one that does not exist.",
};

const PAYMENT: Parameter = Parameter {
    place: Place::Path,
    name: "payment",
    schema: r##"{"$ref":"#/components/schemas/PaymentId"}"##,
    about: "First part of the event's id: its payment, or what a test message has instead.",
};

const SEQUENCE: Parameter = Parameter {
    place: Place::Path,
    name: "sequence",
    schema: r#"{"type":"integer","minimum":0}"#,
    about: "Second part of the event's id: its number in its payment, 0 for a test message.",
};

const LOOK: Operation = Operation { tag: "webhooks", scope: Some(Scope::Read), ..Operation::BARE };
const ACT: Operation =
    Operation { method: "post", tag: "webhooks", scope: Some(Scope::Write), ..Operation::BARE };

const NOT_FOUND: &[Code] = &[Code::WebhookEndpointNotFound];

pub(in crate::intake) const TOLD: &[Operation] = &[
    Operation {
        path: "/v1/webhook-endpoints",
        id: "listWebhookEndpoints",
        summary: "Where the client is told of its payments",
        answers: &[Answer::ok("WebhookEndpointList", "All of them, oldest first, without their secrets.")],
        ..LOOK
    },
    Operation {
        path: "/v1/webhook-endpoints",
        id: "createWebhookEndpoint",
        summary: "Have events sent to an address",
        about: "Signed requests (Standard Webhooks) whose body is the event, from now on: at least once, each \
                payment's events recognisable by `sequence`. The secret is in this answer and nowhere else.",
        body: Some("NewWebhookEndpoint"),
        answers: &[Answer {
            headers: &["Location"],
            ..Answer::json(201, "WebhookEndpointMade", "The endpoint, with its secret, shown once.")
        }],
        refusals: &[
            Code::WebhookUrlTaken,
            Code::TooManyWebhookEndpoints,
            Code::InvalidWebhookUrl,
            Code::ForbiddenWebhookAddress,
            Code::UnknownEventType,
            Code::OutOfRange,
            // Somebody saw it in the list and deleted it at once.
            Code::WebhookEndpointChanged,
        ],
        ..ACT
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}",
        id: "showWebhookEndpoint",
        summary: "One endpoint, with what was done to it",
        parameters: &[ENDPOINT],
        answers: &[Answer::ok(
            "WebhookEndpointStanding",
            "As it stands; acts are the last 50, newest first.",
        )],
        refusals: NOT_FOUND,
        ..LOOK
    },
    Operation {
        method: "patch",
        path: "/v1/webhook-endpoints/{id}",
        id: "changeWebhookEndpoint",
        summary: "Change an endpoint",
        about: "What is left out stays. With `version`, only if nothing was done to it since.",
        parameters: &[ENDPOINT],
        body: Some("WebhookEndpointChange"),
        answers: &[Answer::ok("WebhookEndpointStanding", "As it is now.")],
        refusals: &[
            Code::WebhookEndpointNotFound,
            Code::WebhookEndpointChanged,
            Code::WebhookUrlTaken,
            Code::InvalidWebhookUrl,
            Code::ForbiddenWebhookAddress,
            Code::UnknownEventType,
            Code::OutOfRange,
        ],
        ..ACT
    },
    Operation {
        method: "delete",
        path: "/v1/webhook-endpoints/{id}",
        id: "deleteWebhookEndpoint",
        summary: "Delete an endpoint",
        about: "What it is still owed is discarded, and its log cannot be seen any more.",
        parameters: &[ENDPOINT],
        answers: &[Answer::ok("WebhookEndpointDeleted", "It is gone.")],
        refusals: NOT_FOUND,
        ..ACT
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}/rotate",
        id: "rotateWebhookSecret",
        summary: "Give an endpoint another secret",
        about: "For the overlap each request has two signatures. With an overlap of 0 all earlier secrets end at once: \
                for one that got out.",
        parameters: &[ENDPOINT],
        body: Some("WebhookRotation"),
        answers: &[Answer::json(
            201,
            "WebhookEndpointMade",
            "The endpoint, with its new secret, shown once.",
        )],
        refusals: &[Code::WebhookEndpointNotFound, Code::WebhookSecretRotating, Code::OutOfRange],
        ..ACT
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}/disable",
        id: "disableWebhookEndpoint",
        summary: "Send nothing to an endpoint",
        about: "Events are still owed to it, for as long as they are kept. May be repeated.",
        parameters: &[ENDPOINT],
        answers: &[Answer::ok("WebhookEndpointStanding", "Disabled, now or earlier.")],
        refusals: NOT_FOUND,
        ..ACT
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}/enable",
        id: "enableWebhookEndpoint",
        summary: "Send to an endpoint again",
        about: "Beginning with what it is owed. May be repeated.",
        parameters: &[ENDPOINT],
        answers: &[Answer::ok("WebhookEndpointStanding", "Enabled, now or earlier.")],
        refusals: NOT_FOUND,
        ..ACT
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}/test",
        id: "testWebhookEndpoint",
        summary: "Send a test message",
        about: "Signed and tried as every event is, of type `webhook.test`; its delivery says what came of it.",
        parameters: &[ENDPOINT],
        answers: &[Answer::json(202, "WebhookTest", "It is owed; eventId names its delivery.")],
        refusals: &[Code::WebhookEndpointNotFound, Code::WebhookEndpointDisabled, Code::WebhookTestsWaiting],
        ..ACT
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}/deliveries",
        id: "listWebhookDeliveries",
        summary: "What an endpoint was and is owed",
        about: "Newest event first. What a request examines is bounded, so a page of one status may be short and have \
                a nextCursor.",
        parameters: &[
            ENDPOINT,
            Parameter {
                place: Place::Query,
                name: "status",
                schema: r#"{"type":"string","enum":["pending","delivered","failed","discarded"]}"#,
                about: "Only those that stand so.",
            },
            Parameter::LIMIT,
            Parameter::CURSOR,
        ],
        answers: &[Answer::ok("WebhookDeliveryPage", "One page.")],
        refusals: &[Code::WebhookEndpointNotFound, Code::InvalidCursor],
        ..LOOK
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}/deliveries/{payment}/{sequence}",
        id: "showWebhookDelivery",
        summary: "One delivery, with what its tries met",
        parameters: &[ENDPOINT, PAYMENT, SEQUENCE],
        answers: &[Answer::ok("WebhookDeliveryRecord", "`log` has the last 100 tries, newest first.")],
        refusals: &[Code::WebhookEndpointNotFound, Code::WebhookDeliveryNotFound],
        ..LOOK
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}/deliveries/{payment}/{sequence}/resend",
        id: "resendWebhookDelivery",
        summary: "Send one event again",
        about: "Also one that arrived. With all tries before it, under the same `webhook-id`.",
        parameters: &[ENDPOINT, PAYMENT, SEQUENCE],
        answers: &[Answer::json(202, "WebhookDelivery", "It is owed again.")],
        refusals: &[
            Code::WebhookEndpointNotFound,
            Code::WebhookDeliveryNotFound,
            Code::WebhookDeliveryUnderWay,
        ],
        ..ACT
    },
    Operation {
        path: "/v1/webhook-endpoints/{id}/resend",
        id: "resendFailedWebhooks",
        summary: "Send again what failed",
        about: "Of the events since an instant, oldest first. While `hasMore` is true, ask again.",
        parameters: &[ENDPOINT],
        body: Some("WebhookResend"),
        answers: &[Answer::ok("WebhooksResent", "How many are owed again by this request.")],
        refusals: &[Code::WebhookEndpointNotFound, Code::InvalidTime],
        ..ACT
    },
];
