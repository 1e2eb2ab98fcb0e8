//! Payments with a window: spread over it from the first notice on, and late only after their instant.

use super::world::{World, fresh, terms};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::window::{Window, first_attempt_at};
use punctual::schedule::{ClaimAnswer, CreateAnswer, Early, NewPayment, Schedule};
use std::time::Duration;

fn within(new: NewPayment, seconds: i64) -> NewPayment {
    NewPayment { execute_within: Window::of_seconds(seconds), ..new }
}

#[tokio::test]
async fn a_payment_with_a_window_is_noticed_claimed_and_called_late_from_its_own_instant() {
    let world = World::new().await;
    // Due long ago, and planned for an instant that is to come: the day after tomorrow's would do too.
    let due_at = world.now().await - TimeDelta::minutes(10);
    let key = (0..).map(|n| format!("key-{n}")).find(|key| {
        let new = within(world.payment(key, due_at), 3_600);
        new.first_attempt_at() > due_at + TimeDelta::minutes(30)
    });
    let new = within(world.payment(&key.unwrap(), due_at), 3_600);
    let planned = new.first_attempt_at();
    let notice = world.create(&new).await;
    assert_eq!((notice.due_at, notice.not_before), (due_at, planned));
    let staged: DateTime<Utc> =
        world.one(&format!("SELECT not_before FROM due_notices WHERE payment_id = '{}'", new.id)).await;
    assert_eq!(staged, planned, "its bucket is its own instant's");
    let row = world.row(new.id).await;
    assert_eq!((row.next_attempt_at, row.first_attempt_at(), row.due_at), (planned, planned, due_at));
    assert_eq!(row.execute_within.map(Window::seconds), Some(3_600));

    let early = world.worker.claim(&terms(), std::slice::from_ref(&notice), &fresh(1)).await.unwrap();
    assert!(matches!(early[0], ClaimAnswer::Early { why: Early::NotDue, .. }), "{early:?}");
    let late = world.worker.claim_late(&terms(), Duration::ZERO, &[], &fresh(10)).await.unwrap();
    assert!(late.is_empty(), "due and not yet its turn");

    // A repetition is answered with the same instant, and a window that does not fit is refused below too.
    let again = world.api.create(&new).await.unwrap();
    assert!(matches!(again, CreateAnswer::Replayed(view) if view.payment.next_attempt_at == planned));
    let moved =
        format!("UPDATE payments SET execute_before = due_at + interval '3599 s' WHERE id = '{}'", new.id);
    let refused = sqlx::query(sqlx::AssertSqlSafe(moved)).execute(&mut world.sql().await).await.unwrap_err();
    assert!(refused.to_string().contains("window_ends_by_the_deadline"), "{refused}");
}

#[tokio::test]
async fn a_crowd_due_at_one_instant_is_spread_over_its_window() {
    let world = World::new().await;
    let due_at = world.now().await + TimeDelta::minutes(30);
    for number in 0..120 {
        world.create(&within(world.payment(&format!("k{number}"), due_at), 600)).await;
    }
    let minutes: i64 =
        world.one("SELECT count(DISTINCT date_trunc('minute', not_before - due_at)) FROM due_notices").await;
    assert_eq!(minutes, 10, "twelve a minute by expectation");
    let outside: i64 = world
        .one(
            "SELECT count(*) FROM payments WHERE next_attempt_at < due_at
             OR next_attempt_at >= due_at + execute_within_s * interval '1 s'",
        )
        .await;
    assert_eq!(outside, 0);
    let rows: Vec<(uuid::Uuid, DateTime<Utc>)> = sqlx::query_as("SELECT id, next_attempt_at FROM payments")
        .fetch_all(&mut world.sql().await)
        .await
        .unwrap();
    for (id, at) in rows {
        let id = punctual::domain::ids::PaymentId::from_uuid(id).unwrap();
        assert_eq!(at, first_attempt_at(id, due_at, Window::of_seconds(600)));
    }
}
