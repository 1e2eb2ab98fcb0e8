//! What one seed's world is like: which faults it has, how strong, and what its gateway promises.
//!
//! Each fault is off in about half of the worlds, so that every pair of faults is met alone, together
//! and not at all. All lengths are scaled down together, as a test's configuration would: leases of
//! seconds, ladders of a minute, keys that live for minutes. What belongs together keeps its order: a
//! call is shorter than its lease, and what may delay a request is shorter than the key's margin.

use crate::domain::declines::DeclineCaps;
use crate::domain::facts::Facts;
use crate::domain::retry::Ladders;
use crate::gateway::Profile;
use crate::platform::config;
use crate::platform::dice::Dice;
#[cfg(feature = "faults")]
use crate::platform::faults::Sabotage;
use crate::worker::lab::{SeededDice, sandbox_profile};
use std::time::Duration;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Chance that repeats, with what the world needs of it.
#[derive(Debug)]
pub(super) struct Chance(SeededDice);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(SeededDice::new(seed))
    }

    /// 0 ≤ n < `end`, which is not 0.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.0.draw() % end
    }

    /// With `per_mille` of a thousand. 0 draws nothing, so that a fault that is off changes nothing.
    pub(super) fn hits(&self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1_000) < per_mille
    }

    /// In whole microseconds.
    pub(super) fn between(&self, from: Duration, to: Duration) -> Duration {
        let span = to.saturating_sub(from).as_micros() as u64;
        from + Duration::from_micros(self.below(span + 1))
    }

    pub(super) fn pick<T: Copy>(&self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize]
    }
}

/// How often what goes wrong, each in a thousand calls, or times in a thousand seconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    pub db_error: u64,
    pub db_lost: u64,
    pub db_never: u64,
    pub db_slow: u64,
    pub db_stray: u64,
    pub gateway_unsent: u64,
    pub request_lost: u64,
    pub request_late: u64,
    pub answer_lost: u64,
    pub server_error: u64,
    pub gateway_slow: u64,
    pub pending: u64,
    pub lookup_down: u64,
    pub doubled: u64,
    pub reordered: u64,
    pub unacknowledged: u64,
    pub rebalances: u64,
    pub worker_crashes: u64,
    pub relay_crashes: u64,
    pub keeper_crashes: u64,
    pub worker_stops: u64,
    pub pauses: u64,
    pub clock_steps: u64,
    pub silences: u64,
    pub erasures: u64,
    /// Of the statements that renew leases.
    pub unrenewed: u64,
}

impl Faults {
    fn drawn(chance: &Chance) -> Self {
        let drawn = |weak: u64, strong: u64| {
            if chance.hits(500) { weak + chance.below(strong - weak + 1) } else { 0 }
        };
        Self {
            db_error: drawn(5, 120),
            db_lost: drawn(5, 120),
            db_never: drawn(5, 60),
            db_slow: drawn(5, 80),
            db_stray: drawn(5, 60),
            gateway_unsent: drawn(10, 150),
            request_lost: drawn(10, 200),
            request_late: drawn(10, 150),
            answer_lost: drawn(10, 200),
            server_error: drawn(10, 150),
            gateway_slow: drawn(10, 200),
            pending: drawn(10, 100),
            lookup_down: drawn(20, 300),
            doubled: drawn(20, 200),
            reordered: drawn(50, 300),
            unacknowledged: drawn(10, 150),
            rebalances: drawn(3, 30),
            worker_crashes: drawn(3, 40),
            relay_crashes: drawn(3, 30),
            keeper_crashes: drawn(2, 20),
            worker_stops: drawn(2, 20),
            pauses: drawn(3, 40),
            clock_steps: drawn(2, 20),
            silences: drawn(1, 8),
            erasures: drawn(1, 6),
            unrenewed: 0,
        }
    }
}

/// One world.
#[derive(Debug, Clone)]
pub struct Dials {
    pub seed: u64,
    pub faults: Faults,
    pub payments: usize,
    pub workers: usize,
    pub relays: usize,
    pub keepers: usize,
    pub partitions: i32,
    /// From the first create to the last due instant.
    pub spread: Duration,
    /// How long faults go on.
    pub troubled: Duration,
    /// In a thousand payments, those with an `executeBefore`.
    pub deadlines: u64,
    /// Refused in a thousand requests that the gateway executes.
    pub declines: u64,
    /// What the gateway is believed to be.
    pub profile: Profile,
    /// What it is.
    pub truth: Truth,
    pub ladders: Ladders,
    pub settings: config::Worker,
    pub lookup_lag: Duration,
}

