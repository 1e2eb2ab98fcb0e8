//! Free TCP ports on the loopback address.
//!
//! Ports come from below the range that systems hand to outgoing connections (32768 and up), so
//! that a broker which is killed and restarted finds its port still free: no client socket can have
//! been given it meanwhile. A port is only *found* free, not held; two processes may find the same
//! one, and the loser sees its service stop at start and is told so.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

const LOWEST: u16 = 15_000;
const COUNT: u16 = 15_000;

/// Steps through the range, so that one process never offers the same port twice in a row.
static STEP: AtomicU16 = AtomicU16::new(0);

/// Whether nobody listens on this loopback port now.
#[must_use]
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A port that is free now. Processes begin at different places of the range (by process id).
///
/// Falls back to a port chosen by the system should all 15,000 be taken.
#[must_use]
pub fn free() -> u16 {
    let home = u64::from(std::process::id()) * 97;
    for _ in 0..COUNT {
        let step = u64::from(STEP.fetch_add(1, Ordering::Relaxed));
        let offset = u16::try_from((home + step) % u64::from(COUNT)).unwrap_or(0);
        if is_free(LOWEST + offset) {
            return LOWEST + offset;
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_or(0, |address| address.port())
}
