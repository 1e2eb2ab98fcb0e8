//! A day compared, and told: what differs, what is repaired, which books do not add up.
//!
//! **Promises.** It may be asked at any time and any number of times; what is counted is counted once, when it is first
//! found, so that an alarm on it rings once. **Relies on** the schedule for every judgement. If this dies here, the
//! comparison stands as far as it came, and the next one goes over all of it.

use super::{Order, Terms, repair};
use crate::domain::ids::GatewayName;
use crate::platform::metrics;
use crate::schedule::{CompareOrder, Compared, DaySum, Postgres, Repairs, ScheduleError};
use chrono::{Days, NaiveDate};

/// A day whose books differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// The day on which the payments were due.
    pub due_day: NaiveDate,
    /// The books.
    pub sum: DaySum,
}

/// Compares a gateway's day with the reports that count for it, repairs what may be, and adds up the books.
///
/// # Errors
/// As the schedule's verbs; repeating it does no harm.
pub async fn look_again(
    schedule: &Postgres,
    gateway: &GatewayName,
    day: NaiveDate,
    terms: Terms,
) -> Result<(Compared, Repairs, Vec<Apart>), ScheduleError> {
    let order = CompareOrder { gateway: gateway.clone(), day, trial: None, grace_days: terms.grace_days };
    let mut compared = schedule.compare_day(&order).await?;
    let repairs = repair::repair(schedule, gateway, terms).await?;
    if repairs.completed + repairs.parked > 0 {
        // What was repaired is explained by it, or is another difference now.
        let new = std::mem::take(&mut compared.new);
        compared = schedule.compare_day(&order).await?;
        for (class, count) in new {
            *compared.new.entry(class).or_default() += count;
        }
    }
    for (class, count) in schedule.tell_open_items(gateway).await? {
        metrics::RECONCILE_MISMATCHES.add(count, [class.as_str()]);
        tracing::warn!(%gateway, class = class.as_str(), count, "the books differ, and somebody has to look");
    }
    let mut apart = Vec::new();
    // The day's own payments are late as long as their grace lasts, and those of the days before are not any more.
    for back in 0..=u64::from(terms.grace_days) + 1 {
        let Some(due_day) = day.checked_sub_days(Days::new(back)) else { continue };
        let sums = schedule.day_sums(gateway, due_day).await?;
        apart.extend(sums.into_iter().filter(|sum| !sum.is_even()).map(|sum| Apart { due_day, sum }));
    }
    let count = f64::from(u32::try_from(apart.len()).unwrap_or(u32::MAX));
    metrics::RECONCILE_SUMS_APART.set(count, [&gateway.0]);
    Ok((compared, repairs, apart))
}

/// Compares a day as if this report counted; nothing is written of it.
pub(super) async fn on_trial(
    schedule: &Postgres,
    order: &Order,
    terms: Terms,
) -> Result<Compared, ScheduleError> {
    let order = CompareOrder {
        gateway: order.gateway.clone(),
        day: order.day,
        trial: Some(order.id),
        grace_days: terms.grace_days,
    };
    schedule.compare_day(&order).await
}
