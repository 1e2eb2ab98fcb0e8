//! What is owed to whom, and once.

use super::{LENGTH, Site, Wanted};
use crate::schedule::world::ACTOR;
use punctual::domain::ids::{ActorId, Operator};
use punctual::schedule::{EndpointAnswer, EndpointSwitch, FannedOut};
use sqlx::Executor;
use uuid::Uuid;

const URL: &str = "http://127.0.0.1:9/hook";

#[tokio::test]
async fn an_endpoint_is_owed_what_happens_to_its_actor_from_its_making_on() {
    let site = Site::new().await;
    let lease = site.lead().await;
    site.events("before", 2).await;
    let all = site.endpoint(Wanted::all(URL)).await;
    let some = site
        .endpoint(Wanted {
            types: &["payment.completed", "payment.claimed"],
            ..Wanted::all("http://127.0.0.1:9/some")
        })
        .await;
    let other = ActorId(Uuid::from_u128(0xB2));
    site.actor(other, "other").await;
    site.endpoint_of(other, Wanted::all(URL)).await;
    site.events("after", 3).await;
    let due = site.world.due("claimed").await;
    site.world.claim_one(&due).await;
    site.owe(&lease, 6).await;
    assert_eq!(site.count(&format!("endpoint_id = '{all}'")).await, 5, "four made, one claimed");
    assert_eq!(site.count(&format!("endpoint_id = '{some}' AND event_type = 'payment.claimed'")).await, 1);
    assert_eq!(site.count("status = 'pending' AND next_try_at <= now() AND tries = 0").await, 6);
    let same = "SELECT count(*) FROM webhook_deliveries d JOIN payment_history h
        ON h.payment_id = d.payment_id AND h.seq = d.seq AND h.at = d.event_at";
    assert_eq!(site.world.one::<i64>(same).await, 6, "each by its row's own instant");
}

#[tokio::test]
async fn a_disabled_endpoint_is_owed_what_it_misses_and_a_deleted_one_nothing() {
    let site = Site::new().await;
    let lease = site.lead().await;
    let live = site.endpoint(Wanted::all(URL)).await;
    let disabled = site.endpoint(Wanted::all("http://127.0.0.1:9/disabled")).await;
    let deleted = site.endpoint(Wanted::all("http://127.0.0.1:9/deleted")).await;
    site.world
        .run(&format!("SELECT disable_webhook_endpoint('{disabled}', NULL, NULL, 'gone', NULL, 'x')"))
        .await;
    let by = Operator("tester".into());
    site.world.api.delete_webhook_endpoint(ACTOR, deleted, by).await.expect("an answer");
    site.events("after", 2).await;
    site.owe(&lease, 4).await;
    for endpoint in [live, disabled] {
        assert_eq!(site.count(&format!("endpoint_id = '{endpoint}'")).await, 2);
    }
}

#[tokio::test]
async fn an_endpoint_that_stays_disabled_costs_a_count_and_its_owner_is_told_how_much_it_missed() {
    let site = Site::new().await;
    let lease = site.lead().await;
    let live = site.endpoint(Wanted::all(URL)).await;
    let disabled = site.endpoint(Wanted::all("http://127.0.0.1:9/disabled")).await;
    let switch = async |to| {
        let by = Operator("tester".into());
        let answer = site.world.api.switch_webhook_endpoint(ACTOR, disabled, to, by).await;
        assert_eq!(answer.expect("an answer"), EndpointAnswer::Done);
    };
    switch(EndpointSwitch::Off).await;
    let week = "SELECT (owed_until - disabled_at)::text FROM webhook_endpoints WHERE owed_until IS NOT NULL";
    assert_eq!(site.world.one::<String>(week).await, "7 days");
    site.events("soon", 2).await;
    site.owe(&lease, 4).await;
    // A week later.
    site.world.run("UPDATE webhook_endpoints SET owed_until = now() WHERE owed_until IS NOT NULL").await;
    site.events("late", 3).await;
    site.owe(&lease, 7).await;
    let of = |endpoint: Uuid, status: &str| format!("endpoint_id = '{endpoint}' AND status = '{status}'");
    assert_eq!(site.count(&of(live, "pending")).await, 5);
    assert_eq!(site.count(&of(disabled, "pending")).await, 2, "what happened in time");
    assert_eq!(site.world.worker.discard_deliveries(1).await.expect("asked"), 1, "some at a time");
    assert_eq!(site.world.worker.discard_deliveries(9).await.expect("asked"), 1);
    assert_eq!(site.world.worker.discard_deliveries(9).await.expect("asked"), 0);
    assert_eq!(site.count(&of(disabled, "discarded")).await, 2);
    assert_eq!(site.count(&of(live, "pending")).await, 5, "nothing of another's");
    let (shown, _) = site.world.api.webhook_endpoint(ACTOR, disabled).await.expect("asked").expect("there");
    assert_eq!(shown.skipped, 5);

    switch(EndpointSwitch::On).await;
    let (_, acts) = site.world.api.webhook_endpoint(ACTOR, disabled).await.expect("asked").expect("there");
    assert_eq!((acts[0].act.as_str(), &acts[0].detail), ("enabled", &serde_json::json!({"skipped": 5})));
    site.events("back", 1).await;
    site.owe(&lease, 9).await;
    assert_eq!(site.count(&of(disabled, "pending")).await, 1);
    switch(EndpointSwitch::Off).await;
    let (shown, _) = site.world.api.webhook_endpoint(ACTOR, disabled).await.expect("asked").expect("there");
    assert_eq!(shown.skipped, 0, "of this time");
}

