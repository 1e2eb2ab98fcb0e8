//! Relays that share one ring's shards, on real Postgres: nobody ever has what another has.

use super::world::World;
use crate::support::eventually;
use chrono::TimeDelta;
use futures_util::future::join_all;
use punctual::bucket::{Envelope, NotAcknowledged};
use punctual::platform::clock::Host;
use punctual::platform::shutdown::{Shutdown, Trigger};
use punctual::relay::{self, Publisher, Relay, Terms};
use punctual::schedule::{Schedule, ScheduleError, ShardLease, Shards, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(30);
const LENGTH: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 12;

#[tokio::test]
async fn of_many_that_want_a_shard_at_the_same_instant_one_gets_it_and_only_the_newest_may_mark() {
    let world = World::new().await;
    let notice = world.due("k1").await;
    let mut every: Vec<ShardLease> = Vec::new();
    for epoch in 1..=5 {
        let names: Vec<String> = (0..8).map(|n| format!("r{n}")).collect();
        let wants = names.iter().map(|name| world.worker.acquire_shards(name, PARTITIONS, 12, LENGTH));
        let got: Vec<ShardLease> =
            join_all(wants).await.into_iter().flat_map(|got| got.expect("an answer")).collect();
        let residues: Vec<i32> = got.iter().map(|lease| lease.residue).collect();
        assert_eq!(residues.iter().collect::<BTreeSet<_>>().len(), residues.len(), "taken twice: {got:?}");
        assert!(got.iter().all(|lease| lease.epoch == epoch), "{got:?}");
        // One that is just being taken is left out by the others, not waited for.
        for lease in world.worker.acquire_shards("last", PARTITIONS, 12, LENGTH).await.expect("an answer") {
            assert!(!residues.contains(&lease.residue), "{lease:?}");
            every.push(lease);
        }
        every.extend(got);
        world.run("UPDATE relay_shards SET until = '-infinity'").await;
    }
    assert_eq!(every.len(), 5 * 12);
    let shard = i32::from(punctual::domain::bucket::shard(notice.payment));
    let holders = every.iter().filter(|lease| shard % PARTITIONS == lease.residue);
    let lead = Duration::from_secs(90);
    let newest = holders.clone().max_by_key(|lease| lease.epoch).expect("held five times");
    let staged = world.worker.stage(newest, lead, 10).await.expect("staged");
    assert_eq!(staged.notices.len(), 1);
    let marks = join_all(holders.map(|lease| world.worker.mark(lease, &staged.notices))).await;
    let mut marked: Vec<bool> = marks.into_iter().map(|marked| marked.expect("an answer")).collect();
    marked.sort_unstable();
    assert_eq!(marked, [false, false, false, false, true]);
}

#[tokio::test]
async fn a_relay_stands_behind_those_that_were_here_before_it_and_goes_at_once_or_with_its_lease() {
    let world = World::new().await;
    let enlist = |name: &'static str| world.worker.enlist_relay(name, PARTITIONS, LENGTH);
    let stands = |others, older| Standing { others, older };
    assert_eq!(enlist("c").await.expect("enlisted"), stands(0, 0));
    assert_eq!(enlist("b").await.expect("enlisted"), stands(1, 1));
    assert_eq!(enlist("a").await.expect("enlisted"), stands(2, 2));
    assert_eq!(enlist("c").await.expect("enlisted"), stands(2, 0), "the oldest, whatever its name");
    assert_eq!(
        world.worker.enlist_relay("c", 2, LENGTH).await.expect("enlisted"),
        stands(0, 0),
        "another ring"
    );

    let shards = world.worker.acquire_shards("c", PARTITIONS, 4, LENGTH).await.expect("an answer");
    world.worker.retire_relay("c", PARTITIONS, &shards).await.expect("gone");
    assert_eq!(enlist("a").await.expect("enlisted"), stands(1, 1));
    assert_eq!(world.worker.acquire_shards("a", PARTITIONS, 12, LENGTH).await.expect("an answer").len(), 12);
    assert!(world.worker.renew_shards(&shards, LENGTH).await.expect("an answer").is_empty());

    world.run("UPDATE relays SET until = now() - interval '1 s' WHERE holder = 'b'").await;
    assert_eq!(enlist("a").await.expect("enlisted"), stands(0, 0), "dead with its lease");
    assert_eq!(enlist("b").await.expect("enlisted"), stands(1, 1), "and younger than it was");
    world.run("UPDATE relays SET until = now() - interval '2 h' WHERE holder = 'b'").await;
    enlist("a").await.expect("enlisted");
    assert_eq!(world.one::<i64>("SELECT count(*) FROM relays WHERE holder = 'b'").await, 0);
}

#[tokio::test]
async fn a_renewal_on_its_way_does_not_bring_back_what_was_given_to_another() {
    let world = World::new().await;
    let ours = world.worker.acquire_shards("r1", 1, 1, LENGTH).await.expect("acquired");
    world.worker.release_shards(&ours).await.expect("released");
    assert!(world.worker.renew_shards(&ours, LENGTH).await.expect("an answer").is_empty());
    let theirs = world.worker.acquire_shards("r2", 1, 1, LENGTH).await.expect("acquired");
    assert_eq!(theirs[0].epoch, ours[0].epoch + 1);
}

/// Who published which notice, and under which epoch of which shard.
#[derive(Default)]
struct Log(Mutex<Vec<(String, i32, i64, i64)>>);

struct Writer {
    holder: String,
    log: Arc<Log>,
    /// Of this residue Kafka acknowledges nothing and refuses nothing.
    hangs: Option<i32>,
}

impl Publisher for Writer {
    async fn publish(&self, batch: &[Envelope]) -> Result<(), NotAcknowledged> {
        if batch.iter().any(|it| Some(it.residue) == self.hangs) {
            return std::future::pending().await;
        }
        let lines = batch.iter().map(|it| (self.holder.clone(), it.residue, it.epoch, it.staged.notice_id));
        self.log.0.lock().expect("no panic").extend(lines);
        Ok(())
    }
}

/// A relay in this process; aborting its task is its sudden death.
fn start(
    world: &World,
    holder: &str,
    log: &Arc<Log>,
    hangs: Option<i32>,
) -> (Trigger, JoinHandle<Result<(), ScheduleError>>) {
    let (trigger, shutdown) = Shutdown::manual();
    let poll = Duration::from_millis(200);
    let relay = Relay {
        holder: holder.to_owned(),
        partitions: PARTITIONS,
        shard_lease: Duration::from_secs(8),
        terms: Terms { lead: SOON, guard: Duration::from_secs(15), batch: 100, poll },
        clock: Arc::new(Host),
    };
    let writer = Writer { holder: holder.to_owned(), log: Arc::clone(log), hangs };
    let schedule = world.worker.clone();
    (trigger, tokio::spawn(async move { relay::run(&relay, &schedule, &writer, &shutdown).await }))
}

/// Waits until the living hold so many shards each, and all together hold all.
async fn until_shared(world: &World, wanted: &[(&str, i64)]) {
    let wanted: BTreeMap<String, i64> =
        wanted.iter().map(|(holder, count)| ((*holder).to_owned(), *count)).collect();
    eventually(&format!("{wanted:?}"), SOON, || async {
        let held: Vec<(String, i64)> = sqlx::query_as(
            "SELECT holder, count(*) FROM relay_shards WHERE until > clock_timestamp() GROUP BY holder",
        )
        .fetch_all(&mut world.sql().await)
        .await
        .expect("an answer");
        (held.into_iter().collect::<BTreeMap<_, _>>() == wanted).then_some(())
    })
    .await;
}

async fn create(world: &World, name: &str) {
    let due_at = world.now().await + TimeDelta::seconds(10);
    for n in 0..24 {
        world.create(&world.payment(&format!("{name}-{n}"), due_at)).await;
    }
}

#[tokio::test]
async fn relays_that_come_go_and_die_share_all_shards_evenly_and_no_epoch_has_two_writers() {
    let world = World::new().await;
    let log = Arc::new(Log::default());
    let (stop_a, a) = start(&world, "a", &log, None);
    until_shared(&world, &[("a", 12)]).await;
    create(&world, "one").await;
    let (_stop_b, b) = start(&world, "b", &log, None);
    create(&world, "two").await;
    until_shared(&world, &[("a", 6), ("b", 6)]).await;
    let (_stop_c, _c) = start(&world, "c", &log, None);
    create(&world, "three").await;
    until_shared(&world, &[("a", 4), ("b", 4), ("c", 4)]).await;
    stop_a.stop();
    create(&world, "four").await;
    a.await.expect("no panic").expect("no defect");
    until_shared(&world, &[("b", 6), ("c", 6)]).await;
    create(&world, "five").await;
    eventually("everything is marked", SOON, || async {
        (world.one::<i64>("SELECT count(*) FROM due_notices").await == 0).then_some(())
    })
    .await;
    let mut ids: Vec<i64> = log.0.lock().expect("no panic").iter().map(|line| line.3).collect();
    ids.sort_unstable();
    let published = ids.len();
    ids.dedup();
    assert_eq!((ids.len(), published), (120, 120), "who gives a shard back ends its pass first");

    b.abort();
    create(&world, "six").await;
    until_shared(&world, &[("c", 12)]).await;
    eventually("everything is marked", SOON, || async {
        (world.one::<i64>("SELECT count(*) FROM due_notices").await == 0).then_some(())
    })
    .await;
    let log = log.0.lock().expect("no panic");
    let mut writers: BTreeMap<(i32, i64), BTreeSet<&str>> = BTreeMap::new();
    for (holder, residue, epoch, _) in log.iter() {
        writers.entry((*residue, *epoch)).or_default().insert(holder);
    }
    assert!(writers.values().all(|holders| holders.len() == 1), "{writers:?}");
    let busy: BTreeSet<&str> = log.iter().map(|line| line.0.as_str()).collect();
    assert_eq!(busy.len(), 3, "each of them published: {busy:?}");
    assert_eq!(log.iter().map(|line| line.3).collect::<BTreeSet<_>>().len(), 144);
}

#[tokio::test]
async fn a_partition_that_kafka_does_not_take_keeps_no_other_one_waiting() {
    let world = World::new().await;
    let log = Arc::new(Log::default());
    let (_stop, _relay) = start(&world, "a", &log, Some(3));
    until_shared(&world, &[("a", 12)]).await;
    let stuck = "SELECT count(*) FROM due_notices WHERE shard % 12 = 3";
    let of_others = "SELECT count(*) FROM due_notices WHERE shard % 12 <> 3";
    let mut rounds_after = 0;
    for round in 0.. {
        create(&world, &format!("round-{round}")).await;
        eventually("the others are marked", Duration::from_secs(15), || async {
            (world.one::<i64>(of_others).await == 0).then_some(())
        })
        .await;
        // Which shard a payment is in is chance.
        rounds_after += i32::from(world.one::<i64>(stuck).await > 0);
        if rounds_after == 2 {
            return;
        }
    }
}
