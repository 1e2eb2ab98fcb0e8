//! The database that the other tests rely on, and the parts of `support` that live in it.

use crate::support::{database, ring};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

#[tokio::test]
async fn each_test_has_a_database_of_its_own() {
    let (one, other) = (database::database().await, database::database().await);
    assert_ne!(one.url, other.url);
    let mut one = PgConnection::connect(&one.url).await.expect("a connection");
    let mut other = PgConnection::connect(&other.url).await.expect("a connection");
    one.execute("CREATE TABLE mine (id int)").await.expect("a table");
    let seen: Option<String> = sqlx::query_scalar("SELECT to_regclass('mine')::text")
        .fetch_one(&mut other)
        .await
        .expect("an answer");
    assert_eq!(seen, None);
}

#[tokio::test]
async fn a_database_is_gone_with_its_test() {
    let database = database::database().await;
    let url = database.url.clone();
    // Dropping cuts what is still connected.
    let _connection = PgConnection::connect(&url).await.expect("a connection");
    drop(database);
    PgConnection::connect(&url).await.expect_err("it no longer exists");
}

#[tokio::test]
async fn the_server_is_set_up_for_hundreds_of_partitions_and_a_quiet_log() {
    let mut admin = database::admin().await;
    for (name, least) in
        [("max_connections", 300), ("max_locks_per_transaction", 512), ("server_version_num", 150_000)]
    {
        let value: String = sqlx::query_scalar("SELECT current_setting($1)")
            .bind(name)
            .fetch_one(&mut admin)
            .await
            .expect("a setting");
        assert!(value.parse::<i64>().expect("a number") >= least, "{name} = {value}");
    }
}

#[tokio::test]
async fn two_leases_are_never_of_the_same_ring() {
    let (one, other) = (ring::lease().await, ring::lease().await);
    assert_ne!(one.number, other.number);
    assert_ne!(one.prefix, other.prefix);
}
