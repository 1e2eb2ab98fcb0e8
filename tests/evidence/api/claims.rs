//! What a claim pays for history's index by actor, and for the kill switches that it asks: pages, bytes of the
//! log and time of the very statement, beside the same statement without them.
//!
//! Each look is a transaction that is taken back: it claims 200 payments unmeasured, so that whatever was
//! changed for this look is known to the session, and 200 others under EXPLAIN. The ways take turns.

use crate::figures::{Figures, Holds};
use crate::world::World;
use chrono::TimeDelta;
use punctual::domain::ids::PaymentId;
use punctual::schedule::statements::Statement;
use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};

/// Payments of a claim.
const BATCH: usize = 200;
/// Looks at each way.
const ROUNDS: usize = 25;
/// Rows of history that lie there already, of as many payments and actors.
const ROWS: usize = 200_000;
/// Most pages, bytes of the log and time of a claim, in hundredths of what it takes without the index.
const MOST_OF_THE_INDEX: [u64; 3] = [125, 160, 130];
/// Most pages that asking the switches may read for a batch, and most time in hundredths.
const MOST_OF_ASKING: [u64; 2] = [3, 130];

/// How the statement is looked at.
#[derive(Debug, Clone, Copy)]
enum Way {
    AsItIs,
    WithoutTheIndex,
    WithoutAsking,
    /// Fifty, of actors that own none of the payments.
    WithSwitchesThrown,
}

const WAYS: [Way; 4] = [Way::AsItIs, Way::WithoutTheIndex, Way::WithoutAsking, Way::WithSwitchesThrown];

impl Way {
    /// What is different in the transaction, and the statement that is run in it.
    fn made(self) -> (&'static str, &'static str) {
        match self {
            Self::AsItIs => ("SELECT 1", "hot"),
            Self::WithoutTheIndex => ("DROP INDEX payment_history_of_actor", "hot"),
            Self::WithoutAsking => ("SELECT 1", "unasking"),
            Self::WithSwitchesThrown => (
                "INSERT INTO kill_switches (kind, value, thrown_by, reason, thrown_at)
                 SELECT 'actor', gen_random_uuid()::text, 'key:x', 'x', now() FROM generate_series(1, 50)",
                "hot",
            ),
        }
    }
}

/// Pages, bytes of the log, microseconds; and of the pages those that asking the switches read.
type Cost = [u64; 4];

/// Measures all ways by turns.
pub async fn an_index_and_switches_cost_a_claim_little(figures: &mut Figures) {
    figures.part(&format!(
        "A claim of {BATCH} with history's index by actor and with kill switches, {ROUNDS} looks each"
    ));
    let world = World::new().await;
    let due_at = world.now().await - TimeDelta::seconds(1);
    let mut ids = Vec::new();
    for number in 0..2 * BATCH {
        ids.push(world.create(&world.payment(&format!("c{number}"), due_at)).await.payment);
    }
    let day = ids[0].due_day();
    let arguments = |ids: &[PaymentId]| {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        // A claim's id may be any; the payments' own will do.
        let ids = format!("'{{{}}}'::uuid[]", ids.join(","));
        format!(
            "'{day}'::date, {ids}, array_fill(0, ARRAY[{BATCH}]), {ids}, 'sandbox', 'a', 1::smallint, 'w', \
             interval '30 s', ''::bytea, ''::bytea"
        )
    };
    let (warm, measured) = (arguments(&ids[..BATCH]), arguments(&ids[BATCH..]));
    let mut sql = world.sql().await;
    prepare(&mut sql).await;
    let mut costs: [Vec<Cost>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for (way, costs) in WAYS.into_iter().zip(&mut costs) {
            costs.push(look(&mut sql, way, &warm, &measured).await);
        }
    }
    told(figures, &costs);
}

