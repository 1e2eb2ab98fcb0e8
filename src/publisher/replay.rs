//! The history once more, beside the publisher that leads: `punctual publisher --from`.
//!
//! **Promise.** The very records that went out before: the same bytes, ids and partitions, with a header that says so
//! (whoever looks for the newest event passes over them), per payment in the
//! order of `sequence`, at no more than a given rate. Nothing goes out that the leader has not published, so
//! readers that remove duplicates by `id` see nothing new and nothing out of its order; a reader that lost
//! something finds it again. No cursor moves.
//!
//! **Relies on** the partitions being those that the leader writes to: whoever calls has checked them.
//!
//! **If this dies here**, or is stopped, it goes on from the last place that it told; a batch may go out twice.

use super::event::Form;
use super::{Told, Topic, publish};
use crate::domain::event_type::{EventType, event_type};
use crate::platform::clock::SharedClock;
use crate::platform::shutdown::Shutdown;
use crate::schedule::{
    HistoryPlace, Postgres, ReplayBatch, ReplayBound, ReplayPlace, ReplaySpan, ScheduleError,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// A batch that Kafka does not take is tried so often.
const TRIES: u32 = 5;
/// Between two tries.
const TROUBLE: Duration = Duration::from_secs(1);

/// The published history, as the schedule keeps it.
pub trait Past: Send + Sync {
    /// How far the leader is; `None`: nothing was published from this server yet.
    fn bound(&self) -> impl Future<Output = Result<Option<ReplayBound>, ScheduleError>> + Send;

    /// Rows of a span behind a place, at most `limit`.
    fn page(
        &self,
        span: &ReplaySpan,
        bound: &ReplayBound,
        after: HistoryPlace,
        limit: u32,
    ) -> impl Future<Output = Result<ReplayBatch, ScheduleError>> + Send;
}

impl Past for Postgres {
    async fn bound(&self) -> Result<Option<ReplayBound>, ScheduleError> {
        self.replay_bound().await
    }

    async fn page(
        &self,
        span: &ReplaySpan,
        bound: &ReplayBound,
        after: HistoryPlace,
        limit: u32,
    ) -> Result<ReplayBatch, ScheduleError> {
        self.replay_rows(span, bound, after, limit).await
    }
}

/// What is to be published again, and how.
pub struct Replay {
    /// Which rows.
    pub span: ReplaySpan,
    /// Go on from here.
    pub after: Option<ReplayPlace>,
    /// To which topics.
    pub told: Told,
    /// Most rows a second.
    pub rate: u32,
    /// Most rows at once.
    pub batch: u32,
    /// How records are addressed.
    pub form: Form,
    /// Time.
    pub clock: SharedClock,
}

/// How many of which type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Again {
    /// History rows that were passed.
    pub rows: u64,
    /// Events by type.
    pub events: BTreeMap<EventType, u64>,
    /// Announcements of parked payments.
    pub announcements: u64,
}

impl Again {
    pub(super) fn add(&mut self, told: Told, batch: &[crate::schedule::Unpublished]) {
        for row in batch {
            let kind = event_type(row.row.event, row.row.to);
            self.rows += 1;
            if told != Told::Parked {
                *self.events.entry(kind).or_default() += 1;
            }
            if told != Told::Events && kind == EventType::Parked && row.payment.is_some() {
                self.announcements += 1;
            }
        }
    }
}

/// What a replay did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// What went out, or would have.
    pub again: Again,
    /// It was asked to stop before its end; go on from here.
    pub stopped_at: Option<ReplayPlace>,
}

/// Why a replay ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayFailed {
    /// There is nothing to repeat, and the leader publishes all of it by itself.
    #[error("nothing was published from this database yet; the publisher that leads publishes all of it")]
    NothingYet,
    /// The place belongs to another server's life.
    #[error("the place to go on from is of another database server ({0}); begin anew")]
    Elsewhere(String),
    /// The database did not answer; go on from the place.
    #[error("reading the history, at {at}: {source}")]
    Read {
        /// Where to go on.
        at: ReplayPlace,
        /// What it said.
        source: ScheduleError,
    },
    /// Before anything was read.
    #[error("reading the publisher's cursor: {0}")]
    Bound(#[source] ScheduleError),
    /// Kafka did not take a batch, again and again; go on from the place.
    #[error("Kafka, at {at}: {source}")]
    NotAcknowledged {
        /// Where to go on.
        at: ReplayPlace,
        /// What it said.
        source: crate::bucket::NotAcknowledged,
    },
}

