//! The promises, asked of what was written down: pure functions from records to findings.
//!
//! **Promises.** One line for each invariant of [`crate::domain::invariants`]: valid, broken or unknown,
//! with how many things were looked at and a witness. A check that looked at nothing has proven nothing
//! and says *unknown*, as does one whose inputs are missing.
//!
//! **Relies on** nothing that the flow computed: the gateway's key, the chain of hashes, the spacing of
//! retries and the age of keys are computed here anew from the rows, so that a fault in the product's
//! own function is found. Clocks: the gateway's ledger is stamped by the gateway, all else by the
//! database; what compares the two trusts them to agree.
//!
//! **Why by windows of due days.** A payment's id carries its due time, so ledger, rows and records of a
//! window are picked without looking anything up, every check is per payment, and memory goes with the
//! window and not with the installation: see [`BYTES_PER_PAYMENT`].
//!
//! One file a group: money, state, liveness, pipeline, clients. If this dies, nothing but the answer is
//! lost: it reads only.

mod checked;
mod clients;
mod coverage;
mod index;
mod liveness;
mod money;
mod pipeline;
mod reconciled;
mod records;
mod refunds;
mod report;
mod state;

pub use checked::{Checked, Valid, WITNESSES};
pub use coverage::{Coverage, SITUATIONS, Situation};
pub use records::{Asked, Given, LedgerLine, Lines, Op, Operation, Records, Rules};
pub use report::{Report, Requirement};

use crate::domain::invariants::{Input, Invariant};
use index::Index;

/// Memory of one payment with one attempt and three history rows, at most: half of it rows, lines and
/// texts, the rest the index and the room of growing lists. A window of a million payments takes up to
/// four gigabytes; a further attempt with its history adds up to 2,000 bytes.
pub const BYTES_PER_PAYMENT: usize = 4_000;

/// Asks every promise of one window's records.
#[must_use]
pub fn check(records: &Records, rules: &Rules) -> Vec<Checked> {
    let index = Index::of(records);
    Invariant::ALL.iter().map(|invariant| one(*invariant, records, &index, rules)).collect()
}

fn one(invariant: Invariant, records: &Records, index: &Index<'_>, rules: &Rules) -> Checked {
    use Invariant as Is;
    if let Some(missing) = missing(invariant, records.given) {
        return Checked::unknown(invariant, missing);
    }
    match invariant {
        Is::M1 => money::charged_at_most_once(records),
        Is::M2 => money::each_request_has_an_earlier_claim(records, index),
        Is::M3 => money::nothing_early(records, index),
        Is::M4 => money::amounts_are_equal(records, index),
        Is::M5 => money::keys_follow_payment_and_epoch(records, index, rules),
        Is::M6 => money::one_request_per_attempt(records),
        Is::M7 => clients::granted_cancels_are_never_charged(records, index),
        Is::M8 => money::nothing_after_the_end(records, index),
        Is::M9 => money::sums_are_equal(records, index),
        Is::M11 => money::nothing_is_charged_after_a_wish(records, index),
        Is::H1 => state::history_is_legal_and_whole(records, index),
        Is::H2 => state::chains_verify(records, index),
        Is::H3 => state::fences_grow(records, index),
        Is::H4 => state::each_stale_settle_is_told(records, index),
        Is::H5 => state::final_rows_rest(records, index),
        Is::H6 => money::completed_means_charged(records, index),
        Is::H7 => state::status_is_the_last_row(records, index),
        Is::H8 => state::retries_keep_budget_and_spacing(index, rules),
        Is::H9 => state::nothing_is_sent_after_a_hard_decline(records, index),
        Is::H10 => state::ids_are_unique(records),
        Is::L1 => liveness::nothing_is_stuck(records, rules),
        Is::L2 => clients::acknowledged_creates_exist(records, index),
        Is::L3 => clients::one_key_names_one_payment(records),
        Is::L4 => liveness::lateness_is_measured(index),
        Is::L5 => liveness::due_payments_do_not_wait(records, rules),
        Is::L7 => liveness::parked_have_a_reason(records),
        Is::K1 => pipeline::committed_records_have_evidence(records, index),
        Is::K2 => pipeline::partitions_are_stable(records),
        Is::K3 => pipeline::every_record_is_known(records, index),
        Is::K4 => pipeline::events_tell_everything(records, index),
        Is::A1 => clients::answers_and_rows_agree(index),
        Is::A2 => clients::reads_never_go_back(records, index),
        Is::A3 => clients::nobody_sees_another_s(records),
        Is::M10 => refunds::refunds_never_exceed_the_charge(records, index),
        Is::L6 | Is::K5 | Is::K6 => Checked::unknown(invariant, "shown by tests that inject the faults"),
        Is::R1 => reconciled::differences_are_found(records, index),
        Is::R2 => Checked::unknown(invariant, "exported counters are not an input yet"),
    }
}

/// Which input a promise needs and nobody gave. That faults were injected, and healed, is for whoever
/// asks to know; what needs to know more of them is unknown by itself.
fn missing(invariant: Invariant, given: Given) -> Option<&'static str> {
    invariant.inputs().iter().find_map(|input| match input {
        Input::GatewayLedger if !given.ledger => Some("no ledger of the gateway was given"),
        Input::Database if !given.database => Some("no database was given"),
        Input::Kafka if !given.topics => Some("the topics were not read"),
        Input::ClientLog if !given.operations => Some("no log of the clients was given"),
        Input::GatewayLedger | Input::Database | Input::Kafka | Input::ClientLog | Input::Faults => None,
    })
}

#[cfg(test)]
mod forgery_tests;
