//! What it costs to remember that a notice was published: a flag that is updated, a row that is deleted
//! (the product's way), or a cursor that moves and partitions that are dropped. Without Kafka; the three
//! take turns in one run, on tables of the same shape, with the product's own statements.
//!
//! `-- outbox [--hold 30]` runs it. Half of the run is undisturbed; in the other half a transaction
//! elsewhere in the database stays open, as a report or a dump does: nothing that dies meanwhile can be
//! vacuumed, and every look for the next notices passes over it again.

use super::world::World;
use chrono::{DateTime, TimeDelta, Utc};
use punctual::schedule::statements::Statement;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use std::time::{Duration, Instant};

/// Notices of one turn: a second at the rate that the product is measured with.
const TURN: i64 = 1_200;
/// Relays' residues; each has 4 of 48 shards.
const PARTITIONS: i32 = 12;
/// Rows of one partition of the cursor's outbox.
const PARTITION_ROWS: i64 = 12_000;
/// Turns between two vacuums of a table, or two looks for partitions that are drained.
const TIDY_EVERY: i64 = 5;

/// One way of marking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Update,
    Delete,
    Cursor,
}

const WAYS: [Way; 3] = [Way::Update, Way::Delete, Way::Cursor];

impl Way {
    fn table(self) -> &'static str {
        match self {
            Self::Update => "outbox_update",
            Self::Delete => "outbox_delete",
            Self::Cursor => "outbox_cursor",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Update => "UPDATE of a flag",
            Self::Delete => "DELETE",
            Self::Cursor => "cursor, partitions dropped",
        }
    }

    /// The product's statement, on this table.
    fn stage(self) -> String {
        let text = product("stage").replace("due_notices", self.table());
        match self {
            Self::Update => swapped(&text, "WHERE d.shard", "WHERE NOT d.published AND d.shard"),
            Self::Delete | Self::Cursor => text,
        }
    }

    /// The product's statement, on this table.
    fn mark(self) -> String {
        let text = product("mark").replace("due_notices", self.table());
        let delete = format!("DELETE FROM {} d\n    USING", self.table());
        match self {
            Self::Update => {
                let update = format!("UPDATE {} d SET published = true FROM", self.table());
                swapped(&swapped(&text, &delete, &update), "WHERE d.shard", "WHERE NOT d.published AND d.shard")
            }
            Self::Delete => text,
            Self::Cursor => "WITH ours AS MATERIALIZED (
                    SELECT 1 FROM relay_shards r
                    WHERE r.partitions = $1 AND r.residue = $2 AND r.holder = $3 AND r.epoch = $4 FOR SHARE
                ), moved AS (
                    UPDATE outbox_cursors SET not_before = $5 WHERE residue = $2 AND EXISTS (SELECT 1 FROM ours)
                ) SELECT EXISTS (SELECT 1 FROM ours) AS held"
                .to_owned(),
        }
    }
}

fn product(name: &str) -> &'static str {
    Statement::named(name).expect("a statement of the product").text
}

fn swapped(text: &str, this: &str, that: &str) -> String {
    assert!(text.contains(this), "the product's statement has changed: {text}");
    text.replace(this, that)
}

/// What one way came to in one half of the run.
#[derive(Debug, Default)]
struct Cost {
    rows: i64,
    insert_wal: i64,
    mark: Duration,
    mark_wal: i64,
    tidy: Duration,
    tidy_wal: i64,
    stages: Vec<Duration>,
}

struct Bench {
    sql: PgConnection,
    /// Counts instants: a notice a millisecond.
    written: [i64; 3],
    dropped: i64,
    base: DateTime<Utc>,
    cursors: Vec<DateTime<Utc>>,
}

/// Prints the figures.
pub async fn three_ways_of_marking(hold: Duration) {
    let world = World::new().await;
    let sql = PgConnection::connect(&world.database.url).await.expect("a session");
    let mut bench = Bench::new(sql).await;
    let undisturbed = bench.run(hold).await;
    report("undisturbed", &undisturbed, &mut bench).await;
    let mut elsewhere = PgConnection::connect(&world.database.url).await.expect("a session");
    elsewhere.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("begun");
    elsewhere.execute("SELECT count(*) FROM installation").await.expect("a snapshot");
    let disturbed = bench.run(hold).await;
    report(&format!("a transaction open elsewhere for {} s", hold.as_secs()), &disturbed, &mut bench).await;
}

