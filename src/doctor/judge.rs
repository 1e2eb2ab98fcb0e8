//! What was seen, judged: no I/O and no clock.

use super::{Check, Finding};
use crate::domain::guard::Lineage;
use crate::domain::ids::GatewayName;
use crate::domain::pace::Breaker;
use crate::domain::switches::{Switch, SwitchKind};
use crate::platform::config::Problem;
use crate::schedule::{
    Backlog, ConnectError, Crew, Durability, GatewayStanding, ReconciliationStanding, ThrownSwitch,
};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

/// The late scan takes what is 15 s overdue.
const OVERDUE_WARN_S: u64 = 60;
/// Differently from an outage, a pause of this length was probably forgotten.
const FORGOTTEN: TimeDelta = TimeDelta::hours(1);
/// Fewer days ahead than this page.
const DAYS_BAD: i64 = 3;
/// Fewer than this should have been made long ago.
const DAYS_WARN: i64 = 7;
/// Half of what stops a worker from claiming by default.
const CLOCK_WARN: TimeDelta = TimeDelta::milliseconds(100);
/// A day's report may come late in the next day: so many days before today, the newest is compared.
const RECONCILED_UNTIL: TimeDelta = TimeDelta::days(2);
/// A session takes the value of a role or a database when it begins, and the doctor's is a new one: what still runs is
/// not seen from here.
const RAISE_COMMITS: &str = "set synchronous_commit = on (postgresql.conf, ALTER ROLE or ALTER DATABASE, wherever it \
     was lowered), then restart every process of ours: open sessions keep the value that they began with";
/// The keeper gives a sign of life every ten seconds.
const KEEPER_SILENT: TimeDelta = TimeDelta::minutes(1);

/// The words of a start, which scroll by.
pub(super) fn time_outs(warnings: &[Problem]) -> Vec<Finding> {
    let means = "a fault that should be harmless may not be";
    let of = |warning: &Problem| {
        Finding::warn(Check::TimeOuts, warning.to_string(), means, "change one of these settings")
    };
    or_fine(warnings.iter().map(of).collect(), Check::TimeOuts, "no risky combination")
}

fn or_fine(found: Vec<Finding>, check: Check, saw: impl Into<String>) -> Vec<Finding> {
    if found.is_empty() { vec![Finding::fine(check, saw)] } else { found }
}

/// Why there is no connection.
pub(super) fn not_connected(error: &ConnectError) -> Vec<Finding> {
    let nothing = "nothing is created, claimed or recorded by processes with these settings";
    let (check, fix) = match error {
        ConnectError::Unreachable(_) => {
            (Check::Database, "start Postgres, or set database.url to where it is")
        }
        ConnectError::BadUrl(_) => {
            (Check::Database, "set database.url to postgres://user:password@host:port/name")
        }
        ConnectError::Refused(_) => (
            Check::Database,
            "a database that does not exist is made by CREATE DATABASE, then `punctual migrate run`, which also grants \
             the rights; a name or a password that is refused stands in database.url",
        ),
        ConnectError::PoolTooLarge { .. } => {
            (Check::Database, "set database.pool lower, or max_connections of the server higher")
        }
        ConnectError::SchemaOlder { .. } => {
            (Check::Schema, "run `punctual migrate run` before the new binary")
        }
        ConnectError::SchemaNewer { .. } => (Check::Schema, "deploy the newer binary everywhere"),
        ConnectError::SchemaChanged { .. } => (
            Check::Schema,
            "deploy the binary that applied it, or restore; never edit a migration that was applied",
        ),
    };
    let mut found = vec![Finding::bad(check, error.to_string(), nothing, fix)];
    if check == Check::Schema {
        found.push(Finding::fine(Check::Database, "it answers"));
    }
    found
}

/// It takes connections, or did, and says nothing.
pub(super) fn silent(saw: impl Into<String>) -> Finding {
    let nothing = "nothing is created, claimed or recorded by processes with these settings";
    let fix = "look at the server: is it frozen, overloaded, or out of connections; or at the network to database.url";
    Finding::bad(Check::Database, saw, nothing, fix)
}

