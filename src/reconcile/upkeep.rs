//! What of reconciliation is looked after whether or not a report comes: how it stands, and what is forgotten.
//!
//! **Promises.** The gauges say what stands in the tables, so that they are true in any process and after a restart, and a
//! gateway that nobody reconciles any more is seen by the age of its last success. If this dies here, they keep their
//! last values.

use crate::domain::ids::GatewayName;
use crate::domain::matching::Class;
use crate::platform::metrics;
use crate::schedule::{Postgres, ReconciliationStanding, ScheduleError};

/// Sets the gauges of every gateway that was ever reconciled, and answers what they were set to.
///
/// # Errors
/// As the schedule's verbs.
pub async fn tell_standing(schedule: &Postgres) -> Result<Vec<ReconciliationStanding>, ScheduleError> {
    let standings = schedule.reconciliation_standing().await?;
    for standing in &standings {
        let gateway = standing.gateway.0.as_str();
        for class in Class::ALL {
            let open = standing.open.get(class).copied().unwrap_or(0);
            metrics::RECONCILE_OPEN_ITEMS.set(whole(open), [gateway, class.as_str()]);
        }
        metrics::RECONCILE_SUMS_APART.set(whole(standing.sums_apart), [gateway]);
        if let Some(at) = standing.last_success_at {
            metrics::RECONCILE_LAST_SUCCESS.set(whole(at.timestamp()), [gateway]);
        }
    }
    Ok(standings)
}

/// Tells people what is open: counted and logged when it is opened, also when it is opened again, and logged once more with
/// each day that it stays so.
///
/// # Errors
/// As the schedule's verbs.
pub async fn tell_open(schedule: &Postgres, gateway: &GatewayName) -> Result<(), ScheduleError> {
    let told = schedule.tell_open_items(gateway).await?;
    for (class, count) in told.opened {
        metrics::RECONCILE_MISMATCHES.add(count, [class.as_str()]);
        tracing::warn!(%gateway, class = class.as_str(), count, "the books differ, and somebody has to look");
    }
    for (class, count) in told.still_open {
        tracing::warn!(%gateway, class = class.as_str(), count, "the books still differ, another day later");
    }
    Ok(())
}

/// Drops the lines of reports more than `keep_days` days old, some days at a time; answers how many.
///
/// # Errors
/// As the schedule's verbs.
pub async fn forget_lines(schedule: &Postgres, keep_days: u32) -> Result<u32, ScheduleError> {
    schedule.drop_old_settlements(keep_days).await
}

/// Exact to the year 2106, and held there beyond.
fn whole(count: i64) -> f64 {
    f64::from(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}
