//! A report loaded twice, cut anywhere, shorter than the one before, and loaded by a process that is killed.
//!
//! The second time changes nothing, a cut one loads nothing and its line is named, and what a killed process left
//! does not count: the next one loads the report as if it were the first.

use super::day::{Charge, Day};
use crate::figures::{Figures, Holds};
use crate::support::installation::Installation;
use crate::support::watched::{Watched, watched};
use chrono::{TimeDelta, Utc};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Charges of the day.
const CHARGES: u64 = 100_000;
/// Places at which the file is cut.
const CUTS: usize = 40;
/// How long a report is at most on its way into the tables.
const LOADING: Duration = Duration::from_secs(60);

/// What counts in the tables: reports, lines of them, differences, and the newest of these.
type Counts = (i64, i64, i64, Option<i64>);

/// One report, treated badly.
pub async fn a_report_counts_once_and_only_whole(figures: &mut Figures) {
    figures.part(&format!("A report of {CHARGES} charges, loaded twice, cut at {CUTS} places, and killed"));
    let date = Utc::now().date_naive() - TimeDelta::days(3);
    let day = Day { date, charges: CHARGES, seed: 13 };
    let bench =
        Bench { site: Installation::new(&[("reconcile.grace_days", "1")]).await, date: date.to_string() };
    day.write(&bench.site.database.url).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.ndjson");
    let lines = day.report(&path, reported);

    let cut = folder.path().join("cut.ndjson");
    cuts(figures, &bench, &path, &cut).await;
    killed(figures, &bench, &path).await;
    let first = bench.run(&path, &[]).await;
    let once = bench.counts().await;
    let different = day.all().filter(|it| day.is_ours(it) && (is_left_out(it) || is_altered(it))).count();
    let wanted: Counts =
        (1, i64::try_from(lines).expect("few"), i64::try_from(different).expect("few"), once.3);
    let shown = format!("{:?}, {once:?}", first.code);
    figures.holds(
        "loaded after all that",
        shown,
        &format!("Some(10), {wanted:?}"),
        Holds(first.code == Some(10) && once == wanted),
    );
    let second = bench.run(&path, &[]).await;
    let twice = bench.counts().await;
    let shown = format!("{:?}, {twice:?}", second.code);
    figures.holds(
        "the same file again",
        shown,
        "exactly as before",
        Holds(second.code == first.code && twice == once),
    );
    shorter(figures, &bench, &day, &path, once).await;
}

/// One line in a thousand is not in the report.
fn is_left_out(charge: &Charge) -> bool {
    charge.number % 1_000 == 1
}

/// And one has another amount, so that there is more than what may still come.
fn is_altered(charge: &Charge) -> bool {
    charge.number % 1_000 == 2
}

fn reported(charge: &Charge, mut line: Value) -> Vec<Value> {
    if is_altered(charge) {
        line["gross"] = (charge.amount + 1).into();
        line["net"] = (charge.amount - 24).into();
    }
    if is_left_out(charge) { Vec::new() } else { vec![line] }
}

struct Bench {
    site: Installation,
    date: String,
}

impl Bench {
    fn arguments<'a>(&'a self, file: &'a str) -> Vec<&'a str> {
        let day = ["reconcile", "run", "--gateway", "sandbox", "--day", &self.date];
        [&day[..], &["--file", file, "--format", "sandbox", "-o", "json"]].concat()
    }

    async fn run(&self, file: &Path, more: &[&str]) -> Watched {
        let file = file.display().to_string();
        watched(&self.site, &[&self.arguments(&file)[..], more].concat(), &[]).await
    }

    async fn database(&self) -> PgConnection {
        PgConnection::connect(&self.site.database.url).await.expect("a connection")
    }

    async fn counts(&self) -> Counts {
        sqlx::query_as(
            "SELECT (SELECT count(*) FROM reconciliation_runs WHERE status IN ('loaded', 'compared')),
                    (SELECT count(*) FROM settlement_lines l JOIN reconciliation_runs r ON r.id = l.run_id
                     WHERE r.status IN ('loaded', 'compared')),
                    (SELECT count(*) FROM reconciliation_items WHERE status IN ('open', 'waiting')),
                    (SELECT max(number) FROM reconciliation_items)",
        )
        .fetch_one(&mut self.database().await)
        .await
        .expect("counts")
    }
}

