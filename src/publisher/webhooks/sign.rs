//! Whose word a request is: Standard Webhooks, symmetric (`v1`).
//!
//! Signed is `<webhook-id>.<webhook-timestamp>.<body>`, by HMAC-SHA256 under each secret that the endpoint has; while
//! it changes its secret it has two, and a receiver takes either. The id is the event's, so that it is the same with
//! each try; the timestamp is the try's, so that a receiver can refuse what somebody kept. Pure; if this dies,
//! nothing was sent.

use crate::domain::webhook::WebhookSecret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The three headers of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) webhook_id: String,
    pub(super) timestamp: String,
    pub(super) signature: String,
}

/// Signs a body for a receiver that has these secrets.
pub(super) fn sign(webhook_id: String, at: DateTime<Utc>, body: &[u8], secrets: &[WebhookSecret]) -> Signed {
    let timestamp = at.timestamp().to_string();
    let signatures: Vec<String> =
        secrets.iter().filter_map(|secret| signature(secret, &webhook_id, &timestamp, body)).collect();
    Signed { webhook_id, timestamp, signature: signatures.join(" ") }
}

fn signature(secret: &WebhookSecret, webhook_id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
    // HMAC takes keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).ok()?;
    for part in [webhook_id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use standardwebhooks::Webhook;

    const BODY: &[u8] = br#"{"type":"payment.completed","n":"\u00e9"}"#;

    fn secret(n: u8) -> WebhookSecret {
        WebhookSecret::new([n; 32])
    }

    fn verifies(signed: &Signed, body: &[u8], secret: &WebhookSecret) -> bool {
        let headers = [
            ("webhook-id", &signed.webhook_id),
            ("webhook-timestamp", &signed.timestamp),
            ("webhook-signature", &signed.signature),
        ];
        let headers =
            headers.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Webhook::new(&secret.text()).unwrap().verify(body, &headers.collect()).is_ok()
    }

    #[allow(clippy::disallowed_methods, reason = "the library compares with the host's clock")]
    fn now() -> DateTime<Utc> {
        Utc::now()
    }

    #[test]
    fn the_library_of_the_specification_takes_what_we_sign() {
        let signed = sign("payment/3".into(), now(), BODY, &[secret(1)]);
        assert!(verifies(&signed, BODY, &secret(1)));
        assert!(!verifies(&signed, b"{}", &secret(1)), "another body");
        assert!(!verifies(&signed, BODY, &secret(2)), "another secret");
        let other = Signed { webhook_id: "payment/4".into(), ..signed.clone() };
        assert!(!verifies(&other, BODY, &secret(1)), "another id");
    }

    #[test]
    fn in_a_rotation_both_secrets_verify_and_no_third() {
        let signed = sign("payment/3".into(), now(), BODY, &[secret(1), secret(2)]);
        assert_eq!(signed.signature.split(' ').count(), 2);
        assert!(verifies(&signed, BODY, &secret(1)) && verifies(&signed, BODY, &secret(2)));
        assert!(!verifies(&signed, BODY, &secret(3)));
    }

    #[test]
    fn an_old_request_is_refused_by_the_library() {
        let signed = sign("payment/3".into(), now() - chrono::TimeDelta::minutes(6), BODY, &[secret(1)]);
        assert!(!verifies(&signed, BODY, &secret(1)));
    }
}
