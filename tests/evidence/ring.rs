//! The distributed half: members that come and go, brokers that die, gateways that are slow or hold back,
//! the midnight of the 1st. On an optimised build, since what is measured is time.

mod clocks;
mod contracts;
mod crowd;
mod group;
mod members;
mod restarts;
mod spike;
mod brokers;
mod loss;

use crate::figures::Figures;

/// All of it, or the part of that name.
pub async fn show(figures: &mut Figures, part: Option<&str>) {
    let wants = |name: &str| part.is_none_or(|part| part == name);
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
    if wants("spike_lead") {
        spike::a_crowded_minute_is_staged_before_its_instant(figures).await;
    }
    if wants("contracts") {
        contracts::the_document_is_asyncapi(figures);
    }
}
