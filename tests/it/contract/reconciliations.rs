//! Reconciliation, as the document has it: what was compared and what differs, looked at, repaired, dismissed and
//! withdrawn, with what stands in the way of each.

use super::{Desk, Held, named, new_payment};
use chrono::TimeDelta;
use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};

/// A report of yesterday that counts; its id.
async fn report(sql: &mut PgConnection, source: &str, lines: i64) -> String {
    let made = "INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines,
                    is_complete, seen_at, finished_at, counts, sums)
                VALUES (gen_random_uuid(), 'sandbox', (now() AT TIME ZONE 'UTC')::date - 1, 'sandbox', $1, sha256($1::bytea),
                    'test', 'compared', $2, true, now(), now(), '{\"matched\": 1}',
                    '[{\"kind\": \"charge\", \"currency\": \"EUR\", \"netCurrency\": \"EUR\", \"lines\": 1,
                       \"grossMinor\": 5, \"feeMinor\": 1, \"netMinor\": 4}]')
                RETURNING id::text";
    sqlx::query_scalar(made).bind(source).bind(lines).fetch_one(sql).await.expect("a report")
}

/// A difference of this class, about this payment if one is named; its number.
async fn item(sql: &mut PgConnection, class: &str, payment: Option<&str>, minor: i64) -> String {
    let payment = payment.map_or_else(|| "NULL".to_owned(), |payment| format!("'{payment}'"));
    let made = format!(
        "INSERT INTO reconciliation_items (fingerprint, run_id, gateway, day, class, status, payment_id, key, reference,
             field, ours, theirs, amount_minor, currency, evidence)
         SELECT gen_random_uuid(), r.id, r.gateway, r.day, '{class}', 'open', {payment}, 'a key', 'ch_' || gen_random_uuid(),
             'status', 'PARKED', 'charged', {minor}, 'EUR',
             jsonb_build_object('run', r.id, 'day', r.day, 'line', 1, 'atLine', 2, 'rawHash', repeat('ab', 32))
         FROM reconciliation_runs r WHERE r.source = ''
         RETURNING number::text"
    );
    sqlx::query_scalar(AssertSqlSafe(made)).fetch_one(sql).await.expect("a difference")
}

pub(super) async fn told(desk: &Desk<'_>, held: &mut Held, sql: &mut PgConnection, parked: &str) {
    let why = json!({"reason": "a test"});
    // One that nothing hangs on, and one whose lines nobody knows any more.
    let (wrong, run) = (report(sql, "wrong", 0).await, report(sql, "", 1).await);
    let created = desk.api.post("reconciled", &new_payment(TimeDelta::hours(1))).await;
    let cancelled = created.json()["paymentId"].as_str().expect("an id").to_owned();
    assert_eq!(desk.api.payment("DELETE", &cancelled).await.status, 200);

    let foreign = item(sql, "foreign", None, 5).await;
    let (found, late) =
        (item(sql, "missing_here", Some(parked), 700).await, item(sql, "late", None, 5).await);
    let of_cancelled = item(sql, "missing_here", Some(&cancelled), 1_050).await;
    for id in ["listReconciliations", "showReconciliationStanding", "listReconciliationItems"] {
        let answer = desk.ask(held, id, "", None).await;
        assert!(answer.json()["data"].as_array().is_some_and(|all| !all.is_empty()), "{id}: {}", answer.text);
    }
    assert_eq!(desk.ask(held, "showReconciliation", &run, None).await.status, 200);
    assert_eq!(desk.ask(held, "showReconciliationItem", &foreign, None).await.status, 200);

    for (id, item, status, code) in [
        ("repairReconciliationItem", &foreign, 409, "nothing_to_repair"),
        ("repairReconciliationItem", &found, 200, ""),
        ("repairReconciliationItem", &found, 409, "item_decided"),
        ("repairReconciliationItem", &of_cancelled, 202, ""),
        ("dismissReconciliationItem", &late, 200, ""),
        ("dismissReconciliationItem", &late, 409, "item_decided"),
        ("withdrawReconciliation", &run, 202, ""),
        ("withdrawReconciliation", &wrong, 200, ""),
        ("withdrawReconciliation", &wrong, 409, "report_does_not_count"),
    ] {
        let answer = desk.ask(held, id, item, Some(&why)).await;
        assert_eq!(answer.status, status, "{id} {item}: {}", answer.text);
        assert!(code.is_empty() || answer.refusal().1 == code, "{id} {item}: {}", answer.text);
    }
    let sums = named("sumReconciliations");
    let path = format!("{}?from={}&gateway=sandbox", sums.path, chrono::Utc::now().date_naive());
    let answer = held.ask(&sums, desk.api.anonymous("GET", &path).bearer_auth(desk.key), None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}
