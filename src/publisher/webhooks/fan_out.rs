//! Who leads the lane of webhooks, and its passes.
//!
//! One process leads by a lease and the others stand by; a pass is one transaction, so unlike the lane of events
//! nothing is waited for inside it, and one loop renews and passes in turn. A leader whose lease ran out unseen owes
//! nothing any more: its pass is refused by the fence. How late we are is told also while the database has trouble: then
//! it grows from what was last known. **If this dies**, another leads when the lease ends.

use super::super::known::LastKnown;
use super::Deliverer;
use crate::domain::lease::Mono;
use crate::platform::metrics;
use crate::platform::shutdown::Shutdown;
use crate::schedule::{FannedOut, Postgres, PublisherLease, ScheduleError, unless_defect};
use std::time::Duration;
use tokio::sync::Notify;

/// After a pass that met trouble.
const TROUBLE: Duration = Duration::from_secs(1);
/// How often what is owed is counted; by the leader, for all.
const COUNT_EVERY: Duration = Duration::from_secs(15);
/// Most counted.
const MOST_COUNTED: u32 = 10_000;

/// The lead that is ours.
struct Ours {
    lease: PublisherLease,
    renewed_at: Mono,
}

/// What this process knows of the lane.
struct Lane {
    ours: Option<Ours>,
    counted_at: Option<Mono>,
    /// The oldest that waits for us; zero while another leads.
    oldest: LastKnown,
    /// Events of another server wait.
    is_ahead: bool,
}

pub(super) async fn run(
    deliverer: &Deliverer,
    schedule: &Postgres,
    nudge: &Notify,
    shutdown: &Shutdown,
    goes_on: &impl Fn() -> bool,
) -> Result<(), ScheduleError> {
    let oldest = LastKnown::from(deliverer.clock.mono());
    let mut lane = Lane { ours: None, counted_at: None, oldest, is_ahead: false };
    let mut result = Ok(());
    while goes_on() && result.is_ok() {
        match lane.round(deliverer, schedule, nudge, goes_on).await {
            Ok(pause) => shutdown.pause(&*deliverer.clock, pause).await,
            Err(defect) => result = Err(defect),
        }
    }
    if let Some(ours) = lane.ours
        && let Err(error) = schedule.release_publisher(&ours.lease).await
    {
        tracing::warn!(%error, "the lane of webhooks was not given back; it is free when its lease ends");
    }
    forget_gauges();
    result
}

/// Only the leader knows; a gauge left standing would alarm for ever.
fn forget_gauges() {
    metrics::WEBHOOK_BACKLOG.set(0.0, []);
    metrics::WEBHOOK_OLDEST_AGE.set(0.0, []);
}

impl Lane {
    /// Renews or takes the lead, and passes if it is ours; answers the pause until the next round.
    async fn round(
        &mut self,
        deliverer: &Deliverer,
        schedule: &Postgres,
        nudge: &Notify,
        goes_on: &impl Fn() -> bool,
    ) -> Result<Duration, ScheduleError> {
        self.keep(deliverer, schedule).await?;
        if !goes_on() {
            // It may have been waited for for long: what was taken is only given back.
            return Ok(Duration::ZERO);
        }
        let Some(lease) = self.ours.as_ref().map(|ours| ours.lease.clone()) else {
            self.stand_by(deliverer);
            return Ok(deliverer.settings.poll);
        };
        match schedule.fan_out(&lease, deliverer.settings.batch).await {
            Ok(Some(passed)) => {
                metrics::WEBHOOKS_OWED.add(passed.owed, []);
                metrics::WEBHOOKS_SKIPPED.add(passed.skipped, []);
                if passed.owed > 0 {
                    nudge.notify_one();
                }
                self.tell(passed.is_ahead);
                self.count(deliverer, schedule, &passed).await?;
                return Ok(if passed.is_full { Duration::ZERO } else { deliverer.settings.poll });
            }
            Ok(None) => {
                tracing::warn!(epoch = lease.epoch, "another publisher leads the lane of webhooks");
                self.ours = None;
            }
            Err(defect @ ScheduleError::Defect(_)) => return Err(defect),
            Err(error) => {
                metrics::WEBHOOK_FAILURES.add(1, ["fan_out"]);
                tracing::warn!(%error, "a pass over the history for webhooks; its events are found again");
                self.grow(deliverer.clock.mono());
            }
        }
        Ok(TROUBLE)
    }

