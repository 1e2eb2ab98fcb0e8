//! One account's rate, slots and breaker in Postgres, as several workers share them: real beats on the
//! database's clock.

use super::world::World;
use crate::support::eventually;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use punctual::domain::facts::VoidSupport;
use punctual::domain::ids::{GatewayName, WorkerName};
use punctual::domain::pace::{Beat, Breaker, Call, Gate, Grant, Probed, Reserved, Seen, Terms};
use punctual::schedule::Postgres;
use sqlx::Executor;
use std::time::Duration;

fn terms(rate: u32) -> Terms {
    let (longest_pause, probe_lease) = (Duration::from_secs(60), Duration::from_secs(30));
    Terms { rate, lookup_share: 10, in_flight: 0, longest_pause, probe_lease }
}

pub fn beat(worker: &str, demand: u32) -> Beat {
    Beat {
        worker: WorkerName(worker.into()),
        demand,
        wants: demand,
        held: 0,
        lookups: 0,
        in_use: 0,
        may_use: 0,
        returned: 0,
        seen: Seen::default(),
        probe: None,
        cause: None,
    }
}

fn saw(worker: &str, calls: &[Call]) -> Beat {
    let mut seen = Seen::default();
    calls.iter().for_each(|call| seen.add(*call));
    Beat { seen, ..beat(worker, 1) }
}

pub async fn tell(schedule: &Postgres, terms: &Terms, beat: &Beat) -> Grant {
    schedule.beat_gateway(&GatewayName("sandbox".into()), terms, beat).await.expect("an answer")
}

#[tokio::test]
async fn of_workers_that_start_at_once_each_learns_the_account_on_record() {
    let world = World::new().await;
    let name = GatewayName("sandbox".into());
    let mut other = world.sql().await;
    other.execute("BEGIN").await.expect("a transaction");
    let first = "INSERT INTO gateways (name, account, voids_by_key) VALUES ('sandbox', 'account-1', true)";
    other.execute(first).await.expect("written, and not committed");
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let same = world.worker.register_gateway(&name, "account-1", VoidSupport::ByKey);
    let different = world.worker.register_gateway(&name, "account-2", VoidSupport::None);
    let (same, different, ()) = tokio::join!(same, different, async {
        eventually("both wait for the first", Duration::from_secs(10), || async {
            (world.one::<i64>(waiting).await > 1).then_some(())
        })
        .await;
        other.execute("COMMIT").await.expect("committed");
    });
    assert_eq!(same.expect("an answer"), "account-1");
    assert_eq!(different.expect("an answer"), "account-1");
    assert!(world.one::<bool>("SELECT voids_by_key FROM gateways").await, "another account has no say");
}

#[tokio::test]
async fn of_many_beats_at_the_same_instant_no_two_are_given_the_same_time() {
    let world = World::new().await;
    let terms = terms(1_000);
    let began: DateTime<Utc> = world.worker.database_now().await.expect("a clock");
    let mut windows: Vec<Reserved> = Vec::new();
    for _ in 0..10 {
        let names: Vec<String> = (0..6).map(|n| format!("w{n}")).collect();
        let beats = names.iter().map(|name| {
            let beat = beat(name, 100);
            let (schedule, terms) = (&world.worker, &terms);
            async move { tell(schedule, terms, &beat).await.charges }
        });
        windows.extend(join_all(beats).await.into_iter().flatten());
    }
    windows.sort_by_key(|window| window.from);
    assert!(windows.len() >= 60, "{}", windows.len());
    for pair in windows.windows(2) {
        assert!(pair[0].until <= pair[1].from, "{pair:?}");
    }
    let calls: u32 = windows.iter().map(|window| window.calls).sum();
    // A millisecond a call, but for the moment that was free before.
    let ends = windows.iter().map(|window| window.until).max().expect("some");
    let least = began + TimeDelta::milliseconds(i64::from(calls) - 150);
    assert!(ends >= least, "{calls} calls until {ends}, {least} at the earliest");
    assert!(windows[0].from >= began);
    let beats: i64 = world.one("SELECT beats FROM gateway_pace WHERE gateway = 'sandbox'").await;
    assert_eq!(beats, 60, "each beat saw all before it");
}

