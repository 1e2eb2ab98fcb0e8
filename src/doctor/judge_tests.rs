//! Each judgement on what is broken, and on what is not.

use super::super::Level;
use super::*;
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
        keeper_seen_at: Some(now()),
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
    assert!(found[0].fix.contains("restart every process"), "open sessions keep the old value: {found:?}");
}

#[test]
fn a_commit_that_does_not_wait_for_a_standby_counts_where_one_is_named() {
    let of = |commit: &str, standbys: &str| {
        let (synchronous_commit, standbys) = (commit.to_owned(), standbys.to_owned());
        durability(&Durability { synchronous_commit, standbys, ..server() })
    };
    let level = |commit, standbys| levels(&of(commit, standbys));
    for commit in ["on", "remote_apply", "local", "remote_write"] {
        assert_eq!(level(commit, ""), [Level::Fine], "{commit}: there is no standby");
    }
    assert_eq!(level("on", "ANY 1 (b, c)"), [Level::Fine]);
    assert_eq!(level("remote_apply", "b"), [Level::Fine]);
    assert_eq!(level("local", "b"), [Level::Bad]);
    assert_eq!(level("off", "b"), [Level::Bad]);
    assert_eq!(level("remote_write", "b"), [Level::Warn]);
    assert_eq!(of("local", "b")[0].saw, "synchronous_commit = local, and synchronous_standby_names = b");
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
        found.saw.starts_with("nothing is charged since 2026-11-29 ")
            && found.saw.ends_with("ahead of its row"),
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
        days(today, 370, &missing).level
    };
    assert_eq!(of(&[]), Level::Fine);
    assert_eq!(of(&[370]), Level::Fine);
    assert_eq!(of(&[369, 370]), Level::Warn);
    assert_eq!(of(&[5]), Level::Warn);
    assert_eq!(of(&[200]), Level::Warn, "a hole in the middle is none that the next hour fills");
    assert_eq!(of(&[369]), Level::Warn);
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
    let found = crew(&whole, &server());
    assert_eq!(levels(&found), [Level::Fine]);
    assert!(found[0].saw.starts_with("a relay, ") && found[0].saw.contains("the check workers"), "{found:?}");
    let silent = Durability { keeper_seen_at: Some(now() - TimeDelta::seconds(61)), ..server() };
    let found = crew(&whole, &silent);
    assert_eq!(levels(&found), [Level::Bad]);
    assert!(found[0].saw.contains("2026-11-29 ") && found[0].fix.contains("`punctual keeper`"), "{found:?}");
    let heard = Durability { keeper_seen_at: Some(now() - TimeDelta::seconds(60)), ..server() };
    assert_eq!(levels(&crew(&whole, &heard)), [Level::Fine]);
    assert_eq!(levels(&crew(&whole, &Durability { keeper_seen_at: None, ..server() })), [Level::Bad]);
    let held = Durability { lineage: Lineage::Quarantined, ..silent };
    assert_eq!(levels(&crew(&whole, &held)), [Level::Fine], "in quarantine no keeper gives a sign");
    let found = crew(&Crew { relays: vec![], publishers: vec![], ..whole }, &server());
    assert_eq!(levels(&found), [Level::Bad; 2]);
    assert!(found[0].fix.contains("`punctual relay`"), "{found:?}");
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
    assert_eq!(levels(&gateways(&[gateway()], &[], now())), [Level::Fine]);
    let mut open = Pace::new(now());
    open.breaker = Breaker::Open { until: now() };
    let of = |gateway| levels(&gateways(&[gateway], &[], now()));
    assert_eq!(of(GatewayStanding { pace: Some(open.clone()), ..gateway() }), [Level::Bad]);
    open.cause = Some("our credentials were refused (HTTP 401)".into());
    let told = gateways(&[GatewayStanding { pace: Some(open.clone()), ..gateway() }], &[], now());
    assert_eq!(told[0].saw, "sandbox: the breaker is open: our credentials were refused (HTTP 401)");
    open.breaker = Breaker::Probing { worker: WorkerName("w".into()), until: now() };
    assert_eq!(of(GatewayStanding { pace: Some(open), ..gateway() }), [Level::Bad]);
    let paused = |minutes| {
        let at = now() - TimeDelta::minutes(minutes);
        let paused = PausedBy { by: Operator("ann".into()), reason: "maintenance".into(), at };
        GatewayStanding { paused: Some(paused), ..gateway() }
    };
    assert_eq!(of(paused(60)), [Level::Warn]);
    let forgotten = gateways(&[paused(61)], &[], now());
    assert_eq!(levels(&forgotten), [Level::Bad]);
    assert!(forgotten[0].saw.contains("ann") && forgotten[0].saw.contains("maintenance"), "{forgotten:?}");
    assert!(forgotten[0].fix.contains("`punctual gateway resume sandbox --reason"), "{forgotten:?}");
}