/// What the gateway really does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truth {
    pub replays_declines: bool,
    pub key_ttl: Duration,
    /// A void leaves a tombstone.
    pub voids: bool,
}

/// The longest call at a gateway that may be slower than a lease.
pub(super) const SLOW_CALL: Duration = secs(30);
/// The longest that a paused process stands still.
pub(super) const LONGEST_PAUSE: Duration = secs(24);
/// The longest that a request travels.
pub(super) const LONGEST_TRAVEL: Duration = secs(24);

impl Dials {
    /// The world of `seed`, with `payments` payments.
    #[must_use]
    pub fn of(seed: u64, payments: usize) -> Self {
        // Far from the streams that the world's parts draw from.
        let chance = Chance::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5bd1_e995);
        // A gateway slower than a lease, in every other such world for those who cannot renew for long.
        let is_slow = seed % 3 == 1;
        let unrenewed = if seed % 6 == 1 { 850 } else { 0 };
        let faults = Faults { unrenewed, ..Faults::drawn(&chance) };
        let replays_declines = chance.hits(500);
        // Above an hour, declines may close open sends (rule R4); below, keys are forgotten in time.
        let key_ttl = if chance.hits(400) { secs(5_400) } else { secs(90) };
        let lookup = chance.hits(700);
        let settings = config::Worker {
            lease: secs(12),
            margin: secs(2),
            claim_batch: chance.pick(&[4, 20, 200]),
            late_by: secs(4),
            defer_after: secs(chance.pick(&[2, 8])),
            drain: secs(9),
            // In every fifth world so little that it is crowded most of the time.
            max_held: if seed % 5 == 2 { 24 } else { config::Worker::default().max_held },
            ..config::Worker::default()
        };
        let mut world = Self {
            seed,
            payments,
            workers: 2 + chance.below(3) as usize,
            relays: 1 + chance.below(3) as usize,
            keepers: 1 + chance.below(2) as usize,
            partitions: chance.pick(&[1, 2, 3]),
            spread: secs(20 + chance.below(80)),
            troubled: if chance.hits(250) { secs(240) } else { secs(120) },
            // A deadline on a request that was lost is a question until the key's life is over.
            deadlines: if key_ttl > secs(3_600) && seed % 2 == 1 { 0 } else { 200 },
            declines: if chance.hits(600) { 20 + chance.below(300) } else { 0 },
            profile: Profile {
                // Each payment has a payee of its own here, so this cuts its ladder short.
                renews_lease: is_slow,
                total_timeout: if is_slow { SLOW_CALL } else { secs(7) },
                caps: DeclineCaps { per_day: if seed % 4 == 3 { 3 } else { 0 }, per_30_days: 0 },
                ..profile(replays_declines, key_ttl, lookup, &faults, &chance)
            },
            truth: Truth { replays_declines, key_ttl, voids: true },
            ladders: ladders(),
            settings,
            lookup_lag: if chance.hits(400) { secs(1 + chance.below(20)) } else { Duration::ZERO },
            faults,
        };
        world.profile.voids_by_key = chance.hits(500);
        if world.profile.voids_by_key {
            // What a tombstone is for: requests that arrive after their key was voided.
            world.faults.request_late = world.faults.request_late.max(100);
        }
        world
    }

    /// The same world, made so that leaving out one rule can matter in it. With every rule in place it is
    /// a world like any other.
    #[cfg(feature = "faults")]
    #[must_use]
    pub fn that_shows(mut self, bug: Sabotage) -> Self {
        let keys_live = |dials: &mut Self, length| {
            (dials.profile.key_ttl, dials.truth.key_ttl) = (length, length);
        };
        let faults = &mut self.faults;
        match bug {
            Sabotage::FalseReplay => {
                (faults.request_late, faults.answer_lost) = (150, 150);
                self.declines = 300;
                (self.profile.replays_declines, self.truth.replays_declines) = (false, false);
                keys_live(&mut self, secs(5_400));
            }
            Sabotage::AgelessKey => {
                faults.request_lost = 300;
                keys_live(&mut self, secs(90));
            }
            // Asked about every second around the cut-off, by a client that connects slowly.
            Sabotage::KeyAgeAtClaimOnly => {
                (faults.request_lost, faults.answer_lost, faults.gateway_slow) = (400, 300, 500);
                self.profile.lookup = false;
                self.ladders.reask = vec![secs(1)];
                keys_live(&mut self, secs(90));
            }
            // Deadlines that pass while a request is late, or forgotten before anybody asks.
            Sabotage::FalseVoid | Sabotage::VoidPastKey => {
                (faults.request_late, faults.answer_lost) = (250, 250);
                self.deadlines = 800;
                let voids = bug == Sabotage::VoidPastKey;
                (self.profile.voids_by_key, self.truth.voids) = (voids, voids);
                self.ladders.reask = vec![secs(if voids { 100 } else { 3 })];
                keys_live(&mut self, secs(90));
            }
            // Where wishes are kept, none is refused.
            Sabotage::CancelFromUnknown => {
                faults.answer_lost = 250;
                self.profile.voids_by_key = false;
            }
            Sabotage::ChargeAfterWish => {
                faults.answer_lost = 250;
                self.profile.voids_by_key = true;
            }
            Sabotage::LeaseToPending => {
                (faults.worker_crashes, faults.answer_lost) = (40, 150);
                self.deadlines = 800;
            }
            // Met where a claim is lost unseen and the next one's call is long.
            Sabotage::RenewalWithoutFence => {
                (faults.gateway_slow, faults.request_lost, faults.unrenewed) = (500, 300, 850);
                self.profile.renews_lease = true;
                self.profile.total_timeout = SLOW_CALL;
            }
            _ => {}
        }
        self
    }

    /// Within so long after the last fault everything is final or parked: a lease, the longest rung of
    /// any ladder twice (what was asked may have to be asked once more), and the life of a key, after
    /// which what cannot be decided is parked.
    #[must_use]
    pub fn bound(&self) -> Duration {
        let rungs =
            [&self.ladders.retry, &self.ladders.reask, &self.ladders.pending, &self.ladders.held_back];
        let longest = rungs.into_iter().flatten().max().copied().unwrap_or_default();
        self.settings.lease + self.settings.margin * 2 + longest * 3 + self.profile.key_ttl + secs(60)
    }

    /// The part of the gateway's description that the rules see.
    #[must_use]
    pub fn facts(&self) -> Facts {
        crate::worker::facts(&self.profile)
    }
}

