//! Real backups and a real standby: each comes back as a database that claims nothing.
//!
//! A private server that forgets nothing, the tools of its own version, and a worker's pool that never stops: the
//! server behind its address changes, as in an outage.

use super::asked_of;
use crate::schedule::world::{completed, fresh, new_payment, notice, settings, terms};
use crate::support::backups::{PrivateServer, succeeds};
use crate::support::eventually;
use chrono::TimeDelta;
use punctual::domain::notice::Notice;
use punctual::schedule::{
    Access, ClaimAnswer, CreateAnswer, Early, LossKind, Postgres, Quarantine, Schedule, connect, migrate,
};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use std::time::Duration;

/// A server with the schedule on it, and the processes that work with it.
struct Site {
    server: PrivateServer,
    api: Postgres,
    worker: Postgres,
}

impl Site {
    async fn new() -> Self {
        let server = PrivateServer::new().await;
        let config = settings(&server.url());
        migrate(&config).await.expect("migrated");
        let api = connect(&config, Access::Api).await.expect("the API connects");
        let worker = connect(&config, Access::Worker).await.expect("a worker connects");
        Self { server, api, worker }
    }

    async fn due(&self, key: &str) -> Notice {
        let due_at = self.worker.database_now().await.expect("a clock") - TimeDelta::seconds(1);
        let new = new_payment(self.api.installation_secret(), key, due_at);
        match self.api.create(&new).await.expect("created") {
            CreateAnswer::Created(view) => notice(&view.payment),
            other => panic!("{other:?}"),
        }
    }

    async fn pay(&self, due: &Notice) {
        let ClaimAnswer::Claimed(claimed) = self.asks(due).await else { panic!("not won") };
        let settled = self.worker.settle(vec![completed(*claimed, &due.payment.to_string())]).await;
        settled.map_err(|failed| failed.error).expect("settled");
    }

    /// The worker that never stopped asks for this payment until the database answers.
    async fn asks(&self, due: &Notice) -> ClaimAnswer {
        eventually("an answer", Duration::from_secs(30), || async {
            let asked = self.worker.claim(&terms(), std::slice::from_ref(due), &fresh(1)).await;
            asked.ok().and_then(|answers| answers.into_iter().next())
        })
        .await
    }

    async fn is_held(&self, due: &Notice) {
        let answer = self.asks(due).await;
        assert!(matches!(answer, ClaimAnswer::Early { why: Early::Quarantined, .. }), "{answer:?}");
    }

    /// Statements of an administrator, from beside the database.
    async fn in_postgres(&self, acts: &[&str]) {
        let mut psql = self.server.tool("psql").await;
        psql.args(["-d", "postgres", "-v", "ON_ERROR_STOP=1"]);
        for act in acts {
            psql.args(["-c", act]);
        }
        succeeds(psql);
    }

    /// No process is ever told that its database is not there: connections break, and the next ones reach the other.
    async fn put_in_its_place(&self, other: &str) {
        self.in_postgres(&[
            "ALTER DATABASE punctual ALLOW_CONNECTIONS false",
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 'punctual'",
            "ALTER DATABASE punctual RENAME TO gone",
            &format!("ALTER DATABASE {other} RENAME TO punctual"),
        ])
        .await;
    }

    async fn quarantine(&self) -> Quarantine {
        let view = eventually("an answer", Duration::from_secs(30), || async {
            self.api.quarantines(1, &asked_of(&[])).await.ok()
        })
        .await;
        view.open().expect("it is quarantined").clone()
    }
}

#[tokio::test]
async fn a_base_backup_started_as_it_is_claims_nothing_for_a_worker_that_never_stopped() {
    let mut site = Site::new().await;
    let paid = site.due("k1").await;
    site.worker.observe_lineage().await.expect("a sign of life");
    let home = site.server.base_backup("copy", &[]).await;
    // What the copy does not know: a charge, and all that a day writes.
    site.server.run("SELECT pg_logical_emit_message(false, 'traffic', repeat('x', 40000000))").await;
    site.pay(&paid).await;
    let later = site.due("k2").await;
    site.pay(&later).await;
    site.server.replace(&home).await;
    site.is_held(&paid).await;
    let open = site.quarantine().await;
    assert_eq!(open.kind, LossKind::Log, "{}", open.reason);
    assert_eq!(open.released_lineage, open.found_lineage, "the timeline is the same");
    let created = paid.due_at;
    assert!(open.lost_from <= created + TimeDelta::minutes(1), "{} since {created}", open.lost_from);
    // Whatever worker asks, also one that remembers nothing.
    let other = connect(&settings(&site.server.url()), Access::Worker).await.expect("connects");
    let asked = other.claim(&terms(), std::slice::from_ref(&paid), &fresh(1)).await.expect("an answer");
    assert!(matches!(asked[0], ClaimAnswer::Early { why: Early::Quarantined, .. }), "{asked:?}");
}

