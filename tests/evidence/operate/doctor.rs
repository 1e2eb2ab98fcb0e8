//! Ten faults, each made for real in an installation that runs: `punctual doctor` names that one and no other, with
//! what mends it; once it is mended there is nothing to say. The banner of the pages says the same of what the
//! database and this API's own clock can tell.

use super::visitor::{Visitor, key_of};
use crate::figures::{Figures, Holds};
use crate::support::eventually;
use crate::support::installation::Installation;
use chrono::{Days, TimeDelta, Utc};
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// What the server of the tests is really without; it is said of every one of them.
const OF_THE_SERVER: [&str; 2] = ["fsync = off", "full_page_writes = off"];

/// What is wrong: by check, with what was seen.
type Wrong = BTreeMap<String, Vec<Value>>;

struct Stage {
    site: Installation,
    visitor: Visitor,
}

/// Everything but what the server is without, and what could not be looked at.
fn wrong(output: &Output) -> Wrong {
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let mut wrong = Wrong::new();
    for finding in findings {
        let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        let is_said = ["ok", "unseen"].contains(&text("level").as_str());
        if !is_said && !OF_THE_SERVER.contains(&text("saw").as_str()) {
            wrong.entry(text("check")).or_default().push(finding);
        }
    }
    wrong
}

impl Stage {
    async fn new() -> Self {
        let settings = [
            ("kafka.session_timeout", "6s"),
            ("gateway.settlement_url", "settlement"),
            ("dashboard.secure_cookie", "false"),
            ("dashboard.logins_per_address", "0"),
        ];
        let mut site = Installation::new(&settings).await;
        // The server of the tests answers a COMMIT before it is on the disk.
        run(&site, &format!("ALTER DATABASE {} SET synchronous_commit = on", name_of(&site))).await;
        for role in ["api", "relay", "worker", "keeper", "publisher"] {
            site.start(role, &format!("{role}-1"), &[]).await;
        }
        let yesterday = (Utc::now().date_naive() - Days::new(1)).to_string();
        site.run(&["reconcile", "run", "--gateway", "sandbox", "--day", &yesterday]);
        let visitor = Visitor::enter(site.url("api-1"), &key_of(&site, "duty")).await;
        Self { site, visitor }
    }

    fn examined(&self, sets: &[&str]) -> (Wrong, Option<i32>) {
        let mut arguments = vec!["doctor", "-o", "json"];
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        let output = self.site.output(&arguments);
        (wrong(&output), output.status.code())
    }

    async fn healthy(&self) {
        eventually("nothing is wrong", SOON * 2, || async { self.examined(&[]).0.is_empty().then_some(()) })
            .await;
    }

    /// One figure: this fault, this check and no other, until it is named.
    async fn named(&mut self, figures: &mut Figures, fault: &str, check: &str, sets: &[&str]) {
        let found = eventually(fault, SOON, || async {
            let (wrong, code) = self.examined(sets);
            wrong.contains_key(check).then_some((wrong, code))
        })
        .await;
        told(figures, fault, check, &found.0, found.1);
    }

