//! History of another server, whose transaction ids mean nothing here; and what must not be taken for it.

use super::{SOON, STAND_IN, World, id, write};
use crate::support::eventually;
use sqlx::{AssertSqlSafe, Executor};

#[tokio::test]
async fn a_cursor_of_another_server_starts_over_from_the_oldest_row() {
    let world = World::new().await;
    world.run(STAND_IN).await;
    let mut sql = world.sql().await;
    write(&mut sql, id(1)).await;
    write(&mut sql, id(2)).await;
    let lease = world.lead("p1").await;
    world.publish(&lease, 10, 2).await;
    // As after a dump and a restore elsewhere: the rows stand, the transaction ids are another server's.
    world
        .run("UPDATE publisher_cursor SET system_identifier = 'elsewhere', xid = '4611686018427387904'")
        .await;
    assert!(world.history.unpublished(&lease, 10).await.expect("an answer").is_none(), "noticed at once");
    world.run("UPDATE publisher_cursor SET until = now() - interval '1 s'").await;
    let lease = world.lead("p1").await;
    assert!(lease.started_over);
    world.publish(&lease, 10, 2).await;
    let (payments, repeated) = world.events.by_payment();
    assert_eq!((payments.len(), repeated), (2, 2));

    // A row from a server that was further ahead cannot be ordered yet, and that is said.
    write(&mut sql, id(3)).await;
    world.run("ALTER TABLE payment_history DISABLE TRIGGER USER").await;
    let far = "INSERT INTO payment_history SELECT payment_id, 2, 'PENDING', 'PENDING', 'noted', done_by, fence, attempt,
        epoch, at, detail, hash, '4611686018427387904' FROM payment_history WHERE seq = 1 LIMIT 1";
    world.run(far).await;
    let found = world.until_found(&lease, 1).await;
    assert!(found.is_ahead, "{found:?}");
}

#[tokio::test]
async fn what_is_committed_while_a_pass_reads_does_not_seem_to_come_from_another_server() {
    let world = World::new().await;
    world.run(STAND_IN).await;
    let lease = world.lead("p1").await;
    let (mut slow, mut quick) = (world.sql().await, world.sql().await);
    slow.execute("BEGIN; LOCK ONLY payment_history").await.expect("locked");
    let commits = async {
        eventually("the pass knows its snapshot and waits for the rows", SOON, || async {
            let waits = "SELECT true FROM pg_stat_activity WHERE datname = current_database()
                         AND wait_event_type = 'Lock' AND query LIKE '%FROM payment_history%' LIMIT 1";
            sqlx::query_scalar::<_, bool>(waits)
                .fetch_optional(&mut world.sql().await)
                .await
                .expect("an answer")
        })
        .await;
        // A younger transaction moves the payment, then the older one does: its row carries the younger's id.
        let moved = format!("INSERT INTO stand_in VALUES ('{}', 0, pg_current_xact_id())", id(1));
        quick.execute(AssertSqlSafe(moved)).await.expect("moved");
        write(&mut slow, id(1)).await;
        slow.execute("COMMIT").await.expect("committed");
    };
    let (found, ()) = tokio::join!(world.found(&lease), commits);
    assert!(found.rows.is_empty() && !found.is_ahead, "{found:?}");
    let found = world.until_found(&lease, 1).await;
    assert!(!found.is_ahead, "{found:?}");
}
