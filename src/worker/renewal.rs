//! Keeps the leases of calls in flight from running out, at a gateway that may be slower than a lease.
//!
//! **Promises.** While a call is in flight its claim's lease is granted anew every third of its length, in
//! one statement for all open claims of the account; never past the call's own total time-out, and not after
//! this process was half a lease late, since a process that stood still cannot say that it is healthy. A
//! claim that was taken away meanwhile is never asked for again, and nothing is sent under it any more.
//!
//! **Relies on** [`Schedule::renew`], which grants only under the claim's own fence, by the database's
//! clock. An instant of this host's counts from *before* a renewal was asked for, as with a claim.
//!
//! **Until when a send may start** there (rule R14): lease − margin − one interval after the lease was
//! granted last. So the first renewal of a call comes while what is left of the lease still covers the
//! margin, and of two intervals one may fail.
//!
//! **Why steps drive it** and not the worker's loop: whoever waits for a call is there as long as the call
//! is, also while the worker drains; and a loop that stands still must not leave somebody renewing. **If
//! this dies here**, leases run out, and the payments are UNKNOWN and asked about, as ever.

use super::step::Step;
use crate::domain::ids::{ClaimId, Fence, PaymentId};
use crate::domain::lease::{Lease, Mono, renewal_interval};
use crate::platform::metrics;
use crate::schedule::{Claimed, OpenClaim, Renewed, Schedule};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// After a renewal that failed the next is tried in this part of an interval.
const AGAIN_AFTER: u32 = 4;

/// The open calls of one gateway account; shared by its steps.
#[derive(Debug)]
pub struct Renewals {
    /// How long a renewal grants.
    length: Duration,
    /// The longest that one call may take.
    total: Duration,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    calls: BTreeMap<ClaimId, Call>,
    next_at: Mono,
}

#[derive(Debug)]
struct Call {
    payment: PaymentId,
    fence: Fence,
    /// From when on the lease counts; `None` once the claim is not ours any more.
    granted_at: Option<Mono>,
    /// Until when its call may be in flight.
    ends_at: Mono,
}

/// One claim's place among the open calls; given up by dropping.
#[derive(Debug)]
pub(super) struct Watched {
    renewals: Arc<Renewals>,
    claim_id: ClaimId,
}

