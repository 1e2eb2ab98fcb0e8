//! The outbox: due order, fenced marks, late commits, dropped days; and the keeper's tables.

use super::world::{ACTOR, World, completed};
use chrono::{TimeDelta, Utc};
use punctual::domain::bucket::{minute_start, shard};
use punctual::domain::intent::{Authenticity, check_notice};
use punctual::schedule::{CancelAnswer, Schedule, ShardLease, Shards};
use sqlx::{Acquire, Executor};
use std::time::Duration;

const LEAD: Duration = Duration::from_secs(90);
const LENGTH: Duration = Duration::from_secs(10);

async fn lease(world: &World) -> ShardLease {
    world.worker.acquire_shards("r1", 1, 1, LENGTH).await.expect("acquired").remove(0)
}

#[tokio::test]
async fn notices_come_in_due_order_within_the_lead_and_only_of_the_residue() {
    let world = World::new().await;
    let now = world.now().await;
    for (key, seconds) in [("k1", 60), ("k2", 10), ("k3", 200), ("k4", 30)] {
        world.create(&world.payment(key, now + TimeDelta::seconds(seconds))).await;
    }
    let all = lease(&world).await;
    let staged = world.worker.stage(&all, LEAD, 10).await.expect("staged");
    let order: Vec<_> = staged.notices.iter().map(|it| (it.notice.not_before - now).num_seconds()).collect();
    assert_eq!(order, [10, 30, 60]);
    assert_eq!(staged.next_due, Some(now + TimeDelta::seconds(200)));
    for it in &staged.notices {
        assert_eq!(it.shard, shard(it.notice.payment));
        let made = check_notice(world.worker.installation_secret(), &it.notice, &it.mac);
        assert_eq!(made, Authenticity::Authentic);
    }
    let two = world.worker.stage(&all, LEAD, 2).await.expect("staged");
    assert_eq!(two.notices, staged.notices[..2]);
    let mut found = 0;
    for residue in 0..4 {
        let some = ShardLease { residue, partitions: 4, ..all.clone() };
        let staged = world.worker.stage(&some, LEAD, 10).await.expect("staged");
        assert!(staged.notices.iter().all(|it| i32::from(it.shard) % 4 == residue));
        found += staged.notices.len();
    }
    assert_eq!(found, 3);
}

#[tokio::test]
async fn a_crowded_minute_far_ahead_is_found_by_counting_and_the_quiet_ones_before_it_are_left() {
    let world = World::new().await;
    let longest = Duration::from_secs(900);
    let first = minute_start(world.now().await) + TimeDelta::minutes(4);
    let at = |minute: i32, second: i64| first + TimeDelta::minutes(1) * minute + TimeDelta::seconds(second);
    for (number, instant) in
        [at(0, 1), at(0, 2), at(1, 0), at(2, 0), at(2, 59), at(2, 30), at(3, 0), at(3, 1), at(3, 2)]
            .into_iter()
            .enumerate()
    {
        world.create(&world.payment(&format!("k{number}"), instant)).await;
    }
    let all = lease(&world).await;
    let crowd = async |limit| {
        let staged = world.worker.stage_crowd(&all, LEAD, longest, limit).await.expect("staged");
        assert_eq!(staged.next_due, None);
        staged.notices.iter().map(|it| (it.notice.not_before - first).num_seconds()).collect::<Vec<_>>()
    };
    assert_eq!(crowd(3).await, [120, 150, 179], "the earliest of the crowded minutes, in due order");
    assert_eq!(crowd(2).await, [1, 2]);
    assert!(crowd(4).await.is_empty(), "no minute is so crowded");
    let near = world.worker.stage_crowd(&all, Duration::from_secs(600), longest, 2).await.expect("staged");
    assert!(near.notices.is_empty(), "that is the usual lead's");
    let none = world.worker.stage_crowd(&all, longest, longest, 1).await.expect("staged");
    assert!(none.notices.is_empty(), "there is no minute between the two");
    // Marked, the minute holds one less than a crowd.
    let staged = world.worker.stage_crowd(&all, LEAD, longest, 3).await.expect("staged").notices;
    assert!(world.worker.mark(&all, &staged[..1]).await.expect("an answer"));
    assert_eq!(crowd(3).await, [180, 181, 182]);
}

