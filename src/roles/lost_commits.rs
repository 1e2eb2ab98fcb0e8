//! Rule R17 for a process that begins: asks the topic of events whether the database is the one that they were
//! published from.
//!
//! **Promises.** A database that lacks the history row of a newest event that this installation sealed is quarantined:
//! a base backup that was started as it is, or a snapshot of a disk, keeps the timeline, and a process that begins
//! remembers nothing of the server's log. A worker asks before it claims; **where Kafka is away** due payments do not
//! wait for it, and it is asked again and again until it has answered once. A publisher publishes nothing before: what
//! it publishes would stand behind what was lost, and hide it. **Relies on** events being published after their rows are
//! durable, and on history being kept for longer than [`LOOKS_BACK`]. An event that another wrote proves nothing.
//!
//! If this dies here, the next process asks.

use super::{Ended, Process, failed};
use crate::bucket::tail::{SealedEvent, newest_events};
use crate::bucket::{Delivers, NotAcknowledged, Outgoing};
use crate::domain::intent::{Authenticity, Secret, check_event};
use crate::platform::clock::SharedClock;
use crate::platform::config::Kafka;
use crate::platform::shutdown::Shutdown;
use crate::publisher::Topic;
use crate::schedule::{Loss, LossKind, Postgres, ScheduleError};
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// Nothing that is to begin waits longer for Kafka than that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Between two questions to a Kafka that did not answer.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// The history of older events may have been archived.
const LOOKS_BACK: TimeDelta = TimeDelta::days(30);

/// Why the question is still open.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAsked {
    /// Ask again: Kafka did not say what was published.
    #[error("whether the database lacks published events is not known: {0}")]
    Kafka(String),
    /// Ask again: the database could not be asked, or not be quarantined.
    #[error("asking the database for published events: {0}")]
    Database(#[from] ScheduleError),
}

/// The question of one process, answered once.
pub(super) struct Question {
    kafka: Kafka,
    schedule: Postgres,
    clock: SharedClock,
    answered: OnceCell<()>,
}

impl Question {
    /// Asks, unless it was answered before. Whoever asks at the same time waits for the same answer.
    pub(super) async fn ask(&self) -> Result<(), NotAsked> {
        self.answered.get_or_try_init(|| self.ask_once()).await.copied()
    }

    async fn ask_once(&self) -> Result<(), NotAsked> {
        let kafka = self.kafka.clone();
        let told = tokio::task::spawn_blocking(move || newest_events(&kafka)).await;
        let events = told.map_err(|error| NotAsked::Kafka(error.to_string()))?;
        let events = events.map_err(|error| NotAsked::Kafka(error.to_string()))?;
        let ours = authentic(self.schedule.installation_secret(), events, self.clock.wall());
        let rows: Vec<_> = ours.iter().map(|it| (it.at, it.payment, it.sequence)).collect();
        let missing = self.schedule.missing_history(&rows).await?;
        let lost = ours.iter().filter(|it| missing.contains(&(it.payment, it.sequence)));
        let Some(first) = lost.clone().min_by_key(|it| it.at) else { return Ok(()) };
        let loss = Loss {
            kind: LossKind::Event,
            why: format!(
                "{} of the newest {} events of the topic have no history row; the oldest is number {} of payment {}, of {}",
                lost.count(),
                ours.len(),
                first.sequence,
                first.payment,
                first.at.to_rfc3339(),
            ),
            payment: Some(first.payment),
            seen_at: Some(first.at),
        };
        self.schedule.commits_lost(&loss).await?;
        Ok(())
    }

    async fn until_it_is_answered(&self, shutdown: &Shutdown) {
        while !shutdown.is_asked() {
            match self.ask().await {
                Ok(()) => {
                    tracing::info!(
                        "Kafka was asked at last: whether the database lacks published events is known"
                    );
                    return;
                }
                Err(error) => tracing::debug!(%error, "asked again"),
            }
            shutdown.pause(&*self.clock, ASKED_AGAIN_AFTER).await;
        }
    }
}

/// Quarantines a database that lacks what was published from it, now or as soon as Kafka says what was.
///
/// # Errors
/// The database could not be asked, or not be quarantined: then nothing may begin.
pub(super) async fn ask_the_events(process: &Process, schedule: &Postgres) -> Result<Arc<Question>, Ended> {
    let question = Arc::new(Question {
        kafka: process.config.kafka.clone(),
        schedule: schedule.clone(),
        clock: process.clock.clone(),
        answered: OnceCell::new(),
    });
    if question.kafka.bootstrap_servers.is_empty() {
        return Ok(question);
    }
    let asked = tokio::select! {
        biased;
        asked = question.ask() => asked,
        () = process.clock.sleep(ANSWERS_WITHIN) => Err(NotAsked::Kafka("Kafka does not answer".to_owned())),
    };
    match asked {
        Ok(()) => {}
        Err(error @ NotAsked::Database(_)) => return Err(failed(error)),
        Err(error @ NotAsked::Kafka(_)) => {
            tracing::warn!(%error, "it is asked again until it is");
            let (later, shutdown) = (Arc::clone(&question), process.shutdown.clone());
            tokio::spawn(async move { later.until_it_is_answered(&shutdown).await });
        }
    }
    Ok(question)
}

/// A topic to which nothing is published before the question is answered.
pub(super) struct Careful<T> {
    /// Where it goes then.
    pub(super) topic: T,
    /// Is told while it waits for Kafka, as of batches that were not acknowledged.
    pub(super) delivers: Delivers,
    /// Of this process.
    pub(super) question: Arc<Question>,
}

impl<T: Topic> Topic for Careful<T> {
    async fn publish(&self, batch: &[Outgoing]) -> Result<(), NotAcknowledged> {
        if let Err(error) = self.question.ask().await {
            if matches!(error, NotAsked::Kafka(_)) {
                self.delivers.held_back();
            }
            let indexes = (0..batch.len()).collect();
            return Err(NotAcknowledged { indexes, of: batch.len(), first: error.to_string() });
        }
        self.topic.publish(batch).await
    }
}

/// Those that this installation sealed, and whose rows must still be there.
fn authentic(secret: &Secret, events: Vec<SealedEvent>, now: DateTime<Utc>) -> Vec<SealedEvent> {
    let is_ours = |it: &SealedEvent| {
        now - it.at < LOOKS_BACK
            && check_event(secret, it.payment, it.sequence, it.at, &it.mac) == Authenticity::Authentic
    };
    events.into_iter().filter(is_ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::PaymentId;
    use crate::domain::intent::event_mac;

    #[test]
    fn only_what_this_installation_sealed_not_long_ago_proves_anything() {
        let now = DateTime::from_timestamp_micros(1_795_960_020_123_456).unwrap();
        let (ours, others) = ([7; 32], [8; 32]);
        let event = |secret: &Secret, at: DateTime<Utc>| {
            let payment = PaymentId::new(now, [9; 10]).unwrap();
            SealedEvent { payment, sequence: 3, at, mac: event_mac(secret, payment, 3, at) }
        };
        let good = event(&ours, now);
        let old = event(&ours, now - LOOKS_BACK);
        let forged = event(&others, now);
        let changed = SealedEvent { sequence: 4, ..good.clone() };
        let bare = SealedEvent { mac: String::new(), ..good.clone() };
        let left = authentic(&ours, vec![good.clone(), old, forged, changed, bare], now);
        assert_eq!(left, [good]);
    }
}
