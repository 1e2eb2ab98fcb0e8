//! One pass and the loop, on a history and a topic in memory.

#[path = "again_tests.rs"]
mod again;

use super::*;
use crate::domain::history::{Event, HistoryRow};
use crate::domain::ids::{Epoch, Fence};
use crate::domain::state::{Cause, Status};
use crate::platform::clock::Host;
use crate::platform::shutdown::Shutdown;
use crate::schedule::{HistoryPlace, Lane};
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// Rows, a cursor as their index, and the epoch that leads.
#[derive(Default)]
struct Memory(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    rows: Vec<Unpublished>,
    cursor: usize,
    epoch: i64,
    held: bool,
}

impl Leads for Memory {
    async fn acquire(&self, holder: &str, _: Duration) -> Result<Option<PublisherLease>, ScheduleError> {
        let mut inner = self.0.lock().unwrap();
        if std::mem::replace(&mut inner.held, true) {
            return Ok(None);
        }
        inner.epoch += 1;
        Ok(Some(PublisherLease {
            lane: Lane::Events,
            holder: holder.into(),
            epoch: inner.epoch,
            started_over: false,
        }))
    }

    async fn renew(&self, lease: &PublisherLease, _: Duration) -> Result<bool, ScheduleError> {
        Ok(self.0.lock().unwrap().epoch == lease.epoch)
    }

    async fn release(&self, lease: &PublisherLease) -> Result<(), ScheduleError> {
        let mut inner = self.0.lock().unwrap();
        inner.held &= inner.epoch != lease.epoch;
        Ok(())
    }
}

impl History for Memory {
    async fn unpublished(
        &self,
        lease: &PublisherLease,
        limit: u32,
    ) -> Result<Option<UnpublishedBatch>, ScheduleError> {
        let inner = self.0.lock().unwrap();
        if inner.epoch != lease.epoch {
            return Ok(None);
        }
        let rows: Vec<_> = inner.rows[inner.cursor..].iter().take(limit as usize).cloned().collect();
        Ok(Some(UnpublishedBatch {
            is_full: rows.len() == limit as usize,
            floor_is_old: false,
            oldest_age: Duration::ZERO,
            is_ahead: false,
            database_now: at(),
            end: HistoryPlace { xid: (inner.cursor + rows.len()) as u64, seq: 0, payment: Uuid::nil() },
            below: None,
            rows,
        }))
    }

    async fn advance(
        &self,
        lease: &PublisherLease,
        published: &UnpublishedBatch,
    ) -> Result<bool, ScheduleError> {
        let mut inner = self.0.lock().unwrap();
        if inner.epoch != lease.epoch {
            return Ok(false);
        }
        inner.cursor = published.end.xid as usize;
        Ok(true)
    }
}

/// Keeps what is acknowledged; refuses the records whose numbers, counted over all time, are listed.
#[derive(Default)]
struct Kept {
    batches: Mutex<Vec<Vec<String>>>,
    asked: Mutex<usize>,
    refused: Vec<usize>,
}

impl Topic for Kept {
    async fn publish(&self, batch: &[Outgoing]) -> Result<(), NotAcknowledged> {
        let mut asked = self.asked.lock().unwrap();
        let mut indexes = Vec::new();
        let mut kept = Vec::new();
        for (index, record) in batch.iter().enumerate() {
            if self.refused.contains(&*asked) {
                indexes.push(index);
            } else {
                let value: serde_json::Value = serde_json::from_slice(&record.value).unwrap();
                let announced = || format!("announced {}", value["paymentId"].as_str().unwrap());
                kept.push(value["id"].as_str().map_or_else(announced, str::to_owned));
            }
            *asked += 1;
        }
        self.batches.lock().unwrap().push(kept);
        if indexes.is_empty() {
            return Ok(());
        }
        Err(NotAcknowledged { indexes, of: batch.len(), first: "away".into() })
    }
}

fn at() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_795_960_020_000).unwrap()
}

fn payment(n: u8) -> PaymentId {
    PaymentId::new(at(), [n; 10]).unwrap()
}

fn row(n: u8, seq: i32) -> Unpublished {
    let (from, cause, to) = match seq {
        1 => (None, Cause::Created, Status::Pending),
        _ => (Some(Status::Pending), Cause::Claimed, Status::Processing),
    };
    let row = HistoryRow {
        payment: payment(n),
        seq,
        from,
        to,
        event: Event::Moved(cause),
        by: "w".into(),
        fence: Fence(0),
        attempt: 0,
        epoch: Epoch(0),
        at: at() - TimeDelta::seconds(3),
        detail: "{}".into(),
    };
    Unpublished { row, payment: None }
}

