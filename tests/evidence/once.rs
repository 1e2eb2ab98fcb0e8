//! The main job under faults: every payment charged once and not early, by the gateway's own ledger.

use crate::figures::{Figures, Holds, Verdict};
use crate::support::checker::check;
use crate::support::mixed::{MIX, Plan, Ran, lateness, run};
use crate::support::records::Records;
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::history::Event;
use punctual::domain::state::{Cause, Status};
use std::collections::BTreeMap;
use std::time::Duration;

/// After a fault, as long as its traces may be seen: a silent worker's partitions move after 6 s, its
/// claims are asked about after 10 s, and the late scan takes over at 15 s.
const TRACES: TimeDelta = TimeDelta::seconds(16);

/// Runs it and prints what came of it.
pub async fn show(figures: &mut Figures) -> Ran {
    let seed = std::env::var("PUNCTUAL_EVIDENCE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let plan = Plan {
        seed,
        sixties: 5,
        over: Duration::from_secs(60),
        freeze_after: Some(Duration::from_secs(12)),
        kill_after: Duration::from_secs(40),
    };
    let ran = run(&plan).await;
    let records = &ran.records;
    figures.part(&format!("300 payments over a minute, seed {seed}: one API, relay and keeper, two workers"));
    let all = records.payments.len();
    figures.holds("payments acknowledged", records.acknowledged.len(), "300", Holds(all == 300));
    states(figures, &ran);
    figures.part("Promises, by the gateway's ledger, the database and the client's log");
    for checked in check(records) {
        let name = format!("{:<3} {}", checked.invariant.id(), checked.invariant.statement());
        figures.violations(&shortened(&name), checked.looked_at, &checked.broken);
    }
    figures.part("Situations that the run must have met");
    situations(figures, &ran);
    figures.part("Lateness of first claims");
    late(figures, &ran);
    keep_logs(&ran);
    ran
}

/// Every process's own words, and who claimed what how late, stay below the target folder until the next
/// run: what a figure that falls short is looked into with.
fn keep_logs(ran: &Ran) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("evidence");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    for (name, role) in &ran.site.roles {
        std::fs::write(folder.join(format!("{name}.log")), role.log_text()).expect("a log is kept");
    }
    let mut table = String::from("payment\tdue\tlate ms\tworker\tpayee\n");
    for attempt in ran.records.attempts.iter().filter(|attempt| attempt.attempt == 1) {
        let payment = ran.records.payments.iter().find(|payment| payment.id == attempt.payment);
        let Some(payment) = payment else { continue };
        let late_ms = (attempt.claimed_at - payment.due_at).num_milliseconds();
        let (id, due_at, worker, payee) = (payment.id, payment.due_at, &attempt.worker, &payment.payee);
        table.push_str(&format!("{id}\t{due_at}\t{late_ms}\t{worker}\t{payee}\n"));
    }
    std::fs::write(folder.join("first-claims.tsv"), table).expect("a table is kept");
    println!("  logs and first claims: {}", folder.display());
}

/// Fits the column; the whole sentence is in `domain/invariants.rs`.
fn shortened(name: &str) -> String {
    if name.chars().count() <= 58 { name.to_owned() } else { name.chars().take(57).chain(['…']).collect() }
}

fn states(figures: &mut Figures, ran: &Ran) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for payment in &ran.records.payments {
        *counts.entry(payment.status.as_str()).or_default() += 1;
    }
    let counted: Vec<String> = counts.iter().map(|(state, count)| format!("{state} {count}")).collect();
    println!("  {}", counted.join(", "));
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for payment in ran.records.payments.iter().filter(|payment| payment.status == Status::Parked) {
        *reasons.entry(payment.reason.as_deref().unwrap_or("without a reason")).or_default() += 1;
    }
    println!("  parked by reason: {reasons:?}");
    figures.holds("neither final nor parked at the end", ran.waiting, "0", Holds(ran.waiting == 0));
}

