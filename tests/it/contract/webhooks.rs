//! Endpoints of webhooks, as the document has them: every status but those that all routes have.

use super::{Held, NOBODYS, named};
use crate::support::api::{Answer, Api};
use serde_json::{Value, json};

/// Who asks.
struct Owner<'a> {
    api: &'a Api,
    key: &'a str,
}

impl Owner<'_> {
    /// Asks an operation of an endpoint, and perhaps of one of its deliveries.
    async fn ask(
        &self,
        held: &mut Held,
        id: &str,
        (endpoint, event): (&str, &str),
        body: Option<Value>,
    ) -> Answer {
        let operation = named(id);
        let path = operation.path.replace("{id}", endpoint).replace("{payment}/{sequence}", event);
        let path = if id == "listWebhookDeliveries" { path + event } else { path };
        let request = self.api.anonymous(&operation.method.to_uppercase(), &path).bearer_auth(self.key);
        held.ask(&operation, request, body.as_ref()).await
    }
}

/// Operations of one endpoint, with a body that they take.
fn of_one() -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("showWebhookEndpoint", None),
        ("changeWebhookEndpoint", Some(json!({"description": "another"}))),
        ("rotateWebhookSecret", Some(json!({}))),
        ("disableWebhookEndpoint", None),
        ("enableWebhookEndpoint", None),
        ("testWebhookEndpoint", None),
        ("listWebhookDeliveries", None),
        ("resendFailedWebhooks", Some(json!({"since": "2026-01-01T00:00:00Z"}))),
        ("deleteWebhookEndpoint", None),
    ]
}

pub(super) async fn told(api: &Api, key: &str, held: &mut Held) {
    let owner = Owner { api, key };
    let new = |url: &str| Some(json!({"url": url}));
    let made = owner.ask(held, "createWebhookEndpoint", ("", ""), new("https://shop.example/hook")).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let id = made.json()["endpointId"].as_str().expect("an id").to_owned();
    let again = owner.ask(held, "createWebhookEndpoint", ("", ""), new("https://shop.example/hook")).await;
    assert_eq!(again.refusal(), (409, "webhook_url_taken".into()));
    let inside = owner.ask(held, "createWebhookEndpoint", ("", ""), new("https://127.0.0.1/hook")).await;
    assert_eq!(inside.refusal(), (422, "forbidden_webhook_address".into()));
    assert_eq!(owner.ask(held, "listWebhookEndpoints", ("", ""), None).await.status, 200);

    for (operation, body) in of_one() {
        let nobodys = owner.ask(held, operation, (NOBODYS, ""), body.clone()).await;
        assert_eq!(nobodys.refusal(), (404, "webhook_endpoint_not_found".into()), "{operation}");
        if operation != "deleteWebhookEndpoint" {
            let answer = owner.ask(held, operation, (&id, ""), body).await;
            assert!(answer.status < 300, "{operation}: {}", answer.text);
        }
    }
    for (operation, body, refused) in [
        (
            "changeWebhookEndpoint",
            json!({"version": 1, "description": "late"}),
            (409, "webhook_endpoint_changed"),
        ),
        ("changeWebhookEndpoint", json!({"eventTypes": ["payment.paid"]}), (422, "unknown_event_type")),
        ("rotateWebhookSecret", json!({}), (409, "webhook_secret_rotating")),
        ("rotateWebhookSecret", json!({"overlapSeconds": 2_592_001}), (422, "out_of_range")),
        ("resendFailedWebhooks", json!({"since": "yesterday"}), (400, "invalid_time")),
    ] {
        let answer = owner.ask(held, operation, (&id, ""), Some(body)).await;
        assert_eq!(answer.refusal(), (refused.0, refused.1.into()), "{operation}");
    }
    let cursor = owner.ask(held, "listWebhookDeliveries", (&id, "?cursor=x"), None).await;
    assert_eq!(cursor.refusal(), (400, "invalid_cursor".into()));

    let test = owner.ask(held, "testWebhookEndpoint", (&id, ""), None).await;
    let event = test.json()["eventId"].as_str().expect("an event").to_owned();
    for (operation, status) in [("showWebhookDelivery", 200), ("resendWebhookDelivery", 202)] {
        assert_eq!(owner.ask(held, operation, (&id, &event), None).await.status, status, "{operation}");
        let unknown = owner.ask(held, operation, (&id, &format!("{NOBODYS}/1")), None).await;
        assert_eq!(unknown.refusal(), (404, "webhook_delivery_not_found".into()), "{operation}");
    }
    let held_by_a_sender = "WITH held AS (UPDATE webhook_deliveries SET lease_holder = 'a sender',
            lease_until = now() + interval '1 min' RETURNING 1) SELECT count(*) FROM held";
    assert_eq!(api.one::<i64>(held_by_a_sender).await, 2);
    let under_way = owner.ask(held, "resendWebhookDelivery", (&id, &event), None).await;
    assert_eq!(under_way.refusal(), (409, "webhook_delivery_under_way".into()));
    assert_eq!(owner.ask(held, "disableWebhookEndpoint", (&id, ""), None).await.status, 200);
    let disabled = owner.ask(held, "testWebhookEndpoint", (&id, ""), None).await;
    assert_eq!(disabled.refusal(), (409, "webhook_endpoint_disabled".into()));
    assert_eq!(owner.ask(held, "deleteWebhookEndpoint", (&id, ""), None).await.status, 200);
}