#[tokio::test]
async fn a_well_account_without_limits_costs_one_read_and_no_write() {
    let world = World::new().await;
    let terms = terms(0);
    tell(&world.worker, &terms, &beat("w1", 9)).await;
    let version = "SELECT xmin::text FROM gateway_pace";
    let before: String = world.one(version).await;
    for _ in 0..5 {
        let grant = tell(&world.worker, &terms, &beat("w1", 9)).await;
        assert_eq!((grant.gate, grant.charges, grant.slots, grant.rate), (Gate::Open, None, None, 0));
    }
    assert_eq!(before, world.one::<String>(version).await);
    // Calls are counted, so that who fails among many who succeed opens nothing.
    tell(&world.worker, &terms, &saw("w1", &[Call::Answered; 40])).await;
    let grant = tell(&world.worker, &terms, &saw("w2", &[Call::Failed; 12])).await;
    assert_eq!(grant.gate, Gate::Open, "twelve of 52");
}

#[tokio::test]
async fn all_workers_see_the_breaker_open_and_one_of_them_wins_the_probe() {
    let world = World::new().await;
    let terms = terms(0);
    let cause = || async {
        let standings = world.worker.gateways().await.expect("the accounts");
        standings[0].pace.clone().expect("it was beaten").cause
    };
    let sandbox = GatewayName("sandbox".into());
    world.worker.register_gateway(&sandbox, "account-1", VoidSupport::None).await.expect("an account");
    let failed = Beat { cause: Some("a server error (HTTP 503)".into()), ..saw("w1", &[Call::Failed; 10]) };
    let opened = tell(&world.worker, &terms, &failed).await;
    assert!(matches!(opened.became, Some(Breaker::Open { .. })), "{opened:?}");
    assert_eq!(cause().await.as_deref(), Some("a server error (HTTP 503)"));
    let names: Vec<String> = (0..8).map(|n| format!("w{n}")).collect();
    let ask = || async {
        let beats = names.iter().map(|name| {
            let beat = beat(name, 5);
            let (schedule, terms) = (&world.worker, &terms);
            async move { tell(schedule, terms, &beat).await.gate }
        });
        join_all(beats).await
    };
    assert_eq!(ask().await, [Gate::Broken; 8]);
    let gates = eventually("a probe", Duration::from_secs(20), || async {
        let gates = ask().await;
        gates.contains(&Gate::Probe).then_some(gates)
    });
    let gates = gates.await;
    assert_eq!(gates.iter().filter(|gate| **gate == Gate::Probe).count(), 1, "{gates:?}");
    let winner = gates.iter().position(|gate| *gate == Gate::Probe).expect("one");
    let prober: String = world.one("SELECT prober FROM gateway_pace").await;
    assert_eq!(prober, names[winner]);
    assert_eq!(ask().await, [Gate::Broken; 8], "until it is known how that ended");
    let answered = Beat { probe: Some(Probed::Answered), ..beat(&names[winner], 5) };
    assert_eq!(tell(&world.worker, &terms, &answered).await.became, Some(Breaker::Closed));
    assert_eq!((ask().await, cause().await), (vec![Gate::Open; 8], None));
}

#[tokio::test]
async fn a_pause_a_halved_rate_and_a_share_of_slots_are_what_the_next_worker_reads() {
    let world = World::new().await;
    let terms = Terms { in_flight: 10, ..terms(100) };
    assert_eq!(tell(&world.worker, &terms, &beat("w1", 50)).await.slots, Some(10));
    let limited = saw("w1", &[Call::RateLimited(Some(Duration::from_millis(700)))]);
    let paused = tell(&world.worker, &terms, &limited).await;
    assert_eq!(paused.rate, 50);
    let Gate::Paused(until) = tell(&world.worker, &terms, &beat("w2", 50)).await.gate else {
        panic!("the account is paused")
    };
    let open = eventually("the pause to end", Duration::from_secs(20), || async {
        let grant = tell(&world.worker, &terms, &beat("w2", 50)).await;
        (grant.gate == Gate::Open).then_some(grant)
    });
    let open = open.await;
    assert!(open.now >= until && open.charges.is_some(), "{open:?}");
    assert!((50..100).contains(&open.rate), "{open:?}");
    assert!(open.slots.expect("a share") < 10);
}
