//! Asks, each thing for a bounded time, and has it judged.

use super::{Check, Finding, Level, PATIENCE, judge};
use crate::bucket;
use crate::bucket::topics::{self, Depth, Difference, TopicsError};
use crate::domain::ids::GatewayName;
use crate::gateway::host_and_port;
use crate::platform::clock::{SharedClock, within};
use crate::platform::config::{self, Config};
use crate::schedule::{self, Access, Postgres, ScheduleError};
use chrono::TimeDelta;
use tokio::net::TcpStream;

/// More notices than that are the same finding.
const MOST: u32 = 1_000;

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
        for check in Check::ALL {
            if !found.iter().any(|finding| finding.check == *check) {
                found.push(Finding::unseen(*check, "the database could not be asked"));
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
            None => return vec![Finding::unseen(Check::Database, "it did not answer in time")],
            Some(Err(error)) => return judge::not_connected(&error),
            Some(Ok(schedule)) => schedule,
        };
        let mut found = vec![Finding::fine(Check::Schema, "this binary's")];
        match within(&*self.clock, PATIENCE, problems(&schedule, self.config, &self.clock)).await {
            Some(Ok(findings)) => found.extend(findings),
            Some(Err(error)) => found.push(Finding::unseen(Check::Database, error.to_string())),
            None => found.push(Finding::unseen(Check::Database, "it did not answer in time")),
        }
        schedule.close().await;
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
        // Longer than it gives up by itself.
        match within(&*self.clock, PATIENCE * 2, topics::plan(kafka, Depth::Full)).await {
            None => return away("no answer in time".to_owned()),
            Some(Err(error @ TopicsError::Unreachable(_))) => match self.names_and_partitions().await {
                // The stand-in of `punctual dev` is one that does not tell.
                Some(differences) => {
                    found.extend(judge::topics(&differences));
                    found.retain(|finding| finding.check != Check::Topics || finding.level != Level::Fine);
                    let why = "this Kafka tells no settings; names and partitions are all that was compared";
                    found.push(Finding::unseen(Check::Topics, why));
                }
                None => return away(error.to_string()),
            },
            Some(Err(error)) => {
                let means = "workers and relays cannot use the topics";
                found.push(Finding::bad(Check::Topics, error.to_string(), means, "what it says"));
            }
            Some(Ok(differences)) => found.extend(judge::topics(&differences)),
        }
        found.push(self.workers().await);
        found
    }

    /// What can be said of a Kafka that answers, and not every question; `None` if it does not answer.
    async fn names_and_partitions(&self) -> Option<Vec<Difference>> {
        let plan = topics::plan(&self.config.kafka, Depth::NamesAndPartitions);
        within(&*self.clock, PATIENCE, plan).await?.ok()
    }

    async fn workers(&self) -> Finding {
        let kafka = self.config.kafka.clone();
        let partitions = kafka.partitions;
        match tokio::task::spawn_blocking(move || bucket::members(&kafka)).await {
            Ok(Ok(members)) => judge::workers(members, partitions),
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
    found.push(judge::days(database_now.date_naive(), &missing));
    found.extend(judge::crew(&schedule.crew().await?));
    found.extend(judge::overdue(&schedule.backlog(MOST).await?));
    found.extend(judge::gateways(&schedule.gateways().await?));
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