#[test]
fn a_switch_on_a_currency_or_a_client_is_told_with_who_threw_it_and_what_ends_it() {
    let thrown = |kind, value: &str, minutes| ThrownSwitch {
        switch: Switch { kind, value: value.into() },
        actor_name: (kind == SwitchKind::Actor).then(|| "shop".into()),
        by: Operator("ann".into()),
        reason: "a wrong price list".into(),
        at: now() - TimeDelta::minutes(minutes),
    };
    let of = |switch| gateways(&[gateway()], &[switch], now());
    let found = of(thrown(SwitchKind::Currency, "EUR", 60));
    assert_eq!(levels(&found), [Level::Warn]);
    assert!(
        found[0].saw.starts_with("currency EUR: ")
            && found[0].saw.contains("thrown by ann since 2026-11-29 ")
    );
    assert!(found[0].saw.ends_with("a wrong price list"), "{found:?}");
    assert!(found[0].fix.contains("`punctual switch off currency EUR --reason"), "{found:?}");
    let id = "0189f0c0-0000-7000-8000-000000000001";
    let found = of(thrown(SwitchKind::Actor, id, 61));
    assert_eq!(levels(&found), [Level::Bad], "an hour ago: forgotten");
    assert!(
        found[0].saw.contains("(shop)") && found[0].fix.contains(&format!("off actor {id}")),
        "{found:?}"
    );
    // Those that close a gateway are told with the gateway.
    let closed = Switches::of([Switch { kind: SwitchKind::Gateway, value: "sandbox".into() }]);
    let gateway = GatewayStanding { switches: closed, ..gateway() };
    let found = gateways(&[gateway], &[thrown(SwitchKind::Gateway, "sandbox", 1)], now());
    assert_eq!(levels(&found), [Level::Bad]);
}

#[test]
fn a_stale_reconciliation_counts_where_reports_can_be_had_and_open_differences_always() {
    let today = now().date_naive();
    let standing = |days: Option<i64>, open: i64| ReconciliationStanding {
        sums_apart: 0,
        gateway: GatewayName("sandbox".into()),
        // Whichever day it was: it was compared just now.
        last_success_at: Some(now()),
        last_day: days.map(|days| today - TimeDelta::days(days)),
        open: [(crate::domain::matching::Class::MissingHere, open)].into(),
        waiting: 0,
    };
    let of = |days, open, settles| levels(&reconciliation(&[standing(days, open)], settles, now()));
    let name = GatewayName("sandbox".into());
    assert_eq!(of(Some(1), 0, Settles::ByReports(&name)), [Level::Fine]);
    assert_eq!(of(Some(2), 0, Settles::ByReports(&name)), [Level::Fine], "yesterday's report may come today");
    assert_eq!(of(Some(3), 0, Settles::ByReports(&name)), [Level::Warn]);
    assert_eq!(of(None, 0, Settles::ByReports(&name)), [Level::Warn]);
    let old = reconciliation(&[standing(Some(9), 0)], Settles::ByReports(&name), now());
    let (last, first) = (today - TimeDelta::days(9), today - TimeDelta::days(8));
    assert!(old[0].saw.ends_with(&last.to_string()), "{old:?}");
    assert!(
        old[0].fix.starts_with(&format!("`punctual reconcile run --gateway sandbox --day {first}`")),
        "{old:?}"
    );
    let never = reconciliation(&[], Settles::ByReports(&name), now());
    assert_eq!(levels(&never), [Level::Warn]);
    let yesterday = today - TimeDelta::days(1);
    assert!(never[0].saw.ends_with("none") && never[0].fix.contains(&yesterday.to_string()), "{never:?}");
    assert_eq!(of(None, 0, Settles::Unseen), [Level::Fine]);
    assert_eq!(of(Some(1), 2, Settles::Unseen), [Level::Bad]);
}

#[test]
fn what_does_not_connect_is_bad_and_says_what_is_known() {
    let away = not_connected(&ConnectError::Unreachable("no route".into()));
    assert_eq!(levels(&away), [Level::Bad]);
    assert_eq!(levels(&[silent("it did not answer in time")]), [Level::Bad]);
    let behind = not_connected(&ConnectError::SchemaOlder { missing: 2, first: 1 });
    assert_eq!(levels(&behind), [Level::Bad, Level::Fine]);
    assert_eq!([behind[0].check, behind[1].check], [Check::Schema, Check::Database], "it answered");
    let absent = not_connected(&ConnectError::Refused("database \"x\" does not exist".into()));
    assert!(absent[0].fix.contains("CREATE DATABASE"), "{absent:?}");
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
