//! What `punctual dev` starts can be broken on purpose, comes back, and never outlives its owner.

use crate::support::eventually;
use punctual::bucket::probe::wait_for_brokers;
use punctual::dev::kafka::{Cluster, ClusterOptions};
use punctual::dev::postgres::Postgres;
use punctual::dev::{Durability, artifacts, ports};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A folder that Postgres, run by another user, can pass through.
fn folder() -> tempfile::TempDir {
    let open = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("punctual-it-").permissions(open).tempdir().expect("a folder")
}

async fn answers(servers: String, wanted: usize) -> bool {
    let asked = move || wait_for_brokers(&servers, wanted, Duration::from_secs(1)).is_ok();
    tokio::task::spawn_blocking(asked).await.expect("the probe does not panic")
}

#[tokio::test]
async fn three_brokers_work_on_when_one_is_killed_and_take_it_back() {
    let home = folder();
    let kafka = artifacts::obtain(|_| {}).await.expect("the artifacts");
    let options = ClusterOptions { brokers: 3, first_port: None, durability: Durability::TestOnly };
    let mut cluster = Cluster::start(&kafka, home.path(), &options).await.expect("three brokers");
    let all = cluster.bootstrap_servers();

    cluster.brokers[2].kill();
    assert!(answers(all.clone(), 2).await, "two of three are a quorum");
    cluster.brokers[2].restart().await.expect("it comes back on its port and data");
    eventually("all three are registered", Duration::from_secs(60), || async {
        answers(all.clone(), 3).await.then_some(())
    })
    .await;

    let one = cluster.brokers[0].address();
    cluster.brokers[0].freeze();
    // The signal reaches one thread after the other.
    eventually("a frozen broker does not answer", Duration::from_secs(30), || async {
        (!answers(one.clone(), 1).await).then_some(())
    })
    .await;
    cluster.brokers[0].thaw();
    eventually("it answers again", Duration::from_secs(30), || async {
        answers(one.clone(), 1).await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_killed_server_comes_back_on_the_same_port_with_what_was_committed() {
    let home = folder();
    let port = ports::free();
    let mut server = Postgres::start(home.path(), port, Durability::Durable).await.expect("a server");
    let mut session = PgConnection::connect(&server.url()).await.expect("a connection");
    session.execute("CREATE TABLE kept AS SELECT 7 AS id").await.expect("a table");
    server.kill();
    PgConnection::connect(&server.url()).await.expect_err("nobody listens");
    server.restart().await.expect("crash recovery");
    let mut session = PgConnection::connect(&server.url()).await.expect("a connection");
    let kept: i32 = sqlx::query_scalar("SELECT id FROM kept").fetch_one(&mut session).await.expect("the row");
    assert_eq!(kept, 7);
}

/// Live processes that name `folder` on their command line.
fn alive_in(folder: &Path) -> Vec<PathBuf> {
    let name = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let names_it = |process: &PathBuf| {
        std::fs::read(process.join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&name))
    };
    processes.filter(names_it).collect()
}

#[tokio::test]
async fn services_whose_owner_is_killed_are_gone_within_seconds_and_the_folder_can_be_used_again() {
    let home = folder();
    let start = || {
        let mut dev = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args([
                "dev",
                "--services-only",
                "-o",
                "env",
                "--random-ports",
                "--until-stdin-closes",
                "--data-dir",
            ])
            .arg(home.path())
            .env_remove("KAFKA_BOOTSTRAP_SERVERS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary under test was built by cargo");
        let lines = BufReader::new(dev.stdout.take().expect("a pipe")).lines();
        let ready = lines.map_while(Result::ok).any(|line| line == "PUNCTUAL_READY=1");
        assert!(ready, "the services started");
        dev
    };
    let mut killed = start();
    assert!(alive_in(home.path()).len() >= 3, "the owner, a server and a broker");
    killed.kill().expect("alive");
    killed.wait().expect("our child");
    eventually("no process is left", Duration::from_secs(10), || async {
        alive_in(home.path()).is_empty().then_some(())
    })
    .await;

    // As initdb leaves it when it is killed: a number that no process has, with a minus sign before it.
    std::fs::write(home.path().join("postgres/data/postmaster.pid"), "-4194305\n").expect("our folder");

    let mut stopped = start();
    drop(stopped.stdin.take());
    assert!(stopped.wait().expect("our child").success(), "it ends when its standard input closes");
    eventually("no process is left", Duration::from_secs(10), || async {
        alive_in(home.path()).is_empty().then_some(())
    })
    .await;
}
