//! Plans: every statement fits the schema, and the hot ones read by the index and the partitions that
//! they name, on a day that is full.

use super::world::World;
use punctual::schedule::statements::{ALL, Statement};
use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};

/// Tables that no statement may read from end to end.
const HOT: [&str; 8] = [
    "payments",
    "payment_details",
    "attempts",
    "payment_history",
    "due_notices",
    "idempotency_keys",
    "external_ids",
    "destination_declines",
];

#[tokio::test]
async fn every_statement_fits_the_migrated_schema() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    for Statement { file, text } in ALL {
        let prepared = sql.prepare(sqlx::SqlStr::from_static(text)).await;
        prepared.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

/// Statements that count from their index and read no row.
const COUNTS: [&str; 2] = ["forecast", "stage_crowd"];

/// A statement, its parameters as SQL, an index that must serve it, and the days it may touch.
struct Hot {
    name: &'static str,
    arguments: &'static str,
    index: &'static str,
    days: &'static [i32],
}

const DAY: &str = "(now() AT TIME ZONE 'UTC')::date";

const STATEMENTS: &[Hot] = &[
    Hot {
        name: "claim",
        arguments: "DAY, IDS, ATTEMPTS, IDS, 'sandbox', 'a', 1::smallint, 'w', interval '30 s', ''::bytea, ''::bytea,
            0::bigint, 0::bigint",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot {
        name: "wish",
        arguments: "DAY, ID, ID, 1::smallint, 'x', '{}'",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot {
        name: "compare_lines",
        arguments: "DAY, IDS, ID, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid, DAY, 'sandbox', IDS",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot {
        name: "compare_often",
        arguments: "DAY, IDS, DAY - 30, DAY, DAY, 'sandbox', IDS, IDS",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot { name: "explain_here", arguments: "'sandbox', DAY, ID, ID", index: "payments_TODAY_pkey", days: &[0] },
    Hot { name: "payment_version", arguments: "DAY, ID", index: "payments_TODAY_pkey", days: &[0] },
    Hot { name: "explain", arguments: "DAY, IDS", index: "payments_TODAY_pkey", days: &[0] },
    Hot {
        name: "settle",
        arguments: "DAY, IDS, array_fill(1::bigint, ARRAY[200]), IDS, TEXTS, TEXTS, TEXTS, array_fill(now(), ARRAY[200]),
            SMALLS, SMALLS, FLAGS, FLAGS, TEXTS, array_fill(''::bytea, ARRAY[200]), TEXTS, TEXTS, TEXTS, TEXTS, SMALLS,
            ATTEMPTS, TEXTS, SMALLS, array_fill(decode(repeat('00', 16), 'hex'), ARRAY[200]),
            array_fill(1::bigint, ARRAY[200]), TEXTS",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot {
        name: "recent_calls",
        arguments: "DAY, '00000000-0000-0000-0000-000000000000'::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid, 1000::bigint",
        index: "attempts_TODAY_pkey",
        days: &[0],
    },
    Hot { name: "settled_attempts", arguments: "DAY, IDS, IDS", index: "attempts_TODAY_pkey", days: &[0] },
    Hot { name: "recover", arguments: "DAY, IDS, IDS, ''::bytea, ''::bytea", index: "payments_TODAY_pkey", days: &[0] },
    Hot {
        name: "renew",
        arguments: "DAY, IDS, array_fill(1::bigint, ARRAY[200]), IDS, interval '30 s'",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot { name: "defer", arguments: "DAY, IDS, ATTEMPTS", index: "payments_TODAY_pkey", days: &[0] },
    Hot { name: "still_claimable", arguments: "DAY, IDS, ATTEMPTS", index: "payments_TODAY_pkey", days: &[0] },
    Hot {
        name: "claim_late_candidates",
        arguments: "DAY - 1, DAY, 'sandbox', interval '15 s', 200::bigint, '{}'::smallint[], '{}'::text[], '{}'::text[]",
        index: "payments_TODAY_gateway_next_attempt_at_due_day_idx",
        days: &[-1, 0],
    },
    Hot {
        name: "oldest_due",
        arguments: "DAY - 1, DAY",
        index: "payments_TODAY_gateway_next_attempt_at_due_day_idx",
        days: &[-1, 0],
    },
    Hot {
        name: "forecast",
        arguments: "DAY - 1, DAY, 'sandbox', ARRAY[(DAY::timestamp AT TIME ZONE 'UTC')],
            ARRAY[(DAY::timestamp AT TIME ZONE 'UTC') + interval '1 min'], 1000::bigint",
        index: "payments_TODAY_gateway_next_attempt_at_due_day_idx",
        days: &[-1, 0],
    },
    Hot {
        name: "minute_due",
        arguments: "DAY, '00000000-0000-0000-0000-000000000000'::uuid, '00000001-0000-0000-0000-000000000000'::uuid",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot {
        name: "extent",
        arguments: "SHARDS, 100::bigint",
        index: "due_notices_TODAY_shard_not_before_notice_id_idx",
        days: &[-2, -1, 0],
    },
    Hot {
        name: "open_states",
        arguments: "DAY - 1, DAY, 1000::bigint",
        index: "payments_TODAY_epoch_first_sent_at_idx",
        days: &[-1, 0],
    },
    Hot {
        name: "reap_candidates",
        arguments: "DAY - 1, DAY, interval '5 s', 200::bigint",
        index: "payments_TODAY_lease_until_idx",
        days: &[-1, 0],
    },
    Hot {
        name: "deadline_candidates",
        arguments: "DAY - 1, DAY, 200::bigint",
        index: "payments_TODAY_execute_before_idx",
        days: &[-1, 0],
    },
    Hot {
        name: "reap",
        arguments: "DAY, IDS, SMALLS, 'keeper'",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot {
        name: "fail_by_deadline",
        arguments: "DAY, IDS, 'keeper'",
        index: "payments_TODAY_",
        days: &[0],
    },
    Hot { name: "find", arguments: "DAY, ID, ID", index: "payments_TODAY_pkey", days: &[0] },
    Hot {
        name: "cancel",
        arguments: "DAY, ID, ID, 'x', 'cancelled_by_client', '{}'",
        index: "payments_TODAY_pkey",
        days: &[0],
    },
    Hot {
        name: "stage",
        arguments: "SHARDS, (DAY::timestamp AT TIME ZONE 'UTC'), (DAY::timestamp AT TIME ZONE 'UTC') + interval '90 s', 1000::bigint",
        index: "due_notices_TODAY_shard_not_before_notice_id_idx",
        days: &[0],
    },
    Hot {
        name: "stage_next",
        arguments: "SHARDS, (DAY::timestamp AT TIME ZONE 'UTC'), (DAY::timestamp AT TIME ZONE 'UTC') + interval '1 hour'",
        index: "due_notices_TODAY_shard_not_before_notice_id_idx",
        days: &[0],
    },
    Hot {
        name: "stage_crowd",
        arguments: "SHARDS, (DAY::timestamp AT TIME ZONE 'UTC'), (DAY::timestamp AT TIME ZONE 'UTC') + interval '12 min', 1000::bigint",
        index: "due_notices_TODAY_shard_not_before_notice_id_idx",
        days: &[0],
    },
    Hot {
        name: "mark",
        arguments: "(DAY::timestamp AT TIME ZONE 'UTC'), (DAY::timestamp AT TIME ZONE 'UTC') + interval '1 min',
            array_fill(1::bigint, ARRAY[200]), SMALLS, array_fill(now(), ARRAY[200]), 1, 0, 'r', 1::bigint",
        index: "due_notices_TODAY_shard_not_before_notice_id_idx",
        days: &[0],
    },
    Hot {
        name: "open_soon",
        arguments: "DAY - 1, DAY, 'sandbox', now(), ID, now() + interval '20 min', 1000::bigint",
        index: "payments_TODAY_gateway_next_attempt_at_due_day_idx",
        days: &[-1, 0],
    },
    Hot {
        name: "unnoticed",
        arguments: "IDS, SMALLS, array_fill(now(), ARRAY[200]), (DAY::timestamp AT TIME ZONE 'UTC'),
            (DAY::timestamp AT TIME ZONE 'UTC') + interval '1 min'",
        index: "due_notices_TODAY_shard_not_before_notice_id_idx",
        days: &[0],
    },
    // By the key, or by what is claimable where that is less.
    Hot { name: "notice_again", arguments: "DAY, IDS, SMALLS", index: "payments_TODAY_", days: &[0] },
    Hot { name: "found_key", arguments: "ID, 'k'", index: "idempotency_keys_", days: &[] },
    Hot { name: "found_external_id", arguments: "ID, 'k'", index: "external_ids_pkey", days: &[] },
];

/// A day full of payments in every state that a scan asks for, and its outbox.
async fn fill(sql: &mut PgConnection) {
    for statement in [
        "INSERT INTO payments (due_day, id, actor_id, status, due_at, next_attempt_at, execute_before, gateway,
            amount_minor, currency, attempt, unanswered, epoch_first_sent_at, claim_id, lease_until, fence, max_sends,
            on_soft_decline, on_exhausted, lane, created_at, last_moved_at, history_seq, history_hash, last_xid)
         SELECT day, gen_random_uuid(), gen_random_uuid(), status, at, at,
                CASE WHEN n % 50 = 0 THEN at + interval '1 hour' END, 'sandbox', 1, 'EUR', 1,
                (status = 'PROCESSING')::int, now(), CASE WHEN status = 'PROCESSING' THEN gen_random_uuid() END,
                CASE WHEN status = 'PROCESSING' THEN now() END, 1, 6, 'retry', 'park', 1, now(), now(), 1, '', '1'
         FROM generate_series(1, 30000) AS n
         CROSS JOIN LATERAL (SELECT CASE WHEN n % 10 = 0 THEN 'PENDING' WHEN n % 100 = 1 THEN 'PROCESSING'
                                         ELSE 'COMPLETED' END AS status,
                                    (now() AT TIME ZONE 'UTC')::date AS day) AS s
         CROSS JOIN LATERAL (SELECT (day::timestamp AT TIME ZONE 'UTC') + n * interval '2 s' AS at) AS t",
        "INSERT INTO payment_details (due_day, id, payee_sealed, field_digests)
         SELECT due_day, id, 'payee', '{}' FROM payments",
        "INSERT INTO attempts (due_day, payment_id, attempt, epoch, claim_id, fence, worker, was, claimed_at)
         SELECT due_day, id, 1, 0, gen_random_uuid(), 1, 'w', 'PENDING', now() FROM payments",
        "INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
         SELECT abs(hashtext(id::text)) % 48, id, due_day, gateway, lane, due_at, next_attempt_at, 0 FROM payments",
        "INSERT INTO idempotency_keys (actor_id, key, request_hash, payment_id, due_at, created_at)
         SELECT actor_id, 'k', decode(repeat('00', 32), 'hex'), id, due_at, created_at FROM payments",
        "INSERT INTO destination_declines
         SELECT substring(sha256(n::text::bytea) FROM 1 FOR 16), date_trunc('hour', now(), 'UTC'), 1
         FROM generate_series(1, 20000) AS n",
        "INSERT INTO external_ids SELECT actor_id, 'k', id FROM payments",
        "VACUUM ANALYZE payments, due_notices",
        "ANALYZE",
    ] {
        sql.execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// `ids` as an array's literal: EXECUTE takes no subquery.
fn arguments(hot: &Hot, ids: &str) -> String {
    let fill = |value: &str| format!("array_fill({value}, ARRAY[200])");
    [
        ("SHARDS", "ARRAY[0, 12, 24, 36]::smallint[]"),
        ("ATTEMPTS", &fill("1")),
        ("SMALLS", &fill("1::smallint")),
        ("FLAGS", &fill("false")),
        ("TEXTS", &fill("'x'::text")),
        ("IDS", ids),
        ("ID", "gen_random_uuid()"),
        ("DAY", DAY),
    ]
    .into_iter()
    .fold(hot.arguments.to_owned(), |text, (word, value)| replace_word(&text, word, value))
}

/// Replaces whole words only: `ID` is not part of `IDS`.
fn replace_word(text: &str, word: &str, value: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let joined = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let whole = !before.ends_with(joined) && !after.starts_with(joined);
        out.push_str(before);
        out.push_str(if whole { value } else { word });
        rest = after;
    }
    out + rest
}

fn nodes<'a>(plan: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(plan);
    for child in plan["Plans"].as_array().into_iter().flatten() {
        nodes(child, found);
    }
}

#[tokio::test]
async fn hot_statements_read_by_their_index_and_only_the_days_they_name() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    sql.execute("SELECT ensure_partitions(current_date + 11, current_date + 60)").await.expect("made");
    sql.execute("SET plan_cache_mode = force_custom_plan").await.expect("set");
    fill(&mut sql).await;
    sql.execute(AssertSqlSafe(format!("SELECT ensure_settlement_day({DAY})"))).await.expect("made");
    let day = |offset: i32| format!("SELECT to_char({DAY} + {offset}, 'YYYYMMDD')");
    let today: String = world.one(&day(0)).await;
    let some = "SELECT array_agg(id)::text FROM (SELECT id FROM payments LIMIT 200) AS few";
    let ids = format!("'{}'::uuid[]", world.one::<String>(some).await);
    for hot in STATEMENTS {
        let text = Statement::named(hot.name).expect("listed").text;
        sql.execute(AssertSqlSafe(format!("PREPARE hot AS {text}"))).await.expect("prepared");
        let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE hot ({})", arguments(hot, &ids));
        let explained: Value = sqlx::query_scalar(AssertSqlSafe(explain.clone()))
            .fetch_one(&mut sql)
            .await
            .unwrap_or_else(|error| panic!("{explain}: {error}"));
        sql.execute("DEALLOCATE hot").await.expect("gone");
        let mut days = Vec::new();
        for offset in hot.days {
            days.push(world.one::<String>(&day(*offset)).await);
        }
        let mut found = Vec::new();
        nodes(&explained[0]["Plan"], &mut found);
        let mut indexes = Vec::new();
        for node in found {
            let relation = node["Relation Name"].as_str().unwrap_or("");
            indexes.extend(node["Index Name"].as_str());
            let written = node["Node Type"] == "ModifyTable";
            let table =
                HOT.iter().find(|table| relation.starts_with(&format!("{table}_2")) || relation == **table);
            if table.is_none() || written {
                continue;
            }
            // Yesterday is empty here, and an empty table is read through at no cost.
            let full = relation.ends_with(today.as_str()) || !relation.contains("_2");
            let counts = COUNTS.contains(&hot.name);
            assert!(!counts || !full || node["Node Type"] == "Index Only Scan", "{}: {node:#}", hot.name);
            assert!(!full || node["Node Type"] != "Seq Scan", "{}: {node:#}", hot.name);
            let unpartitioned = ["idempotency_keys", "external_ids", "destination_declines"];
            let has_days = !unpartitioned.iter().any(|table| relation.starts_with(table));
            let named = !has_days || days.iter().any(|day| relation.ends_with(day.as_str()));
            assert!(named, "{} touches {relation}", hot.name);
        }
        let index = hot.index.replace("TODAY", &today);
        assert!(indexes.iter().any(|it| it.starts_with(&index)), "{}: {index} not in {indexes:?}", hot.name);
    }
}

/// Lists for people, with parameters as SQL for a page of fifty.
const PAGES: [(&str, &str); 5] = [
    ("list_approvals", "'pending', 'epoch', NOBODY, 50::bigint"),
    ("list_approvals", "'approved', 'epoch', NOBODY, 50::bigint"),
    ("list_approvals", "'expired', 'epoch', NOBODY, 50::bigint"),
    ("list_acts", "'seldom', NULL, NULL, 50::bigint"),
    ("list_acts", "NULL, 'seldom', NULL, 50::bigint"),
];

#[tokio::test]
async fn a_page_for_people_reads_no_more_for_years_of_other_pages() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    for statement in [
        "SET plan_cache_mode = force_custom_plan",
        // What nobody decided, what somebody did, and one that waits.
        "INSERT INTO approvals
         SELECT gen_random_uuid(), 'refund', gen_random_uuid(), 'key:a', 'why', '{}',
                CASE WHEN n % 2 = 0 THEN 'approved' ELSE 'pending' END, CASE WHEN n % 2 = 0 THEN 'key:b' END,
                CASE WHEN n % 2 = 0 THEN 'seen' END, at, CASE WHEN n % 2 = 0 THEN at END, at + interval '1 day'
         FROM generate_series(0, 20000) AS n
         CROSS JOIN LATERAL (SELECT now() - interval '1 year' + n * interval '1 min' AS at) AS t",
        "INSERT INTO approvals VALUES (gen_random_uuid(), 'refund', gen_random_uuid(), 'key:a', 'why', '{}', 'pending',
            NULL, NULL, now(), NULL, now() + interval '1 day')",
        "INSERT INTO operator_acts (operator, act, subject, reason)
         SELECT who, 'pause_gateway', who, 'why'
         FROM generate_series(0, 20000) AS n
         CROSS JOIN LATERAL (SELECT CASE n WHEN 0 THEN 'seldom' ELSE 'often' END AS who) AS w",
        "ANALYZE approvals, operator_acts",
    ] {
        sql.execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    for (name, arguments) in PAGES {
        let text = Statement::named(name).expect("listed").text;
        sql.execute(AssertSqlSafe(format!("PREPARE page AS {text}"))).await.expect("prepared");
        let nobody = "'00000000-0000-0000-0000-000000000000'";
        let run =
            format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE page ({})", arguments.replace("NOBODY", nobody));
        let explained: Value =
            sqlx::query_scalar(AssertSqlSafe(run)).fetch_one(&mut sql).await.expect("a plan");
        sql.execute("DEALLOCATE page").await.expect("gone");
        let mut found = Vec::new();
        nodes(&explained[0]["Plan"], &mut found);
        for node in found {
            let rows = |of: &str| node[of].as_f64().unwrap_or(0.0);
            let read = rows("Actual Rows") + rows("Rows Removed by Filter");
            assert!(read <= 50.0, "{name} ({arguments}) reads {read}: {node:#}");
        }
    }
}
