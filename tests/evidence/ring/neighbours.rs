//! A gateway that takes five seconds beside one that answers at once, in one worker: the fast one is as
//! punctual as alone. Both halves are measured in turns on the same machine, so that its noise does not
//! decide.

use crate::figures::{Figures, Holds};
use crate::support::crowds::{One, create, first_requests, lateness, percentile, spread};
use crate::support::eventually;
use crate::support::installation::{Client, Installation};
use chrono::{TimeDelta, Utc};
use punctual::bucket::{Names, Patience, Ring};
use punctual::domain::ids::WorkerName;
use punctual::domain::retry::Ladders;
use punctual::gateway::{self, Gateway};
use punctual::platform::clock::{Host, SharedClock};
use punctual::platform::config::{Config, Database, Gateway as Settings, Kafka, Worker as WorkerSettings};
use punctual::platform::dice::Os;
use punctual::schedule::{self, Access, Postgres};
use punctual::worker::{Parts, PostgresStore, Worker};
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Turns of each half.
const PAIRS: usize = 5;
/// Payments of the fast gateway a turn, fifty a second.
const FAST: i32 = 300;
/// Payments of the slow one beside them, in the same six seconds.
const SLOW: i32 = 900;
/// Notices that the worker holds at most: room for what falls due in a quarter of a minute, and less than the
/// slow gateway has waiting from the beginning.
const HOLD: usize = 3_000;
/// Payments of the slow gateway before the first turn.
const CROWD: i32 = 6_000;
/// What a machine's own noise may add, in ms.
const NOISE_MS: i64 = 10;

/// An installation whose one worker serves both gateways; it runs in this process, since a process of its
/// own is configured for one.
struct Half {
    site: Installation,
    fast: Client,
    slow: Client,
    stop: Option<oneshot::Sender<()>>,
    works: JoinHandle<()>,
    schedule: Postgres,
}

impl Half {
    async fn new(slot: &str) -> Self {
        let mut site = Installation::new(&[]).await;
        let slow_ledger = format!("{}.slow", site.setting("sandbox.ledger"));
        let slow = [("sandbox.latency", "5s"), ("sandbox.ledger", slow_ledger.as_str())];
        site.start("sandbox", "slow-sandbox", &slow).await;
        site.start("keeper", "keeper-1", &[]).await;
        site.start("relay", "relay-1", &[]).await;
        site.start("api", "api-1", &[]).await;
        let fast = site.client();
        site.start("api", "api-2", &[("gateway.name", "slow")]).await;
        let slow = site.client_of("api-2");
        let (stop, stopped) = oneshot::channel();
        let (worker, schedule) = worker(&site, slot).await;
        let works = tokio::spawn(async move {
            let ended = worker.run(async move { drop(stopped.await) }).await;
            println!("  the worker ended: {ended:?}");
        });
        Self { site, fast, slow, stop: Some(stop), works, schedule }
    }

    /// One turn: how late its fast payments were, in ms.
    async fn turn(&self, name: &str, beside: i32, count: i32) -> Vec<i64> {
        let start = Utc::now() + TimeDelta::seconds(10);
        let step = |count: i32| TimeDelta::milliseconds(6_000 / i64::from(count.max(1)));
        let (slow_name, fast_name) = (format!("{name}-slow"), format!("{name}-fast"));
        let slow = create(&self.slow, &slow_name, spread(start, beside, step(beside)));
        let fast = create(&self.fast, &fast_name, spread(start, count, step(count)));
        let (_slow, fast): (Vec<One>, Vec<One>) = futures_util::join!(slow, fast);
        eventually("the fast ones are asked for", Duration::from_secs(60), || async {
            lateness(&first_requests(&self.site.ledger().await), &fast)
        })
        .await
    }

    async fn end(mut self) {
        drop(self.stop.take());
        self.works.await.expect("the worker ends");
        self.schedule.close().await;
    }
}

