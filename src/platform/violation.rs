//! A broken promise that the running system sees for itself: counted under its number, and logged with its
//! payment.
//!
//! **Promises.** The series of every promise exist as zero from the start, so that any increase can be
//! alerted on; each increase has a log line of level error beside it. **Relies on** nothing and changes
//! nothing: whoever sees a violation goes on as the rules say. **Why here**: the numbers are those of
//! [`crate::domain::invariants`], and of `punctual audit check`, which sees what no process can alone.

use super::metrics;
use crate::domain::ids::PaymentId;
use crate::domain::invariants::Invariant;

/// Counts and logs that `invariant` was seen broken, as `what` says; no secrets, no payee.
pub fn seen(invariant: Invariant, payment: Option<PaymentId>, what: &str) {
    let payment = payment.map(tracing::field::display);
    let (invariant, statement) = (invariant.id(), invariant.statement());
    metrics::INVARIANT_VIOLATIONS.add(1, [invariant]);
    tracing::error!(payment, invariant, statement, "a promise is broken: {what}");
}
