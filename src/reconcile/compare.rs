//! A day compared, and told: what differs, what is repaired, which books do not add up.
//!
//! **Promises.** It may be asked at any time and any number of times; what is counted is counted once each time that it is
//! opened ([`tell_open`]). **Relies on** the schedule for every judgement. If this dies here, the
//! comparison stands as far as it came, and the next one goes over all of it.

use super::{Order, ReconcileError, Terms, repair, tell_open};
use crate::domain::ids::GatewayName;
use crate::schedule::{CompareOrder, Compared, DaySum, Postgres, Repairs, ScheduleError};
use chrono::{Days, NaiveDate};
use futures_util::{StreamExt, TryStreamExt, stream};

/// Due days that are added up at once, each of which reads all of its payments.
const ADDED_AT_ONCE: usize = 2;

/// A day whose books differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// The day on which the payments were due.
    pub due_day: NaiveDate,
    /// The books.
    pub sum: DaySum,
}

/// Refuses a day of which something that a comparison needs is not kept any more.
pub(super) async fn hold_kept(
    schedule: &Postgres,
    gateway: &GatewayName,
    day: NaiveDate,
    terms: Terms,
) -> Result<(), ReconcileError> {
    match schedule.is_forgotten(gateway, day, terms.grace_days).await? {
        None => Ok(()),
        Some(why) => Err(ReconcileError::Forgotten { day, why }),
    }
}

/// Compares a gateway's day with the reports that count for it, repairs what may be, and adds up the books.
///
/// # Errors
/// [`ReconcileError::Forgotten`], or as the schedule's verbs; repeating it does no harm.
pub async fn look_again(
    schedule: &Postgres,
    gateway: &GatewayName,
    day: NaiveDate,
    terms: Terms,
) -> Result<(Compared, Repairs, Vec<Apart>), ReconcileError> {
    hold_kept(schedule, gateway, day, terms).await?;
    let order = CompareOrder { gateway: gateway.clone(), day, trial: None, grace_days: terms.grace_days };
    let mut compared = schedule.compare_day(&order).await?;
    let repairs = repair::repair(schedule, gateway, terms).await?;
    if repairs.completed + repairs.parked + repairs.refunds > 0 {
        // What was repaired is explained by it, or is another difference now.
        let new = std::mem::take(&mut compared.new);
        compared = schedule.compare_day(&order).await?;
        for (class, count) in new {
            *compared.new.entry(class).or_default() += count;
        }
    }
    tell_open(schedule, gateway).await?;
    // The day's own payments are late as long as their grace lasts, and those of the days before are not any more.
    let days = (0..=u64::from(terms.grace_days) + 1).filter_map(|back| day.checked_sub_days(Days::new(back)));
    let added = stream::iter(days).map(|due_day| add_up(schedule, gateway, due_day)).buffered(ADDED_AT_ONCE);
    let apart: Vec<Vec<Apart>> = added.try_collect().await?;
    Ok((compared, repairs, apart.into_iter().flatten().collect()))
}

/// The books of a due day that differ, which is noted.
async fn add_up(
    schedule: &Postgres,
    gateway: &GatewayName,
    due_day: NaiveDate,
) -> Result<Vec<Apart>, ScheduleError> {
    let sums = schedule.day_sums(gateway, due_day).await?;
    let apart = sums.into_iter().filter(|sum| !sum.is_even()).map(|sum| Apart { due_day, sum });
    let apart: Vec<Apart> = apart.collect();
    schedule.note_books(gateway, due_day, apart.len()).await?;
    Ok(apart)
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