impl Bench {
    async fn new(mut sql: PgConnection) -> Self {
        let columns = "notice_id bigint GENERATED ALWAYS AS IDENTITY, written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            shard smallint NOT NULL, payment_id uuid NOT NULL, payment_day date NOT NULL, gateway text NOT NULL,
            lane smallint NOT NULL, due_at timestamptz NOT NULL, not_before timestamptz NOT NULL,
            attempt integer NOT NULL, traceparent text";
        let tables = format!(
            "CREATE TABLE outbox_update ({columns}, published boolean NOT NULL DEFAULT false);
             CREATE INDEX ON outbox_update (shard, not_before, notice_id) WHERE NOT published;
             CREATE TABLE outbox_delete ({columns});
             CREATE INDEX ON outbox_delete (shard, not_before, notice_id);
             CREATE TABLE outbox_cursor ({columns}) PARTITION BY RANGE (not_before);
             CREATE INDEX ON outbox_cursor (shard, not_before, notice_id);
             CREATE TABLE outbox_cursors (residue integer PRIMARY KEY, not_before timestamptz NOT NULL)
                WITH (fillfactor = 50);
             ALTER TABLE outbox_update SET (autovacuum_enabled = off);
             ALTER TABLE outbox_delete SET (autovacuum_enabled = off);
             INSERT INTO relay_shards (partitions, residue, holder, epoch, until)
                SELECT {PARTITIONS}, n, 'bench', 1, 'infinity' FROM generate_series(0, {PARTITIONS} - 1) n"
        );
        sqlx::raw_sql(AssertSqlSafe(tables)).execute(&mut sql).await.expect("tables");
        sql.execute("SET plan_cache_mode = force_custom_plan").await.expect("as the product's sessions");
        let base: DateTime<Utc> = "2026-11-01T00:00:00Z".parse().expect("an instant");
        let cursors = vec![base; usize::try_from(PARTITIONS).expect("few")];
        let fill = "INSERT INTO outbox_cursors SELECT n, $1 FROM generate_series(0, $2 - 1) n";
        sqlx::query(fill).bind(base).bind(PARTITIONS).execute(&mut sql).await.expect("cursors");
        Self { sql, written: [0; 3], dropped: 0, base, cursors }
    }

    /// All ways in turn, each first once in three turns, until the time is over.
    async fn run(&mut self, length: Duration) -> [Cost; 3] {
        let mut costs = [Cost::default(), Cost::default(), Cost::default()];
        let start = Instant::now();
        for turn in 1.. {
            for place in 0..3 {
                let which = (place + usize::try_from(turn).expect("few")) % 3;
                self.turn(WAYS[which], which, &mut costs[which]).await;
                if turn % TIDY_EVERY == 0 {
                    self.tidy(WAYS[which], which, &mut costs[which]).await;
                }
            }
            if start.elapsed() >= length {
                break;
            }
        }
        costs
    }

    fn at(&self, number: i64) -> DateTime<Utc> {
        self.base + TimeDelta::milliseconds(number)
    }

    /// Writes a second's notices, then stages and marks them residue by residue.
    async fn turn(&mut self, way: Way, which: usize, cost: &mut Cost) {
        let first = self.written[which];
        if way == Way::Cursor {
            self.make_partitions(first + TURN).await;
        }
        let insert = format!(
            "INSERT INTO {} (shard, payment_id, payment_day, gateway, lane, due_at, not_before, attempt)
             SELECT n % 48, gen_random_uuid(), $1::date, 'sandbox', 7, $1 + n * interval '1 ms',
                    $1 + n * interval '1 ms', 0 FROM generate_series($2, $3 - 1) n",
            way.table()
        );
        let before = self.wal().await;
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(self.base).bind(first).bind(first + TURN);
        insert.execute(&mut self.sql).await.expect("written");
        cost.insert_wal += self.wal().await - before;
        self.written[which] += TURN;
        let mut marked = 0;
        for residue in 0..PARTITIONS {
            marked += self.pass(way, residue, self.at(first + TURN), cost).await;
        }
        assert_eq!(marked, TURN, "every notice once");
        cost.rows += TURN;
    }

    /// One pass of one relay; how many notices it found.
    async fn pass(&mut self, way: Way, residue: i32, until: DateTime<Utc>, cost: &mut Cost) -> i64 {
        let shards: Vec<i16> = (0..48).filter(|shard| i32::from(*shard) % PARTITIONS == residue).collect();
        let at = usize::try_from(residue).expect("small");
        let oldest = if way == Way::Cursor { self.cursors[at] } else { self.base };
        let start = Instant::now();
        let stage = sqlx::query(AssertSqlSafe(way.stage())).bind(&shards).bind(oldest).bind(until);
        let found = stage.bind(1_000_i64).fetch_all(&mut self.sql).await.expect("staged");
        cost.stages.push(start.elapsed());
        let ids: Vec<i64> = found.iter().map(|row| row.get("notice_id")).collect();
        let of: Vec<i16> = found.iter().map(|row| row.get("shard")).collect();
        let instants: Vec<DateTime<Utc>> = found.iter().map(|row| row.get("not_before")).collect();
        let (Some(first), Some(last)) = (instants.first().copied(), instants.last().copied()) else {
            return 0;
        };
        let before = self.wal().await;
        let start = Instant::now();
        let mark = sqlx::query(AssertSqlSafe(way.mark()));
        let next = last + TimeDelta::microseconds(1);
        let mark = match way {
            Way::Cursor => mark.bind(PARTITIONS).bind(residue).bind("bench").bind(1_i64).bind(next),
            Way::Update | Way::Delete => {
                let mark = mark.bind(first).bind(last).bind(&ids).bind(&of).bind(&instants);
                mark.bind(PARTITIONS).bind(residue).bind("bench").bind(1_i64)
            }
        };
        let held: bool = mark.fetch_one(&mut self.sql).await.expect("marked").get("held");
        cost.mark += start.elapsed();
        cost.mark_wal += self.wal().await - before;
        assert!(held);
        self.cursors[at] = if way == Way::Cursor { next } else { self.cursors[at] };
        i64::try_from(found.len()).expect("few")
    }

