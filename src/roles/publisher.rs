//! The publisher's part of the composition root.

use super::{Process, failed, usage};
use crate::bucket::{self, topics};
use crate::cli::Ended;
use crate::platform::config;
use crate::platform::health::Readiness;
use crate::publisher::event::Form;
use crate::publisher::{self, Condition};
use crate::schedule::Access;
use tokio::sync::watch;

/// History to the topic of events, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn publisher(process: Process) -> Result<(), Ended> {
    let kafka = &process.config.kafka;
    require_topics(kafka).await?;
    let Some(schedule) = process.connect(Access::Worker).await? else { return Ok(()) };
    let (condition, told) = watch::channel(Condition::default());
    process.serve_health(publishes(process.postgres_is_ready(&schedule), told)).await?;
    let settings = &process.config.publisher;
    let publisher = publisher::Publisher {
        holder: process.name(&settings.name),
        lease: settings.lease,
        batch: settings.batch,
        poll: settings.poll,
        form: Form::new(&kafka.topic_prefix, kafka.partitions),
        clock: process.clock.clone(),
        condition,
    };
    let producer = bucket::Producer::new(kafka, process.clock.clone()).map_err(usage)?;
    tracing::info!(holder = publisher.holder, "the publisher works");
    let ended = publisher::run(&publisher, &schedule, &producer, &process.shutdown).await;
    schedule.close().await;
    ended.map_err(failed)
}

/// A publisher that stands by is as ready as the one that leads; Kafka away makes neither unready, since
/// a restart would not help.
fn publishes(readiness: Readiness, condition: watch::Receiver<Condition>) -> Readiness {
    readiness.with("events", move || {
        let ahead = condition.borrow().is_ahead;
        async move {
            if ahead {
                Err("history of another server waits; raise the epoch of ids".to_owned())
            } else {
                Ok(())
            }
        }
    })
}

/// For roles that only write: topics must be there; Kafka itself may be away.
pub(super) async fn require_topics(kafka: &config::Kafka) -> Result<(), Ended> {
    match topics::check(kafka, topics::Depth::NamesAndPartitions).await {
        Ok(topics::Ready::All) => Ok(()),
        Ok(topics::Ready::Missing(missing)) => {
            let missing = missing.join(", ");
            Err(usage(format!("topics are missing; run `punctual topics apply`: {missing}")))
        }
        Err(error @ topics::TopicsError::Unreachable(_)) => {
            tracing::warn!(%error, "starting without Kafka; it is tried again and again");
            Ok(())
        }
        Err(error) => Err(usage(error)),
    }
}