impl Renewals {
    /// For leases of `length` and calls of at most `total`.
    #[must_use]
    pub fn new(length: Duration, total: Duration) -> Self {
        let open = Open { calls: BTreeMap::new(), next_at: Mono(Duration::ZERO) };
        Self { length, total, open: Mutex::new(open) }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Whoever panicked under this lock held numbers, none of them half written.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch over a claim; its call begins with [`Watched::calls`].
    pub(super) fn watch(self: &Arc<Self>, claimed: &Claimed) -> Watched {
        let payment = claimed.payment();
        let call = Call {
            payment: payment.id,
            fence: payment.fence,
            granted_at: Some(claimed.asked_at()),
            ends_at: claimed.asked_at(),
        };
        let claim_id = claimed.claim_id();
        self.open().calls.insert(claim_id, call);
        Watched { renewals: Arc::clone(self), claim_id }
    }

    /// How long until the next renewal, as far as it is known.
    fn pause(&self, now: Mono) -> Duration {
        let open = self.open();
        let interval = renewal_interval(self.length);
        if open.is_idle(now) { interval } else { open.next_at.0.saturating_sub(now.0).min(interval) }
    }

    /// The claims to be renewed now: all with a call in flight, once an interval, whoever asks first.
    fn due(&self, now: Mono) -> Vec<OpenClaim> {
        let mut open = self.open();
        if open.is_idle(now) || now < open.next_at {
            return Vec::new();
        }
        let late = now.0.saturating_sub(open.next_at.0);
        open.next_at = Mono(now.0 + renewal_interval(self.length));
        if late >= self.length / 2 {
            tracing::error!(
                late_ms = late.as_millis(),
                "this process did not run for too long; no lease is renewed"
            );
            open.calls.values_mut().for_each(|call| call.granted_at = None);
            return Vec::new();
        }
        let held = open.calls.iter().filter(|(_, call)| call.is_in_flight(now));
        held.map(|(claim_id, call)| OpenClaim {
            payment: call.payment,
            fence: call.fence,
            claim_id: *claim_id,
        })
        .collect()
    }

    fn told(&self, claims: &[OpenClaim], answers: &[Renewed], asked_at: Mono) {
        let mut open = self.open();
        for (claim, answer) in claims.iter().zip(answers) {
            let Some(call) = open.calls.get_mut(&claim.claim_id) else { continue };
            match answer {
                Renewed::Held => {
                    metrics::LEASES_RENEWED.add(1, ["renewed"]);
                    call.granted_at = call.granted_at.map(|_| asked_at);
                }
                Renewed::Lost => {
                    metrics::LEASES_RENEWED.add(1, ["lost"]);
                    tracing::warn!(payment = %claim.payment, "the claim of a call in flight was taken away");
                    call.granted_at = None;
                }
            }
        }
    }

    fn failed(&self, now: Mono) {
        metrics::LEASES_RENEWED.add(1, ["failed"]);
        self.open().next_at = Mono(now.0 + renewal_interval(self.length) / AGAIN_AFTER);
    }
}

impl Open {
    fn is_idle(&self, now: Mono) -> bool {
        !self.calls.values().any(|call| call.is_in_flight(now))
    }
}

impl Call {
    fn is_in_flight(&self, now: Mono) -> bool {
        self.granted_at.is_some() && now < self.ends_at
    }
}

impl Watched {
    /// A call begins now.
    pub(super) fn calls(&self, now: Mono) {
        let mut open = self.renewals.open();
        if open.is_idle(now) {
            open.next_at = Mono(now.0 + renewal_interval(self.renewals.length));
        }
        if let Some(call) = open.calls.get_mut(&self.claim_id) {
            call.ends_at = Mono(now.0 + self.renewals.total);
        }
    }

    /// The last instant at which a send may start; zero once the claim is lost.
    pub(super) fn send_before(&self, lease: &Lease) -> Mono {
        let open = self.renewals.open();
        let granted_at = open.calls.get(&self.claim_id).and_then(|call| call.granted_at);
        granted_at.map_or(Mono(Duration::ZERO), |granted_at| lease.send_before(granted_at))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.renewals.open().calls.remove(&self.claim_id);
    }
}

impl<S: Schedule> Step<S> {
    /// Renews what is due, for as long as it is polled; never ends. Without renewals it only waits.
    pub(super) async fn renew_leases(&self) -> Infallible {
        let Some(renewals) = &self.renewals else { return std::future::pending().await };
        loop {
            self.clock.sleep(renewals.pause(self.clock.mono())).await;
            let asked_at = self.clock.mono();
            let claims = renewals.due(asked_at);
            if claims.is_empty() {
                continue;
            }
            match self.schedule.renew(&claims, renewals.length).await {
                Ok(answers) => renewals.told(&claims, &answers, asked_at),
                Err(error) => {
                    tracing::warn!(%error, claims = claims.len(), "leases were not renewed");
                    renewals.failed(self.clock.mono());
                }
            }
        }
    }

    /// Since when the leases of claims made on terms of `asked_at` count at least, now that their calls
    /// have ended: with renewals, since an interval ago.
    pub(super) fn leased_since(&self, asked_at: Mono) -> Mono {
        let Some(renewals) = &self.renewals else { return asked_at };
        let interval = renewal_interval(renewals.length);
        asked_at.max(Mono(self.clock.mono().0.saturating_sub(interval)))
    }
}

#[cfg(test)]
#[path = "renewal_tests.rs"]
mod tests;
