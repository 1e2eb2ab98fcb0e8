//! Each judgement on what is broken, and on what is not.

use super::super::Level;
use super::*;
use crate::bucket::topics;
use crate::domain::ids::{GatewayName, Operator, WorkerName};
use crate::domain::pace::Pace;
use crate::domain::switches::Switches;
use crate::platform::alerts::alerts;
use crate::platform::config::{self, Config, Inputs};

use crate::schedule::{OpenStates, PausedBy, PublisherSeen, RelaySeen};
use std::time::Duration;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_960_020, 0).unwrap()
}

fn config(sets: &[&str]) -> Config {
    let sets = sets.iter().map(|text| (*text).to_owned()).collect();
    config::load(&Inputs { sets, ..Inputs::default() }).unwrap().config
}

fn levels(found: &[Finding]) -> Vec<Level> {
    for finding in found {
        let says_what_to_do = !finding.means.is_empty() && !finding.fix.is_empty();
        assert_eq!(says_what_to_do, finding.level != Level::Fine, "{finding:?}");
        assert!(!finding.saw.is_empty(), "{finding:?}");
        let leads_on = finding.runbook.is_none_or(|name| alerts().any(|alert| alert.name == name));
        assert!(leads_on && (finding.level != Level::Fine || finding.runbook.is_none()), "{finding:?}");
    }
    found.iter().map(|finding| finding.level).collect()
}

fn server() -> Durability {
    Durability {
        database_now: now(),
        synchronous_commit: "on".into(),
        fsync: "on".into(),
        full_page_writes: "on".into(),
        standbys: String::new(),
        is_standby: false,
        lineage: Lineage::Released,
        quarantine: None,
    }
}

#[test]
fn a_commit_that_does_not_wait_for_the_disk_is_bad() {
    assert_eq!(levels(&durability(&server())), [Level::Fine]);
    let off = Durability { synchronous_commit: "off".into(), ..server() };
    let found = durability(&off);
    assert_eq!(levels(&found), [Level::Bad]);
    assert!(found[0].fix.contains("synchronous_commit = on"), "{found:?}");
    let unsafe_twice = Durability { fsync: "off".into(), full_page_writes: "off".into(), ..server() };
    assert_eq!(levels(&durability(&unsafe_twice)), [Level::Warn, Level::Warn]);
    assert_eq!(
        levels(&durability(&Durability { synchronous_commit: "remote_apply".into(), ..server() })),
        [Level::Fine]
    );
}

#[test]
fn a_standby_cannot_be_written_to_and_a_quarantine_says_since_when_and_why() {
    assert_eq!(levels(&[writable(&server())]), [Level::Fine]);
    assert_eq!(levels(&[writable(&Durability { is_standby: true, ..server() })]), [Level::Bad]);
    assert_eq!(levels(&[lineage(&server())]), [Level::Fine]);
    let held = Durability {
        lineage: Lineage::Quarantined,
        quarantine: Some((now(), "a notice is ahead of its row".into())),
        ..server()
    };
    let found = lineage(&held);
    assert_eq!(found.level, Level::Bad);
    assert!(
        found.saw.starts_with("since 2026-11-29 ") && found.saw.ends_with("ahead of its row"),
        "{found:?}"
    );
    let restored = Durability { lineage: Lineage::Quarantined, ..server() };
    assert!(lineage(&restored).saw.contains("timeline"));
}

#[test]
fn a_clock_is_judged_by_what_the_workers_tolerate() {
    let tolerance = TimeDelta::milliseconds(500);
    let of = |ms| clock(TimeDelta::milliseconds(ms), tolerance).level;
    assert_eq!(
        [of(0), of(100), of(-101), of(500), of(501), of(-700)],
        [Level::Fine, Level::Fine, Level::Warn, Level::Warn, Level::Bad, Level::Bad]
    );
    let saw = |ms| clock(TimeDelta::milliseconds(ms), tolerance).saw;
    assert_eq!(saw(-700), "the database is 700 ms behind this host");
    assert_eq!(saw(501), "the database is 501 ms ahead of this host");
}

#[test]
fn a_hole_in_the_days_is_bad_when_it_is_near_and_the_newest_day_may_be_missing() {
    let today = now().date_naive();
    let of = |ahead: &[i64]| {
        let missing: Vec<NaiveDate> = ahead.iter().map(|day| today + TimeDelta::days(*day)).collect();
        days(today, &missing).level
    };
    assert_eq!(of(&[]), Level::Fine);
    assert_eq!(of(&[370]), Level::Fine);
    assert_eq!(of(&[369, 370]), Level::Warn);
    assert_eq!(of(&[5]), Level::Warn);
    assert_eq!(of(&[2, 370]), Level::Bad);
    assert_eq!(of(&[0]), Level::Bad);
}

#[test]
fn absent_roles_are_told_by_name() {
    let relay =
        RelaySeen { holder: "r1".into(), partitions: 2, residues: vec![0, 1], since: now(), until: now() };
    let whole = Crew {
        taken_at: now(),
        workers: vec![],
        relays: vec![relay],
        publishers: vec![PublisherSeen { holder: "p1".into(), epoch: 1, until: now() }],
    };
    assert_eq!(levels(&crew(&whole)), [Level::Fine]);
    let found = crew(&Crew { relays: vec![], publishers: vec![], ..whole });
    assert_eq!(levels(&found), [Level::Bad; 2]);
    assert!(found[0].fix.contains("`punctual relay`"), "{found:?}");
}

