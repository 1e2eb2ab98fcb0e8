//! Every role asked to go while its work is open: it ends that work, says 0, and leaves nothing to be
//! waited for. Workers are asked in `kills` and `rewind`.
//!
//! The work is held open by a table lock of the test's own, so that nothing depends on how fast
//! something is.

use super::{all_paid_once, in_ms, requests_and_charges, running, seconds, site, sql};
use crate::support::eventually;
use crate::support::installation::{Installation, free_address};
use chrono::SecondsFormat;
use serde_json::json;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};

/// Holds every write to a table until the session ends. Takes no transaction id: nothing else waits.
async fn hold_writes(site: &Installation, table: &str) -> PgConnection {
    let mut holder = sql(site).await;
    let lock = format!("BEGIN; LOCK TABLE {table} IN SHARE MODE");
    holder.execute(AssertSqlSafe(lock)).await.expect("locked");
    holder
}

/// Waits until a statement of this caller waits for a lock.
async fn until_held(site: &Installation, caller: &str) {
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0";
    eventually(&format!("{caller} waits"), seconds(30), || async {
        let waiting = sqlx::query_scalar(waiting).bind(format!("Called by {caller}"));
        let waiting: i64 = waiting.fetch_one(&mut sql(site).await).await.expect("a count");
        (waiting > 0).then_some(())
    })
    .await;
}

/// SIGTERM; once it has heard it, it is still there.
async fn ask_to_stop(site: &mut Installation, name: &str) {
    site.role(name).ask_to_stop();
    eventually("it has heard it", seconds(10), || async {
        site.roles[name].log_text().contains("asked to stop").then_some(())
    })
    .await;
    assert_eq!(site.role(name).exit_code(), None, "{name} has work");
}

async fn count(site: &Installation, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(&mut sql(site).await).await.expect("a count")
}

#[tokio::test]
async fn an_api_answers_the_requests_that_it_has_and_takes_no_more() {
    let mut site = site(&[]).await;
    let lock = hold_writes(&site, "idempotency_keys").await;
    let due_at = in_ms(3_600_000).to_rfc3339_opts(SecondsFormat::Millis, true);
    let url = format!("{}/v1/scheduled-payments", site.url("api-1"));
    let open: Vec<_> = (0..5)
        .map(|n| {
            let body = json!({"payee": "sim_ok", "amount": 100, "currency": "EUR", "dueAt": due_at});
            let request = site.http.post(&url).bearer_auth(&site.api_key).body(body.to_string());
            let request = request.header("Content-Type", "application/json");
            tokio::spawn(request.header("Idempotency-Key", format!("open-{n}")).send())
        })
        .collect();
    until_held(&site, "create").await;
    ask_to_stop(&mut site, "api-1").await;
    // A client of its own: no connection that is open already.
    let fresh = reqwest::Client::builder().no_proxy().build().expect("a client");
    eventually("it takes no new connection", seconds(10), || async {
        fresh.get(&url).send().await.is_err_and(|error| error.is_connect()).then_some(())
    })
    .await;
    drop(lock);
    for request in open {
        assert_eq!(request.await.expect("no panic").expect("an answer").status(), 201);
    }
    assert_eq!(site.role("api-1").ended(seconds(11)).await, 0);
    assert_eq!(count(&site, "SELECT count(*) FROM payments").await, 5);
}

#[tokio::test]
async fn an_api_says_first_that_it_is_not_ready_and_serves_until_everybody_has_heard_it() {
    let mut site = site(&[]).await;
    site.start("api", "api-2", &[("api.drain_grace", "4s")]).await;
    let url = site.url("api-2").to_owned();
    let asked_at = std::time::Instant::now();
    ask_to_stop(&mut site, "api-2").await;
    let ready = site.http.get(format!("{url}/readyz")).send().await.expect("an answer");
    assert_eq!(ready.status(), 503);
    let due_at = in_ms(3_600_000).to_rfc3339_opts(SecondsFormat::Millis, true);
    let body = json!({"payee": "sim_ok", "amount": 100, "currency": "EUR", "dueAt": due_at}).to_string();
    let mut served = 0;
    eventually("the grace period is over", seconds(20), || {
        let request = site.http.post(format!("{url}/v1/scheduled-payments")).bearer_auth(&site.api_key);
        let request = request.header("Content-Type", "application/json").body(body.clone());
        let request = request.header("Idempotency-Key", format!("grace-{served}"));
        served += 1;
        async move {
            match request.send().await {
                Ok(answer) => {
                    assert_eq!(answer.status(), 201);
                    assert_eq!(answer.headers()["connection"], "close");
                    None
                }
                Err(error) => {
                    assert!(error.is_connect(), "closed in a request: {error:?}");
                    Some(())
                }
            }
        }
    })
    .await;
    assert!(asked_at.elapsed() >= seconds(4), "the port was closed too soon");
    assert!(served > 5, "{served}");
    assert_eq!(site.role("api-2").ended(seconds(11)).await, 0);
}

