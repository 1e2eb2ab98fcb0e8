//! An attempt as a trace: claimed, asked of the gateway, settled, and linked to the POST that asked for it.
//!
//! **Promises.** It is told beside the step and changes nothing of it: no span is waited for, and where nobody listens
//! there is none. A batch is one statement and many payments; each of them has its own trace, so that one payment's
//! is whole. Nothing goes to the gateway that says so: its requests are frozen, and traces are ours. **Relies on** the
//! claim to bring the POST's trace context (`payment_details.traceparent`). If this dies here, the process did.

use super::seat::Seat;
use crate::domain::decision::Decision;
use crate::domain::lease::Mono;
use crate::domain::verdict::Verdict;
use crate::platform::clock::Clock;
use crate::platform::trace::{self, Kind, Span};
use crate::schedule::{Answered, Claimed, Settled, SettledAs};
use std::future::Future;
use std::time::Duration;

/// How long ago the claim was asked for; nothing is asked where nobody listens.
pub(super) fn claiming_took(clock: &dyn Clock, asked_at: Mono) -> Duration {
    if trace::is_on() { clock.mono().0.saturating_sub(asked_at.0) } else { Duration::ZERO }
}

/// Begins the attempt, when its claim began.
pub(super) fn attempt(claimed: &Claimed, claiming_took: Duration) -> Span {
    let beginning = trace::span("attempt", Kind::Consumer).linked([claimed.traceparent()]);
    let mut span = beginning.begun(claiming_took).start();
    let payment = claimed.payment();
    span.say("punctual.payment.id", || payment.id.to_string());
    span.say("punctual.attempt", || i64::from(payment.attempt));
    span.say("punctual.gateway", || payment.gateway.0.clone());
    span.say("punctual.was", || claimed.was().as_str());
    span.say("punctual.lateness_ms", || {
        (claimed.claimed_at() - payment.first_attempt_at()).num_milliseconds()
    });
    span.child("claim", Kind::Internal).begun(claiming_took).start().end();
    span
}

/// One call to the gateway as a part of the attempt.
pub(super) async fn call<T>(attempt: &Span, name: &'static str, call: impl Future<Output = T>) -> T {
    let _until_answered = attempt.child(name, Kind::Client).start();
    call.await
}

/// What it came to, before it is written.
pub(super) fn decided(attempt: &mut Span, (answered, decision): &(Answered, Decision)) {
    let verdict = &answered.answer().verdict;
    attempt.say("punctual.verdict", || verdict.as_str());
    attempt.say("punctual.became", || decision.to.as_str());
    match verdict {
        Verdict::Unknown(_) => attempt.failed("no trustworthy answer"),
        Verdict::ContractViolation { .. } => attempt.failed("the answer cannot be true"),
        Verdict::Charged { .. }
        | Verdict::Declined(_)
        | Verdict::NotSent { .. }
        | Verdict::InProgress { .. }
        | Verdict::PendingAtGateway { .. }
        | Verdict::Voided => {}
    }
}

/// The write of a group, in each attempt's trace; none where nobody listens.
pub(super) fn settling(seats: &[Seat]) -> Vec<Span> {
    if !trace::is_on() {
        return Vec::new();
    }
    seats.iter().map(|seat| seat.span.child("settle", Kind::Internal).start()).collect()
}

/// The attempts end, in the order of `settling` and of the proofs that there are.
pub(super) fn settled(settling: Vec<Span>, seats: &mut [Seat], proofs: &[Settled]) {
    for (place, (mut settle, seat)) in settling.into_iter().zip(seats).enumerate() {
        match proofs.get(place).map(Settled::result) {
            Some(SettledAs::Written(_)) => {}
            Some(SettledAs::Fenced) => settle.failed("another claim came first; kept as evidence"),
            None => settle.failed("not written; the payment is asked about"),
        }
        settle.end();
        seat.span.end();
    }
}