/// A history that is large, payments of as many actors, and both statements.
async fn prepare(sql: &mut PgConnection) {
    let text = Statement::named("claim").expect("listed").text;
    let asked = "FROM kill_switches k";
    assert_eq!(text.matches(asked).count(), 1, "the claim asks the switches once");
    let unasking = text.replace(asked, "FROM (VALUES ('', '')) AS k (kind, value)");
    let fill = format!(
        "INSERT INTO payment_history (payment_id, seq, was, became, cause, done_by, fence, attempt, epoch, at, detail,
                                      hash, xid, actor_id)
         SELECT gen_random_uuid(), 1, '-', 'PENDING', 'created', 'x', 0, 0, 0, now(), '{{}}', '', '1', gen_random_uuid()
         FROM generate_series(1, {ROWS})"
    );
    for statement in [
        fill.as_str(),
        // Rows whose actors are all one would be written into one place of the index.
        "SET session_replication_role = replica",
        "UPDATE payments SET actor_id = gen_random_uuid()",
        "SET session_replication_role = DEFAULT",
        "VACUUM ANALYZE payments, payment_history, payment_details, attempts",
        "SET plan_cache_mode = force_custom_plan",
        &format!("PREPARE hot AS {text}"),
        &format!("PREPARE unasking AS {unasking}"),
    ] {
        let done = sql.execute(AssertSqlSafe(statement.to_owned())).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// One transaction that is taken back.
async fn look(sql: &mut PgConnection, way: Way, warm: &str, measured: &str) -> Cost {
    let (made, statement) = way.made();
    // What earlier looks threw and took back lies there still, as it would not lie for long in production.
    sql.execute("VACUUM kill_switches").await.expect("swept");
    sql.execute("BEGIN").await.expect("begun");
    sql.execute(made).await.unwrap_or_else(|error| panic!("{way:?}: {error}"));
    let before = sql.fetch_all(AssertSqlSafe(format!("EXECUTE {statement} ({warm})"))).await;
    assert_eq!(before.expect("claimed").len(), BATCH, "{way:?}: all are won");
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) EXECUTE {statement} ({measured})");
    let explained: Value =
        sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut *sql).await.expect("explained");
    sql.execute("ROLLBACK").await.expect("taken back");
    let plan = &explained[0]["Plan"];
    assert_eq!(plan["Actual Rows"].as_f64(), Some(BATCH as f64), "{way:?}: all are won");
    // Statements beside the last one, which nothing reads, are run after it and not counted in it.
    let beside = plan["Plans"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|node| matches!(node["Subplan Name"].as_str(), Some("CTE history" | "CTE attempt")));
    let (mut pages, mut log, mut found) = (0, 0, 0);
    for node in std::iter::once(plan).chain(beside) {
        let count = |name: &str| node[name].as_u64().unwrap_or_default();
        pages += count("Shared Hit Blocks") + count("Shared Read Blocks");
        log += count("WAL Bytes");
        found += 1;
    }
    assert_eq!(found, 3, "the statement, history and attempts: {plan:#}");
    let took = explained[0]["Execution Time"].as_f64().expect("a time");
    [pages, log, microseconds(took), pages_of(plan, "CTE stopped")]
}

/// Pages that the part of this name read, wherever it stands.
fn pages_of(plan: &Value, part: &str) -> u64 {
    let own = plan["Subplan Name"] == part;
    let count = |name: &str| plan[name].as_u64().unwrap_or_default();
    let own = if own { count("Shared Hit Blocks") + count("Shared Read Blocks") } else { 0 };
    let below = plan["Plans"].as_array().into_iter().flatten().map(|node| pages_of(node, part));
    own + below.sum::<u64>()
}

#[allow(clippy::float_arithmetic, reason = "Postgres tells milliseconds with a fraction")]
fn microseconds(milliseconds: f64) -> u64 {
    (milliseconds * 1_000.0) as u64
}

fn middle(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Both in the middle, and the middle of the rounds' own ratios in hundredths.
fn compared(with: &[Cost], without: &[Cost], which: usize) -> (u64, u64, u64) {
    let of = |costs: &[Cost]| costs.iter().map(|cost| cost[which]).collect::<Vec<_>>();
    let (with, without) = (of(with), of(without));
    let ratios = with.iter().zip(&without).map(|(with, without)| with * 100 / (*without).max(1)).collect();
    (middle(with), middle(without), middle(ratios))
}

fn told(figures: &mut Figures, [as_it_is, no_index, unasking, thrown]: &[Vec<Cost>; 4]) {
    let shown = |hundredths: u64| format!("{}.{:02}", hundredths / 100, hundredths % 100);
    let names = ["pages", "bytes of the log", "time, µs"];
    for (which, (name, most)) in names.into_iter().zip(MOST_OF_THE_INDEX).enumerate() {
        let (with, without, ratio) = compared(as_it_is, no_index, which);
        let value = format!("{with} and {without}: {} times", shown(ratio));
        let bound = format!("≤ {} times", shown(most));
        figures.holds(&format!("{name}: with the index, and without"), value, &bound, Holds(ratio <= most));
    }
    for (what, costs) in [("none thrown", as_it_is), ("50 thrown for others", thrown)] {
        let (with, without, _) = compared(costs, unasking, 3);
        let bound = format!("≤ {} pages, 0", MOST_OF_ASKING[0]);
        let holds = with <= MOST_OF_ASKING[0] && without == 0;
        let value = format!("{with} and {without} pages of the claim");
        figures.holds(&format!("asking the switches, {what}, and not"), value, &bound, Holds(holds));
        let (with, without, ratio) = compared(costs, unasking, 2);
        let value = format!("{with} and {without}: {} times", shown(ratio));
        let bound = format!("≤ {} times", shown(MOST_OF_ASKING[1]));
        let holds = ratio <= MOST_OF_ASKING[1];
        figures.holds(
            &format!("time, µs: asking the switches, {what}, and not"),
            value,
            &bound,
            Holds(holds),
        );
    }
}