#[tokio::test]
async fn events_that_carry_another_server_s_ids_are_said_to_wait_and_are_owed_however_late_it_reaches_them() {
    let site = Site::new().await;
    let lease = site.lead().await;
    site.endpoint(Wanted::all(URL)).await;
    site.events("one", 2).await;
    site.owe(&lease, 2).await;
    // A copy in a server that is not as far: the cursor starts over, and an event from days ago waits.
    let mut sql = site.world.sql().await;
    sql.execute("SET session_replication_role = replica").await.expect("no rule about history");
    site.world.run("UPDATE webhook_endpoints SET created_at = now() - interval '9 days'").await;
    site.world.one::<i32>("SELECT ensure_partitions(current_date - 4, current_date - 2)").await;
    let far = "INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
            hash, xid, actor_id)
        SELECT payment_id, 2, 'PENDING', 'PENDING', 'noted', done_by, fence, attempt, epoch, at - interval '3 days', detail,
            hash, '4611686018427387904', actor_id
        FROM payment_history WHERE seq = 1 LIMIT 1";
    assert_eq!(sql.execute(far).await.expect("put").rows_affected(), 1);
    site.world
        .run(
            "UPDATE publisher_cursor SET system_identifier = 'elsewhere', until = '-infinity',
                  floor_at = now() - interval '4 days' WHERE lane = 'webhooks'",
        )
        .await;
    let lease = site.lead().await;
    assert!(lease.started_over);
    for round in 0..3 {
        // As often as it may be, an hour later each time.
        site.world
            .run("UPDATE publisher_cursor SET updated_at = updated_at - interval '2 h', mark_at = mark_at - interval '2 h'
                  WHERE lane = 'webhooks' AND mark_at > '1970-01-02'")
            .await;
        site.events(&format!("more-{round}"), 1).await;
        let passed = site.world.worker.fan_out(&lease, 1_000).await.expect("an answer").expect("we lead");
        assert!(passed.is_ahead, "{passed:?}");
    }
    crate::support::eventually("the gauge that alarms sees it", super::SOON, || async {
        // What was written now waits before it for as long as another test's transaction runs.
        let passed = site.world.worker.fan_out(&lease, 1_000).await.expect("an answer").expect("we lead");
        (passed.oldest_age > std::time::Duration::from_secs(2 * 86_400)).then_some(())
    })
    .await;
    let floor = "SELECT floor_at < now() - interval '3 days' FROM publisher_cursor WHERE lane = 'webhooks'";
    assert!(site.world.one::<bool>(floor).await, "it still may be read");
    // The server has reached it.
    let reached = "UPDATE payment_history SET xid = pg_current_xact_id() WHERE seq = 2";
    assert_eq!(sql.execute(reached).await.expect("set").rows_affected(), 1);
    site.owe(&lease, 6).await;
    assert_eq!(site.count("event_type = 'payment.noted'").await, 1);
    let passed = site.world.worker.fan_out(&lease, 1_000).await.expect("an answer").expect("we lead");
    assert!(!passed.is_ahead, "{passed:?}");
}

#[tokio::test]
async fn an_event_is_owed_once_also_by_a_cursor_that_starts_over() {
    let site = Site::new().await;
    let lease = site.lead().await;
    site.endpoint(Wanted::all(URL)).await;
    site.events("one", 5).await;
    site.owe(&lease, 5).await;
    site.world.run("UPDATE webhook_deliveries SET status = 'delivered', delivered_at = now()").await;
    let elsewhere = "UPDATE publisher_cursor SET system_identifier = 'elsewhere', until = '-infinity' WHERE lane = 'webhooks'";
    site.world.run(elsewhere).await;
    assert_eq!(site.world.worker.fan_out(&lease, 10).await.expect("an answer"), None, "another server");
    let again = site.lead().await;
    assert!(again.started_over);
    site.events("two", 1).await;
    site.owe(&again, 6).await;
    assert_eq!(site.count("status = 'delivered'").await, 5, "what was delivered is not owed again");
}

