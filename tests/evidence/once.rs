//! The main job under faults: every payment charged once and not early, by the gateway's own ledger.

use crate::audited::audited;
use crate::figures::{Figures, Holds, Verdict};
use crate::support::mixed::{Crew, EVERY_KIND, FEW_KINDS, Plan, Ran, Trouble, lateness, run};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::audit::{Op, Records};
use punctual::dev::kafka::{Cluster, ClusterOptions};
use punctual::dev::{Durability, artifacts};
use punctual::domain::history::Event;
use punctual::domain::state::{Cause, Status};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After a fault, as long as its traces may be seen: a silent worker's partitions move after 6 s, its
/// claims are asked about after 10 s, and the late scan takes over at 15 s.
const TRACES: TimeDelta = TimeDelta::seconds(16);

/// A small crew: one worker frozen past its lease, later one of the two lost for good.
pub async fn few(figures: &mut Figures) -> Ran {
    let plan = Plan {
        seed: seed(),
        kinds: FEW_KINDS,
        times: 5,
        cancels: 0,
        over: Duration::from_secs(60),
        crew: Crew { apis: 1, relays: 1, workers: 2, publishers: 0 },
        troubles: vec![
            (Duration::from_secs(12), Trouble::WorkerFrozen),
            (Duration::from_secs(40), Trouble::WorkerLost),
        ],
    };
    figures.part(&format!("300 payments over a minute, seed {}: one API and relay, two workers", plan.seed));
    let ran = run(&plan, &[], None).await;
    tell(figures, &plan, &ran, "few");
    let frozen = ran.records.attempts.iter().filter(|attempt| attempt.fenced).count();
    figures.met("late answers fenced", frozen);
    ran
}

/// A whole crew: everything that the sandbox imitates, cancels at the due instant, and a worker, a relay
/// and the broker killed in turn.
pub async fn many(figures: &mut Figures) {
    let home = tempfile::tempdir().expect("a folder");
    let kafka = artifacts::obtain(|_| {}).await.expect("Apache Kafka's artifacts");
    let options = ClusterOptions { brokers: 1, first_port: None, durability: Durability::TestOnly };
    let mut cluster = Cluster::start(&kafka, home.path(), &options).await.expect("a broker");
    let plan = Plan {
        seed: seed(),
        kinds: EVERY_KIND,
        times: 10,
        cancels: 200,
        over: Duration::from_secs(120),
        crew: Crew { apis: 2, relays: 2, workers: 3, publishers: 2 },
        troubles: vec![
            (Duration::from_secs(15), Trouble::WorkerKilled),
            (Duration::from_secs(45), Trouble::RelayKilled),
            (Duration::from_secs(75), Trouble::BrokerKilled),
        ],
    };
    figures.part(&format!(
        "1,000 payments and 200 cancels over two minutes, seed {}: two APIs, relays and publishers, three workers",
        plan.seed
    ));
    let servers = cluster.bootstrap_servers();
    let ran = run(&plan, &[("kafka.bootstrap_servers", &servers)], cluster.brokers.first_mut()).await;
    tell(figures, &plan, &ran, "many");
    let apis = ["api-1", "api-2"].map(|name| ran.site.roles[name].log_text().is_empty());
    figures.holds("both APIs took part", format!("{apis:?}"), "no log is empty", Holds(apis == [false; 2]));
    drop(ran);
    cluster.stop().await;
}

fn seed() -> u64 {
    std::env::var("PUNCTUAL_EVIDENCE_SEED").map_or(1, |seed| seed.parse().expect("a number"))
}

fn tell(figures: &mut Figures, plan: &Plan, ran: &Ran, name: &str) {
    let records = &ran.records;
    let wanted = plan.times * plan.kinds.iter().map(|(_, count)| count).sum::<usize>() + plan.cancels;
    let all = records.payments.len();
    let acknowledged = records.operations.iter().filter(|it| it.op == Op::Create && it.granted());
    let acknowledged: std::collections::BTreeSet<_> = acknowledged.map(|it| it.payment_id).collect();
    let name_of = "payments acknowledged";
    figures.holds(name_of, acknowledged.len(), &wanted.to_string(), Holds(all == wanted));
    states(figures, ran);
    let folder = keep_logs(ran, name);
    let mut required = vec!["fenced_settles", "lease_expiries", "re_asks", "look_ups", "epoch_bumps"];
    required.extend(["hard_declines", "creates_repeated", "reads"]);
    if plan.cancels > 0 {
        // One worker is killed and none frozen here, so no answer comes late.
        required.retain(|name| *name != "fenced_settles");
        required.extend(["cancels_granted", "cancels_refused", "events"]);
    }
    audited(figures, ran, &folder, &required);
    println!("  Situations that the run must have met");
    situations(figures, plan, ran);
    println!("  Lateness of first claims");
    late(figures, ran);
}

/// Below the target folder: what is kept until the next run.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evidence").join(name);
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

/// Every process's own words, and who claimed what how late, stay below the target folder until the next
/// run: what a figure that falls short is looked into with.
fn keep_logs(ran: &Ran, name: &str) -> PathBuf {
    let folder = folder(name);
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
    folder
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

fn situations(figures: &mut Figures, plan: &Plan, ran: &Ran) {
    let records = &ran.records;
    for (kind, _) in plan.kinds {
        let payments = records.payments.iter().filter(|payment| payment.payee == *kind);
        let met = payments.filter(|p| records.ledger.iter().any(|line| line.payment_id == Some(p.id)));
        figures.met(&format!("reached the gateway: {kind}"), met.count());
    }
    let moves = |cause: Cause| records.history.iter().filter(move |t| t.row.event == Event::Moved(cause));
    let unknown = moves(Cause::Settled).filter(|told| told.row.to == Status::Unknown).count();
    figures.met("outcomes unknown after a call", unknown);
    figures.met("leases expired", moves(Cause::LeaseExpired).count());
    let looked_up = records.attempts.iter().filter(|a| a.how.as_deref() == Some("looked_up"));
    figures.met("outcomes found by asking", looked_up.count());
    figures.met("claims under a later epoch's key", records.attempts.iter().filter(|a| a.epoch > 0).count());
    figures.met("claims that the killed worker left open", ran.open_at_kill());
    figures.met("payments delayed by a kill, due after it", ran.taken_over());
}

/// Bounds of the 99th percentile: 2 s in calm; a lease, a silent session and the late scan where something
/// was frozen, killed or away.
fn late(figures: &mut Figures, ran: &Ran) {
    let near = |due: DateTime<Utc>| {
        ran.troubles.iter().find(|it| due >= it.from - TimeDelta::seconds(1) && due < it.until + TRACES)
    };
    let of = |wanted: Option<Trouble>| {
        let which = move |due: &DateTime<Utc>| near(*due).map(|it| it.trouble) == wanted;
        lateness(&ran.records).filter(move |(due, _)| which(due)).map(|(_, late)| late).collect()
    };
    let all: Vec<TimeDelta> = lateness(&ran.records).map(|(_, late)| late).collect();
    spread(figures, "all", all, TimeDelta::seconds(25));
    spread(figures, "due while nothing was wrong", of(None), TimeDelta::seconds(2));
    for it in &ran.troubles {
        let clock = |at: DateTime<Utc>| at.format("%H:%M:%S%.3f").to_string();
        println!("  {:?}: {} from {} to {}", it.trouble, it.whom, clock(it.from), clock(it.until));
        spread(
            figures,
            &format!("due around {:?}", it.trouble),
            of(Some(it.trouble)),
            TimeDelta::seconds(25),
        );
    }
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