    /// Does the banner say what doctor says?
    async fn shown(&mut self, figures: &mut Figures, check: &str, api: Option<&str>) {
        let mut other = None;
        if let Some(api) = api {
            other = Some(Visitor::enter(self.site.url(api), &key_of(&self.site, "duty")).await);
        }
        // The banner is ten seconds old at most.
        let visitor = other.as_mut().unwrap_or(&mut self.visitor);
        let mut said = Vec::new();
        for _ in 0..60 {
            let problems = visitor.open("/ui/acts").await.problems();
            said = problems.into_iter().filter(|(_, saw)| !OF_THE_SERVER.contains(&saw.as_str())).collect();
            if said.iter().any(|(name, _)| name == check) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let holds = !said.is_empty() && said.iter().all(|(name, _)| name == check);
        let shown: Vec<&str> = said.iter().map(|(name, _)| name.as_str()).collect();
        figures.holds(&format!("the banner, {check}"), shown.join(", "), check, Holds(holds));
    }
}

fn told(figures: &mut Figures, fault: &str, check: &str, wrong: &Wrong, code: Option<i32>) {
    let names: Vec<&str> = wrong.keys().map(String::as_str).collect();
    let fixed = wrong.values().flatten().all(|finding| {
        ["saw", "means", "fix"].iter().all(|name| finding[name].as_str().is_some_and(|text| !text.is_empty()))
    });
    let holds = names == [check] && fixed && code == Some(10);
    let shown = format!("{}, exit {}", names.join(", "), code.unwrap_or(-1));
    figures.holds(fault, shown, &format!("{check} with a fix, exit 10"), Holds(holds));
    let first = wrong.get(check).and_then(|findings| findings.first()).unwrap_or(&Value::Null);
    println!(
        "      {} → {}",
        first["saw"].as_str().unwrap_or_default(),
        first["fix"].as_str().unwrap_or_default()
    );
}

fn name_of(site: &Installation) -> String {
    let path = site.database.url.split('?').next().expect("an address");
    path.rsplit('/').next().expect("a name").to_owned()
}

async fn run(site: &Installation, statement: &str) {
    let mut sql = PgConnection::connect(&site.database.url).await.expect("a connection");
    sql.execute(AssertSqlSafe(statement.to_owned()))
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// A healthy one, then the ten.
pub(super) async fn ten_faults_are_each_named_and_nothing_else(figures: &mut Figures) {
    figures.part("Ten faults, made in an installation that runs; punctual doctor and the banner");
    let mut stage = Stage::new().await;
    stage.healthy().await;
    let (found, _) = stage.examined(&[]);
    let shown = stage.visitor.open("/ui/acts").await.problems();
    let others = shown.iter().filter(|(_, saw)| !OF_THE_SERVER.contains(&saw.as_str())).count();
    let said = format!("{} findings, {others} in the banner", found.len());
    figures.holds("a healthy installation", said, "0, 0", Holds(found.is_empty() && others == 0));
    of_settings(figures, &mut stage).await;
    of_the_database(figures, &mut stage).await;
    skewed(figures, &mut stage).await;
    drifted(figures, &mut stage).await;
    broken_open(figures, &mut stage).await;
    crowded(figures, &mut stage).await;
    stage.healthy().await;
    let (found, code) = stage.examined(&[]);
    let said = format!("{} findings, exit {}", found.len(), code.unwrap_or(-1));
    figures.holds("all of them mended", said, "0", Holds(found.is_empty()));
}

async fn of_settings(figures: &mut Figures, stage: &mut Stage) {
    stage.named(figures, "risky time-outs", "time_outs", &["worker.clock_tolerance=2s"]).await;
    stage.named(figures, "an unreachable broker", "kafka", &["kafka.bootstrap_servers=127.0.0.1:1"]).await;
}

async fn of_the_database(figures: &mut Figures, stage: &mut Stage) {
    let name = name_of(&stage.site);
    let tomorrow = Utc::now().date_naive() + Days::new(1);
    let faults = [
        (
            "synchronous commit off",
            "durability",
            // What the whole server of the tests says; of a database it would not be followed.
            format!("ALTER DATABASE {name} RESET synchronous_commit"),
            format!("ALTER DATABASE {name} SET synchronous_commit = on"),
        ),
        (
            "a missing partition",
            "days",
            format!("DROP TABLE due_notices_{}", tomorrow.format("%Y%m%d")),
            format!("SELECT ensure_partitions('{tomorrow}', '{tomorrow}')"),
        ),
        (
            "stale reconciliation",
            "reconciliation",
            "UPDATE reconciliation_runs SET day = day - 30".to_owned(),
            "UPDATE reconciliation_runs SET day = day + 30".to_owned(),
        ),
        (
            "a schema behind the binary",
            "schema",
            "CREATE TABLE kept AS SELECT * FROM _sqlx_migrations; DELETE FROM _sqlx_migrations
             WHERE version = (SELECT max(version) FROM _sqlx_migrations)"
                .to_owned(),
            "INSERT INTO _sqlx_migrations SELECT * FROM kept ON CONFLICT DO NOTHING; DROP TABLE kept"
                .to_owned(),
        ),
    ];
    for (fault, check, make, mend) in faults {
        run(&stage.site, &make).await;
        stage.named(figures, fault, check, &[]).await;
        // An API that has started does not look at the schema again; sessions keep what they began with.
        if ["days", "reconciliation"].contains(&check) {
            stage.shown(figures, check, None).await;
        }
        run(&stage.site, &mend).await;
        stage.healthy().await;
    }
}

/// The clock of a host that is five seconds ahead, and an API that runs there.
async fn skewed(figures: &mut Figures, stage: &mut Stage) {
    let output = stage.site.output_shifted(&["doctor", "-o", "json"], 5);
    told(figures, "a skewed clock", "clock", &wrong(&output), output.status.code());
    stage.site.start_shifted("api", "api-2", 5).await;
    stage.shown(figures, "clock", Some("api-2")).await;
    stage.site.role("api-2").kill();
}

/// Somebody changed a topic by hand.
async fn drifted(figures: &mut Figures, stage: &mut Stage) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", stage.site.kafka()).create().expect("a client");
    let topic = format!("{}due.m07", stage.site.setting("kafka.topic_prefix"));
    let drift = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("segment.ms", "777777");
    admin.alter_configs([&drift], &AdminOptions::new()).await.expect("an answer")[0].as_ref().expect("set");
    stage.named(figures, "a topic that drifted", "topics", &[]).await;
    stage.site.run(&["topics", "apply"]);
    stage.healthy().await;
}

/// The gateway answers 503, and workers stop calling it.
async fn broken_open(figures: &mut Figures, stage: &mut Stage) {
    let site = &stage.site;
    let outage = format!("{}/outage", site.url("sandbox-1"));
    let switch = site.http.put(&outage).bearer_auth("sandbox-secret");
    let switched = switch.body(json!({"kind": "unavailable", "forMs": 600_000}).to_string()).send().await;
    assert!(switched.expect("the sandbox answers").status().is_success(), "the outage begins");
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(site.create(&format!("away-{number}"), "sim_ok", Utc::now() + TimeDelta::seconds(1)).await);
    }
    stage.named(figures, "a breaker that is open", "gateways", &[]).await;
    stage.shown(figures, "gateways", None).await;
    let site = &stage.site;
    let ended = site.http.delete(&outage).bearer_auth("sandbox-secret").send().await;
    assert!(ended.expect("the sandbox answers").status().is_success(), "the outage ends");
    for id in &ids {
        site.settled(id, &["COMPLETED"], SOON * 3).await;
    }
    stage.healthy().await;
}

/// Three workers, two partitions.
async fn crowded(figures: &mut Figures, stage: &mut Stage) {
    for name in ["worker-2", "worker-3"] {
        stage.site.start("worker", name, &[]).await;
    }
    stage.named(figures, "too few partitions", "workers", &[]).await;
    for name in ["worker-2", "worker-3"] {
        stage.site.role(name).drain(SOON).await;
    }
}
