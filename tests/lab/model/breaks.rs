//! The model has teeth: each rule left out breaks an invariant, and which one is asserted.
//!
//! The rows are explored with the same bounds as the protocol that holds, and with the personality
//! and the options that the left-out rule is for; `holds` covers the same ones with all rules.

use super::breaks;
use super::terms::{Break, Terms};
use punctual::domain::facts::Declines::{Forgotten, Replayed};
use punctual::domain::facts::LookupSupport::{ByKey, None as NoLookup};
use punctual::domain::invariants::Invariant::{
    self, H3, H4, H6, H9, L1, M1, M2, M3, M4, M5, M6, M7, M8, M11,
};
use punctual::domain::payment::OnExhausted;

const FORGETS: Terms = Terms::new("", Forgotten, NoLookup);
const ASKED: Terms = Terms::new("", Forgotten, ByKey);
const REPLAYS: Terms = Terms::new("", Replayed, NoLookup);

const fn with_cancels(terms: Terms) -> Terms {
    Terms { cancels: true, ..terms }
}

const fn with_failover(terms: Terms) -> Terms {
    Terms { failover: true, ..terms }
}

const fn with_unanswered_claims(terms: Terms) -> Terms {
    Terms { unanswered_claims: true, ..terms }
}

fn without(name: &'static str, broken: Break, terms: Terms, property: Invariant) {
    breaks(Terms { name, broken, ..terms }, property);
}

#[test]
fn without_the_fence_money_moves_after_failed() {
    without("no-fence", Break::NoFence, FORGETS, M8);
    without("stale-settle", Break::StaleSettle, FORGETS, H4);
    without("stale-settle", Break::StaleSettle, FORGETS, M8);
    let repeated = Terms { unanswered_settles: true, workers: 2, ..FORGETS };
    without("own-commit-forgotten", Break::OwnCommitForgotten, repeated, M8);
}

#[test]
fn a_cancel_from_unknown_is_granted_for_money_that_moved() {
    without("cancel-from-unknown", Break::CancelFromUnknown, with_cancels(FORGETS), M7);
    without("cancel-from-unknown", Break::CancelFromUnknown, with_cancels(REPLAYS), M7);
}

#[test]
fn an_expired_lease_that_makes_a_payment_pending_lets_it_be_cancelled_for_money_that_moved() {
    without("lease-to-pending", Break::LeaseToPending, with_cancels(FORGETS), M7);
    without("lease-to-pending", Break::LeaseToPending, with_cancels(REPLAYS), M7);
}

#[test]
fn a_decline_that_answers_for_an_open_send_charges_twice_or_after_failed() {
    without("epoch-with-open-send", Break::EpochWithOpenSend, FORGETS, M1);
    without("failed-with-open-send", Break::FailedWithOpenSend, FORGETS, M8);
    without("false-replay", Break::FalseReplay, FORGETS, M1);
}

#[test]
fn a_key_that_is_too_old_or_too_new_charges_twice() {
    let long_lease = Terms { lease: 3, ..FORGETS };
    without("key-age-at-claim-only", Break::KeyAgeAtClaimOnly, long_lease, M1);
    without("key-age-at-claim-only", Break::KeyAgeAtClaimOnly, long_lease, M5);
    without("ageless-key", Break::AgelessKey, FORGETS, M1);
    let answered_late = Terms { duplicates: true, limits: false, horizon: 5, ..REPLAYS };
    without("age-taken-back", Break::AgeTakenBack, answered_late, M5);
    without("key-per-attempt", Break::KeyPerAttempt, REPLAYS, M1);
}

#[test]
fn a_failover_that_loses_the_last_commit_breaks_every_promise_about_money() {
    without("lost-commit", Break::LostCommit, with_cancels(with_failover(FORGETS)), M7);
    without("lost-commit", Break::LostCommit, with_failover(FORGETS), M1);
    without("lost-commit", Break::LostCommit, with_failover(REPLAYS), H3);
}

#[test]
fn what_is_unknown_or_not_found_is_no_proof() {
    without("unknown-is-failed", Break::UnknownIsFailed, FORGETS, M8);
    without("not-found-is-clean", Break::NotFoundIsClean, with_cancels(ASKED), M7);
    without("not-found-is-clean", Break::NotFoundIsClean, ASKED, M8);
}

#[test]
fn a_send_outside_its_claim_is_seen() {
    without("send-after-lease", Break::SendAfterLease, FORGETS, M8);
    without("uncommitted-claim", Break::UncommittedClaim, with_unanswered_claims(FORGETS), M2);
    without("uncommitted-claim", Break::UncommittedClaim, with_cancels(with_unanswered_claims(FORGETS)), M7);
    without("early", Break::Early, FORGETS, M3);
}

#[test]
fn a_request_that_is_repeated_or_rendered_anew_is_seen() {
    without("hidden-retry", Break::HiddenRetry, FORGETS, M6);
    without("hidden-retry", Break::HiddenRetry, FORGETS, M8);
    without("body-anew", Break::BodyAnew, Terms { deploys: true, ..REPLAYS }, M4);
}

#[test]
fn a_void_is_proof_only_as_a_tombstone_under_the_living_key_of_this_epoch() {
    let voids = |terms| Terms { voids: true, ..with_cancels(terms) };
    without("void-past-key", Break::VoidPastKey, voids(FORGETS), M8);
    without("charge-after-wish", Break::ChargeAfterWish, voids(FORGETS), M11);
    without("wish-lost", Break::WishLost, voids(FORGETS), M11);
    without("no-tombstone", Break::NoTombstone, voids(FORGETS), M8);
    without("void-of-another-epoch", Break::VoidOfAnotherEpoch, voids(FORGETS), M8);
    without("cancelled-at-wish", Break::CancelledAtWish, voids(FORGETS), M7);
}

#[test]
fn without_the_reaper_a_payment_never_ends() {
    without("no-reaper", Break::NoReaper, Terms { heals: true, ..FORGETS }, L1);
}

/// No rule of ours is left out here: this is what no rule of ours can do, and why nothing between us
/// and the gateway may repeat a request (R15 for our own client).
#[test]
fn a_network_that_repeats_requests_needs_a_gateway_that_remembers_every_answer() {
    let repeats = |terms| Terms { duplicates: true, ..terms };
    without("repeats-at-one-that-forgets", Break::Nothing, repeats(FORGETS), M8);
    without("repeats-at-one-that-limits", Break::Nothing, with_cancels(repeats(REPLAYS)), M7);
}

#[test]
fn a_person_s_release_that_leaves_out_its_guard_charges_twice_or_after_a_hard_decline() {
    let released = Terms { redrives: 1, workers: 2, claims: 4, exhausted: OnExhausted::Park, ..FORGETS };
    without("new-key-with-open-send", Break::NewKeyWithOpenSend, released, M1);
    without("redriven-after-hard", Break::RedrivenAfterHard, released, H9);
    without("redriven-as-clean", Break::RedrivenAsClean, released, H6);
}
