//! Deliveries: what an endpoint was and is owed, what each try met, and sending again.
//!
//! **Promises.** The list is newest event first; a page of one state may be short and go on, since what one request
//! looks at is bounded. A resend of what failed owes at most [`MOST_AT_ONCE`] events a request and says whether there
//! is more, so that a client repeats it and nothing waits for a request. The cursor is sealed like a list's
//! (`cursor.rs` says why), and bound to the endpoint and the state. If this dies in a resend, the rest is still failed.

use super::endpoint_id;
use super::endpoints::{asked, written};
use crate::domain::ids::{ActorId, PaymentId};
use crate::domain::intent::{Authenticity, Secret, check_cursor, cursor_mac};
use crate::domain::webhook::DeliveryStatus;
use crate::intake::actor::Scope;
use crate::intake::form::Pairs;
use crate::intake::instant::Instant;
use crate::intake::problem::{Code, Problem};
use crate::intake::read::IdInPath;
use crate::intake::wire::utc;
use crate::intake::{Intake, limits};
use crate::schedule::{DeliveryPlace, Resent, WebhookDelivery, WebhookTry};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::HeaderMap;
use axum::http::{Request, Response, StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Days, NaiveTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Most events that one request owes again, and most that one statement does.
const MOST_AT_ONCE: u64 = 5_000;
const BATCH: u32 = 1_000;

/// No other cursor begins with it.
const VERSION: u8 = 3;
/// Version, instant, payment, number.
const PLACE_BYTES: usize = 1 + 8 + 16 + 4;
const MAC_BYTES: usize = 16;

type EventInPath = Result<Path<(String, String, String)>, PathRejection>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    since: String,
}

/// The order is the order on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    event_id: String,
    event_type: &'a str,
    event_at: String,
    payment_id: Option<PaymentId>,
    sequence: i32,
    status: &'static str,
    under_way: bool,
    tries: i32,
    next_try_at: Option<String>,
    last_status: Option<i16>,
    last_error: Option<&'a str>,
    delivered_at: Option<String>,
    made_at: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithLog<'a> {
    #[serde(flatten)]
    delivery: Shown<'a>,
    log: Vec<ShownTry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownTry<'a> {
    number: i32,
    at: String,
    took_ms: i32,
    status: Option<i16>,
    error: Option<&'a str>,
    excerpt: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    data: Vec<Shown<'a>>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ManyOwed {
    resent: u64,
    has_more: bool,
}

pub(in crate::intake) async fn list(
    State(intake): State<Intake>,
    path: IdInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = intake.look(&headers, Scope::Read).await?;
    let endpoint = endpoint_id(&path.map(|Path(text)| text).unwrap_or_default())?;
    let asked = Pairs::read(&uri, &["status", "limit", "cursor"])?;
    let expected = "Expected pending, delivered, failed or discarded.";
    let of = asked.read_as("status", expected, DeliveryStatus::from_text)?;
    let limit = asked.limit()?;
    let secret = intake.schedule.installation_secret();
    let actor = caller.actor.id;
    let query = query(endpoint, of);
    let unsealed =
        asked.text("cursor").map(|text| unseal(secret, actor, &query, text).ok_or_else(bad_cursor));
    let after = unsealed.transpose()?;
    let page = intake.schedule.webhook_deliveries(actor, endpoint, of, after, limit).await;
    let page = page.map_err(limits::trouble)?;
    let page = page.ok_or_else(|| Problem::new(Code::WebhookEndpointNotFound))?;
    let next_cursor = page.next.map(|place| seal(secret, actor, &query, place));
    let data = page.deliveries.iter().map(shown).collect();
    Ok(written(StatusCode::OK, &Page { data, next_cursor }))
}

pub(in crate::intake) async fn show(
    State(intake): State<Intake>,
    path: EventInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = intake.look(&headers, Scope::Read).await?;
    let (endpoint, payment, seq) = event_in(path)?;
    let found = intake.schedule.webhook_delivery(caller.actor.id, endpoint, payment, seq).await;
    let found = found.map_err(limits::trouble)?;
    let (delivery, tries) = found.ok_or_else(|| Problem::new(Code::WebhookDeliveryNotFound))?;
    let told = WithLog { delivery: shown(&delivery), log: tries.iter().map(shown_try).collect() };
    Ok(written(StatusCode::OK, &told))
}