fn profile(
    replays_declines: bool,
    key_ttl: Duration,
    lookup: bool,
    faults: &Faults,
    chance: &Chance,
) -> Profile {
    Profile {
        key_ttl,
        key_margin: secs(55),
        replays_declines,
        lookup,
        not_found_horizon: secs(20),
        async_final_within: (faults.pending > 0 && chance.hits(700)).then_some(secs(60)),
        caps: DeclineCaps::default(),
        connect_timeout: secs(2),
        total_timeout: secs(7),
        renews_lease: false,
        max_in_flight: chance.pick(&[2, 8, 32]),
        ..sandbox_profile()
    }
}

fn ladders() -> Ladders {
    let rungs = |all: &[u64]| all.iter().map(|rung| secs(*rung)).collect::<Vec<_>>();
    Ladders {
        retry: rungs(&[2, 5, 10, 20, 30]),
        reask: rungs(&[1, 3, 8, 20, 40]),
        pending: rungs(&[2, 5, 15]),
        held_back: rungs(&[1, 2, 5]),
        retry_after_cap: secs(30),
        held_back_limit: 12,
        held_back_for: secs(200),
        ..Ladders::default()
    }
}

/// Claim ids and jitter of one process.
#[must_use]
pub(super) fn dice(seed: u64, process: u64, incarnation: u64) -> std::sync::Arc<dyn Dice> {
    let mixed =
        seed ^ process.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ incarnation.wrapping_mul(0xd6e8_feb8_6659_fd93);
    std::sync::Arc::new(SeededDice::new(mixed))
}
