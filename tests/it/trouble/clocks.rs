//! Processes whose wall clock is wrong, while every other clock is true: the database's, the gateway's
//! and the machine's own monotonic one.

use super::{QUICK, all_paid_once, in_ms, seconds, site, sql};
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

async fn due_over_three_seconds(site: &Installation, name: &str, from_ms: i64) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..40 {
        ids.push(site.create(&format!("{name}-{n}"), "sim_ok", in_ms(from_ms + 75 * n)).await);
    }
    ids
}

/// The sum of a metric over its labels; 0 while it is not there.
async fn metric(site: &Installation, role: &str, name: &str) -> f64 {
    let metrics = site.text(role, "/metrics").await.expect("metrics");
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let values = lines.filter(|rest| rest.starts_with([' ', '{'])).filter_map(|rest| rest.rsplit(' ').next());
    values.map(|value| value.parse::<f64>().expect("a number")).sum()
}

/// Waits until the worker says that its clock is this far off: unready, and by its metric.
async fn says_its_clock_is_wrong(site: &Installation, worker: &str, shift_s: i64) {
    eventually(&format!("{worker} says that it is {shift_s} s off"), seconds(20), || async {
        let answer = site.http.get(format!("{}/readyz", site.url(worker))).send().await.ok()?;
        let (status, body) = (answer.status(), answer.text().await.ok()?);
        let is_unready = status == 503 && body.contains("host and database clock are too far apart");
        let offset_s = metric(site, worker, "punctual_clock_offset_seconds").await;
        // The exact shift, less what the question's round trip explains.
        (is_unready && offset_s.round() as i64 == -shift_s).then_some(())
    })
    .await;
}

/// Waits until all payments due so far have been due for two seconds, by the database's clock.
async fn two_seconds_after_the_last_is_due(site: &Installation) {
    eventually("all of them have been due for two seconds", seconds(20), || async {
        let over = "SELECT coalesce(max(due_at) < clock_timestamp() - interval '2 seconds', false)
            FROM payments WHERE due_at < clock_timestamp() + interval '10 seconds'";
        let over: bool = sqlx::query_scalar(over).fetch_one(&mut sql(site).await).await.expect("a word");
        over.then_some(())
    })
    .await;
}

/// The names of all workers that ever claimed.
async fn claimants(site: &Installation) -> Vec<String> {
    let names = "SELECT DISTINCT split_part(worker, '/', 1) FROM attempts ORDER BY 1";
    sqlx::query_scalar(names).fetch_all(&mut sql(site).await).await.expect("names")
}

/// By the gateway's own clock and ledger.
async fn nothing_was_early(site: &Installation) {
    let summary = site.text("sandbox-1", "/ledger/summary").await.expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["early"], 0, "{summary}");
    for line in site.ledger().await {
        let instant = |field: &str| DateTime::parse_from_rfc3339(line[field].as_str()?).ok();
        assert!(instant("at") >= instant("dueAt") && instant("dueAt").is_some(), "{line}");
    }
}

#[tokio::test]
async fn workers_whose_clocks_are_wrong_claim_nothing_say_so_and_leave_it_all_to_one_that_is_right() {
    let wrong = [("ahead-5", 5), ("behind-5", -5), ("ahead-90", 90), ("behind-90", -90)];
    let mut site = site(&[]).await;
    site.start("relay", "relay-1", &[]).await;
    // Overdue before they start: what a worker claims first of all.
    let mut ids = vec![site.create("before", "sim_ok", in_ms(300)).await];
    two_seconds_after_the_last_is_due(&site).await;
    for (worker, shift_s) in wrong {
        site.start_shifted("worker", worker, shift_s).await;
    }
    for (worker, shift_s) in wrong {
        says_its_clock_is_wrong(&site, worker, shift_s).await;
    }
    ids.extend(due_over_three_seconds(&site, "alone", 500).await);
    two_seconds_after_the_last_is_due(&site).await;
    assert_eq!(claimants(&site).await, [""; 0], "not even once");
    assert_eq!(site.ledger().await.len(), 0, "nobody may ask for a charge");

    site.start("worker", "healthy", &[]).await;
    all_paid_once(&site, &ids, seconds(30)).await;
    let beside = due_over_three_seconds(&site, "beside", 3_000).await;
    all_paid_once(&site, &beside, seconds(30)).await;
    assert_eq!(claimants(&site).await, ["healthy"]);
    nothing_was_early(&site).await;
    for (worker, _) in wrong {
        let role = site.role(worker);
        assert_eq!(role.exit_code(), None, "{worker} lives on");
        let log = role.log_text();
        assert!(!log.contains("joined the ring"), "it would keep notices from the healthy one: {log}");
    }
}

