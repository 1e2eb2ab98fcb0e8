//! What the loop asks of the schedule beside the steps' verbs.
//!
//! **Promises.** An unreadable record, and one whose seal is not ours, is kept before its offset is
//! complete, however often that must be tried: the watermark of its partition waits for it, the
//! records behind it do not. A notice that proves lost commits (rule R17) stops every claim of every
//! worker before its offset is complete. If this dies here, the record is read again.
//!
//! **Why every seal is checked where the record enters**, and not only that of a notice which proves
//! something: afterwards nobody need ask whether a notice may be believed.

use crate::bucket::{BadNotice, Names, Position, Read};
use crate::domain::ids::GatewayName;
use crate::domain::intent::{Authenticity, check_notice};
use crate::domain::notice::Notice;
use crate::domain::pace::{Beat, Grant, Terms};
use crate::platform::clock::Clock;
use crate::schedule::{BadNoticeKept, BadRecord, Loss, LossKind, Postgres, RefusedBecause, ScheduleError};
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use std::time::Duration;

/// Records in this state count against the room for others, so none may wait long after an outage.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A database that tells its time, keeps what nobody can read, and shares out what an account takes.
pub trait Store: Send + Sync + 'static {
    /// The database's clock.
    fn database_now(&self) -> BoxFuture<'_, Result<DateTime<Utc>, ScheduleError>>;

    /// Tells what this worker saw of an account, and answers what it may do until the next beat.
    fn beat_gateway<'a>(
        &'a self,
        gateway: &'a GatewayName,
        terms: &'a Terms,
        beat: &'a Beat,
    ) -> BoxFuture<'a, Result<Grant, ScheduleError>>;

    /// Keeps an unreadable record in `bad_notices`; repeating it is harmless.
    fn keep_bad_notice<'a>(
        &'a self,
        at: Position,
        bad: &'a BadNotice,
    ) -> BoxFuture<'a, Result<BadNoticeKept, ScheduleError>>;

    /// The record itself if this installation wrote it, or what is to be kept of it.
    ///
    /// # Errors
    /// [`BadNotice`]: its seal is absent or another's.
    fn vouch(&self, read: Read) -> Result<Read, BadNotice>;

    /// Rule R17: an authentic notice was refused as one that the database cannot explain. Quarantines
    /// the database unless the notice's day is detached, or the notice was given to Kafka in a time whose losses
    /// people have judged; repeating it is harmless.
    fn commits_were_lost<'a>(
        &'a self,
        notice: &'a Notice,
        sent_at: Option<DateTime<Utc>>,
        why: RefusedBecause,
    ) -> BoxFuture<'a, Result<(), ScheduleError>>;
}

/// Keeps it, with pauses, until that is durable.
pub(super) async fn keep(
    store: &dyn Store,
    clock: &dyn Clock,
    at: Position,
    bad: &BadNotice,
) -> BadNoticeKept {
    let mut pause = Duration::from_millis(500);
    loop {
        match store.keep_bad_notice(at, bad).await {
            Ok(kept) => return kept,
            Err(error) => {
                tracing::warn!(%error, ?at, "an unreadable record is not kept yet");
                clock.sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Stops claiming everywhere, with pauses, until that is durable.
pub(super) async fn stop_claiming(
    store: &dyn Store,
    clock: &dyn Clock,
    notice: &Notice,
    sent_at: Option<DateTime<Utc>>,
    why: RefusedBecause,
) {
    let mut pause = Duration::from_millis(500);
    while let Err(error) = store.commits_were_lost(notice, sent_at, why).await {
        tracing::error!(%error, payment = %notice.payment, "the database is not quarantined yet");
        clock.sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The database of the schedule as the loop's store; topics are named by `names`.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    /// The truth.
    pub schedule: Postgres,
    /// Of the ring that the records come from.
    pub names: Names,
}

impl Store for PostgresStore {
    fn database_now(&self) -> BoxFuture<'_, Result<DateTime<Utc>, ScheduleError>> {
        Box::pin(self.schedule.database_now())
    }

    fn beat_gateway<'a>(
        &'a self,
        gateway: &'a GatewayName,
        terms: &'a Terms,
        beat: &'a Beat,
    ) -> BoxFuture<'a, Result<Grant, ScheduleError>> {
        Box::pin(self.schedule.beat_gateway(gateway, terms, beat))
    }

    fn keep_bad_notice<'a>(
        &'a self,
        at: Position,
        bad: &'a BadNotice,
    ) -> BoxFuture<'a, Result<BadNoticeKept, ScheduleError>> {
        let record = BadRecord {
            topic: self.names.topic(at.channel()),
            partition: at.partition(),
            offset: at.offset(),
            reason: bad.reason.to_string(),
            key: bad.key.clone(),
            payload: bad.value.clone(),
        };
        Box::pin(self.schedule.keep_bad_notice(record))
    }

    fn vouch(&self, read: Read) -> Result<Read, BadNotice> {
        let mac = read.mac.as_deref().unwrap_or_default();
        match check_notice(self.schedule.installation_secret(), &read.notice, mac) {
            Authenticity::Authentic => Ok(read),
            Authenticity::Forged => Err(read.disowned()),
        }
    }

    fn commits_were_lost<'a>(
        &'a self,
        notice: &'a Notice,
        sent_at: Option<DateTime<Utc>>,
        why: RefusedBecause,
    ) -> BoxFuture<'a, Result<(), ScheduleError>> {
        Box::pin(async move {
            let payment = notice.payment;
            // A payment of a detached day has left the database in good order.
            if why == RefusedBecause::NoSuchPayment && !self.schedule.is_attached(payment.due_day()).await? {
                return Ok(());
            }
            let loss = Loss {
                kind: LossKind::Notice,
                why: format!("an authentic notice of payment {payment}, attempt {}: {why:?}", notice.attempt),
                payment: Some(payment),
                // What it tells of was committed before that.
                seen_at: sent_at,
            };
            self.schedule.commits_lost(&loss).await.map(drop)
        })
    }
}
