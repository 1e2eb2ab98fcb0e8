//! Differences that the sequences found, each alone and on both stores, so that they stay mended.

use super::chance::{MARGIN, claim_ids, request};
use super::compare::whole;
use super::sequence::{Met, Sequence, Ticket};
use super::stores::Stores;
use crate::schedule::world::{charged, decision, notice, terms};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::decision::{Decision, SendsAnswered};
use punctual::domain::payment::Payment;
use punctual::domain::state::Status;
use punctual::domain::verdict::{Doubt, Verdict};
use punctual::schedule::{Answer, How, Schedule, Shards};
use std::time::Duration;

const LEASE: TimeDelta = TimeDelta::seconds(30);

/// A payment that became due `ago` before now.
async fn due(sequence: &mut Sequence<'_>, number: usize, ago: TimeDelta) -> Payment {
    let now = sequence.now();
    let mut new = request(&mut sequence.chance, number, now);
    let due_at = now - ago;
    let intent = [u8::try_from(number).expect("few"); 10];
    new.id = punctual::domain::ids::PaymentId::new(due_at, intent).expect("in range");
    (new.due_at, new.execute_before, new.external_id) = (due_at, None, None);
    new.gateway = crate::schedule::world::gateway();
    sequence.stores.api.create(&new).await.expect("created");
    sequence.memory.request(&new).await.expect("created");
    sequence.memory.payment(new.id).expect("it was created")
}

async fn claim(sequence: &mut Sequence<'_>, row: &Payment) {
    let (terms, notices, ids) = (terms(), vec![notice(row)], claim_ids(&mut sequence.chance, 1));
    let answers = sequence.stores.worker.claim(&terms, &notices, &ids).await.expect("an answer");
    let tickets = sequence.tickets.len();
    sequence.claimed_in_postgres(&terms, notices, ids, answers).await.expect("no difference");
    assert_eq!(sequence.tickets.len(), tickets + 1, "won");
}

/// How many leases both call expired.
async fn reap(sequence: &mut Sequence<'_>, limit: u32) -> u32 {
    let ours = sequence.stores.worker.reap(MARGIN, limit).await.expect("reaped");
    assert_eq!(ours, sequence.memory.reap(MARGIN, limit).await.expect("reaped"));
    whole(sequence.stores, &sequence.memory).await.expect("no difference");
    ours.expired
}

/// Claims the row and lets its lease end; answers when it was reaped.
async fn lose(sequence: &mut Sequence<'_>, row: &Payment) -> DateTime<Utc> {
    claim(sequence, row).await;
    let over = sequence.now() + LEASE + MARGIN;
    sequence.move_to(over).await;
    assert_eq!(reap(sequence, 10).await, 1);
    over
}

fn learned(ticket: &mut Ticket, verdict: Verdict, decision: Decision) {
    ticket.outcome = Some((Answer::silent(verdict, How::Sent), decision));
}

async fn settle(sequence: &mut Sequence<'_>, places: &[usize]) {
    let batch = places.iter().map(|place| sequence.tickets[*place].answered()).collect();
    let settled = sequence.stores.worker.settle(batch).await.map_err(|failed| failed.error).expect("settled");
    let settled: Vec<_> = settled.iter().map(|it| it.result()).collect();
    sequence.settled_in_postgres(places, &settled).await.expect("no difference");
    whole(sequence.stores, &sequence.memory).await.expect("no difference");
}

fn at_once(now: DateTime<Utc>) -> Decision {
    let next_attempt_at = Some(now);
    Decision { next_attempt_at, answered: SendsAnswered::None, ..decision(Status::Unknown) }
}

#[tokio::test]
async fn a_lease_that_ended_exactly_a_margin_ago_is_reaped() {
    let (mut stores, mut met) = (Stores::new().await, Met::new());
    let mut sequence = Sequence::new(&mut stores, &mut met, 1).await;
    let row = due(&mut sequence, 1, TimeDelta::seconds(1)).await;
    claim(&mut sequence, &row).await;
    let over = sequence.now() + LEASE + MARGIN;
    sequence.move_to(over - TimeDelta::microseconds(1)).await;
    assert_eq!(reap(&mut sequence, 10).await, 0);
    sequence.move_to(over).await;
    assert_eq!(reap(&mut sequence, 10).await, 1);
}

#[tokio::test]
async fn a_reaper_that_may_take_one_takes_the_oldest_lease() {
    let (mut stores, mut met) = (Stores::new().await, Met::new());
    let mut sequence = Sequence::new(&mut stores, &mut met, 1).await;
    // The order of ids is the order of due times, and the opposite of the order of leases.
    let first = due(&mut sequence, 1, TimeDelta::seconds(1)).await;
    let second = due(&mut sequence, 2, TimeDelta::seconds(9)).await;
    assert!(second.id < first.id);
    claim(&mut sequence, &first).await;
    let later = sequence.now() + TimeDelta::seconds(2);
    sequence.move_to(later).await;
    claim(&mut sequence, &second).await;
    sequence.move_to(later + TimeDelta::minutes(1)).await;
    assert_eq!(reap(&mut sequence, 1).await, 1);
    assert_eq!(sequence.memory.payment(first.id).expect("exists").status, Status::Unknown);
}