#[test]
fn a_group_without_workers_is_bad_and_one_with_more_than_partitions_a_warning() {
    let of = |members| workers(members, 2).level;
    assert_eq!([of(0), of(1), of(2), of(3)], [Level::Bad, Level::Fine, Level::Fine, Level::Warn]);
    assert_eq!(workers(3, 2).saw, "3 in the group, 2 partitions a topic");
}

#[test]
fn what_waits_for_longer_than_a_minute_is_bad() {
    let backlog = |due_s, lease_s| Backlog {
        oldest_due: vec![(GatewayName("sandbox".into()), Duration::from_secs(due_s))],
        unpublished_due: 0,
        days_ahead: 10,
        oldest_open_day_age: 2,
        open: OpenStates { lease_overdue: Duration::from_secs(lease_s), ..OpenStates::default() },
    };
    assert_eq!(levels(&overdue(&backlog(60, 60))), [Level::Fine]);
    assert_eq!(levels(&overdue(&backlog(61, 0))), [Level::Bad]);
    assert_eq!(levels(&overdue(&backlog(61, 61))), [Level::Bad, Level::Bad]);
}

fn gateway() -> GatewayStanding {
    GatewayStanding {
        name: GatewayName("sandbox".into()),
        account: "a".into(),
        voids_by_key: false,
        offers_refunds: false,
        paused: None,
        rate_limit: None,
        pace: Some(Pace::new(now())),
        switches: Switches::default(),
        in_flight: 0,
        now: now(),
    }
}

#[test]
fn an_open_breaker_is_bad_and_a_pause_once_it_is_an_hour_old() {
    assert_eq!(levels(&gateways(&[gateway()])), [Level::Fine]);
    let mut open = Pace::new(now());
    open.breaker = Breaker::Open { until: now() };
    assert_eq!(levels(&gateways(&[GatewayStanding { pace: Some(open.clone()), ..gateway() }])), [Level::Bad]);
    open.breaker = Breaker::Probing { worker: WorkerName("w".into()), until: now() };
    assert_eq!(levels(&gateways(&[GatewayStanding { pace: Some(open), ..gateway() }])), [Level::Bad]);
    let paused = |minutes| {
        let at = now() - TimeDelta::minutes(minutes);
        let paused = PausedBy { by: Operator("ann".into()), reason: "maintenance".into(), at };
        GatewayStanding { paused: Some(paused), ..gateway() }
    };
    assert_eq!(levels(&gateways(&[paused(60)])), [Level::Warn]);
    let forgotten = gateways(&[paused(61)]);
    assert_eq!(levels(&forgotten), [Level::Bad]);
    assert!(forgotten[0].saw.contains("ann") && forgotten[0].saw.contains("maintenance"), "{forgotten:?}");
}

#[test]
fn a_stale_reconciliation_counts_where_reports_can_be_had_and_open_differences_always() {
    let standing = |hours: Option<i64>, open: i64| ReconciliationStanding {
        sums_apart: 0,
        gateway: GatewayName("sandbox".into()),
        last_success_at: hours.map(|hours| now() - TimeDelta::hours(hours)),
        last_day: None,
        open: [(crate::domain::matching::Class::MissingHere, open)].into(),
        waiting: 0,
    };
    let of = |hours, open, settles| levels(&reconciliation(&[standing(hours, open)], settles, now()));
    let name = GatewayName("sandbox".into());
    assert_eq!(of(Some(48), 0, Settles::ByReports(&name)), [Level::Fine]);
    assert_eq!(of(Some(49), 0, Settles::ByReports(&name)), [Level::Warn]);
    assert_eq!(of(None, 0, Settles::ByReports(&name)), [Level::Warn]);
    let never = reconciliation(&[], Settles::ByReports(&name), now());
    assert_eq!(levels(&never), [Level::Warn]);
    assert!(never[0].saw.ends_with("never"), "{never:?}");
    assert_eq!(of(None, 0, Settles::Unseen), [Level::Fine]);
    assert_eq!(of(Some(1), 2, Settles::Unseen), [Level::Bad]);
}

#[test]
fn a_topic_that_differs_is_named_with_what_mends_it() {
    assert_eq!(levels(&topics(&[])), [Level::Fine]);
    let declared = topics::declared(&config(&[]).kafka).unwrap();
    let found = topics(&[
        Difference::Missing(declared[0].clone()),
        Difference::Partitions { topic: "t".into(), wanted: 12, found: 3 },
        Difference::Replication { topic: "t".into(), wanted: 3, found: 1 },
        Difference::Setting {
            topic: "t".into(),
            name: "cleanup.policy".into(),
            wanted: "delete".into(),
            found: None,
        },
    ]);
    assert_eq!(levels(&found), [Level::Bad, Level::Bad, Level::Warn, Level::Warn]);
    assert!(found[0].saw.contains(&declared[0].name) && found[0].fix.contains("topics apply"), "{found:?}");
}

#[test]
fn risky_settings_are_told_again() {
    let risky = config(&["worker.clock_tolerance=2s"]);
    let (_, warnings) = config::check(&risky);
    let found = time_outs(&warnings);
    assert!(found.iter().any(|finding| finding.saw.contains("worker.clock_tolerance = 2s")), "{found:?}");
    assert!(levels(&found).iter().all(|level| *level == Level::Warn));
    assert_eq!(levels(&time_outs(&[])), [Level::Fine]);
}
