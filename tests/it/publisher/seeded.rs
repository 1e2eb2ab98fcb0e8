//! A bug seeded in the publisher itself, which only a database with transactions in flight can show.

use super::{STAND_IN, World, id, write};
use punctual::platform::faults::{Sabotage, seeded};
use sqlx::Executor;

/// Rows of a transaction that began early and commits late lie behind a cursor that did not wait for it:
/// they are never published (K4). With the rule in place they are, and last.
#[tokio::test]
async fn seeded_bug_a_cursor_without_its_snapshot_passes_rows_that_commit_late() {
    for (bug, published) in [(None, 2), (Some(Sabotage::CursorWithoutSnapshot), 1)] {
        let _seeded = seeded(bug);
        let world = World::new().await;
        world.run(STAND_IN).await;
        let lease = world.lead("p1").await;
        let (mut old, mut new) = (world.sql().await, world.sql().await);
        old.execute("BEGIN; SELECT pg_current_xact_id()").await.expect("begun");
        write(&mut new, id(2)).await;
        if bug.is_some() {
            world.publish(&lease, 10, 1).await;
        }
        write(&mut old, id(1)).await;
        old.execute("COMMIT").await.expect("committed");
        let waits = world.until_found(&lease, if bug.is_some() { 0 } else { 2 }).await;
        let rows = waits.rows.len();
        if rows > 0 {
            world.publish(&lease, 10, rows).await;
        }
        let (payments, _) = world.events.by_payment();
        assert_eq!(payments.len(), published, "{bug:?}: {payments:?}");
    }
    println!("seeded bug name={} caught=K4 how=events", Sabotage::CursorWithoutSnapshot.name());
}
