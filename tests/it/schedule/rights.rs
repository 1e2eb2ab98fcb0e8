//! What each database role may not do.

use super::world::World;
use sqlx::{AssertSqlSafe, Executor};

/// A role, and what it may not do.
const REFUSED: &[(&str, &str)] = &[
    ("punctual_worker", "UPDATE payment_history SET done_by = 'x'"),
    ("punctual_worker", "DELETE FROM payment_history"),
    ("punctual_worker", "TRUNCATE payment_history"),
    ("punctual_worker", "DELETE FROM payments"),
    ("punctual_worker", "INSERT INTO payments (id) VALUES (gen_random_uuid())"),
    ("punctual_worker", "UPDATE payments SET amount_minor = 1"),
    ("punctual_worker", "UPDATE payments SET due_at = now()"),
    ("punctual_worker", "UPDATE payment_details SET payee_sealed = ''"),
    ("punctual_worker", "SELECT hash FROM api_keys"),
    ("punctual_worker", "UPDATE installation SET released_lineage = 'x'"),
    ("punctual_worker", "SELECT release_lineage()"),
    ("punctual_api", "UPDATE payments SET fence = fence + 1"),
    ("punctual_api", "UPDATE payments SET claim_id = gen_random_uuid()"),
    ("punctual_api", "UPDATE payments SET due_at = now()"),
    ("punctual_api", "UPDATE gateways SET voids_by_key = true"),
    ("punctual_worker", "UPDATE payments SET cancel_wish_at = now()"),
    ("punctual_worker", "UPDATE gateways SET account = 'x'"),
    ("punctual_api", "UPDATE gateway_pace SET paused_until = NULL"),
    ("punctual_worker", "DELETE FROM gateway_pace"),
    ("punctual_api", "UPDATE payments SET unanswered = 0"),
    ("punctual_api", "INSERT INTO attempts (attempt) VALUES (1)"),
    ("punctual_api", "INSERT INTO gateway_refs VALUES ('a', 'b', gen_random_uuid())"),
    ("punctual_api", "INSERT INTO gateway_callbacks VALUES ('a', 'b', gen_random_uuid(), now())"),
    ("punctual_api", "SELECT webhook_id FROM gateway_callbacks"),
    ("punctual_worker", "UPDATE gateway_callbacks SET webhook_id = 'x'"),
    (
        "punctual_worker",
        "SELECT take_gateway_callback('a', 'b', current_date, gen_random_uuid(), 1::smallint)",
    ),
    ("punctual_api", "UPDATE destination_declines SET declines = 1"),
    ("punctual_api", "UPDATE forecast_days SET due = 0"),
    ("punctual_api", "DELETE FROM forecast_days"),
    ("punctual_owner", "UPDATE forecast_days SET due = 0"),
    ("punctual_api", "UPDATE ended_logins SET until = now()"),
    ("punctual_worker", "DELETE FROM ended_logins"),
    ("punctual_api", "UPDATE minutes SET due = 0"),
    ("punctual_api", "UPDATE minutes_cursor SET seq = 0"),
    ("punctual_worker", "DELETE FROM minutes_cursor"),
    ("punctual_api", "DELETE FROM due_notices"),
    ("punctual_api", "DELETE FROM relays"),
    ("punctual_api", "UPDATE payment_history SET done_by = 'x'"),
    ("punctual_api", "INSERT INTO api_keys (id) VALUES (gen_random_uuid())"),
    ("punctual_api", "UPDATE api_keys SET revoked_at = NULL"),
    ("punctual_api", "UPDATE api_keys SET scopes = '{admin}'"),
    ("punctual_api", "DELETE FROM api_keys"),
    ("punctual_api", "INSERT INTO actors (id, name) VALUES (gen_random_uuid(), 'x')"),
    ("punctual_api", "UPDATE actors SET name = 'x'"),
    ("punctual_api", "DELETE FROM actor_caps"),
    ("punctual_api", "UPDATE actor_caps SET payments = NULL"),
    ("punctual_api", "DELETE FROM actor_days"),
    ("punctual_api", "UPDATE actor_days SET day = day - 1"),
    ("punctual_worker", "SELECT revoke_api_key(gen_random_uuid(), 'x', 'x')"),
    ("punctual_worker", "SELECT set_actor_cap('x', 'EUR', 1, 1, 'x', 'x')"),
    ("punctual_worker", "SELECT actor_of_token(gen_random_uuid(), 'x', now(), now())"),
    ("punctual_worker", "UPDATE actor_days SET amount_minor = 1"),
    ("punctual_worker", "INSERT INTO actor_days VALUES (gen_random_uuid(), current_date, 'EUR', 1, 1)"),
    ("punctual_owner", "SELECT actor_of_token(gen_random_uuid(), 'x', now(), now())"),
    ("punctual_api", "SELECT quarantine('x')"),
    ("punctual_api", "SELECT enter_quarantine('notice', 'x', NULL, NULL)"),
    ("punctual_worker", "SELECT release_quarantine('x', 'x', true, 2, '{}')"),
    ("punctual_worker", "SELECT let_claims_go_on()"),
    ("punctual_api", "SELECT let_claims_go_on()"),
    ("punctual_api", "SELECT give_sign_of_life()"),
    ("punctual_owner", "SELECT repair_refund(1, 'person', 'x', 'x', NULL, NULL)"),
    ("punctual_worker", "SELECT quarantine_by_person('x', 'x', NULL)"),
    ("punctual_worker", "UPDATE quarantines SET released_at = now()"),
    ("punctual_api", "UPDATE quarantines SET asked_by = 'x'"),
    ("punctual_api", "INSERT INTO quarantine_evidence VALUES (1, 1, now(), 'event', NULL, 'x')"),
    ("punctual_worker", "UPDATE database_runs SET last_seen_at = now()"),
    ("punctual_api", "DELETE FROM lost_charges"),
    ("punctual_api", "SELECT ensure_partitions(current_date, current_date)"),
    ("punctual_api", "DELETE FROM parked"),
    ("punctual_api", "UPDATE approvals SET asked_by = 'x'"),
    ("punctual_api", "DELETE FROM approvals"),
    ("punctual_api", "UPDATE operator_acts SET reason = 'x'"),
    ("punctual_api", "UPDATE bulk_redrives SET outcomes = '{}'"),
    ("punctual_worker", "INSERT INTO approvals (id) VALUES (gen_random_uuid())"),
    ("punctual_worker", "INSERT INTO bulk_redrives (id) VALUES (gen_random_uuid())"),
    (
        "punctual_worker",
        "SELECT resolve_parked(current_date, gen_random_uuid(), true, '', 1, '', '', '', '{}', 1)",
    ),
    ("punctual_owner", "UPDATE payments SET status = 'COMPLETED'"),
    ("punctual_worker", "DELETE FROM kill_switches"),
    ("punctual_worker", "INSERT INTO kill_switches VALUES ('global', 'all', 'x', 'x', now())"),
    ("punctual_api", "UPDATE kill_switches SET value = 'x'"),
    ("punctual_worker", "UPDATE gateways SET paused_at = NULL"),
    ("punctual_api", "UPDATE gateways SET account = 'x'"),
    ("punctual_api", "SELECT secret FROM webhook_endpoints"),
    ("punctual_api", "SELECT previous_secret FROM webhook_endpoints"),
    ("punctual_owner", "SELECT secret FROM webhook_endpoints"),
    ("punctual_api", "SELECT e FROM webhook_endpoints e"),
    ("punctual_api", "UPDATE webhook_endpoints SET url = 'x'"),
    ("punctual_api", "DELETE FROM webhook_endpoints"),
    ("punctual_api", "DELETE FROM webhook_deliveries"),
    ("punctual_api", "UPDATE webhook_deliveries SET tries = 0"),
    ("punctual_api", "UPDATE webhook_tries SET status = 200"),
    (
        "punctual_api",
        "INSERT INTO webhook_endpoint_acts VALUES (gen_random_uuid(), 1, now(), 'created', 'x', '{}')",
    ),
    ("punctual_api", "SELECT drop_drained_webhook_days(1)"),
    ("punctual_worker", "UPDATE webhook_endpoints SET secret = NULL"),
    ("punctual_worker", "UPDATE webhook_endpoints SET url = 'x'"),
    ("punctual_worker", "DELETE FROM webhook_endpoints"),
    ("punctual_worker", "DELETE FROM webhook_deliveries"),
    ("punctual_worker", "UPDATE webhook_deliveries SET event_type = 'x'"),
    ("punctual_worker", "UPDATE webhook_tries SET status = 200"),
    ("punctual_worker", "SELECT delete_webhook_endpoint(gen_random_uuid(), gen_random_uuid(), 'x')"),
    ("punctual_api", "UPDATE reconciliation_items SET status = 'dismissed'"),
    ("punctual_api", "INSERT INTO reconciliation_items (class) VALUES ('late')"),
    ("punctual_api", "INSERT INTO settlement_lines (kind) VALUES ('charge')"),
    ("punctual_api", "INSERT INTO reconciliation_books (gateway) VALUES ('sandbox')"),
    ("punctual_worker", "DELETE FROM reconciliation_books"),
    ("punctual_api", "UPDATE reconciliation_runs SET is_complete = true"),
    ("punctual_api", "DELETE FROM lost_charges"),
    ("punctual_api", "SELECT drop_old_settlements(1)"),
    ("punctual_api", "SELECT analyse_settlement_day(current_date)"),
    ("punctual_worker", "UPDATE reconciliation_items SET decided_by = 'x'"),
    ("punctual_worker", "DELETE FROM reconciliation_items"),
    ("punctual_worker", "UPDATE settlement_lines SET gross_minor = 1"),
    ("punctual_worker", "SELECT dismiss_item(1, 'x', 'x')"),
    ("punctual_worker", "SELECT repair_item(1, 'person', 'x', 'x', NULL, NULL)"),
    ("punctual_worker", "SELECT repair_refund(1, 'person', 'x', 'x', NULL, NULL)"),
    ("punctual_api", "SELECT repair_refund(1, 'automatic', 'x', 'x', NULL, NULL)"),
    ("punctual_api", "SELECT repair(1, 'automatic', 'x', 'x', NULL, NULL)"),
    ("punctual_worker", "SELECT repair_by_person(1, 'x', 'x', NULL, NULL)"),
    ("punctual_worker", "SELECT repair_by_program(1, 'person')"),
    ("punctual_worker", "SELECT repair_by_program(1, NULL)"),
    ("punctual_api", "SELECT repair_item(1, 'person', 'x', 'x', NULL, NULL)"),
    ("punctual_api", "SELECT repair_by_program(1, 'automatic')"),
    ("punctual_worker", "SELECT withdraw_report(gen_random_uuid(), 'x', 'x', NULL)"),
    ("punctual_worker", "UPDATE reconciliation_runs SET sha256 = ''"),
    ("punctual_worker", "UPDATE reconciliation_runs SET withdrawn_at = NULL"),
    ("punctual_worker", "INSERT INTO reconciliation_items (decided_by) VALUES ('x')"),
];