fn situations(figures: &mut Figures, ran: &Ran) {
    let records = &ran.records;
    for (kind, _) in MIX {
        let payments = records.payments.iter().filter(|payment| payment.payee == *kind);
        let met = payments.filter(|p| records.ledger.iter().any(|line| line.payment_id == Some(p.id)));
        figures.met(&format!("reached the gateway: {kind}"), met.count());
    }
    let moves = |cause: Cause| records.history.iter().filter(move |t| t.row.event == Event::Moved(cause));
    let unknown = moves(Cause::Settled).filter(|told| told.row.to == Status::Unknown).count();
    figures.met("outcomes unknown after a call", unknown);
    figures.met("leases expired", moves(Cause::LeaseExpired).count());
    figures.met("late answers fenced", records.attempts.iter().filter(|attempt| attempt.fenced).count());
    let looked_up = records.attempts.iter().filter(|a| a.how.as_deref() == Some("looked_up"));
    figures.met("outcomes found by asking", looked_up.count());
    figures.met("claims under a later epoch's key", records.attempts.iter().filter(|a| a.epoch > 0).count());
    figures.met("claims that the killed worker left open", ran.open_at_kill);
    figures.met("payments delayed by the kill, due after it", ran.held_back_by_kill);
}

fn late(figures: &mut Figures, ran: &Ran) {
    let (mut calm, mut freeze, mut kill) = (Vec::new(), Vec::new(), Vec::new());
    for (due, late) in lateness(&ran.records) {
        if ran.frozen.is_some_and(|(from, until)| due >= from - TimeDelta::seconds(1) && due < until + TRACES)
        {
            freeze.push(late);
        } else if due >= ran.killed_at - TimeDelta::seconds(1) && due < ran.killed_at + TRACES {
            kill.push(late);
        } else {
            calm.push(late);
        }
    }
    let all: Vec<TimeDelta> = lateness(&ran.records).map(|(_, late)| late).collect();
    spread(figures, "all", all, TimeDelta::seconds(30));
    spread(figures, "due while nothing was wrong", calm, TimeDelta::seconds(2));
    spread(figures, "due while a worker was frozen", freeze, TimeDelta::seconds(30));
    spread(figures, "due around the kill", kill, TimeDelta::seconds(30));
    println!("  {}", instants(ran));
}

fn instants(ran: &Ran) -> String {
    let clock = |at: DateTime<Utc>| at.format("%H:%M:%S%.3f").to_string();
    let frozen = ran.frozen.map(|(from, until)| format!("frozen {} to {}, ", clock(from), clock(until)));
    format!("{}{} killed {}", frozen.unwrap_or_default(), ran.killed, clock(ran.killed_at))
}

/// Median, 99th percentile (nearest rank) and largest; the bound is on the 99th.
fn spread(figures: &mut Figures, of: &str, mut lates: Vec<TimeDelta>, bound: TimeDelta) {
    lates.sort();
    let rank = |per_cent: usize| lates.get((lates.len() * per_cent).div_ceil(100).saturating_sub(1));
    let ms = |late: Option<&TimeDelta>| late.map_or(-1, TimeDelta::num_milliseconds);
    let shown = format!(
        "p50 {} p99 {} max {} ms, {} of them",
        ms(rank(50)),
        ms(rank(99)),
        ms(lates.last()),
        lates.len()
    );
    let verdict = match rank(99) {
        None => Verdict::Unknown,
        Some(late) if *late <= bound && lates.first().is_some_and(|l| *l >= TimeDelta::zero()) => {
            Verdict::Holds
        }
        Some(_) => Verdict::FallsShort,
    };
    figures.line(of, shown, &format!("p99 at most {} ms", bound.num_milliseconds()), verdict);
}

/// For the closing words of other parts: ids as keys of notices.
pub fn ids(records: &Records) -> std::collections::BTreeSet<String> {
    records.payments.iter().map(|payment| payment.id.to_string()).collect()
}
