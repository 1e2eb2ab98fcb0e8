//! What single verbs and batches cost with a year of partitions, without Kafka and without a gateway.
//! `-- statements` runs it; the figures mean something on a cluster with fsync on, as `make bench` starts.

use super::world::{World, completed, fresh, new_payment, notice, settings, terms};
use chrono::{DateTime, TimeDelta, Utc};
use punctual::domain::notice::Notice;
use punctual::schedule::{Access, ClaimAnswer, CreateAnswer, Postgres, Schedule, connect};
use std::time::{Duration, Instant};

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

const BATCH: usize = 200;

/// Prints the figures.
pub async fn batches_of_200_with_a_year_of_partitions() {
    let world = World::new().await;
    world.worker.ensure_partitions(2, 370).await.expect("made");
    // A Unix socket shows the database's own time; `MEASURE_URL` is a URL that ends in its `host=`.
    let name = world.database.url.rsplit('/').next().and_then(|name| name.split('?').next()).expect("a name");
    let url = std::env::var("MEASURE_URL")
        .map_or_else(|_| world.database.url.clone(), |base| format!("{base}&dbname={name}"));
    let api = connect(&settings(&url), Access::Api).await.expect("the API connects");
    let worker = connect(&settings(&url), Access::Worker).await.expect("a worker connects");
    let secret = *api.installation_secret();
    let due_at = world.now().await - TimeDelta::seconds(1);

    let mut notices: Vec<Notice> = Vec::new();
    let mut single = Vec::new();
    for n in 0..500 {
        let new = new_payment(&secret, &format!("s{n}"), due_at);
        let start = Instant::now();
        let made = api.create(&new).await.expect("created");
        single.push(start.elapsed());
        let CreateAnswer::Created(view) = made else { panic!("created") };
        notices.push(notice(&view.payment));
    }
    println!("create, one at a time: median {:?}", median(single));
    notices.extend(six_at_a_time(&api, due_at).await);

    let (mut claims, mut settles) = (Vec::new(), Vec::new());
    for batch in notices.chunks_exact(BATCH) {
        let ids = fresh(BATCH);
        let start = Instant::now();
        let answers = worker.claim(&terms(), batch, &ids).await.expect("claimed");
        claims.push(start.elapsed());
        let outcomes: Vec<_> = answers
            .into_iter()
            .map(|answer| match answer {
                ClaimAnswer::Claimed(claimed) => {
                    let reference = claimed.payment().id.to_string();
                    completed(*claimed, &reference)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let start = Instant::now();
        let settled = worker.settle(outcomes).await.map_err(|failed| failed.error).expect("settled");
        settles.push(start.elapsed());
        assert_eq!(settled.len(), BATCH);
    }
    println!("claim of {BATCH}: median {:?} of {}", median(claims.clone()), claims.len());
    println!("settle of {BATCH}: median {:?}", median(settles));
    let start = Instant::now();
    let late =
        worker.claim_late(&terms(), Duration::from_secs(15), &[], &fresh(BATCH)).await.expect("an answer");
    println!("late scan that finds {}: {:?}", late.len(), start.elapsed());
    let start = Instant::now();
    worker.reap(Duration::from_secs(5), 500).await.expect("an answer");
    println!("reap that finds nothing: {:?}", start.elapsed());
}

async fn six_at_a_time(api: &Postgres, due_at: DateTime<Utc>) -> Vec<Notice> {
    let secret = *api.installation_secret();
    let mut notices = Vec::new();
    let start = Instant::now();
    let tasks = (0..6).map(|lane| {
        let api = api.clone();
        tokio::spawn(async move {
            let mut made = Vec::new();
            for n in 0..500 {
                let new = new_payment(&secret, &format!("c{lane}-{n}"), due_at);
                let CreateAnswer::Created(view) = api.create(&new).await.expect("created") else {
                    panic!("created")
                };
                made.push(notice(&view.payment));
            }
            made
        })
    });
    for made in futures_util::future::join_all(tasks).await {
        notices.extend(made.expect("no panic"));
    }
    println!("create, six at a time: {} in {:?}", 3_000, start.elapsed());
    notices
}
