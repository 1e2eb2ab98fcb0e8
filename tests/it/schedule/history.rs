//! History: append-only, legal moves only, and the same hash in SQL and in Rust.

use super::world::{World, completed};
use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use punctual::domain::history::{Event, HistoryRow, verify};
use punctual::domain::ids::{Epoch, Fence, PaymentId};
use punctual::domain::state::{Cause, MOVES, Status};
use punctual::schedule::Schedule;
use sqlx::postgres::PgRow;
use sqlx::{Connection, Row};
use uuid::Uuid;

fn read(row: &PgRow) -> (HistoryRow, [u8; 32]) {
    let text = |column: &str| row.get::<String, _>(column);
    let hash: Vec<u8> = row.get("hash");
    let row = HistoryRow {
        payment: PaymentId::from_uuid(row.get("payment_id")).expect("an id"),
        seq: row.get("seq"),
        from: Status::from_text(&text("was")),
        to: Status::from_text(&text("became")).expect("a state"),
        event: Event::from_text(&text("cause")).expect("a cause"),
        by: text("done_by"),
        fence: Fence(row.get("fence")),
        attempt: row.get("attempt"),
        epoch: Epoch(row.get("epoch")),
        at: row.get("at"),
        detail: text("detail"),
    };
    (row, hash.try_into().expect("32 bytes"))
}

#[tokio::test]
async fn a_whole_life_verifies_and_ends_in_the_row_s_own_hash() {
    let world = World::new().await;
    let due = world.due("k1").await;
    let zombie = world.claim_one(&due).await;
    world.reap(due.payment).await;
    let again = world.claim_one(&super::world::notice(&world.row(due.payment).await)).await;
    for outcome in [completed(zombie, "ch_1"), completed(again, "ch_1")] {
        world.worker.settle(vec![outcome]).await.map_err(|failed| failed.error).expect("settled");
    }
    let mut sql = world.sql().await;
    let rows =
        sqlx::query("SELECT * FROM payment_history ORDER BY seq").fetch_all(&mut sql).await.expect("rows");
    let rows: Vec<_> = rows.iter().map(read).collect();
    let causes: Vec<_> = rows.iter().map(|(row, _)| row.event.as_str()).collect();
    assert_eq!(causes, ["created", "claimed", "lease_expired", "claimed", "fenced", "settled"]);
    let last = verify(rows.iter().map(|(row, hash)| (row, *hash))).expect("the chain holds");
    let stored: Vec<u8> = world.one("SELECT history_hash FROM payments").await;
    assert_eq!(last.as_slice(), stored);
    assert_eq!(world.row(due.payment).await.history_seq, 6);
    // Written back, so that the order of (xid, seq) is the payment's own.
    let ordered = world
        .one::<bool>(
            "SELECT array_agg(seq ORDER BY xid, seq) = array_agg(seq ORDER BY seq) FROM payment_history",
        )
        .await;
    assert!(ordered);
}

#[tokio::test]
async fn sql_and_rust_hash_any_row_alike() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let mut runner = TestRunner::deterministic();
    let any_row = (
        any::<[u8; 32]>(),
        0_i64..4_000_000_000_000_000,
        any::<[u8; 10]>(),
        1_i32..,
        "\\PC{0,40}",
        any::<i64>(),
        any::<i32>(),
        any::<i32>(),
        "\\PC{0,80}",
    );
    for _ in 0..200 {
        let (prev, us, intent, seq, by, fence, attempt, epoch, detail) =
            any_row.new_tree(&mut runner).expect("a value").current();
        let at: DateTime<Utc> = DateTime::from_timestamp_micros(us).expect("in range");
        let row = HistoryRow {
            payment: PaymentId::new(at, intent).expect("in range"),
            seq,
            from: Some(Status::Unknown),
            to: Status::Processing,
            event: Event::Moved(Cause::Claimed),
            by: by.clone(),
            fence: Fence(fence),
            attempt,
            epoch: Epoch(epoch),
            at: at - TimeDelta::seconds(i64::from(seq % 7)),
            detail: detail.clone(),
        };
        let hash: Vec<u8> = sqlx::query_scalar(
            "SELECT history_hash($1, $2, $3, 'UNKNOWN', 'PROCESSING', 'claimed', $4, $5, $6, $7, $8, $9)",
        )
        .bind(prev.as_slice())
        .bind(row.payment.as_uuid())
        .bind(seq)
        .bind(by)
        .bind(fence)
        .bind(attempt)
        .bind(epoch)
        .bind(row.at)
        .bind(detail)
        .fetch_one(&mut sql)
        .await
        .expect("a hash");
        assert_eq!(hash, row.hash(&prev), "{row:?}");
    }
}

