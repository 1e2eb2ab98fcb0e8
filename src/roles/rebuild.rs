//! `punctual topics rebuild`: Kafka filled again from the database, by one command.
//!
//! **The order.** Topics first, then the ring, since money waits for it, then events and announcements. Each part
//! can be repeated: a notice too many is refused by the claim, readers of events remove repetitions by `id`, and
//! an announcement only says where to look.
//!
//! **If this dies**, nothing is lost: payments that are late are claimed straight from the database, and the
//! publishers go on with the events from where the cursor stands. Run it again for the rest.

use super::replay::counts;
use super::{failed, refused, usage};
use crate::bucket::survey::skipped;
use crate::bucket::{self, topics};
use crate::cli::{self, Ended, Rebuild, RebuildPart};
use crate::platform::clock::{Host, SharedClock};
use crate::platform::config::{Config, Kafka};
use crate::platform::exit::Exit;
use crate::platform::shutdown::Shutdown;
use crate::publisher::event::Form;
use crate::publisher::{self, CatchUp, Rebuilt, Replay, ReplayFailed, Told};
use crate::schedule::{self, Access, Postgres, ReplaySpan};
use chrono::{DateTime, TimeDelta};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The lane's lease while its events go out again: longer than a pass waits for Kafka.
const LEASE: Duration = Duration::from_secs(120);
/// Payments looked at, and announced, at once.
const PAGE: u32 = 1_000;
/// Between two reports of progress.
const TOLD_EVERY: Duration = Duration::from_secs(5);

struct Work {
    asked: Rebuild,
    config: Config,
    schedule: Postgres,
    producer: bucket::Producer,
    form: Form,
    clock: SharedClock,
    shutdown: Shutdown,
}

/// Makes what is missing and fills it.
///
/// # Errors
/// [`Exit::Usage`] where a topic cannot be used, [`Exit::Conflict`] where offsets of topics that are gone would skip
/// records; otherwise what failed.
pub async fn rebuild(asked: Rebuild, config: Config) -> Result<(), Ended> {
    config.require(&["database.url", "kafka.bootstrap_servers"])?;
    let clock: SharedClock = Arc::new(Host);
    let shutdown = Shutdown::on_signals()?;
    let mut done = Map::from_iter([("dryRun".to_owned(), json!(asked.dry_run))]);
    done.insert("topicsMade".to_owned(), json!(make_topics(&asked, &config, &clock).await?));
    if asked.wants(RebuildPart::Ring) && !asked.dry_run {
        refuse_stale_offsets(&config.kafka).await?;
    }
    let schedule = schedule::connect(&config.database, Access::Worker).await.map_err(refused)?;
    let work = Work {
        form: Form::new(&config.kafka.topic_prefix, config.kafka.partitions)
            .sealed(schedule.installation_secret()),
        producer: bucket::Producer::new(&config.kafka, clock.clone()).map_err(usage)?,
        asked,
        config,
        schedule,
        clock,
        shutdown,
    };
    let filled = work.fill(&mut done).await;
    work.schedule.close().await;
    // What was done is said also where the rest failed.
    let table = || done.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect();
    cli::print(&work.asked.output.shown(table, || Value::Object(done.clone())))?;
    filled
}

/// Answers how many were missing.
async fn make_topics(asked: &Rebuild, config: &Config, clock: &SharedClock) -> Result<usize, Ended> {
    let missing = match topics::check(&config.kafka, topics::Depth::NamesAndPartitions).await {
        Ok(topics::Ready::All) => 0,
        Ok(topics::Ready::Missing(missing)) => missing.len(),
        Err(error @ topics::TopicsError::WrongPartitions(_)) => return Err(usage(error)),
        Err(error) => return Err(failed(error)),
    };
    if missing > 0 && !asked.dry_run {
        for left in topics::apply(&config.kafka, clock).await.map_err(failed)? {
            tracing::warn!("topic not as declared: {left}");
        }
    }
    Ok(missing)
}

/// Offsets that were committed in topics of the same names which are gone would skip as many records of the new ones.
async fn refuse_stale_offsets(kafka: &Kafka) -> Result<(), Ended> {
    let asked = kafka.clone();
    let looked = tokio::task::spawn_blocking(move || skipped(&asked)).await.map_err(failed)?;
    let stale = looked.map_err(failed)?;
    if stale == 0 {
        return Ok(());
    }
    let group = &kafka.group;
    let why = format!(
        "the group {group} has committed offsets beyond the end of {stale} partitions, of topics that are gone; give \
         the workers another kafka.group and the ring another kafka.topic_prefix"
    );
    Err(Ended::with(Exit::Conflict, why))
}

