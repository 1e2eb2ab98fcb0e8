//! The publisher's part of the composition root: events to the topic, and to the endpoints that clients named.
//!
//! The two share a process and nothing else: webhooks have connections of their own, so that a receiver or a backlog
//! of theirs keeps no event from its topic, nor the other way round.

use super::{Process, failed, lost_commits, noting_kafka, usage};
use crate::bucket::{self, topics};
use crate::cli::Ended;
use crate::platform::config;
use crate::platform::health::Readiness;
use crate::platform::shutdown::Shutdown;
use crate::publisher::event::Form;
use crate::publisher::webhooks::{self, Caller, Deliverer, SystemNames};
use crate::publisher::{self, Condition};
use crate::schedule::{Access, Postgres};
use std::sync::Arc;
use tokio::sync::watch;

/// Connections for webhooks: the lane's, the taking, the noting, and one to spare.
const WEBHOOK_POOL: u32 = 4;

/// History to the topic of events and to endpoints, until shutdown.
///
/// # Errors
/// What ended it.
pub async fn publisher(process: Process) -> Result<(), Ended> {
    let health = process.serve_health().await?;
    let kafka = &process.config.kafka;
    require_topics(kafka).await?;
    let Some(schedule) = process.connect(Access::Worker).await? else { return Ok(()) };
    let question = lost_commits::ask_the_events(&process, &schedule).await?;
    let (condition, told) = watch::channel(Condition::default());
    let producer = bucket::Producer::new(kafka, process.clock.clone()).map_err(usage)?;
    let readiness = noting_kafka(process.postgres_is_ready(&schedule), &producer);
    health.started(publishes(readiness, told));
    let settings = &process.config.publisher;
    let publisher = publisher::Publisher {
        holder: process.name(&settings.name),
        lease: settings.lease,
        batch: settings.batch,
        poll: settings.poll,
        form: Form::new(&kafka.topic_prefix, kafka.partitions).sealed(schedule.installation_secret()),
        clock: process.clock.clone(),
        condition,
    };
    let delivers = producer.delivers();
    let topic = lost_commits::Careful { topic: producer, delivers, question };
    let deliverer = deliverer(&process)?;
    let Some(second) = connect_webhooks(&process).await? else { return Ok(()) };
    tracing::info!(holder = publisher.holder, "the publisher works");
    // Whichever ends takes the other with it: a process that does half of its work is restarted by nobody.
    let (trigger, shutdown) = Shutdown::manual();
    let trigger = Arc::new(trigger);
    let (outer, asks) = (process.shutdown.clone(), Arc::clone(&trigger));
    tokio::spawn(async move {
        outer.wait().await;
        asks.stop();
    });
    let events = async {
        let ended = publisher::run(&publisher, &schedule, &topic, &shutdown).await;
        trigger.stop();
        ended
    };
    let hooks = async {
        let ended = webhooks::run(deliverer, &second, &shutdown).await;
        trigger.stop();
        ended
    };
    let ended = process.drained(Box::pin(futures_util::future::join(events, hooks))).await;
    futures_util::future::join(process.leave(&schedule), process.leave(&second)).await;
    let (events, hooks) = ended.unwrap_or((Ok(()), Ok(())));
    events.and(hooks).map_err(failed)
}

fn deliverer(process: &Process) -> Result<Arc<Deliverer>, Ended> {
    let settings = process.config.webhooks.clone();
    let caller = Caller::new(&settings, Arc::new(SystemNames), process.clock.clone()).map_err(failed)?;
    Ok(Arc::new(Deliverer {
        holder: process.name(&process.config.publisher.name),
        lane_lease: process.config.publisher.lease,
        settings,
        clock: process.clock.clone(),
        dice: process.dice.clone(),
        caller,
    }))
}

async fn connect_webhooks(process: &Process) -> Result<Option<Postgres>, Ended> {
    let mut config = process.config.clone();
    config.database.pool = WEBHOOK_POOL.min(config.database.pool);
    process.with(config, process.shutdown.clone()).connect(Access::Worker).await
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
