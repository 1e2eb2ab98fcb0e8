//! From parts to a worker.

use super::brake::Brake;
use super::bus::{Bus, Join};
use super::clock_guard::Clocks;
use super::crowd::Crowd;
use super::hold::Hold;
use super::lane::Lane;
use super::pacer::Pacer;
use super::progress::Progress;
use super::renewal::Renewals;
use super::run::{Condition, Worker};
use super::step::Step;
use super::store::Store;
use super::stuck::{self, Stuck};
use crate::domain::ids::{GatewayName, WorkerName};
use crate::domain::lease::{Lease, renewal_interval};
use crate::domain::pace::Terms;
use crate::domain::retry::Ladders;
use crate::gateway::{Gateway, Profile};
use crate::platform::clock::SharedClock;
use crate::platform::config;
use crate::platform::dice::SharedDice;
use crate::schedule::Schedule;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Everything that a worker is made of.
pub struct Parts<S> {
    /// `worker.*` of the configuration.
    pub settings: config::Worker,
    /// The ladders of the configuration.
    pub ladders: Ladders,
    /// The name in history, slot and incarnation.
    pub name: WorkerName,
    /// The truth.
    pub schedule: Arc<S>,
    /// The same database, for what no step asks.
    pub store: Arc<dyn Store>,
    /// Each account once.
    pub gateways: Vec<Arc<dyn Gateway>>,
    /// The host's clocks.
    pub clock: SharedClock,
    /// Chance.
    pub dice: SharedDice,
    /// How to join the ring.
    pub join: Join,
}

/// A probe may look up and then charge.
const CALLS_OF_A_PROBE: u32 = 2;
/// And be claimed before and settled afterwards.
const AROUND_A_PROBE: Duration = Duration::from_secs(5);

fn terms(profile: &Profile, ladders: &Ladders) -> Terms {
    Terms {
        rate: profile.pacing.rate,
        lookup_share: profile.pacing.lookup_share,
        in_flight: profile.pacing.in_flight,
        longest_pause: ladders.retry_after_cap,
        probe_lease: profile.total_timeout * CALLS_OF_A_PROBE + AROUND_A_PROBE,
    }
}

impl<S: Schedule> Worker<S> {
    /// What else of this process needs to call this account: its permits, and the brake of all.
    #[must_use]
    pub fn shares(&self, gateway: &GatewayName) -> Option<(Arc<Pacer>, Arc<Brake>)> {
        let lane = self.lanes.get(gateway)?;
        Some((Arc::clone(lane.pacer()), Arc::clone(&self.brake)))
    }

    /// A worker in direct mode that tries to join at once. Answers what its health and its counts
    /// can be read from.
    #[must_use]
    pub fn new(parts: Parts<S>) -> (Self, watch::Receiver<Condition>, Arc<Progress>) {
        let Parts { settings, ladders, name, schedule, store, gateways, clock, dice, join } = parts;
        let (again_in, again) = mpsc::unbounded_channel();
        let (lost_in, lost) = mpsc::unbounded_channel();
        let (condition, told) = watch::channel(Condition::default());
        let brake = Arc::new(Brake::awaiting_clock());
        let clocks = Arc::new(Clocks::new(settings.clock_tolerance));
        let progress = Arc::new(Progress::default());
        let ladders = Arc::new(ladders);
        // A claim may look up and then charge.
        let slow = gateways.iter().map(|it| it.profile()).filter(|profile| profile.renews_lease);
        let patience = slow.map(|profile| profile.total_timeout * 2).fold(stuck::PATIENCE, Duration::max);
        let lanes = gateways.into_iter().map(|gateway| {
            let profile = gateway.profile().clone();
            let lease = Lease {
                length: settings.lease,
                margin: settings.margin,
                gateway_total: match profile.renews_lease {
                    true => renewal_interval(settings.lease),
                    false => profile.total_timeout,
                },
            };
            let renewals = profile.renews_lease.then(|| Renewals::new(lease.length, profile.total_timeout));
            let step = Step {
                schedule: Arc::clone(&schedule),
                gateway,
                facts: super::course::facts(&profile),
                ladders: Arc::clone(&ladders),
                clock: Arc::clone(&clock),
                dice: Arc::clone(&dice),
                worker: name.clone(),
                lease,
                renewals: renewals.map(Arc::new),
                brake: Arc::clone(&brake),
                clocks: Arc::clone(&clocks),
                progress: Arc::clone(&progress),
                pacer: Arc::new(Pacer::new(terms(&profile, &ladders))),
                again: again_in.clone(),
                lost: lost_in.clone(),
            };
            (profile.name, Lane::new(step, settings.max_in_flight))
        });
        let lanes = lanes.collect();
        let now = clock.mono();
        let worker = Self {
            hold: Hold::new(settings.max_held),
            crowd: Crowd::default(),
            settings,
            clock,
            store,
            lanes,
            brake,
            clocks,
            progress: Arc::clone(&progress),
            again,
            lost,
            keeping: 0,
            join,
            bus: Bus::Away { try_at: Some(now) },
            tasks: JoinSet::new(),
            steps: 0,
            is_replaced: false,
            stuck: Stuck::new(now, patience),
            condition,
            beat_at: now,
            tick_at: now,
            sample_at: now,
        };
        (worker, told, progress)
    }
}
