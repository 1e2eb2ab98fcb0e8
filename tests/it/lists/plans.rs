//! The statements of lists and histories read by their indexes, and only the days they name.

use super::LIST;
use crate::support::database::database;
use punctual::schedule::statements::Statement;
use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use std::collections::BTreeSet;

/// One actor among 40 with half of 20,000 payments on two days, among 70 days of partitions.
const FILL: [&str; 6] = [
    "SELECT ensure_partitions(current_date + 11, current_date + 60)",
    "INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency,
        max_sends, on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
     SELECT (at AT TIME ZONE 'UTC')::date, gen_random_uuid(),
            lpad(CASE WHEN n % 2 = 0 THEN '1' ELSE (n % 40)::text END, 32, '0')::uuid, 'COMPLETED', at, at, 'sandbox',
            1, 'EUR', 6, 'retry', 'park', 1, now(), now(), 1, '', '1'
     FROM generate_series(1, 20000) AS n
     CROSS JOIN LATERAL (SELECT date_trunc('day', now(), 'UTC') + n * interval '8 s') AS t (at)",
    "INSERT INTO payment_details (due_day, id, payee_sealed, field_digests)
     SELECT due_day, id, 'payee', '{}' FROM payments",
    "INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
     SELECT actor_id, id::text, decode(repeat('00', 32), 'hex'), id, due_at, created_at FROM payments",
    "INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                  hash, xid, actor_id)
     SELECT id, 1, '-', 'PENDING', 'created', 'x', 0, 0, 0, due_at, '{}', '', '1', actor_id FROM payments",
    "INSERT INTO gateway_refs SELECT 'sandbox', id::text, id FROM payments",
];

struct Planned {
    name: &'static str,
    arguments: &'static str,
    /// `TODAY` and `TOMORROW` stand for `YYYYMMDD`.
    relations: &'static [&'static str],
    /// Each of these must serve.
    indexes: &'static [&'static str],
}

const ONE: &str = "'00000000-0000-0000-0000-000000000001'::uuid";

const PLANNED: [Planned; 7] = [
    Planned {
        name: "list_by_creation",
        arguments: "ONE, now(), ONE, '-infinity'::timestamptz, 51::bigint",
        relations: &["idempotency_keys_"],
        indexes: &["idempotency_keys_0_actor_id_created_at_payment_id_idx"],
    },
    Planned {
        name: "list_by_due",
        arguments: "ONE, now(), ONE, 'infinity'::timestamptz, 51::bigint",
        relations: &["idempotency_keys_"],
        indexes: &["idempotency_keys_0_actor_id_due_at_payment_id_idx"],
    },
    Planned {
        name: "list_payments",
        arguments: "TODAY::date, IDS, ONE, NULL, '{PARKED}', '{}', NULL, '{poisoned}', NULL, '{}', NULL, '{}', 1, 9, '{5}', '{6}',
            '{}', '{}'",
        relations: &["payments_TODAY", "payment_details_TODAY"],
        indexes: &["payments_TODAY_pkey", "payment_details_TODAY_pkey"],
    },
    Planned {
        name: "list_by_gateway_ref",
        arguments: "'x'",
        relations: &["gateways", "gateway_refs"],
        indexes: &["gateway_refs_pkey"],
    },
    Planned {
        name: "history_bounds",
        arguments: "TODAY::date, ONE, ONE",
        relations: &["payments_TODAY"],
        indexes: &["payments_TODAY_pkey"],
    },
    Planned {
        name: "history",
        arguments: "ONE, START, START + interval '1 day', START + interval '1 day', START + interval '2 days'",
        relations: &["payment_history_TODAY", "payment_history_TOMORROW"],
        indexes: &["payment_history_TODAY_pkey", "payment_history_TOMORROW_pkey"],
    },
    Planned {
        name: "events",
        arguments: "ONE, '0', 0, ONE, '9000000000000000000', START, START + interval '2 days', 100::bigint",
        relations: &["payment_history_TODAY", "payment_history_TOMORROW"],
        indexes: &["payment_history_TODAY_actor_id_xid_seq_payment_id_idx"],
    },
];

fn nodes<'a>(plan: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(plan);
    for child in plan["Plans"].as_array().into_iter().flatten() {
        nodes(child, found);
    }
}

async fn one(sql: &mut PgConnection, query: &str) -> String {
    let value = sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(sql).await;
    value.unwrap_or_else(|error| panic!("{query}: {error}"))
}

#[tokio::test]
async fn lists_and_histories_read_by_their_indexes_and_only_the_days_they_name() {
    let database = database().await;
    let mut sql = PgConnection::connect(&database.url).await.expect("a connection");
    for statement in FILL.into_iter().chain(["ANALYZE", "SET plan_cache_mode = force_custom_plan"]) {
        sql.execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let today = one(&mut sql, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')").await;
    let tomorrow =
        one(&mut sql, "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD')").await;
    let some = "SELECT array_agg(id)::text FROM (SELECT id FROM payments LIMIT 50) AS few";
    let ids = format!("'{}'::uuid[]", one(&mut sql, some).await);
    for planned in PLANNED {
        let text = Statement::named(planned.name).expect("listed").text;
        sql.execute(AssertSqlSafe(format!("PREPARE hot AS {text}"))).await.expect("prepared");
        let arguments = planned
            .arguments
            .replace("IDS", &ids)
            .replace("ONE", ONE)
            .replace("START", "date_trunc('day', now(), 'UTC')")
            .replace("TODAY", &format!("'{today}'"));
        let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE hot ({arguments})");
        let explained: Value = sqlx::query_scalar(AssertSqlSafe(explain.clone()))
            .fetch_one(&mut sql)
            .await
            .unwrap_or_else(|error| panic!("{explain}: {error}"));
        sql.execute("DEALLOCATE hot").await.expect("gone");
        let mut found = Vec::new();
        nodes(&explained[0]["Plan"], &mut found);
        let dated = |text: &&str| text.replace("TODAY", &today).replace("TOMORROW", &tomorrow);
        let named: Vec<String> = planned.relations.iter().map(dated).collect();
        for relation in found.iter().filter_map(|node| node["Relation Name"].as_str()) {
            let known =
                named.iter().any(|it| relation == it || it.ends_with('_') && relation.starts_with(it));
            assert!(known, "{} touches {relation}", planned.name);
        }
        for node in &found {
            let kind = node["Node Type"].as_str().expect("a kind");
            let read_through = kind == "Seq Scan" && node["Relation Name"] != "gateways";
            // The index gives the order; a list that sorts would read all that its actor has.
            let sorted = kind == "Sort"
                && (planned.name.starts_with("list_by_") && !planned.name.ends_with("ref")
                    || planned.name == "events");
            assert!(!read_through && !sorted, "{}: {node:#}", planned.name);
        }
        // A walk begins at its place and ends at its bound inside the index, and drops no row it read.
        if planned.arguments.contains("51::bigint") {
            for scan in found.iter().filter(|node| node["Index Name"].is_string()) {
                let condition = scan["Index Cond"].as_str().unwrap_or("");
                assert!(condition.contains("ROW(") && condition.matches("_at ").count() == 1, "{scan:#}");
                assert!(scan["Filter"].is_null(), "{scan:#}");
            }
        }
        let used: BTreeSet<&str> = found.iter().filter_map(|node| node["Index Name"].as_str()).collect();
        for index in planned.indexes.iter().map(dated) {
            assert!(used.contains(index.as_str()), "{} of {LIST}: {index} not in {used:?}", planned.name);
        }
    }
}
