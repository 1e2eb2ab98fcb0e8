//! The one way to run a keeper loop: a period, a nudge, a tick.
//!
//! **Promises.** A tick is never cut short (its transaction is not cancel-safe) and never runs twice
//! at once; a full batch is followed by another tick at once; a failure is logged once, here, and
//! the next period tries again. **Relies on** each tick being bounded by the statement time-outs
//! of the schedule. A tick spawns nothing.

use crate::platform::clock::Clock;
use crate::platform::metrics;
use crate::schedule::ScheduleError;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// There is more: at once.
    Now,
    /// Nothing more for now: after the period, or at a nudge.
    Later,
}

/// One loop's work.
pub trait Tick: Send {
    /// For logs and metrics: one of the tasks that `platform::metrics` lists.
    fn name(&self) -> &'static str;

    /// Looks once and does a bounded amount of work. Not cut short by the runner.
    fn tick(&mut self) -> impl Future<Output = Result<Next, ScheduleError>> + Send;
}

/// Wakes a loop before its period ends; nudges while it works count as one.
#[derive(Debug, Clone, Default)]
pub struct Nudge(Arc<Notify>);

impl Nudge {
    /// Look now.
    pub fn nudge(&self) {
        self.0.notify_one();
    }
}

/// Ticks until `stop` resolves; a tick in progress is finished first.
pub async fn every<T: Tick>(
    mut work: T,
    period: Duration,
    nudge: Nudge,
    clock: Arc<dyn Clock>,
    stop: impl Future<Output = ()> + Send,
) {
    tokio::pin!(stop);
    loop {
        let next = match work.tick().await {
            Ok(next) => {
                let seconds = clock.wall().timestamp();
                // Exact in a float until the year 285 million.
                metrics::KEEPER_LAST_SUCCESS.set(seconds as f64, [work.name()]);
                next
            }
            Err(error) => {
                metrics::KEEPER_FAILURES.add(1, [work.name()]);
                tracing::warn!(loop_name = work.name(), error = %error, "a keeper tick failed");
                Next::Later
            }
        };
        let pause = match next {
            Next::Now => Duration::ZERO,
            Next::Later => period,
        };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = nudge.0.notified() => {}
            () = clock.sleep(pause) => {}
        }
    }
}
