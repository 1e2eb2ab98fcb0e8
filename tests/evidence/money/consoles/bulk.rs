//! A few hundred parked payments, and two bulk re-drives over all of them, started at once; a keeper and a worker
//! killed in the middle, both stopped, both started again.

use crate::money::told::Told;
use crate::support::cells::rest;
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::people::{Console, DECIDES, New, Said, later, make, shown};
use crate::support::records::look;
use serde_json::Value;
use std::time::Duration;

/// Parked payments.
const PAYMENTS: usize = 300;
/// Payments a second, of each of the two.
const RATE: i64 = 25;
/// Nothing follows a stop for so long.
const QUIET: Duration = Duration::from_secs(2);

const SETTINGS: [(&str, &str); 12] = [
    // Some calls are under way whenever somebody dies.
    ("sandbox.latency", "300ms"),
    ("gateway.total_timeout", "2s"),
    ("gateway.connect_timeout", "1s"),
    ("worker.lease", "6s"),
    ("worker.margin", "1s"),
    ("worker.late_by", "2s"),
    ("keeper.reap_every", "500ms"),
    ("operations.bulk_every", "200ms"),
    ("ladder.reask", "1s"),
    ("ladder.jitter_percent", "0"),
    ("relay.poll", "200ms"),
    ("kafka.session_timeout", "6s"),
];

/// Declined for its only send, and paid by the next one.
const PAYEE: &str = "sim_decline_insufficient_funds|sim_ok";

pub(super) async fn many_are_released_once_by_two_bulks() -> Told {
    let mut told =
        Told::under("Two bulk re-drives over the same payments, stopped, started again, and killed under");
    let mut site = Installation::new(&SETTINGS).await;
    for (role, name) in [
        ("keeper", "keeper-1"),
        ("keeper", "keeper-2"),
        ("api", "api-1"),
        ("api", "api-2"),
        ("relay", "relay-1"),
        ("worker", "worker-1"),
        ("worker", "worker-2"),
    ] {
        site.start(role, name, &[]).await;
    }
    let alice = Console::of(&site, "alice", &DECIDES, "api-1");
    let bob = Console::of(&site, "bob", &DECIDES, "api-2");
    let all = (0..PAYMENTS).map(|_| New { max_sends: 1, ..New::of(PAYEE) }).collect();
    let made = make(&site.client(), "bulk", all).await;
    let ends = rest(&site, &made, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    told.ended("parked", &ends, "parked budget_exhausted", 0);

    let (one, two) = futures_util::join!(
        alice.make_bulk("budget_exhausted", RATE),
        bob.make_bulk("budget_exhausted", RATE)
    );
    let bulks = [one.text("bulkId"), two.text("bulkId")];
    let previewed = [&one, &two].iter().filter(|said| said.body["preview"]["count"] == PAYMENTS).count();
    told.all("made stopped, and previewed exactly", previewed, 2);
    turn_both(&mut told, "both started at once", [&alice, &bob], &bulks, "start").await;
    past(&site, PAYMENTS / 5).await;
    has_calls_under_way(&site, "worker-1").await;
    site.role("worker-1").kill();
    site.role("keeper-1").kill();
    past(&site, PAYMENTS * 2 / 5).await;
    turn_both(&mut told, "both stopped", [&bob, &alice], &bulks, "stop").await;
    let at_the_stop = released(&site).await.0;
    let after_it = later(QUIET, released(&site)).await.0;
    told.holds(
        "released when the stops were answered, and 2 s later",
        format!("{at_the_stop}, {after_it} of {PAYMENTS}"),
        "the same, not all",
        at_the_stop == after_it && at_the_stop > 0 && at_the_stop < PAYMENTS,
    );
    site.start("worker", "worker-3", &[]).await;
    turn_both(&mut told, "both started again", [&alice, &bob], &bulks, "start").await;
    let counted = done(&alice, &bulks).await;
    let redriven = counted.iter().map(|outcomes| outcomes["redriven"].as_u64().unwrap_or(0)).sum::<u64>();
    let all = counted.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    told.all_with("counted as released, by both", &all, usize::try_from(redriven).unwrap_or(0), PAYMENTS);
    let ends = rest(&site, &made, |_, end| end.is_at_rest(), Duration::from_secs(60)).await;
    told.paid_once("paid once", &ends);
    told.none("charged more than once", ends.iter().filter(|end| end.charges > 1).count(), ends.len());
    let (of_them, once) = released(&site).await;
    let shown_as = |all, once| format!("{all}, {once}");
    told.holds(
        "releases on record, and payments released once",
        shown_as(of_them, once),
        &shown_as(PAYMENTS, PAYMENTS),
        (of_them, once) == (PAYMENTS, PAYMENTS),
    );
    told.met("claims that died with their worker", reaped(&site).await);
    told.audited(&site);
    told
}

/// One person turns the one and another the other, at once.
async fn turn_both(told: &mut Told, name: &str, by: [&Console; 2], bulks: &[String; 2], way: &str) {
    let (one, two) = futures_util::join!(by[0].turn_bulk(&bulks[0], way), by[1].turn_bulk(&bulks[1], way));
    let said: [Said; 2] = [one, two];
    let turned = said.iter().filter(|said| said.status == 200).count();
    told.all_with(name, &shown(&said), turned, said.len());
}

/// Releases on record, and payments that were released exactly once.
async fn released(site: &Installation) -> (usize, usize) {
    let (all, once): (i64, i64) = sqlx::query_as(
        "SELECT coalesce(sum(n), 0)::bigint, count(*) FILTER (WHERE n = 1)
         FROM (SELECT count(*) AS n FROM payment_history WHERE cause = 'redriven' GROUP BY payment_id) AS t",
    )
    .fetch_one(&mut look(&site.database.url).await)
    .await
    .expect("the database answers");
    (usize::try_from(all).expect("a count"), usize::try_from(once).expect("a count"))
}

/// Waits until so many are released.
async fn past(site: &Installation, many: usize) {
    eventually(&format!("{many} are released"), Duration::from_secs(60), || async {
        (released(site).await.0 >= many).then_some(())
    })
    .await;
}

/// Waits until this worker has claims in hand.
async fn has_calls_under_way(site: &Installation, worker: &str) {
    let of_it = format!("{worker}/%");
    eventually(&format!("{worker} has calls under way"), Duration::from_secs(30), || async {
        let held: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM payments p JOIN attempts a ON a.claim_id = p.claim_id
             WHERE p.status = 'PROCESSING' AND a.worker LIKE $1",
        )
        .bind(&of_it)
        .fetch_one(&mut look(&site.database.url).await)
        .await
        .expect("a count");
        (held > 2).then_some(())
    })
    .await;
}

/// Waits until both are done; what each counted.
async fn done(console: &Console, bulks: &[String; 2]) -> Vec<Value> {
    let mut counted = Vec::new();
    for bulk in bulks {
        let path = format!("/v1/ops/bulk-redrives/{bulk}");
        let body = eventually("a bulk re-drive is done", Duration::from_secs(60), || async {
            let said = console.get(&path).await;
            (said.body["status"] == "done").then_some(said.body)
        })
        .await;
        counted.push(body["outcomes"].clone());
    }
    counted
}

/// Claims whose worker never answered.
async fn reaped(site: &Installation) -> usize {
    let reaped: i64 = sqlx::query_scalar(
        "SELECT count(DISTINCT payment_id) FROM payment_history WHERE cause = 'lease_expired'",
    )
    .fetch_one(&mut look(&site.database.url).await)
    .await
    .expect("a count");
    usize::try_from(reaped).expect("a count")
}