async fn worker(site: &Installation, slot: &str) -> (Worker<Postgres>, Postgres) {
    let clock: SharedClock = Arc::new(Host);
    let database = Database { url: site.setting("database.url").into(), ..Database::default() };
    let schedule = schedule::connect(&database, Access::Worker).await.expect("the database");
    let mut gateways: Vec<Arc<dyn Gateway>> = Vec::new();
    for (name, sandbox, calls) in [("sandbox", "sandbox-1", 64), ("slow", "slow-sandbox", 16)] {
        let url = site.url(sandbox).to_owned();
        let settings = Settings { name: name.into(), url, max_in_flight: calls, ..Settings::default() };
        let gateway = gateway::connect(&settings, clock.clone()).expect("settings");
        let profile = gateway.profile();
        let known = schedule.register_gateway(&profile.name, &profile.account, profile.void_support()).await;
        known.expect("registered");
        gateways.push(Arc::new(gateway));
    }
    let kafka = Kafka {
        bootstrap_servers: site.kafka().into(),
        topic_prefix: site.setting("kafka.topic_prefix").into(),
        group: site.setting("kafka.group").into(),
        partitions: 2,
        ..Config::default().kafka
    };
    let names = Names::new(&kafka.topic_prefix);
    let (joining, slot) = (clock.clone(), slot.to_owned());
    let parts = Parts {
        settings: WorkerSettings { max_held: HOLD, ..WorkerSettings::default() },
        ladders: Ladders::default(),
        name: WorkerName(format!("{slot}/1")),
        schedule: Arc::new(schedule.clone()),
        store: Arc::new(PostgresStore { schedule: schedule.clone(), names }),
        gateways,
        clock,
        dice: Arc::new(Os),
        join: Box::new(move || {
            let ring = Ring::join(&kafka, &slot, HOLD / 16, joining.clone(), &Patience::default());
            Box::pin(async { ring.map_err(|error| error.to_string()) })
        }),
    };
    (Worker::new(parts).0, schedule)
}

/// Alone and beside, in turns.
pub async fn a_slow_gateway_slows_no_other(figures: &mut Figures) {
    figures.part("A gateway of 5 s a call beside a fast one, in one worker with a hold for 3,000 notices");
    let (alone, beside) = (Half::new("alone").await, Half::new("beside").await);
    let (mut of_alone, mut of_beside) = (Vec::new(), Vec::new());
    // A worker that has just joined the group is not what is measured.
    let _warm = alone.turn("first", 0, 50).await;
    let first = sorted(&beside.turn("first", CROWD, 50).await);
    println!("  while the crowd of {CROWD} arrives: p99 {} ms beside", percentile(&first, 99));
    for pair in 0..PAIRS {
        let by_itself = alone.turn(&format!("alone-{pair}"), 0, FAST).await;
        let not_alone = beside.turn(&format!("beside-{pair}"), SLOW, FAST).await;
        let p99 = |late: &[i64]| percentile(&sorted(late), 99);
        println!("  turn {pair}: p99 {} ms alone, {} ms beside", p99(&by_itself), p99(&not_alone));
        of_alone.extend(by_itself);
        of_beside.extend(not_alone);
    }
    let (of_alone, of_beside) = (sorted(&of_alone), sorted(&of_beside));
    let told = |late: &[i64]| {
        let (p50, p99) = (percentile(late, 50), percentile(late, 99));
        format!("p50 {p50}, p99 {p99}, most {} ms of {}", late[late.len() - 1], late.len())
    };
    let early = of_alone[0].min(of_beside[0]) < 0;
    figures.holds("the fast one alone", told(&of_alone), "none early", Holds(!early));
    let (p99_alone, p99_beside) = (percentile(&of_alone, 99), percentile(&of_beside, 99));
    let most = p99_alone + (p99_alone / 10).max(NOISE_MS);
    let holds = Holds(p99_beside <= most);
    figures.holds(
        "the fast one beside the slow one",
        told(&of_beside),
        &format!("p99 at most {most} ms"),
        holds,
    );
    let waiting = waiting(&beside.site).await;
    let bound = format!("more than {HOLD}, the hold");
    figures.holds("notices of the slow one that wait at the end", waiting, &bound, Holds(waiting > HOLD));
    alone.end().await;
    beside.end().await;
}

fn sorted(late: &[i64]) -> Vec<i64> {
    let mut late = late.to_vec();
    late.sort_unstable();
    late
}

/// Payments of the slow gateway that are due and were not asked for.
async fn waiting(site: &Installation) -> usize {
    let due = "SELECT count(*) FROM payments WHERE gateway = 'slow' AND status = 'PENDING' AND next_attempt_at < now()";
    let options: PgConnectOptions = site.database.url.parse().expect("a URL");
    let mut session = options.connect().await.expect("a session");
    let count: i64 = sqlx::query_scalar(due).fetch_one(&mut session).await.expect("the database answers");
    usize::try_from(count).expect("a count")
}
