//! Stage 9: the history, from Postgres to the topic `payments.events`, and what was parked to `payments.parked`.
//!
//! **Promise.** Every history row becomes an event at least once, with an id that is the same in every
//! delivery. In each partition the *first* appearances of a payment's events stand in the order of its
//! `sequence`, without a gap, whatever dies or times out: an event is sent only after the one before it
//! was acknowledged (`waves`). The cursor moves only when every event of a batch is acknowledged.
//!
//! **Relies on** `schedule` for the order of the rows and for the fence of the lease. Nothing of a
//! payment's life relies on *us*.
//!
//! **Why one at a time.** One publisher leads by a lease and the others stand by; one writer is far
//! from its limit. A leader that was frozen past its lease may still send its batch: those events went
//! out before, or go out again, in the same order; it cannot move the cursor.
//!
//! **If this dies here**, between acknowledgement and cursor, the batch is published again: readers
//! remove duplicates by `id`.

pub mod event;
mod known;
mod leads;
mod rebuild;
mod replay;
mod rounds;
pub mod webhooks;

use crate::bucket::{self, NotAcknowledged, Outgoing};
use crate::domain::event_type::event_type;
use crate::domain::ids::PaymentId;
use crate::platform::metrics;
use crate::schedule::{Postgres, PublisherLease, ScheduleError, Unpublished, UnpublishedBatch};
use event::Form;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

pub use leads::{Condition, Leads};
pub use rebuild::{CatchUp, Rebuilt, announce_again, catch_up};
pub use replay::{Again, Past, Replay, ReplayFailed, Replayed, replay};
pub use rounds::{Publisher, run};

/// The history and its cursor, as the schedule keeps them.
pub trait History: Leads {
    /// The oldest rows that can be published, at most `limit`; `None` if we do not lead any more.
    fn unpublished(
        &self,
        lease: &PublisherLease,
        limit: u32,
    ) -> impl Future<Output = Result<Option<UnpublishedBatch>, ScheduleError>> + Send;

    /// Moves the cursor behind a batch whose every event is acknowledged; `false`: we do not lead.
    fn advance(
        &self,
        lease: &PublisherLease,
        published: &UnpublishedBatch,
    ) -> impl Future<Output = Result<bool, ScheduleError>> + Send;
}

impl History for Postgres {
    async fn unpublished(
        &self,
        lease: &PublisherLease,
        limit: u32,
    ) -> Result<Option<UnpublishedBatch>, ScheduleError> {
        Self::unpublished(self, lease, limit).await
    }

    async fn advance(
        &self,
        lease: &PublisherLease,
        published: &UnpublishedBatch,
    ) -> Result<bool, ScheduleError> {
        self.advance_publisher(lease, published).await
    }
}

/// Where events go; Kafka, or a simulated one.
pub trait Topic: Send + Sync {
    /// Publishes all of a batch and returns when every record has its report.
    fn publish(&self, batch: &[Outgoing]) -> impl Future<Output = Result<(), NotAcknowledged>> + Send;
}

impl Topic for bucket::Producer {
    async fn publish(&self, batch: &[Outgoing]) -> Result<(), NotAcknowledged> {
        Self::publish(self, batch).await
    }
}

/// What a pass did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Events acknowledged and passed by the cursor.
    pub published: usize,
    /// There may be more at once.
    pub is_full: bool,
    /// The waiting rows come from another server and wait for this one's transaction ids.
    pub is_ahead: bool,
    /// Age of the oldest row that is not published after it.
    pub oldest_age: Duration,
}

