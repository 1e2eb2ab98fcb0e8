//! The two schedules under one clock: Postgres behind a proxy that can lose an answer, and memory.

use crate::schedule::world::settings;
use crate::support::database::{TestDatabase, database};
use crate::support::eventually;
use crate::support::proxy::{Fault, Proxy};
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use punctual::domain::lease::Mono;
use punctual::platform::clock::Clock;
use punctual::platform::config;
use punctual::schedule::{Access, Postgres, connect};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The whole message, since a comment in a statement may speak of a COMMIT too.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

const SOON: Duration = Duration::from_secs(20);

/// A clock that stands until it is moved.
#[derive(Debug)]
pub struct Logical(Mutex<DateTime<Utc>>);

impl Logical {
    pub fn at(instant: DateTime<Utc>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(instant)))
    }

    pub fn set(&self, instant: DateTime<Utc>) {
        *self.0.lock().unwrap() = instant;
    }
}

impl Clock for Logical {
    fn wall(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap()
    }

    fn mono(&self) -> Mono {
        Mono(Duration::ZERO)
    }

    fn sleep(&self, _length: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// How a verb is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// COMMIT is performed and its answer is lost.
    AnswerCut,
    /// The backend dies before COMMIT reaches it.
    BeforeCommit,
    /// The backend dies while its statement waits for a lock.
    WhileWaiting,
}

/// Postgres with a clock of its own.
pub struct Stores {
    pub api: Postgres,
    pub worker: Postgres,
    pub proxy: Proxy,
    /// Behind the rules' back.
    pub sql: PgConnection,
    /// Holds the locks that a verb must wait for.
    locker: PgConnection,
    _database: TestDatabase,
}

impl Stores {
    pub async fn new() -> Self {
        let database = database().await;
        let mut sql = PgConnection::connect(&database.url).await.expect("a connection");
        sqlx::raw_sql(include_str!("clock.sql")).execute(&mut sql).await.expect("a clock");
        let locker = PgConnection::connect(&database.url).await.expect("a connection");
        let mut url = reqwest::Url::parse(&database.url).expect("a URL");
        let host = url.host_str().expect("a host").trim_matches(['[', ']']).to_owned();
        let port = url.port().unwrap_or(5432);
        let mut upstream = tokio::net::lookup_host((host, port)).await.expect("an address");
        let proxy = Proxy::start(upstream.next().expect("an address")).await;
        url.set_host(Some("127.0.0.1")).expect("a host can be set");
        url.set_port(Some(proxy.address.port())).expect("a port can be set");
        let settings = config::Database { pool: 2, ..settings(url.as_str()) };
        let api = connect(&settings, Access::Api).await.expect("the API connects");
        let worker = connect(&settings, Access::Worker).await.expect("a worker connects");
        Self { api, worker, proxy, sql, locker, _database: database }
    }

    /// Empties the database; the clock stands at `start`.
    pub async fn reset(&mut self, start: DateTime<Utc>) {
        sqlx::raw_sql(include_str!("reset.sql")).execute(&mut self.sql).await.expect("an empty database");
        self.set_clock(start).await;
        // The statements themselves must live by it, or the suite compares nothing.
        assert_eq!(self.worker.database_now().await.expect("a clock"), start);
    }

    pub async fn set_clock(&mut self, instant: DateTime<Utc>) {
        let moved = sqlx::query("UPDATE test_clock SET at = $1").bind(instant).execute(&mut self.sql).await;
        assert_eq!(moved.expect("a clock").rows_affected(), 1);
    }

    /// Changes with everything that claim, settle, create and mark write.
    pub async fn fingerprint(&mut self) -> String {
        let query =
            "SELECT concat((SELECT sum(history_seq) FROM payments), '/', (SELECT count(*) FROM due_notices))";
        sqlx::query_scalar(query).fetch_one(&mut self.sql).await.expect("a fingerprint")
    }

    pub async fn count(&mut self, query: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(&mut self.sql).await.expect("a count")
    }

    /// Performs `verb` and kills it on its way. `lock` is what it will have to wait for.
    pub async fn killed<T: Send + 'static>(
        &mut self,
        kill: Kill,
        lock: &str,
        verb: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match kill {
            Kill::AnswerCut => {
                self.proxy.set(Fault::CutAfter(COMMIT.to_vec())).await;
                let answer = tokio::spawn(verb).await.expect("no panic");
                self.proxy.set(Fault::Pass).await;
                answer
            }
            Kill::BeforeCommit => {
                let before = self.proxy.holds();
                self.proxy.set(Fault::HoldFrom(COMMIT.to_vec())).await;
                let task = tokio::spawn(verb);
                let proxy = &self.proxy;
                eventually("COMMIT is on its way", SOON, || async { (proxy.holds() > before).then_some(()) })
                    .await;
                self.terminate("state = 'idle in transaction'").await;
                self.proxy.set(Fault::Pass).await;
                task.await.expect("no panic")
            }
            Kill::WhileWaiting => {
                sqlx::raw_sql("BEGIN").execute(&mut self.locker).await.expect("a transaction");
                let lock = sqlx::raw_sql(AssertSqlSafe(lock.to_owned()));
                lock.execute(&mut self.locker).await.expect("a lock");
                let task = tokio::spawn(verb);
                self.terminate("wait_event_type = 'Lock'").await;
                sqlx::raw_sql("ROLLBACK").execute(&mut self.locker).await.expect("the lock's end");
                task.await.expect("no panic")
            }
        }
    }

    /// Ends the one backend of ours that is like this, and waits until its locks are gone.
    async fn terminate(&mut self, which: &str) {
        let sql = tokio::sync::Mutex::new(&mut self.sql);
        let find = format!(
            // First found and then ended: in one condition the planner may end whom it has not looked at.
            "WITH found AS MATERIALIZED (
                 SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                     AND application_name LIKE 'punctual %' AND {which} LIMIT 1)
             SELECT pid FROM found WHERE pg_terminate_backend(pid)"
        );
        let pid: i32 = eventually(which, SOON, || async {
            let mut sql = sql.lock().await;
            let found = sqlx::query_scalar(AssertSqlSafe(find.clone())).fetch_optional(&mut **sql).await;
            found.expect("a look at the backends")
        })
        .await;
        eventually("the backend is gone", SOON, || async {
            let mut sql = sql.lock().await;
            let alive = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_stat_activity WHERE pid = $1")
                .bind(pid)
                .fetch_one(&mut **sql)
                .await;
            (alive.expect("a look at the backends") == 0).then_some(())
        })
        .await;
    }
}
