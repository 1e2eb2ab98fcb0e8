//! An import that is interrupted twice and run a third time, and what came of it.

use super::api::Api;
use super::eventually;
use super::stub::{Ran, client};
use chrono::{TimeDelta, Utc};
use sqlx::{Connection, PgConnection};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Child;

/// Every so many rows one is wrong, in the ways of [`wrong`] in turn.
const WRONG_EVERY: i64 = 250;

/// What was seen.
#[derive(Debug)]
pub struct Interrupted {
    /// Rows of the file that can be payments.
    pub rows: i64,
    /// Payments when the first run got SIGINT, and when the second got SIGKILL.
    pub before: [i64; 2],
    /// The signals that ended these two.
    pub signals: [Option<i32>; 2],
    /// Payments at the end, and how many different rows they are of.
    pub made: (i64, i64),
    /// Line and code of the rows that had to be rejected, in order.
    pub wrong: Vec<(i64, String)>,
    /// Line and code as the file of rejects has them.
    pub rejected: Vec<(i64, String)>,
    /// The third run.
    pub last: Ran,
    /// From its start to its end.
    pub took: Duration,
    /// The most memory that it held, in KiB.
    pub peak_kib: u64,
}

/// Payments in the API's database.
pub async fn count(api: &Api) -> i64 {
    one(api, "SELECT count(*) FROM payments").await
}

async fn one(api: &Api, query: &'static str) -> i64 {
    let mut database = PgConnection::connect(&api.database.url).await.expect("a connection");
    sqlx::query_scalar(query).fetch_one(&mut database).await.expect("a count")
}

/// Cells of a row that is refused, and the code of the refusal.
fn wrong(number: i64, due_at: &str) -> (String, &'static str) {
    match number % 4 {
        0 => (format!("sim_ok,0,EUR,{due_at}"), "amount_not_positive"),
        1 => ("sim_ok,5,EUR,2020-01-31T09:00:00Z".to_owned(), "due_in_past"),
        2 => (format!("sim_ok,12.50,EUR,{due_at}"), "wrong_type"),
        _ => (format!("4111111111111111,5,EUR,{due_at}"), "raw_card_number"),
    }
}

/// A CSV file of so many rows that can be payments, due on different seconds of the next days, and of some
/// that cannot, whose lines and codes are answered.
pub fn file(folder: &Path, rows: i64) -> (String, Vec<(i64, String)>) {
    let path = folder.join("payments.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    writeln!(file, "payee,amount,currency,dueAt,externalId,description").expect("written");
    let first = Utc::now() + TimeDelta::hours(3);
    let mut refused = Vec::new();
    let mut line = 1;
    for row in 0..rows {
        let due_at = (first + TimeDelta::seconds(row % 200_000)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
        if row % WRONG_EVERY == WRONG_EVERY / 2 {
            line += 1;
            let number = row / WRONG_EVERY;
            let (cells, code) = wrong(number, &due_at);
            writeln!(file, "{cells},wrong-{number},").expect("written");
            refused.push((line, code.to_owned()));
        }
        line += 1;
        writeln!(file, "sim_ok,{},EUR,{due_at},row-{row},\"number {row}, of {rows}\"", 100 + row)
            .expect("written");
    }
    file.flush().expect("written");
    (path.display().to_string(), refused)
}

fn start(api: &Api, file: &str) -> Child {
    let mut command = client(&api.url);
    command.env("PUNCTUAL_API_KEY", &api.key).args(["import", file, "--batch", "50", "-o", "json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

/// Whoever creates this row waits while this is held; the number of the lock is this file's alone.
async fn gate(api: &Api, row: i64) -> PgConnection {
    let mut database = PgConnection::connect(&api.database.url).await.expect("a connection");
    // First, and by itself: what was let through before has committed then, and needs no lock that is taken below.
    sqlx::query("SELECT pg_advisory_lock(711)").execute(&mut database).await.expect("held");
    let statements = format!(
        "DROP TRIGGER IF EXISTS gate ON payment_details;
         CREATE OR REPLACE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN PERFORM pg_advisory_xact_lock_shared(711); RETURN NEW; END';
         CREATE TRIGGER gate BEFORE INSERT ON payment_details FOR EACH ROW
             WHEN (NEW.external_id = 'row-{row}') EXECUTE FUNCTION wait_at_gate()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut database).await.expect("a gate");
    database
}

/// Runs an import and sends it this signal while its row `at` is being created; the payments that there were
/// then, and the signal that ended it.
async fn stopped(api: &Api, file: &str, signal: &str, at: i64) -> (i64, Option<i32>) {
    let gate = gate(api, at).await;
    let mut import = start(api, file);
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 711 AND NOT granted";
    eventually("it is there", Duration::from_secs(300), || async {
        (one(api, waiting).await > 0).then_some(())
    })
    .await;
    let pid = import.id().expect("it runs").to_string();
    let sent = tokio::process::Command::new("kill").args([signal, &pid]).status().await;
    assert!(sent.is_ok_and(|status| status.success()), "{signal}");
    gate.close().await.expect("the gate opens");
    let ended = import.wait().await.expect("a child can be waited for");
    (count(api).await, ended.signal())
}

/// Runs an import to its end: what it said, how long it took, and its peak of memory in KiB.
pub async fn finished(api: &Api, file: &str) -> (Ran, Duration, u64) {
    let began = Instant::now();
    let import = start(api, file);
    let status = format!("/proc/{}/status", import.id().expect("a process"));
    let peak = tokio::spawn(async move {
        let mut peak = 0;
        // Until the process is gone.
        while let Some(held) = held_kib(&status) {
            peak = peak.max(held);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        peak
    });
    let ran = Ran::from(import.wait_with_output().await.expect("it ends"));
    let took = began.elapsed();
    (ran, took, peak.await.expect("the watch does not panic"))
}

/// Stops an import with SIGINT at a quarter of its rows, its next run with SIGKILL at a half, runs it again to
/// its end, and counts.
pub async fn interrupted_and_resumed(api: &Api, rows: i64) -> Interrupted {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, wrong) = file(folder.path(), rows);
    let first = stopped(api, &file, "-INT", rows / 4).await;
    let second = stopped(api, &file, "-KILL", rows / 2).await;
    let mut database = PgConnection::connect(&api.database.url).await.expect("a connection");
    sqlx::query("DROP TRIGGER gate ON payment_details").execute(&mut database).await.expect("no gate");
    let (last, took, peak_kib) = finished(api, &file).await;
    let rows_made = "SELECT count(DISTINCT external_id) FROM payment_details WHERE external_id LIKE 'row-%'";
    let kept = std::fs::read_to_string(format!("{file}.rejects")).unwrap_or_default();
    let cells = kept.lines().skip(1).map(|line| {
        let mut cells = line.split(',');
        let line = cells.next().and_then(|line| line.parse().ok()).unwrap_or(-1);
        (line, cells.next().unwrap_or_default().to_owned())
    });
    Interrupted {
        rows,
        before: [first.0, second.0],
        signals: [first.1, second.1],
        made: (count(api).await, one(api, rows_made).await),
        wrong,
        rejected: cells.collect(),
        last,
        took,
        peak_kib,
    }
}

/// `VmHWM` of a process; nothing once it has ended.
pub fn held_kib(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
