//! The generic JSON gateway: most internal payment services, and the sandbox.
//!
//! **Promises**: one `charge` is at most one money-moving request (rule R15), written only if the
//! gate says yes at the last moment, and whatever happens after the first byte is told apart from
//! what provably never left. **Relies on** `gated_body` for that proof, on `classify` for the
//! meaning of answers, and on the gateway collapsing equal keys into one charge. **If this dies**
//! during a call, the claim's lease expires and the payment is asked about under the same key.
//!
//! # The wire
//! ```text
//! POST <url>/charges
//! Authorization: Bearer <secret>      Idempotency-Key: <payment id>[:<epoch>]
//! Punctual-Claim: <claim id>/<fence>  Punctual-Due: <RFC 3339, UTC>     (not part of the frozen bytes)
//! {"paymentId":"<uuid>","amount":<minor units>,"currency":"EUR","payee":"<reference>"}
//!
//! 200, 201  {"id":"<reference>","status":"charged","key":"…","paymentId":"…","amount":1,"currency":"EUR"}
//! 202       the same with "status":"pending" (decided later) or "in_progress"
//! 200       the same with "status":"declined","code":"…" and "networkCode", "advice" if known
//! 402       {"error":{"type":"declined","code":"…","key":"…", "reference", "networkCode", "advice"}}
//! 400 401 403 429   {"error":{"type":"invalid_request|unauthorized|forbidden|rate_limited","code":"…"}}
//! 409 {"error":{"type":"in_use",…}}   422, 409, 400 {"error":{"type":"key_reused",…}}   Retry-After: s or date
//! 409 {"error":{"type":"voided","code":"…","key":"…"}}                (never executed: the key was voided)
//!
//! GET <url>/charges?key=<key>
//! 200 {"key":"…","charges":[<charge objects as above, all that match>],"voided":true if the key was voided}
//! 404 {"error":{"type":"not_found",…}}
//!
//! POST <url>/voids                    only with gateway.voids_by_key; headers as above but Idempotency-Key
//! {"key":"<key>"}
//! 200       {"key":"…","status":"voided"}     no charge under this key, ever: a tombstone
//! 200, 202, 402       what became of the key before, as a charge is answered
//! 401 403 429   as above        409 {"error":{"type":"in_use",…}}     a charge under this key is running
//! ```
//! Fields not named here are ignored; a missing, doubled or ill-typed one makes an answer unreadable.

use super::classify::{self, Asked, BodyFault, Heard};
use super::gated_body::{GatedBody, Left, Watch, gated};
use super::port::{CannotRender, FrozenRequest, Gateway, Profile};
use super::settlement::Source;
use crate::domain::ids::gateway_key;
use crate::domain::lease::SendGate;
use crate::domain::payment::Payment;
use crate::domain::verdict::{DeclineClass, Doubt, Lookup, NotSent, Verdict};
use crate::platform::clock::SharedClock;
use crate::platform::failpoints::{Point, reach};
use crate::platform::faults::{Sabotage, sabotaged};
use crate::platform::metrics;
use crate::schedule::{Answer, Answered, Claimed, How};
use bytes::Bytes;
use chrono::SecondsFormat;
use futures_util::future::BoxFuture;
use reqwest::{RequestBuilder, Response, Url, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;

/// The version of the request format (rule R4): grows with any change to the bytes of the body.
pub const RENDERER: i16 = 1;

/// Longest answer read, in bytes.
pub(super) const ANSWER_CAP: usize = 64 * 1024;

/// Longest key that the wire allows, in characters; a payment id, a colon and an epoch take 47.
pub(super) const KEY_MAX_LEN: usize = 64;

/// Longest payee that the wire allows, in characters.
const PAYEE_MAX_LEN: usize = 255;

/// One account at one JSON gateway. See the module for the wire.
pub struct HttpGateway {
    pub(super) profile: Profile,
    pub(super) client: reqwest::Client,
    charges: Url,
    voids: Url,
    pub(super) refunds: Url,
    pub(super) source: Option<Source>,
    pub(super) clock: SharedClock,
}

/// Where each kind of request goes.
pub(super) struct Places {
    pub(super) charges: Url,
    pub(super) voids: Url,
    pub(super) refunds: Url,
    /// `None`: its reports cannot be fetched.
    pub(super) reports: Option<Source>,
}

impl fmt::Debug for HttpGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpGateway").field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// The frozen bytes (rule R5), in this order: nothing of attempt, fence, worker or time.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    payment_id: String,
    amount: i64,
    currency: &'a str,
    payee: &'a str,
}

