//! The loop closed with the outside: events against their schemas, webhooks under failing receivers, settlement
//! files against other readers, injected defects found and nothing else, a million lines, a day of chaos reconciled,
//! a restored backup that charges nothing twice. On an optimised build, since part of what is measured is time.
//!
//! A part is a file below `outcomes/`, a name in `PARTS` and an arm in [`of`].

mod chaosday;
mod day;
mod defects;
mod hooks;
mod idempotent;
mod million;
mod oracles;
mod restore;
mod schemas;

use crate::figures::Figures;
use crate::parts::Parts;
use std::time::Duration;

const PARTS: Parts = Parts {
    names: &["oracles", "defects", "million", "idempotent", "hooks", "chaosday", "restore", "schemas"],
    longest: Duration::from_secs(25 * 60),
};

/// All of it, or the parts of those names.
pub async fn show(figures: &mut Figures, parts: &[&str]) {
    PARTS.run(figures, parts, of).await;
}

async fn of(figures: &mut Figures, part: &str) {
    match part {
        "oracles" => oracles::other_readers_see_the_same(figures).await,
        "defects" => defects::every_defect_is_found_and_nothing_else(figures).await,
        "million" => million::a_million_lines_are_compared_in_seconds(figures).await,
        "idempotent" => idempotent::a_report_counts_once_and_only_whole(figures).await,
        "hooks" => hooks::nothing_is_lost_on_its_way_to_a_failing_receiver(figures).await,
        "chaosday" => chaosday::a_day_of_chaos_is_explained_to_the_last_payment(figures).await,
        "restore" => restore::a_restored_backup_charges_nothing_twice(figures).await,
        _ => schemas::everything_emitted_fits_its_schema(figures).await,
    }
}
