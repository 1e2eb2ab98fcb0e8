//! What may be repaired without a person, and who is called for the rest.
//!
//! **Promises.** Each repair is one payment's transaction, by its own guard (`domain/repair.rs`). A payment that lost its
//! external id to one that was charged is told of as an error, which pages. If this dies here, the next run repairs
//! the rest.

use super::Terms;
use crate::domain::ids::GatewayName;
use crate::domain::state::Status;
use crate::platform::metrics;
use crate::schedule::{Postgres, Repairs, RepairsOrder, ScheduleError};

/// Over all days: what a worker held when its day was compared is free by now.
pub(super) async fn repair(
    schedule: &Postgres,
    gateway: &GatewayName,
    terms: Terms,
) -> Result<Repairs, ScheduleError> {
    let Some(power) = terms.power else { return Ok(Repairs::default()) };
    let order = RepairsOrder { gateway: gateway.clone(), day: None, power };
    let repairs = schedule.repair_day(&order).await?;
    metrics::PAYMENT_TRANSITIONS.add(repairs.completed, [Status::Completed.as_str(), "reconciled"]);
    metrics::PAYMENT_TRANSITIONS.add(repairs.parked, [Status::Parked.as_str(), "reconciled"]);
    metrics::PAYMENT_TRANSITIONS.add(repairs.refunded, [Status::Refunded.as_str(), "refunded"]);
    if repairs.others > 0 {
        tracing::error!(
            payments = repairs.others,
            "payments are parked because an older one of the same external id was charged after all"
        );
    }
    for (why, count) in &repairs.refused {
        tracing::info!(why = why.as_str(), count, "left to people");
    }
    Ok(repairs)
}