/// The body of a void.
#[derive(Serialize)]
struct VoidBody<'a> {
    key: &'a str,
}

impl HttpGateway {
    pub(super) fn new(profile: Profile, client: reqwest::Client, places: Places, clock: SharedClock) -> Self {
        let Places { charges, voids, refunds, reports: source } = places;
        Self { profile, client, charges, voids, refunds, source, clock }
    }

    async fn send(&self, claimed: &Claimed, request: &FrozenRequest, gate: SendGate) -> Answer {
        let started = self.clock.mono();
        let asked = asked(claimed.payment());
        let mut heard = self.request(claimed, request, gate.clone()).await;
        if sabotaged(Sabotage::HiddenRetry) && matches!(heard, Heard::Lost) {
            heard = self.request(claimed, request, gate).await;
        }
        reach(Point::AfterAnswer);
        let how = if matches!(heard, Heard::Unsent(_)) { How::NotStarted } else { How::Sent };
        let http_status = status_of(&heard);
        let took = self.clock.mono().0.saturating_sub(started.0);
        metrics::GATEWAY_REQUEST.record(took, [&self.profile.name.0, "charge"]);
        let verdict = classify::charge(&asked, heard);
        alert(&self.profile, claimed.payment(), &verdict);
        Answer {
            note: note_of_charge(claimed.payment(), &verdict, http_status),
            verdict,
            how,
            request_hash: Some(request.hash),
            http_status,
            took: Some(took),
        }
    }

    /// One physical request (rule R15), written only if the gate says yes when its first byte is wanted.
    async fn request(&self, claimed: &Claimed, request: &FrozenRequest, gate: SendGate) -> Heard {
        let bytes = Bytes::copy_from_slice(request.body.expose_secret().as_bytes());
        let (body, watch) = gated(bytes, gate, SharedClock::clone(&self.clock));
        let post = self.post(&self.charges, claimed, body).header("Idempotency-Key", &request.key);
        match post.send().await {
            Ok(response) => answered(&watch, self.hear(response).await),
            Err(error) => unanswered(&watch, &error),
        }
    }

    /// A void is written at most once too, behind the same gate; what it may have done is told apart from
    /// what provably never left, as for a charge.
    async fn send_void(&self, claimed: &Claimed, gate: SendGate) -> Answer {
        let started = self.clock.mono();
        let asked = asked(claimed.payment());
        // A struct with one text: serde_json does not fail on it.
        let bytes = serde_json::to_vec(&VoidBody { key: &asked.key }).unwrap_or_default();
        let (body, watch) = gated(Bytes::from(bytes), gate, SharedClock::clone(&self.clock));
        let heard = match self.post(&self.voids, claimed, body).send().await {
            Ok(response) => answered(&watch, self.hear(response).await),
            Err(error) => unanswered(&watch, &error),
        };
        let how = if matches!(heard, Heard::Unsent(_)) { How::NotStarted } else { How::Voided };
        let http_status = status_of(&heard);
        let took = self.clock.mono().0.saturating_sub(started.0);
        metrics::GATEWAY_REQUEST.record(took, [&self.profile.name.0, "void"]);
        let verdict = classify::void(&asked, heard);
        alert(&self.profile, claimed.payment(), &verdict);
        let note = note_of_charge(claimed.payment(), &verdict, http_status);
        Answer { note, http_status, took: Some(took), ..Answer::silent(verdict, how) }
    }

