//! The filter `q`: what SQL passes is what the rules say of each payment.

use super::{LIST, body, get, ids, later, list};
use crate::support::api::Api;
use chrono::TimeDelta;
use punctual::domain::filter::Filter;
use punctual::domain::ids::{ActorId, GatewayName, PaymentId};
use punctual::domain::money::{Currency, Minor, Money};
use punctual::domain::payment::Payment;
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Payments that differ in everything a filter can ask, as the rules see them.
async fn payments(api: &Api) -> Vec<Payment> {
    let mut sql = PgConnection::connect(&api.database.url).await.expect("a connection");
    sql.execute("INSERT INTO gateways (name, account) VALUES ('sandbox', 'a')").await.expect("a gateway");
    let mut all = Vec::new();
    let cases = [
        (Status::Pending, None, None),
        (Status::Parked, Some(Reason::Poisoned), None),
        (Status::Parked, Some(Reason::BudgetExhausted), Some("ch_parked")),
        (Status::Completed, None, Some("ch 1")),
        (Status::Failed, Some(Reason::DeclinedHard), None),
        (Status::Cancelled, Some(Reason::CancelledByClient), None),
    ];
    for (n, (status, reason, reference)) in cases.into_iter().cycle().take(18).enumerate() {
        let minor = 1_000 + 10 * i64::try_from(n).expect("small");
        let due_at = later() + TimeDelta::hours(5 * i64::try_from(n / 3).expect("small"));
        let mut wanted = body(due_at);
        wanted["amount"] = json!(minor);
        let made = api.post(&format!("filter-{n}"), &wanted).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let made = made.json();
        let id: PaymentId = made["paymentId"].as_str().expect("an id").parse().expect("an id");
        let quoted = |text: Option<&str>| text.map_or("NULL".to_owned(), |text| format!("'{text}'"));
        let reference = reference.map(|reference| format!("{reference}{}", n / 6));
        let change = format!(
            "UPDATE payments SET status = '{}', status_reason = {}, gateway_ref = {} WHERE id = '{id}'",
            status.as_str(),
            quoted(reason.map(Reason::as_str)),
            quoted(reference.as_deref())
        );
        sql.execute(AssertSqlSafe(change)).await.expect("changed");
        if let Some(reference) = &reference {
            let named = format!("INSERT INTO gateway_refs VALUES ('sandbox', '{reference}', '{id}')");
            sql.execute(AssertSqlSafe(named)).await.expect("named");
        }
        let amount = Money {
            minor: Minor::new(minor).expect("positive"),
            currency: Currency::from_code("EUR").expect("EUR"),
        };
        let due_at = made["dueAt"].as_str().expect("a time").parse().expect("a time");
        let gateway = GatewayName("sandbox".into());
        let mut payment = Payment::created(id, ActorId(Uuid::nil()), gateway, amount, due_at, due_at);
        payment.status = status;
        payment.reason = reason;
        payment.gateway_ref = reference;
        all.push(payment);
    }
    all
}

fn encoded(filter: &str) -> String {
    filter.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn found(api: &Api, filter: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let page = list(api, &format!("limit=5&q={}{cursor}", encoded(filter))).await;
        for id in ids(&page) {
            assert!(all.insert(id), "{filter}: met twice");
        }
        match &page["nextCursor"] {
            Value::String(next) => cursor = format!("&cursor={next}"),
            _ => return all,
        }
    }
}

#[tokio::test]
async fn sql_passes_exactly_what_the_rules_pass() {
    let api = Api::start(|_| {}).await;
    let all = payments(&api).await;
    let (first, day) = (all[0].id, all[17].due_at.date_naive());
    let filters = [
        String::new(),
        "status:PARKED".into(),
        "-status:PARKED,FAILED".into(),
        "status:PARKED,PENDING -status:PENDING".into(),
        "status:PARKED status:FAILED".into(),
        "reason:poisoned".into(),
        "-reason:poisoned,declined_hard".into(),
        "gateway:sandbox amount:1050..1100".into(),
        "gateway:other".into(),
        "-gateway:other".into(),
        "amount:..1020 -amount:1010".into(),
        "-amount:..1050 -amount:1100..".into(),
        "ref:ch_parked1".into(),
        "ref:ch_parked1,\"ch 10\",\"ch 12\"".into(),
        "-ref:\"ch 10\"".into(),
        format!("id:{first}"),
        format!("id:{first},{} status:PARKED", all[1].id),
        format!("-id:{first} status:PENDING"),
        format!("due:{day}"),
        format!("-due:{day} amount:1030.."),
        format!("due:..{} status:PARKED,COMPLETED", all[9].due_at.to_rfc3339()),
    ];
    let mut passed = 0;
    for text in filters {
        let filter: Filter = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let conditions = filter.conditions();
        let wanted: BTreeSet<String> = all
            .iter()
            .filter(|payment| conditions.holds(payment))
            .map(|payment| payment.id.to_string())
            .collect();
        passed += wanted.len();
        assert_eq!(found(&api, &text).await, wanted, "{text}");
    }
    assert!(passed > 60, "{passed}: the filters pass something");
}

#[tokio::test]
async fn a_filter_with_a_mistake_is_refused_with_its_place_and_a_cursor_belongs_to_its_filter() {
    let api = Api::start(|_| {}).await;
    payments(&api).await;
    let refused = get(&api, &format!("{LIST}?q={}", encoded("status:PARKED amount:ten"))).await;
    assert_eq!(refused.refusal(), (400, "invalid_parameter".into()));
    let error = &refused.json()["errors"][0];
    assert_eq!(error["pointer"], "/q");
    assert!(error["detail"].as_str().expect("a text").starts_with("At character 22:"), "{error}");
    let page = list(&api, &format!("limit=1&q={}", encoded("-status:PARKED"))).await;
    let cursor = page["nextCursor"].as_str().expect("there are more");
    let other = get(&api, &format!("{LIST}?limit=1&q={}&cursor={cursor}", encoded("-status:FAILED"))).await;
    assert_eq!(other.refusal(), (400, "invalid_cursor".into()));
}
