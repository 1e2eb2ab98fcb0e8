//! How much is read to find a second charge, which days are not compared any more, and what outlives a process.

use super::desk::{charge, days_ago, load, paid, report, with_past};
use crate::schedule::world::{World, gateway};
use chrono::TimeDelta;
use punctual::reconcile::{ReconcileError, Terms, look_again, tell_standing};
use punctual::schedule::Forgotten;
use punctual::schedule::statements::Statement;
use serde_json::Value;
use sqlx::AssertSqlSafe;

/// Reports of the last six days, each with twenty thousand charges that were due on its day; in the last one are ten
/// of those that were due on the first.
const FILL: [&str; 5] = [
    "SELECT ensure_settlement_day(current_date - n) FROM generate_series(1, 6) AS n",
    "INSERT INTO reconciliation_runs (id, gateway, day, format, source, sha256, asked_by, status, lines, is_complete,
                                      seen_at, finished_at)
     SELECT lpad(n::text, 32, '0')::uuid, 'sandbox', current_date - n, 'sandbox', '', sha256(''), 'x', 'compared', 1, true,
            now(), now()
     FROM generate_series(1, 6) AS n",
    "CREATE FUNCTION an_id(day date, m integer) RETURNS uuid LANGUAGE sql AS $$
     SELECT (lpad(to_hex(extract(epoch FROM day::timestamp AT TIME ZONE 'UTC')::bigint * 1000 + m), 12, '0')
             || '80008' || lpad(to_hex(m), 15, '0'))::uuid $$",
    "INSERT INTO settlement_lines (run_id, report_day, booked_on, epoch, number, at_line, gross_minor, fee_minor, net_minor,
                                   payment_id, kind, currency, net_currency, own_name, raw_hash)
     SELECT lpad(n::text, 32, '0')::uuid, current_date - n, current_date - n, 0, m, m, 1, 0, 1,
            an_id(current_date - CASE WHEN n = 1 AND m <= 10 THEN 6 ELSE n END, m), 'charge', 'EUR', 'EUR', true, sha256('')
     FROM generate_series(1, 6) AS n, generate_series(1, 20000) AS m",
    "VACUUM ANALYZE settlement_lines",
];

fn nodes<'a>(plan: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(plan);
    for child in plan["Plans"].as_array().into_iter().flatten() {
        nodes(child, found);
    }
}

#[tokio::test]
async fn a_first_charge_of_long_ago_is_found_by_its_payment_and_not_by_reading_the_days_between() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    for statement in FILL {
        sqlx::raw_sql(statement)
            .execute(&mut sql)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let text = Statement::named("often_charged").expect("listed").text;
    for statement in ["SET plan_cache_mode = force_custom_plan", &format!("PREPARE often AS {text}")] {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut sql).await.expect("prepared");
    }
    let id = |back: u32, m: u32| format!("(SELECT an_id(current_date - {back}, {m})::text)");
    let (first, end): (String, String) =
        (world.one(&format!("SELECT {}", id(6, 0))).await, world.one(&format!("SELECT {}", id(5, 0))).await);
    let yesterday: String = world.one("SELECT (current_date - 1)::text").await;
    let run = "'{00000000-0000-0000-0000-000000000001}'";
    let execute = format!("EXECUTE often ('{yesterday}', {run}, 'sandbox', '{first}', '{end}')");
    let found = sqlx::query(AssertSqlSafe(execute.clone())).fetch_all(&mut sql).await.expect("found");
    assert_eq!(found.len(), 10);
    let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {execute}");
    let plan: Value =
        sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut sql).await.expect("explained");
    let mut all = Vec::new();
    nodes(&plan[0]["Plan"], &mut all);
    // Newer servers write fractions.
    let of = |node: &Value, name: &str| node[name].as_f64().unwrap_or(0.0).ceil() as u64;
    let mut rows = 0;
    let is_read = |node: &&&Value| {
        node["Relation Name"].as_str().unwrap_or("").starts_with("settlement_lines")
            && of(node, "Actual Loops") > 0
    };
    for node in all.iter().filter(is_read) {
        assert_ne!(node["Node Type"], "Seq Scan", "{node:#}");
        rows += (of(node, "Actual Rows") + of(node, "Rows Removed by Filter")) * of(node, "Actual Loops");
    }
    assert!((10..200).contains(&rows), "{rows} lines were read for ten: {plan:#}");
}

fn terms() -> Terms {
    Terms { grace_days: 1, power: None }
}

