//! The last hour on real Postgres: each row of the history is added up once, in its minute, by whichever keeper.

use super::world::{ACTOR, World, answer, completed, decision, declined, parks};
use crate::support::eventually;
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::bucket::minute_start;
use punctual::domain::decision::{Decision, EpochChange, SendsAnswered};
use punctual::domain::lateness::{Late, percentile};
use punctual::domain::reason::Reason;
use punctual::domain::state::Status;
use punctual::domain::verdict::DeclineClass;
use punctual::schedule::statements::Statement;
use punctual::schedule::{CancelAnswer, Minute, Schedule, Summed};
use sqlx::{AssertSqlSafe, Connection, Executor};
use std::time::Duration;

async fn summed(world: &World, most: u32) {
    while world.worker.sum_minutes(most).await.expect("summed") == Summed::More {}
}

/// The sums over the hour: claimed, completed, failed, cancelled, parked, unknown, retried, late.
fn sums(minutes: &[Minute]) -> ([i64; 7], Vec<i64>) {
    let mut all = [0; 7];
    let mut late = vec![0; 11];
    for it in minutes {
        let of = [it.claimed, it.completed, it.failed, it.cancelled, it.parked, it.unknown, it.retried];
        all.iter_mut().zip(of).for_each(|(sum, more)| *sum += more);
        late.iter_mut().zip(&it.late).for_each(|(sum, more)| *sum += more);
    }
    (all, late)
}

async fn read(world: &World) -> ([i64; 7], Vec<i64>) {
    sums(&world.api.pulse().await.expect("read").minutes)
}

/// Adds up until the sums are these: every open transaction of the server, also of another database, is waited for.
async fn summed_to(world: &World, most: u32, wanted: [i64; 7]) -> Vec<i64> {
    eventually("the sums", Duration::from_secs(60), || async {
        summed(world, most).await;
        let (all, late) = read(world).await;
        (all == wanted).then_some(late)
    })
    .await
}

#[tokio::test]
async fn what_happened_is_added_up_once_whatever_the_size_of_a_batch_and_whoever_does_it() {
    let world = World::new().await;
    let soon = world.now().await + TimeDelta::minutes(20);
    let cancelled = world.payment("cancelled", soon);
    world.create(&cancelled).await;
    assert!(matches!(world.api.cancel(ACTOR, cancelled.id).await.unwrap(), CancelAnswer::Cancelled(_)));
    let (paid, retried, held, lost) = (
        world.due("paid").await,
        world.due("retried").await,
        world.due("held").await,
        world.due("lost").await,
    );
    let claimed = world.claim_one(&paid).await;
    world.worker.settle(vec![completed(claimed, "ch_1")]).await.expect("settled");
    let retry = Decision {
        reason: Some(Reason::DeclinedSoft),
        answered: SendsAnswered::Own,
        next_attempt_at: Some(soon),
        epoch: EpochChange::Next,
        ..decision(Status::Pending)
    };
    let claimed = world.claim_one(&retried).await;
    let answered = claimed.answered(answer(declined(DeclineClass::Soft)));
    world.worker.settle(vec![(answered, retry)]).await.expect("settled");
    let claimed = world.claim_one(&held).await;
    world.worker.settle(vec![parks(claimed, Reason::OutcomeUnknown)]).await.expect("settled");
    drop(world.claim_one(&lost).await);
    world.reap(lost.payment).await;

    assert_eq!(read(&world).await.0, [0; 7], "nobody has added anything up");
    let all = [4, 1, 0, 1, 1, 1, 1];
    let late = summed_to(&world, 3, all).await;
    // Each was due a second before it was made, and claimed within the minute.
    assert_eq!((late[..4].iter().sum::<i64>(), late.iter().sum::<i64>()), (0, 4), "{late:?}");
    assert!(matches!(percentile(&late, 990), Some(Late::Below(ms)) if ms > 1_000), "{late:?}");
    summed(&world, 1_000).await;
    assert_eq!(read(&world).await.0, all, "looking again adds nothing");
    // Two keepers at once, a row at a time.
    let more: Vec<_> = {
        let mut made = Vec::new();
        for number in 0..8 {
            made.push(world.due(&format!("more-{number}")).await);
        }
        made
    };
    drop(world.claim(&more).await);
    tokio::join!(summed(&world, 1), summed(&world, 1), summed(&world, 1));
    let all = [12, 1, 0, 1, 1, 1, 1];
    summed_to(&world, 100, all).await;
    summed(&world, 100).await;
    assert_eq!(read(&world).await.0, all);
}

