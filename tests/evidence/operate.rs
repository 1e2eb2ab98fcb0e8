//! What the person on duty has at three in the morning: alerts that fire where they must, a doctor that names what
//! is wrong, pages that answer at a million payments and to two hundred viewers, a forecast that SQL agrees with,
//! signals that tell everything but secrets, and an hour of it from the first to the last command. On an optimised
//! build, since part of what is measured is time.
//!
//! A part is a file below `operate/`, a name in `PARTS` and an arm in [`of`].

mod browser;

use crate::figures::Figures;
use crate::parts::Parts;
use std::time::Duration;

const PARTS: Parts = Parts { names: &["browser"], longest: Duration::from_secs(25 * 60) };

/// All of it, or the parts of those names.
pub async fn show(figures: &mut Figures, parts: &[&str]) {
    PARTS.run(figures, parts, of).await;
}

async fn of(figures: &mut Figures, _part: &str) {
    browser::show(figures).await;
}
