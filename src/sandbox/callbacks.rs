//! The sandbox tells on its own what it decided later, as gateways do: late, several times, out of order.
//!
//! Where `sandbox.callback_url` names a receiver, each accepted charge (`sim_pending_*`) is told about once it
//! is decided, `callback_late` after that, in `callback_copies` copies at once under one id. With more than one
//! copy there is also a false one before them, sent while the charge is still being accepted: of the opposite
//! outcome, as when a decline's callback overtakes the charge's. Signed as Standard Webhooks has it. A receiver
//! that answers 5xx is tried again. **If this dies**, nobody is told: callbacks are not in the ledger.

use crate::platform::clock::SharedClock;
use crate::platform::config::Sandbox as Settings;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, Mac};
use serde_json::json;
use sha2::Sha256;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a receiver's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Between two tries.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Tries of one copy.
const TRIES: u32 = 30;

/// Where to tell it, and how.
#[derive(Clone)]
pub(super) struct Callbacks(Arc<Receiver>);

struct Receiver {
    http: reqwest::Client,
    url: String,
    key: Vec<u8>,
    copies: u32,
    late: Duration,
    clock: SharedClock,
}

/// What there will be to tell.
#[derive(Debug, Clone)]
pub(super) struct News {
    pub(super) seq: u64,
    pub(super) key: String,
    pub(super) payment_id: String,
    pub(super) charged: bool,
    pub(super) decides_at: DateTime<Utc>,
}

impl Callbacks {
    /// `None` without a receiver.
    pub(super) fn of(settings: &Settings, clock: SharedClock) -> Option<Self> {
        if settings.callback_url.is_empty() {
            return None;
        }
        let secret = &*settings.callback_secret;
        let decoded = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).no_proxy().build().ok()?;
        Some(Self(Arc::new(Receiver {
            http,
            url: settings.callback_url.clone(),
            key: decoded.unwrap_or_else(|| secret.as_bytes().to_vec()),
            copies: settings.callback_copies,
            late: settings.callback_late,
            clock,
        })))
    }

    /// Tells it when its time has come, in tasks of its own.
    pub(super) fn tell(&self, news: News) {
        if self.0.copies > 1 {
            let early = News { charged: !news.charged, ..news.clone() };
            self.send(format!("msg_{}_early", news.seq), early, Duration::ZERO);
        }
        let until = (news.decides_at - self.0.clock.wall()).to_std().unwrap_or_default();
        for _ in 0..self.0.copies {
            self.send(format!("msg_{}", news.seq), news.clone(), until + self.0.late);
        }
    }

    fn send(&self, webhook_id: String, news: News, after: Duration) {
        let receiver = Arc::clone(&self.0);
        tokio::spawn(async move {
            receiver.clock.sleep(after).await;
            for _ in 0..TRIES {
                let answer = receiver.request(&webhook_id, &news).send().await;
                match answer.map(|answer| answer.status()) {
                    Ok(status) if !status.is_server_error() => return,
                    Ok(status) => tracing::debug!(webhook_id, %status, "a callback is sent again"),
                    Err(error) => tracing::debug!(webhook_id, error = %error.without_url(), "no answer"),
                }
                receiver.clock.sleep(AGAIN_AFTER).await;
            }
            tracing::warn!(webhook_id, "nobody took the callback");
        });
    }
}

impl Receiver {
    fn request(&self, webhook_id: &str, news: &News) -> reqwest::RequestBuilder {
        let status = if news.charged { "charged" } else { "declined" };
        let body = json!({"paymentId": news.payment_id, "key": news.key, "status": status}).to_string();
        let sent_at = self.clock.wall().timestamp().to_string();
        let signature = sign(&self.key, webhook_id, &sent_at, &body);
        self.http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("webhook-id", webhook_id)
            .header("webhook-timestamp", sent_at)
            .header("webhook-signature", signature)
            .body(body)
    }
}

fn sign(key: &[u8], webhook_id: &str, sent_at: &str, body: &str) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(format!("{webhook_id}.{sent_at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_signs_as_the_example_of_the_specification() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
