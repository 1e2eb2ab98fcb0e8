//! Rule R17 for a process that begins: asks the topic of events whether the database is the one that they were
//! published from.
//!
//! **Promises.** A database that lacks the history row of a newest event that this installation sealed is quarantined
//! before this process claims or publishes anything: a base backup that was started as it is, or a snapshot of a disk,
//! keeps the timeline, and a process that begins remembers nothing of the server's log. **Relies on** events being
//! published after their rows are durable, and on history being kept for longer than [`LOOKS_BACK`]. An event that
//! another wrote proves nothing. **Where Kafka is away** nothing is asked and a warning says so: due payments do not
//! wait for it.

use super::{Ended, Process, failed};
use crate::bucket::tail::{SealedEvent, newest_events};
use crate::domain::intent::{Authenticity, Secret, check_event};
use crate::schedule::{Loss, LossKind, Postgres};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Nothing waits longer for Kafka than that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// The history of older events may have been archived.
const LOOKS_BACK: TimeDelta = TimeDelta::days(30);

/// Quarantines a database that lacks what was published from it.
///
/// # Errors
/// The database could not be asked, or not be quarantined: then nothing may begin.
pub(super) async fn ask_the_events(process: &Process, schedule: &Postgres) -> Result<(), Ended> {
    let kafka = process.config.kafka.clone();
    if kafka.bootstrap_servers.is_empty() {
        return Ok(());
    }
    let asked = tokio::task::spawn_blocking(move || newest_events(&kafka));
    let events = tokio::select! {
        biased;
        events = asked => events.map_err(failed)?,
        () = process.clock.sleep(ANSWERS_WITHIN) => {
            tracing::warn!("Kafka does not answer: whether the database lacks published events is not known");
            return Ok(());
        }
    };
    let events = match events {
        Ok(events) => events,
        Err(error) => {
            tracing::warn!(%error, "whether the database lacks published events is not known");
            return Ok(());
        }
    };
    let ours = authentic(schedule.installation_secret(), events, process.clock.wall());
    let rows: Vec<_> = ours.iter().map(|it| (it.at, it.payment, it.sequence)).collect();
    let missing = schedule.missing_history(&rows).await.map_err(failed)?;
    let lost = ours.iter().filter(|it| missing.contains(&(it.payment, it.sequence)));
    let Some(first) = lost.clone().min_by_key(|it| it.at) else { return Ok(()) };
    let loss = Loss {
        kind: LossKind::Event,
        why: format!(
            "{} of the newest {} events of the topic have no history row; the oldest is number {} of payment {}, of {}",
            lost.count(),
            ours.len(),
            first.sequence,
            first.payment,
            first.at.to_rfc3339(),
        ),
        payment: Some(first.payment),
        seen_at: Some(first.at),
    };
    schedule.commits_lost(&loss).await.map(drop).map_err(failed)
}

/// Those that this installation sealed, and whose rows must still be there.
fn authentic(secret: &Secret, events: Vec<SealedEvent>, now: DateTime<Utc>) -> Vec<SealedEvent> {
    let is_ours = |it: &SealedEvent| {
        now - it.at < LOOKS_BACK
            && check_event(secret, it.payment, it.sequence, it.at, &it.mac) == Authenticity::Authentic
    };
    events.into_iter().filter(is_ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::PaymentId;
    use crate::domain::intent::event_mac;

    #[test]
    fn only_what_this_installation_sealed_not_long_ago_proves_anything() {
        let now = DateTime::from_timestamp_micros(1_795_960_020_123_456).unwrap();
        let (ours, others) = ([7; 32], [8; 32]);
        let event = |secret: &Secret, at: DateTime<Utc>| {
            let payment = PaymentId::new(now, [9; 10]).unwrap();
            SealedEvent { payment, sequence: 3, at, mac: event_mac(secret, payment, 3, at) }
        };
        let good = event(&ours, now);
        let old = event(&ours, now - LOOKS_BACK);
        let forged = event(&others, now);
        let changed = SealedEvent { sequence: 4, ..good.clone() };
        let bare = SealedEvent { mac: String::new(), ..good.clone() };
        let left = authentic(&ours, vec![good.clone(), old, forged, changed, bare], now);
        assert_eq!(left, [good]);
    }
}
