//! `punctual publisher --from`: what was published, published again beside the publisher that leads.
//!
//! Topics with another number of partitions than the settings say are refused before anything is sent: the
//! records would lie where nobody looks for them. The place to go on from is told with every report of progress
//! and with every end that is not the last, so that a run of hours is not begun anew.

use super::{failed, refused, usage};
use crate::bucket::{self, topics};
use crate::cli::{self, Ended, Replay as Asked, ReplayTopic, Since};
use crate::domain::event_type::EventType;
use crate::platform::clock::{Host, SharedClock};
use crate::platform::config::{Config, Kafka};
use crate::platform::exit::Exit;
use crate::platform::shutdown::Shutdown;
use crate::publisher::event::Form;
use crate::publisher::{self, Again, Replay, ReplayFailed, Replayed, Told};
use crate::schedule::{self, Access, ReplaySpan};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Between two reports of progress.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Publishes a span of the history again, or counts it.
///
/// # Errors
/// What ended it, with the place to go on from; [`Exit::Failed`] also when it was asked to stop.
pub async fn replay(asked: Asked, config: Config) -> Result<(), Ended> {
    config.require(&["database.url", "kafka.bootstrap_servers"])?;
    if let (Some(Since::Instant(from)), Some(to)) = (asked.from, asked.to)
        && from >= to
    {
        return Err(usage("--to must be later than --from"));
    }
    let shutdown = Shutdown::on_signals()?;
    let clock: SharedClock = Arc::new(Host);
    let told = match asked.topic {
        ReplayTopic::Events => Told::Events,
        ReplayTopic::Parked => Told::Parked,
        ReplayTopic::All => Told::Everything,
    };
    let form = Form::new(&config.kafka.topic_prefix, config.kafka.partitions);
    require(&config.kafka, &form, told).await?;
    let schedule = schedule::connect(&config.database, Access::Worker).await.map_err(refused)?;
    let from = match asked.from {
        Some(Since::Instant(from)) => Some(from),
        Some(Since::Beginning) | None => None,
    };
    let wanted = Replay {
        span: ReplaySpan { from, to: asked.to, payment: asked.payment },
        after: asked.after.clone(),
        told,
        rate: asked.rate,
        batch: config.publisher.batch,
        form: form.sealed(schedule.installation_secret()).again(),
        clock: clock.clone(),
    };
    let producer = bucket::Producer::new(&config.kafka, clock.clone()).map_err(usage)?;
    let topic = (!asked.dry_run).then_some(&producer);
    let mut told_at = clock.mono().0;
    let progress = |again: &Again, at: &schedule::ReplayPlace| {
        let now = clock.mono().0;
        if now.saturating_sub(told_at) >= TOLD_EVERY {
            told_at = now;
            tracing::info!(rows = again.rows, %at, "the replay goes on");
        }
    };
    let done = publisher::replay(&wanted, &schedule, topic, &shutdown, progress).await;
    schedule.close().await;
    let done = done.map_err(broken_off)?;
    cli::print(&asked.output.shown(|| as_table(&done.again), || as_json(&done, asked.dry_run)))?;
    match done.stopped_at {
        None => Ok(()),
        Some(at) => Err(Ended::with(Exit::Failed, format!("stopped; the same with --after {at} goes on"))),
    }
}

fn broken_off(error: ReplayFailed) -> Ended {
    let way_on = error.at().map(|at| format!("; the same with --after {at} goes on")).unwrap_or_default();
    match error {
        ReplayFailed::Elsewhere(_) => usage(error),
        ReplayFailed::NothingYet => Ended::with(Exit::Conflict, error.to_string()),
        ReplayFailed::Read { .. } | ReplayFailed::Bound(_) | ReplayFailed::NotAcknowledged { .. } => {
            failed(format!("{error}{way_on}"))
        }
    }
}

/// The topics that are written to must be there, and every topic must have the partitions that the settings say.
async fn require(kafka: &Kafka, form: &Form, told: Told) -> Result<(), Ended> {
    let missing = match topics::check(kafka, topics::Depth::NamesAndPartitions).await {
        Ok(topics::Ready::All) => return Ok(()),
        Ok(topics::Ready::Missing(missing)) => missing,
        Err(error @ topics::TopicsError::WrongPartitions(_)) => return Err(usage(error)),
        Err(error) => return Err(failed(error)),
    };
    let wanted = match told {
        Told::Everything => vec![&form.topic, &form.parked],
        Told::Events => vec![&form.topic],
        Told::Parked => vec![&form.parked],
    };
    match wanted.into_iter().find(|topic| missing.contains(topic)) {
        None => Ok(()),
        Some(topic) => Err(Ended::with(
            Exit::NotFound,
            format!("the topic {topic} is missing; `punctual topics rebuild` makes and fills it"),
        )),
    }
}

pub(super) fn as_table(again: &Again) -> String {
    let mut table = String::new();
    for (kind, count) in &again.events {
        // Writing to a String does not fail.
        let _ = writeln!(table, "{}\t{count}", kind.as_str());
    }
    let _ = writeln!(table, "announcements\t{}", again.announcements);
    table
}

pub(super) fn counts(again: &Again) -> Map<String, Value> {
    let of = |kind: &EventType| again.events.get(kind).copied().unwrap_or_default();
    EventType::ALL.iter().map(|kind| (kind.as_str().to_owned(), json!(of(kind)))).collect()
}

fn as_json(done: &Replayed, dry_run: bool) -> Value {
    json!({
        "dryRun": dry_run,
        "rows": done.again.rows,
        "events": counts(&done.again),
        "announcements": done.again.announcements,
        "stoppedAt": done.stopped_at.as_ref().map(ToString::to_string),
    })
}
