//! The machine's side of the money protocol, under everything that a gateway, a network, a frozen worker
//! and a client can do to it: never twice, never lost, never guessed.

mod backlog;
mod cancels;
mod expiry;
mod funds;
mod matrix;
mod zombies;

use crate::figures::Figures;

/// All of it, or the part of that name.
pub async fn show(figures: &mut Figures, part: Option<&str>) {
    let wants = |name: &str| part.is_none_or(|part| part == name);
    if wants("matrix") {
        matrix::every_unknown_ends_as_the_rules_say(figures).await;
    }
    if wants("zombies") {
        zombies::what_wakes_too_late_pays_nothing_again(figures).await;
    }
    if wants("funds") {
        funds::a_decline_is_retried_under_the_next_key(figures).await;
    }
    if wants("cancels") {
        cancels::no_granted_cancel_is_ever_charged(figures).await;
    }
    if wants("expiry") {
        expiry::nothing_is_sent_past_the_cut_off(figures).await;
    }
    if wants("backlog") {
        backlog::a_backlog_goes_oldest_first(figures).await;
    }
}