pub(in crate::intake) async fn resend(
    State(intake): State<Intake>,
    path: EventInPath,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = intake.look(&headers, Scope::Write).await?;
    let (endpoint, payment, seq) = event_in(path)?;
    let actor = caller.actor.id;
    let resent = intake.schedule.resend_webhook_delivery(actor, endpoint, payment, seq).await;
    match resent.map_err(limits::trouble)? {
        Resent::Owed => {
            let now = intake.schedule.webhook_delivery(actor, endpoint, payment, seq).await;
            let now = now.map_err(limits::trouble)?;
            let (delivery, _) = now.ok_or_else(|| Problem::new(Code::WebhookDeliveryNotFound))?;
            Ok(written(StatusCode::ACCEPTED, &shown(&delivery)))
        }
        Resent::UnderWay => Err(Problem::new(Code::WebhookDeliveryUnderWay)),
        Resent::NotFound => Err(Problem::new(Code::WebhookDeliveryNotFound)),
    }
}

pub(in crate::intake) async fn resend_failed(
    State(intake): State<Intake>,
    path: IdInPath,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let (caller, since): (_, Since) = asked(&intake, request).await?;
    let endpoint = endpoint_id(&path.map(|Path(text)| text).unwrap_or_default())?;
    let actor = caller.actor.id;
    let invalid = || Problem::at(Code::InvalidTime, "/since", "Expected an RFC 3339 time with an offset.");
    let since = Instant::read(&since.since).map(Instant::rounded_down).ok_or_else(invalid)?;
    let found = intake.schedule.webhook_endpoint(actor, endpoint).await.map_err(limits::trouble)?;
    found.ok_or_else(|| Problem::new(Code::WebhookEndpointNotFound))?;
    let mut resent = 0;
    for span in days(since, caller.now, intake.hooks.keep_days) {
        loop {
            if resent >= MOST_AT_ONCE {
                return Ok(written(StatusCode::OK, &ManyOwed { resent, has_more: true }));
            }
            let some = intake.schedule.resend_failed_webhooks(actor, endpoint, span, BATCH).await;
            let some = some.map_err(limits::trouble)?;
            resent += some.count;
            if !some.is_full {
                break;
            }
        }
    }
    Ok(written(StatusCode::OK, &ManyOwed { resent, has_more: false }))
}

/// The days of UTC from `since` to tomorrow, each as a span, oldest first; none of those that are dropped.
fn days(since: DateTime<Utc>, now: DateTime<Utc>, keep_days: u32) -> Vec<(DateTime<Utc>, DateTime<Utc>)> {
    let midnight = |at: DateTime<Utc>| at.date_naive().and_time(NaiveTime::MIN).and_utc();
    // Kept days that still owe something stay a while longer.
    let kept = now.checked_sub_days(Days::new(u64::from(keep_days) * 2)).map_or(since, midnight);
    let end = now.checked_add_days(Days::new(2)).map_or(now, midnight);
    let mut from = since.max(kept);
    let mut spans = Vec::new();
    while from < end {
        let to = midnight(from).checked_add_days(Days::new(1)).unwrap_or(end);
        spans.push((from, to));
        from = to;
    }
    spans
}

/// The event of an endpoint in a path.
///
/// # Errors
/// 404, like an unknown one.
fn event_in(path: EventInPath) -> Result<(Uuid, PaymentId, i32), Problem> {
    let none = || Problem::new(Code::WebhookDeliveryNotFound);
    let Path((endpoint, payment, sequence)) = path.map_err(|_| none())?;
    // Digits only and no zero before them: one spelling, as in every answer.
    let seq = sequence.parse::<i32>().ok().filter(|seq| *seq >= 0 && seq.to_string() == sequence);
    Ok((endpoint_id(&endpoint)?, payment.parse().map_err(|_| none())?, seq.ok_or_else(none)?))
}

fn shown(delivery: &WebhookDelivery) -> Shown<'_> {
    let DeliveryPlace { at, payment, seq } = delivery.place;
    let is_pending = delivery.status == DeliveryStatus::Pending;
    Shown {
        event_id: format!("{payment}/{seq}"),
        event_type: &delivery.event_type,
        event_at: utc(at),
        // A test message is of nobody's payment.
        payment_id: (seq > 0).then_some(payment),
        sequence: seq,
        status: delivery.status.as_str(),
        under_way: delivery.is_under_way,
        tries: delivery.tries,
        next_try_at: is_pending.then(|| utc(delivery.next_try_at)),
        last_status: delivery.last_status,
        last_error: delivery.last_error.as_deref(),
        delivered_at: delivery.delivered_at.map(utc),
        made_at: utc(delivery.made_at),
    }
}