impl ReplayFailed {
    /// Where to go on, if anything was begun.
    #[must_use]
    pub fn at(&self) -> Option<&ReplayPlace> {
        match self {
            Self::Read { at, .. } | Self::NotAcknowledged { at, .. } => Some(at),
            Self::NothingYet | Self::Elsewhere(_) | Self::Bound(_) => None,
        }
    }
}

/// Publishes a span again; without a topic it only counts. `progress` hears of each batch that is out.
///
/// # Errors
/// See [`ReplayFailed`].
pub async fn replay<P: Past, T: Topic>(
    replay: &Replay,
    past: &P,
    topic: Option<&T>,
    shutdown: &Shutdown,
    mut progress: impl FnMut(&Again, &ReplayPlace) + Send,
) -> Result<Replayed, ReplayFailed> {
    let bound = past.bound().await.map_err(ReplayFailed::Bound)?.ok_or(ReplayFailed::NothingYet)?;
    let mut at = match &replay.after {
        None => ReplayPlace { system: bound.system.clone(), place: HistoryPlace::BEGINNING },
        Some(place) if place.system == bound.system => place.clone(),
        Some(place) => return Err(ReplayFailed::Elsewhere(place.system.clone())),
    };
    // A batch is at most a second's worth, so that the rate holds in every second.
    let batch = replay.batch.min(replay.rate).max(1);
    let mut again = Again::default();
    let pace = Pace::begin(replay.rate, &replay.clock);
    loop {
        if shutdown.is_asked() {
            return Ok(Replayed { again, stopped_at: Some(at) });
        }
        let found = past.page(&replay.span, &bound, at.place.clone(), batch).await;
        let found = found.map_err(|source| ReplayFailed::Read { at: at.clone(), source })?;
        if let Some(topic) = topic {
            let sent = patiently(replay, topic, &found, shutdown).await;
            sent.map_err(|source| ReplayFailed::NotAcknowledged { at: at.clone(), source })?;
        }
        again.add(replay.told, &found.rows);
        at.place = found.end;
        progress(&again, &at);
        if !found.is_full {
            return Ok(Replayed { again, stopped_at: None });
        }
        if topic.is_some() {
            pace.keep(again.rows, shutdown).await;
        }
    }
}

/// A batch that was not acknowledged goes out again as a whole, in its order.
async fn patiently<T: Topic>(
    replay: &Replay,
    topic: &T,
    found: &ReplayBatch,
    shutdown: &Shutdown,
) -> Result<(), crate::bucket::NotAcknowledged> {
    let mut tries = 1;
    loop {
        match publish(topic, &replay.form, |_| replay.told, &found.rows).await {
            Err(error) if tries < TRIES && !shutdown.is_asked() => {
                tracing::warn!(%error, tries, "a batch of the replay goes out again");
                shutdown.pause(&*replay.clock, TROUBLE).await;
                tries += 1;
            }
            sent => return sent,
        }
    }
}

/// So many rows a second and no more, over the whole of a run.
pub(super) struct Pace {
    rate: u32,
    clock: SharedClock,
    began: Duration,
}

impl Pace {
    pub(super) fn begin(rate: u32, clock: &SharedClock) -> Self {
        Self { rate: rate.max(1), clock: clock.clone(), began: clock.mono().0 }
    }

    /// Waits until so many rows may be out.
    pub(super) async fn keep(&self, rows: u64, shutdown: &Shutdown) {
        let due = Duration::from_millis(rows.saturating_mul(1_000) / u64::from(self.rate));
        let past = self.clock.mono().0.saturating_sub(self.began);
        if let Some(ahead) = due.checked_sub(past).filter(|ahead| !ahead.is_zero()) {
            shutdown.pause(&*self.clock, ahead).await;
        }
    }
}