#[tokio::test]
async fn a_mark_of_a_lost_shard_changes_nothing() {
    let world = World::new().await;
    world.due("k1").await;
    let ours = lease(&world).await;
    let staged = world.worker.stage(&ours, LEAD, 10).await.expect("staged");
    assert!(world.worker.acquire_shards("r2", 1, 1, LENGTH).await.expect("an answer").is_empty());
    world.run("UPDATE relay_shards SET until = now() - interval '1 s'").await;
    let theirs = world.worker.acquire_shards("r2", 1, 1, LENGTH).await.expect("an answer").remove(0);
    assert_eq!(theirs.epoch, ours.epoch + 1);
    assert!(!world.worker.mark(&ours, &staged.notices).await.expect("an answer"));
    assert!(
        world.worker.renew_shards(std::slice::from_ref(&ours), LENGTH).await.expect("an answer").is_empty()
    );
    assert_eq!(world.worker.stage(&theirs, LEAD, 10).await.expect("staged").notices, staged.notices);
    assert!(world.worker.mark(&theirs, &staged.notices).await.expect("an answer"));
    assert!(world.worker.stage(&theirs, LEAD, 10).await.expect("staged").notices.is_empty());
    // Marking again is harmless.
    assert!(world.worker.mark(&theirs, &staged.notices).await.expect("an answer"));
    world.worker.release_shards(&[theirs]).await.expect("released");
    assert_eq!(world.worker.acquire_shards("r3", 1, 1, LENGTH).await.expect("an answer").len(), 1);
}

#[tokio::test]
async fn a_notice_that_commits_late_is_not_passed_over() {
    let world = World::new().await;
    let ours = lease(&world).await;
    let mut sql = world.sql().await;
    let mut slow = sql.begin().await.expect("a transaction");
    slow.execute(
        "INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
         SELECT 0, id, due_day, gateway, lane, due_at, now(), 0
         FROM (SELECT '019a0000-0000-8000-8000-000000000000'::uuid AS id, current_date AS due_day,
                      'sandbox' AS gateway, 1::smallint AS lane, now() AS due_at) AS one",
    )
    .await
    .expect("written");
    world.due("k1").await;
    let first = world.worker.stage(&ours, LEAD, 10).await.expect("staged");
    assert_eq!(first.notices.len(), 1);
    assert!(world.worker.mark(&ours, &first.notices).await.expect("an answer"));
    slow.commit().await.expect("committed");
    let second = world.worker.stage(&ours, LEAD, 10).await.expect("staged");
    assert_eq!(second.notices.len(), 1);
    assert!(second.notices[0].notice_id < first.notices[0].notice_id, "it took its number earlier");
}

#[tokio::test]
async fn a_transaction_held_open_on_the_outbox_stops_no_writer_no_relay_and_no_keeper() {
    let world = World::new().await;
    let today = Utc::now().date_naive();
    let drained = today - TimeDelta::days(6);
    world.run(&format!("SELECT ensure_partitions('{drained}', '{drained}')")).await;
    let ours = lease(&world).await;
    let held = world.due("held").await;
    let mut sql = world.sql().await;
    let mut slow = sql.begin().await.expect("a transaction");
    slow.execute(
        "INSERT INTO due_notices (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
         SELECT shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt FROM due_notices",
    )
    .await
    .expect("written");

    // The keeper wants the lock that would make everybody queue behind it, and gives up; beside it
    // payments are created, published and marked.
    let beside = async {
        for n in 0..10 {
            world.due(&format!("k{n}")).await;
        }
        let staged = world.worker.stage(&ours, LEAD, 100).await.expect("staged");
        assert_eq!(staged.notices.len(), 11);
        assert!(world.worker.mark(&ours, &staged.notices).await.expect("an answer"));
    };
    let asked = std::time::Instant::now();
    let (dropped, ()) = tokio::join!(world.worker.drop_drained_notices(2), beside);
    assert_eq!(dropped.expect("an answer"), 0, "not while somebody writes");
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());

    slow.commit().await.expect("committed");
    let late = world.worker.stage(&ours, LEAD, 100).await.expect("staged");
    assert_eq!(late.notices.iter().map(|it| it.notice.payment).collect::<Vec<_>>(), [held.payment]);
    assert_eq!(world.worker.drop_drained_notices(2).await.expect("an answer"), 1);
}

