//! Asks, each thing for a bounded time, and has it judged.

use super::{Check, Finding, Level, PATIENCE, judge, ring};
use crate::bucket;
use crate::bucket::topics::{self, Depth, TopicsError};
use crate::domain::ids::GatewayName;
use crate::gateway::host_and_port;
use crate::platform::clock::{SharedClock, within};
use crate::platform::config::{self, Config};
use crate::schedule::{self, Access, Postgres, ScheduleError};
use chrono::TimeDelta;
use std::time::Duration;
use tokio::net::TcpStream;

/// More notices than that are the same finding.
const MOST: u32 = 1_000;
/// Kafka is asked twice for its topics, the second time for more.
const HALF: Duration = Duration::from_secs(5);
/// For a goodbye to the database.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// One examination with the settings of a role.
pub struct Doctor<'a> {
    /// As a process would start with them.
    pub config: &'a Config,
    /// This host's.
    pub clock: SharedClock,
}

impl Doctor<'_> {
    /// Every check, in their order.
    pub async fn examine(&self) -> Vec<Finding> {
        let (_, warnings) = config::check(self.config);
        let mut found = judge::time_outs(&warnings);
        let (database, kafka, gateway) =
            futures_util::future::join3(self.database(), self.kafka(), self.gateway()).await;
        found.extend(database);
        found.extend(kafka);
        found.push(gateway);
        // What stood in the way of a check is said once; the checks behind it could not look.
        let is_foreign = |finding: &Finding| finding.check == Check::Schema && finding.level == Level::Bad;
        let why = if found.iter().any(is_foreign) {
            "not asked: the schema is not this binary's"
        } else {
            "the database could not be asked"
        };
        for check in Check::ALL {
            if !found.iter().any(|finding| finding.check == *check) {
                found.push(Finding::unseen(*check, why));
            }
        }
        found.sort_by_key(|finding| finding.check);
        found
    }

    async fn database(&self) -> Vec<Finding> {
        if self.config.database.url.is_empty() {
            return vec![Finding::unseen(Check::Database, "database.url is not set")];
        }
        let connecting = schedule::connect(&self.config.database, Access::Worker);
        let schedule = match within(&*self.clock, PATIENCE, connecting).await {
            None => return vec![judge::silent("it did not answer in time")],
            Some(Err(error)) => return judge::not_connected(&error),
            Some(Ok(schedule)) => schedule,
        };
        let mut found = vec![Finding::fine(Check::Schema, "this binary's")];
        match within(&*self.clock, PATIENCE, problems(&schedule, self.config, &self.clock)).await {
            Some(Ok(findings)) => found.extend(findings),
            Some(Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::CommitUnknown(_)))) => {
                found.push(judge::silent(error.to_string()));
            }
            Some(Err(error @ ScheduleError::Defect(_))) => {
                found.push(Finding::unseen(Check::Database, error.to_string()));
            }
            None => found.push(judge::silent("it did not answer in time")),
        }
        // A server that is frozen says no goodbye.
        let _closed = within(&*self.clock, CLOSE_WITHIN, schedule.close()).await;
        found
    }

    async fn kafka(&self) -> Vec<Finding> {
        let behind = |why: &str| [Finding::unseen(Check::Topics, why), Finding::unseen(Check::Workers, why)];
        let kafka = &self.config.kafka;
        if kafka.bootstrap_servers.is_empty() {
            let why = "kafka.bootstrap_servers is not set";
            return [vec![Finding::unseen(Check::Kafka, why)], behind(why).into()].concat();
        }
        let away = |saw: String| {
            let means = "the late scan carries everything, and no event goes out";
            let fix = "start the brokers, or set kafka.bootstrap_servers to where they are";
            [
                vec![Finding::bad(Check::Kafka, saw, means, fix).runbook("KafkaAway")],
                behind("Kafka does not answer").into(),
            ]
            .concat()
        };
        let mut found = vec![Finding::fine(Check::Kafka, "the brokers answer")];
        match self.topics().await {
            Ok(findings) => found.extend(findings),
            Err(error @ TopicsError::Unreachable(_)) => return away(error.to_string()),
            Err(error) => {
                let means = "workers and relays cannot use the topics";
                found.push(Finding::bad(Check::Topics, error.to_string(), means, "what it says"));
            }
        }
        found.push(self.workers().await);
        found
    }

    /// First what every Kafka answers: one that is away is known to be after half of the time.
    async fn topics(&self) -> Result<Vec<Finding>, TopicsError> {
        let kafka = &self.config.kafka;
        let declared = topics::declared(kafka)?.len();
        let in_short = topics::plan(kafka, Depth::NamesAndPartitions, HALF).await?;
        match topics::plan(kafka, Depth::Full, HALF).await {
            Ok(differences) => Ok(ring::topics(&differences, declared)),
            // The stand-in of `punctual dev` is one that does not tell.
            Err(TopicsError::Unreachable(_)) => {
                let mut found = ring::topics(&in_short, declared);
                found.retain(|finding| finding.level != Level::Fine);
                let why = "this Kafka tells no settings; names and partitions are all that was compared";
                found.push(Finding::unseen(Check::Topics, why));
                Ok(found)
            }
            Err(error) => Err(error),
        }
    }

    async fn workers(&self) -> Finding {
        let kafka = self.config.kafka.clone();
        let partitions = kafka.partitions;
        match tokio::task::spawn_blocking(move || bucket::members(&kafka)).await {
            Ok(Ok(members)) => ring::workers(members, partitions),
            Ok(Err(error)) => Finding::unseen(Check::Workers, error.to_string()),
            Err(panicked) => Finding::unseen(Check::Workers, panicked.to_string()),
        }
    }

    /// Only whether a connection can be made: nothing is sent.
    async fn gateway(&self) -> Finding {
        let gateway = &self.config.gateway;
        let Some(place) = host_and_port(gateway) else {
            return Finding::unseen(Check::Gateway, "gateway.url is not set, or is no address");
        };
        let at = format!("{}:{}", place.0, place.1);
        match within(&*self.clock, PATIENCE, TcpStream::connect(place)).await {
            Some(Ok(_)) => {
                Finding::fine(Check::Gateway, format!("{} takes connections at {at}", gateway.name))
            }
            Some(Err(error)) => Finding::bad(
                Check::Gateway,
                format!("{} at {at}: {error}", gateway.name),
                "no charge leaves this host",
                "look at gateway.url, at name resolution, and at the network from this host",
            )
            .runbook("GatewayFails"),
            None => Finding::bad(
                Check::Gateway,
                format!("{} at {at}: no connection in time", gateway.name),
                "no charge leaves this host",
                "look at firewalls and routes from this host",
            )
            .runbook("GatewayFails"),
        }
    }
}

