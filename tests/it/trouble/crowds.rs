//! A crowd at a gateway that takes less than is due: whose payments wait.

use super::{in_ms, running, seconds};
use crate::support::crowds::{create, first_requests, lateness, spread, time_to_create, until};
use crate::support::eventually;
use chrono::TimeDelta;

/// Six calls at once, of 75 ms each: eighty a second at most.
const NARROW: [(&str, &str); 2] = [("gateway.max_in_flight", "6"), ("sandbox.latency", "75ms")];
/// Fifteen seconds of it.
const CROWD: i32 = 1_200;

#[tokio::test]
async fn one_actor_s_crowd_does_not_keep_another_s_ten_waiting() {
    let site = running(&NARROW).await;
    let (many, few) = (site.client(), site.client().with_key(&site.new_api_key("another")));
    let due = in_ms(0) + time_to_create(&many, CROWD).await;
    let few = create(&few, "few", vec![due + TimeDelta::seconds(3); 10]).await;
    let crowd = create(&many, "crowd", spread(due, CROWD, TimeDelta::zero())).await;
    let first = eventually("the ten are asked for", until(due, seconds(60)), || async {
        let first = first_requests(&site.ledger().await);
        lateness(&first, &few).map(|_| first)
    })
    .await;
    let late = lateness(&first, &few).expect("all were asked for");
    let last = few.iter().map(|one| first[&one.id]).max().expect("ten");
    let of_crowd = crowd.iter().filter_map(|one| first.get(&one.id));
    let (before, meanwhile) = of_crowd
        .filter(|at| **at < last)
        .fold((0, 0), |(before, meanwhile), at| (before + 1, meanwhile + usize::from(*at >= few[0].due_at)));
    assert!(before < crowd.len() * 3 / 4, "the crowd was no crowd any more: {before} of {CROWD} were gone");
    assert!(late[0] >= 0, "early, in ms: {late:?}");
    // In turns: as many of the crowd as of the ten, and what was in flight. How long that takes is the
    // machine's affair.
    assert!(meanwhile <= 80, "{meanwhile} of the crowd went before the last of the ten, in ms: {late:?}");
}