pub(super) fn durability(seen: &Durability) -> Vec<Finding> {
    let mut found: Vec<Finding> = commits(seen).into_iter().collect();
    for (name, value) in [("fsync", &seen.fsync), ("full_page_writes", &seen.full_page_writes)] {
        if value == "off" {
            found.push(Finding::warn(
                Check::Durability,
                format!("{name} = off"),
                "a crash of the machine may corrupt the database; good enough to try things out, never for money",
                format!("set {name} = on in postgresql.conf and restart Postgres"),
            ));
        }
    }
    let standbys = if seen.standbys.is_empty() { "no synchronous standby" } else { seen.standbys.as_str() };
    or_fine(found, Check::Durability, format!("synchronous_commit = {}; {standbys}", seen.synchronous_commit))
}

/// What a COMMIT waits for: our own disk always, and the disk of a standby where one is named (rule R17).
fn commits(seen: &Durability) -> Option<Finding> {
    let saw = format!("synchronous_commit = {}", seen.synchronous_commit);
    let has_standby = !seen.standbys.is_empty();
    let beside = || format!("{saw}, and synchronous_standby_names = {}", seen.standbys);
    let finding = match seen.synchronous_commit.as_str() {
        "off" => Finding::bad(
            Check::Durability,
            saw,
            "a crash loses claims and outcomes that were answered; what was charged is forgotten",
            RAISE_COMMITS,
        ),
        "local" if has_standby => Finding::bad(
            Check::Durability,
            beside(),
            "no COMMIT waits for the standby: once it is promoted, claims and outcomes that were answered are lost",
            RAISE_COMMITS,
        ),
        "remote_write" if has_standby => Finding::warn(
            Check::Durability,
            beside(),
            "the standby has not flushed what was answered: if both machines crash, claims and outcomes are lost",
            RAISE_COMMITS,
        ),
        _ => return None,
    };
    Some(finding)
}

pub(super) fn writable(seen: &Durability) -> Finding {
    if seen.is_standby {
        Finding::bad(
            Check::Database,
            "it is a standby",
            "nothing can be written there",
            "set database.url to the primary; or promote this one, which puts it into quarantine",
        )
    } else {
        Finding::fine(Check::Database, "it answers and can be written to")
    }
}

pub(super) fn lineage(seen: &Durability) -> Finding {
    match seen.lineage {
        Lineage::Released => Finding::fine(Check::Lineage, "released"),
        Lineage::Quarantined => {
            let saw = seen.quarantine.as_ref().map_or_else(
                || {
                    "nothing is charged: another system identifier, timeline, database or table than the released one"
                        .to_owned()
                },
                |(since, why)| format!("nothing is charged since {}: {why}", text_of(*since)),
            );
            Finding::bad(
                Check::Lineage,
                saw,
                "this database may have forgotten charges",
                "reconcile the lost time, then release: `punctual quarantine show` says what is missing",
            )
            .runbook("Quarantined")
        }
    }
}

/// `offset`: how far the database is certainly ahead of this host, whatever the round trip took.
pub(super) fn clock(offset: TimeDelta, tolerance: TimeDelta) -> Finding {
    let way = if offset < TimeDelta::zero() { "behind" } else { "ahead of" };
    let saw = format!("the database is {} ms {way} this host", offset.num_milliseconds().abs());
    let fix = "mend the time service (chronyd, systemd-timesyncd) on this host or the database's";
    if offset.abs() > tolerance {
        Finding::bad(
            Check::Clock,
            saw,
            "workers on this host do not claim: \"due\" must be said by both clocks",
            fix,
        )
        .runbook("ClockSkew")
    } else if offset.abs() > CLOCK_WARN {
        Finding::warn(Check::Clock, saw, "a little more, and workers on this host stop claiming", fix)
            .runbook("ClockSkew")
    } else {
        Finding::fine(Check::Clock, "they agree")
    }
}

/// `missing`: of the days that the settings want, which are today and so many `ahead`.
pub(super) fn days(today: NaiveDate, ahead: u32, missing: &[NaiveDate]) -> Finding {
    let Some(first) = missing.iter().min() else {
        return Finding::fine(Check::Days, "every configured day is made");
    };
    let saw = format!("{} days have no partitions, the first is {first}", missing.len());
    let fix =
        "run `punctual migrate run`, then look why the keeper did not make them (its log; rights; locks)";
    if (*first - today).num_days() < DAYS_BAD {
        Finding::bad(Check::Days, saw, "on such a day nothing can be created, claimed or recorded", fix)
            .runbook("PartitionsEnd")
    } else if missing.len() > 1 || (*first - today).num_days() < i64::from(ahead).max(DAYS_WARN + 1) {
        Finding::warn(Check::Days, saw, "payments due on such a day are refused with schedule_not_ready", fix)
            .runbook("PartitionsEnd")
    } else {
        // The newest day is made within the hour.
        Finding::fine(Check::Days, "every configured day but the newest is made")
    }
}

