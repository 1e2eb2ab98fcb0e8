//! What endpoints of webhooks and the deliveries to them are made of: states, secrets, and the test message.
//!
//! **Promises.** A secret is shown by [`WebhookSecret::text`] and by nothing else. The test message is the same bytes
//! with each try, since it is made of what its delivery has. **Why 32 bytes**: the key of an HMAC-SHA256 gains nothing
//! from more, and Standard Webhooks asks for 24 at least. If this dies, its caller does.

use super::event::SOURCE;
use super::texts::texts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::json;
use std::fmt;
use uuid::Uuid;

/// The type of a test message; no event has it.
pub const TEST_TYPE: &str = "webhook.test";

/// Requests under way at one time, where an endpoint does not say.
pub const USUAL_CONCURRENCY: i16 = 4;
/// Most of them that it may ask for.
pub const MOST_CONCURRENCY: i16 = 100;

texts! { DeliveryStatus, "Where the delivery of an event to an endpoint stands.":
    Pending = "pending": "It is owed: tried next at nextTryAt, or being sent.",
    Delivered = "delivered": "The endpoint answered 2xx.",
    Failed = "failed": "Every try failed; its owner can have it sent again.",
    Discarded = "discarded": "The endpoint was deleted before it arrived.",
}

texts! { WhyDisabled, "Why nothing is sent to an endpoint.":
    Asked = "asked": "Its owner wanted it.",
    Gone = "gone": "It answered 410 Gone.",
    Failing = "failing": "No try succeeded for days.",
}

texts! { EndpointAct, "What was done to an endpoint.":
    Created = "created": "It was made.",
    Changed = "changed": "Its url, description, types or concurrency changed.",
    Rotated = "rotated": "It got another secret.",
    Disabled = "disabled": "Nothing is sent any more; what is owed waits.",
    Enabled = "enabled": "It is sent to again.",
    Deleted = "deleted": "It is gone.",
}

/// What the requests to an endpoint are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret([u8; 32]);

impl WebhookSecret {
    /// Of these bytes, which nobody can guess.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key of the HMAC.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// As its owner is shown it, once: `whsec_` and base64 with padding, as libraries of Standard Webhooks take it.
    #[must_use]
    pub fn text(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The body of a test message: in the form of an event, about nobody's payment.
#[must_use]
pub fn test_message(endpoint: Uuid, test: Uuid, at: DateTime<Utc>) -> Vec<u8> {
    let message = json!({
        "specversion": "1.0",
        "id": format!("{test}/0"),
        "source": SOURCE,
        "type": TEST_TYPE,
        "subject": endpoint,
        "time": at.to_rfc3339_opts(SecondsFormat::Micros, true),
        "datacontenttype": "application/json",
        "sequence": 0,
        "data": {"endpointId": endpoint, "message": "A test message: nothing happened to any payment."},
    });
    message.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_secret_is_written_as_libraries_take_it_and_never_by_accident() {
        let secret = WebhookSecret::new([0xfb; 32]);
        assert_eq!(secret.text(), "whsec_+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=");
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(STANDARD.decode(&secret.text()[6..]), Ok(secret.bytes().to_vec()));
    }

    #[test]
    fn a_test_message_has_the_form_of_an_event_and_always_the_same_bytes() {
        let at = DateTime::from_timestamp_millis(1_795_960_020_020).expect("in range");
        let (endpoint, test) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let bytes = test_message(endpoint, test, at);
        assert_eq!(bytes, test_message(endpoint, test, at));
        let read: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(read["id"], "00000000-0000-0000-0000-000000000002/0");
        assert_eq!((&read["type"], &read["sequence"]), (&"webhook.test".into(), &0.into()));
        assert_eq!(read["subject"], read["data"]["endpointId"]);
        assert!(read["time"].as_str().is_some_and(|time| time.ends_with(".020000Z")), "{}", read["time"]);
    }
}
