//! Whose word a callback is: Standard Webhooks, symmetric (`v1`), as its specification 1.0.0 has it.
//!
//! Signed is `<webhook-id>.<webhook-timestamp>.<body>`, by HMAC-SHA256 under a shared secret; of several
//! signatures in the header, which a sender makes while it changes its secret, one must fit. Compared in
//! constant time. Pure: whether the timestamp is a fresh one is asked of the database's clock, by the caller.

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;

/// Most signatures looked at.
const MOST: usize = 8;

/// The secret shared with the gateway.
#[derive(Clone)]
pub(super) struct Key(Vec<u8>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A callback that the gateway signed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed {
    /// The sender's name of it: 1 to 255 visible ASCII characters.
    pub(super) webhook_id: String,
    /// When it was sent, by the sender.
    pub(super) sent_at: DateTime<Utc>,
}

impl Key {
    /// `whsec_` and base64, as such secrets are handed out; any other text is taken as it is.
    pub(super) fn of(secret: &str) -> Self {
        let decoded = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        Self(decoded.unwrap_or_else(|| secret.as_bytes().to_vec()))
    }

    /// The headers' claim on this body, if it is the gateway's.
    pub(super) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Option<Signed> {
        let webhook_id = only(headers, "webhook-id")?;
        let timestamp = only(headers, "webhook-timestamp")?;
        let signatures = only(headers, "webhook-signature")?;
        let fits = (1..=255).contains(&webhook_id.len()) && webhook_id.bytes().all(|b| b.is_ascii_graphic());
        let sent_at = timestamp.parse().ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0))?;
        // HMAC takes keys of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in [webhook_id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        let given = signatures.split(' ').take(MOST).filter_map(|signature| signature.strip_prefix("v1,"));
        let signed = given
            .filter_map(|text| STANDARD.decode(text).ok())
            .any(|signature| mac.clone().verify_slice(&signature).is_ok());
        (fits && signed).then(|| Signed { webhook_id: webhook_id.to_owned(), sent_at })
    }
}

/// The only value of a header, if it is text.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    /// The example of the specification's reference libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const GOOD: [(&str, &str); 3] = [
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];

    fn with(pairs: &[(&str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_example_of_the_specification_verifies_alone_and_among_others() {
        let signed = Key::of(SECRET).verify(&with(&GOOD), BODY).unwrap();
        assert_eq!(signed.webhook_id, GOOD[0].1);
        assert_eq!(signed.sent_at.timestamp(), 1_614_265_330);
        let among = format!("v1,AAAA v2,x v1a,y {}", GOOD[2].1);
        let headers = with(&[GOOD[0], GOOD[1], (GOOD[2].0, &among)]);
        assert!(Key::of(SECRET).verify(&headers, BODY).is_some());
    }

    #[test]
    fn anything_else_is_nobody_s_word() {
        let key = Key::of(SECRET);
        assert_eq!(key.verify(&with(&GOOD), b"{}"), None, "another body");
        assert_eq!(Key::of("whsec_AAAA").verify(&with(&GOOD), BODY), None, "another secret");
        for (place, value) in [
            (0, "msg_p5jXN8AQM9LWM0D4loKWxJel"),
            (0, ""),
            (1, "1614265331"),
            (1, "now"),
            (1, "99999999999999999999"),
            (2, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            (2, "v1,g0hM9SsE"),
            (2, "v1,"),
            (2, ""),
        ] {
            let mut headers = GOOD;
            headers[place].1 = value;
            assert_eq!(key.verify(&with(&headers), BODY), None, "{headers:?}");
        }
        for (left_out, _) in GOOD {
            let headers: Vec<_> = GOOD.into_iter().filter(|(name, _)| *name != left_out).collect();
            assert_eq!(key.verify(&with(&headers), BODY), None, "without {left_out}");
        }
        let mut twice = with(&GOOD);
        twice.append("webhook-id", "msg_2".parse().unwrap());
        assert_eq!(key.verify(&twice, BODY), None);
        assert_eq!(format!("{key:?}"), "***");
    }
}
