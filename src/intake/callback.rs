//! `POST /v1/gateway-callbacks/{gateway}`: a gateway says that it has decided.
//!
//! **Promises.** It is believed nothing: a callback that is the gateway's own has the payment asked about now
//! instead of later, and that is all, whatever it says, how often and in what order. It is absorbed by a final
//! state, and by a payment that is not known here with the same answer, so that nobody learns by it which
//! payments exist. While a claim holds the payment it is answered 503, so that it comes again after our own
//! commit.
//!
//! **Relies on** the signature (`signature`) and on the database's clock for its age. If this dies here, the
//! sender repeats itself, and the payment is asked about on its ladder anyway.

use super::openapi::{Answer, Operation, Parameter, Place};
use super::problem::{Code, Problem};
use super::signature::{Key, Signed};
use super::{Intake, headers, json, limits};
use crate::domain::ids::{GatewayName, PaymentId};
use crate::platform::config;
use crate::platform::metrics;
use crate::schedule::CallbackTaken;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{self, StatusCode};
use axum::response::Response;
use chrono::TimeDelta;
use serde::Deserialize;

/// The sender's clock and the way here may differ from the database's clock by so much.
const TOLERANCE: TimeDelta = TimeDelta::minutes(5);
/// Until a claim's outcome is written, mostly.
const AGAIN_AFTER_S: u32 = 5;

/// The gateway whose callbacks are taken.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    gateway: GatewayName,
    key: Key,
}

impl Sender {
    /// `None` without a secret: then no callback can be told from a forged one.
    pub(super) fn of(gateway: &config::Gateway) -> Option<Self> {
        let (name, secret) = (GatewayName(gateway.name.clone()), &gateway.callback_secret);
        (!secret.is_empty()).then(|| Self { gateway: name, key: Key::of(secret) })
    }
}

/// What a callback says. Only which payment it is about is used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Said {
    payment_id: String,
    key: String,
    #[serde(rename = "status")]
    _status: Outcome,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Charged,
    Declined,
}

impl Said {
    /// The payment that it is about, if it is about one.
    fn read(body: &[u8]) -> Option<PaymentId> {
        let said: Self = serde_json::from_slice(body).ok()?;
        let payment: PaymentId = said.payment_id.parse().ok()?;
        let epoch = said.key.strip_prefix(&payment.to_string())?;
        let is_key = epoch.is_empty() || epoch.strip_prefix(':').is_some_and(|n| n.parse::<u32>().is_ok());
        is_key.then_some(payment)
    }
}

pub(super) const TOLD: &[Operation] = &[Operation {
    method: "post",
    path: "/v1/gateway-callbacks/{gateway}",
    id: "takeCallback",
    tag: "gateways",
    summary: "A gateway's word that a charge is decided",
    about: "A hint, signed as Standard Webhooks has it: the gateway is asked, and its answer counts.",
    parameters: &[
        Parameter {
            place: Place::Path,
            name: "gateway",
            schema: r#"{"type":"string","minLength":1,"maxLength":64}"#,
            about: "The gateway's name.",
        },
        SIGNED[0],
        SIGNED[1],
        SIGNED[2],
    ],
    body: Some("Callback"),
    answers: &[Answer::ok("Taken", "Heard.")],
    refusals: &[
        Code::InvalidCallback,
        Code::InvalidSignature,
        Code::PaymentInFlight,
        Code::DatabaseUnavailable,
    ],
    ..Operation::BARE
}];

const SIGNED: [Parameter; 3] = [
    signed("webhook-id", "Names the callback."),
    signed("webhook-timestamp", "Seconds since 1970, of the last 5 minutes."),
    signed("webhook-signature", "v1 and the signature, several with blanks."),
];

const fn signed(name: &'static str, about: &'static str) -> Parameter {
    Parameter { place: Place::Header, name, schema: r#"{"type":"string"}"#, about }
}

pub(super) async fn post(
    State(intake): State<Intake>,
    path: Result<Path<String>, PathRejection>,
    request: http::Request<axum::body::Body>,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    headers::json_body(&parts.headers)?;
    let arrival = parts.extensions.get::<limits::Arrival>().cloned().unwrap_or_default();
    let body = limits::read_callback(body, &arrival).await?;
    let named = path.map(|Path(name)| name).unwrap_or_default();
    let (gateway, signed) = verified(&intake, &named, &parts.headers, &body).await?;
    let told = |what: &str| metrics::GATEWAY_CALLBACKS.add(1, [&gateway.0, what]);
    let Some(payment) = Said::read(&body) else {
        told("unreadable");
        return Err(Problem::new(Code::InvalidCallback));
    };
    let taken = intake.schedule.take_callback(gateway, &signed.webhook_id, payment).await;
    let taken = taken.map_err(limits::trouble)?;
    told(taken.as_str());
    match taken {
        CallbackTaken::InFlight => Err(Problem::new(Code::PaymentInFlight).retry_after(AGAIN_AFTER_S)),
        CallbackTaken::Hinted
        | CallbackTaken::AlreadyDue
        | CallbackTaken::Duplicate
        | CallbackTaken::Final
        | CallbackTaken::Parked
        | CallbackTaken::Pending
        | CallbackTaken::NoSuchPayment => Ok(json(StatusCode::OK, b"{}".to_vec())),
    }
}

/// The gateway whose word this is. One that is not configured, one without a secret, a forged signature and
/// an old one are refused alike.
async fn verified<'a>(
    intake: &'a Intake,
    named: &str,
    headers: &http::HeaderMap,
    body: &[u8],
) -> Result<(&'a GatewayName, Signed), Problem> {
    let refused = || Problem::new(Code::InvalidSignature);
    let sender = intake.sender.as_ref().as_ref().filter(|sender| sender.gateway.0 == named);
    let sender = sender.ok_or_else(refused)?;
    let forged = || {
        metrics::GATEWAY_CALLBACKS.add(1, [&sender.gateway.0, "refused"]);
        refused()
    };
    let signed = sender.key.verify(headers, body).ok_or_else(forged)?;
    let now = intake.schedule.database_now().await.map_err(limits::trouble)?;
    if (now - signed.sent_at).abs() > TOLERANCE {
        return Err(forged());
    }
    Ok((&sender.gateway, signed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a2283e-8820-8aaa-9bbb-0123456789ab";

    #[test]
    fn a_callback_names_a_payment_and_a_key_of_it_and_nothing_else() {
        let said = |key: &str, rest: &str| {
            Said::read(format!(r#"{{"paymentId":"{ID}","key":"{key}"{rest}}}"#).as_bytes())
        };
        for (key, status) in [(ID.to_owned(), "charged"), (format!("{ID}:3"), "declined")] {
            let found = said(&key, &format!(r#","status":"{status}""#));
            assert_eq!(found.map(|id| id.to_string()).as_deref(), Some(ID));
        }
        let other = "01a2283e-8820-8aaa-9bbb-0123456789ac";
        for (key, rest) in [
            (ID, ""),
            (ID, r#","status":"refunded""#),
            (ID, r#","status":"charged","amount":1"#),
            (ID, r#","status":"charged","status":"charged""#),
            (other, r#","status":"charged""#),
            ("", r#","status":"charged""#),
        ] {
            assert_eq!(said(key, rest), None, "{key} {rest}");
        }
        let odd = format!("{ID}:x");
        assert_eq!(said(&odd, r#","status":"charged""#), None);
        for body in ["", "[]", "null", "{\"paymentId\":1}"] {
            assert_eq!(Said::read(body.as_bytes()), None, "{body}");
        }
    }
}