/// What the database knows to be wrong; the first that could not be asked ends it.
///
/// # Errors
/// `Unavailable` or `Defect`.
pub async fn problems(
    schedule: &Postgres,
    config: &Config,
    clock: &SharedClock,
) -> Result<Vec<Finding>, ScheduleError> {
    let before = clock.wall();
    let seen = schedule.durability().await?;
    let after = clock.wall();
    let database_now = seen.database_now;
    // Only what no instant inside the round trip explains.
    let offset = if database_now > after {
        database_now - after
    } else if database_now < before {
        database_now - before
    } else {
        TimeDelta::zero()
    };
    let tolerance = TimeDelta::from_std(config.worker.clock_tolerance).unwrap_or(TimeDelta::MAX);
    let mut found = vec![judge::writable(&seen)];
    found.extend(judge::durability(&seen));
    found.push(judge::lineage(&seen));
    found.push(judge::clock(offset, tolerance));
    let missing = schedule.missing_days(config.database.partition_days_ahead).await?;
    found.push(judge::days(database_now.date_naive(), config.database.partition_days_ahead, &missing));
    found.extend(judge::crew(&schedule.crew().await?, &seen));
    found.extend(judge::overdue(&schedule.backlog(MOST).await?));
    let (standing, thrown) = (schedule.gateways().await?, schedule.kill_switches().await?);
    found.extend(judge::gateways(&standing, &thrown, database_now));
    let configured = GatewayName(config.gateway.name.clone());
    let settles = if config.gateway.settlement_url.is_empty() {
        judge::Settles::Unseen
    } else {
        judge::Settles::ByReports(&configured)
    };
    let standing = schedule.reconciliation_standing().await?;
    found.extend(judge::reconciliation(&standing, settles, database_now));
    Ok(found)
}