#[tokio::test]
async fn old_notices_that_nothing_can_claim_are_dropped_and_the_others_are_not() {
    let world = World::new().await;
    let now = world.now().await;
    let old = now - TimeDelta::minutes(5);
    let gone = world.create(&world.payment("k1", old)).await;
    let alive = world.create(&world.payment("k2", old)).await;
    let done = world.create(&world.payment("k3", old)).await;
    let cancelled = world.api.cancel(ACTOR, gone.payment).await.expect("an answer");
    assert!(matches!(cancelled, CancelAnswer::Cancelled(_)));
    let claimed = world.claim_one(&done).await;
    let settled = world.worker.settle(vec![completed(claimed, "ch_1")]).await;
    settled.map_err(|failed| failed.error).expect("settled");
    let ours = lease(&world).await;
    let staged = world.worker.stage(&ours, LEAD, 10).await.expect("staged");
    assert_eq!(staged.notices.iter().map(|it| it.notice.payment).collect::<Vec<_>>(), [alive.payment]);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM due_notices").await, 1);
}

#[tokio::test]
async fn drained_days_of_the_outbox_are_dropped_and_not_made_again() {
    let world = World::new().await;
    let today = Utc::now().date_naive();
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'due_notices'::regclass";
    world
        .run(&format!(
            "SELECT ensure_partitions('{}', '{}')",
            today - TimeDelta::days(6),
            today - TimeDelta::days(3)
        ))
        .await;
    let before = world.one::<i64>(partitions).await;
    let old = world.create(&world.payment("k1", world.now().await - TimeDelta::days(5))).await;
    assert_eq!(world.worker.drop_drained_notices(2).await.expect("an answer"), 3);
    let ours = lease(&world).await;
    let staged = world.worker.stage(&ours, LEAD, 10).await.expect("staged");
    assert_eq!(staged.notices[0].notice.payment, old.payment, "a partition with a notice stays");
    assert!(world.worker.mark(&ours, &staged.notices).await.expect("an answer"));
    assert_eq!(world.worker.drop_drained_notices(2).await.expect("an answer"), 1);
    assert_eq!(world.worker.ensure_partitions(2, 10).await.expect("an answer"), 0);
    assert_eq!(world.one::<i64>(partitions).await, before - 4);
}

#[tokio::test]
async fn partitions_are_made_ahead_once_by_two_keepers_at_once() {
    let world = World::new().await;
    let (one, two) = (world.worker.clone(), world.worker.clone());
    let both = tokio::join!(one.ensure_partitions(2, 14), two.ensure_partitions(2, 14));
    let made = both.0.expect("an answer") + both.1.expect("an answer");
    assert_eq!(made, 4 * 5);
    world.create(&world.payment("k1", world.now().await + TimeDelta::days(14))).await;
    world.worker.ping().await.expect("today is made");
}

#[tokio::test]
async fn the_oldest_open_day_moves_past_finished_days_only() {
    let world = World::new().await;
    let old = world.now().await - TimeDelta::days(4);
    world.run(&format!("SELECT ensure_partitions('{0}', '{0}')", old.date_naive())).await;
    world
        .run(&format!(
            "UPDATE installation SET oldest_open_day = '{}'",
            old.date_naive() - TimeDelta::days(3)
        ))
        .await;
    let notice = world.create(&world.payment("k1", old)).await;
    assert_eq!(world.worker.advance_oldest_open_day().await.expect("an answer"), old.date_naive());
    let claimed = world.claim_one(&notice).await;
    assert_eq!(world.worker.advance_oldest_open_day().await.expect("an answer"), old.date_naive());
    let settled = world.worker.settle(vec![completed(claimed, "ch_1")]).await;
    settled.map_err(|failed| failed.error).expect("settled");
    let today = Utc::now().date_naive();
    assert_eq!(world.worker.advance_oldest_open_day().await.expect("an answer"), today - TimeDelta::days(2));
}
