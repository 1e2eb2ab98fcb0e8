//! The topics of events and of announcements from the database alone: for the day on which they are gone.
//!
//! **Promise.** After [`catch_up`] every history row that could be published is in the topic of events, the
//! first appearances of each payment's in the order of `sequence`. It works as the leader, under a lease that
//! was taken from whoever led, and by the same step as every publisher; so a second writer cannot get ahead of
//! it in an empty topic. (The former leader may still send the batch that it has in hand.)
//!
//! **If this dies here**, the cursor stands where the last batch ended, and the next publisher goes on from it:
//! a rebuild that broke off is finished by those who publish anyway.

use super::event::Form;
use super::replay::{Again, Pace};
use super::{History, PassFailed, Told, Topic, pass, publish};
use crate::bucket::NotAcknowledged;
use crate::domain::lease::Mono;
use crate::platform::clock::SharedClock;
use crate::platform::shutdown::Shutdown;
use crate::schedule::{PublisherLease, Unpublished};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// A pass that met trouble is repeated so often in a row.
const TRIES: u32 = 10;
/// Between two of them.
const TROUBLE: Duration = Duration::from_secs(1);

/// How the lane of events is published again.
pub struct CatchUp<'a> {
    /// The lane, put before the oldest row.
    pub lease: &'a PublisherLease,
    /// Its length, from each renewal on.
    pub length: Duration,
    /// Payments parked since are announced, as the leader does; those before were.
    pub announce_from: DateTime<Utc>,
    /// Most events at once.
    pub batch: u32,
    /// Most events a second.
    pub rate: u32,
    /// How records are addressed.
    pub form: &'a Form,
    /// Time.
    pub clock: &'a SharedClock,
}

/// How far a rebuild of the lane of events came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// Everything that could be published is.
    All,
    /// It was asked to stop; publishers go on from there.
    Stopped,
}

/// Publishes from the cursor to the end, keeping the lease; `progress` hears how many events are out.
///
/// # Errors
/// See [`PassFailed`]: publishers go on from the cursor.
pub async fn catch_up<H: History, T: Topic>(
    how: &CatchUp<'_>,
    history: &H,
    topic: &T,
    shutdown: &Shutdown,
    mut progress: impl FnMut(u64) + Send,
) -> Result<Rebuilt, PassFailed> {
    let pace = Pace::begin(how.rate, how.clock);
    let mut renewed_at = how.clock.mono();
    let (mut published, mut failures) = (0_u64, 0);
    let batch = how.batch.min(how.rate).max(1);
    loop {
        if shutdown.is_asked() {
            return Ok(Rebuilt::Stopped);
        }
        keep(how, history, &mut renewed_at).await?;
        // What was parked long ago may be parked no more; who is parked still is announced by `announce_again`.
        let told = |row: &Unpublished| match row.row.at < how.announce_from {
            true => Told::Events,
            false => Told::Everything,
        };
        match pass(history, topic, how.lease, how.form, batch, told).await {
            Ok(pass) => {
                failures = 0;
                published += u64::try_from(pass.published).unwrap_or(u64::MAX);
                progress(published);
                if !pass.is_full {
                    if pass.is_ahead {
                        tracing::warn!(
                            "rows of another server wait for this one's transaction ids to pass theirs"
                        );
                    }
                    return Ok(Rebuilt::All);
                }
                pace.keep(published, shutdown).await;
            }
            Err(PassFailed::LeadLost) => return Err(PassFailed::LeadLost),
            Err(error) => {
                failures += 1;
                if failures >= TRIES {
                    return Err(error);
                }
                tracing::warn!(%error, failures, "a pass of the rebuild; its events go out again");
                shutdown.pause(&**how.clock, TROUBLE).await;
            }
        }
    }
}

/// Between two passes, long before its end: a pass waits for Kafka for much less than a lease.
async fn keep<H: History>(how: &CatchUp<'_>, history: &H, renewed_at: &mut Mono) -> Result<(), PassFailed> {
    let now = how.clock.mono();
    if now.0.saturating_sub(renewed_at.0) < how.length / 4 {
        return Ok(());
    }
    match history.renew(how.lease, how.length).await.map_err(PassFailed::Advance)? {
        true => *renewed_at = now,
        false => return Err(PassFailed::LeadLost),
    }
    Ok(())
}

/// Announces payments that are parked still; answers how many.
///
/// # Errors
/// [`NotAcknowledged`]: repeat it.
pub async fn announce_again<T: Topic>(
    topic: &T,
    form: &Form,
    rows: &[Unpublished],
) -> Result<u64, NotAcknowledged> {
    publish(topic, form, |_| Told::Parked, rows).await?;
    let mut again = Again::default();
    again.add(Told::Parked, rows);
    Ok(again.announcements)
}
