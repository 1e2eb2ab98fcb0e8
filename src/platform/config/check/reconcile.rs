//! Settings of reconciliation that are each legal and dangerous together: what is never compared, or called missing
//! before anybody could report it. Pure; if this is wrong, people are woken for nothing, or for too little.

use super::Found;
use std::time::Duration;

pub(super) fn reconcile(found: &mut Found<'_>) {
    let reconcile = &found.config.reconcile;
    found.refuse_unless(
        reconcile.hour < 24,
        &["reconcile.hour"],
        "an hour of the day, 0 to 23, or no day is ever compared",
    );
    found.refuse_unless(
        (1..=90).contains(&reconcile.catch_up_days),
        &["reconcile.catch_up_days"],
        "1 to 90: without one no day is ever compared, and reports of older ones are brought by people",
    );
    found.refuse_unless(
        reconcile.retry_every > Duration::ZERO,
        &["reconcile.retry_every"],
        "must be above zero: it is the pause of a loop",
    );
    found.refuse_unless(
        (1..=30).contains(&reconcile.grace_days),
        &["reconcile.grace_days"],
        "1 to 30: without one a charge at midnight is called missing, and what is late for ever is never found",
    );
    found.refuse_unless(
        ["none", "safe", "automatic"].contains(&reconcile.repair.as_str()),
        &["reconcile.repair"],
        "none, safe or automatic: the rest is for people",
    );
    found.refuse_unless(
        reconcile.keep_days > reconcile.catch_up_days.saturating_add(reconcile.grace_days).saturating_add(7),
        &["reconcile.keep_days", "reconcile.catch_up_days", "reconcile.grace_days"],
        "lines must outlive every comparison that needs them, and a week",
    );
}