#[tokio::test]
async fn the_database_s_table_of_moves_is_the_rules_own() {
    let world = World::new().await;
    let mut sql = world.sql().await;
    let states: Vec<&str> = ["-"].into_iter().chain(Status::ALL.map(Status::as_str)).collect();
    let mut legal = 0;
    for from in &states {
        for cause in Cause::ALL {
            for to in Status::ALL {
                let allowed: bool = sqlx::query_scalar("SELECT is_legal_move($1, $2, $3)")
                    .bind(from)
                    .bind(cause.as_str())
                    .bind(to.as_str())
                    .fetch_one(&mut sql)
                    .await
                    .expect("an answer");
                let listed = MOVES.contains(&(Status::from_text(from), cause, to));
                assert_eq!(allowed, listed, "{from} {cause:?} {to:?}");
                legal += usize::from(allowed);
            }
        }
    }
    assert_eq!(legal, MOVES.len());
}

#[tokio::test]
async fn history_is_only_appended_to_even_by_its_owner() {
    let world = World::new().await;
    world.due("k1").await;
    let partition = world.one::<String>("SELECT tableoid::regclass::text FROM payment_history LIMIT 1").await;
    let mut sql = world.sql().await;
    for table in ["payment_history", partition.as_str()] {
        for act in [
            format!("UPDATE {table} SET done_by = 'x'"),
            format!("DELETE FROM {table}"),
            format!("TRUNCATE {table}"),
        ] {
            let refused = sqlx::query(sqlx::AssertSqlSafe(act.clone())).execute(&mut sql).await;
            let refused = refused.expect_err(&act).to_string();
            assert!(refused.contains("append-only"), "{act}: {refused}");
        }
    }
    let id = Uuid::from_u128(1);
    let smuggled = sqlx::query(
        "INSERT INTO payment_history VALUES ($1, 1, 'UNKNOWN', 'PENDING', 'settled', 'x', 1, 1, 0, now(), '{}', '', '1')",
    );
    let refused = smuggled.bind(id).execute(&mut sql).await.expect_err("an illegal move").to_string();
    assert!(refused.contains("legal_moves_only"), "{refused}");
    sql.close().await.expect("goodbye");
}

/// A transaction that took its number early and moved the payment late must not publish before the
/// move that it waited for.
#[tokio::test]
async fn a_later_move_never_carries_an_older_transaction_number() {
    use punctual::schedule::statements::Statement;
    let world = World::new().await;
    let mut sql = world.sql().await;
    let mut early = sqlx::Acquire::begin(&mut sql).await.expect("a transaction");
    sqlx::query("SELECT pg_current_xact_id()").execute(&mut *early).await.expect("a number");
    let new = world.payment("k1", world.now().await + TimeDelta::minutes(1));
    world.create(&new).await;
    let cancel = Statement::named("cancel").expect("listed").text;
    let cancelled = sqlx::query(sqlx::AssertSqlSafe(cancel))
        .bind(new.id.due_day())
        .bind(new.id.as_uuid())
        .bind(super::world::ACTOR.0)
        .bind("actor:a1")
        .bind("cancelled_by_client")
        .bind("{}")
        .fetch_optional(&mut *early)
        .await;
    assert!(cancelled.expect("an answer").is_some());
    early.commit().await.expect("committed");
    let ordered = "SELECT (SELECT xid FROM payment_history WHERE seq = 2) >= (SELECT xid FROM payment_history WHERE seq = 1)";
    assert!(world.one::<bool>(ordered).await);
}
