//! Refunds at the generic JSON gateway.
//!
//! **Promises**: as for charges (`http`): at most one request that gives money back an attempt, written only if the
//! gate says yes at the last moment, and everything after its first byte told apart from what provably never
//! left. **Relies on** the gateway collapsing requests of one key into one refund.
//!
//! # The wire
//! ```text
//! POST <url>/refunds                  only with gateway.refunds
//! Authorization: Bearer <secret>      Idempotency-Key: <refund id>
//! Punctual-Claim: <claim id>/<fence>                                  (not part of the frozen bytes)
//! {"refundId":"<uuid>","charge":"<reference>","paymentId":"<uuid>","amount":<minor units>,"currency":"EUR"}
//!
//! 200, 201  {"id":"<reference>","status":"refunded","key":"…","charge":"…","amount":1,"currency":"EUR"}
//! 202       the same with "status":"pending" or "in_progress"
//! 200       the same with "status":"declined","code":"…"
//! 400 401 402 403 409 422 429         as for charges
//!
//! GET <url>/refunds?key=<key>
//! 200       one such object            404 {"error":{"type":"not_found",…}}
//! ```

use super::classify::{self, Asked, AskedBack, Heard};
use super::gated_body::gated;
use super::http::{HttpGateway, KEY_MAX_LEN, answered, note, status_of, unanswered};
use super::port::{CannotRender, FrozenRequest, Profile, Refunds};
use crate::domain::lease::SendGate;
use crate::domain::refund::{RefundLookup, RefundVerdict};
use crate::domain::verdict::Verdict;
use crate::platform::clock::SharedClock;
use crate::platform::metrics;
use crate::schedule::{AnsweredRefund, ClaimedRefund, How, RefundAnswer, RefundOrder};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::header;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Longest reference that the wire allows, in characters.
const REFERENCE_MAX_LEN: usize = 255;

/// The frozen bytes, in this order: nothing of attempt, fence, worker or time.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    refund_id: String,
    charge: &'a str,
    payment_id: String,
    amount: i64,
    currency: &'a str,
}

fn asked(order: &RefundOrder) -> AskedBack {
    let asked = Asked { key: order.id.key(), payment: order.payment, amount: order.amount };
    AskedBack { asked, charge: order.reference.clone() }
}

impl HttpGateway {
    async fn send_refund(
        &self,
        claimed: &ClaimedRefund,
        request: &FrozenRequest,
        gate: SendGate,
    ) -> RefundAnswer {
        let started = self.clock.mono();
        let bytes = Bytes::copy_from_slice(request.body.expose_secret().as_bytes());
        let (body, watch) = gated(bytes, gate, SharedClock::clone(&self.clock));
        let post = self
            .client
            .post(self.refunds.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", &request.key)
            .header("Punctual-Claim", format!("{}/{}", claimed.claim_id().0, claimed.fence().0))
            .body(reqwest::Body::wrap(body));
        let heard = match post.send().await {
            Ok(response) => answered(&watch, self.hear(response).await),
            Err(error) => unanswered(&watch, &error),
        };
        let how = if matches!(heard, Heard::Unsent(_)) { How::NotStarted } else { How::Sent };
        let http_status = status_of(&heard);
        let took = self.clock.mono().0.saturating_sub(started.0);
        metrics::GATEWAY_REQUEST.record(took, [&self.profile.name.0, "refund"]);
        let verdict = classify::refund(&asked(claimed.order()), heard);
        if let Verdict::ContractViolation { what } = &verdict {
            tracing::error!(refund = %claimed.order().id, gateway = %self.profile.name, what, "contract_violation");
        }
        let note = note(&verdict, http_status);
        RefundAnswer { verdict: RefundVerdict::of(verdict), how, http_status, took: Some(took), note }
    }

    async fn ask_about_refund(&self, order: &RefundOrder) -> RefundLookup {
        let asked = asked(order);
        let mut url = self.refunds.clone();
        url.query_pairs_mut().append_pair("key", &asked.asked.key);
        let started = self.clock.mono();
        let heard = match self.client.get(url).send().await {
            Ok(response) => self.hear(response).await,
            Err(error) => {
                tracing::debug!(refund = %order.id, error = %error.without_url(), "look-up failed");
                Heard::Lost
            }
        };
        let took = self.clock.mono().0.saturating_sub(started.0);
        metrics::GATEWAY_REQUEST.record(took, [&self.profile.name.0, "lookup"]);
        RefundLookup::of(classify::refund_lookup(&asked, heard))
    }
}

impl Refunds for HttpGateway {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn prepare_refund(&self, order: &RefundOrder) -> Result<FrozenRequest, CannotRender> {
        let key = order.id.key();
        if key.len() > KEY_MAX_LEN {
            return Err(CannotRender(format!("the key is longer than {KEY_MAX_LEN} characters")));
        }
        if !(1..=REFERENCE_MAX_LEN).contains(&order.reference.chars().count()) {
            return Err(CannotRender(format!(
                "the charge's name is not 1 to {REFERENCE_MAX_LEN} characters long"
            )));
        }
        let body = Body {
            refund_id: order.id.to_string(),
            charge: &order.reference,
            payment_id: order.payment.to_string(),
            amount: order.amount.minor.get(),
            currency: order.amount.currency.as_str(),
        };
        let body = serde_json::to_string(&body).map_err(|error| CannotRender(error.to_string()))?;
        let hash = Sha256::digest(body.as_bytes()).into();
        Ok(FrozenRequest { key, body: SecretString::from(body), hash })
    }

