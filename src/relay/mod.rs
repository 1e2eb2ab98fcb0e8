//! Stage 3: due notices, from the outbox in Postgres to the ring in Kafka.
//!
//! **Promise.** Every notice of the outbox is published at least once, ahead of its instant where
//! there is time, and marked only after its delivery report. Each Kafka partition has one writer, in
//! due order, because a writer leases the shard.
//!
//! **Relies on** `schedule` to stage in due order and to check the shard's fencing epoch in `mark`.
//! Nothing relies on *us*: a notice that is never published is a late row, and the late scan claims it.
//!
//! **If this dies here**, between publishing and marking, the next holder of the shard publishes the
//! same notices again. Duplicates are expected: the first claim wins and the others are refused. A
//! holder that lost its shard while it was frozen can publish a batch out of order; it cannot mark.

mod held;
mod rounds;
mod shards;
pub mod stage;

use crate::bucket::{self, Envelope, NotAcknowledged};
use crate::domain::bucket::{Channel, LONGEST_LEAD};
use crate::platform::faults::{Sabotage, sabotaged};
use crate::platform::metrics;
use crate::platform::trace::{self, Kind, Span};
use crate::schedule::{Schedule, ScheduleError, ShardLease, StagedNotice};
use stage::Reach;
use std::future::Future;
use std::time::Duration;

pub use rounds::{Relay, run};

/// Where envelopes go; the ring in Kafka, or a simulated one.
pub trait Publisher: Send + Sync {
    /// Publishes all of a batch, keeping its order within each partition, and returns when every
    /// envelope has its report.
    fn publish(&self, batch: &[Envelope]) -> impl Future<Output = Result<(), NotAcknowledged>> + Send;
}

/// The ring in Kafka.
#[derive(Debug)]
pub struct Ring {
    /// Writes to it.
    pub producer: bucket::Producer,
    /// Names its topics.
    pub names: bucket::Names,
}

impl Publisher for Ring {
    async fn publish(&self, batch: &[Envelope]) -> Result<(), NotAcknowledged> {
        let records: Vec<_> =
            batch.iter().map(|envelope| bucket::Outgoing::notice(&self.names, envelope)).collect();
        self.producer.publish(&records).await
    }
}

/// How a pass is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How far ahead notices are published; at most [`LONGEST_LEAD`] is taken.
    pub lead: Duration,
    /// A minute nearer than this gets its notices through `now`.
    pub guard: Duration,
    /// Most notices of one pass.
    pub batch: u32,
    /// Longest pause.
    pub poll: Duration,
}

/// What a pass did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Acknowledged and marked.
    pub published: usize,
    /// Pause so long before the next pass of this shard.
    pub pause: Duration,
}

/// Why a pass did not do all of its work. Nothing is lost in any case.
#[derive(Debug, thiserror::Error)]
pub enum PassFailed {
    /// Another relay holds the shard: forget it. What was published is published again by that one.
    #[error("the shard is not ours any more")]
    ShardLost,
    /// The acknowledged ones are marked; the others are staged again.
    #[error("Kafka: {0}")]
    NotAcknowledged(#[from] NotAcknowledged),
    /// Nothing was read and nothing published.
    #[error("schedule: {0}")]
    NotStaged(ScheduleError),
    /// Published and not marked: the notices are published again.
    #[error("schedule: {0}")]
    NotMarked(ScheduleError),
}

/// One pass over one shard: stage, publish, and only when *all* reports are in, mark what was
/// acknowledged. Never spawns; takes no time of its own.
///
/// # Errors
/// See [`PassFailed`].
pub async fn step<S: Schedule, P: Publisher>(
    schedule: &S,
    publisher: &P,
    shard: &ShardLease,
    reach: Reach,
    terms: &Terms,
) -> Result<Pass, PassFailed> {
    let lead = terms.lead.min(longest_lead());
    let staged = match reach {
        Reach::Usual => schedule.stage(shard, lead, terms.batch).await,
        Reach::Ahead => schedule.stage_crowd(shard, lead, longest_lead(), terms.batch).await,
    };
    let staged = staged.map_err(PassFailed::NotStaged)?;
    let pause =
        stage::pause(staged.notices.len(), terms.batch, staged.next_due, staged.database_now, terms.poll);
    let plan = stage::place(staged, shard, terms.guard);
    if plan.left > 0 {
        tracing::error!(
            left = plan.left,
            residue = shard.residue,
            "staged notices that cannot be published from here"
        );
    }
    if plan.envelopes.is_empty() {
        return Ok(Pass { published: 0, pause: pause.max(terms.poll) });
    }
    if sabotaged(Sabotage::MarkBeforeAck) {
        let all: Vec<_> = plan.envelopes.iter().map(|envelope| envelope.staged.clone()).collect();
        schedule.mark(shard, &all).await.map_err(PassFailed::NotMarked)?;
    }
    let mut publishing = publishing(&plan.envelopes, shard);
    let report = publisher.publish(&plan.envelopes).await;
    if report.is_err() {
        publishing.failed("not all of it was acknowledged");
    }
    publishing.end();
    let missing = report.err();
    let acknowledged = acknowledged(missing.as_ref(), plan.envelopes);
    if !acknowledged.is_empty()
        && !schedule.mark(shard, &acknowledged).await.map_err(PassFailed::NotMarked)?
    {
        return Err(PassFailed::ShardLost);
    }
    match missing {
        Some(missing) => Err(missing.into()),
        None => Ok(Pass { published: acknowledged.len(), pause }),
    }
}

/// The batch as a trace of its own, beside those of the requests that its payments came from.
fn publishing(batch: &[Envelope], shard: &ShardLease) -> Span {
    let posts = batch.iter().map(|envelope| envelope.staged.traceparent.as_deref());
    let mut span = trace::span("publish notices", Kind::Producer).linked(posts).start();
    span.say("messaging.system", || "kafka");
    span.say("messaging.batch.message_count", || i64::try_from(batch.len()).unwrap_or(i64::MAX));
    span.say("punctual.shard", || i64::from(shard.residue));
    span
}

fn longest_lead() -> Duration {
    // A positive constant.
    LONGEST_LEAD.to_std().unwrap_or_default()
}

/// What Kafka acknowledged, counted by where it lies.
fn acknowledged(missing: Option<&NotAcknowledged>, batch: Vec<Envelope>) -> Vec<StagedNotice> {
    let is_missing = |index| missing.is_some_and(|missing| missing.indexes.binary_search(&index).is_ok());
    let there = batch.into_iter().enumerate().filter(|(index, _)| !is_missing(*index));
    let counted = there.map(|(_, envelope)| {
        let to = match envelope.channel {
            Channel::Ring(_) => "ring",
            Channel::Now => "now",
        };
        metrics::RELAY_PUBLISHED.add(1, [to]);
        envelope.staged
    });
    counted.collect()
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
