//! How long, and with what pauses, a verb of the schedule is repeated.
//!
//! **Promises.** Repeats end with the claim's lease: past it the reaper owns the row, and what the
//! worker knows is evidence at best. A `Defect` is never repeated. Pauses double from 50 ms to 1 s.
//! **Relies on** every repeated verb being safe to repeat (`settle`, `recover`: by claim id). If
//! this dies here, see the verb that it repeats.

use crate::domain::lease::Mono;
use crate::platform::clock::Clock;
use crate::schedule::ScheduleError;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One series of repeats.
#[derive(Debug)]
pub(super) struct Patience {
    ends_at: Mono,
    pause: Duration,
}

impl Patience {
    /// Until `length` after `from`.
    pub(super) fn until(from: Mono, length: Duration) -> Self {
        Self { ends_at: Mono(from.0 + length), pause: FIRST_PAUSE }
    }

    /// Logs the failure and, if it may be repeated, pauses first. `false`: give up.
    pub(super) async fn goes_on(&mut self, error: &ScheduleError, clock: &dyn Clock) -> bool {
        match error {
            ScheduleError::Defect(_) => {
                tracing::error!(%error, "not repeated: the database refused");
                return false;
            }
            ScheduleError::Unavailable(_) | ScheduleError::CommitUnknown(_) => {}
        }
        if clock.mono().0 + self.pause >= self.ends_at.0 {
            tracing::error!(%error, "given up at the end of the lease; the reaper has the payment asked about");
            return false;
        }
        tracing::warn!(%error, pause_ms = self.pause.as_millis(), "repeated after a pause");
        clock.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