#[tokio::test]
async fn each_role_is_refused_what_is_not_its_work() {
    let world = World::new().await;
    world.due("k1").await;
    for (role, act) in REFUSED.iter().copied() {
        let mut sql = world.sql().await;
        sql.execute(AssertSqlSafe(format!("SET ROLE {role}"))).await.expect("a member");
        let refused = sql.execute(act).await.expect_err(act);
        let code = refused.as_database_error().and_then(|db| db.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("42501"), "{role}: {act}: {refused}");
    }
}

#[tokio::test]
async fn a_role_s_own_temporary_table_deceives_no_function_of_the_owner() {
    let world = World::new().await;
    world.run("UPDATE installation SET quarantined_at = now(), quarantine_reason = 'a test'").await;
    let released: String = world.one("SELECT released_lineage FROM installation").await;
    let mut sql = world.sql().await;
    let own = format!(
        "CREATE TEMP TABLE installation AS
             SELECT NULL::timestamptz AS quarantined_at, '{released}'::text AS released_lineage"
    );
    for act in ["SET ROLE punctual_api".to_owned(), own] {
        sql.execute(AssertSqlSafe(act)).await.expect("done");
    }
    let told: bool =
        sqlx::query_scalar("SELECT lineage_is_released()").fetch_one(&mut sql).await.expect("a word");
    assert!(!told, "the table that counts says quarantined");
    let deceived = "SELECT count(*) FROM pg_proc p
         WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef AND p.proname <> 'current_lineage'
           AND NOT EXISTS (SELECT 1 FROM unnest(p.proconfig) AS c (setting)
                           WHERE c.setting LIKE 'search_path=%, pg_temp')";
    assert_eq!(world.one::<i64>(deceived).await, 0, "functions that find the caller's tables first");
}