    async fn keep(&mut self, deliverer: &Deliverer, schedule: &Postgres) -> Result<(), ScheduleError> {
        const LEAD: &str = "the lead of the lane of webhooks";
        let now = deliverer.clock.mono();
        match &mut self.ours {
            Some(held) if now.0.saturating_sub(held.renewed_at.0) >= deliverer.lane_lease / 3 => {
                let renewed = schedule.renew_publisher(&held.lease, deliverer.lane_lease).await;
                match unless_defect(LEAD, renewed)? {
                    Some(true) => held.renewed_at = now,
                    Some(false) => self.ours = None,
                    // The pass finds out.
                    None => {}
                }
            }
            Some(_) => {}
            None => {
                let acquired = schedule.acquire_fan_out(&deliverer.holder, deliverer.lane_lease).await;
                let Some(acquired) = unless_defect(LEAD, acquired)? else { return Ok(()) };
                match acquired {
                    Some(lease) => {
                        tracing::info!(epoch = lease.epoch, "this publisher leads the lane of webhooks");
                        self.ours = Some(Ours { lease, renewed_at: now });
                    }
                    // It tells.
                    None => self.oldest.learn(Duration::ZERO, now),
                }
            }
        }
        Ok(())
    }

    /// Only the leader knows, and a gauge left standing would alarm for ever; but while nobody can say whether another
    /// leads, nobody may do.
    fn stand_by(&self, deliverer: &Deliverer) {
        let now = deliverer.clock.mono();
        if self.oldest.silence(now) <= deliverer.lane_lease {
            forget_gauges();
        } else {
            self.grow(now);
        }
    }

    /// What was counted is not true any more.
    fn grow(&self, now: Mono) {
        metrics::WEBHOOK_BACKLOG.set(f64::NAN, []);
        metrics::WEBHOOK_OLDEST_AGE.set(self.oldest.age(now).as_secs_f64(), []);
    }

    fn tell(&mut self, is_ahead: bool) {
        if is_ahead && !self.is_ahead {
            tracing::error!(
                "events carry transaction ids of another server and are owed to endpoints once this one has reached \
                 them: stop it and raise the epoch of its ids with pg_resetwal -e"
            );
        }
        self.is_ahead = is_ahead;
    }

    /// How much is owed, and how late we are with it: with the oldest event that is not fanned out, or with the oldest
    /// delivery that is due.
    async fn count(
        &mut self,
        deliverer: &Deliverer,
        schedule: &Postgres,
        passed: &FannedOut,
    ) -> Result<(), ScheduleError> {
        let now = deliverer.clock.mono();
        if self.counted_at.is_some_and(|at| now.0.saturating_sub(at.0) < COUNT_EVERY) {
            return Ok(());
        }
        let counted = schedule.webhook_backlog(MOST_COUNTED).await;
        let Some(backlog) = unless_defect("counting what is owed to endpoints", counted)? else {
            metrics::WEBHOOK_FAILURES.add(1, ["count"]);
            self.grow(now);
            return Ok(());
        };
        self.counted_at = Some(now);
        self.oldest.learn(backlog.oldest_age.max(passed.oldest_age), now);
        metrics::WEBHOOK_BACKLOG.set(f64::from(u32::try_from(backlog.owed).unwrap_or(u32::MAX)), []);
        metrics::WEBHOOK_OLDEST_AGE.set(self.oldest.age(now).as_secs_f64(), []);
        Ok(())
    }
}
