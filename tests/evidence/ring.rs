//! The distributed half: members that come and go, brokers that die, gateways that are slow or hold back,
//! the midnight of the 1st. On an optimised build, since what is measured is time.

mod fairness;
mod late;
mod neighbours;

use crate::figures::Figures;

/// All of it, or the part of that name.
pub async fn show(figures: &mut Figures, part: Option<&str>) {
    let wants = |name: &str| part.is_none_or(|part| part == name);
    if wants("neighbours") {
        neighbours::a_slow_gateway_slows_no_other(figures).await;
    }
    if wants("fairness") {
        fairness::an_actor_s_crowd_keeps_nobody_waiting(figures).await;
    }
    if wants("late") {
        late::what_is_created_late_is_paid_on_time(figures).await;
    }
}