/// Nothing is loaded of a file that ends anywhere but at its end, or has a line that is none.
async fn cuts(figures: &mut Figures, bench: &Bench, path: &Path, cut: &Path) {
    let whole = std::fs::read(path).expect("the report");
    let mut broken = Vec::new();
    let mut files: Vec<(String, Vec<u8>)> = (0..CUTS)
        .map(|n| {
            // Some of these end with a line, most within one.
            let at = whole.len() * n / CUTS;
            let at = if n % 4 == 0 {
                at + whole[at..].iter().position(|it| *it == b'\n').expect("a line") + 1
            } else {
                at
            };
            (format!("cut after {at} of {} bytes", whole.len()), whole[..at].to_vec())
        })
        .collect();
    let mut spoilt = whole.clone();
    let middle = spoilt.len() / 2;
    spoilt[middle..middle + 4].copy_from_slice(b"\0\xff{\n");
    files.push(("four bytes in its middle are others".to_owned(), spoilt));
    files.push(("a line follows its end".to_owned(), [&whole[..], b"{}\n"].concat()));
    let looked_at = files.len();
    for (what, bytes) in files {
        std::fs::write(cut, &bytes).expect("written");
        let ran = bench.run(cut, &[]).await;
        let counts = bench.counts().await;
        let line =
            bytes.iter().filter(|it| **it == b'\n').count() + usize::from(bytes.last() != Some(&b'\n'));
        let names_a_line = ran.err.contains("line ");
        if ran.code != Some(1) || counts != (0, 0, 0, None) || !names_a_line {
            broken.push(format!(
                "{what} (its last line is {line}): {:?}, {counts:?}, {}",
                ran.code,
                ran.last_words()
            ));
        }
    }
    broken.truncate(5.min(broken.len()));
    figures.violations(
        "cut or spoilt: exit code 1, its line named, nothing kept",
        looked_at,
        broken.len(),
        &broken,
    );
}

/// SIGKILL while its lines are being written: nothing of them counts.
async fn killed(figures: &mut Figures, bench: &Bench, path: &Path) {
    let mut database = bench.database().await;
    let file = path.display().to_string();
    let mut command = std::process::Command::new(crate::support::installation::PUNCTUAL);
    command.args(bench.arguments(&file)).envs(&bench.site.environment);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the binary runs");
    let began = Instant::now();
    let mut written = 0_i64;
    while began.elapsed() < LOADING && child.try_wait().expect("a child").is_none() {
        written = sqlx::query_scalar("SELECT count(*) FROM settlement_lines")
            .fetch_one(&mut database)
            .await
            .expect("a count");
        if written > 0 {
            break;
        }
    }
    // One that has ended is no error: the figure below says so.
    let _ = child.kill();
    child.wait().expect("it can be waited for");
    let (live, lines, open, _) = bench.counts().await;
    let loading: i64 =
        sqlx::query_scalar("SELECT count(*) FROM reconciliation_runs WHERE status = 'loading'")
            .fetch_one(&mut database)
            .await
            .expect("a count");
    figures.met(
        "killed with so many lines written, and the report not whole",
        if loading == 1 { usize::try_from(written).expect("few") } else { 0 },
    );
    let shown = format!("{live} reports, {lines} lines, {open} items");
    figures.holds("what counts of it", shown, "nothing", Holds((live, lines, open) == (0, 0, 0)));
}

/// A shorter report is more likely wrong than right, and if it was taken all the same, the right one takes its
/// place again.
async fn shorter(figures: &mut Figures, bench: &Bench, day: &Day, path: &Path, once: Counts) {
    let folder = tempfile::tempdir().expect("a folder");
    let short = folder.path().join("short.ndjson");
    let has_half = |charge: &Charge| charge.number.is_multiple_of(2);
    day.report(&short, |charge, line| if has_half(charge) { reported(charge, line) } else { Vec::new() });
    let refused = bench.run(&short, &[]).await;
    let held = bench.counts().await;
    let shown = format!("{:?}, {held:?}", refused.code);
    figures.holds(
        "a shorter one",
        shown,
        "Some(6), as before",
        Holds(refused.code == Some(6) && held == once),
    );
    let taken = bench.run(&short, &["--even-if-shorter"]).await;
    let (live, _, open, _) = bench.counts().await;
    let shown = format!("{:?}, {live} report, {open} items", taken.code);
    // What was written down here after midnight is asked of the next day.
    let different = day.all().filter(|it| day.is_ours(it) && (!has_half(it) || is_altered(it))).count();
    let wanted = i64::try_from(different).expect("few");
    figures.holds(
        "the same with --even-if-shorter",
        shown,
        &format!("Some(10), 1 report, {wanted} items"),
        Holds(taken.code == Some(10) && live == 1 && open == wanted),
    );
    let right = bench.run(path, &[]).await;
    let (live, lines, open, _) = bench.counts().await;
    let shown = format!("{:?}, {live} report, {lines} lines, {open} items", right.code);
    let wanted = format!("Some(10), 1 report, {} lines, {} items", once.1, once.2);
    figures.holds("and the right one in its place again", shown.clone(), &wanted, Holds(shown == wanted));
}
