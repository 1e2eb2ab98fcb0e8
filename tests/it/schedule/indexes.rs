//! Indexes that a live installation gets, beside its writes.

use super::world::{World, settings};
use crate::support::eventually;
use punctual::schedule::{MigrationPlan, migrate, migration_plan};
use sqlx::Executor;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

/// As a migration leaves it where partitions were there before: the parent's index alone.
async fn without(world: &World) {
    world.run("DROP INDEX payments_unknown").await;
    let made =
        "CREATE INDEX payments_unknown ON ONLY payments (epoch_first_sent_at) WHERE status = 'UNKNOWN'";
    world.run(made).await;
}

async fn is_valid(world: &World) -> bool {
    world.one("SELECT indisvalid FROM pg_index WHERE indexrelid = 'payments_unknown'::regclass").await
}

#[tokio::test]
async fn an_index_is_built_beside_the_writes_of_a_live_installation() {
    let world = World::new().await;
    without(&world).await;
    assert!(!is_valid(&world).await, "no partition has it");
    let plan = async || migration_plan(&settings(&world.database.url)).await.expect("a plan");
    let partitions: i64 =
        world.one("SELECT count(*) FROM pg_inherits WHERE inhparent = 'payments'::regclass").await;
    assert!(partitions > 1);
    let unbuilt =
        MigrationPlan { migrations: Vec::new(), indexes: vec![("payments_unknown".into(), partitions)] };
    assert_eq!(plan().await, unbuilt);
    let notice = world.due("k1").await;
    let touch = format!("UPDATE payments SET last_moved_at = last_moved_at WHERE id = '{}'", notice.payment);
    let mut slow = world.sql().await;
    slow.execute("BEGIN").await.expect("begun");
    slow.execute(sqlx::AssertSqlSafe(touch.clone())).await.expect("a writer that takes its time");
    let config = settings(&world.database.url);
    let building = tokio::spawn(async move { migrate(&config).await });
    eventually("the builder waits for the writer", SOON, || async {
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                     AND query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock')";
        world.one::<bool>(waits).await.then_some(())
    })
    .await;
    // Nobody stands behind it: another writer of the same day is served at once.
    world.due("k2").await;
    slow.execute("COMMIT").await.expect("committed");
    building.await.expect("no panic").expect("built");
    assert_eq!(plan().await, MigrationPlan { migrations: Vec::new(), indexes: Vec::new() });
    assert!(is_valid(&world).await);
    let apart = "SELECT count(*) FROM pg_inherits p WHERE p.inhparent = 'payments'::regclass
        AND NOT EXISTS (SELECT FROM pg_inherits x JOIN pg_index i ON i.indexrelid = x.inhrelid
                        WHERE x.inhparent = 'payments_unknown'::regclass AND i.indrelid = p.inhrelid AND i.indisvalid)";
    assert_eq!(world.one::<i64>(apart).await, 0, "each partition has it");
}

#[tokio::test]
async fn a_build_that_was_interrupted_is_taken_up_where_it_stopped() {
    let world = World::new().await;
    without(&world).await;
    let child: String = world
        .one("SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'payments'::regclass")
        .await;
    let broken =
        format!("CREATE INDEX {child}_unknown ON {child} (epoch_first_sent_at) WHERE status = 'UNKNOWN'");
    world.run(&broken).await;
    let invalid =
        format!("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{child}_unknown'::regclass");
    assert_eq!(world.run(&invalid).await, 1);
    let before: i64 = world.one(&format!("SELECT '{child}_unknown'::regclass::oid::bigint")).await;
    migrate(&settings(&world.database.url)).await.expect("built");
    assert!(is_valid(&world).await);
    let after: i64 = world.one(&format!("SELECT '{child}_unknown'::regclass::oid::bigint")).await;
    assert_ne!(after, before, "what was half done is dropped");
    // Once more does nothing.
    migrate(&settings(&world.database.url)).await.expect("nothing to do");
    assert_eq!(world.one::<i64>(&format!("SELECT '{child}_unknown'::regclass::oid::bigint")).await, after);
}
