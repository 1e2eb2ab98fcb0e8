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

use crate::figures::{Figures, Holds, Verdict};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

/// Longest of all parts together.
const LONGEST: Duration = Duration::from_secs(12 * 60);

/// By their names, in the order of the run.
const PARTS: [&str; 9] =
    ["access", "statuses", "docs", "batch", "claim", "readme", "explain", "import", "fuzz"];

/// All of it, or the part of that name.
pub async fn show(figures: &mut Figures, part: Option<&str>) {
    let began = Instant::now();
    if let Some(part) = part.filter(|part| !PARTS.contains(part)) {
        return figures.line(part, "no such part", &PARTS.join(", "), Verdict::Unknown);
    }
    for name in PARTS {
        if part.is_some_and(|part| part != name) {
            continue;
        }
        // One part that breaks off must not hide what the others show.
        let ran = AssertUnwindSafe(of(figures, name)).catch_unwind().await;
        if ran.is_err() {
            figures.line(
                &format!("the part {name}"),
                "it broke off, as said above",
                "it ends",
                Verdict::FallsShort,
            );
        }
    }
    if part.is_none() {
        figures.part("All of it");
        let took = began.elapsed();
        let bound = format!("≤ {} s", LONGEST.as_secs());
        figures.holds("time", format!("{} s", took.as_secs()), &bound, Holds(took <= LONGEST));
    }
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
