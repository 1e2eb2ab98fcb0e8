//! `GET /v1/events`: an actor's own events, a page at a time, for readers without Kafka.
//!
//! **Promises.** Every event has the id and the very bytes that it has in the topic of events. Going on from
//! `nextCursor` meets every event, each payment's in the order of `sequence`, whatever happens meanwhile
//! (`schedule/events.rs`); some may be met twice after a failover. `nextCursor` is always there: where
//! `hasMore` is false, ask again later with it.
//!
//! The cursor is sealed like a list's (`cursor.rs` says why), and bound to the actor.

use super::actor::{Caller, Scope};
use super::openapi::{Answer, Operation, Parameter, Place};
use super::parameters::{self, at};
use super::problem::{Code, Problem};
use super::{Intake, headers, json, limits};
use crate::domain::event;
use crate::domain::ids::ActorId;
use crate::domain::intent::{Authenticity, Secret, check_cursor, cursor_mac};
use crate::schedule::EventPlace;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::HeaderMap;
use axum::http::{Response, StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::DateTime;
use uuid::Uuid;

/// Events on a page, where the query does not say.
const USUAL_LIMIT: usize = 100;
/// Most events on a page.
pub(super) const MOST_LIMIT: usize = 500;

/// What a cursor of events is bound to, beside the actor.
const QUERY: &[u8] = b"events";
/// No list's cursor begins with it.
const VERSION: u8 = 2;
/// Version, life of the database, transaction, number, payment, instant.
const PLACE_BYTES: usize = 1 + 8 + 8 + 4 + 16 + 8;
const MAC_BYTES: usize = 16;

/// What a query asks for.
#[derive(Debug, Default)]
struct Asked {
    after: Option<String>,
    limit: Option<usize>,
}

impl Asked {
    fn read(uri: &Uri) -> Result<Self, Problem> {
        let mut asked = Self::default();
        parameters::read(uri, |name, value| {
            match name {
                "after" => asked.after = Some(value.to_owned()),
                "limit" => asked.limit = Some(parameters::limit(value, MOST_LIMIT)?),
                _ => return Err(parameters::unknown(name)),
            }
            Ok(())
        })?;
        Ok(asked)
    }
}

pub(super) const TOLD: &[Operation] = &[Operation {
    path: "/v1/events",
    id: "listEvents",
    tag: "events",
    summary: "What happened to the client's payments",
    about: "The events of the topic of events, with the same ids and bytes. An event can be met twice; its id tells.",
    scope: Some(Scope::Read),
    parameters: &[
        Parameter {
            place: Place::Query,
            name: "after",
            schema: r#"{"type":"string"}"#,
            about: "nextCursor of the page before; without it from the oldest that is kept.",
        },
        Parameter {
            place: Place::Query,
            name: "limit",
            schema: r#"{"type":"integer","minimum":1,"maximum":500,"default":100}"#,
            about: "Events on the page.",
        },
    ],
    answers: &[Answer::ok("EventPage", "Each payment's events in the order of their sequence.")],
    refusals: &[Code::InvalidCursor],
    ..Operation::BARE
}];

pub(super) async fn get(
    State(intake): State<Intake>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let Caller { actor, .. } = intake.authorise(&headers, Scope::Read).await?;
    headers::accepts_json(&headers)?;
    let asked = Asked::read(&uri)?;
    let secret = intake.schedule.installation_secret();
    let after = asked.after.as_deref().map(|text| place(secret, actor.id, text, "after")).transpose()?;
    let limit = asked.limit.unwrap_or(USUAL_LIMIT);
    let page = intake.schedule.events(actor.id, after, limit).await.map_err(limits::trouble)?;
    let mut body = b"{\"data\":[".to_vec();
    for (n, (_, event)) in page.events.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        body.extend(event::json(event));
    }
    let next = write(secret, actor.id, &page.end);
    body.extend(format!("],\"nextCursor\":\"{next}\",\"hasMore\":{}}}", page.is_full).into_bytes());
    Ok(json(StatusCode::OK, body))
}