    /// What keeps the table small.
    async fn tidy(&mut self, way: Way, which: usize, cost: &mut Cost) {
        let before = self.wal().await;
        let start = Instant::now();
        match way {
            Way::Update | Way::Delete => {
                let vacuum = format!("VACUUM {}", way.table());
                self.sql.execute(AssertSqlSafe(vacuum)).await.expect("vacuumed");
            }
            Way::Cursor => {
                while self.dropped + PARTITION_ROWS <= self.written[which] {
                    let drop = format!("DROP TABLE outbox_cursor_{}", self.dropped / PARTITION_ROWS);
                    self.sql.execute(AssertSqlSafe(drop)).await.expect("dropped");
                    self.dropped += PARTITION_ROWS;
                }
            }
        }
        cost.tidy += start.elapsed();
        cost.tidy_wal += self.wal().await - before;
    }

    async fn make_partitions(&mut self, up_to: i64) {
        for number in self.dropped / PARTITION_ROWS..=up_to / PARTITION_ROWS {
            let (from, to) = (self.at(number * PARTITION_ROWS), self.at((number + 1) * PARTITION_ROWS));
            let make = format!(
                "CREATE TABLE IF NOT EXISTS outbox_cursor_{number} PARTITION OF outbox_cursor
                 FOR VALUES FROM ('{from}') TO ('{to}')"
            );
            self.sql.execute(AssertSqlSafe(make)).await.expect("a partition");
        }
    }

    /// Bytes of write-ahead log so far.
    async fn wal(&mut self) -> i64 {
        let at = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
        sqlx::query_scalar(at).fetch_one(&mut self.sql).await.expect("a place in the log")
    }

    /// Dead rows and kilobytes of table and indexes.
    async fn left(&mut self, way: Way) -> (i64, i64) {
        self.sql.execute("SELECT pg_stat_force_next_flush()").await.expect("asked");
        let left = "SELECT coalesce(sum(s.n_dead_tup), 0)::bigint, coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint / 1024
             FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid
             WHERE c.relkind = 'r' AND (c.relname = $1 OR c.relname ~ ('^' || $1 || 's?_?[0-9]*$'))";
        sqlx::query_as(left).bind(way.table()).fetch_one(&mut self.sql).await.expect("sizes")
    }
}

async fn report(when: &str, costs: &[Cost; 3], bench: &mut Bench) {
    println!("\n{when}");
    println!(
        "{:<28} {:>8} {:>12} {:>12} {:>13} {:>13} {:>12} {:>11} {:>10} {:>9}",
        "way",
        "rows",
        "mark µs/row",
        "mark WAL B",
        "insert WAL B",
        "tidy µs/row",
        "tidy WAL B",
        "stage ms",
        "dead",
        "kB"
    );
    for (way, cost) in WAYS.into_iter().zip(costs) {
        let (dead, kilobytes) = bench.left(way).await;
        let each = |sum: i64| figure(sum) / figure(cost.rows);
        let micros = |sum: Duration| sum.as_secs_f64() * 1e6 / figure(cost.rows);
        // The last sixth: what the run has led to.
        let mut last = cost.stages[cost.stages.len() * 5 / 6..].to_vec();
        last.sort();
        println!(
            "{:<28} {:>8} {:>12.1} {:>12.0} {:>13.0} {:>13.1} {:>12.0} {:>11.2} {dead:>10} {kilobytes:>9}",
            way.words(),
            cost.rows,
            micros(cost.mark),
            each(cost.mark_wal),
            each(cost.insert_wal),
            micros(cost.tidy),
            each(cost.tidy_wal),
            last[last.len() / 2].as_secs_f64() * 1e3
        );
    }
}

fn figure(count: i64) -> f64 {
    f64::from(u32::try_from(count).expect("a benchmark is small"))
}