/// A server on a new timeline is another one, however it came there.
async fn is_another_lineage(site: &Site, due: &Notice) {
    site.is_held(due).await;
    let open = site.quarantine().await;
    assert_eq!(open.kind, LossKind::Lineage, "{}", open.reason);
    assert!(open.found_lineage.contains("/00000002/"), "{}", open.found_lineage);
    site.server.run("SELECT release_lineage()").await;
    assert!(matches!(site.asks(due).await, ClaimAnswer::Claimed(_)));
}

#[tokio::test]
async fn a_promoted_standby_claims_nothing_until_it_is_released() {
    let mut site = Site::new().await;
    let due = site.due("k1").await;
    site.worker.observe_lineage().await.expect("a sign of life");
    let home = site.server.base_backup("standby", &["-R"]).await;
    let url = site.server.url();
    let promoted = eventually("it is promoted", Duration::from_secs(60), || async {
        // Of the first server this is an error: it is none.
        let mut sql = PgConnection::connect(&url).await.ok()?;
        sqlx::query_scalar::<_, bool>("SELECT pg_promote(true, 30)").fetch_one(&mut sql).await.ok()
    });
    // A standby is up for its starter once it is promoted.
    tokio::join!(site.server.replace(&home), promoted);
    is_another_lineage(&site, &due).await;
}

#[tokio::test]
async fn a_backup_that_was_recovered_claims_nothing_until_it_is_released() {
    let mut site = Site::new().await;
    let due = site.due("k1").await;
    site.worker.observe_lineage().await.expect("a sign of life");
    let home = site.server.base_backup("recovered", &[]).await;
    let data = home.join("postgres/data");
    std::fs::File::create(data.join("recovery.signal")).expect("a file");
    std::fs::write(data.join("postgresql.auto.conf"), "restore_command = 'false'\n").expect("written");
    site.server.give_away(&data);
    site.server.replace(&home).await;
    is_another_lineage(&site, &due).await;
}

#[tokio::test]
async fn a_dump_restored_into_a_fresh_server_claims_nothing() {
    let mut site = Site::new().await;
    let due = site.due("k1").await;
    let file = site.server.path("dump");
    let mut dump = site.server.tool("pg_dump").await;
    dump.args(["-Fc", "-f"]).arg(&file).arg("punctual");
    succeeds(dump);
    site.pay(&due).await;
    let home = site.server.home("fresh");
    site.server.replace(&home).await;
    for role in ["punctual_owner", "punctual_api", "punctual_worker"] {
        site.server.run(&format!("CREATE ROLE {role} NOLOGIN")).await;
    }
    let mut restore = site.server.tool("pg_restore").await;
    restore.args(["-d", "punctual", "--exit-on-error"]).arg(&file);
    succeeds(restore);
    site.is_held(&due).await;
    let open = site.quarantine().await;
    assert_eq!(open.kind, LossKind::Lineage, "{}", open.reason);
    let server = |lineage: &str| lineage.split('/').next().map(str::to_owned);
    assert_ne!(server(&open.released_lineage), server(&open.found_lineage));
}

#[tokio::test]
async fn a_dump_restored_on_the_same_server_and_put_in_the_place_of_the_database_claims_nothing() {
    let site = Site::new().await;
    let due = site.due("k1").await;
    site.worker.observe_lineage().await.expect("a sign of life");
    let file = site.server.path("dump");
    let mut dump = site.server.tool("pg_dump").await;
    dump.args(["-Fc", "-f"]).arg(&file).arg("punctual");
    succeeds(dump);
    site.pay(&due).await;
    site.server.run("CREATE DATABASE aside").await;
    let mut restore = site.server.tool("pg_restore").await;
    restore.args(["-d", "aside", "--exit-on-error"]).arg(&file);
    succeeds(restore);
    site.put_in_its_place("aside").await;
    is_another_home(&site, &due).await;
}

#[tokio::test]
async fn a_copy_by_template_put_in_the_place_of_the_database_claims_nothing() {
    let site = Site::new().await;
    let due = site.due("k1").await;
    site.worker.observe_lineage().await.expect("a sign of life");
    // Nobody may be connected to what is copied.
    site.in_postgres(&[
        "ALTER DATABASE punctual ALLOW_CONNECTIONS false",
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 'punctual'",
        "CREATE DATABASE aside TEMPLATE punctual",
        "ALTER DATABASE punctual ALLOW_CONNECTIONS true",
    ])
    .await;
    site.pay(&due).await;
    site.put_in_its_place("aside").await;
    is_another_home(&site, &due).await;
}

/// It claims nothing although server and timeline are the released ones, until it is released.
async fn is_another_home(site: &Site, due: &Notice) {
    site.is_held(due).await;
    let open = site.quarantine().await;
    assert_eq!(open.kind, LossKind::Lineage, "{}", open.reason);
    let server = |lineage: &str| lineage.split('/').take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(server(&open.released_lineage), server(&open.found_lineage));
    assert_ne!(open.released_lineage, open.found_lineage);
    // What it remembers of the time before it was made says since when.
    assert!(open.lost_from > due.due_at - TimeDelta::minutes(5), "{} is not the beginning", open.lost_from);
    site.server.run("SELECT release_lineage()").await;
    assert!(matches!(site.asks(due).await, ClaimAnswer::Claimed(_)));
}
