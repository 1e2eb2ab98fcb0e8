//! The money protocol under everything that a gateway, a network, a frozen worker, a client and people at their
//! consoles can do to it: never twice, never lost, never guessed.

mod backlog;
mod cancels;
mod consoles;
mod expiry;
mod funds;
mod matrix;
mod refunds;
mod switches;
mod told;
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
    let of_consoles = part.filter(|part| consoles::PARTS.contains(part));
    if wants("consoles") || of_consoles.is_some() {
        consoles::whoever_comes_first_it_is_charged_once(figures, of_consoles).await;
    }
    if wants("refunds") {
        refunds::money_goes_back_once_and_never_more_than_was_charged(figures).await;
    }
    if wants("switches") {
        switches::what_is_switched_off_is_not_sent(figures).await;
    }
}