#[tokio::test]
async fn a_row_whose_transaction_ends_late_is_waited_for_and_not_missed() {
    let world = World::new().await;
    let (early, late) = (world.due("early").await, world.due("late").await);
    summed(&world, 100).await;
    let mut open = world.sql().await;
    let mut held = open.begin().await.expect("begun");
    // It has its id before the other claims, and its row is written when that one's is there already.
    held.execute("SELECT pg_current_xact_id()").await.expect("an id");
    drop(world.claim_one(&early).await);
    summed(&world, 100).await;
    assert_eq!(read(&world).await.0[0], 0, "nothing above an open transaction is read");
    held.rollback().await.expect("ended");
    drop(world.claim_one(&late).await);
    summed_to(&world, 100, [2, 0, 0, 0, 0, 0, 0]).await;
}

#[tokio::test]
async fn a_minute_that_has_passed_has_what_was_due_in_it() {
    let world = World::new().await;
    let now = world.now().await;
    let minute = minute_start(now) - TimeDelta::minutes(5);
    for (key, second) in [("first", 0), ("second", 30), ("third", 59), ("next", 60), ("cancelled", 7)] {
        let new = world.payment(key, minute + TimeDelta::seconds(second));
        world.create(&new).await;
        if key == "cancelled" {
            world.api.cancel(ACTOR, new.id).await.expect("cancelled");
        }
    }
    summed(&world, 100).await;
    let pulse = world.api.pulse().await.expect("read");
    assert_eq!(pulse.minutes.len(), 61);
    assert!(pulse.minutes.windows(2).all(|two| two[1].from - two[0].from == TimeDelta::minutes(1)));
    let due = |at: DateTime<Utc>| pulse.minutes.iter().find(|it| it.from == at).expect("a minute").due;
    assert_eq!((due(minute), due(minute + TimeDelta::minutes(1))), (Some(3), Some(1)));
    assert_eq!(pulse.minutes.last().expect("now").due, None, "it is not over");
    let counted = pulse.minutes.iter().filter_map(|it| it.due).sum::<i64>();
    assert_eq!(counted, 4);
    assert!(pulse.waiting.unpublished_due >= 4 && pulse.waiting.open.parked == 0, "{:?}", pulse.waiting);
}

#[tokio::test]
async fn after_a_dump_was_restored_elsewhere_it_goes_on_from_there() {
    let world = World::new().await;
    drop({
        let due = world.due("before").await;
        world.claim_one(&due).await
    });
    // Until nobody on this server writes below it.
    eventually("all before it ended", Duration::from_secs(60), || async {
        let newest = "SELECT xid FROM payment_history ORDER BY xid DESC LIMIT 1";
        let ended = format!("SELECT pg_snapshot_xmin(pg_current_snapshot()) > ({newest})");
        world.one::<bool>(&ended).await.then_some(())
    })
    .await;
    world.run("UPDATE minutes_cursor SET server = 'another', xid = '999999999'").await;
    summed(&world, 100).await;
    assert_eq!(read(&world).await.0[0], 0, "what was written before is not added up");
    let after = world.due("after").await;
    drop(world.claim_one(&after).await);
    summed_to(&world, 100, [1, 0, 0, 0, 0, 0, 0]).await;
}

#[tokio::test]
async fn a_batch_reads_the_history_by_its_index_and_only_the_days_it_names() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    for statement in [
        "INSERT INTO payment_history
         SELECT ('01a2283e-8820-8' || substr(gen_random_uuid()::text, 16))::uuid, 1, '-', 'PENDING', 'created',
                'test', 0, 0, 0, clock_timestamp(), '{}', '', (n + 1000)::text::xid8
         FROM generate_series(1, 20000) AS n",
        "ANALYZE payment_history",
        "SET plan_cache_mode = force_custom_plan",
    ] {
        sql.execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let text = Statement::named("sum_minutes").expect("listed").text;
    sql.execute(AssertSqlSafe(format!("PREPARE batch AS {text}"))).await.expect("prepared");
    let (nobody, today) = ("'00000000-0000-0000-0000-000000000000'", "date_trunc('day', now(), 'UTC')");
    let run = format!(
        "EXPLAIN EXECUTE batch ('1', 0, {nobody}, '1100', 0, {nobody}, '9000000', {today},
             {today} + interval '1 day', 1000::bigint, '{{50, 100}}'::numeric[])"
    );
    let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(run)).fetch_all(&mut sql).await.expect("a plan");
    let plan = plan.join("\n");
    assert!(plan.contains("_xid_seq_payment_id_idx"), "{plan}");
    assert!(!plan.contains("Seq Scan on payment_history"), "{plan}");
    assert_eq!(plan.matches(" on payment_history_").count(), 1, "one day: {plan}");
}
