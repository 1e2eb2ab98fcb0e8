//! What the person on duty has at three in the morning: alerts that fire where they must, a doctor that names what
//! is wrong, pages that answer at a million payments and to two hundred viewers, a forecast that SQL agrees with,
//! signals that tell everything but secrets, and an hour of it from the first to the last command. On an optimised
//! build, since part of what is measured is time.
//!
//! A part is a file below `operate/`, a name in `PARTS` and an arm in [`of`].

mod browser;
mod doctor;
mod forecast;
mod month;
mod night;
mod pages;
mod signals;
mod viewers;
mod visitor;

use crate::figures::Figures;
use crate::parts::Parts;
use std::time::Duration;

const PARTS: Parts = Parts {
    names: &[
        "alerts",
        "doctor",
        "million",
        "viewers",
        "forecast",
        "traces",
        "redaction",
        "drain",
        "night",
        "browser",
    ],
    longest: Duration::from_secs(30 * 60),
};

/// All of it, or the parts of those names.
pub async fn show(figures: &mut Figures, parts: &[&str]) {
    PARTS.run(figures, parts, of).await;
}

async fn of(figures: &mut Figures, part: &str) {
    match part {
        "alerts" => signals::alerts_fire_where_they_must_and_are_silent_elsewhere(figures),
        "doctor" => doctor::ten_faults_are_each_named_and_nothing_else(figures).await,
        "million" => pages::every_page_answers_at_once_on_a_million_payments(figures).await,
        "viewers" => viewers::two_hundred_viewers_cost_little_more_than_one(figures).await,
        "forecast" => forecast::the_forecast_is_what_sql_counts_and_a_look_reads_little(figures).await,
        "traces" => signals::traces_are_linked_to_the_post(figures),
        "redaction" => signals::canaries_are_in_no_signal(figures),
        "drain" => signals::a_process_drains_in_time_and_says_so(figures),
        "night" => night::the_gateway_breaks_at_night_and_is_found_and_mended(figures).await,
        _ => browser::show(figures).await,
    }
}
