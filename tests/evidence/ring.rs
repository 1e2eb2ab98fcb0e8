//! The distributed half: members that come and go, brokers that die, gateways that are slow or hold back,
//! the midnight of the 1st. On an optimised build, since what is measured is time.

mod breaker;
mod brokers;
mod clocks;
mod contracts;
mod crowd;
mod fairness;
pub mod group;
mod late;
mod loss;
mod members;
mod minute;
mod neighbours;
mod paced;
mod permits;
mod restarts;
mod spike;

use crate::figures::Figures;

/// All of it, or the part of that name.
pub async fn show(figures: &mut Figures, part: Option<&str>) {
    let wants = |name: &str| part.is_none_or(|part| part == name);
    if wants("contracts") {
        contracts::the_document_is_asyncapi(figures);
    }
    if wants("members") {
        members::members_come_and_go(figures).await;
    }
    if wants("restarts") {
        restarts::every_role_is_restarted_in_turn(figures).await;
    }
    if wants("clocks") {
        clocks::wrong_clocks_charge_nothing_early(figures).await;
    }
    if wants("brokers") {
        brokers::three_that_copy_each_other(figures).await;
    }
    if wants("loss") {
        loss::kafka_is_lost_and_no_payment_with_it(figures).await;
    }
    if wants("neighbours") {
        neighbours::a_slow_gateway_slows_no_other(figures).await;
    }
    if wants("fairness") {
        fairness::an_actor_s_crowd_keeps_nobody_waiting(figures).await;
    }
    if wants("late") {
        late::what_is_created_late_is_paid_on_time(figures).await;
    }
    if wants("minute") {
        minute::a_crowded_minute_is_staged_before_its_instant(figures).await;
    }
    if wants("permits") {
        permits::workers_share_one_rate(figures).await;
    }
    if wants("breaker") {
        breaker::calls_stop_while_the_gateway_is_away(figures).await;
    }
    if wants("spike") {
        spike::a_spike_is_bounded_lateness(figures).await;
    }
}