fn story() -> Memory {
    let rows = vec![row(1, 1), row(2, 1), row(1, 2), row(3, 1), row(1, 3), row(2, 2)];
    Memory(Mutex::new(Inner { rows, ..Inner::default() }))
}

fn ids(rows: &[(u8, i32)]) -> Vec<String> {
    rows.iter().map(|(n, seq)| format!("{}/{seq}", payment(*n))).collect()
}

fn form() -> Form {
    Form::new("t.", 2)
}

async fn lead(memory: &Memory) -> PublisherLease {
    memory.acquire("a", Duration::ZERO).await.unwrap().unwrap()
}

#[tokio::test]
async fn an_event_is_sent_only_after_the_one_before_it_was_acknowledged() {
    let (memory, kept) = (story(), Kept::default());
    let lease = lead(&memory).await;
    let pass = step(&memory, &kept, &lease, &form(), 10).await.unwrap();
    assert_eq!(pass, Pass { published: 6, is_full: false, is_ahead: false, oldest_age: Duration::ZERO });
    let wanted = [ids(&[(1, 1), (2, 1), (3, 1)]), ids(&[(1, 2), (2, 2)]), ids(&[(1, 3)])];
    assert_eq!(*kept.batches.lock().unwrap(), wanted);
    assert_eq!(memory.0.lock().unwrap().cursor, 6);
}

#[tokio::test]
async fn what_is_not_acknowledged_stops_the_pass_and_the_whole_batch_goes_out_again() {
    // The first event of payment 2 is refused once.
    let (memory, kept) = (story(), Kept { refused: vec![1], ..Kept::default() });
    let lease = lead(&memory).await;
    let failed = step(&memory, &kept, &lease, &form(), 10).await.unwrap_err();
    assert!(matches!(failed, PassFailed::NotAcknowledged(_)), "{failed}");
    assert_eq!(*kept.batches.lock().unwrap(), [ids(&[(1, 1), (3, 1)])], "nothing of a later wave was sent");
    assert_eq!(memory.0.lock().unwrap().cursor, 0);
    step(&memory, &kept, &lease, &form(), 10).await.unwrap();
    assert_eq!(memory.0.lock().unwrap().cursor, 6);
    let all = kept.batches.lock().unwrap().concat();
    for n in 1..=3 {
        let prefix = payment(n).to_string();
        let mut firsts: Vec<&String> = Vec::new();
        for id in all.iter().filter(|id| id.starts_with(&prefix)) {
            if !firsts.contains(&id) {
                firsts.push(id);
            }
        }
        assert!(firsts.is_sorted(), "{firsts:?}");
    }
}

#[tokio::test]
async fn who_lost_the_lead_moves_nothing() {
    let (memory, kept) = (story(), Kept::default());
    let lease = lead(&memory).await;
    memory.0.lock().unwrap().held = false;
    lead(&memory).await;
    let failed = step(&memory, &kept, &lease, &form(), 10).await.unwrap_err();
    assert!(matches!(failed, PassFailed::LeadLost), "{failed}");
    assert_eq!(memory.0.lock().unwrap().cursor, 0);
}

#[tokio::test]
async fn the_age_of_the_oldest_is_that_of_the_batch_until_it_is_out() {
    let memory = story();
    let lease = lead(&memory).await;
    let batch = memory.unpublished(&lease, 10).await.unwrap().unwrap();
    assert_eq!(batch.oldest_age_now(), Duration::from_secs(3));
    assert_eq!(UnpublishedBatch { rows: vec![], ..batch }.oldest_age_now(), Duration::ZERO);
}

#[tokio::test]
async fn the_loop_publishes_everything_in_full_batches_and_gives_the_lead_back() {
    let (memory, kept) = (Arc::new(story()), Arc::new(Kept::default()));
    let (condition, mut told) = watch::channel(Condition::default());
    let publisher = Publisher {
        holder: "a".into(),
        lease: Duration::from_secs(10),
        batch: 2,
        poll: Duration::from_millis(5),
        form: form(),
        clock: Arc::new(Host),
        condition,
    };
    let (trigger, shutdown) = Shutdown::manual();
    let ran = tokio::spawn({
        let (memory, kept) = (memory.clone(), kept.clone());
        async move { run(&publisher, &*memory, &*kept, &shutdown).await }
    });
    told.wait_for(|condition| condition.leads).await.unwrap();
    while memory.0.lock().unwrap().cursor < 6 {
        tokio::task::yield_now().await;
    }
    trigger.stop();
    ran.await.unwrap().unwrap();
    assert_eq!(kept.batches.lock().unwrap().concat().len(), 6);
    assert!(!memory.0.lock().unwrap().held, "another can take over at once");
}
