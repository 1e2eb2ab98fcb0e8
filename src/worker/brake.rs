//! What stops a worker from starting another charge, at once and everywhere.
//!
//! **Promises.** Once thrown, no step begins a charge: what it claimed and did not send is settled
//! as NotSent. Calls already in flight are not touched; they end under their own claims.
//!
//! **Why an atomic** and not a channel: it is read right before each send, by steps that must not
//! wait for anything. If this dies here, the process died, and leases end what was claimed.

use crate::domain::verdict::NotSent;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by the loop, which throws it, and its steps, which obey.
#[derive(Debug, Default)]
pub struct Brake {
    draining: AtomicBool,
    clocks_apart: AtomicBool,
    awaits_clock: AtomicBool,
}

impl Brake {
    /// Thrown until [`Brake::set_clocks_apart`] says for the first time how the clocks are: a host whose
    /// clock is wrong must not claim even once to find out.
    #[must_use]
    pub fn awaiting_clock() -> Self {
        Self { awaits_clock: AtomicBool::new(true), ..Self::default() }
    }

    /// The worker is going away; never taken back.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether [`Brake::drain`] was called.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Host and database disagree about the time, or agree again (rule R9).
    pub fn set_clocks_apart(&self, apart: ClocksApart) {
        self.clocks_apart.store(apart == ClocksApart::Yes, Ordering::SeqCst);
        self.awaits_clock.store(false, Ordering::SeqCst);
    }

    /// Whether host and database disagree about the time.
    #[must_use]
    pub fn is_clocks_apart(&self) -> bool {
        self.clocks_apart.load(Ordering::SeqCst)
    }

    /// Why no charge may start now, as the reason its claim is given back with.
    #[must_use]
    pub fn thrown(&self) -> Option<NotSent> {
        if self.is_draining() {
            Some(NotSent::NotStarted)
        } else if self.is_clocks_apart() || self.awaits_clock.load(Ordering::SeqCst) {
            Some(NotSent::HostClockEarly)
        } else {
            None
        }
    }
}

/// Whether host and database clock are further apart than is tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClocksApart {
    /// Nothing is claimed or sent.
    Yes,
    /// They agree, as far as samples tell.
    No,
}