/// Workers are counted in their group: [`super::ring::workers`].
pub(super) fn crew(crew: &Crew, server: &Durability) -> Vec<Finding> {
    let mut found = Vec::new();
    let late = "payments wait for the late scan: 15 s late, all of them";
    let absent: [(&str, bool, &'static str, &'static str); 2] = [
        ("relay", crew.relays.is_empty(), late, "RelayStalled"),
        ("publisher", crew.publishers.is_empty(), "no event goes out", "PublisherStalled"),
    ];
    for (role, is_absent, means, alert) in absent {
        if is_absent {
            let fix = format!("start one: `punctual {role}`");
            found.push(Finding::bad(Check::Crew, format!("no {role} is at work"), means, fix).runbook(alert));
        }
    }
    found.extend(keeper(server));
    let relays = match crew.relays.len() {
        1 => "a relay".to_owned(),
        more => format!("{more} relays"),
    };
    let saw = format!("{relays}, a publisher that leads, a keeper; the check workers tells of workers");
    or_fine(found, Check::Crew, saw)
}

/// By its signs of life, which it gives while the database is released.
fn keeper(server: &Durability) -> Option<Finding> {
    let last = server.keeper_seen_at;
    let is_heard = last.is_some_and(|at| server.database_now - at <= KEEPER_SILENT);
    if is_heard || server.lineage == Lineage::Quarantined || server.is_standby {
        return None;
    }
    let saw = last.map_or_else(
        || "no keeper has given a sign of life".to_owned(),
        |at| format!("no keeper is at work: the last sign of life is of {}", text_of(at)),
    );
    let means = "nobody asks what became of lost claims, makes days, or compares with the gateways' reports";
    Some(Finding::bad(Check::Crew, saw, means, "start one: `punctual keeper`").runbook("KeeperStalled"))
}

pub(super) fn overdue(backlog: &Backlog) -> Vec<Finding> {
    let late = backlog.oldest_due.iter().filter(|(_, overdue)| overdue.as_secs() > OVERDUE_WARN_S);
    let mut found: Vec<Finding> = late
        .map(|(gateway, overdue)| {
            Finding::bad(
                Check::Overdue,
                format!("{}: the oldest payment is due since {} s", gateway.0, overdue.as_secs()),
                "payments are late",
                "look at crew and gateways; `punctual forecast` says whether more is due than the rate permits",
            )
            .runbook("OldestDue")
        })
        .collect();
    if backlog.open.lease_overdue.as_secs() > OVERDUE_WARN_S {
        found.push(
            Finding::bad(
                Check::Overdue,
                format!("a claim's lease ended {} s ago", backlog.open.lease_overdue.as_secs()),
                "nobody asks what became of it: no keeper works",
                "start one: `punctual keeper`",
            )
            .runbook("LeaseOverdue"),
        );
    }
    or_fine(found, Check::Overdue, format!("nothing has waited for more than {OVERDUE_WARN_S} s"))
}