impl Work {
    async fn fill(&self, done: &mut Map<String, Value>) -> Result<(), Ended> {
        if self.asked.wants(RebuildPart::Ring) {
            done.insert("notices".to_owned(), json!(self.notices().await?));
        }
        if self.asked.wants(RebuildPart::Events) {
            let events = if self.asked.dry_run { self.count_events().await? } else { self.events().await? };
            done.insert("events".to_owned(), events);
        }
        if self.asked.wants(RebuildPart::Parked) {
            done.insert("announcements".to_owned(), json!(self.announcements().await?));
        }
        Ok(())
    }

    /// What falls due soon and is in no outbox goes there again; relays publish it.
    async fn notices(&self) -> Result<u64, Ended> {
        let mut written = 0;
        for gateway in self.schedule.gateways().await.map_err(failed)? {
            let mut after = None;
            loop {
                self.still_wanted()?;
                let found = self.schedule.unnoticed(&gateway.name, after, PAGE).await.map_err(failed)?;
                written += match self.asked.dry_run {
                    true => u64::try_from(found.payments.len()).unwrap_or(u64::MAX),
                    false => self.schedule.notice_again(&found.payments).await.map_err(failed)?,
                };
                after = found.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(written)
    }

    async fn count_events(&self) -> Result<Value, Ended> {
        let all = Replay {
            span: ReplaySpan { from: None, to: None, payment: None },
            after: None,
            told: Told::Events,
            rate: self.asked.rate,
            batch: self.config.publisher.batch,
            form: self.form.clone(),
            clock: self.clock.clone(),
        };
        let counted =
            publisher::replay(&all, &self.schedule, None::<&bucket::Producer>, &self.shutdown, |_, _| {})
                .await;
        match counted {
            Ok(counted) => Ok(Value::Object(counts(&counted.again))),
            Err(ReplayFailed::NothingYet) => Ok(json!({})),
            Err(error) => Err(failed(error)),
        }
    }

    /// As the leader, from the oldest row to the newest; answers how many.
    async fn events(&self) -> Result<Value, Ended> {
        let holder = format!("rebuild-{}", std::process::id());
        let lease = self.schedule.start_over(&holder, LEASE).await.map_err(failed)?;
        let bound = self.schedule.replay_bound().await.map_err(failed)?;
        let how = CatchUp {
            lease: &lease,
            length: LEASE,
            // What is announced twice does no harm.
            announce_from: bound
                .map_or(DateTime::UNIX_EPOCH, |bound| bound.database_now - TimeDelta::hours(1)),
            batch: self.config.publisher.batch,
            rate: self.asked.rate,
            form: &self.form,
            clock: &self.clock,
        };
        let (mut out, mut told_at) = (0, self.clock.mono().0);
        let progress = |published| {
            out = published;
            let now = self.clock.mono().0;
            if now.saturating_sub(told_at) >= TOLD_EVERY {
                told_at = now;
                tracing::info!(published, "events go out again");
            }
        };
        let ended = publisher::catch_up(&how, &self.schedule, &self.producer, &self.shutdown, progress).await;
        // Given back in every case, so that publishers go on at once and not at the lease's end.
        let given_back = self.schedule.release_publisher(&lease).await;
        match ended {
            Ok(Rebuilt::All) => {
                given_back.map_err(failed)?;
                Ok(json!(out))
            }
            Ok(Rebuilt::Stopped) => Err(stopped()),
            Err(error) => Err(failed(format!("{error}; publishers go on with the events from there"))),
        }
    }

    async fn announcements(&self) -> Result<u64, Ended> {
        let (mut announced, mut after) = (0, None);
        loop {
            self.still_wanted()?;
            let found = self.schedule.still_parked(after, PAGE).await.map_err(failed)?;
            announced += match self.asked.dry_run {
                true => u64::try_from(found.rows.len()).unwrap_or(u64::MAX),
                false => publisher::announce_again(&self.producer, &self.form, &found.rows)
                    .await
                    .map_err(failed)?,
            };
            after = found.next;
            if after.is_none() {
                return Ok(announced);
            }
        }
    }

    fn still_wanted(&self) -> Result<(), Ended> {
        if self.shutdown.is_asked() { Err(stopped()) } else { Ok(()) }
    }
}

fn stopped() -> Ended {
    Ended::with(Exit::Failed, "stopped; publishers go on with the events, run it again for the rest")
}
