//! An old backup restored under running workers and publisher: a base backup that is started as it is, on the same
//! timeline, while payments that it does not know are charged already, and refunds that it knows only as asked for are
//! given back. After the release processes begin anew, and what was lost becomes due.

use crate::figures::{Figures, Holds};
use crate::support::backups::PrivateServer;
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::people::{Console, DECIDES};
use crate::support::records::look;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Known to the backup and charged before it, known and charged after it, and not known to it.
const EACH: usize = 100;
/// Given back after the backup.
const REFUNDS: usize = 10;
/// Not known to the backup, and due after the release; half of them are posted again.
const LATER: usize = 10;
/// From their creation until those are due: the restore, its comparison and its release lie between.
const DUE_AFTER: TimeDelta = TimeDelta::seconds(240);
const MINUTE: Duration = Duration::from_secs(60);

struct Stage {
    server: PrivateServer,
    site: Installation,
}

async fn stage() -> Stage {
    let server = PrivateServer::new().await;
    let url = server.url();
    let config = punctual::platform::config::Database {
        url: url.as_str().into(),
        partition_days_ahead: 10,
        ..Default::default()
    };
    punctual::schedule::migrate(&config).await.expect("migrated");
    let settings = [
        ("database.url", url.as_str()),
        ("gateway.settlement_url", "settlement"),
        ("gateway.refunds", "true"),
        ("relay.lead", "300s"),
    ];
    let mut site = Installation::new(&settings).await;
    for (role, name) in [
        ("api", "api-1"),
        ("relay", "relay-1"),
        ("worker", "worker-1"),
        ("worker", "worker-2"),
        ("keeper", "keeper-1"),
        ("publisher", "publisher-1"),
    ] {
        site.start(role, name, &[]).await;
    }
    Stage { server, site }
}

impl Stage {
    async fn summary(&self) -> Value {
        let text = self.site.text("sandbox-1", "/ledger/summary").await.expect("the sandbox answers");
        serde_json::from_str(&text).expect("a summary")
    }

    async fn charges(&self) -> u64 {
        self.summary().await["charges"].as_u64().expect("a count")
    }

    async fn charged(&self, wanted: usize) {
        eventually("everything due is charged", MINUTE * 2, || async {
            (self.charges().await >= wanted as u64).then_some(())
        })
        .await;
    }

    /// Keys and bodies of payments that are created.
    async fn create(&self, kind: &str, due_at: DateTime<Utc>) -> Vec<(String, Value)> {
        self.create_some(EACH, kind, due_at).await
    }

    async fn create_some(&self, count: usize, kind: &str, due_at: DateTime<Utc>) -> Vec<(String, Value)> {
        let mut made = Vec::new();
        for number in 0..count {
            let (key, body) = (
                format!("{kind}-{number}"),
                json!({"payee": "sim_ok", "amount": 1_000 + number, "currency": "EUR", "dueAt": due_at.to_rfc3339()}),
            );
            let (status, answer) = self.site.post(&key, &body).await.expect("the API answers");
            assert_eq!(status, 201, "{answer}");
            made.push((key, body));
        }
        made
    }

    /// What the gateway gave back, by its own ledger.
    async fn given_back(&self) -> usize {
        let ledger = self.site.ledger().await;
        ledger.iter().filter(|line| line["request"] == "refund" && line["verdict"] == "refunded").count()
    }

    /// Asks for a refund of the first of these; answers each with the approval that it waits for.
    async fn ask_refunds(&self, of: &[(String, Value)]) -> Vec<(String, String)> {
        let alice = Console::of(&self.site, "alice", &DECIDES, "api-1");
        let mut refunds = Vec::new();
        for (key, body) in of.iter().take(REFUNDS) {
            let (_, made) = self.site.post(key, body).await.expect("the API answers");
            let id = made["paymentId"].as_str().unwrap_or_default().to_owned();
            let paid = self.site.settled(&id, &["COMPLETED"], MINUTE).await;
            let reference = paid["gatewayReference"].as_str().unwrap_or_default().to_owned();
            let said = alice.refund(&format!("back-{key}"), &id, &reference, None).await;
            refunds.push((said.text("refundId"), said.text("approvalId")));
        }
        refunds
    }

    /// As a second person; how many were.
    async fn allow(&self, refunds: &[(String, String)]) -> usize {
        let bob = Console::of(&self.site, "bob", &DECIDES, "api-1");
        let mut allowed = 0;
        for (_, approval) in refunds {
            allowed += usize::from(bob.approve(approval).await.status == 200);
        }
        allowed
    }

    async fn is_quarantined(&self) -> bool {
        let asker = Console::of(&self.site, "watcher", &["ops:read"], "api-1");
        asker.get("/v1/ops/quarantine").await.body["quarantined"] == true
    }

    async fn held(&self) -> Value {
        let asker = Console::of(&self.site, "watcher", &["ops:read"], "api-1");
        eventually("the database is quarantined", MINUTE, || async {
            let said = asker.get("/v1/ops/quarantine").await;
            (said.body["quarantined"] == true).then_some(said.body)
        })
        .await
    }