/// `now`: the database's.
pub(super) fn gateways(
    seen: &[GatewayStanding],
    thrown: &[ThrownSwitch],
    now: DateTime<Utc>,
) -> Vec<Finding> {
    let forgotten = "GatewayForgotten";
    let mut found = Vec::new();
    for gateway in seen {
        let name = &gateway.name.0;
        let open = gateway.pace.as_ref().filter(|pace| match &pace.breaker {
            Breaker::Closed => false,
            Breaker::Open { .. } | Breaker::Probing { .. } => true,
        });
        if let Some(pace) = open {
            let cause = pace.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
            found.push(Finding::bad(
                Check::Gateways,
                format!("{name}: the breaker is open{cause}"),
                "nothing is charged there; what is due waits",
                "401 and 403 are credentials, the rest is an outage of theirs or of the way there; it closes by itself",
            )
            .runbook("BreakerOpen"));
        }
        if let Some(paused) = &gateway.paused {
            let saw =
                format!("{name}: paused by {} since {}: {}", paused.by.0, text_of(paused.at), paused.reason);
            let fix = format!("`punctual gateway resume {name} --reason <TEXT>` when its reason is gone");
            found.push(if gateway.now - paused.at > FORGOTTEN {
                Finding::bad(Check::Gateways, saw, "nothing is charged there, for more than an hour", fix)
                    .runbook(forgotten)
            } else {
                Finding::warn(Check::Gateways, saw, "nothing is charged there", fix).runbook(forgotten)
            });
        }
        if gateway.switches.stops_gateway(&gateway.name) {
            found.push(Finding::bad(
                Check::Gateways,
                format!("{name}: closed by a kill switch"),
                "nothing is charged there",
                "`punctual switch list` says who threw it and why; `punctual switch off` when that is over",
            )
            .runbook(forgotten));
        }
    }
    found.extend(thrown.iter().filter_map(|switch| narrow(switch, now)));
    or_fine(found, Check::Gateways, format!("{} on record, none closed", seen.len()))
}

/// A switch that stops some of a gateway's payments; the wider ones are told with each gateway that they close.
fn narrow(thrown: &ThrownSwitch, now: DateTime<Utc>) -> Option<Finding> {
    let Switch { kind, value } = &thrown.switch;
    let means = match kind {
        SwitchKind::Global | SwitchKind::Gateway => return None,
        SwitchKind::Actor => "nothing of this client is charged",
        SwitchKind::Currency => "nothing in this currency is charged",
    };
    let name = thrown.actor_name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let (kind, since) = (kind.as_str(), text_of(thrown.at));
    let saw = format!(
        "{kind} {value}{name}: kill switch thrown by {} since {since}: {}",
        thrown.by.0, thrown.reason
    );
    let fix = format!("`punctual switch off {kind} {value} --reason <TEXT>` when its reason is gone");
    let finding = if now - thrown.at > FORGOTTEN {
        Finding::bad(Check::Gateways, saw, means, fix)
    } else {
        Finding::warn(Check::Gateways, saw, means, fix)
    };
    Some(finding.runbook("GatewayForgotten"))
}

/// `settles`: the configured gateway has a report to compare with.
pub(super) fn reconciliation(
    seen: &[ReconciliationStanding],
    settles: Settles<'_>,
    now: DateTime<Utc>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Settles::ByReports(name) = settles {
        // One that was never compared does not stand anywhere. When it was compared says nothing: it may have been a
        // day long ago.
        let last =
            seen.iter().find(|standing| standing.gateway == *name).and_then(|standing| standing.last_day);
        let today = now.date_naive();
        if last.is_none_or(|day| day < today - RECONCILED_UNTIL) {
            let first = last.map_or(today - TimeDelta::days(1), |day| day + TimeDelta::days(1));
            let (name, last) = (&name.0, last.map_or_else(|| "none".to_owned(), |day| day.to_string()));
            found.push(
                Finding::warn(
                    Check::Reconciliation,
                    format!("{name}: the newest day that was compared: {last}"),
                    "a charge that we do not know of, or one that is missing there, stays unseen",
                    format!(
                        "`punctual reconcile run --gateway {name} --day {first}`, and so for each day until \
                         yesterday; is a keeper running?"
                    ),
                )
                .runbook("ReconciliationOverdue"),
            );
        }
    }
    for standing in seen {
        let name = &standing.gateway.0;
        let open: i64 = standing.open.values().sum();
        if open > 0 {
            found.push(
                Finding::bad(
                    Check::Reconciliation,
                    format!("{name}: {open} differences that nobody explained"),
                    "our books and the gateway's say different things about money",
                    "`punctual reconcile items`, then repair or dismiss each with its reason",
                )
                .runbook("ReconciliationDiffers"),
            );
        }
    }
    or_fine(found, Check::Reconciliation, "nothing is left open")
}

/// Whether a gateway's reports can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settles<'a> {
    /// Those of this one are fetched each day.
    ByReports(&'a GatewayName),
    /// They are not configured.
    Unseen,
}

fn text_of(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%SZ").to_string()
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
