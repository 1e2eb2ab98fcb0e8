//! What the first page shows, looked at once for everybody.
//!
//! **Promises.** However many people look, one task of this process asks the database, every [`TICK`], a handful of
//! bounded questions; a page is made from the last answers and waits for none but the very first. It begins with the
//! first who looks and ends when nobody has looked for [`IDLE`]. What cannot be asked stays as it was seen last, with
//! the instant at which that was.
//!
//! The hour itself is added up by a keeper; only how breakers stood is remembered here, so of that nothing is known
//! from before somebody looked.
//!
//! **If this dies here**, nobody decided anything by it; the next who looks begins it again.

use super::Ui;
use crate::domain::bucket::minute_start;
use crate::domain::ids::GatewayName;
use crate::domain::lease::Mono;
use crate::domain::pace::Breaker;
use crate::intake::{Problem, trouble};
use crate::platform::clock::within;
use crate::schedule::{CallsSeen, Forecast, GatewayStanding};
use axum::body::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Between two looks.
pub(super) const TICK: Duration = Duration::from_secs(2);
/// Ticks between two looks at what costs more.
const SELDOM: u64 = 5;
/// After so long without anybody it ends.
const IDLE: Duration = Duration::from_secs(600);
/// Minutes of the band.
const MINUTES: i64 = 60;
/// Longest that a page waits for the first look of all.
const FIRST: Duration = Duration::from_millis(1_500);

/// How an account stood in one minute; the worst that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stood {
    Closed,
    Paused,
    Probing,
    Open,
}

impl Stood {
    fn of(standing: &GatewayStanding) -> Self {
        match standing.pace.as_ref().map(|pace| &pace.breaker) {
            Some(Breaker::Open { .. }) => Self::Open,
            Some(Breaker::Probing { .. }) => Self::Probing,
            Some(Breaker::Closed) | None if standing.paused.is_some() => Self::Paused,
            Some(Breaker::Closed) | None => Self::Closed,
        }
    }

    /// For people: the word of the breaker or the pause.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Paused => "paused",
            Self::Probing => "probing",
            Self::Open => "open",
        }
    }
}

/// How each account stood, by minute; only while somebody looked.
type Band = BTreeMap<GatewayName, BTreeMap<DateTime<Utc>, Stood>>;

/// Everything that was seen last.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// By the database's clock; the newest look that was answered.
    pub(super) at: DateTime<Utc>,
    /// The last hour, minute by minute, and what waits.
    pub(super) pulse: Option<Arc<crate::schedule::Pulse>>,
    pub(super) gateways: Vec<GatewayStanding>,
    pub(super) calls: Vec<CallsSeen>,
    pub(super) forecast: Option<Arc<Forecast>>,
    pub(super) band: Band,
    /// The last look was not answered.
    pub(super) is_stale: bool,
}

/// One look, numbered, with what streams send of it once somebody has written that.
#[derive(Debug)]
pub(super) struct Shot {
    /// Grows with each look of this process.
    pub(super) number: u64,
    pub(super) seen: Seen,
    /// Written once, for all viewers.
    pub(super) written: OnceLock<Bytes>,
}

/// What all viewers of a process share.
pub(super) struct Pulse {
    shots: watch::Sender<Option<Arc<Shot>>>,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    /// When somebody last looked.
    last: Option<Mono>,
    is_running: bool,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { shots: watch::Sender::new(None), watched: Mutex::default() }
    }
}

impl Pulse {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        // A panic while the lock was held leaves two values that are still whole.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ui {
    /// The looks from now on; the first who asks sets them going.
    pub(super) fn pulse(&self) -> watch::Receiver<Option<Arc<Shot>>> {
        let shots = self.0.pulse.shots.subscribe();
        let mut watched = self.0.pulse.watched();
        watched.last = Some(self.0.clock.mono());
        if !std::mem::replace(&mut watched.is_running, true) {
            tokio::spawn(beat(self.clone()));
        }
        shots
    }

    /// The last look; the very first is waited for, not for long.
    pub(super) async fn shot(&self) -> Option<Arc<Shot>> {
        let mut shots = self.pulse();
        let first = async { shots.wait_for(Option::is_some).await.ok().and_then(|shot| shot.clone()) };
        within(&*self.0.clock, FIRST, first).await.flatten()
    }

    /// Whether anybody still looks; if not, whoever comes next begins anew.
    fn is_watched(&self) -> bool {
        let pulse = &self.0.pulse;
        let mut watched = pulse.watched();
        let now = self.0.clock.mono();
        if pulse.shots.receiver_count() > 0 {
            watched.last = Some(now);
        }
        let is_recent = watched.last.is_some_and(|last| now.0.saturating_sub(last.0) < IDLE);
        let is_idle = !is_recent || self.is_stopped();
        if is_idle {
            watched.is_running = false;
            pulse.shots.send_replace(None);
        }
        !is_idle
    }
}

/// Looks again and again, until nobody does.
async fn beat(ui: Ui) {
    let mut look = Look::default();
    let mut number = 0;
    while ui.is_watched() {
        let was_answered = look.tick(&ui, number).await;
        look.seen.is_stale = was_answered.is_err();
        number += 1;
        let shot = Shot { number, seen: look.seen.clone(), written: OnceLock::new() };
        ui.0.pulse.shots.send_replace(Some(Arc::new(shot)));
        tokio::select! {
            biased;
            () = ui.stopped() => {}
            () = ui.0.clock.sleep(TICK) => {}
        }
    }
}

/// What the task knows.
#[derive(Default)]
struct Look {
    seen: Seen,
}

impl Look {
    async fn tick(&mut self, ui: &Ui, number: u64) -> Result<(), Problem> {
        let pulse = ui.0.intake.pulse().await?;
        self.seen.at = pulse.taken_at;
        self.seen.pulse = Some(pulse);
        self.seen.gateways = ui.schedule().gateways().await.map_err(trouble)?;
        self.note_band();
        if number.is_multiple_of(SELDOM) {
            let now = self.seen.at;
            self.seen.calls = ui.schedule().recent_calls(first_minute(now), now).await.map_err(trouble)?;
            self.seen.forecast = Some(ui.0.intake.forecast().await?);
        }
        Ok(())
    }

    fn note_band(&mut self) {
        let (start, present) = (first_minute(self.seen.at), minute_start(self.seen.at));
        for standing in &self.seen.gateways {
            let minutes = self.seen.band.entry(standing.name.clone()).or_default();
            let stood = minutes.entry(present).or_insert(Stood::Closed);
            *stood = (*stood).max(Stood::of(standing));
            *minutes = minutes.split_off(&start);
        }
    }
}

/// The start of the hour that is shown at `now`.
fn first_minute(now: DateTime<Utc>) -> DateTime<Utc> {
    minute_start(now) - TimeDelta::minutes(MINUTES - 1)
}

/// Each minute of the hour of one account: how it stood, or nothing where nobody looked.
pub(super) fn band_of(seen: &Seen, gateway: &GatewayName) -> Vec<Option<Stood>> {
    let start = first_minute(seen.at);
    let minutes = (0..MINUTES).map(|n| start + TimeDelta::minutes(n));
    let known = seen.band.get(gateway);
    minutes.map(|minute| known.and_then(|known| known.get(&minute)).copied()).collect()
}