#[tokio::test]
async fn the_keeper_may_forget_callbacks_that_are_a_week_old() {
    let world = World::new().await;
    for age in ["8 days", "6 days"] {
        let callback = format!(
            "INSERT INTO gateway_callbacks VALUES ('sandbox', '{age}', gen_random_uuid(), now() - interval '{age}')"
        );
        assert_eq!(world.run(&callback).await, 1);
    }
    assert_eq!(world.worker.forget_callbacks(5).await.expect("asked"), 1);
    assert_eq!(world.worker.forget_callbacks(5).await.expect("asked"), 0);
    let left: String = world.one("SELECT webhook_id FROM gateway_callbacks").await;
    assert_eq!(left, "6 days");
}

#[tokio::test]
async fn no_row_claims_to_be_clean_with_an_open_send_or_to_be_due_early() {
    let world = World::new().await;
    world.due("k1").await;
    let mut sql = world.sql().await;
    for (act, constraint) in [
        ("unanswered = 1, epoch_first_sent_at = now()", "clean_states_have_no_open_send"),
        ("status = 'UNKNOWN', unanswered = 1", "open_send_has_age"),
        ("next_attempt_at = due_at - interval '1 us'", "never_early"),
        ("status = 'PROCESSING'", "claim_belongs_to_processing"),
        ("claim_id = gen_random_uuid(), lease_until = now()", "claim_belongs_to_processing"),
        ("sends = 7, attempt = 9", "budget_is_kept"),
        ("held_back = 1", "held_back_has_an_instant"),
        (
            "due_at = due_at + interval '2 days', next_attempt_at = due_at + interval '3 days'",
            "day_is_the_due_day",
        ),
        ("status = 'Paid'", "payments_status_check"),
        ("amount_minor = 0", "payments_amount_minor_check"),
    ] {
        let act = AssertSqlSafe(format!("UPDATE payments SET {act}"));
        let refused = sql.execute(act).await.expect_err(constraint);
        let broken = refused.as_database_error().and_then(|db| db.constraint().map(str::to_owned));
        assert_eq!(broken.as_deref(), Some(constraint), "{refused}");
    }
}