    fn post(&self, to: &Url, claimed: &Claimed, body: GatedBody) -> RequestBuilder {
        let due_at = claimed.payment().due_at.to_rfc3339_opts(SecondsFormat::Micros, true);
        self.client
            .post(to.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("Punctual-Claim", format!("{}/{}", claimed.claim_id().0, claimed.payment().fence.0))
            .header("Punctual-Due", due_at)
            .body(reqwest::Body::wrap(body))
    }

    async fn ask(&self, payment: &Payment) -> Lookup {
        let asked = asked(payment);
        let mut url = self.charges.clone();
        url.query_pairs_mut().append_pair("key", &asked.key);
        let started = self.clock.mono();
        let heard = match self.client.get(url).send().await {
            Ok(response) => self.hear(response).await,
            Err(error) => {
                tracing::debug!(payment = %payment.id, error = %error.without_url(), "look-up failed");
                Heard::Lost
            }
        };
        let took = self.clock.mono().0.saturating_sub(started.0);
        metrics::GATEWAY_REQUEST.record(took, [&self.profile.name.0, "lookup"]);
        // Counted from after the answer: later than needed, never earlier.
        classify::lookup(&asked, heard, self.profile.not_found_horizon)
    }

    pub(super) async fn hear(&self, mut response: Response) -> Heard {
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| classify::retry_after(text, self.clock.wall()));
        Heard::Answer { status, retry_after, body: read_capped(&mut response).await }
    }
}

/// Reads no more than the cap plus one chunk, whatever the answer claims about its length.
async fn read_capped(response: &mut Response) -> Result<Vec<u8>, BodyFault> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > ANSWER_CAP => return Err(BodyFault::TooLarge),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) if error.is_timeout() => return Err(BodyFault::TimedOut),
            Err(_) => return Err(BodyFault::Cut),
        }
    }
}

/// An answer that came although our body never left answers something else, and is not believed.
pub(super) fn answered(watch: &Watch, heard: Heard) -> Heard {
    match watch.finish() {
        Left::Maybe => heard,
        Left::Refused(why) => Heard::Unsent(why),
        Left::Never => Heard::Unsent(NotSent::Refused),
    }
}

/// Without an answer, only the body's own state says whether anything left; the error merely names
/// the reason.
pub(super) fn unanswered(watch: &Watch, error: &reqwest::Error) -> Heard {
    match watch.finish() {
        Left::Refused(why) => Heard::Unsent(why),
        Left::Never => Heard::Unsent(connect_fault(error)),
        Left::Maybe if error.is_timeout() => Heard::TimedOut,
        Left::Maybe => Heard::Lost,
    }
}

/// Which step of connecting failed. By text, because reqwest keeps these types to itself; all three
/// mean the same for the money, so a changed text can only mislabel.
fn connect_fault(error: &reqwest::Error) -> NotSent {
    let mut source = std::error::Error::source(error);
    let mut chain = Vec::new();
    while let Some(inner) = source {
        chain.push(inner.to_string());
        source = inner.source();
    }
    let says = |text: &str| chain.iter().any(|part| part.contains(text));
    if error.is_dns() || says("dns error") {
        NotSent::Dns
    } else if error.is_connect() && says("tcp connect error") || error.is_timeout() {
        NotSent::Refused
    } else if error.is_connect() && error.url().is_some_and(|url| url.scheme() == "https") {
        NotSent::Tls
    } else {
        NotSent::Refused
    }
}

fn asked(payment: &Payment) -> Asked {
    Asked { key: gateway_key(payment.id, payment.epoch), payment: payment.id, amount: payment.amount }
}

pub(super) fn status_of(heard: &Heard) -> Option<u16> {
    match heard {
        Heard::Answer { status, .. } => Some(*status),
        Heard::Unsent(_) | Heard::TimedOut | Heard::Lost => None,
    }
}

/// For people; only our own words and checked codes, since an answer's text may name the payee.
pub(super) fn note(verdict: &Verdict, http_status: Option<u16>) -> Option<String> {
    let from = http_status.map_or("no answer".into(), |status| format!("HTTP {status}"));
    match verdict {
        Verdict::Charged { .. } | Verdict::NotSent { .. } | Verdict::Voided => None,
        Verdict::InProgress { .. } => Some("an earlier request under this key is still running".into()),
        Verdict::PendingAtGateway { .. } => Some("accepted, decided later".into()),
        Verdict::Declined(decline) => Some(format!("declined with code {}", decline.code)),
        Verdict::ContractViolation { what } => Some(what.chars().take(500).collect()),
        Verdict::Unknown(doubt) => Some(match doubt {
            Doubt::TimedOut => format!("{from} in time after the request was written"),
            Doubt::ConnectionLost => "the connection ended after the request was written".into(),
            Doubt::ServerError => format!("{from}: the server failed"),
            Doubt::Unreadable => format!("{from}: the answer is cut, too large or contradicts itself"),
            Doubt::NotTheGateway => format!("{from}: not in the gateway's own shape"),
            Doubt::KeyMismatch => format!("{from}: the key was used with another body"),
            Doubt::LeaseExpired => "the lease ran out".into(),
        }),
    }
}