#[tokio::test]
async fn a_day_whose_lines_or_payments_are_not_kept_is_refused_and_what_was_found_stands() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, next) = (days_ago(&world, 6).await, days_ago(&world, 5).await);
    let row = paid(&mut sql, 1, day).await;
    let lines = [charge(1, row.id, "ch_1", day)];
    load(&world, &report(day, &lines), &lines).await;
    let late = [charge(1, row.id, "ch_1", next)];
    load(&world, &report(next, &late), &late).await;
    let ask = async |day| look_again(&world.worker, &gateway(), day, terms()).await;
    let (compared, ..) = ask(day).await.expect("compared");
    assert_eq!((compared.open, compared.new.values().sum::<u64>()), (0, 1), "its second line, the day after");
    assert_eq!(world.worker.drop_old_settlements(5).await.expect("dropped"), 1);
    for refused in [day, next] {
        let Err(error) = ask(refused).await else { panic!("{refused} was compared") };
        let ReconcileError::Forgotten { why: Forgotten::Lines(gone), .. } = error else { panic!("{error}") };
        assert_eq!(gone, day);
        assert_eq!(
            error.to_string(),
            format!(
                "{refused} cannot be compared any more: the lines of {day}'s report are no longer kept, and without \
                 them charges of the day would seem to be missing in it"
            )
        );
    }
    // The same old file once more is not loaded, and calls nobody missing.
    assert_eq!(super::desk::told(&world, row.id).await.len(), 1);
    let before = days_ago(&world, 30).await;
    let Err(ReconcileError::Forgotten { why: Forgotten::Payments(first), .. }) = ask(before).await else {
        panic!("no payments of that day are here")
    };
    assert!(first > before);
}

#[tokio::test]
async fn sums_that_are_apart_are_told_by_whoever_asks_the_database() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let day = days_ago(&world, 4).await;
    let row = paid(&mut sql, 1, day).await;
    let mut line = charge(1, row.id, "ch_1", day);
    line.gross_minor += 1;
    line.net_minor += 1;
    load(&world, &report(day, &[line.clone()]), &[line]).await;
    let (_, _, apart) = look_again(&world.worker, &gateway(), day, terms()).await.expect("compared");
    let days: Vec<_> = apart.iter().map(|it| it.due_day).collect();
    assert_eq!(days, [day]);
    // Another process, which compared nothing.
    assert_eq!(tell_standing(&world.api).await.expect("told")[0].sums_apart, 1);
    world.run("UPDATE payments SET amount_minor = amount_minor + 1").await;
    look_again(&world.worker, &gateway(), day, terms()).await.expect("compared");
    assert_eq!(tell_standing(&world.api).await.expect("told")[0].sums_apart, 0);
    let later = day + TimeDelta::days(20);
    world
        .run(&format!(
            "INSERT INTO reconciliation_books VALUES ('sandbox', '{later}', 2), ('sandbox', '{day}', 1)
                       ON CONFLICT (gateway, due_day) DO UPDATE SET apart = 1"
        ))
        .await;
    assert_eq!(tell_standing(&world.api).await.expect("told")[0].sums_apart, 2, "of the last eight days");
}

#[tokio::test]
async fn what_was_settled_before_is_not_read_again_to_find_what_may_be_repaired() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let fill = "INSERT INTO reconciliation_items (fingerprint, run_id, gateway, day, class, status, payment_id, field, evidence)
        SELECT gen_random_uuid(), gen_random_uuid(), 'sandbox', current_date - 9, 'missing_here',
               CASE WHEN n % 10000 = 0 THEN 'open' ELSE 'explained' END, gen_random_uuid(), 'status', '{}'
        FROM generate_series(1, 50000) AS n";
    for statement in [fill, "VACUUM ANALYZE reconciliation_items", "SET plan_cache_mode = force_custom_plan"]
    {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut sql).await.expect("filled");
    }
    let text = Statement::named("repairable_items").expect("listed").text;
    sqlx::raw_sql(AssertSqlSafe(format!("PREPARE repairable AS {text}")))
        .execute(&mut sql)
        .await
        .expect("prepared");
    for power in ["safe", "automatic"] {
        let execute = format!("EXECUTE repairable ('sandbox', NULL, 0, 100, '{power}')");
        let found = sqlx::query(AssertSqlSafe(execute.clone())).fetch_all(&mut sql).await.expect("found");
        assert_eq!(found.len(), 5);
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {execute}");
        let plan: Value =
            sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut sql).await.expect("a plan");
        let top = &plan[0]["Plan"];
        let blocks = top["Shared Hit Blocks"].as_u64().expect("counted")
            + top["Shared Read Blocks"].as_u64().expect("counted");
        assert!(blocks < 100, "{power}: {blocks} blocks for five differences: {plan}");
    }
}
