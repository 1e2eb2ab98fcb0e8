//! The publisher's loop: keep the lead, and pass again and again while we have it.
//!
//! The lease is renewed beside the passes, not between them: a publish may wait 15 s for a broker and
//! the lease is shorter. A lease that could not be renewed for its whole length is forgotten here too,
//! although the move of the cursor would be refused anyway.

use super::event::Form;
use super::known::LastKnown;
use super::{Condition, History, PassFailed, Topic, step};
use crate::domain::lease::Mono;
use crate::platform::clock::SharedClock;
use crate::platform::metrics;
use crate::platform::shutdown::Shutdown;
use crate::schedule::{PublisherLease, ScheduleError, unless_defect};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// After a pass that met trouble.
const TROUBLE: Duration = Duration::from_secs(1);
/// What trouble with the lease is logged as.
const LEAD: &str = "the publisher's lead";

/// What a publisher runs with.
pub struct Publisher {
    /// Stable name of this instance, for people and leases.
    pub holder: String,
    /// A publisher silent for so long loses the lead.
    pub lease: Duration,
    /// Most events of one pass.
    pub batch: u32,
    /// Pause after a pass that found all there was.
    pub poll: Duration,
    /// How records are addressed.
    pub form: Form,
    /// Time.
    pub clock: SharedClock,
    /// Told of every change.
    pub condition: watch::Sender<Condition>,
}

/// The lead that is ours.
#[derive(Debug, Clone)]
struct Ours {
    lease: PublisherLease,
    renewed_at: Mono,
}