fn shown_try(one: &WebhookTry) -> ShownTry<'_> {
    ShownTry {
        number: one.number,
        at: utc(one.at),
        took_ms: one.took_ms,
        status: one.status,
        error: one.error.as_deref(),
        excerpt: &one.excerpt,
    }
}

/// What a cursor is bound to, beside the actor.
fn query(endpoint: Uuid, of: Option<DeliveryStatus>) -> String {
    format!("webhooks {endpoint} {}", of.map_or("", DeliveryStatus::as_str))
}

fn bad_cursor() -> Problem {
    Problem::at(Code::InvalidCursor, "/cursor", Code::InvalidCursor.doc())
}

fn seal(secret: &Secret, actor: ActorId, query: &str, place: DeliveryPlace) -> String {
    let mut bytes = Vec::with_capacity(PLACE_BYTES + MAC_BYTES);
    bytes.push(VERSION);
    bytes.extend(place.at.timestamp_micros().to_be_bytes());
    bytes.extend(place.payment.as_uuid().as_bytes());
    bytes.extend(place.seq.to_be_bytes());
    bytes.extend(cursor_mac(secret, actor, query.as_bytes(), &bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

fn unseal(secret: &Secret, actor: ActorId, query: &str, text: &str) -> Option<DeliveryPlace> {
    let bytes: [u8; PLACE_BYTES + MAC_BYTES] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    let (place, mac) = bytes.split_first_chunk::<PLACE_BYTES>()?;
    match check_cursor(secret, actor, query.as_bytes(), place, mac.try_into().ok()?) {
        Authenticity::Forged => return None,
        Authenticity::Authentic => {}
    }
    let (version, rest) = place.split_first()?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    let (payment, rest) = rest.split_first_chunk::<16>()?;
    let (seq, _) = rest.split_first_chunk::<4>()?;
    (*version == VERSION).then_some(DeliveryPlace {
        at: DateTime::from_timestamp_micros(i64::from_be_bytes(*at))?,
        payment: PaymentId::from_uuid(Uuid::from_bytes(*payment)).ok()?,
        seq: i32::from_be_bytes(*seq),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: Secret = [7; 32];

    fn actor(n: u128) -> ActorId {
        ActorId(Uuid::from_u128(n))
    }

    proptest! {
        #[test]
        fn every_place_comes_back_to_its_actor_endpoint_and_state_alone(
            micros in 0..(1_i64 << 57), ms in 0..(1_i64 << 47), bits in any::<[u8; 10]>(), seq in 0..i32::MAX,
            bit in 0..45_usize * 8,
        ) {
            let payment = PaymentId::new(DateTime::from_timestamp_millis(ms).unwrap(), bits).unwrap();
            let place = DeliveryPlace { at: DateTime::from_timestamp_micros(micros).unwrap(), payment, seq };
            let all = query(Uuid::from_u128(5), None);
            let text = seal(&SECRET, actor(1), &all, place);
            prop_assert_eq!(unseal(&SECRET, actor(1), &all, &text), Some(place));
            prop_assert_eq!(unseal(&SECRET, actor(2), &all, &text), None);
            prop_assert_eq!(unseal(&[8; 32], actor(1), &all, &text), None);
            for other in [query(Uuid::from_u128(6), None), query(Uuid::from_u128(5), Some(DeliveryStatus::Failed))] {
                prop_assert_eq!(unseal(&SECRET, actor(1), &other, &text), None);
            }
            let mut changed = URL_SAFE_NO_PAD.decode(&text).unwrap();
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(unseal(&SECRET, actor(1), &all, &URL_SAFE_NO_PAD.encode(changed)), None);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            prop_assert_eq!(unseal(&SECRET, actor(1), "q", &text), None);
        }
    }

    #[test]
    fn a_resend_goes_through_whole_days_of_utc_and_not_through_those_that_are_dropped() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let now = at("2030-03-10T12:00:00Z");
        let spans = days(at("2030-03-09T22:30:00Z"), now, 30);
        let told: Vec<_> = spans.iter().map(|(from, to)| (from.to_rfc3339(), to.to_rfc3339())).collect();
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(
            told,
            [
                pair("2030-03-09T22:30:00+00:00", "2030-03-10T00:00:00+00:00"),
                pair("2030-03-10T00:00:00+00:00", "2030-03-11T00:00:00+00:00"),
                pair("2030-03-11T00:00:00+00:00", "2030-03-12T00:00:00+00:00"),
            ]
        );
        assert_eq!(days(at("1990-01-01T00:00:00Z"), now, 2).len(), 6);
        assert_eq!(days(at("2031-01-01T00:00:00Z"), now, 30), []);
    }
}
