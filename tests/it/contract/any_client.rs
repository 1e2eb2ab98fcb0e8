//! Payments of all clients, as the document has them: one that waits is cancelled, of one that is unknown the wish is
//! recorded.

use super::{Desk, Held, named, new_payment};
use chrono::TimeDelta;
use serde_json::json;

pub(super) async fn told(desk: &Desk<'_>, held: &mut Held, unknown: &str, parked: &str) {
    let why = json!({"reason": "a test"});
    for id in ["showAnyPayment", "readAnyHistory", "listDeliveriesOfPayment"] {
        assert_eq!(desk.ask(held, id, parked, None).await.status, 200, "{id}");
    }
    assert_eq!(desk.ask(held, "showPayee", parked, Some(&why)).await.status, 200);
    let create = named("createPayment");
    let request = desk.api.anonymous("POST", create.path).bearer_auth(desk.key);
    let request = request.header("Idempotency-Key", "for-the-client");
    let made = held.ask(&create, request, Some(&new_payment(TimeDelta::hours(1)))).await;
    let waits = made.json()["paymentId"].as_str().expect("an id").to_owned();
    for (id, status) in [(waits.as_str(), 200), (unknown, 202), (parked, 409)] {
        let answer = desk.ask(held, "cancelForClient", id, Some(&why)).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
}
