//! A batch, grouped by due day: each hot statement names one day as a plain parameter, so that its
//! plan touches one partition (a join to an array of days plans and probes all of them).

use crate::domain::ids::PaymentId;
use chrono::NaiveDate;
use std::collections::BTreeMap;

/// The places of a batch's items by due day, days in order: with ids ordered inside a statement,
/// every batch locks rows in the order (due day, id).
pub(super) fn by_day<T>(items: &[T], id: impl Fn(&T) -> PaymentId) -> BTreeMap<NaiveDate, Vec<usize>> {
    let mut days: BTreeMap<NaiveDate, Vec<usize>> = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        days.entry(id(item).due_day()).or_default().push(place);
    }
    days
}
