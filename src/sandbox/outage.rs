//! When and how this gateway is away: the configured windows, and a switch for tests and rehearsals.
//!
//! **Promises**: [`Outages::at`] is a pure answer at any instant; the switch goes before the windows;
//! [`Outages::keep`] tells the listener when to stop taking connections. **If `keep` ends**, windows
//! that answer still work, those that refuse do not; it runs as long as the server.

use crate::platform::clock::SharedClock;
use crate::platform::config::{Outage, OutageKind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// An outage that was switched on.
#[derive(Debug, Clone, Copy)]
struct Switched {
    kind: OutageKind,
    /// Monotonic; `None`: until it is switched off.
    until: Option<Duration>,
}

/// All outages, past and to come.
#[derive(Debug)]
pub(super) struct Outages {
    windows: Vec<Outage>,
    /// Monotonic; the windows count from here.
    started: Duration,
    switched: Mutex<Option<Switched>>,
    changed: Notify,
    refusing: watch::Sender<bool>,
}

impl Outages {
    pub(super) fn new(windows: Vec<Outage>, started: Duration) -> Self {
        let refusing = watch::Sender::new(false);
        Self { windows, started, switched: Mutex::new(None), changed: Notify::new(), refusing }
    }

    /// Whether connections are refused, for the listener and for open connections.
    pub(super) fn refusing(&self) -> watch::Receiver<bool> {
        self.refusing.subscribe()
    }

    /// How this gateway is away at that monotonic instant.
    pub(super) fn at(&self, now: Duration) -> Option<OutageKind> {
        let switched = self.switched().filter(|switched| switched.until.is_none_or(|until| now < until));
        let since = now.saturating_sub(self.started);
        let window = || self.windows.iter().find(|window| turn(window, since).0).map(|window| window.kind);
        switched.map(|switched| switched.kind).or_else(window)
    }

    /// The next instant at which something may begin or end.
    fn next_change(&self, now: Duration) -> Option<Duration> {
        let since = now.saturating_sub(self.started);
        let windows = self.windows.iter().filter_map(|window| turn(window, since).1);
        let switched = self.switched().and_then(|switched| switched.until).filter(|until| *until > now);
        windows.map(|change| self.started.saturating_add(change)).chain(switched).min()
    }

    /// Goes away until `until`, whatever the windows say.
    pub(super) fn switch_on(&self, kind: OutageKind, until: Option<Duration>) {
        *self.lock() = Some(Switched { kind, until });
        self.changed.notify_one();
    }

    /// Ends what was switched on; windows go on.
    pub(super) fn switch_off(&self) {
        *self.lock() = None;
        self.changed.notify_one();
    }

    /// Keeps the listener told. Never ends.
    pub(super) async fn keep(&self, clock: &SharedClock) {
        let mut known = None;
        loop {
            let now = clock.mono().0;
            let kind = self.at(now);
            if kind != known {
                tracing::info!(
                    outage = kind.map_or("none", OutageKind::name),
                    "the sandbox changes its mood"
                );
                known = kind;
            }
            let refuses = kind == Some(OutageKind::Refuse);
            self.refusing.send_if_modified(|refusing| std::mem::replace(refusing, refuses) != refuses);
            match self.next_change(now) {
                Some(change) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = clock.sleep(change.saturating_sub(now)) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn switched(&self) -> Option<Switched> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Switched>> {
        // Nothing panics while it is held.
        self.switched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the window holds `since` its start, and when that changes next.
fn turn(window: &Outage, since: Duration) -> (bool, Option<Duration>) {
    let Some(after) = since.checked_sub(window.from) else { return (false, Some(window.from)) };
    let begun = match window.every {
        Some(every) => Duration::from_nanos_u128(after.as_nanos() / every.as_nanos() * every.as_nanos()),
        None => Duration::ZERO,
    };
    let inside = after - begun < window.length;
    let next = if inside { Some(window.length) } else { window.every };
    (inside, next.map(|next| window.from + begun + next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::config::Value;

    const S: Duration = Duration::from_secs(1);
    const START: Duration = Duration::from_secs(1_000);

    fn of(text: &str) -> Outages {
        Outages::new(Value::read(text).expect("readable"), START)
    }

    #[test]
    fn a_window_begins_and_ends_at_its_instants_counted_from_the_start() {
        let outages = of("unavailable@10s+5s,silent@12s+8s");
        let cases =
            [(0, None), (9, None), (10, Some(OutageKind::Unavailable)), (14, Some(OutageKind::Unavailable))];
        for (second, wanted) in cases {
            assert_eq!(outages.at(START + second * S), wanted, "{second}");
        }
        assert_eq!(outages.at(START + 15 * S), Some(OutageKind::Silent), "the first that holds goes first");
        assert_eq!(outages.at(START + 20 * S), None);
        let changes: Vec<_> = [0, 10, 12, 15, 20].map(|s| outages.next_change(START + s * S)).into();
        let at = |second: u32| Some(START + second * S);
        assert_eq!(changes, [at(10), at(12), at(15), at(20), None]);
    }

    #[test]
    fn a_window_that_comes_again_does_so_for_ever() {
        let outages = of("refuse@10s+5s/60s");
        for turn in [0, 1, 2, 1_000] {
            let begin = START + (10 + 60 * turn) * S;
            assert_eq!(outages.at(begin - S), None);
            assert_eq!(outages.at(begin), Some(OutageKind::Refuse));
            assert_eq!(outages.next_change(begin), Some(begin + 5 * S));
            assert_eq!(outages.at(begin + 5 * S), None);
            assert_eq!(outages.next_change(begin + 5 * S), Some(begin + 60 * S));
        }
    }

    #[test]
    fn the_switch_goes_before_the_windows_and_gives_way_to_them_again() {
        let outages = of("silent@0s+100s");
        outages.switch_on(OutageKind::Refuse, Some(START + 10 * S));
        assert_eq!(outages.at(START + 9 * S), Some(OutageKind::Refuse));
        assert_eq!(outages.next_change(START), Some(START + 10 * S));
        assert_eq!(outages.at(START + 10 * S), Some(OutageKind::Silent));
        outages.switch_on(OutageKind::Unavailable, None);
        assert_eq!(outages.at(START + 50 * S), Some(OutageKind::Unavailable));
        outages.switch_off();
        assert_eq!(outages.at(START + 50 * S), Some(OutageKind::Silent));
    }
}
