//! The same money in four books.

use super::desk::{charge, charged_at_noon, days_ago, put, reconcile, with_past};
use crate::schedule::world::{World, gateway};
use chrono::TimeDelta;
use punctual::domain::guard_cases::payment;
use punctual::domain::state::Status;
use punctual::schedule::BookSum;

#[tokio::test]
async fn the_books_of_a_due_day_add_up_and_say_where_they_do_not() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let day = days_ago(&world, 4).await;
    let noon = day.and_hms_opt(12, 0, 0).expect("noon").and_utc();
    let mut lines = Vec::new();
    for n in 1..=3 {
        let row = payment(noon + TimeDelta::hours(1), n, Status::Completed);
        put(&mut sql, &row).await;
        charged_at_noon(&mut sql, &row, day).await;
        if n < 3 {
            let attempt = format!(
                "INSERT INTO attempts (due_day, payment_id, attempt, epoch, claim_id, fence, worker, was, claimed_at, verdict)
                 VALUES ('{day}', '{}', 1, 0, gen_random_uuid(), 1, 'w', 'PENDING', now(), 'charged')",
                row.id
            );
            world.run(&attempt).await;
            lines.push(charge(n, row.id, &format!("ch_{n}"), day));
        }
    }
    reconcile(&world, day, &lines).await;
    let sums = world.api.day_sums(&gateway(), day).await.expect("added up");
    let [sum] = sums.as_slice() else { panic!("{sums:?}") };
    let of = |count| BookSum { count, minor: count * 12_345 };
    assert_eq!((sum.payments, sum.ledger, sum.attempts, sum.by_word), (of(3), of(3), of(2), of(1)));
    assert_eq!((sum.settlement, sum.late), (of(2), of(1)), "one is not reported yet");
    assert!(sum.is_even());
    world
        .run(&format!("UPDATE settlement_lines SET gross_minor = gross_minor + 1 WHERE report_day = '{day}'"))
        .await;
    assert!(!world.api.day_sums(&gateway(), day).await.expect("added up")[0].is_even(), "two cents too many");
}

#[tokio::test]
async fn how_a_gateway_stands_is_told_by_class_and_each_difference_once() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let row = payment(world.now().await, 1, Status::Failed);
    put(&mut sql, &row).await;
    let day = row.id.due_day();
    reconcile(&world, day, &[charge(1, row.id, "ch_1", day)]).await;
    let standing = world.api.reconciliation_standing().await.expect("told").remove(0);
    assert_eq!((standing.open.values().sum::<i64>(), standing.waiting, standing.last_day), (1, 0, Some(day)));
    assert!(standing.last_success_at.is_some());
    assert_eq!(world.worker.tell_open_items(&gateway()).await.expect("told").opened.values().sum::<u64>(), 1);
    assert_eq!(world.worker.tell_open_items(&gateway()).await.expect("told"), Default::default(), "once");
}

#[tokio::test]
async fn what_is_due_before_midnight_and_charged_behind_it_is_late_until_its_time_is_over() {
    let world = World::new().await;
    with_past(&world).await;
    let mut sql = world.sql().await;
    let (day, next, after) =
        (days_ago(&world, 5).await, days_ago(&world, 4).await, days_ago(&world, 3).await);
    let due = day.and_hms_opt(23, 59, 58).expect("a time").and_utc();
    let row = payment(due + TimeDelta::hours(1), 1, Status::Completed);
    put(&mut sql, &row).await;
    charged_at_noon(&mut sql, &row, next).await;
    let late = async || {
        let sums = world.api.day_sums(&gateway(), day).await.expect("added up");
        (sums[0].late.count, sums[0].is_even())
    };
    reconcile(&world, day, &[]).await;
    assert_eq!(late().await, (1, true), "the report of the next day has it");
    reconcile(&world, next, &[]).await;
    assert_eq!(late().await, (1, true), "or the one behind that");
    reconcile(&world, after, &[]).await;
    assert_eq!(late().await, (0, false), "none has it");
}