/// Why a pass did not do all of its work. Nothing is lost in any case.
#[derive(Debug, thiserror::Error)]
pub enum PassFailed {
    /// Another publisher leads: forget the lease. What was published is published again by that one.
    #[error("another publisher leads")]
    LeadLost,
    /// The whole batch is published again.
    #[error("Kafka: {0}")]
    NotAcknowledged(#[from] NotAcknowledged),
    /// Before anything was published.
    #[error("reading the history: {0}")]
    Read(#[source] ScheduleError),
    /// The batch is published again, unless the cursor moved after all.
    #[error("moving the cursor: {0}")]
    Advance(#[source] ScheduleError),
}

/// One pass: read, publish wave by wave, and only when *all* reports are in, move the cursor. Never
/// spawns; takes no time of its own.
///
/// # Errors
/// See [`PassFailed`].
pub async fn step<H: History, T: Topic>(
    history: &H,
    topic: &T,
    lease: &PublisherLease,
    form: &Form,
    batch: u32,
) -> Result<Pass, PassFailed> {
    pass(history, topic, lease, form, batch, |_| Told::Everything).await
}

/// The same, where not every topic is told of every row.
async fn pass<H: History, T: Topic>(
    history: &H,
    topic: &T,
    lease: &PublisherLease,
    form: &Form,
    batch: u32,
    told: impl Fn(&Unpublished) -> Told,
) -> Result<Pass, PassFailed> {
    let found = history.unpublished(lease, batch).await.map_err(PassFailed::Read)?;
    let found = found.ok_or(PassFailed::LeadLost)?;
    // Before the attempt: while Kafka is away, it grows.
    metrics::PUBLISHER_OLDEST_AGE.set(found.oldest_age_now().as_secs_f64(), []);
    publish(topic, form, told, &found.rows).await?;
    if (!found.rows.is_empty() || found.floor_is_old)
        && !history.advance(lease, &found).await.map_err(PassFailed::Advance)?
    {
        return Err(PassFailed::LeadLost);
    }
    metrics::PUBLISHER_OLDEST_AGE.set(found.oldest_age.as_secs_f64(), []);
    for row in &found.rows {
        metrics::EVENTS_PUBLISHED.add(1, [event_type(row.row.event, row.row.to).as_str()]);
    }
    Ok(Pass {
        published: found.rows.len(),
        is_full: found.is_full,
        is_ahead: found.is_ahead,
        oldest_age: found.oldest_age,
    })
}

/// Which topics are told of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Both.
    Everything,
    /// The topic of events.
    Events,
    /// The topic of announcements, of rows that park their payment.
    Parked,
}

impl Told {
    fn records(self, form: &Form, row: &Unpublished) -> impl Iterator<Item = Outgoing> {
        let event = (self != Self::Parked).then(|| event::record(form, row));
        let announcement = if self == Self::Events { None } else { event::announcement(form, row) };
        event.into_iter().chain(announcement)
    }
}

/// Publishes rows wave by wave, and is done when every record has its report.
async fn publish<T: Topic>(
    topic: &T,
    form: &Form,
    told: impl Fn(&Unpublished) -> Told,
    rows: &[Unpublished],
) -> Result<(), NotAcknowledged> {
    for wave in waves(rows) {
        let records: Vec<Outgoing> = wave.into_iter().flat_map(|row| told(row).records(form, row)).collect();
        if !records.is_empty() {
            topic.publish(&records).await?;
        }
    }
    Ok(())
}

/// Splits a batch so that no wave has two events of one payment and each payment's events keep their
/// order over the waves. A record that times out while a later one of its partition gets through would
/// otherwise put `sequence` 5 before 4.
fn waves(rows: &[Unpublished]) -> Vec<Vec<&Unpublished>> {
    let mut seen: BTreeMap<PaymentId, usize> = BTreeMap::new();
    let mut waves: Vec<Vec<&Unpublished>> = Vec::new();
    for row in rows {
        let wave = seen.entry(row.row.payment).or_default();
        match waves.get_mut(*wave) {
            Some(rows) => rows.push(row),
            // The first event of a payment that is its n-th here: exactly one wave is missing.
            None => waves.push(vec![row]),
        }
        *wave += 1;
    }
    waves
}

#[cfg(test)]
#[path = "publisher_tests.rs"]
mod tests;
