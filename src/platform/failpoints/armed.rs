//! What a test binary does at a place: looks whether it was told to freeze there.
//!
//! `PUNCTUAL_FREEZE_AT=gate_passed:FILE` freezes the process the first time that it comes to that place,
//! after writing FILE, so that a test knows. A name that is no place ends the process: a test that freezes
//! nothing must not pass. If this dies while frozen, it is a worker that died there.

use super::Point;
use rustix::process::{Signal, getpid, kill_process};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The variable, and what the release binary is searched for.
const VARIABLE: &str = "PUNCTUAL_FREEZE_AT";

/// After this long a request that was let through has left.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// A stop of the whole process reaches the calling thread by way of another one, which takes microseconds.
const UNTIL_STOPPED: Duration = Duration::from_millis(50);

/// A zombie's call is over its time-out the moment that it wakes, and the reset that follows destroys what the
/// gateway has not read yet. With one thread (`TOKIO_WORKER_THREADS=1`) nothing is reset while that thread
/// waits here, so a request that was let through is seen for certain.
const UNTIL_READ: Duration = Duration::from_millis(500);

struct Armed {
    point: Point,
    told: PathBuf,
    spent: AtomicBool,
    seen: AtomicBool,
}

fn named(name: &str) -> Option<Point> {
    Some(match name {
        "after_claim" => Point::AfterClaim,
        "before_prepare" => Point::BeforePrepare,
        "before_gate" => Point::BeforeGate,
        "gate_passed" => Point::GatePassed,
        "after_send" => Point::AfterSend,
        "after_answer" => Point::AfterAnswer,
        "before_settle" => Point::BeforeSettle,
        "mid_settle" => Point::MidSettle,
        "after_settle" => Point::AfterSettle,
        "before_offset" => Point::BeforeOffset,
        _ => return None,
    })
}

fn read() -> Option<Armed> {
    let text = std::env::var(VARIABLE).ok()?;
    let armed = text.split_once(':').and_then(|(name, told)| {
        Some(Armed {
            point: named(name)?,
            told: told.into(),
            spent: AtomicBool::new(false),
            seen: AtomicBool::new(false),
        })
    });
    if armed.is_none() {
        tracing::error!(text, "{VARIABLE} is no place to freeze at");
        std::process::abort();
    }
    armed
}

pub(super) fn reach(point: Point) {
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    let Some(armed) = ARMED.get_or_init(read) else { return };
    let is_zombie = armed.point == Point::GatePassed && armed.spent.load(Ordering::SeqCst);
    if is_zombie && point == Point::AfterAnswer && !armed.seen.swap(true, Ordering::SeqCst) {
        std::thread::sleep(UNTIL_READ);
        return;
    }
    if armed.point != point || armed.spent.swap(true, Ordering::SeqCst) {
        return;
    }
    if point == Point::AfterSend {
        // The bytes must leave first, and this thread may be the one that writes them.
        std::thread::spawn(|| {
            std::thread::sleep(ON_ITS_WAY);
            freeze(armed);
        });
    } else {
        freeze(armed);
    }
}

/// Returns when somebody has thawed the process.
fn freeze(armed: &Armed) {
    let stopped =
        std::fs::write(&armed.told, "frozen").is_ok() && kill_process(getpid(), Signal::STOP).is_ok();
    if !stopped {
        std::process::abort();
    }
    std::thread::sleep(UNTIL_STOPPED);
}