    async fn states(&self, of: &[(String, Value)]) -> Vec<String> {
        let mut states = Vec::new();
        for (key, body) in of {
            let (_, answer) = self.site.post(key, body).await.expect("the API answers");
            let id = answer["paymentId"].as_str().unwrap_or_default().to_owned();
            let (_, payment) = self.site.get(&id).await.expect("the API answers");
            states.push(payment["status"].as_str().unwrap_or("none").to_owned());
        }
        states
    }

    /// The gateway's own report of today against the database, by the product's own command.
    fn reconcile(&self) -> (Option<i32>, String) {
        let day = Utc::now().date_naive().to_string();
        self.site.tell(&["reconcile", "run", "--gateway", "sandbox", "--day", &day])
    }
}

async fn release(console: &Console, anyway: bool) -> (u16, Value) {
    let body = json!({"reason": "compared with the gateway", "anyway": anyway});
    let said = console.ask("POST", "/v1/ops/quarantine/release", "", &body).await;
    (said.status, said.body)
}

/// Refused, reconciled, released; nothing is charged twice.
pub async fn a_restored_backup_charges_nothing_twice(figures: &mut Figures) {
    figures.part("A restored backup");
    let mut stage = stage().await;
    let before = stage.create("before", Utc::now() + TimeDelta::seconds(5)).await;
    stage.charged(EACH).await;
    let refunds = stage.ask_refunds(&before).await;
    let due_at = Utc::now() + TimeDelta::seconds(25);
    let known = stage.create("known", due_at).await;
    let home = stage.server.base_backup("copy", &[]).await;
    let lost = stage.create("lost", Utc::now() + TimeDelta::seconds(10)).await;
    let later_at = Utc::now() + DUE_AFTER;
    let later = stage.create_some(LATER, "later", later_at).await;
    let allowed = stage.allow(&refunds).await;
    eventually("they are given back", MINUTE, || async {
        (stage.given_back().await == REFUNDS).then_some(())
    })
    .await;
    figures.holds(
        "refunds given back after the backup",
        allowed,
        &REFUNDS.to_string(),
        Holds(allowed == REFUNDS),
    );
    stage.charged(3 * EACH).await;
    stage.server.run("SELECT pg_logical_emit_message(false, 'traffic', repeat('x', 40000000))").await;
    // A charge after the traffic, so that the workers know of it.
    stage.create("last", Utc::now() + TimeDelta::seconds(3)).await;
    stage.charged(4 * EACH).await;
    let restored_at = Instant::now();
    stage.server.replace(&home).await;
    let held = stage.held().await;
    let (kind, took) = (held["data"][0]["kind"].as_str().unwrap_or_default(), restored_at.elapsed());
    let shown = format!("{kind}, {} ms after the old server died", took.as_millis());
    figures.holds("the restored database is quarantined", shown, "at once", Holds(took < MINUTE));
    refused(figures, &stage).await;
    reconciled(figures, &stage).await;
    released(figures, &stage).await;
    came_back(figures, &stage, &known, &lost).await;
    given_back_once(figures, &stage, &refunds).await;
    begun_anew(figures, &mut stage, &later, later_at).await;
}

/// The restored database knows the refunds as asked for; a second person allows them once more.
async fn given_back_once(figures: &mut Figures, stage: &Stage, refunds: &[(String, String)]) {
    let allowed = stage.allow(refunds).await;
    // Long enough for every worker to look for refunds several times.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let given = stage.given_back().await;
    let shown = format!("{allowed} allowed again, {given} given back in all");
    figures.holds(
        "refunds that were lost wait",
        shown,
        "10, 10",
        Holds(allowed == REFUNDS && given == REFUNDS),
    );
    let (_, told) = stage.reconcile();
    println!("  {}", told.lines().next().unwrap_or_default());
    let asker = Console::of(&stage.site, "watcher", &DECIDES, "api-1");
    let done = eventually("the report ends them", MINUTE, || async {
        let mut done = 0;
        for (refund, _) in refunds {
            let stands = asker.get(&format!("/v1/ops/refunds/{refund}")).await.body;
            done += usize::from(stands["status"] == "refunded");
        }
        (done == REFUNDS).then_some(done)
    })
    .await;
    let given = stage.given_back().await;
    let shown = format!("{done} by the gateway's own lines, {given} given back in all");
    figures.holds("refunds that were lost end", shown, "10, 10", Holds(given == REFUNDS));
}