#[tokio::test]
async fn who_lost_the_lane_owes_nothing() {
    let site = Site::new().await;
    let first = site.lead().await;
    site.endpoint(Wanted::all(URL)).await;
    site.events("one", 1).await;
    site.world.run("UPDATE publisher_cursor SET until = '-infinity' WHERE lane = 'webhooks'").await;
    let second = site.world.worker.acquire_fan_out("p2", LENGTH).await.expect("an answer").expect("free");
    assert!(second.epoch > first.epoch);
    assert_eq!(site.world.worker.fan_out(&first, 10).await.expect("an answer"), None);
    assert_eq!(site.count("true").await, 0);
    site.owe(&second, 1).await;
    assert!(!site.world.worker.renew_publisher(&first, LENGTH).await.expect("an answer"));
    site.world.worker.release_publisher(&second).await.expect("given back");
    assert_eq!(
        site.world.worker.acquire_publisher("p1", LENGTH).await.expect("an answer").map(|lease| lease.epoch),
        Some(1),
        "the lane of events is another one"
    );
}

#[tokio::test]
async fn without_endpoints_nothing_is_read_and_the_cursor_follows_once_a_minute() {
    let site = Site::new().await;
    let lease = site.lead().await;
    site.events("one", 3).await;
    // The database is a copy of one that may be older than a minute.
    site.world.run("UPDATE publisher_cursor SET updated_at = now() WHERE lane = 'webhooks'").await;
    let place = "SELECT xid::text || '/' || updated_at::text FROM publisher_cursor WHERE lane = 'webhooks'";
    let before: String = site.world.one(place).await;
    let passed = site.world.worker.fan_out(&lease, 10).await.expect("an answer");
    assert_eq!(passed, Some(FannedOut::default()));
    assert_eq!(site.world.one::<String>(place).await, before, "not even the cursor");
    site.world
        .run("UPDATE publisher_cursor SET updated_at = now() - interval '2 min' WHERE lane = 'webhooks'")
        .await;
    let passed = site.world.worker.fan_out(&lease, 10).await.expect("an answer");
    assert_eq!(passed, Some(FannedOut::default()));
    let moved = "SELECT count(*) FROM publisher_cursor c WHERE lane = 'webhooks'
        AND c.updated_at > now() - interval '1 min'";
    assert_eq!(site.world.one::<i64>(moved).await, 1);
    // What is made from now on is owed all the same.
    site.endpoint(Wanted::all(URL)).await;
    site.events("two", 2).await;
    site.owe(&lease, 2).await;
}

#[tokio::test]
async fn a_full_pass_stops_in_the_middle_and_the_next_goes_on_from_there() {
    let site = Site::new().await;
    let lease = site.lead().await;
    site.endpoint(Wanted::all(URL)).await;
    site.events("one", 7).await;
    crate::support::eventually("no older transaction runs", super::SOON, || async {
        let over = "SELECT bool_and(xid < pg_snapshot_xmin(pg_current_snapshot())) FROM payment_history";
        site.world.one::<bool>(over).await.then_some(())
    })
    .await;
    let mut passes = Vec::new();
    for _ in 0..3 {
        let passed = site.world.worker.fan_out(&lease, 3).await.expect("an answer").expect("we lead");
        passes.push((passed.events, passed.owed, passed.is_full));
    }
    assert_eq!(passes, [(3, 3, true), (3, 3, true), (1, 1, false)]);
    assert_eq!(site.count("true").await, 7);
}

#[tokio::test]
async fn an_event_of_a_day_that_has_no_partition_makes_it() {
    let site = Site::new().await;
    let lease = site.lead().await;
    site.endpoint(Wanted::all(URL)).await;
    for table in ["webhook_deliveries", "webhook_tries"] {
        let drop = format!(
            "DO $$ DECLARE c record; BEGIN FOR c IN SELECT inhrelid::regclass AS name FROM pg_inherits
            WHERE inhparent = '{table}'::regclass LOOP EXECUTE 'DROP TABLE ' || c.name; END LOOP; END $$"
        );
        site.world.run(&drop).await;
    }
    site.events("one", 1).await;
    site.owe(&lease, 1).await;
}
