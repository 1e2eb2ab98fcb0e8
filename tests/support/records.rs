//! Everything that the checks look at, read once at the end of a run: the gateway's own ledger, the
//! database, the topics, and what the client did and was told.

use super::database::TestDatabase;
use super::installation::Installation;
use punctual::audit::{Given, LedgerLine, Operation, Records};
use punctual::bucket::dump::{Dump, Span};
use punctual::domain::ids::PaymentId;
use punctual::platform::config::{Config, Database, Kafka, Setting};
use punctual::schedule::audit::Window;
use punctual::schedule::{Access, connect};
use sqlx::{Connection, PgConnection};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long the publisher may need to come to the last row.
const SOON: Duration = Duration::from_secs(30);

/// A connection to a test's database, for looking.
pub async fn look(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("the test's database answers")
}

/// The settings of these pairs over the defaults.
pub fn config<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Config {
    let mut config = Config::default();
    for (name, value) in settings {
        let setting = Setting::named(name).unwrap_or_else(|| panic!("no setting {name}"));
        (setting.set)(&mut config, value).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    config
}

/// Reads the database in one snapshot, beside a ledger, the topics and the client's log.
pub async fn read(
    database: &TestDatabase,
    ledger: &[serde_json::Value],
    operations: Vec<Operation>,
    topics: Option<Dump>,
) -> Records {
    let line = |line: &serde_json::Value| -> LedgerLine {
        serde_json::from_value(line.clone()).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let settings = Database { url: database.url.as_str().into(), pool: 2, ..Database::default() };
    let schedule = connect(&settings, Access::Owner).await.expect("the test's database answers");
    let extent = schedule.audit_extent().await.expect("its extent");
    let (from, to) = extent.days.expect("payments");
    let published_to = extent.published_to;
    let is_published = published_to.is_some();
    let written = schedule.audit(Window { from, to, published_to }).await.expect("its rows");
    schedule.close().await;
    Records {
        given: Given { ledger: true, database: true, topics: topics.is_some(), operations: true },
        ledger: ledger.iter().map(line).collect(),
        ledger_read_at: None,
        operations,
        topics: topics.unwrap_or_default(),
        kept: BTreeSet::new(),
        is_published,
        taken_at: written.taken_at,
        payments: written.payments,
        attempts: written.attempts,
        history: written.history,
        keys: written.keys,
        refunds: written.refunds,
        differences: written.differences,
        compared: written.compared,
    }
}

/// Waits until as many different events of these payments are there as there are rows of history, at most
/// 30 s, and gives what the topics hold of them then. Fewer are given where the time is over: that they
/// are too few is for the checks to say. A ring is shared by tests, so what cannot be read is not ours.
pub async fn topics(site: &Installation, ours: BTreeSet<PaymentId>, rows: usize) -> Dump {
    let kafka = Kafka {
        bootstrap_servers: site.kafka().to_owned(),
        topic_prefix: site.setting("kafka.topic_prefix").to_owned(),
        group: site.setting("kafka.group").to_owned(),
        partitions: 2,
        ..Kafka::default()
    };
    let start = Instant::now();
    super::eventually("the events are there, or the time for them is over", SOON * 2, || {
        let (kafka, ours) = (kafka.clone(), ours.clone());
        async move {
            let read = move || Span::take(&kafka, None).and_then(|span| span.read(|id| ours.contains(&id)));
            let mut dump = tokio::task::spawn_blocking(read).await.expect("it reads on").expect("the topics");
            dump.unreadable.clear();
            let different: BTreeSet<_> = dump.events.iter().map(|it| (it.payment, it.sequence)).collect();
            (different.len() >= rows || start.elapsed() > SOON).then_some(dump)
        }
    })
    .await
}
