//! Stage 9, the other half: the history, to the endpoints that clients named.
//!
//! **Promises.** Every event that an endpoint wants is sent to it at least once, signed, under an id that is the
//! same with each try, until it has answered 2xx or the ladder has ended; the order of one payment's events is told
//! by their `sequence`. No endpoint keeps another waiting, and none of them the schedule: they have connections of
//! their own, a bounded number of requests under way, and bodies that exist only while they are sent. Nothing is
//! sent to an address that `platform/addresses.rs` does not let through. **Relies on** `schedule/fan_out.rs` for
//! what is owed and `schedule/webhook_work.rs` for who sends it.
//!
//! The parts: `fan_out` (who leads the lane, and passes), `deliver` (takes what is due, sends, notes), `call` (one
//! request), `guard` (where it may go), `sign`, `decide` (what an answer means; pure).
//!
//! **Why no order in sending.** One request at a time and payment would let one answer that hangs hold up a payment's
//! whole story, a day long; a receiver that wants the order has the number.
//!
//! **If this dies here**, between the receiver's answer and our note of it, the same event is sent again under the
//! same id by whoever works then.

mod call;
mod decide;
mod deliver;
mod fan_out;
mod guard;
mod sign;

use crate::platform::clock::SharedClock;
use crate::platform::config;
use crate::platform::dice::SharedDice;
use crate::platform::shutdown::Shutdown;
use crate::schedule::{Postgres, ScheduleError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

pub use call::{Caller, Request};
pub use decide::{Fault, Met};
pub use guard::{Names, SystemNames};

/// What the deliverer of a process runs with.
pub struct Deliverer {
    /// Stable name of this instance, for people and leases.
    pub holder: String,
    /// A leader of the lane that is silent for so long loses it.
    pub lane_lease: Duration,
    /// How it is done.
    pub settings: config::Webhooks,
    /// Time.
    pub clock: SharedClock,
    /// Chance, for jitter.
    pub dice: SharedDice,
    /// Who makes the requests.
    pub caller: Caller,
}

/// Fans out and delivers until shutdown: requests under way are finished and noted, then the lane is given back.
///
/// # Errors
/// [`ScheduleError::Defect`]: the schema does not fit this build; stop and say so.
pub async fn run(
    deliverer: Arc<Deliverer>,
    schedule: &Postgres,
    shutdown: &Shutdown,
) -> Result<(), ScheduleError> {
    // A defect in one loop ends the other.
    let failed = AtomicBool::new(false);
    let goes_on = || !shutdown.is_asked() && !failed.load(Ordering::Relaxed);
    let nudge = Notify::new();
    let ended = |result: &Result<(), ScheduleError>| {
        if result.is_err() {
            failed.store(true, Ordering::Relaxed);
            nudge.notify_one();
        }
    };
    let fanning = async {
        let result = fan_out::run(&deliverer, schedule, &nudge, shutdown, &goes_on).await;
        ended(&result);
        result
    };
    let delivering = async {
        let result = deliver::run(&deliverer, schedule, &nudge, shutdown, &goes_on).await;
        ended(&result);
        result
    };
    let (fanned, delivered) = futures_util::future::join(fanning, delivering).await;
    fanned.and(delivered)
}
