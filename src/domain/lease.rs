//! How long a claim holds, and until when its worker may still start to send (rule R14).
//!
//! The lease is granted and judged by the database clock. The worker measures on its own monotonic
//! clock (the one that counts suspended time) from *before* the claim was asked for, so the network
//! delay of the claim can only shorten what it allows itself.

use super::switches::Watch;
use super::verdict::NotSent;
use chrono::{DateTime, Utc};
use std::time::Duration;

/// An instant of the host's suspend-counting monotonic clock (`CLOCK_BOOTTIME`): time since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mono(pub Duration);

/// How often a lease is renewed while a call is in flight, where it is: every third of it, so that one
/// renewal may fail and the next still comes in time.
#[must_use]
pub fn renewal_interval(length: Duration) -> Duration {
    length / 3
}

/// The lengths that belong together. `gateway_total < length − margin` is checked at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// How long a claim holds, by the database clock.
    pub length: Duration,
    /// Held back on both sides: the worker stops that much earlier, the reaper acts that much later.
    pub margin: Duration,
    /// What must be left for the call when it starts: the gateway's total time-out; at a gateway whose leases
    /// are renewed while it is called, one [`renewal_interval`].
    pub gateway_total: Duration,
}

impl Lease {
    /// The last instant at which a send may start, for a claim asked for at `asked_at`.
    #[must_use]
    pub fn send_before(&self, asked_at: Mono) -> Mono {
        let window = self.length.saturating_sub(self.margin).saturating_sub(self.gateway_total);
        Mono(asked_at.0 + window)
    }
}

/// The one check point right before the write: everything that may still say no.
///
/// Made after the claim, evaluated at the request body's first poll, so no connect time or queue
/// lies between the check and the first byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendGate {
    /// From [`Lease::send_before`].
    pub send_before: Mono,
    /// Nothing is sent before this instant by the host's clock either (rule R9).
    pub not_before: DateTime<Utc>,
    /// Key age limit by the wall clock (rule R6): `first_sent_at + key_ttl − margin`, if a first
    /// send is on record.
    pub key_usable_until: Option<DateTime<Utc>>,
    /// The same limit by the suspend-counting clock: `asked_at + (key_ttl − margin − age at claim)`.
    pub key_usable_until_mono: Option<Mono>,
    /// `executeBefore` (rule R10).
    pub execute_before: Option<DateTime<Utc>>,
    /// The kill switches as this worker knows them at that moment; `None` where nobody can throw one.
    pub switches: Option<Watch>,
}

impl SendGate {
    /// May the first byte go out now? `wall` is the host's clock, `mono` its suspend-counting one.
    ///
    /// # Errors
    /// The proof that nothing was sent, and why.
    pub fn check(&self, wall: DateTime<Utc>, mono: Mono) -> Result<(), NotSent> {
        if mono >= self.send_before {
            return Err(NotSent::LeaseTooShort);
        }
        if self.switches.as_ref().is_some_and(Watch::is_stopped) {
            return Err(NotSent::Killed);
        }
        if wall < self.not_before {
            return Err(NotSent::HostClockEarly);
        }
        if self.key_usable_until.is_some_and(|until| wall >= until)
            || self.key_usable_until_mono.is_some_and(|until| mono >= until)
        {
            return Err(NotSent::KeyExpired);
        }
        if self.execute_before.is_some_and(|deadline| wall >= deadline) {
            return Err(NotSent::DeadlinePassed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_send_may_start_until_lease_less_margin_less_the_whole_call() {
        let lease = Lease { length: seconds(30), margin: seconds(5), gateway_total: seconds(20) };
        assert_eq!(lease.send_before(Mono(seconds(100))), Mono(seconds(105)));
        let too_short = Lease { gateway_total: seconds(40), ..lease };
        assert_eq!(too_short.send_before(Mono(seconds(100))), Mono(seconds(100)), "never");
    }

    #[test]
    fn each_limit_closes_the_gate_at_its_own_instant() {
        let wall = DateTime::from_timestamp(1_795_960_020, 0).unwrap_or_default();
        let mono = Mono(seconds(100));
        let open = SendGate {
            send_before: Mono(seconds(101)),
            not_before: wall,
            key_usable_until: None,
            key_usable_until_mono: None,
            execute_before: None,
            switches: None,
        };
        let next = wall + TimeDelta::microseconds(1);
        for (gate, expect) in [
            (open.clone(), Ok(())),
            (SendGate { send_before: mono, ..open.clone() }, Err(NotSent::LeaseTooShort)),
            (SendGate { not_before: next, ..open.clone() }, Err(NotSent::HostClockEarly)),
            (SendGate { key_usable_until: Some(wall), ..open.clone() }, Err(NotSent::KeyExpired)),
            (SendGate { key_usable_until: Some(next), ..open.clone() }, Ok(())),
            (SendGate { key_usable_until_mono: Some(mono), ..open.clone() }, Err(NotSent::KeyExpired)),
            (SendGate { execute_before: Some(wall), ..open.clone() }, Err(NotSent::DeadlinePassed)),
            (SendGate { execute_before: Some(next), ..open.clone() }, Ok(())),
        ] {
            assert_eq!(gate.check(wall, mono), expect, "{gate:?}");
        }
    }

    #[test]
    fn a_switch_that_is_thrown_after_the_plan_closes_the_gate() {
        use crate::domain::ids::{ActorId, GatewayName};
        use crate::domain::money::Currency;
        use crate::domain::switches::{Board, Orders, Pause, Switch, SwitchKind, Switches};
        let (wall, mono) =
            (DateTime::from_timestamp(1_795_960_020, 0).unwrap_or_default(), Mono(seconds(100)));
        let board = std::sync::Arc::new(Board::default());
        let euro = Currency::from_code("EUR").expect("in the table");
        let gate = SendGate {
            send_before: Mono(seconds(101)),
            not_before: wall,
            key_usable_until: None,
            key_usable_until_mono: None,
            execute_before: None,
            switches: Some(Watch::new(&board, ActorId(uuid::Uuid::nil()), euro)),
        };
        assert_eq!(gate.check(wall, mono), Ok(()));
        let thrown = Switches::of(Switch::of(SwitchKind::Currency, "EUR"));
        board.set(Orders::of(&GatewayName("sandbox".into()), Pause::None, thrown));
        assert_eq!(gate.check(wall, mono), Err(NotSent::Killed));
        board.set(Orders::default());
        assert_eq!(gate.check(wall, mono), Ok(()));
    }
}
