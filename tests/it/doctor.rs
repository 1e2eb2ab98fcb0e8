//! `punctual doctor` on a real installation: nothing to say where all is well, and ten faults, each named by its own
//! check with what mends it.

use crate::support::eventually;
use crate::support::installation::Installation;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(40);

/// The worst that each check found.
type Levels = BTreeMap<String, String>;

fn read(output: &Output) -> (Levels, Vec<Value>, Option<i32>) {
    let said = String::from_utf8_lossy(&output.stdout);
    let findings: Vec<Value> = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    let mut worst: Levels = BTreeMap::new();
    let rank = |level: &str| ["ok", "unseen", "warn", "bad"].iter().position(|known| *known == level);
    for finding in &findings {
        let text = |name: &str| finding[name].as_str().expect("a text").to_owned();
        assert_eq!(text("level") == "ok", text("fix").is_empty(), "{finding}");
        let held = worst.entry(text("check")).or_insert_with(|| text("level"));
        if rank(&text("level")) > rank(held) {
            *held = text("level");
        }
    }
    (worst, findings, output.status.code())
}

fn examine(site: &Installation, sets: &[&str]) -> (Levels, Vec<Value>, Option<i32>) {
    let mut arguments = vec!["doctor", "-o", "json"];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    read(&site.output(&arguments))
}

/// Everything but what the server of the tests is really without.
fn wrong(levels: &Levels) -> BTreeSet<(&str, &str)> {
    let all = levels.iter().map(|(check, level)| (check.as_str(), level.as_str()));
    all.filter(|(check, level)| *level != "ok" && (*check, *level) != ("durability", "warn")).collect()
}

fn name_of(site: &Installation) -> String {
    let path = site.database.url.split('?').next().expect("an address");
    path.rsplit('/').next().expect("a name").to_owned()
}

async fn whole() -> Installation {
    let mut site = Installation::new(&[("kafka.session_timeout", "6s")]).await;
    // The server of the tests answers a COMMIT before it is on the disk.
    run(&site, &format!("ALTER DATABASE {} SET synchronous_commit = on", name_of(&site))).await;
    for role in ["relay", "worker", "keeper", "publisher"] {
        site.start(role, &format!("{role}-1"), &[]).await;
    }
    site
}

async fn run(site: &Installation, statement: &str) {
    let mut sql = PgConnection::connect(&site.database.url).await.expect("a connection");
    sql.execute(AssertSqlSafe(statement.to_owned()))
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

#[tokio::test]
async fn where_all_is_well_it_has_nothing_to_say() {
    let site = whole().await;
    let found = eventually("nothing to say", WITHIN, || async {
        let (levels, findings, code) = examine(&site, &[]);
        wrong(&levels).is_empty().then_some((levels, findings, code))
    });
    let (levels, findings, code) = found.await;
    let checks: BTreeSet<&str> = punctual::doctor::Check::ALL.iter().map(|check| check.as_str()).collect();
    assert_eq!(levels.keys().map(String::as_str).collect::<BTreeSet<_>>(), checks);
    // The server of the tests does not wait for its disk, and that is said.
    let of_disk: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["check"] == "durability")
        .filter_map(|finding| finding["saw"].as_str())
        .collect();
    assert!(of_disk.contains(&"fsync = off"), "{of_disk:?}");
    assert_eq!(code, Some(10));
}

#[tokio::test]
async fn each_of_ten_faults_is_named_by_its_own_check() {
    let mut site = whole().await;
    eventually("nothing to say", WITHIN, || async { wrong(&examine(&site, &[]).0).is_empty().then_some(()) })
        .await;
    // What settings alone do wrong.
    for (sets, check, level) in [
        (&["worker.clock_tolerance=2s"][..], "time_outs", "warn"),
        (&["kafka.partitions=3"], "topics", "bad"),
        (&["kafka.bootstrap_servers=127.0.0.1:1"], "kafka", "bad"),
        (&["database.url=postgres://nobody@127.0.0.1:1/x"], "database", "bad"),
        (&["gateway.url=http://127.0.0.1:1"], "gateway", "bad"),
        (&["gateway.settlement_url=settlement"], "reconciliation", "warn"),
    ] {
        let (levels, findings, code) = examine(&site, sets);
        assert_eq!(levels[check], level, "{sets:?}: {findings:#?}");
        assert_eq!(code, Some(10), "{sets:?}");
    }
    skewed_and_crowded(&mut site).await;
    of_the_database(&site).await;
}

async fn skewed_and_crowded(site: &mut Installation) {
    let (levels, findings, _) = read(&site.output_shifted(&["doctor", "-o", "json"], 5));
    assert_eq!(levels["clock"], "bad", "{findings:#?}");
    for name in ["worker-2", "worker-3"] {
        site.start("worker", name, &[]).await;
    }
    let crowded = || async { (examine(site, &[]).0["workers"] == "warn").then_some(()) };
    eventually("more workers than partitions", WITHIN, crowded).await;
}

/// Each is undone before the next.
async fn of_the_database(site: &Installation) {
    let name = name_of(site);
    let tomorrow = (chrono::Utc::now().date_naive() + chrono::Days::new(1)).format("%Y%m%d");
    let faults = [
        (
            // What the whole server of the tests says; of a database it would not be followed.
            format!("ALTER DATABASE {name} RESET synchronous_commit"),
            format!("ALTER DATABASE {name} SET synchronous_commit = on"),
            ("durability", "bad"),
        ),
        (
            "UPDATE gateway_pace SET breaker = 'open', breaker_until = now() + interval '1 h', beats = beats + 1".to_owned(),
            "UPDATE gateway_pace SET breaker = 'closed', breaker_until = NULL, beats = beats + 1".to_owned(),
            ("gateways", "bad"),
        ),
        (
            "CREATE TABLE kept AS SELECT * FROM _sqlx_migrations; DELETE FROM _sqlx_migrations
             WHERE version = (SELECT max(version) FROM _sqlx_migrations)"
                .to_owned(),
            "INSERT INTO _sqlx_migrations SELECT * FROM kept ON CONFLICT DO NOTHING; DROP TABLE kept".to_owned(),
            ("schema", "bad"),
        ),
        (
            "SELECT quarantine('a test')".to_owned(),
            "UPDATE installation SET quarantined_at = NULL, quarantine_reason = NULL".to_owned(),
            ("lineage", "bad"),
        ),
        (format!("DROP TABLE due_notices_{tomorrow}"), "SELECT 1".to_owned(), ("days", "bad")),
    ];
    for (fault, undo, (check, level)) in faults {
        run(site, &fault).await;
        let (levels, findings, code) = examine(site, &[]);
        run(site, &undo).await;
        assert_eq!(levels[check], level, "{fault}: {findings:#?}");
        assert_eq!(code, Some(10), "{fault}");
    }
}
