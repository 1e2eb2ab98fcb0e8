//! The statements of the search read by their indexes, no further than a page needs, among many days and many rows.

use crate::schedule::world::World;
use punctual::schedule::statements::Statement;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor};

/// A hundred thousand on one day among seventy, a few of them rare; and a list of bulk re-drives.
const FILL: [&str; 6] = [
    "SELECT ensure_partitions(current_date + 11, current_date + 60)",
    "INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, gateway, amount_minor, currency,
        attempt, unanswered, epoch_first_sent_at, claim_id, lease_until, fence, max_sends, on_soft_decline,
        on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
     SELECT (at AT TIME ZONE 'UTC')::date,
            (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '8abca' || lpad(to_hex(n), 15, '0'))::uuid,
            lpad(CASE WHEN n % 2 = 0 THEN '1' ELSE (n % 40)::text END, 32, '0')::uuid, status, at, at, 'sandbox', 1,
            'EUR', 1, (status <> 'COMPLETED')::int, now(), CASE WHEN status = 'PROCESSING' THEN gen_random_uuid() END,
            CASE WHEN status = 'PROCESSING' THEN now() END, 1, 6, 'retry', 'park', 1, now(), now(), 1, '', '1'
     FROM generate_series(1, 100000) AS n
     CROSS JOIN LATERAL (SELECT CASE n % 10000 WHEN 0 THEN 'UNKNOWN' WHEN 1 THEN 'PROCESSING' ELSE 'COMPLETED' END
                         AS status, date_trunc('day', now(), 'UTC') + n * interval '800 ms' AS at) AS t",
    "INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
     SELECT actor_id, id::text, decode(repeat('00', 32), 'hex'), id, due_at, created_at FROM payments",
    "INSERT INTO parked (payment_id, reason, parked_at, evidence)
     SELECT id, 'poisoned', now(), '{}' FROM payments",
    "INSERT INTO bulk_redrives (id, asked_by, reason, filter, rate_per_s, preview, created_at)
     SELECT gen_random_uuid(), 'key:a', 'why', '{}', 1, '{}', now() - n * interval '1 min'
     FROM generate_series(1, 20000) AS n",
    "ANALYZE",
];

/// A statement, its parameters as SQL, the index that must serve it, and most rows that one of its nodes may read.
const PLANNED: [(&str, &str, &str, f64); 9] = [
    ("walk_by_due", "DAY - 10, DAY + 20, NONE, ALL, 50::bigint", "payments_TODAY_pkey", 50.0),
    ("walk_by_due_back", "DAY - 10, DAY + 20, NONE, ALL, 50::bigint", "payments_TODAY_pkey", 50.0),
    (
        "walk_open",
        "DAY - 1, DAY, NONE, ALL, '{UNKNOWN,PROCESSING}', 'last', 50::bigint",
        "payments_TODAY_epoch_first_sent_at_idx",
        50.0,
    ),
    (
        "walk_open",
        "DAY - 1, DAY, NONE, ALL, '{UNKNOWN,PROCESSING}', 'first', 50::bigint",
        "payments_TODAY_lease_until_idx",
        50.0,
    ),
    ("list_parked", "NONE, ALL, 50::bigint", "parked_pkey", 50.0),
    ("list_parked_back", "ALL, NONE, 50::bigint", "parked_pkey", 50.0),
    ("parked_counts", "1000::bigint", "parked_pkey", 1_000.0),
    (
        "list_by_due_back",
        "lpad('1', 32, '0')::uuid, 'infinity', ALL, '-infinity', 50::bigint",
        "idempotency_keys_0_actor_id_due_at_payment_id_idx",
        // Merged over the hash partitions, each of which is begun.
        70.0,
    ),
    ("list_bulks", "now(), ALL, 50::bigint", "bulk_redrives_by_age", 50.0),
];

fn nodes<'a>(plan: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(plan);
    for child in plan["Plans"].as_array().into_iter().flatten() {
        nodes(child, found);
    }
}

#[tokio::test]
async fn a_page_of_a_search_reads_by_its_index_and_no_further_than_it_needs() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    sql.execute("SET plan_cache_mode = force_custom_plan").await.expect("set");
    for statement in FILL {
        sql.execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let today: String = world.one("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')").await;
    for (name, arguments, index, most) in PLANNED {
        let text = Statement::named(name).expect("listed").text;
        sql.execute(AssertSqlSafe(format!("PREPARE page AS {text}"))).await.expect("prepared");
        let arguments = arguments
            .replace("DAY", "(now() AT TIME ZONE 'UTC')::date")
            .replace("NONE", "'00000000-0000-0000-0000-000000000000'::uuid")
            .replace("ALL", "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid");
        let run = format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE page ({arguments})");
        let explained: Value = sqlx::query_scalar(AssertSqlSafe(run.clone()))
            .fetch_one(&mut sql)
            .await
            .unwrap_or_else(|error| panic!("{run}: {error}"));
        sql.execute("DEALLOCATE page").await.expect("gone");
        let mut found = Vec::new();
        nodes(&explained[0]["Plan"], &mut found);
        let index = index.replace("TODAY", &today);
        let used: Vec<&str> = found.iter().filter_map(|node| node["Index Name"].as_str()).collect();
        assert!(used.contains(&index.as_str()), "{name}: {index} not in {used:?}");
        for node in found {
            let rows = |of: &str| node[of].as_f64().unwrap_or(0.0);
            let read = rows("Actual Rows") + rows("Rows Removed by Filter");
            assert!(read <= most, "{name} reads {read}: {node:#}");
        }
    }
}
