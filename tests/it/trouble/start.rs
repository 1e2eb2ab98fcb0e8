//! What a process says when it cannot start, and which lacks do not keep it from working.

use super::{all_paid_once, in_ms, seconds, site, sql};
use crate::support::database::{TestDatabase, empty_database};
use crate::support::eventually;
use crate::support::installation::{Installation, PUNCTUAL};
use std::process::{Child, Command, Stdio};

/// Starts a role and waits for its end: the exit code and everything it said.
async fn ends(site: &mut Installation, role: &str, settings: &[(&str, &str)]) -> (i32, String) {
    let name = format!("{role}-refused");
    site.spawn(role, &name, settings);
    let refused = site.role(&name);
    let code = eventually(&format!("{role} ends"), seconds(30), || {
        let code = refused.exit_code();
        async move { code }
    })
    .await;
    let said = site.role(&name).log_text();
    site.roles.remove(&name);
    (code, said)
}

#[tokio::test]
async fn without_its_topics_a_worker_pays_through_the_late_scan_and_a_relay_refuses_by_name() {
    let mut site = site(&[]).await;
    let elsewhere = format!("absent-{}.payments.", std::process::id());
    let nowhere = [("kafka.topic_prefix", elsewhere.as_str())];
    site.start("worker", "worker-1", &nowhere).await;
    let (code, said) = ends(&mut site, "relay", &nowhere).await;
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains(&format!("{elsewhere}due.m00")) && said.contains("punctual topics apply"),
        "{said}"
    );

    let id = site.create("direct", "sim_ok", in_ms(1_000)).await;
    let late_ms = all_paid_once(&site, &[id], seconds(20)).await;
    assert!(late_ms < 5_000, "in direct mode nothing waits for Kafka: {late_ms} ms");
    let said = site.role("worker-1").log_text();
    assert!(said.contains("direct mode") && said.contains("punctual topics apply"), "{said}");
}

#[tokio::test]
async fn a_ring_of_another_partition_count_is_refused_by_relay_and_worker_with_the_topic() {
    let mut site = site(&[]).await;
    let topic = format!("{}payments.due.m00", site.ring.prefix);
    for role in ["relay", "worker"] {
        let (code, said) = ends(&mut site, role, &[("kafka.partitions", "3")]).await;
        assert_eq!(code, 2, "{role}: {said}");
        assert!(said.contains(&topic) && said.contains("2 partitions, declared 3"), "{role}: {said}");
    }
}

/// Each role that works on the database.
const ROLES: [&str; 5] = ["api", "relay", "worker", "keeper", "all"];

async fn each_role_refuses(site: &mut Installation, url: &str, words: &[&str]) {
    for role in ROLES {
        let (code, said) = ends(site, role, &[("database.url", url), ("api.listen", "127.0.0.1:0")]).await;
        assert_eq!(code, 2, "{role}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{role}: {words:?} in {said}");
    }
}

#[tokio::test]
async fn a_schema_that_is_not_this_binarys_is_refused_by_every_role_with_what_to_do() {
    let mut site = site(&[]).await;
    let empty = empty_database().await;
    each_role_refuses(&mut site, &empty.url, &["older", "punctual migrate run"]).await;

    let url = site.database.url.clone();
    let mut sql = sql(&site).await;
    let newest = "DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)
                  RETURNING version";
    let newest: i64 = sqlx::query_scalar(newest).fetch_one(&mut sql).await.expect("it was the newest");
    let missing = newest.to_string();
    each_role_refuses(&mut site, &url, &["1 missing", &missing, "punctual migrate run"]).await;

    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (299912312359, 'from tomorrow', true, '', 0)",
    )
    .execute(&mut sql)
    .await
    .expect("a row");
    each_role_refuses(&mut site, &url, &["newer", "299912312359"]).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_by_its_setting() {
    let mut site = site(&[]).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for (role, setting) in [
        ("api", "api.listen"),
        ("sandbox", "sandbox.listen"),
        ("relay", "metrics.listen"),
        ("worker", "metrics.listen"),
        ("keeper", "metrics.listen"),
    ] {
        for (address, exit) in [(address.as_str(), 1), ("nowhere", 2)] {
            let settings = [(setting, address), ("sandbox.ledger", "another.ndjson")];
            let (code, said) = ends(&mut site, role, &settings).await;
            assert_eq!(code, exit, "{role}: {said}");
            assert!(said.contains(setting) && said.contains(address), "{role}: {said}");
        }
    }
}

fn migrate(database: &TestDatabase, what: &str) -> Child {
    let mut command = Command::new(PUNCTUAL);
    command.args(["migrate", what]).env("PUNCTUAL_DATABASE__URL", &database.url);
    command.env("PUNCTUAL_DATABASE__PARTITION_DAYS_AHEAD", "10").env("PUNCTUAL_API__HORIZON", "7days");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

fn end_of(child: Child) -> (i32, String) {
    let output = child.wait_with_output().expect("our child");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn two_migrations_at_once_make_one_schema() {
    let database = empty_database().await;
    assert_eq!(end_of(migrate(&database, "plan")).0, 10, "everything is to be done");
    let (one, other) = (migrate(&database, "run"), migrate(&database, "run"));
    for (code, said) in [end_of(one), end_of(other)] {
        assert_eq!(code, 0, "{said}");
    }
    let (code, said) = end_of(migrate(&database, "plan"));
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn what_cannot_fit_into_the_server_or_the_machine_is_refused_by_name() {
    let mut site = site(&[]).await;
    for role in ["api", "worker"] {
        let (code, said) = ends(&mut site, role, &[("database.pool", "5000")]).await;
        assert_eq!(code, 2, "{role}: {said}");
        assert!(said.contains("database.pool = 5000 is more than the"), "{role}: {said}");
    }
    let too_many = [("worker.max_in_flight", "10000000"), ("gateway.max_in_flight", "10000000")];
    site.start("worker", "worker-1", &too_many).await;
    let said = site.role("worker-1").log_text();
    assert!(said.contains("worker.max_in_flight does not fit into the files"), "{said}");
    assert_eq!(site.role("worker-1").drain(seconds(15)).await, 0);
}
