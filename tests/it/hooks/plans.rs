//! What taking costs where much is owed: looks into indexes, never a walk through what is owed or was delivered.

use super::{ACTOR, Site, Wanted};
use punctual::schedule::statements::Statement;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor};

/// Delivered rows of a day, and what is owed to an endpoint that is dead.
const ROWS: u32 = 20_000;

fn nodes<'a>(plan: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(plan);
    for child in plan["Plans"].as_array().into_iter().flatten() {
        nodes(child, found);
    }
}

#[tokio::test]
async fn a_backlog_of_one_endpoint_and_a_full_day_cost_a_look_into_an_index() {
    let site = Site::new().await;
    let dead = site.endpoint(Wanted::all("http://127.0.0.1:9/dead")).await;
    let live = site.endpoint(Wanted::all("http://127.0.0.1:9/live")).await;
    let mut sql = site.world.sql().await;
    for statement in [
        format!("INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status,
                    next_try_at, tries, delivered_at)
                 SELECT '{live}', now(), gen_random_uuid(), 1, 'payment.claimed', now(), 'delivered', now(), 1, now()
                 FROM generate_series(1, {ROWS})"),
        format!("INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status,
                    next_try_at)
                 SELECT '{dead}', now(), gen_random_uuid(), 1, 'payment.claimed', now(), 'pending', now()
                 FROM generate_series(1, {ROWS})"),
        format!("INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status,
                    next_try_at) VALUES ('{live}', now(), gen_random_uuid(), 1, 'payment.claimed', now(), 'pending', now())"),
        "VACUUM ANALYZE webhook_deliveries".to_owned(),
        "SET plan_cache_mode = force_custom_plan".to_owned(),
    ] {
        sql.execute(AssertSqlSafe(statement)).await.expect("done");
    }
    let day = "date_trunc('day', now(), 'UTC')";
    let key = format!("ARRAY['{live}']::uuid[], ARRAY[now()], ARRAY['{live}']::uuid[], ARRAY[1]");
    for (name, arguments, most) in [
        ("webhooks_walk", "'00000000-0000-0000-0000-000000000000', 200".to_owned(), 10.0),
        ("webhooks_due", format!("ARRAY['{dead}', '{live}']::uuid[], 8::bigint"), 40.0),
        ("webhooks_take", format!("{day}, {day} + interval '1 day', {key}, 'p', interval '1 s'"), 5.0),
        (
            "webhooks_note",
            format!(
                "{day}, {day} + interval '1 day', 'p', {key}, ARRAY[1::bigint], ARRAY['delivered'],
            ARRAY[0::bigint], ARRAY[now()], ARRAY[1], ARRAY[200::smallint], ARRAY[NULL::text], ARRAY[''],
            ARRAY['http://127.0.0.1:9/live']"
            ),
            5.0,
        ),
        ("webhooks_backlog", "100::bigint".to_owned(), 400.0),
        // What is owed is counted no further than asked, and what was delivered is not looked at.
        ("webhook_standings", "200::bigint, 100::bigint".to_owned(), 400.0),
    ] {
        let text = Statement::named(name).expect("listed").text;
        sql.execute(AssertSqlSafe(format!("PREPARE asked AS {text}"))).await.expect("prepared");
        let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked ({arguments})");
        let explained: Value =
            sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut sql).await.expect(name);
        sql.execute("DEALLOCATE asked").await.expect("gone");
        let mut found = Vec::new();
        nodes(&explained[0]["Plan"], &mut found);
        let deliveries = |node: &&&Value| {
            node["Relation Name"].as_str().is_some_and(|name| name.starts_with("webhook_deliveries"))
                && node["Node Type"] != "ModifyTable"
        };
        let value = |node: &Value, of: &str| node[of].as_f64().unwrap_or(0.0);
        let read: f64 = found
            .iter()
            .filter(deliveries)
            .map(|node| {
                (value(node, "Actual Rows") + value(node, "Rows Removed by Filter"))
                    * value(node, "Actual Loops")
            })
            .sum();
        assert!(read <= most, "{name} reads {read} rows: {:#}", explained[0]["Plan"]);
    }
}

#[tokio::test]
async fn a_test_message_reads_nothing_of_what_its_endpoint_is_owed() {
    let site = Site::new().await;
    let dead = site.endpoint(Wanted::all("http://127.0.0.1:9/dead")).await;
    let mut sql = site.world.sql().await;
    for statement in [
        format!("INSERT INTO webhook_deliveries (endpoint_id, event_at, payment_id, seq, event_type, made_at, status,
                    next_try_at)
                 SELECT '{dead}', now(), gen_random_uuid(), 1, 'payment.claimed', now(), 'pending', now()
                 FROM generate_series(1, {ROWS})"),
        "VACUUM ANALYZE webhook_deliveries".to_owned(),
        "BEGIN".to_owned(),
    ] {
        sql.execute(AssertSqlSafe(statement)).await.expect("done");
    }
    let asked = format!("SELECT told FROM send_webhook_test('{dead}', '{}', gen_random_uuid())", ACTOR.0);
    let told: String = sqlx::query_scalar(AssertSqlSafe(asked)).fetch_one(&mut sql).await.expect("an answer");
    assert_eq!(told, "queued");
    let read = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
        FROM pg_stat_xact_user_tables WHERE relname LIKE 'webhook\\_deliveries\\_%'";
    let read: i64 = sqlx::query_scalar(read).fetch_one(&mut sql).await.expect("a count");
    assert!(read <= 10, "it reads {read} rows");
}