#[tokio::test]
async fn a_late_charge_of_an_overdue_payment_writes_no_second_notice() {
    let (mut stores, mut met) = (Stores::new().await, Met::new());
    let mut sequence = Sequence::new(&mut stores, &mut met, 1).await;
    let row = due(&mut sequence, 1, TimeDelta::seconds(1)).await;
    let over = lose(&mut sequence, &row).await;
    let notices = sequence.memory.open_notices().len();
    sequence.move_to(over + TimeDelta::seconds(1)).await;
    learned(&mut sequence.tickets[0], charged("ch_1"), decision(Status::Completed));
    settle(&mut sequence, &[0]).await;
    assert_eq!(sequence.memory.open_notices().len(), notices);
}

#[tokio::test]
async fn in_one_batch_the_current_outcome_is_written_before_the_late_one() {
    let (mut stores, mut met) = (Stores::new().await, Met::new());
    let mut sequence = Sequence::new(&mut stores, &mut met, 1).await;
    let row = due(&mut sequence, 1, TimeDelta::seconds(1)).await;
    let over = lose(&mut sequence, &row).await;
    let row = sequence.memory.payment(row.id).expect("exists");
    claim(&mut sequence, &row).await;
    for ticket in &mut sequence.tickets {
        learned(ticket, Verdict::Unknown(Doubt::TimedOut), at_once(over));
    }
    // The zombie's first.
    settle(&mut sequence, &[0, 1]).await;
    let last = sequence.memory.history(row.id).pop().expect("a history");
    assert_eq!(last.event.as_str(), "fenced");
}

#[tokio::test]
async fn a_renewal_that_was_on_its_way_does_not_bring_a_released_shard_back() {
    let (mut stores, mut met) = (Stores::new().await, Met::new());
    let sequence = Sequence::new(&mut stores, &mut met, 1).await;
    let (worker, memory, length) = (&sequence.stores.worker, &sequence.memory, Duration::from_secs(30));
    let ours = worker.acquire_shards("relay", 1, 1, length).await.expect("acquired");
    assert_eq!(ours, memory.acquire_shards("relay", 1, 1, length).await.expect("acquired"));
    worker.release_shards(&ours).await.expect("released");
    memory.release_shards(&ours).await.expect("released");
    assert_eq!(worker.renew_shards(&ours, length).await.expect("asked"), []);
    assert_eq!(memory.renew_shards(&ours, length).await.expect("asked"), []);
    // Also a relay that has nothing to mark is told that it lost its shard.
    assert!(!worker.mark(&ours[0], &[]).await.expect("an answer"));
    assert!(!memory.mark(&ours[0], &[]).await.expect("an answer"));
}

#[tokio::test]
async fn staging_drops_what_nothing_can_claim_and_says_when_more_comes_only_where_it_read_all() {
    let (mut stores, mut met) = (Stores::new().await, Met::new());
    let mut sequence = Sequence::new(&mut stores, &mut met, 1).await;
    let row = due(&mut sequence, 1, TimeDelta::seconds(1)).await;
    due(&mut sequence, 2, TimeDelta::minutes(-20)).await;
    due(&mut sequence, 3, TimeDelta::minutes(-90)).await;
    claim(&mut sequence, &row).await;
    let (worker, memory, length) = (&sequence.stores.worker, &sequence.memory, Duration::from_secs(3600));
    let shard = worker.acquire_shards("relay", 1, 1, length).await.expect("acquired").remove(0);
    memory.acquire_shards("relay", 1, 1, length).await.expect("acquired");
    let old = sequence.now() + TimeDelta::seconds(61);
    for (instant, limit, found) in [(sequence.now(), 1, 1), (sequence.now(), 9, 1), (old, 9, 0), (old, 1, 0)]
    {
        sequence.move_to(instant).await;
        let lead = Duration::from_secs(60);
        let ours = sequence.stores.worker.stage(&shard, lead, limit).await.expect("staged");
        let theirs = sequence.memory.stage(&shard, lead, limit).await.expect("staged");
        assert_eq!((ours.notices.len(), theirs.notices.len()), (found, found));
        assert_eq!(ours.next_due, theirs.next_due);
        // One as many as it may read: it looks again at once.
        assert_eq!(ours.next_due.is_none(), found == 1 && limit == 1);
        whole(sequence.stores, &sequence.memory).await.expect("no difference");
    }
    assert_eq!(sequence.memory.open_notices().len(), 2);
}
