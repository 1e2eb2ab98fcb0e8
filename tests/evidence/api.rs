//! The interface, and the people's side of it: the document against the running product, who may do what, what
//! batches save, imports at size, what support can read out, and what a newcomer meets.

mod batches;
mod claims;
mod explained;
mod fuzzed;
mod imported;
mod matrix;
mod newcomer;
mod page;
mod statuses;

use crate::figures::Figures;
use crate::parts::Parts;
use std::time::Duration;

const PARTS: Parts = Parts {
    names: &["access", "statuses", "docs", "batch", "claim", "readme", "explain", "import", "fuzz"],
    longest: Duration::from_secs(12 * 60),
};

/// All of it, or the parts of those names.
pub async fn show(figures: &mut Figures, parts: &[&str]) {
    PARTS.run(figures, parts, of).await;
}

async fn of(figures: &mut Figures, part: &str) {
    match part {
        "access" => matrix::every_route_asks_every_kind_of_key(figures).await,
        "statuses" => statuses::every_documented_status_is_reached(figures).await,
        "docs" => page::every_operation_is_shown_and_nothing_comes_from_elsewhere(figures).await,
        "batch" => batches::a_batch_is_several_times_quicker(figures).await,
        "claim" => claims::an_index_and_switches_cost_a_claim_little(figures).await,
        "readme" => newcomer::the_readme_s_curls_pay_and_cancel(figures).await,
        "explain" => explained::five_payments_are_explained(figures).await,
        "import" => imported::a_file_is_imported_once_however_often_it_is_stopped(figures).await,
        _ => fuzzed::the_interface_is_held_against_its_document(figures),
    }
}
