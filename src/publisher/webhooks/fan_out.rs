//! Who leads the lane of webhooks, and its passes.
//!
//! One process leads by a lease and the others stand by; a pass is one transaction, so unlike the lane of events
//! nothing is waited for inside it, and one loop renews and passes in turn. A leader whose lease ran out unseen owes
//! nothing any more: its pass is refused by the fence. **If this dies**, another leads when the lease ends.

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

pub(super) async fn run(
    deliverer: &Deliverer,
    schedule: &Postgres,
    nudge: &Notify,
    shutdown: &Shutdown,
    goes_on: &impl Fn() -> bool,
) -> Result<(), ScheduleError> {
    let mut ours: Option<Ours> = None;
    let mut counted_at: Option<Mono> = None;
    let mut result = Ok(());
    while goes_on() && result.is_ok() {
        match round(deliverer, schedule, nudge, &mut ours, &mut counted_at).await {
            Ok(pause) => shutdown.pause(&*deliverer.clock, pause).await,
            Err(defect) => result = Err(defect),
        }
    }
    if let Some(ours) = ours
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

/// Renews or takes the lead, and passes if it is ours; answers the pause until the next round.
async fn round(
    deliverer: &Deliverer,
    schedule: &Postgres,
    nudge: &Notify,
    ours: &mut Option<Ours>,
    counted_at: &mut Option<Mono>,
) -> Result<Duration, ScheduleError> {
    keep(deliverer, schedule, ours).await?;
    let Some(lease) = ours.as_ref().map(|ours| ours.lease.clone()) else {
        forget_gauges();
        return Ok(deliverer.settings.poll);
    };
    match schedule.fan_out(&lease, deliverer.settings.batch).await {
        Ok(Some(passed)) => {
            metrics::WEBHOOKS_OWED.add(passed.owed, []);
            if passed.owed > 0 {
                nudge.notify_one();
            }
            count(deliverer, schedule, counted_at, &passed).await?;
            return Ok(if passed.is_full { Duration::ZERO } else { deliverer.settings.poll });
        }
        Ok(None) => {
            tracing::warn!(epoch = lease.epoch, "another publisher leads the lane of webhooks");
            *ours = None;
        }
        Err(defect @ ScheduleError::Defect(_)) => return Err(defect),
        Err(error) => {
            metrics::WEBHOOK_FAILURES.add(1, ["fan_out"]);
            tracing::warn!(%error, "a pass over the history for webhooks; its events are found again");
        }
    }
    Ok(TROUBLE)
}

async fn keep(
    deliverer: &Deliverer,
    schedule: &Postgres,
    ours: &mut Option<Ours>,
) -> Result<(), ScheduleError> {
    const LEAD: &str = "the lead of the lane of webhooks";
    let now = deliverer.clock.mono();
    let age = |ours: &Ours| now.0.saturating_sub(ours.renewed_at.0);
    match ours {
        Some(held) if age(held) >= deliverer.lane_lease / 3 => {
            let renewed = schedule.renew_publisher(&held.lease, deliverer.lane_lease).await;
            match unless_defect(LEAD, renewed)? {
                Some(true) => held.renewed_at = now,
                Some(false) => *ours = None,
                // The pass finds out.
                None => {}
            }
        }
        Some(_) => {}
        None => {
            let acquired = schedule.acquire_fan_out(&deliverer.holder, deliverer.lane_lease).await;
            let acquired = unless_defect(LEAD, acquired)?.flatten();
            *ours = acquired.map(|lease| {
                tracing::info!(epoch = lease.epoch, "this publisher leads the lane of webhooks");
                Ours { lease, renewed_at: now }
            });
        }
    }
    Ok(())
}

/// How much is owed, and how late we are with it: with the oldest event that is not fanned out, or with the oldest
/// delivery that is due.
async fn count(
    deliverer: &Deliverer,
    schedule: &Postgres,
    counted_at: &mut Option<Mono>,
    passed: &FannedOut,
) -> Result<(), ScheduleError> {
    let now = deliverer.clock.mono();
    if counted_at.is_some_and(|at| now.0.saturating_sub(at.0) < COUNT_EVERY) {
        return Ok(());
    }
    let counted = schedule.webhook_backlog(MOST_COUNTED).await;
    let Some(backlog) = unless_defect("counting what is owed to endpoints", counted)? else {
        metrics::WEBHOOK_FAILURES.add(1, ["count"]);
        return Ok(());
    };
    *counted_at = Some(now);
    metrics::WEBHOOK_BACKLOG.set(f64::from(u32::try_from(backlog.owed).unwrap_or(u32::MAX)), []);
    metrics::WEBHOOK_OLDEST_AGE.set(backlog.oldest_age.max(passed.oldest_age).as_secs_f64(), []);
    Ok(())
}