#[tokio::test]
async fn a_worker_whose_clock_is_stepped_leaves_the_group_and_pays_again_once_the_clock_is_right() {
    let mut site = site(&[]).await;
    site.start("relay", "relay-1", &[]).await;
    site.start_shifted("worker", "stepped", 0).await;
    eventually("it is a member", seconds(30), || {
        let is_member = site.role("stepped").log_text().contains("partitions assigned");
        async move { is_member.then_some(()) }
    })
    .await;
    let right = due_over_three_seconds(&site, "right", 1_000).await;
    all_paid_once(&site, &right, seconds(30)).await;

    // Staged and held when the step makes it look overdue.
    let far = site.create("far", "sim_ok", in_ms(80_000)).await;
    site.shift_clock("stepped", 90);
    says_its_clock_is_wrong(&site, "stepped", 90).await;
    eventually("it leaves", seconds(15), || {
        let left = site.role("stepped").log_text().contains("leaving the group");
        async move { left.then_some(()) }
    })
    .await;
    site.shift_clock("stepped", -90);
    let wrong = due_over_three_seconds(&site, "wrong", 500).await;
    says_its_clock_is_wrong(&site, "stepped", -90).await;
    two_seconds_after_the_last_is_due(&site).await;
    assert_eq!(site.ledger().await.len(), right.len(), "nothing while the clock is wrong");

    site.shift_clock("stepped", 0);
    all_paid_once(&site, &wrong, seconds(30)).await;
    let answer = site.http.get(format!("{}/readyz", site.url("stepped"))).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let (status, far) = site.cancel(&far).await.expect("an answer");
    assert_eq!((status, &far["status"]), (200, &json!("CANCELLED")), "{far}");
    nothing_was_early(&site).await;
}

/// Says how far the process's wall clock is from ours, by the newest line that it logged. It serves
/// `/livez` before it says anything.
async fn shift_s(site: &Installation, role: &str) -> i64 {
    eventually(&format!("{role} logs a line with a time"), seconds(30), || async {
        let log = site.roles[role].log_text();
        let stamp = log.lines().rev().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            DateTime::parse_from_rfc3339(line["timestamp"].as_str()?).ok()
        })?;
        Some((stamp.to_utc() - Utc::now()).num_seconds())
    })
    .await
}

/// POSTs a payment due and to be executed before these instants from now; its status and body.
async fn post(site: &Installation, key: &str, due_ms: i64, before_ms: i64) -> (u16, Value) {
    let text = |ms| in_ms(ms).to_rfc3339_opts(SecondsFormat::Micros, true);
    let body = json!({"payee": "sim_ok", "amount": 1, "currency": "EUR", "dueAt": text(due_ms),
        "executeBefore": text(before_ms)});
    site.post(key, &body).await.expect("an answer")
}

async fn all_but_the_worker_are_off_by(wrong_s: i64) {
    let mut site = Installation::new(&QUICK).await;
    for (role, name) in
        [("api", "api-1"), ("keeper", "keeper-1"), ("relay", "relay-1"), ("publisher", "publisher-1")]
    {
        site.start_shifted(role, name, wrong_s).await;
        assert!((shift_s(&site, name).await - wrong_s).abs() <= 10, "{name} at {wrong_s}");
    }
    // A deadline that passes while there is no worker, and one that only a wrong clock sees pass.
    let (status, missed) = post(&site, "missed", 1_000, 1_200).await;
    assert_eq!(status, 201, "{wrong_s}: {missed}");
    let (status, open) = post(&site, "open", 75_000, 80_000).await;
    assert_eq!(status, 201, "{wrong_s}: {open}");
    let (status, past) = post(&site, "past", -30_000, 60_000).await;
    assert_eq!((status, &past["errors"][0]["code"]), (422, &json!("due_in_past")), "{wrong_s}: {past}");
    let id = |payment: &Value| payment["paymentId"].as_str().expect("an id").to_owned();
    site.settled(&id(&missed), &["FAILED"], seconds(20)).await;

    site.start("worker", "worker-1", &[]).await;
    let ids = due_over_three_seconds(&site, "due", 3_000).await;
    all_paid_once(&site, &ids, seconds(30)).await;
    nothing_was_early(&site).await;
    let (status, open) = site.cancel(&id(&open)).await.expect("an answer");
    assert_eq!((status, &open["status"]), (200, &json!("CANCELLED")), "{wrong_s}: {open}");

    // The broker believes its own clock too: not that of who publishes.
    eventually(&format!("{wrong_s}: notices and events are in Kafka"), seconds(30), || async {
        let events = metric(&site, "publisher-1", "punctual_events_published_total").await;
        let notices = metric(&site, "relay-1", "punctual_relay_published_total").await;
        let rows = "SELECT count(*)::float8 FROM payment_history";
        let rows: f64 = sqlx::query_scalar(rows).fetch_one(&mut sql(&site).await).await.expect("a count");
        (events >= rows && notices >= ids.len() as f64).then_some(())
    })
    .await;
}

#[tokio::test]
async fn api_keeper_relay_and_publisher_need_no_right_clock() {
    // Two hours are more than a broker accepts as the time of a record.
    let (behind, ahead, far_ahead) = (-90, 90, 7_200);
    tokio::join!(
        all_but_the_worker_are_off_by(behind),
        all_but_the_worker_are_off_by(ahead),
        all_but_the_worker_are_off_by(far_ahead),
    );
}