/// Processes that begin after the release ask Kafka, which still has all that was lost.
async fn begun_anew(
    figures: &mut Figures,
    stage: &mut Stage,
    later: &[(String, Value)],
    due_at: DateTime<Utc>,
) {
    let (again, gone) = later.split_at(LATER / 2);
    let mut taken = 0;
    for (key, body) in again {
        taken += usize::from(stage.site.post(key, body).await.expect("the API answers").0 == 201);
    }
    for name in ["worker-1", "publisher-1"] {
        stage.site.role(name).drain(MINUTE).await;
    }
    stage.site.start("worker", "worker-3", &[]).await;
    stage.site.start("publisher", "publisher-2", &[]).await;
    let charged = 4 * EACH + again.len();
    let wait = (due_at - Utc::now()).to_std().unwrap_or_default();
    eventually("what was posted again is charged when it is due", wait + MINUTE, || async {
        (stage.charges().await >= charged as u64).then_some(())
    })
    .await;
    // The notices of the others are due too, and nobody knows their payments.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (held, charges) = (stage.is_quarantined().await, stage.charges().await);
    let shown = format!("{taken} posted again, {} forgotten, quarantined: {held}", gone.len());
    figures.holds(
        "after a restart, and with lost payments due",
        shown,
        "5, 5, false",
        Holds(!held && taken == 5),
    );
    figures.holds("charges in the end", charges, &charged.to_string(), Holds(charges == charged as u64));
}

async fn refused(figures: &mut Figures, stage: &Stage) {
    let before = stage.summary().await;
    // Long enough for every worker to present every notice, and for several late scans.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let sent = stage.summary().await["requests"].as_u64().zip(before["requests"].as_u64());
    let sent = sent.map_or(u64::MAX, |(after, before)| after - before);
    figures.holds("requests in 20 s under quarantine, with 200 payments due", sent, "0", Holds(sent == 0));
    let ann = Console::of(&stage.site, "ann", &["ops:approve"], "api-1");
    let (status, body) = release(&ann, false).await;
    let missing = body["errors"].as_array().map_or(0, Vec::len);
    figures.holds(
        "release without a comparison",
        format!("{status} with {missing} things that are missing"),
        "409, named",
        Holds(status == 409 && missing > 0),
    );
}

/// A day that goes on is compared as far as it came, which the exit code says. What the database does not know is
/// found under the ids of what it lost.
async fn reconciled(figures: &mut Figures, stage: &Stage) {
    let (code, told) = stage.reconcile();
    let mut database = look(&stage.server.url()).await;
    let lost: i64 = sqlx::query_scalar("SELECT count(*) FROM lost_charges")
        .fetch_one(&mut database)
        .await
        .expect("a count");
    // Those posted after the backup, and the last ones, which came after the traffic.
    let wanted = 2 * EACH;
    let shown = format!("{code:?}, {lost} charges of payments that are not here");
    let holds = Holds(code == Some(11) && usize::try_from(lost) == Ok(wanted));
    figures.holds("compared with the gateway's report", shown, &format!("Some(11), {wanted}"), holds);
    if !holds.0 {
        println!("{told}");
    }
}

async fn released(figures: &mut Figures, stage: &Stage) {
    let ann = Console::of(&stage.site, "ann", &["ops:approve"], "api-1");
    let bob = Console::of(&stage.site, "bob", &["ops:approve"], "api-1");
    // Today is not over: two people pass over that, having compared with a gateway that reports at once.
    let said = [release(&ann, true).await.0, release(&ann, true).await.0, release(&bob, true).await.0];
    let shown = format!("{said:?}");
    figures.holds(
        "asked, asked again by the same person, agreed",
        shown,
        "[202, 403, 200]",
        Holds(said == [202, 403, 200]),
    );
}

async fn came_back(
    figures: &mut Figures,
    stage: &Stage,
    known: &[(String, Value)],
    lost: &[(String, Value)],
) {
    // Clients post again what they posted, with the same keys; half of them at another due time.
    let (same, moved) = lost.split_at(EACH / 2);
    let mut refused = 0;
    for (key, body) in moved {
        let mut body = body.clone();
        body["dueAt"] = json!((Utc::now() + TimeDelta::seconds(5)).to_rfc3339());
        let (status, answer) = stage.site.post(key, &body).await.expect("the API answers");
        refused += usize::from(status == 409 && answer["code"] == "charged_before_restore");
    }
    let of = format!("{refused} of {}", moved.len());
    figures.holds("another due time of what was lost is refused", of, "all", Holds(refused == moved.len()));
    let ends = eventually("everything ended", MINUTE, || async {
        let mut states = stage.states(known).await;
        states.extend(stage.states(same).await);
        states.iter().all(|state| ["COMPLETED", "PARKED"].contains(&state.as_str())).then_some(states)
    })
    .await;
    let completed = ends.iter().filter(|state| *state == "COMPLETED").count();
    let shown = format!("{completed} COMPLETED, {} PARKED", ends.len() - completed);
    figures.holds(
        "what was charged after the backup ends",
        shown,
        "COMPLETED or PARKED",
        Holds(ends.len() == EACH * 3 / 2),
    );
    let summary = stage.summary().await;
    let charges = summary["charges"].as_u64().unwrap_or(u64::MAX);
    let doubles = summary["paymentsChargedMoreThanOnce"].as_u64().unwrap_or(u64::MAX);
    let wanted = 4 * EACH as u64;
    figures.holds(
        "charges in the gateway's own ledger",
        charges,
        &wanted.to_string(),
        Holds(charges == wanted),
    );
    figures.holds("payments charged more than once", doubles, "0", Holds(doubles == 0));
}