/// The place that a cursor names.
///
/// # Errors
/// 400 for everything but a cursor of this actor's events.
pub(super) fn place(
    secret: &Secret,
    actor: ActorId,
    text: &str,
    parameter: &'static str,
) -> Result<EventPlace, Problem> {
    read(secret, actor, text).ok_or_else(|| at(parameter, Code::InvalidCursor, Code::InvalidCursor.doc()))
}

/// Writes the cursor of a place.
pub(super) fn write(secret: &Secret, actor: ActorId, place: &EventPlace) -> String {
    let mut bytes = Vec::with_capacity(PLACE_BYTES + MAC_BYTES);
    bytes.push(VERSION);
    bytes.extend(place.lineage);
    bytes.extend(place.xid.to_be_bytes());
    bytes.extend(place.seq.to_be_bytes());
    bytes.extend(place.payment.as_bytes());
    bytes.extend(place.at.timestamp_micros().to_be_bytes());
    bytes.extend(cursor_mac(secret, actor, QUERY, &bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

fn read(secret: &Secret, actor: ActorId, text: &str) -> Option<EventPlace> {
    let bytes: [u8; PLACE_BYTES + MAC_BYTES] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    let (place, mac) = bytes.split_first_chunk::<PLACE_BYTES>()?;
    match check_cursor(secret, actor, QUERY, place, mac.try_into().ok()?) {
        Authenticity::Forged => return None,
        Authenticity::Authentic => {}
    }
    let (version, rest) = place.split_first()?;
    let (lineage, rest) = rest.split_first_chunk::<8>()?;
    let (xid, rest) = rest.split_first_chunk::<8>()?;
    let (seq, rest) = rest.split_first_chunk::<4>()?;
    let (payment, rest) = rest.split_first_chunk::<16>()?;
    let (at, _) = rest.split_first_chunk::<8>()?;
    (*version == VERSION).then_some(EventPlace {
        lineage: *lineage,
        xid: u64::from_be_bytes(*xid),
        seq: i32::from_be_bytes(*seq),
        payment: Uuid::from_bytes(*payment),
        at: DateTime::from_timestamp_micros(i64::from_be_bytes(*at))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::PaymentId;
    use crate::intake::cursor::{self, Binding};
    use crate::schedule::Place;
    use proptest::prelude::*;

    const SECRET: Secret = [7; 32];

    fn actor(n: u128) -> ActorId {
        ActorId(Uuid::from_u128(n))
    }

    proptest! {
        #[test]
        fn every_place_comes_back_to_its_actor_and_to_nobody_else(
            lineage in any::<[u8; 8]>(), xid in any::<u64>(), seq in any::<i32>(), payment in any::<[u8; 16]>(),
            micros in 0..(1_i64 << 57), bit in 0..61_usize * 8,
        ) {
            let at = DateTime::from_timestamp_micros(micros).unwrap();
            let place = EventPlace { lineage, xid, seq, payment: Uuid::from_bytes(payment), at };
            let text = write(&SECRET, actor(1), &place);
            prop_assert_eq!(text.len(), 82);
            prop_assert_eq!(read(&SECRET, actor(1), &text), Some(place));
            prop_assert_eq!(read(&SECRET, actor(2), &text), None);
            prop_assert_eq!(read(&[8; 32], actor(1), &text), None);
            let mut changed = URL_SAFE_NO_PAD.decode(&text).unwrap();
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(read(&SECRET, actor(1), &URL_SAFE_NO_PAD.encode(changed)), None);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,100}") {
            prop_assert_eq!(read(&SECRET, actor(1), &text), None);
        }
    }

    #[test]
    fn a_list_s_cursor_is_none_of_events() {
        let at = DateTime::from_timestamp_micros(1).unwrap();
        let place = Place { at, payment: PaymentId::new(at, [9; 10]).unwrap() };
        let binding = Binding { secret: &SECRET, actor: actor(1), query: "events" };
        assert_eq!(read(&SECRET, actor(1), &cursor::write(binding, place)), None);
    }
}