struct Held {
    ours: Mutex<Option<Ours>>,
    /// The oldest row that is not published; zero while another leads.
    oldest: Mutex<LastKnown>,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, Option<Ours>> {
        // Only replaced as a whole under the lock.
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn oldest(&self) -> MutexGuard<'_, LastKnown> {
        self.oldest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease(&self) -> Option<PublisherLease> {
        self.lock().as_ref().map(|ours| ours.lease.clone())
    }

    /// Forgets the lead if it is still held under this epoch.
    fn forget(&self, lease: &PublisherLease) {
        let mut held = self.lock();
        if held.as_ref().is_some_and(|ours| ours.lease.epoch == lease.epoch) {
            *held = None;
        }
    }
}

/// Runs until shutdown: a pass in progress is finished, then the lead is given back.
///
/// # Errors
/// [`ScheduleError::Defect`]: the schema does not fit this build; stop and say so.
pub async fn run<H: History, T: Topic>(
    publisher: &Publisher,
    history: &H,
    topic: &T,
    shutdown: &Shutdown,
) -> Result<(), ScheduleError> {
    let oldest = Mutex::new(LastKnown::from(publisher.clock.mono()));
    let held = Held { ours: Mutex::default(), oldest };
    // A defect in one loop ends the other.
    let failed = AtomicBool::new(false);
    let goes_on = || !shutdown.is_asked() && !failed.load(Ordering::Relaxed);
    // The lease is kept until the last pass has ended.
    let (over, mut is_over) = watch::channel(false);
    let keeping = async {
        loop {
            let kept = keep(publisher, history, &held, shutdown).await;
            kept.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            tokio::select! {
                biased;
                _ = is_over.wait_for(|over| *over) => return Ok(()),
                () = publisher.clock.sleep(publisher.lease / 3) => {}
            }
        }
    };
    let passing = async {
        let mut result = Ok(());
        while goes_on() && result.is_ok() {
            match round(publisher, history, topic, &held).await {
                Ok(pause) => shutdown.pause(&*publisher.clock, pause).await,
                Err(defect) => result = Err(defect),
            }
        }
        over.send_replace(true);
        result
    };
    let (kept, passed) = futures_util::future::join(keeping, passing).await;
    if let Some(lease) = held.lease()
        && let Err(error) = history.release(&lease).await
    {
        tracing::warn!(%error, "the lead was not given back; it is free when its lease ends");
    }
    metrics::PUBLISHER_LEADS.set(0.0, []);
    publisher.condition.send_replace(Condition::default());
    kept.and(passed)
}

/// Renews the lead, or takes it where nobody has it; while draining it only renews.
async fn keep<H: History>(
    publisher: &Publisher,
    history: &H,
    held: &Held,
    shutdown: &Shutdown,
) -> Result<(), ScheduleError> {
    let asked_at = publisher.clock.mono();
    if let Some(lease) = held.lease() {
        match unless_defect(LEAD, history.renew(&lease, publisher.lease).await)? {
            Some(true) => {
                if let Some(ours) = held.lock().as_mut() {
                    ours.renewed_at = asked_at;
                }
            }
            Some(false) => {
                tracing::warn!(epoch = lease.epoch, "another publisher leads");
                held.forget(&lease);
            }
            None => {
                let now = publisher.clock.mono();
                held.lock().take_if(|ours| now.0.saturating_sub(ours.renewed_at.0) >= publisher.lease);
            }
        }
    }
    if held.lease().is_none() && !shutdown.is_asked() {
        let acquired = history.acquire(&publisher.holder, publisher.lease).await;
        let acquired = unless_defect(LEAD, acquired)?;
        if matches!(acquired, Some(None)) {
            // It tells.
            held.oldest().learn(Duration::ZERO, asked_at);
        }
        let acquired = acquired.flatten();
        if let Some(lease) = &acquired {
            tracing::info!(epoch = lease.epoch, "this publisher leads");
            if lease.started_over {
                tracing::warn!(
                    "the database is another server than the one that the events were published from: \
                     everything is published again, from the oldest row; readers remove duplicates by id"
                );
            }
        }
        *held.lock() = acquired.map(|lease| Ours { lease, renewed_at: asked_at });
    }
    let leads = held.lease().is_some();
    publisher.condition.send_if_modified(|condition| std::mem::replace(&mut condition.leads, leads) != leads);
    metrics::PUBLISHER_LEADS.set(if leads { 1.0 } else { 0.0 }, []);
    Ok(())
}

/// One pass, if we lead; answers the pause until the next.
async fn round<H: History, T: Topic>(
    publisher: &Publisher,
    history: &H,
    topic: &T,
    held: &Held,
) -> Result<Duration, ScheduleError> {
    let Some(lease) = held.lease() else {
        // Only the leader knows how old the oldest is; a gauge left standing would alarm for ever. But while nobody
        // can say whether another leads, nobody may do.
        let (oldest, now) = (*held.oldest(), publisher.clock.mono());
        let stands_by = oldest.silence(now) <= publisher.lease;
        let age = if stands_by { Duration::ZERO } else { oldest.age(now) };
        metrics::PUBLISHER_OLDEST_AGE.set(age.as_secs_f64(), []);
        return Ok(publisher.poll);
    };
    match step(history, topic, &lease, &publisher.form, publisher.batch).await {
        Ok(pass) => {
            held.oldest().learn(pass.oldest_age, publisher.clock.mono());
            let condition = Condition { leads: true, is_ahead: pass.is_ahead };
            tell(publisher, condition);
            return Ok(if pass.is_full { Duration::ZERO } else { publisher.poll });
        }
        Err(PassFailed::LeadLost) => {
            tracing::warn!(epoch = lease.epoch, "another publisher leads");
            metrics::PUBLISHER_FENCED.add(1, []);
            held.forget(&lease);
        }
        Err(
            PassFailed::Read(defect @ ScheduleError::Defect(_))
            | PassFailed::Advance(defect @ ScheduleError::Defect(_)),
        ) => {
            return Err(defect);
        }
        Err(error) => {
            let stage = match &error {
                PassFailed::NotAcknowledged(_) => "publish",
                PassFailed::Advance(_) => "advance",
                PassFailed::Read(_) | PassFailed::LeadLost => "read",
            };
            if matches!(error, PassFailed::Read(_)) {
                // Otherwise it was seen by this pass.
                let age = held.oldest().age(publisher.clock.mono());
                metrics::PUBLISHER_OLDEST_AGE.set(age.as_secs_f64(), []);
            }
            metrics::PUBLISHER_FAILURES.add(1, [stage]);
            tracing::warn!(%error, "a pass of the publisher; its events are published again");
        }
    }
    Ok(TROUBLE)
}

fn tell(publisher: &Publisher, condition: Condition) {
    let changed = publisher.condition.send_if_modified(|now| std::mem::replace(now, condition) != condition);
    if changed && condition.is_ahead {
        tracing::error!(
            "history rows carry transaction ids of another server and wait for this one to reach them: \
             stop it and raise the epoch of its ids with pg_resetwal -e"
        );
    }
}