    fn refund(
        &self,
        claimed: ClaimedRefund,
        request: FrozenRequest,
        gate: SendGate,
    ) -> BoxFuture<'_, AnsweredRefund> {
        Box::pin(async move {
            // The pair of `prepare_refund`: these bytes, under this refund's key, or nothing.
            let hash: [u8; 32] = Sha256::digest(request.body.expose_secret().as_bytes()).into();
            if !self.profile.refunds || request.key != claimed.order().id.key() || request.hash != hash {
                let what = "the request prepared is not this refund's; nothing was sent".to_owned();
                let verdict = RefundVerdict::ContractViolation { what };
                return claimed.answered(RefundAnswer::silent(verdict, How::NotStarted));
            }
            let answer = self.send_refund(&claimed, &request, gate).await;
            claimed.answered(answer)
        })
    }

    fn lookup_refund<'a>(&'a self, order: &'a RefundOrder) -> BoxFuture<'a, RefundLookup> {
        Box::pin(async move {
            if !self.profile.lookup {
                return RefundLookup::Unavailable { retry_after: None };
            }
            self.ask_about_refund(order).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::guard_cases::{payment, price};
    use crate::domain::ids::{ActorId, GatewayName};
    use crate::domain::refund::{RefundId, RefundStatus};
    use crate::domain::state::Status;
    use crate::platform::clock::Host;
    use crate::platform::config::Gateway as Settings;
    use chrono::DateTime;
    use std::sync::Arc;
    use uuid::Uuid;

    fn order() -> RefundOrder {
        RefundOrder {
            id: RefundId(Uuid::from_u128(0x0123_4567_89ab_8def_8123_4567_89ab_cdef)),
            payment: payment(DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1), 1, Status::Completed).id,
            payer: ActorId(Uuid::nil()),
            gateway: GatewayName("sandbox".into()),
            reference: "ch_7".into(),
            amount: price(),
            was: RefundStatus::Approved,
            attempt: 1,
            asks: 0,
            others_open: 0,
            first_sent_at: None,
            key_age: None,
        }
    }

    fn gateway() -> HttpGateway {
        let settings = Settings { url: "http://127.0.0.1:1".into(), refunds: true, ..Settings::default() };
        super::super::connect(&settings, Arc::new(Host)).expect("legal")
    }

    #[test]
    fn the_bytes_are_the_same_whichever_attempt_asks() {
        let first = gateway().prepare_refund(&order()).expect("rendered");
        let later =
            RefundOrder { attempt: 9, asks: 4, others_open: 2, was: RefundStatus::Unknown, ..order() };
        let again = gateway().prepare_refund(&later).expect("rendered");
        assert_eq!((&first.key, first.hash), (&again.key, again.hash));
        let expected = format!(
            r#"{{"refundId":"01234567-89ab-8def-8123-456789abcdef","charge":"ch_7","paymentId":"{}","amount":12345,"currency":"EUR"}}"#,
            order().payment
        );
        assert_eq!(first.body.expose_secret(), expected);
    }

    #[test]
    fn a_charge_without_a_name_is_not_asked_for() {
        for reference in [String::new(), "x".repeat(256)] {
            assert!(gateway().prepare_refund(&RefundOrder { reference, ..order() }).is_err());
        }
    }

    fn heard(status: u16, body: &str) -> RefundVerdict {
        let heard = Heard::Answer { status, retry_after: None, body: Ok(body.as_bytes().to_vec()) };
        RefundVerdict::of(classify::refund(&asked(&order()), heard))
    }

    #[test]
    fn an_answer_is_believed_only_about_this_refund_of_this_charge() {
        let key = order().id.key();
        let body = |status: &str, key: &str, charge: &str, amount: i64, currency: &str| {
            format!(
                r#"{{"id":"re_1","status":"{status}","key":"{key}","charge":"{charge}","amount":{amount},"currency":"{currency}","code":"x"}}"#
            )
        };
        let good = heard(200, &body("refunded", &key, "ch_7", 12_345, "EUR"));
        assert_eq!(good, RefundVerdict::Refunded { reference: "re_1".into(), amount: price() });
        for (key, charge, amount, currency) in [
            ("another", "ch_7", 12_345, "EUR"),
            (key.as_str(), "ch_8", 12_345, "EUR"),
            (key.as_str(), "ch_7", 12_344, "EUR"),
            (key.as_str(), "ch_7", 12_345, "USD"),
        ] {
            let verdict = heard(200, &body("refunded", key, charge, amount, currency));
            assert!(matches!(verdict, RefundVerdict::ContractViolation { .. }), "{verdict:?}");
        }
        let underway = RefundVerdict::Underway { retry_after: None };
        assert_eq!(heard(202, &body("pending", &key, "ch_7", 12_345, "EUR")), underway);
        assert_eq!(heard(202, &body("in_progress", &key, "ch_7", 12_345, "EUR")), underway);
        let declined = heard(200, &body("declined", &key, "ch_7", 12_345, "EUR"));
        assert_eq!(declined, RefundVerdict::Declined { code: "x".into() });
        for (status, text) in [(200, "<html>"), (201, "{}"), (500, "{}"), (404, "<html>"), (302, "{}")] {
            assert!(matches!(heard(status, text), RefundVerdict::Unknown(_)), "{status} {text}");
        }
    }
}