/// The note of an answer about a charge: one of another amount than asked says both.
fn note_of_charge(payment: &Payment, verdict: &Verdict, http_status: Option<u16>) -> Option<String> {
    match verdict {
        Verdict::Charged { reference, amount } if *amount != payment.amount => {
            Some(format!("charged {amount} under {reference}, asked {}", payment.amount))
        }
        verdict => note(verdict, http_status),
    }
}

fn alert(profile: &Profile, payment: &Payment, verdict: &Verdict) {
    let gateway = &profile.name;
    match verdict {
        Verdict::Charged { reference, amount } if *amount != payment.amount => {
            let asked = payment.amount;
            tracing::error!(payment = %payment.id, %gateway, reference, %amount, %asked, "contract_violation");
        }
        Verdict::Declined(decline) if decline.class == DeclineClass::Unmapped => {
            tracing::warn!(payment = %payment.id, %gateway, code = decline.code, "unmapped_decline");
        }
        Verdict::Unknown(Doubt::KeyMismatch) => {
            tracing::error!(payment = %payment.id, %gateway, "key_reused_with_another_body");
        }
        Verdict::ContractViolation { what } => {
            tracing::error!(payment = %payment.id, %gateway, what, "contract_violation");
        }
        Verdict::Charged { .. }
        | Verdict::Declined(_)
        | Verdict::NotSent { .. }
        | Verdict::InProgress { .. }
        | Verdict::PendingAtGateway { .. }
        | Verdict::Unknown(_)
        | Verdict::Voided => {}
    }
}

impl Gateway for HttpGateway {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn prepare(&self, claimed: &Claimed) -> Result<FrozenRequest, CannotRender> {
        let payment = claimed.payment();
        let key = gateway_key(payment.id, payment.epoch);
        let payee = claimed.payee().expose_secret();
        if key.len() > KEY_MAX_LEN {
            return Err(CannotRender(format!("the key is longer than {KEY_MAX_LEN} characters")));
        }
        if !(1..=PAYEE_MAX_LEN).contains(&payee.chars().count()) {
            return Err(CannotRender(format!("the payee is not 1 to {PAYEE_MAX_LEN} characters long")));
        }
        let body = Body {
            payment_id: payment.id.to_string(),
            amount: payment.amount.minor.get(),
            currency: payment.amount.currency.as_str(),
            payee,
        };
        let body = serde_json::to_string(&body).map_err(|error| CannotRender(error.to_string()))?;
        let hash = Sha256::digest(body.as_bytes()).into();
        Ok(FrozenRequest { key, body: SecretString::from(body), hash })
    }

    fn charge(&self, claimed: Claimed, request: FrozenRequest, gate: SendGate) -> BoxFuture<'_, Answered> {
        Box::pin(async move {
            // The pair of `prepare`: these bytes, under this payment's key, or nothing.
            let hash: [u8; 32] = Sha256::digest(request.body.expose_secret().as_bytes()).into();
            let key = gateway_key(claimed.payment().id, claimed.payment().epoch);
            if request.key != key || request.hash != hash {
                let what = "the request prepared is not this payment's; nothing was sent".to_owned();
                let verdict = Verdict::ContractViolation { what };
                return claimed.answered(Answer::silent(verdict, How::NotStarted));
            }
            let answer = self.send(&claimed, &request, gate).await;
            claimed.answered(answer)
        })
    }

    fn lookup<'a>(&'a self, payment: &'a Payment) -> BoxFuture<'a, Lookup> {
        Box::pin(async move {
            if !self.profile.lookup {
                return Lookup::Unavailable { retry_after: None };
            }
            self.ask(payment).await
        })
    }

    fn void<'a>(&'a self, claimed: &'a Claimed, gate: SendGate) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if !self.profile.voids_by_key {
                let what = "a void was asked of a gateway that does not void; nothing was sent".to_owned();
                return Answer::silent(Verdict::ContractViolation { what }, How::NotStarted);
            }
            self.send_void(claimed, gate).await
        })
    }
}
