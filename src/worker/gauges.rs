//! What the loop tells of itself at each tick.
//!
//! Nothing depends on it; a worker that dies leaves its last values to its own series, which end
//! with the process.

use super::bus::Bus;
use super::hold::Hold;
use super::place::{Place, Record};
use crate::domain::bucket::{Channel, channels};
use crate::domain::ids::GatewayName;
use crate::platform::metrics;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;

/// A count as a gauge takes it: exact up to four billion.
pub(super) fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Records held, and those of our partitions that are not complete. A bucket that is not ours is
/// told as 0, so that what moves to another worker is not counted twice.
pub(super) fn told(hold: &Hold<Place>, bus: &Bus) {
    metrics::NOTICES_HELD.set(whole(hold.len()), []);
    let mut lag: BTreeMap<Channel, i64> = channels().map(|channel| (channel, 0)).collect();
    if let Bus::Joined(ring) = bus {
        for part in ring.lag() {
            *lag.entry(part.channel).or_default() += part.records();
        }
    }
    for (channel, records) in lag {
        let minute = match channel {
            Channel::Ring(slot) => format!("{:02}", slot.minute()),
            Channel::Now => "now".to_owned(),
        };
        metrics::BUCKET_LAG.set(whole(usize::try_from(records).unwrap_or(0)), [&minute]);
    }
}

/// How long due records waited for a slot.
pub(super) fn waited<'a>(
    gateway: &GatewayName,
    records: impl Iterator<Item = &'a Record>,
    now: DateTime<Utc>,
) {
    let series = metrics::GATEWAY_PERMIT_WAIT.series([&gateway.0]);
    for record in records {
        // Presented after an early answer or a failure, it waited longer for other reasons too.
        let wait = (now - record.notice.not_before).to_std().unwrap_or_default();
        series.record(wait.as_secs_f64());
    }
}
