//! Two hundred people who all keep the first page open: what that costs the process, and that each is told
//! everything.

use super::visitor::{Visitor, key_of};
use crate::figures::{Figures, Holds};
use crate::support::installation::Installation;
use chrono::{TimeDelta, Utc};
use std::time::{Duration, Instant};

const VIEWERS: usize = 200;
const FOR: Duration = Duration::from_secs(60);
/// Of one core, in hundredths of a per cent.
const MOST_CPU: u64 = 500;
/// What memory may grow by while they look, in KiB.
const MOST_GROWTH: i64 = 8 * 1024;
/// A look comes every two seconds; one may fall on either edge.
const LEAST_LOOKS: u64 = 27;

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy)]
struct Used {
    /// Clock ticks, in user and system mode.
    ticks: u64,
    resident_kib: i64,
}

impl Used {
    fn by(pid: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
        // Behind the name, which may hold blanks: from the third field on.
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
        let of = |field: usize| fields[field - 3].parse::<u64>().expect("a number");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let resident_kib = resident.trim().trim_end_matches(" kB").parse().expect("a number");
        Self { ticks: of(14) + of(15), resident_kib }
    }
}

/// What one viewer was told: the first and the last number, and how many of them.
#[derive(Debug, Default, Clone, Copy)]
struct Told {
    first: u64,
    last: u64,
    looks: u64,
    bytes: usize,
}

/// Reads a stream until then.
async fn listen(mut answer: reqwest::Response, until: Instant) -> Told {
    let (mut told, mut rest) = (Told::default(), String::new());
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout_at(until.into(), answer.chunk()).await {
        told.bytes += chunk.len();
        rest.push_str(&String::from_utf8_lossy(&chunk));
        while let Some((event, after)) = rest.split_once("\n\n") {
            let id = event.lines().find_map(|line| line.strip_prefix("id: "));
            let number = id.and_then(|id| id.rsplit('-').next()).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                told.first = if told.looks == 0 { number } else { told.first };
                told.last = number;
                told.looks += 1;
            }
            rest = after.to_owned();
        }
    }
    told
}

fn ticks_per_second() -> u64 {
    let asked = std::process::Command::new("getconf").arg("CLK_TCK").output().expect("getconf");
    String::from_utf8_lossy(&asked.stdout).trim().parse().expect("a number")
}

/// With payments under way, so that there is something to tell.
pub(super) async fn two_hundred_viewers_cost_little_more_than_one(figures: &mut Figures) {
    let build = if cfg!(debug_assertions) { ", a debug build" } else { "" };
    figures.part(&format!("{VIEWERS} viewers of the first page for {} s{build}", FOR.as_secs()));
    let mut site = Installation::new(&[("dashboard.secure_cookie", "false")]).await;
    for role in ["keeper", "relay", "worker", "publisher", "api"] {
        site.start(role, &format!("{role}-1"), &[]).await;
    }
    for number in 0..200 {
        let due = Utc::now() + TimeDelta::seconds(5) + TimeDelta::milliseconds(400) * number;
        site.create(&format!("seen-{number}"), "sim_ok", due).await;
    }
    let mut visitor = Visitor::enter(site.url("api-1"), &key_of(&site, "duty")).await;
    let mut streams = Vec::new();
    for _ in 0..VIEWERS {
        streams.push(visitor.stream().await);
    }
    let pid = site.role("api-1").pid();
    let until = Instant::now() + FOR;
    let readers: Vec<_> = streams.into_iter().map(|stream| tokio::spawn(listen(stream, until))).collect();
    // Past the first looks, for which room is made once.
    tokio::time::sleep(FOR / 6).await;
    let (began, before) = (Instant::now(), Used::by(pid));
    let left = until.saturating_duration_since(Instant::now()).saturating_sub(Duration::from_millis(500));
    tokio::time::sleep(left).await;
    let (took, after) = (began.elapsed(), Used::by(pid));
    let mut told = Vec::new();
    for reader in readers {
        told.push(reader.await.expect("a viewer"));
    }
    let cpu_ms = (after.ticks - before.ticks) * 1_000 / ticks_per_second();
    let of_a_core = cpu_ms * 10_000 / u64::try_from(took.as_millis()).expect("short").max(1);
    let shown = format!("{}.{:02} % of a core", of_a_core / 100, of_a_core % 100);
    figures.holds("CPU of the API's process", shown, "< 5 % of a core", Holds(of_a_core < MOST_CPU));
    let growth = after.resident_kib - before.resident_kib;
    let shown = format!("{} KiB, {growth:+} KiB in {} s", after.resident_kib, took.as_secs());
    figures.holds("memory of the API's process", shown, "+ 8 MiB at most", Holds(growth <= MOST_GROWTH));
    let looks = told.iter().map(|one| one.looks);
    let (least, most) = (looks.clone().min().unwrap_or(0), looks.max().unwrap_or(0));
    let shown = format!("{least} to {most}, {} KiB each", told[0].bytes / 1_024);
    figures.holds("looks that each was sent", shown, "≥ 27, one each 2 s", Holds(least >= LEAST_LOOKS));
    let gaps = told.iter().filter(|one| one.last + 1 - one.first != one.looks).count();
    figures.violations("viewers who missed a look in between", told.len(), gaps, &[]);
    let newest = told.iter().map(|one| one.last).max().unwrap_or(0);
    let behind = told.iter().filter(|one| one.last + 1 < newest).count();
    figures.violations("viewers who were left behind", told.len(), behind, &[]);
}