#[tokio::test]
async fn one_process_with_every_role_pays_on_while_its_interface_says_goodbye() {
    let mut site = site(&[]).await;
    let address = free_address();
    site.spawn("all", "all-1", &[("api.listen", &address), ("api.drain_grace", "6s")]);
    eventually("its worker is a member", seconds(60), || async {
        site.roles["all-1"].log_text().contains("partitions assigned").then_some(())
    })
    .await;
    let id = site.create("goodbye", "sim_ok", in_ms(2_000)).await;
    ask_to_stop(&mut site, "all-1").await;
    // There is no other worker.
    site.settled(&id, &["COMPLETED"], seconds(15)).await;
    assert_eq!(site.role("all-1").ended(seconds(30)).await, 0);
}

#[tokio::test]
async fn a_relay_marks_what_it_has_published_and_gives_its_shards_back() {
    let mut site = site(&[]).await;
    for n in 0..20 {
        site.create(&format!("open-{n}"), "sim_ok", in_ms(60_000)).await;
    }
    let lock = hold_writes(&site, "due_notices").await;
    site.start("relay", "relay-1", &[]).await;
    until_held(&site, "mark").await;
    ask_to_stop(&mut site, "relay-1").await;
    drop(lock);
    assert_eq!(site.role("relay-1").ended(seconds(15)).await, 0);
    let left = count(&site, "SELECT count(*) FROM due_notices").await;
    assert!(left < 20, "what was published is marked: {left}");
    let held = "SELECT count(*) FROM relay_shards WHERE until > clock_timestamp()";
    assert_eq!(count(&site, held).await, 0);
    assert_eq!(count(&site, "SELECT count(*) FROM relays").await, 0);
}

#[tokio::test]
async fn a_publisher_moves_its_cursor_behind_what_it_has_published_and_gives_the_lead_back() {
    let mut site = site(&[]).await;
    site.start("publisher", "publisher-1", &[]).await;
    // The first pass moves the floor of the scans; the one that is held is to be about events.
    eventually("it leads and has made its first pass", seconds(20), || async {
        let leads = "SELECT count(*) FROM publisher_cursor
            WHERE lane = 'events' AND until > clock_timestamp() AND mark_at > clock_timestamp() - interval '1 hour'";
        (count(&site, leads).await == 1).then_some(())
    })
    .await;
    let lock = hold_writes(&site, "publisher_cursor").await;
    for n in 0..5 {
        site.create(&format!("open-{n}"), "sim_ok", in_ms(3_600_000)).await;
    }
    until_held(&site, "advance_publisher").await;
    ask_to_stop(&mut site, "publisher-1").await;
    drop(lock);
    assert_eq!(site.role("publisher-1").ended(seconds(15)).await, 0);
    let behind = "SELECT count(*) FROM payment_history h, publisher_cursor c
         WHERE c.lane = 'events' AND h.xid <= c.xid";
    assert!(count(&site, behind).await > 0, "the cursor has moved");
    assert_eq!(
        count(
            &site,
            "SELECT count(*) FROM publisher_cursor WHERE lane = 'events' AND until > clock_timestamp()"
        )
        .await,
        0
    );
}

#[tokio::test]
async fn a_keeper_ends_the_pass_that_it_is_in() {
    let mut site = site(&[]).await;
    let (due_at, until) = (in_ms(1_000), in_ms(4_000));
    let text = |at: chrono::DateTime<chrono::Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let body = json!({"payee": "sim_ok", "amount": 100, "currency": "EUR", "dueAt": text(due_at),
        "executeBefore": text(until)});
    let (status, made) = site.post("deadline", &body).await.expect("an answer");
    assert_eq!(status, 201, "{made}");
    let lock = hold_writes(&site, "payment_history").await;
    until_held(&site, "reap").await;
    ask_to_stop(&mut site, "keeper-1").await;
    drop(lock);
    assert_eq!(site.role("keeper-1").ended(seconds(15)).await, 0);
    let id = made["paymentId"].as_str().expect("an id");
    let (_, payment) = site.get(id).await.expect("an answer");
    assert_eq!(payment["status"], "FAILED", "{payment}");
}

#[tokio::test]
async fn a_sandbox_answers_the_charge_that_it_is_making_and_remembers_it() {
    let mut site = running(&[]).await;
    let id = site.create("open", "sim_slow_2000", in_ms(1_000)).await;
    eventually("the request is there", seconds(20), || async {
        (requests_and_charges(&site, &id).await.0 == 1).then_some(())
    })
    .await;
    assert_eq!(site.role("sandbox-1").drain(seconds(10)).await, 0);
    let paid = site.settled(&id, &["COMPLETED"], seconds(5)).await;
    assert_eq!(paid["attempts"].as_array().expect("attempts").len(), 1, "{paid}");
    site.start("sandbox", "sandbox-1", &[]).await;
    all_paid_once(&site, &[id], seconds(5)).await;
}
