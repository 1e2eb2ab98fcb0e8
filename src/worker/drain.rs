//! How a worker goes away.
//!
//! **Promises.** Nothing new is claimed or sent; calls in flight end and are settled; claims not
//! sent yet are given back, so that their payments are PENDING again at once; offsets completed
//! until then are committed. At most `worker.drain` long. **If this dies here**, open claims expire
//! and their payments are asked about.

use super::bus::Bus;
use super::run::{Drained, Worker};
use crate::schedule::Schedule;
use std::time::Duration;

/// Kept for the last commit of offsets.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

impl<S: Schedule> Worker<S> {
    pub(super) async fn drain(mut self) -> Drained {
        self.brake.drain();
        self.condition.send_modify(|told| told.is_draining = true);
        if let Bus::Joined(ring) = &self.bus {
            ring.stop_taking();
        }
        let settled_before = self.progress.settled();
        // Said when it was given up; the reaper has those.
        let given_up_before = self.progress.abandoned();
        let mut deadline = self.clock.sleep(self.settings.drain);
        while self.steps > 0 {
            tokio::select! {
                biased;
                Some(done) = self.tasks.join_next() => {
                    if self.finished(done).is_err() {
                        // It was one of the steps, or it does not matter any more.
                        self.steps -= 1;
                    }
                }
                () = &mut deadline => break,
            }
        }
        let drained = self.progress.settled() - settled_before;
        let abandoned = self.progress.open().saturating_sub(given_up_before);
        if abandoned == 0 {
            tracing::info!(drained, abandoned, "drained {drained}, abandoned {abandoned}");
        } else {
            tracing::error!(drained, abandoned, "drained {drained}, abandoned {abandoned}");
        }
        if let Bus::Joined(ring) = self.bus {
            let left = ring.leave(LEAVE_WITHIN).await;
            tracing::info!(?left, "left the group");
        }
        Drained { drained, abandoned }
    }
}
