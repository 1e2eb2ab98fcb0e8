//! Money given back, as the document has it: asked for, found to wait for people, and decided by them.

use super::{Desk, Held, keyed, named};
use serde_json::{Value, json};
use sqlx::{Executor, PgConnection};

pub(super) async fn given_back(
    desk: &Desk<'_>,
    held: &mut Held,
    sql: &mut PgConnection,
    charged: &str,
    evidence: &Value,
) {
    let refund = named("createRefund");
    let order = json!({"paymentId": charged, "gatewayReference": "ch_1", "reason": "a test"});
    let mut refunds = Vec::new();
    for (key, status) in [("r1", 202), ("r2", 409)] {
        let answer = held.ask(&refund, keyed(&refund, desk.request(&refund, ""), key), Some(&order)).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        refunds.push(answer);
    }
    let made = refunds[0].json()["refundId"].as_str().expect("an id").to_owned();
    assert_eq!(desk.ask(held, "showRefund", &made, None).await.status, 200);
    let order = json!({"reason": "a test", "as": "refunded", "evidence": evidence});
    assert_eq!(desk.ask(held, "resolveRefund", &made, Some(&order)).await.refusal().1, "refund_not_waiting");
    let unknown =
        "UPDATE refunds SET status = 'unknown', approved_by = 'key:x', approved_at = now(), open_sends = 1,
                   first_sent_at = now()";
    sql.execute(unknown).await.expect("changed");
    let list = named("listRefunds");
    for query in [format!("paymentId={charged}"), "needsHuman=true".to_owned()] {
        let path = format!("{}?{query}", list.path);
        let listed = held.ask(&list, desk.api.anonymous("GET", &path).bearer_auth(desk.key), None).await;
        assert_eq!(listed.json()["data"].as_array().map(Vec::len), Some(1), "{query}");
    }
    assert_eq!(desk.ask(held, "resolveRefund", &made, Some(&order)).await.status, 202);
}
