//! `GET /v1/scheduled-payments`: an actor's payments, a page at a time.
//!
//! Newest first; by due time, earliest first, where the query bounds the due time. A page holds each
//! payment as it stands, without its attempts, and a cursor that leads on. Few matches among many
//! payments answer a short page, even an empty one, *with* a cursor: what a request examines is
//! bounded, and a client goes on until `nextCursor` is null.
//!
//! The page's tag is a digest of its bytes, so a client that polls a list is sent nothing new for
//! nothing new.

use super::actor::{Caller, Scope};
use super::cursor::{self, Binding};
use super::filters::Asked;
use super::openapi::{Answer, Operation, Parameter, Place};
use super::problem::{Code, Problem};
use super::{Intake, headers, limits, read, wire};
use crate::schedule::ListPage;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::HeaderMap;
use axum::http::{Response, Uri};
use sha2::{Digest, Sha256};

pub(super) const TOLD: &[Operation] = &[Operation {
    path: "/v1/scheduled-payments",
    id: "listPayments",
    tag: "payments",
    summary: "The client's payments, a page at a time",
    about: "Newest first. What a request examines is bounded, so a page may be short, even empty, and have a \
            nextCursor.",
    scope: Some(Scope::Read),
    parameters: PARAMETERS,
    answers: &[Answer { headers: &["ETag"], ..Answer::ok("PaymentPage", "One page.") }, Answer::UNCHANGED],
    refusals: &[Code::InvalidTime, Code::ConflictingParameters, Code::InvalidCursor],
    ..Operation::BARE
}];

const PARAMETERS: &[Parameter] = &[
    read::IF_NONE_MATCH,
    Parameter {
        place: Place::Query,
        name: "status",
        schema: r##"{"type":"string","pattern":"^(PENDING|PROCESSING|UNKNOWN|COMPLETED|FAILED|CANCELLED|PARKED|REFUNDED)(,(PENDING|PROCESSING|UNKNOWN|COMPLETED|FAILED|CANCELLED|PARKED|REFUNDED))*$"}"##,
        about: "In one of these states; several with commas.",
    },
    Parameter {
        place: Place::Query,
        name: "dueFrom",
        schema: r##"{"type":"string","format":"date-time"}"##,
        about: "Due at or after; orders the list by due time, earliest first.",
    },
    Parameter {
        place: Place::Query,
        name: "dueTo",
        schema: r##"{"type":"string","format":"date-time"}"##,
        about: "Due before; orders the list by due time, earliest first.",
    },
    Parameter {
        place: Place::Query,
        name: "createdFrom",
        schema: r##"{"type":"string","format":"date-time"}"##,
        about: "Created at or after.",
    },
    Parameter {
        place: Place::Query,
        name: "createdTo",
        schema: r##"{"type":"string","format":"date-time"}"##,
        about: "Created before.",
    },
    Parameter {
        place: Place::Query,
        name: "externalId",
        schema: r##"{"type":"string","minLength":1,"maxLength":180,"pattern":"^[^\\u0000-\\u001f\\u007f-\\u009f]+$"}"##,
        about: "The live payment with this external id; no cursor then.",
    },
    Parameter {
        place: Place::Query,
        name: "idempotencyKey",
        schema: r##"{"type":"string","minLength":1,"maxLength":255,"pattern":"^[!-~]+$"}"##,
        about: "The payment that this key created; no cursor then.",
    },
    Parameter {
        place: Place::Query,
        name: "gatewayReference",
        schema: r##"{"type":"string","minLength":1,"maxLength":255,"pattern":"^[^\\u0000-\\u001f\\u007f-\\u009f]+$"}"##,
        about: "The payment with this reference at its gateway; no cursor then.",
    },
    Parameter {
        place: Place::Query,
        name: "q",
        schema: r##"{"type":"string","maxLength":2000,"examples":["status:PARKED,UNKNOWN -gateway:other amount:1000.."]}"##,
        about: "A filter: terms `name:value` apart by blanks, `-` before what must not be, lists with commas, ranges with `..`; names: status, reason, due, amount, gateway, ref, id.",
    },
    Parameter {
        place: Place::Query,
        name: "limit",
        schema: r##"{"type":"integer","minimum":1,"maximum":200,"default":50}"##,
        about: "Payments on the page.",
    },
    Parameter {
        place: Place::Query,
        name: "cursor",
        schema: r##"{"type":"string"}"##,
        about: "nextCursor of the page before, with the same filters.",
    },
];

pub(super) async fn get(
    State(intake): State<Intake>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let Caller { actor, .. } = intake.authorise(&headers, Scope::Read).await?;
    headers::accepts_json(&headers)?;
    let asked = Asked::read(&uri)?;
    let query = asked.canonical();
    let binding = Binding { secret: intake.schedule.installation_secret(), actor: actor.id, query: &query };
    let after = asked.cursor.as_deref().map(|text| {
        cursor::read(binding, text)
            .ok_or_else(|| Problem::at(Code::InvalidCursor, "/cursor", Code::InvalidCursor.doc()))
    });
    let after = after.transpose()?;
    let page = match &asked.by {
        Some(by) => {
            let found = intake.schedule.look_up(actor.id, by, &asked.filter).await;
            found.map(|payments| ListPage { payments, next: None })
        }
        None => intake.schedule.list(actor.id, &asked.filter, asked.order, after, asked.limit).await,
    };
    let page = page.map_err(limits::trouble)?;
    let body = wire::page(&page.payments, page.next.map(|place| cursor::write(binding, place)));
    let digest = Sha256::digest(&body);
    Ok(read::unless_known(&headers, &format!("W/\"{}\"", hex::encode(&digest[..16])), || body))
}
